#!/usr/bin/env bash
# What compaction costs a hub, and how long views of its history take: CPU as a share of one core with the journal compacted as it
# comes, most resident memory, files and bytes, and seconds of a query by the hub and by its folder. Each agent sends 20 groups of
# 100 events a second.
# Usage: benches/history.sh [AGENTS [SECONDS]]   (default 100 120); needs openssl and a release build
set -euo pipefail
cd "$(dirname "$0")/.."
agents=${1:-100} seconds=${2:-120}
hub_options=(--recent 10s --test-file-time 20s)
start=$(date +%s)
. benches/simulated_agents.sh
sleep 30
before=$(ticks)
sleep "$((seconds - 30))"
after=$(ticks)
wait "$load"
sleep 15
echo "hub, $agents agents x 20 groups x 1 s over TLS, compacted every 20 s: $(awk -v t=$((after - before)) -v s="$((seconds - 30))" \
    -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.1f", t / hz / s * 100 }') % of a core, at most $(awk '/^VmHWM/ { print $2 / 1024 }' \
    "/proc/$hub/status") MiB"
tail -1 "$folder/agents.log"
for level in 1s 10s 60s; do
    find "$folder/data" -name "$level-*.parquet" -printf '%s\n' |
        awk -v level="$level" '{ bytes += $1 } END { printf "%s: %d files, %.1f MB\n", level, NR, bytes / 1e6 }'
done
export LATSCOPE_CA="$folder/ca.pem" LATSCOPE_TOKEN_FILE="$folder/tokens"
for input in "hub://$address" "$folder/data"; do
    for width in 1s 10s; do
        TIMEFORMAT="percentiles -i $width of $([ -d "$input" ] && echo the folder || echo the hub): %R s, %U s of CPU"
        time target/release/latscope percentiles -r "$input" -i "$width" "evt.time >= ${start}000000000" > /dev/null 2>&1
    done
done
echo "hub after the queries: at most $(awk '/^VmHWM/ { print $2 / 1024 }' "/proc/$hub/status") MiB"
