#!/usr/bin/env bash
# What a hub costs with many agents over TLS: CPU as a share of one core, resident memory, and what arrived. Each agent sends
# 20 groups of 100 events a second.
# Usage: benches/hub.sh [AGENTS [SECONDS]]   (default 1000 60); needs openssl, jq and a release build
set -euo pipefail
cd "$(dirname "$0")/.."
agents=${1:-1000} seconds=${2:-60}
cargo build --release --workspace --quiet
cargo build --release --workspace --example agents --quiet
folder=$(mktemp -d)
hub=
trap '[ -z "$hub" ] || kill "$hub" 2>/dev/null || true; rm -rf "$folder"' EXIT
curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
(
    cd "$folder"
    openssl req -x509 "${curve[@]}" -days 9 -subj /CN=ca -keyout ca.key -out ca.pem
    openssl req -new "${curve[@]}" -subj /CN=hub -addext subjectAltName=IP:127.0.0.1 -keyout hub.key -out hub.csr
    openssl x509 -req -in hub.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -copy_extensions copy -out hub.pem
    openssl rand -hex 16 > tokens
) 2> "$folder/openssl.log"
ulimit -n 8192
target/release/latscope hub --listen 127.0.0.1:0 --cert "$folder/hub.pem" --key "$folder/hub.key" \
    --token-file "$folder/tokens" --data "$folder/journal" 2> "$folder/hub.log" &
hub=$!
until grep -q 'listening on' "$folder/hub.log"; do sleep 0.1; done
address=$(sed -n 's/.*listening on //p' "$folder/hub.log" | head -1)
ticks() { awk '{ print $14 + $15 }' "/proc/$hub/stat"; }
target/release/examples/agents "$address" "$folder/ca.pem" "$folder/tokens" "$agents" "$((seconds + 5))" > "$folder/agents.log" &
load=$!
until grep -q connected "$folder/agents.log"; do sleep 0.1; kill -0 "$load"; done
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
du -sh "$folder/journal"
