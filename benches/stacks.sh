#!/usr/bin/env bash
# What captures of stacks cost: the CPU time of the sampler with 500 threads against an idle machine, and the nanoseconds a run of
# each BPF program, by the kernel's own account, under `perf bench sched pipe`, whose switches are timed with and without the capture as well. Beside
# them perf, bpftrace and bcc where they run.
# Then what a fast request pays for the stacks of slow ones: its programs with and without, at the same requests, under fio on a loop
# device (TURNS=3 of both orders). REQUESTS=1 does only that. With FORKS=600 in place of all that: memory and open files of a sampler while processes fork
# for so many seconds; it ends with status 1 if the memory grew by more than 64 MiB after the first fifth.
# Needs root. SECONDS_EACH (10) may be set; PREBUILT=1 takes the program as it was built, LATSCOPE=FILE that one.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-10}

[ "$(id -u)" = 0 ] || { echo "skipped: tracing needs root" >&2; exit 0; }
[ -n "${PREBUILT:-}${LATSCOPE:-}" ] || cargo build --release -p latscope
latscope=${LATSCOPE:-${CARGO_TARGET_DIR:-target}/release/latscope}
folder=$(mktemp -d)
before=$(cat /proc/sys/kernel/bpf_stats_enabled)
children=()
clean() {
    echo "$before" > /proc/sys/kernel/bpf_stats_enabled
    for child in "${children[@]}"; do kill "$child" 2> /dev/null || true; done
    [ -z "${loop:-}" ] || losetup -d "$loop"
    rm -rf "$folder"
}
trap clean EXIT
echo 1 > /proc/sys/kernel/bpf_stats_enabled
echo "kernel $(uname -r), $(nproc) CPUs, load$(uptime | sed 's/.*load average//')"

# CPU time of a process, clock ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# Runs and time of the programs that a process has loaded: "runs ns" in a line each.
runs() {
    awk '/^run_time_ns/ { time = $2 } /^run_cnt/ { if ($2 > 0) printf "    a program ran %d times, %.0f ns each\n", $2, time / $2 }' \
        "/proc/$1/fdinfo/"* 2> /dev/null | sort -u || true # files come and go
}

# measure NAME COMMAND...: starts it, waits until it is warm, and reports its share of a CPU.
measure() {
    local name=$1 pid from to
    shift
    "$@" > "$folder/out" 2>&1 &
    pid=$!
    sleep 4
    kill -0 "$pid" 2> /dev/null || { echo "$name: does not run here"; return; }
    from=$(ticks "$pid")
    sleep "$seconds"
    to=$(ticks "$pid")
    awk -v name="$name" -v ticks=$((to - from)) -v seconds="$seconds" -v hz="$(getconf CLK_TCK)" \
        'BEGIN { printf "%-44s %6.2f %% of a CPU\n", name, 100 * ticks / hz / seconds }'
    runs "$pid"
    kill -INT "$pid" 2> /dev/null || true
    wait "$pid" || true
    grep -o 'threads were sampled[^;]*' "$folder/out" | head -1 | sed 's/^/    /' || true
}

# What a switch takes longer while waits are timed, without the account of the kernel, whose own clock costs as much: pairs of runs on one
# CPU, one without the capture and one with it, whose process has the other CPUs. A single pair is off by some hundred ns; the median of
# so many is off by less than 50.
switches() {
    local pid pair count=100000 pairs=${PAIRS:-41} others
    others=1-$(($(nproc) - 1))
    [ "$(nproc)" -gt 1 ] || others=0
    echo 0 > /proc/sys/kernel/bpf_stats_enabled
    for pair in $(seq "$pairs"); do
        taskset -c 0 perf bench -f simple sched pipe -l $count
        taskset -c "$others" "$latscope" record -f -s offcpu -w "$folder/t.lat" > "$folder/out" 2>&1 &
        pid=$!
        sleep 2
        taskset -c 0 perf bench -f simple sched pipe -l $count
        kill -INT "$pid"
        wait "$pid" || true
    done | paste - - | awk -v count=$count '{ print ($2 - $1) / count / 2 * 1e9 }' | sort -n | awk '
        { value[NR] = $1 }
        END {
            printf "a switch takes %.0f ns longer while waits are timed (median of %d pairs, quartiles %.0f and %.0f)\n",
                value[int((NR + 1) / 2)], NR, value[int((NR + 3) / 4)], value[int((3 * NR + 1) / 4)]
        }'
    echo 1 > /proc/sys/kernel/bpf_stats_enabled
}

