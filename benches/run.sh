#!/bin/bash
# latscope and the peers side by side on the same input: `make bench`.
#
#   LATSCOPE              the program (target/release/latscope)
#   LATSCOPE_BENCH_TEXT   the slice of perf script text to repeat (the one in testdata)
#   LATSCOPE_BENCH_RUNS   runs of each command (3)
#
# The inputs, about 700 MB, are made once under target/bench and kept there.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${LATSCOPE:-target/release/latscope}")
text=${LATSCOPE_BENCH_TEXT:-testdata/perf_script/story_2s.txt.gz}
folder=target/bench
mkdir -p "$folder"
trap 'rm -f "$folder"/*.part' EXIT

./xtask/packages.sh gawk zstd python3 linux-perf
for tool in gawk zstd python3; do
    command -v "$tool" > /dev/null || { echo "benches/run.sh needs $tool; install it first." >&2; exit 3; }
done
[[ -x $program ]] || { echo "There is no $program; run make build first." >&2; exit 3; }
command -v perf > /dev/null || echo "There is no perf here, so it is left out of the comparison." >&2

if [[ ! -e $folder/big.txt ]]; then
    python3 benches/repeat_text.py "$text" "$folder/big.txt.part" 300000000 2750000
    mv "$folder/big.txt.part" "$folder/big.txt"
fi
if [[ ! -e $folder/big.txt.gz ]]; then
    gzip -c "$folder/big.txt" > "$folder/big.txt.gz.part"
    mv "$folder/big.txt.gz.part" "$folder/big.txt.gz"
fi
if [[ ! -e $folder/big.perf.data ]]; then
    zstd -q -dc testdata/perf_data/block_mixed.data.zst > "$folder/slice.part"
    python3 benches/repeat_perf_data.py "$folder/slice.part" "$folder/big.perf.data.part" 2750000
    mv "$folder/big.perf.data.part" "$folder/big.perf.data"
fi
python3 benches/measure.py "$program" "$folder" | tee "$folder/last.txt"
