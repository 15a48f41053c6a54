#!/bin/bash
# Percentiles of a cluster's fio logs, 30 million rows and the matching histograms, by latscope and its peers: `make bench-fio`.
#
#   LATSCOPE              the program (target/release/latscope)
#   LATSCOPE_PYTHON       a Python that has polars and duckdb (target/python/bin/python)
#   LATSCOPE_BENCH_RUNS   runs of each command (7; peers at most 3)
#
# The logs, 1.7 GB, are made once under target/bench/fio and kept there.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${LATSCOPE:-target/release/latscope}")
folder=target/bench/fio
[[ -x $program ]] || { echo "There is no $program; run make build first." >&2; exit 3; }

if [[ ! -e $folder/done ]]; then
    cargo build --release --locked -q -p latscope-capture-file --example fio_logs
    rm -rf "$folder"
    target/release/examples/fio_logs "$folder"
    mkdir "$folder/gz"
    for log in "$folder"/*_clat.*; do
        gzip -1 -c "$log" > "$folder/gz/${log##*/}.gz"
    done
    touch "$folder/done"
fi
python=${LATSCOPE_PYTHON:-target/python/bin/python}
# What fio's own script needs; Debian keeps the script with the documentation.
"$python" -m pip install --quiet --disable-pip-version-check numpy pandas || echo "fio's own script will be left out." >&2
script=$folder/fiologparser_hist.py
[[ -s $script ]] || zcat /usr/share/doc/fio/fiologparser_hist.py.gz > "$script" || rm -f "$script"
"$python" benches/fio.py "$program" "$folder" | tee "$folder/last.txt"
