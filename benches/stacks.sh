#!/usr/bin/env bash
# What captures of stacks cost: the CPU time of the sampler with 500 threads against an idle machine, and the nanoseconds a run of
# each BPF program, by the kernel's own account, under `perf bench sched pipe`. Beside them perf, bpftrace and bcc where they run.
# Then what a fast request pays for the stacks of slow ones: the sum of its programs with and without, in turns, under fio on a loop
# device. REQUESTS=1 does only that. With FORKS=600 in place of all that: memory and open files of a sampler while processes fork
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
        "/proc/$1/fdinfo/"* 2> /dev/null | sort -u
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

# fast NAME COMMAND...: appends to the file NAME what all programs of the requests took of one, nanoseconds.
fast() {
    local name=$1 pid
    shift
    "$@" > "$folder/out" 2>&1 &
    pid=$!
    sleep 5
    awk '/^prog_id/ { id = $2 } /^run_time_ns/ { time = $2 } /^run_cnt/ && $2 > 1000 && !known[id]++ { sum += time / $2 } END { printf "%.1f\n", sum }' \
        "/proc/$pid/fdinfo/"* 2> /dev/null >> "$folder/$name"
    kill -INT "$pid"
    wait "$pid" || true
}

median() { sort -n "$1" | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

requests() {
    local block=("$latscope" record -f -s block -w "$folder/t.lat")
    truncate -s 64M "$folder/disk"
    loop=$(losetup --find --show "$folder/disk")
    fio --name=load --filename="$loop" --rw=randread --bs=4k --direct=1 --ioengine=psync --time_based --runtime=3600 \
        > /dev/null 2>&1 &
    children+=($!)
    sleep 1
    echo "block requests, one at a time, nanoseconds of all programs for each (medians of 6 runs in turns):"
    for turn in 1 2 3 4 5 6; do
        fast without "${block[@]}" "device = ${loop#/dev/}"
        fast slow "${block[@]}" --stacks slow "device = ${loop#/dev/}"
        [ "$turn" -gt 2 ] || fast one_in_64 "${block[@]}" --stacks 1/64 "device = ${loop#/dev/}"
        [ "$turn" -gt 2 ] || fast all "${block[@]}" --stacks all "device = ${loop#/dev/}"
    done
    for name in without slow one_in_64 all; do
        printf '%-12s %7.1f ns  (%s)\n' "$name" "$(median "$folder/$name")" "$(sort -n "$folder/$name" | tr '\n' ' ')"
    done
    awk -v with="$(median "$folder/slow")" -v without="$(median "$folder/without")" \
        'BEGIN { printf "a fast request pays %.1f ns for --stacks slow\n", with - without }'
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
