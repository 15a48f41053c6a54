#!/usr/bin/env bash
# Records ten seconds of this machine's block I/O under a mixed load and leaves pictures in demo/.
# Without root or perf it says so and takes the recorded trace of testdata/ instead.
set -euo pipefail
cd "$(dirname "$0")/.."
latscope=target/release/latscope
out=demo
seconds=${DEMO_SECONDS:-10}
mkdir -p "$out"

load() { # a mixed load on scratch files: random reads and writes, flushes, and an archive of the system's documentation
    local scratch=$1
    fio --name=mixed --directory="$scratch" --size=128m --rw=randrw --rwmixread=70 --bsrange=4k-128k --ioengine=psync \
        --numjobs=2 --direct=1 --fsync=64 --time_based --runtime="$seconds" --group_reporting --output="$out/fio.txt" &
    local fio=$!
    tar cf - /usr/share /usr/lib 2>/dev/null | head -c 400m >"$scratch/archive.tar" &
    local tar=$!
    wait "$fio" || echo "fio failed; see $out/fio.txt" >&2
    wait "$tar" || true
}

record() {
    local scratch
    scratch=$(mktemp -d -p . .demo-scratch.XXXXXX)
    trap 'rm -rf "$scratch"' RETURN
    # Reads of the archive shall reach the device.
    sync
    echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true
    perf record -q -a -o "$out/perf.data" -e block:block_rq_issue -e block:block_rq_complete -e block:block_rq_requeue \
        -- sleep "$((seconds + 1))" 2>"$out/perf.log" &
    local perf=$!
    sleep 0.5
    load "$scratch"
    wait "$perf"
}

trace=$out/perf.data
why=
if [ "$(id -u)" -ne 0 ]; then why="not root"; elif ! command -v perf >/dev/null; then why="no perf"; elif ! command -v fio >/dev/null; then why="no fio"; fi
if [ -z "$why" ]; then
    echo "Recording $seconds seconds of block I/O under fio and tar ..."
    rm -f "$trace"
    record || why="perf record failed: $(tail -n 1 "$out/perf.log")"
    [ -n "$why" ] || "$latscope" summary -r "$trace" --json >/dev/null 2>&1 || why="perf recorded no block I/O here"
fi
if [ -n "$why" ]; then
    echo "Nothing was recorded on this machine ($why); these are pictures of the recorded trace in testdata/."
    trace=$out/story.txt.gz
    cp testdata/perf_script/story_2s.txt.gz "$trace"
fi

"$latscope" heatmap -r "$trace" -o "$out/latency.svg"
"$latscope" heatmap -r "$trace" --weight time -o "$out/waiting.svg"
"$latscope" heatmap -r "$trace" --by device -o "$out/devices.svg"
"$latscope" heatmap -r "$trace" -y size --dark -o "$out/size.svg"
"$latscope" spectrogram -r "$trace" >"$out/spectrogram.txt"
"$latscope" histogram -r "$trace" --by device >"$out/histogram.txt"
"$latscope" summary -r "$trace" --by device,kind >"$out/summary.txt"

"$latscope" spectrogram -r "$trace"
cat "$out/histogram.txt" "$out/summary.txt"
echo
echo "The trace and the pictures are in $out/:"
ls -1 "$out"
