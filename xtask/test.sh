#!/usr/bin/env bash
# Every test, once. Tests of the live machine have it one at a time and mostly wait, so all others run beside them; the examples of texts wait
# for it, too, and would keep others from running. They share its disks and
# processors with whatever else runs there, so up to three tests that fail are run again, alone: what fails twice fails, and what passes then
# is named as such in the last lines.
set -uo pipefail
: "${CARGO:=cargo}"
work=$(mktemp -d)
beside=
trap '[ -z "$beside" ] || kill "$beside" 2>/dev/null; rm -rf "$work"' EXIT
run() { "$CARGO" test --release --workspace --locked --no-fail-fast "$@"; }
# What failed tests said, once more: whoever sees only the end of the output sees why.
why() { sed -n '/^failures:$/,/^test result/p' "$@" >&2; }
run --no-run || exit
run --tests -- --test-threads 1 live:: examples:: >"$work/live" 2>&1 &
beside=$!
status=0
run --tests -- --skip live:: --skip examples:: 2>&1 | tee "$work/others" || status=1
wait "$beside" || status=1
beside=
cat "$work/live"
run --doc 2>&1 | tee "$work/doc" || status=1
[ "$status" -ne 0 ] || exit 0
mapfile -t failed < <(sed -nE 's/^test (.*) \.\.\. FAILED( .*)?$/\1/p' "$work"/* | sort -u)
if [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt 3 ]; then
    why "$work"/*
    printf 'failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
echo "run again, alone: ${failed[*]}"
run -- --test-threads 1 --exact "${failed[@]}" 2>&1 | tee "$work/again" || {
    why "$work/others" "$work/live" "$work/again"
    exit 1
}
passed=$(grep -cE '^test .* \.\.\. ok$' "$work/again")
if [ "$passed" -lt "${#failed[@]}" ]; then
    echo "only $passed of ${#failed[@]} were run again" >&2
    exit 1
fi
echo "failed once and passed alone (look into them): ${failed[*]}"
