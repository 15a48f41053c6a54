#!/usr/bin/env bash
# CPU per request and rate of ioping and of us, side by side on tmpfs: `ioping -C -B -i 0`, which for us has full histograms.
# Rounds alternate, and the median of their ratios is printed, so that a busy machine troubles both alike.
set -euo pipefail
program=${1:-target/release/latscope} rounds=${ROUNDS:-11} count=${COUNT:-2000000}
command -v ioping > /dev/null || { echo "benches/ping.sh needs ioping; install it first." >&2; exit 3; }
folder=$(mktemp -d /dev/shm/latscope-bench.XXXXXX)
trap 'rm -r "$folder"' EXIT
ln -s "$(readlink -f "$program")" "$folder/ioping"
mkdir "$folder/target"

# CPU nanoseconds per request, and requests per second of wall time.
measure() {
    local cpu line
    cpu=$( { TIMEFORMAT='%U %S'; time "$@" -C -B -i 0 -S 1m -c "$count" "$folder/target" > "$folder/out" 2> /dev/null; } 2>&1 )
    line=$(tail -n 1 "$folder/out")
    awk -v cpu="$cpu" -v line="$line" -v count="$count" 'BEGIN {
        split(cpu, c, " "); split(line, l, " "); printf "%.1f %.0f\n", (c[1] + c[2]) * 1e9 / count, l[9] * 1e9 / l[10] }'
}

for _ in $(seq "$rounds"); do
    echo "$(measure "$(command -v ioping)") $(measure "$folder/ioping") $(measure "$program" ping)"
done | awk '
    { ioping[NR] = $1; same[NR] = $3; native[NR] = $5; cpu[NR] = $3 / $1; cpun[NR] = $5 / $1; rate[NR] = $4 / $2; raten[NR] = $6 / $2 }
    function median(list, n,   i, j, swap) {
        for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (list[j] < list[i]) { swap = list[i]; list[i] = list[j]; list[j] = swap }
        return list[int((n + 1) / 2)]
    }
    END {
        printf "CPU per request, ns: ioping %.0f, we as ioping %.0f, latscope ping %.0f (medians of %d)\n", median(ioping, NR), median(same, NR), median(native, NR), NR
        printf "CPU, our share of ioping: %.3f as ioping, %.3f natively (goal: at most 1.05)\n", median(cpu, NR), median(cpun, NR)
        printf "rate, our share of ioping: %.3f as ioping, %.3f natively (goal: at least 1)\n", median(rate, NR), median(raten, NR)
    }'
