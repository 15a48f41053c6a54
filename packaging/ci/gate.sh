#!/usr/bin/env bash
# Compares a workload before and after a change. Leaves a comment (Markdown), a JUnit file and a picture, and fails like the limit:
#   gate.sh BEFORE AFTER LIMIT [FOLDER]
# BEFORE and AFTER are what latscope reads, or several runs with commas between them. LATSCOPE_UNDECIDED=pass accepts what the data
# cannot decide; LATSCOPE names the program, LATSCOPE_OPTIONS more options of `latscope compare`.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: gate.sh BEFORE AFTER LIMIT [FOLDER], for example: gate.sh before/ after/ 'p99 slower by 10%'" >&2
    exit 2
fi
before=$1 after=$2 limit=$3 folder=${4:-latscope-gate}
latscope=${LATSCOPE:-latscope}
# With the quotes of a shell, but nothing else of it.
options=()
[ -z "${LATSCOPE_OPTIONS:-}" ] || mapfile -t options < <(xargs printf '%s\n' <<<"$LATSCOPE_OPTIONS")
mkdir -p "$folder"
# What an earlier run left must not pass for this one's.
rm -f "$folder"/compare.{xml,svg,md} "$folder/comment.md"
if [[ $before == *,* || $after == *,* ]]; then
    sides=(--group "before=$before" --group "after=$after")
else
    sides=("$before" "$after" --names before,after)
fi
status=0
"$latscope" compare "${sides[@]}" "${options[@]}" --fail-if "$limit" \
    --markdown --junit "$folder/compare.xml" -o "$folder/compare.svg" >"$folder/compare.md" || status=$?
if [ -s "$folder/compare.md" ]; then
    # The picture is an artifact beside the comment; a comment cannot show a file of the runner.
    grep -v '^!\[Comparison\]' "$folder/compare.md" | cat -s >"$folder/comment.md"
    if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$folder/comment.md" >>"$GITHUB_STEP_SUMMARY"; fi
    cat "$folder/comment.md"
fi
# Status 3 is also that of a file that cannot be read: then there is no comment.
if [ "$status" -eq 3 ] && [ "${LATSCOPE_UNDECIDED:-fail}" = pass ] && [ -s "$folder/compare.md" ]; then
    status=0
fi
exit "$status"
