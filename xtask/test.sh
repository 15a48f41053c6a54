#!/usr/bin/env bash
# Every test, once. Tests of the live machine share its disks and processors with whatever else runs there, so up to three
# that fail are run again, alone: what fails twice fails, and what passes then is named as such in the last lines.
set -uo pipefail
: "${CARGO:=cargo}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
all=("$CARGO" test --release --workspace --locked)
"${all[@]}" --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
[ "$status" -ne 0 ] || exit 0
mapfile -t failed < <(sed -nE 's/^test (.*) \.\.\. FAILED( .*)?$/\1/p' "$log" | sort -u)
if [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt 3 ]; then exit "$status"; fi
echo "run again, alone: ${failed[*]}"
"${all[@]}" -- --test-threads 1 --exact "${failed[@]}" 2>&1 | tee "$log" || exit 1
passed=$(grep -cE '^test .* \.\.\. ok$' "$log")
if [ "$passed" -lt "${#failed[@]}" ]; then
    echo "only $passed of ${#failed[@]} were run again" >&2
    exit 1
fi
echo "failed once and passed alone (look into them): ${failed[*]}"
