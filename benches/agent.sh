#!/usr/bin/env bash
# What an agent costs: CPU as a share of one core and resident memory at 20 groups, with its intervals sent to a hub. Other agents that are
# installed (netdata, prometheus-node-exporter, telegraf, collectd) are measured in the same way while they run with their own settings.
# Usage: benches/agent.sh [SECONDS [RATE]]   (default 60 1000 reads per second, 0 for none); as root, needs fio and a release build
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60} rate=${2:-1000}
cargo build --release --workspace --quiet
folder=$(mktemp -d)
started=()
disks=()
finish() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
    for disk in "${disks[@]}"; do losetup --detach "$disk" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT
# Ten disks with two kinds of request each are twenty groups.
for number in $(seq 10); do
    truncate -s 64M "$folder/disk$number"
    disks+=("$(losetup --find --show --direct-io=on "$folder/disk$number" 2>/dev/null || losetup --find --show "$folder/disk$number")")
done
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
resident() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
measure() { # NAME PID
    local before after
    before=$(ticks "$2")
    sleep "$seconds"
    after=$(ticks "$2")
    awk -v name="$1" -v t=$((after - before)) -v s="$seconds" -v hz="$(getconf CLK_TCK)" -v rss="$(resident "$2")" \
        'BEGIN { printf "%-44s %6.2f %% of a core, %7.1f MiB\n", name, t / hz / s * 100, rss }'
}
if [ "$rate" -gt 0 ]; then
    jobs=()
    for disk in "${disks[@]}"; do jobs+=(--name="load${#jobs[@]}" --filename="$disk"); done
    fio --rw=randrw --bs=4k --direct=1 --ioengine=psync --time_based --runtime=100000 --rate_iops="$((rate / 20)),$((rate / 20))" \
        "${jobs[@]}" > "$folder/fio.log" 2>&1 &
    started+=($!)
fi
target/release/latscope hub --listen "unix:$folder/hub.sock" --data "$folder/journal" 2> "$folder/hub.log" &
started+=($!)
until grep -q 'listening on' "$folder/hub.log"; do sleep 0.1; done
names=$(printf '%s,' "${disks[@]##*/}")
for mode in auto event; do
    target/release/latscope agent --hub "unix:$folder/hub.sock" --name "$mode" --queue "$folder/queue.$mode" --mode "$mode" \
        "device in (${names%,})" 2> "$folder/agent.log" &
    agent=$!
    started+=("$agent")
    until grep -q connected "$folder/agent.log"; do sleep 0.1; kill -0 "$agent"; done
    sleep 5
    measure "latscope agent, mode $mode, $rate requests/s" "$agent"
    kill "$agent"
    wait "$agent" || true
done
target/release/latscope summary -r "hub+unix:$folder/hub.sock" --by device,kind 2>&1 | tail -4
for other in netdata prometheus-node-exporter telegraf collectd; do
    pid=$(pgrep -o -x "$(cut -c1-15 <<< "$other")" || true)
    if [ -n "$pid" ]; then measure "$other (its own process)" "$pid"; else echo "$other does not run here"; fi
done
