#!/usr/bin/env bash
# What tracing system calls costs the traced program: ours first (paired attach and detach, see
# crates/capture-bpf/examples/overhead.rs), then bpftrace, `perf trace -s` and `strace -c` on the same dd as ours.
# Needs root. PAIRS (15) and COUNT (100000 blocks, two calls each) may be set; bpftrace is installed where apt-get is.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${PAIRS:-15}
count=${COUNT:-100000}

[ "$(id -u)" = 0 ] || { echo "skipped: tracing needs root" >&2; exit 0; }
target=${CARGO_TARGET_DIR:-target}
[ -n "${PREBUILT:-}" ] || cargo build --release -p latscope-capture-bpf --example overhead
overhead=$target/release/examples/overhead

echo "kernel $(uname -r), $(nproc) CPUs, load$(uptime | sed 's/.*load average//')"
"$overhead" "$pairs"
"$overhead" rate

# The best of three runs; the traced program's own CPU time and the wall time, without start and end of the tracer.
dd_line() {
    local best="" line
    for _ in 1 2 3; do
        line=$( { /usr/bin/env TIMEFORMAT="%R %U %S" bash -c "time dd if=/dev/zero of=/dev/null bs=1 count=$count 2>/dev/null"; } 2>&1 | tail -1)
        best=$(printf '%s\n%s\n' "$best" "$line" | grep . | sort -n | head -1)
    done
    echo "$best" | awk -v name="$1" -v calls=$((2 * count)) '{
        printf "%-34s wall %8.3f s  dd CPU %8.3f s  (%.0f ns CPU per call)\n", name, $1, $2 + $3, 1e9 * ($2 + $3) / calls }'
}

# Runs the command in the background until the dd lines were measured.
with() {
    local name=$1 log
    shift
    log=$(mktemp)
    "$@" > "$log" 2>&1 &
    local pid=$!
    sleep 4
    if kill -0 "$pid" 2> /dev/null; then
        dd_line "$name"
        kill -INT "$pid" 2> /dev/null || true
        # Some take a while to print what they found.
        for _ in $(seq 50); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
        kill -KILL "$pid" 2> /dev/null || true
    else
        echo "$name did not start: $(tail -1 "$log")"
    fi
    wait "$pid" 2> /dev/null || true
    rm -f "$log"
}

echo "dd of $count blocks of 1 byte, the best of three:"
dd_line "no tracer"
with "latscope, histograms of all calls" "$overhead" hold syscall
with "latscope, histograms of I/O" "$overhead" hold io
command -v bpftrace > /dev/null || apt-get install -y -qq bpftrace > /dev/null 2>&1 || true
if command -v bpftrace > /dev/null; then
    with "bpftrace, hist() by call" bpftrace -e 'tracepoint:raw_syscalls:sys_enter { @start[tid] = nsecs; }
        tracepoint:raw_syscalls:sys_exit /@start[tid]/ { @[args->id] = hist(nsecs - @start[tid]); delete(@start[tid]); }'
fi
# These two start the program themselves; their own CPU time is in it.
peer() {
    local name=$1
    shift
    command -v "$1" > /dev/null || { echo "skipped: no $1"; return; }
    local line
    line=$( { TIMEFORMAT="%R %U %S"; time "$@" dd if=/dev/zero of=/dev/null bs=1 count=$((count / 10)) > /dev/null 2>&1; } 2>&1 | tail -1)
    echo "$line" | awk -v name="$name" -v calls=$((2 * count / 10)) '{
        printf "%-34s wall %8.3f s  all CPU %7.3f s  (%.0f ns CPU per call, a tenth of the blocks)\n", name, $1, $2 + $3, 1e9 * ($2 + $3) / calls }'
}
peer "perf trace -s" perf trace -s
peer "strace -c" strace -f -c -o /dev/null

# Block requests: what the kernel's own statistics say of the programs of each tracer, while fio reads. The statistics
# have a share of their own, which an empty program shows in the same run.
file=$(mktemp -p "${BLOCK_DIR:-/var/tmp}" latscope-overhead.XXXXXX)
were=$(sysctl -n kernel.bpf_stats_enabled)
trap 'sysctl -q kernel.bpf_stats_enabled="$were"; rm -f "$file"' EXIT
dd if=/dev/urandom of="$file" bs=1M count=256 status=none
sync "$file"
sysctl -q kernel.bpf_stats_enabled=1

# Nanoseconds that the programs of a process ran: all their time, by the runs of the one that ran most.
ran() {
    cat /proc/"$1"/fdinfo/* 2> /dev/null | awk '/^run_time_ns/ { ns = $2 } /^run_cnt/ { runs = $2 } /^prog_id/ { id = $2 }
        /^verified_insns/ && !seen[id]++ { all += ns; if (runs > most) most = runs }
        END { if (most) printf "%d %d\n", all / most, most }'
}
block() {
    local name=$1 round
    shift
    for round in 1 2 3; do
        "$overhead" empty > /dev/null & local empty=$!
        "$@" > /dev/null 2>&1 & local pid=$!
        sleep 4
        fio --name=x --filename="$file" --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=8 --runtime=3 \
            --time_based --minimal > /dev/null
        echo "$name: $(ran $pid), empty: $(ran $empty)"
        kill -KILL $pid $empty; wait $pid $empty 2> /dev/null || true
    done | awk -v FS='[:, ]+' '{ name = $0; sub(/: .*/, "", name); rest = substr($0, length(name) + 3); split(rest, part, /[ ,:]+/)
        printf "%-34s %5d ns a request by statistics, of which %3d are their own: %4d  (%d requests)\n", name, part[1], part[4], part[1] - part[4], part[2] }'
}
if command -v fio > /dev/null; then
    block "latscope, block histograms" "$overhead" hold block
    [ -x "$target/release/latscope" ] && block "latscope, block events" "$target/release/latscope" events -s block
    command -v bpftrace > /dev/null && block "bpftrace, hist() of requests" bpftrace -e 'tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; }
        tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ { @us[args->dev] = hist(nsecs - @start[args->dev, args->sector]); delete(@start[args->dev, args->sector]); }'
else
    echo "skipped: no fio"
fi
