"""CPU seconds of the Python package beside the program: events to Arrow, and percentiles.

Usage: python_package.py PROGRAM FILE [RUNS]; FILE is a trace, such as target/bench/big.perf.data of make bench. Needs make python-package.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

import latscope as lat

if TYPE_CHECKING:
    from collections.abc import Callable


def cpu_s(work: Callable[[], object], runs: int, who: int) -> float:
    """Return the median of the CPU seconds that this takes."""
    used = []
    for _ in range(runs):
        before = resource.getrusage(who)
        work()
        after = resource.getrusage(who)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(used)


def main() -> None:
    """Measure and print a line for each task."""
    program, file = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    trace = lat.read(file)
    events = len(trace.events(["time_ns"]))
    print(f"{events} events in {file}; medians of {runs} runs, CPU seconds")

    def run(*words: str) -> None:
        subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    ours, theirs = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    print(f"events, all columns      {cpu_s(trace.events, runs, ours):8.2f}")
    print(f"events, time and latency {cpu_s(lambda: trace.events(['time_ns', 'latency_ns']), runs, ours):8.2f}")
    print(f"percentiles -i 1s        {cpu_s(lambda: trace.percentiles([50, 99], '1s'), runs, ours):8.2f}")
    words = ("percentiles", "-r", file, "-i", "1s", "--p", "50,99", "--json")
    print(f"the same, by the program {cpu_s(lambda: run(*words), runs, theirs):8.2f}")


main()
