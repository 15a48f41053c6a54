#!/usr/bin/env bash
# The five lines of docs/how-to/notebook.md, by a Python that has the package, in an empty folder.
# Usage: xtask/python_example.sh PYTHON
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=$(realpath -s "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$root/testdata/perf_script/story_2s.txt.gz" "$folder/perf.data"
cd "$folder"
awk '/^Five lines:/ {found = 1; next} found && /^    / {print substr($0, 5); next} found && !/^$/ {exit}' "$root/docs/how-to/notebook.md" > example.py
test "$(wc -l < example.py)" -eq 5
"$python" example.py
grep -q '^<svg' latency.svg
echo "the example runs"