if [ -n "${FORKS:-}" ]; then
    "$latscope" record -f -s stacks,offcpu=100us,oncpu --all-threads -w "$folder/t.lat" > "$folder/out" 2>&1 &
    pid=$!
    nice -n "${NICE:-0}" sh -c 'while :; do /bin/true & /bin/true & /bin/true & /bin/true & wait; done' &
    children+=($!)
    started=$(awk '/^processes/ { print $2 }' /proc/stat)
    for ((second = 0; second < FORKS; second += step)); do
        step=$((FORKS - second < 30 ? FORKS - second : 30))
        sleep "$step"
        now=$(awk '/^processes/ { print $2 }' /proc/stat)
        awk -v after=$((second + step)) -v forks=$((now - started)) -v files="$(ls "/proc/$pid/fd" | wc -l)" \
            '/^Anonymous/ { printf "after %4d s: %7.1f forks/s, %7.1f MiB, %3d files\n", after, forks / after, $2 / 1024, files }' \
            "/proc/$pid/smaps_rollup" | tee -a "$folder/memory"
    done
    kill -INT "$pid"
    wait "$pid" || true
    sed 's/^/    /' "$folder/out"
    awk '{ memory[NR] = $6 } END {
        early = memory[int(NR / 5) + 1]
        printf "from %.1f to %.1f MiB after the first fifth\n", early, memory[NR]
        exit (memory[NR] > early + 64)
    }' "$folder/memory"
    exit
fi

# Counters of the programs of both captures, a line each: capture, program (they have numbers in the order of the object), ns, runs.
counters() {
    local capture
    for capture in without slow; do
        { cat "/proc/${pids[$capture]}/fdinfo/"* 2> /dev/null || true; } | awk -v capture="$capture" '
            /^prog_id/ { id = $2 } /^run_time_ns/ { time[id] = $2 } /^run_cnt/ { runs[id] = $2 }
            END { for (id in runs) print capture, id, time[id], runs[id] }'
    done
}

# windows FIRST SECOND: attaches both captures, in this order, and measures both at the same requests, in windows of a second; a line
# each with the nanoseconds that start, issue and completion took of a request: without, with.
windows() {
    local -A pids
    local capture pid arguments window before after
    for capture in "$@"; do
        arguments=(--stacks slow)
        [ "$capture" = slow ] || arguments=()
        "$latscope" record -f -s block -w "$folder/$capture.lat" "${arguments[@]}" "device = ${loop#/dev/}" > "$folder/out" 2>&1 &
        pids[$capture]=$!
        sleep 3
    done
    sleep 2
    before=$(counters)
    for ((window = 0; window < 15; window++)); do
        sleep 1
        after=$(counters)
        printf '%s\n' "$before" - "$after" | sort -s -k1,1 -k2,2n | awk '
            $1 == "-" { next }
            ($1, $2) in runs && $4 > runs[$1, $2] + 1000 { line[$1] = line[$1] sprintf(" %.1f", ($3 - time[$1, $2]) / ($4 - runs[$1, $2])) }
            { time[$1, $2] = $3; runs[$1, $2] = $4 }
            END { print line["without"], line["slow"] }'
        before=$after
    done
    for pid in "${pids[@]}"; do
        kill -INT "$pid"
        wait "$pid" || true
    done
}

