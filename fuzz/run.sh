#!/usr/bin/env bash
# Builds the fuzz targets and runs those named (all without a name) for FUZZ_SECONDS each, one after the other,
# with a line about each. What is found lies in fuzz/artifacts; new inputs stay in fuzz/target/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi

skip() {
    echo "fuzz: skipped, since $1." >&2
    exit 0
}
cargo +nightly --version >/dev/null 2>&1 || skip "there is no nightly toolchain (rustup toolchain install nightly)"
cargo +nightly fuzz --version >/dev/null 2>&1 || skip "there is no cargo-fuzz (cargo install cargo-fuzz)"
command -v zstd >/dev/null || skip "there is no zstd, which unpacks the corpora (apt-get install zstd)"

seconds=${FUZZ_SECONDS:-300}
# The sanitizer keeps freed memory back for a while, which is not the memory that the limit is for.
export ASAN_OPTIONS="quarantine_size_mb=16${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

# The longest input: what the largest seeds need, since short inputs are tried many times faster.
max_len() {
    case $1 in
        filter) echo 1024 ;;
        # Each four bytes of zstd can make 128 KiB.
        two_columns | spark_zstd) echo 4096 ;;
        perf_script | ftrace) echo 8192 ;;
        trace_dat | unwind) echo 20480 ;;
        *) echo 16384 ;;
    esac
}

targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list --fuzz-dir fuzz)
cargo +nightly fuzz build --fuzz-dir fuzz

status=0
for target in "${targets[@]}"; do
    found=fuzz/target/corpus/$target log=fuzz/target/$target.log
    rm -rf "fuzz/target/seeds/$target"
    mkdir -p "$found" fuzz/target/seeds
    tar -xf "fuzz/corpus/$target.tar.zst" -C fuzz/target/seeds
    verdict="nothing found"
    cargo +nightly fuzz run --fuzz-dir fuzz "$target" "$found" "fuzz/target/seeds/$target" -- \
        -max_total_time="$seconds" -max_len="$(max_len "$target")" -timeout=10 -rss_limit_mb=512 \
        -print_final_stats=1 >"$log" 2>&1 || { verdict="FAILED, see $log"; status=1; }
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    memory=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
    reached=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 edges, \2 features/p' "$log" | tail -1)
    echo "$target: ${runs:-0} runs in ${seconds}s, ${reached:-nothing reached}, ${memory:-?} MB, $verdict"
done
exit $status
