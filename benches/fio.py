#!/usr/bin/env python3
"""latscope and its peers on the same logs of fio: CPU seconds, peak memory, wall time and ratios: fio.py LATSCOPE FOLDER

CPU seconds are user and system time of the command and its children, and of all runs the median counts; the least disturbed
run is told beside it. Wall time means something only where nothing else runs. What is not installed is left out with a line
that says so.
"""

import datetime
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = int(os.environ.get("LATSCOPE_BENCH_RUNS", "7"))
# Of what takes many seconds, fewer.
PEER_RUNS = min(RUNS, 3)
LATSCOPE, FOLDER = sys.argv[1], Path(sys.argv[2])
ARGUMENTS = "-i 1s --p 50,95,99"
# It takes four minutes and more for half of the files, and its time grows faster than their number.
PEER_FILES = (1, 8, 16)

POLARS = """
import sys, polars as pl
text = {name: pl.String for name in "vdbp"}
rows = pl.scan_csv(sys.argv[1], has_header=False, schema={"t": pl.Int64, **text})
rows = rows.select((pl.col("t") // 1000).alias("s"), pl.col("v").str.strip_chars_start().cast(pl.Int64))
wanted = [pl.col("v").quantile(q, "linear").alias(str(q)) for q in (0.5, 0.95, 0.99)]
print(rows.group_by("s").agg(pl.len(), *wanted).sort("s").collect(engine="streaming").height)
"""
DUCKDB = """
import sys, duckdb
columns = {"t": "BIGINT", "v": "BIGINT", "d": "TINYINT", "b": "INTEGER", "p": "INTEGER"}
wanted = ", ".join(f"quantile_cont(v, {q})" for q in (0.5, 0.95, 0.99))
source = f"read_csv('{sys.argv[1]}', header=false, delim=', ', auto_detect=false, columns={columns})"
print(len(duckdb.connect().execute(f"select t // 1000 s, count(*), {wanted} from {source} group by s order by s").fetchall()))
"""


def once(command):
    environment = dict(os.environ, LC_ALL="C", NO_COLOR="1")
    began = time.monotonic()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{command[0]} failed with status {child.returncode}: {said.strip()[-200:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.monotonic() - began


def measure(name, command, runs=RUNS):
    """Median and least of CPU seconds, largest memory, shortest wall time; None where it cannot run."""
    try:
        results = [once([str(part) for part in command]) for _ in range(runs)]
    except (OSError, RuntimeError) as error:
        print(f"{name:44} left out: {error}", flush=True)
        return None
    cpu_s = statistics.median(result[0] for result in results)
    rss_mib, wall_s = max(result[1] for result in results), min(result[2] for result in results)
    each = " ".join(f"{result[0]:.2f}" for result in results)
    least_s = min(result[0] for result in results)
    print(f"{name:44} {cpu_s:8.2f} {least_s:8.2f} {rss_mib:8.0f} {wall_s:8.2f}   {each}", flush=True)
    return {"cpu_s": cpu_s, "rss_mib": rss_mib, "wall_s": wall_s}


def percentiles(files, *more):
    reads = [part for file in files for part in ("-r", file)]
    return [LATSCOPE, "percentiles", *ARGUMENTS.split(), *more, *reads]


def bar(sentence, value, limit, unit, at_least=False):
    is_met = value >= limit if at_least else value <= limit
    print(f"  {'PASS' if is_met else 'FAIL'}  {sentence:62} {value:6.2f}{unit}  bar {'>=' if at_least else '<='} {limit}{unit}")


def has(module):
    there = importlib.util.find_spec(module) is not None
    if not there:
        print(f"{module} is not installed here (make python), so it is left out.")
    return there


def main():
    logs, histograms = sorted(FOLDER.glob("*_clat.*")), sorted(FOLDER.glob("*_clat_hist.*"))
    packed = sorted((FOLDER / "gz").glob("*.gz"))
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"{datetime.datetime.now():%Y-%m-%d %H:%M}, {cpu}, {os.cpu_count()} CPUs, Linux {platform.release()}")
    for kind, files in (("logs", logs), ("histogram logs", histograms), ("gzip logs", packed)):
        print(f"{len(files)} {kind}, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB")
    print(f"load at the start: {os.getloadavg()[0]:.1f}\n")
    print(f"{'':44} {'CPU s':>8} {'least':>8} {'MiB RSS':>8} {'wall s':>8}   each run, CPU s")

    floor = measure("wc -l, logs", ["wc", "-l", *logs])
    ours = measure("latscope percentiles, logs, weighted", percentiles(logs))
    measure("latscope percentiles, logs, --count-by completion", percentiles(logs, "--count-by", "completion"))
    measure("latscope percentiles, logs, --by host", percentiles(logs, "--by", "host"))
    rows = measure("latscope percentiles, histogram logs", percentiles(histograms))
    gzip = measure("latscope percentiles, gzip logs", percentiles(packed))
    zcat = measure("zcat alone, gzip logs", ["zcat", *packed], PEER_RUNS)
    pattern = FOLDER / "*_clat.*"
    peers = {
        "polars": measure("polars, logs, unweighted", [sys.executable, "-c", POLARS, pattern], PEER_RUNS) if has("polars") else None,
        "DuckDB": measure("DuckDB, logs, unweighted", [sys.executable, "-c", DUCKDB, pattern], PEER_RUNS) if has("duckdb") else None,
    }
    for count in PEER_FILES:
        files = histograms[:count]
        command = [sys.executable, FOLDER / "fiologparser_hist.py", "-i", "1000", *files]
        theirs = measure(f"fiologparser_hist.py, {count} histogram logs", command, runs=1)
        if theirs is None:
            break
        same = measure(f"latscope percentiles, {count} histogram logs", percentiles(files))
        print(f"{'':44} {theirs['cpu_s'] / same['cpu_s']:8.0f}x")

    print("\nbars")
    bar("logs, weighted", ours["cpu_s"], 1.0, " CPU s")
    bar("logs, weighted, wall (on idle processors)", ours["wall_s"], 0.6, " s")
    bar("histogram logs", rows["cpu_s"], 1.0, " CPU s")
    bar("peak memory", max(ours["rss_mib"], rows["rss_mib"]), 64, " MiB")
    known = {name: peer for name, peer in peers.items() if peer}
    if known:
        name = min(known, key=lambda name: known[name]["cpu_s"])
        bar(f"fewer CPU seconds than the best peer ({name})", known[name]["cpu_s"] / ours["cpu_s"], 3, "x", at_least=True)
    print(f"\nload at the end: {os.getloadavg()[0]:.1f}; logs are {ours['cpu_s'] / floor['cpu_s']:.0f}x `wc -l`; gzip logs are {gzip['cpu_s'] / zcat['cpu_s']:.2f}x `zcat`")


main()
