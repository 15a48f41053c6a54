#!/usr/bin/env bash
# Records ten seconds of this machine's I/O under a mixed load, block requests and system calls side by side, and leaves
# pictures in demo/. Without the rights to capture it says so and takes the recorded trace of testdata/ instead.
set -euo pipefail
cd "$(dirname "$0")/.."
latscope=target/release/latscope
out=demo
seconds=${DEMO_SECONDS:-10}
mkdir -p "$out"

load() { # a mixed load on scratch files: random reads and writes, flushes, and an archive of the system's documentation
    local scratch=$1
    # Reads of the archive shall reach the device.
    sync
    echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true
    fio --name=mixed --directory="$scratch" --size=128m --rw=randrw --rwmixread=70 --bsrange=4k-128k --ioengine=psync \
        --numjobs=2 --direct=1 --fsync=64 --time_based --runtime="$seconds" --group_reporting --output="$out/fio.txt" &
    local fio=$!
    tar cf - /usr/share /usr/lib 2>/dev/null | head -c 400m >"$scratch/archive.tar" &
    local tar=$!
    wait "$fio" || echo "fio failed; see $out/fio.txt" >&2
    wait "$tar" || true
}

if [ "${1-}" = load ]; then
    load "$2"
    exit
fi

record() { # both captures see the same load, for each runs the rest of the line
    local scratch status=0
    scratch=$(mktemp -d -p . .demo-scratch.XXXXXX)
    "$latscope" record -s block -w "$out/block.lat" -- \
        "$latscope" record -s io -w "$out/io.lat" 'proc.name in (fio, tar)' -- \
        ./xtask/demo.sh load "$scratch" 2>"$out/record.log" || status=$?
    rm -rf "$scratch"
    return "$status"
}

# What an earlier run left must not pass for this one's.
rm -f "$out"/{block,io}.lat "$out"/story.txt.gz "$out"/calls.{svg,txt} "$out"/fio.txt
why=
if ! command -v fio >/dev/null; then
    why="no fio"
else
    echo "Recording $seconds seconds of I/O under fio and tar ..."
    record || why=$(tail -n 1 "$out/record.log")
fi
if [ -n "$why" ]; then
    echo "Nothing was recorded on this machine ($why); these are pictures of the recorded trace in testdata/."
    trace=$out/story.txt.gz
    cp testdata/perf_script/story_2s.txt.gz "$trace"
else
    trace=$out/block.lat
    "$latscope" heatmap -r "$out/io.lat" --by kind -o "$out/calls.svg" 'kind in (read, write, sync)'
    "$latscope" summary -r "$out/io.lat" --by comm,name >"$out/calls.txt"
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
[ -n "$why" ] || cat "$out/calls.txt"
echo
echo "The traces and the pictures are in $out/:"
ls -1 "$out"
