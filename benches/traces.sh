#!/bin/bash
# Recordings of blktrace and trace-cmd, beside blkparse, btt and trace-cmd on the same input: prints CPU seconds and peak memory.
#
#   LATSCOPE              the program (target/release/latscope)
#   LATSCOPE_BENCH_RUNS   runs of each command (3)
#
# The inputs, about 1.3 GB, are made once under target/bench and kept there.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${LATSCOPE:-target/release/latscope}")
mkdir -p target/bench
for tool in python3 zstd; do
    command -v "$tool" > /dev/null || { echo "benches/traces.sh needs $tool; install it first." >&2; exit 3; }
done
[[ -x $program ]] || { echo "There is no $program; run make build first." >&2; exit 3; }
exec python3 benches/traces.py "$program" target/bench
