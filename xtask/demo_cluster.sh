#!/usr/bin/env bash
# Three agents, each with a disk of its own, and a hub, with Debian's Alertmanager and Prometheus where they are installed. One disk is
# stopped for eight seconds. Prints what a view shows meanwhile and when the alert arrives; leaves pictures in demo/. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
latscope=$PWD/target/release/latscope
delayfs=$PWD/target/release/latscope-delayfs
out=demo
mkdir -p "$out"
rm -f "$out"/cluster*

lacks() { echo "make demo-cluster: $1; nothing was done." >&2; exit 3; }
[ "$(id -u)" -eq 0 ] || lacks "it needs root for loop devices and eBPF"
[ -e /dev/fuse ] && [ -e /dev/loop-control ] || lacks "there is no /dev/fuse or no /dev/loop-control"
command -v fio >/dev/null || lacks "fio is not installed"

work=$(mktemp -d)
children=() servers=() disks=()
cleanup() {
    local pid disk
    for pid in "${servers[@]}"; do kill -CONT "$pid" 2>/dev/null || true; done
    for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait "${children[@]}" 2>/dev/null || true
    for disk in "${disks[@]}"; do losetup --detach "$disk" 2>/dev/null || true; done
    for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait "${servers[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
until_there() { # a command that succeeds within twenty seconds
    for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    lacks "it took too long: $*"
}

hub=unix:$work/hub.sock
read=hub+$hub
alerts=$work/alerts.toml
printf '[[alert]]\nname = "slow cluster"\nif = "p99 > 1s"\nstep = "2s"\n' >"$alerts"
manager=
if command -v prometheus-alertmanager >/dev/null; then
    manager=http://127.0.0.1:$(port)
    printf 'route: {receiver: none, group_wait: 0s}\nreceivers: [{name: none}]\n' >"$work/alertmanager.yml"
    prometheus-alertmanager --config.file="$work/alertmanager.yml" --storage.path="$work/alertmanager" \
        --web.listen-address="${manager#http://}" --cluster.listen-address= >"$out/cluster-alertmanager.log" 2>&1 &
    children+=($!)
    until_there curl -sf "$manager/-/ready"
    printf '[[deliver]]\nalertmanager = "%s"\n' "$manager" >>"$alerts"
else
    echo "prometheus-alertmanager is not installed: alerts are only printed."
fi
"$latscope" hub --check-alerts "$alerts"
metrics=
if "$latscope" hub --help | grep -q -- '--metrics'; then metrics=127.0.0.1:$(port); fi
"$latscope" hub --listen "$hub" --data "$work/journal" --alerts "$alerts" ${metrics:+--metrics "$metrics"} 2>"$out/cluster-hub.log" &
children+=($!)
until_there test -S "$work/hub.sock"
prometheus=
if [ -n "$metrics" ] && command -v prometheus >/dev/null; then
    prometheus=127.0.0.1:$(port)
    "$latscope" hub --alerts "$alerts" --print-rules native >"$work/rules.yml"
    printf 'global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs: [{job_name: hub, static_configs: [{targets: ["%s"]}]}]\n' \
        "$metrics" >"$work/prometheus.yml"
    prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/prometheus" --web.listen-address="$prometheus" \
        --enable-feature=native-histograms >"$out/cluster-prometheus.log" 2>&1 &
    children+=($!)
fi

for number in 1 2 3; do
    mkdir "$work/n$number"
    "$delayfs" "$work/n$number" --read "${number}ms" --write "${number}ms" >"$work/n$number.log" &
    servers+=($!)
    until_there grep -q ready "$work/n$number.log"
    disk=$(losetup --find --show --direct-io=on "$work/n$number/disk")
    disks+=("$disk")
    "$latscope" agent --hub "$hub" --name "n$number" --queue "$work/queue$number" -s block "device = ${disk#/dev/}" 2>>"$out/cluster-agents.log" &
    children+=($!)
    fio --name="n$number" --filename="$disk" --rw=randrw --size=8m --time_based --runtime=120 --ioengine=psync --direct=1 \
        --rate_iops=100 --output=/dev/null >/dev/null 2>&1 &
    children+=($!)
done
until_there grep -q "n3: connected" "$out/cluster-hub.log"
echo "Three hosts send to the hub. Ten seconds pass ..."
sleep 10

start=$(date +%s%N)
kill -STOP "${servers[1]}"
echo "The disk of n2 (${disks[1]#/dev/}) is stopped."
arrived=
for second in $(seq 8); do
    sleep "$(python3 -c "import time; print(max(0, ($start + $second * 10**9) / 1e9 - time.time()))")"
    {
        echo "--- $second s after the stop"
        "$latscope" summary -r "$read" --by device
    } >>"$out/cluster-terminal.txt" 2>&1
    "$latscope" summary -r "$read" --json 2>/dev/null |
        python3 -c "import json, sys; t = json.load(sys.stdin)['total']; print(f'  $second s: {t[\"waiting\"]} waiting, the oldest for {(t[\"oldest_ns\"] or 0) / 1e9:.1f} s')"
    if [ -n "$manager" ] && [ -z "$arrived" ]; then
        curl -sf "$manager/api/v2/alerts?active=true" >"$work/alerts.json"
        if grep -q '"stall"' "$work/alerts.json"; then
            arrived=$second
            cp "$work/alerts.json" "$out/cluster-alert.json"
            python3 -c "import json; a = [a for a in json.load(open('$work/alerts.json')) if a['labels']['alertname'] == 'stall'][0]; print('  at the Alertmanager:', a['annotations']['summary'])"
        fi
    fi
done
kill -CONT "${servers[1]}"
echo "The disk goes on."
sleep 5
if [ -n "$manager" ]; then
    if [ -z "$arrived" ]; then echo "The alert did not arrive before the disk went on." >&2; exit 1; fi
    curl -sf "$manager/api/v2/alerts?active=true" >"$work/alerts.json"
    if grep -q '"stall"' "$work/alerts.json"; then echo "The alert is not resolved." >&2; exit 1; fi
    echo "The Alertmanager had the alert $arrived s after the stop, and it is resolved."
fi
[ -z "$prometheus" ] || curl -sf "http://$prometheus/api/v1/alerts" >"$out/cluster-prometheus-alerts.json" || true
"$latscope" heatmap -r "$read" --by device -i 1s -o "$out/cluster.svg"
"$latscope" percentiles -r "$read" -i 1s -o "$out/cluster-percentiles.svg"
"$latscope" hub --check-alerts "$alerts" -r "$work"/journal/*.frames >"$out/cluster-alerts.txt"
grep -E 'alert:|resolved:' "$out/cluster-hub.log"
echo "In $out/: cluster.svg, cluster-percentiles.svg, cluster-terminal.txt, cluster-alerts.txt and the logs."