# What a request pays in each program: medians of all windows, and of their differences, with the middle half of these.
table() {
    awk 'function quantile(list, n, share, rank) { rank = int(share * (n - 1) + 0.5); return list[rank] }
        function sorted(list, n, i, j, x) {
            for (i = 1; i < n; i++) { x = list[i]; for (j = i - 1; j >= 0 && list[j] > x; j--) list[j + 1] = list[j]; list[j + 1] = x }
        }
        NF == 6 {
            for (i = 1; i <= 3; i++) { without[i, n] = $i; with[i, n] = $(i + 3) }
            without[4, n] = $1 + $2 + $3; with[4, n] = $4 + $5 + $6; n++
        }
        END {
            split("start issue completion sum", names, " ")
            for (i = 1; i <= 4; i++) {
                for (w = 0; w < n; w++) { a[w] = without[i, w]; b[w] = with[i, w]; d[w] = b[w] - a[w] }
                sorted(a, n); sorted(b, n); sorted(d, n)
                printf "    %-11s %7.1f ns without, %7.1f ns with, difference %6.1f ns (middle half %.1f to %.1f, %d windows)\n", names[i], \
                    quantile(a, n, 0.5), quantile(b, n, 0.5), quantile(d, n, 0.5), quantile(d, n, 0.25), quantile(d, n, 0.75), n
            }
        }' "$@"
}

# The second of two captures finds the request in the cache, so each is the first as often as the other.
requests() {
    local turn
    truncate -s 64M "$folder/disk"
    loop=$(losetup --find --show "$folder/disk")
    fio --name=load --filename="$loop" --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth="${DEPTH:-16}" --time_based --runtime=3600 \
        > /dev/null 2>&1 &
    children+=($!)
    sleep 1
    for turn in $(seq "${TURNS:-3}"); do
        windows without slow >> "$folder/slow_last"
        windows slow without >> "$folder/slow_first"
    done
    echo "block requests, one at a time, both captures at once; --stacks slow attached last:"
    table "$folder/slow_last"
    echo "--stacks slow attached first:"
    table "$folder/slow_first"
    for name in slow_last slow_first; do
        awk 'NF == 6 { print $4 + $5 + $6 - $1 - $2 - $3 }' "$folder/$name" | sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
    done | awk '{ sum += $1 / 2 } END { printf "a fast request pays %.1f ns for --stacks slow: the middle of both medians\n", sum }'
}

if [ -n "${REQUESTS:-}" ]; then
    requests
    exit 0
fi

echo "idle:"
measure "sampler at 20 Hz" "$latscope" record -f -s stacks --cpu-budget 100% -w "$folder/t.lat"

python3 -c '
import threading, time
for _ in range(500): threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
time.sleep(3600)' &
children+=($!)
sleep 2
echo "500 threads:"
measure "sampler at 20 Hz" "$latscope" record -f -s stacks --cpu-budget 100% -w "$folder/t.lat"
measure "sampler at 20 Hz, all threads" "$latscope" record -f -s stacks --all-threads --cpu-budget 100% -w "$folder/t.lat"

if command -v perf > /dev/null; then
    switches
    while :; do perf bench sched pipe -l 200000 > /dev/null 2>&1; done &
    children+=($!)
    sleep 1
    echo "perf bench sched pipe:"
    measure "off-CPU from 1 ms" "$latscope" record -f -s offcpu -w "$folder/t.lat"
    measure "on-CPU, 99 Hz" "$latscope" record -f -s oncpu -w "$folder/t.lat"
    measure "perf record -F 99 --call-graph dwarf" perf record -o "$folder/perf.data" -a -F 99 -e cpu-clock --call-graph dwarf
    command -v offcputime-bpfcc > /dev/null && measure "bcc offcputime" offcputime-bpfcc -m 1000
    command -v bpftrace > /dev/null && measure "bpftrace sched_switch, kstack" \
        bpftrace -e 'tracepoint:sched:sched_switch { @[kstack] = count(); }'
fi

for child in "${children[@]}"; do kill "$child" 2> /dev/null || true; done
if command -v fio > /dev/null; then
    requests
fi
