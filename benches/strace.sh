#!/usr/bin/env bash
# Reads a strace text of 300 MB, built by repeating the sample: MB/s, CPU seconds and peak memory of each of RUNS (5) runs.
#
#   LATSCOPE   the program (target/release/latscope)
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${LATSCOPE:-target/release/latscope}")
folder=target/bench/strace
text=$folder/strace.txt
mkdir -p "$folder"
if [[ ! -s $text ]]; then
    # The same calls again, each time ten seconds later.
    zstd -dc testdata/strace/f_ttt.txt.zst > "$folder/sample.txt"
    awk -v times=$((300000000 / $(stat -c %s "$folder/sample.txt") + 1)) '
        { line[NR] = $0 }
        END {
            for (round = 0; round < times; round++)
                for (at = 1; at <= NR; at++) {
                    split(line[at], word, " ")
                    split(word[2], time, ".")
                    rest = substr(line[at], length(word[1]) + length(word[2]) + 3)
                    print word[1] " " time[1] + 10 * round "." time[2] " " rest
                }
        }' "$folder/sample.txt" > "$text.part"
    mv "$text.part" "$text"
fi
megabytes=$(($(stat -c %s "$text") / 1000000))
for view in "summary" "summary --by name" "summary --by path -s syscall"; do
    for _ in $(seq "${RUNS:-5}"); do
        /usr/bin/env time -f "%e %U %S %M" -o "$folder/time" "$program" $view -r "$text" > "$folder/out.txt" 2>&1
        awk -v view="$view" -v megabytes="$megabytes" '{
            printf "%-34s %6.2f s, %4.0f MB/s, CPU %.2f s (%4.0f MB per CPU second), %4.0f MB memory\n",
                view, $1, megabytes / $1, $2 + $3, megabytes / ($2 + $3), $4 / 1000 }' "$folder/time"
    done
done
