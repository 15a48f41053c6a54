#!/usr/bin/env python3
"""Two builds of latscope on the same inputs, in turns: paired.py OLD NEW [FOLDER [FIO_FOLDER]]

FOLDER has what `make bench` generates (target/bench), FIO_FOLDER what `make bench-fio` generates (target/bench/fio). Prints CPU
seconds (median and minimum), their ratios and the peak memory. On a busy machine the ratio of the minima means more.
"""

import os
import statistics
import sys
from pathlib import Path

ROUNDS = int(os.environ.get("LATSCOPE_BENCH_RUNS", "9"))
OLD, NEW = sys.argv[1:3]
FOLDER = Path(sys.argv[3] if len(sys.argv) > 3 else "target/bench")
FIO = Path(sys.argv[4]) if len(sys.argv) > 4 else FOLDER / "fio"
FILTER = "lat > 1ms and kind = read and comm contains fio"


def commands():
    """Name, required input, and arguments of each case."""
    svg = ["-o", os.devnull]
    for name, file in [("text", "big.txt"), ("gzip text", "big.txt.gz"), ("perf.data", "big.perf.data")]:
        yield f"heatmap, {name}", [FOLDER / file], ["heatmap", "-r", FOLDER / file, *svg]
    text = FOLDER / "big.txt"
    yield "summary", [text], ["summary", "-r", text]
    yield "summary, filter", [text], ["summary", "-r", text, FILTER]
    percentiles = ["-i", "1s", "--p", "50,95,99", "--csv"]
    logs = sorted(file for file in FIO.glob("*_clat.*") if file.is_file())
    yield "fio logs", logs, ["percentiles", "-r", *logs, *percentiles]
    yield "fio logs, --by host", logs, ["percentiles", "-r", *logs, *percentiles, "--by", "host"]
    logs = sorted(file for file in FIO.glob("*_clat_hist.*") if file.is_file())
    yield "fio histogram logs", logs, ["percentiles", "-r", *logs, *percentiles]


def run(program, arguments):
    """CPU seconds and peak memory in MiB."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execv(program, [program, *map(str, arguments)])
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"paired.py: {program} {arguments[0]} failed with status {os.waitstatus_to_exitcode(status)}.")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    print(f"{'CPU seconds':22} {'old':>7} {'min':>7} {'new':>7} {'min':>7}   new/old of medians, minima     MiB")
    for name, inputs, arguments in commands():
        if not inputs or not all(file.exists() for file in inputs):
            print(f"{name:22} skipped: the input is missing; run make bench or make bench-fio first")
            continue
        results = {OLD: [], NEW: []}
        for round_number in range(ROUNDS):
            for program in (OLD, NEW) if round_number % 2 else (NEW, OLD):
                results[program].append(run(program, arguments))
        old, new = ([cpu for cpu, _ in results[program]] for program in (OLD, NEW))
        memory = [max(mib for _, mib in results[program]) for program in (OLD, NEW)]
        median, least = statistics.median, min
        print(
            f"{name:22} {median(old):7.3f} {least(old):7.3f} {median(new):7.3f} {least(new):7.3f}"
            f"   {median(new) / median(old):10.3f} {least(new) / least(old):10.3f}     {memory[0]:.0f} -> {memory[1]:.0f}",
            flush=True,
        )


main()
