#!/usr/bin/env bash
# What a hub costs with many agents over TLS: CPU as a share of one core, resident memory, and what arrived. Each agent sends
# 20 groups of 100 events a second.
# Usage: benches/hub.sh [AGENTS [SECONDS]]   (default 1000 60); needs openssl, jq and a release build
set -euo pipefail
cd "$(dirname "$0")/.."
agents=${1:-1000} seconds=${2:-60}
hub_options=()
. benches/simulated_agents.sh
echo "the agents $(cat "$folder/agents.log")"
sleep 2
before=$(ticks)
sleep "$seconds"
after=$(ticks)
resident=$(awk '/^VmRSS/ { print $2 / 1024 }' "/proc/$hub/status")
wait "$load"
sleep 3
echo "hub, $agents agents x 20 groups x 1 s over TLS: $(awk -v t=$((after - before)) -v s="$seconds" -v hz="$(getconf CLK_TCK)" \
    'BEGIN { printf "%.1f", t / hz / s * 100 }') % of a core, $resident MiB"
tail -1 "$folder/agents.log"
LATSCOPE_CA="$folder/ca.pem" LATSCOPE_TOKEN_FILE="$folder/tokens" target/release/latscope summary -r "hub://$address" --by device 2>&1 | tail -15
du -sh "$folder/data"
