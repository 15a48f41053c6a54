#!/usr/bin/env bash
# Runs queries derived from TPC-DS in Spark on this machine, with two sizes of executors in turns, and leaves logs, reports and pictures in
# demo/spark/.
set -euo pipefail
cd "$(dirname "$0")/.."
latscope=target/release/latscope
python=target/spark/bin/python
out=demo/spark
if [ ! -x "$python" ] || ! command -v java >/dev/null; then
    echo "Spark or Java cannot be installed here, and without them there is nothing to show." >&2
    exit 0
fi
# DuckDB makes the tables ten times as fast as Trino's generator.
"$python" -m pip install --quiet --disable-pip-version-check duckdb-extension-tpcds==1.5.5 ||
    echo "DuckDB's extension cannot be installed, so Trino's generator makes the tables." >&2
rm -rf "$out"/{base,against}.* "$out"/compare-*
"$latscope" lab spark demo --python "$python" -o "$out" --scale "${DEMO_SCALE:-0.1}" --rounds "${DEMO_ROUNDS:-2}" \
    --queries q3,q67,python --conf spark.executor.memory=512m --against spark.executor.memory=1g
"$latscope" spark -r "$out/base.1/spark.log" --kernel "$out/base.1/kernel.lat" --by sql --top 5 2>/dev/null || cat "$out/base.1/report.txt"
"$latscope" heatmap -r "$out/base.1/spark.log" -o "$out/tasks.svg"
"$latscope" heatmap -r "$out/base.1/spark.log" -y remainder --by tag:description -o "$out/remainder.svg"
echo
echo "Event logs, traces of the kernel, reports (text, SVG, HTML) and pictures are in $out/:"
ls -1 "$out" "$out/base.1"
