#!/usr/bin/env bash
# What compaction costs a hub, and how long views of its history take: CPU as a share of one core with the journal compacted as it
# comes, most resident memory, files and bytes, and seconds of a query by the hub and by its folder. Each agent sends 20 groups of
# 100 events a second.
# Usage: benches/history.sh [AGENTS [SECONDS]]   (default 100 120); needs openssl and a release build
set -euo pipefail
cd "$(dirname "$0")/.."
agents=${1:-100} seconds=${2:-120}
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
    --token-file "$folder/tokens" --data "$folder/data" --recent 10s --test-file-time 20s 2> "$folder/hub.log" &
hub=$!
until grep -q 'listening on' "$folder/hub.log"; do sleep 0.1; done
address=$(sed -n 's/.*listening on //p' "$folder/hub.log" | head -1)
ticks() { awk '{ print $14 + $15 }' "/proc/$hub/stat"; }
start=$(date +%s)
target/release/examples/agents "$address" "$folder/ca.pem" "$folder/tokens" "$agents" "$((seconds + 5))" > "$folder/agents.log" &
load=$!
until grep -q connected "$folder/agents.log"; do sleep 0.1; kill -0 "$load"; done
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
