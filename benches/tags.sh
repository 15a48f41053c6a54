#!/usr/bin/env bash
# What tags of a file cost: time and memory of a summary without and with intervals of 64 threads, in order, in the opposite order, and with one
# interval around all.
# Usage: benches/tags.sh [INTERVALS]   (default 5000000); needs a release build and GNU time
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-5000000}
cargo build --release --workspace --quiet
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trace=testdata/perf_script/story_2s.txt.gz
latscope=target/release/latscope
awk -v count="$count" 'BEGIN { for (n = 0; n < count; n++) printf "%d %d.%06d %d.%06d stage=%d task=%d\n", 32246 + n % 64, n / 1000, n % 1000 * 1000, (n + 32) / 1000, (n + 32) % 1000 * 1000, n / 100000, n }' > "$folder/tags.txt"
tac "$folder/tags.txt" > "$folder/opposite.txt"
{ echo "32246 0 99999.5 job=nightly"; cat "$folder/tags.txt"; } > "$folder/nested.txt"
measure() { # NAME ARGUMENTS
    local name=$1
    shift
    /usr/bin/time -f "$name: %e s, %M KiB" "$latscope" summary -r "$trace" "$@" > /dev/null
}
measure "without tags"
measure "$count intervals" --tag-file "$folder/tags.txt" --by tag:stage
measure "in the opposite order" --tag-file "$folder/opposite.txt" --by tag:stage
measure "and one around all" --tag-file "$folder/nested.txt" --by tag:stage
