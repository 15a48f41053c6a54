#!/usr/bin/env bash
# sysdig captures: latscope beside sysdig on a capture of 2 million events, repeated from testdata. Prints CPU seconds (user and
# system, the least of LATSCOPE_BENCH_RUNS runs), events per CPU second and peak memory. The bar: 3 times sysdig's spectrogram.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v sysdig >/dev/null || { echo "scap.sh: skipped, sysdig is not installed" >&2; exit 0; }
folder=target/bench
mkdir -p "$folder"
capture=$folder/big.scap
events=${1:-2000000}
[ -s "$capture" ] || {
    tar -xOf testdata/scap/captures.tar seed1-moderate.scap.gz >"$folder/seed1.scap.gz"
    benches/repeat_scap.py "$folder/seed1.scap.gz" "$capture" "$events"
}


measure() {
    local name=$1
    shift
    python3 - "$name" "$events" "${LATSCOPE_BENCH_RUNS:-5}" "$@" <<'PYTHON'
import os, resource, subprocess, sys

name, events, runs, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
least, peak = 1e9, 0
for _ in range(runs):
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execvp(command[0], command)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{name}: exit status {status}")
    least, peak = min(least, usage.ru_utime + usage.ru_stime), max(peak, usage.ru_maxrss)
print(f"{name:44} {least:6.2f} s {events / least / 1e6:7.2f} M events/s {peak / 1024:6.0f} MB")
PYTHON
}

latscope=${LATSCOPE:-target/release/latscope}
fields='*%evt.rawtime %evt.type %evt.latency %proc.name %fd.type %fd.name'
measure "sysdig -q" sysdig -r "$capture" -q
measure "sysdig -c spectrogram" script -qec "stty cols 120 rows 40; sysdig -r $capture -c spectrogram" /dev/null
measure "latscope spectrogram --palette sysdig" "$latscope" spectrogram -r "$capture" --palette sysdig --color 256 --width 120
measure "latscope spectrogram" "$latscope" spectrogram -r "$capture" --color 256 --width 120
measure "sysdig -p, six fields" sysdig -r "$capture" -p "$fields"
measure "latscope summary --by process,path" "$latscope" summary -r "$capture" --by process,path
