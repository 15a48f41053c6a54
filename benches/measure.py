#!/usr/bin/env python3
"""Runs latscope and its peers on the same input and prints CPU seconds, peak memory and ratios: measure.py LATSCOPE FOLDER

CPU seconds are user and system time of the command and all its children; of three runs the median counts. Wall time is not
judged: it depends on what else the machine does. Nothing here ends with an error because a bar was missed.
"""

import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

RUNS = int(os.environ.get("LATSCOPE_BENCH_RUNS", "3"))
HERE = Path(__file__).parent
LATSCOPE, FOLDER = sys.argv[1], Path(sys.argv[2])
TEXT, GZIP, PERF_DATA = FOLDER / "big.txt", FOLDER / "big.txt.gz", FOLDER / "big.perf.data"
FILTER = "lat > 1ms and kind = read and comm contains fio"
# The bars in seconds were set on a quiet machine where the awk program took this long for this many bytes.
AWK_SECONDS_THERE, AWK_BYTES_THERE = 4.57 + 0.19, 334e6


def run(command):
    """CPU seconds and peak memory in MiB of a shell command."""
    environment = dict(os.environ, LC_ALL="C", NO_COLOR="1")
    child = subprocess.Popen(["bash", "-c", f"set -o pipefail; {command}"], env=environment, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"measure.py: `{command}` failed with status {child.returncode}.")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(name, command, input_file):
    """The median of all runs."""
    results = [run(command) for _ in range(RUNS)]
    cpu_s, rss_mib = statistics.median(cpu for cpu, _ in results), max(rss for _, rss in results)
    size = input_file.stat().st_size
    runs = " ".join(f"{cpu:.2f}" for cpu, _ in results)
    print(f"{name:34} {cpu_s:8.2f} {rss_mib:8.0f} {size / 1e6:8.0f}   {runs}", flush=True)
    return {"cpu_s": cpu_s, "rss_mib": rss_mib, "size": size}


def output(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")).stdout


def counted(path):
    total = json.loads(output(f"{LATSCOPE} summary --json -r {path} 2> /dev/null"))["total"]
    return f"{total['count']} requests, slowest {total['max_ns'] / 1e6:.3f} ms"


def bar(sentence, value, limit, unit, at_least=False):
    is_met = value >= limit if at_least else value <= limit
    sign = ">=" if at_least else "<="
    print(f"  {'PASS' if is_met else 'FAIL'}  {sentence:58} {value:6.2f}{unit}  bar {sign} {limit}{unit}")


def main():
    awk = f"gawk -f {HERE}/tutorial.awk"
    svg = f"-o {FOLDER}/out.svg"
    peers = shutil.which("perf") is not None
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"{datetime.datetime.now():%Y-%m-%d %H:%M}, {cpu}, {os.cpu_count()} CPUs, Linux {platform.release()}")
    print(output("gawk --version | head -1; perf --version").strip(), f"\n{output(f'{LATSCOPE} --version').strip()}")
    print(f"load at the start: {os.getloadavg()[0]:.1f}\n")

    print(f"{'':34} {'CPU s':>8} {'MiB RSS':>8} {'MB in':>8}   each run, CPU s")
    floor = measure("wc -l, text", f"wc -l {TEXT} > /dev/null", TEXT)
    text_awk = measure("the tutorial's awk, text", f"{awk} {TEXT} > /dev/null", TEXT)
    text = measure("latscope heatmap, text", f"{LATSCOPE} heatmap -r {TEXT} {svg}", TEXT)
    gzip = measure("latscope heatmap, gzip text", f"{LATSCOPE} heatmap -r {GZIP} {svg}", GZIP)
    zcat = measure("zcat alone, gzip text", f"zcat {GZIP} > /dev/null", GZIP)
    data = measure("latscope heatmap, perf.data", f"{LATSCOPE} heatmap -r {PERF_DATA} {svg}", PERF_DATA)
    plain = measure("latscope summary, text", f"{LATSCOPE} summary -r {TEXT} > /dev/null", TEXT)
    filtered = measure("the same with a filter", f"{LATSCOPE} summary -r {TEXT} '{FILTER}' > /dev/null", TEXT)
    if peers:
        data_awk = measure("perf script | awk, perf.data", f"perf script -i {PERF_DATA} | {awk} > /dev/null", PERF_DATA)

    print("\nbars")
    per_300_mb = 300e6 / text["size"]
    speed = text_awk["cpu_s"] / AWK_SECONDS_THERE * AWK_BYTES_THERE / text["size"]
    bar("text to SVG: fewer CPU seconds than the awk alone", text_awk["cpu_s"] / text["cpu_s"], 9, "x", at_least=True)
    if peers:
        ratio = data_awk["cpu_s"] / data["cpu_s"]
        bar("perf.data to SVG: fewer CPU seconds than perf script | awk", ratio, 30, "x", at_least=True)
    largest = max(result["rss_mib"] for result in (text, gzip, data, plain, filtered))
    bar("peak memory of any latscope run", largest, 64, " MiB")
    print(f"  absolute bars, for 300 MB of text, on a machine as fast as the one they were set on (this one takes {speed:.2f}x):")
    for name, result, limit in [("text", text, 0.5), ("gzip text", gzip, 1.1), ("perf.data", data, 0.3)]:
        seconds = result["cpu_s"] * per_300_mb
        bar(f"{name} to SVG ({seconds:.2f} s as measured)", seconds / speed, limit, " s")
    print(f"\nfilter `{FILTER}`: {filtered['cpu_s'] - plain['cpu_s']:+.2f} CPU s on {plain['cpu_s']:.2f}")
    print(f"text to SVG is {text['cpu_s'] / floor['cpu_s']:.1f}x `wc -l`; gzip text is {gzip['cpu_s'] / zcat['cpu_s']:.2f}x `zcat`")

    print("\nwhat they count")
    sums = "awk '{ n++; if ($2 > max) max = $2 } END { printf \"%d requests, slowest %.3f ms\", n, max / 1000 }'"
    print(f"  awk, text:           {output(f'{awk} {TEXT} | {sums}')}")
    print(f"  latscope, text:      {counted(TEXT)}")
    if peers:
        print(f"  awk, perf.data:      {output(f'perf script -i {PERF_DATA} 2> /dev/null | {awk} | {sums}')}")
    print(f"  latscope, perf.data: {counted(PERF_DATA)}")


main()
