#!/usr/bin/env python3
"""Makes long recordings of blktrace and trace-cmd from those in testdata, and measures: traces.py LATSCOPE FOLDER

Every repeat is later by the length of the recording, so that times ascend as in one long recording. CPU seconds are user and
system time; of several runs the median counts.
"""

import os
import shutil
import statistics
import struct
import subprocess
import sys
from pathlib import Path

RUNS = int(os.environ.get("LATSCOPE_BENCH_RUNS", "3"))
LATSCOPE, FOLDER = sys.argv[1], Path(sys.argv[2])
RECORDS = 20_000_000
PAGE = 4096


def unpacked(name):
    return bytearray(subprocess.run(["zstd", "-dc", f"testdata/{name}"], check=True, stdout=subprocess.PIPE).stdout)


def repeat_blktrace(target):
    """A record has its time in bytes 8 to 16, and the length of its data in the last two of its 48."""
    data, at, places = unpacked("blktrace/vda.bin.zst"), 0, []
    while at + 48 <= len(data):
        places.append(at + 8)
        at += 48 + struct.unpack_from("<H", data, at + 46)[0]
    times = [struct.unpack_from("<Q", data, place)[0] for place in places]
    length = max(times) - min(times) + 1000
    with open(target, "wb") as file:
        for repeat in range(-(-RECORDS // len(places))):
            for place, time in zip(places, times):
                struct.pack_into("<Q", data, place, time + repeat * length)
            file.write(data)


def repeat_trace_dat(target, repeats):
    """A page has its time in its first eight bytes; records have distances. The table of CPUs stands before the pages."""
    data = unpacked("trace_dat/same_run_v6.dat.zst")
    table = data.index(b"flyrecord\0") + 10
    first = struct.unpack_from("<Q", data, table)[0]
    cpus = (first - table) // 16
    sections = []
    for cpu in range(cpus):
        at, size = struct.unpack_from("<QQ", data, table + 16 * cpu)
        if at == 0 or at + size > len(data):
            break
        sections.append(data[at : at + size])
    starts = [struct.unpack_from("<Q", pages, at)[0] for pages in sections for at in range(0, len(pages), PAGE)]
    # The last page goes on for a while.
    length = max(starts) - min(starts) + 2_000_000_000
    head, at = data[:first], first
    for cpu, pages in enumerate(sections):
        struct.pack_into("<QQ", head, table + 16 * cpu, at, len(pages) * repeats)
        at += len(pages) * repeats
    with open(target, "wb") as file:
        file.write(head)
        for pages in sections:
            times = [struct.unpack_from("<Q", pages, at)[0] for at in range(0, len(pages), PAGE)]
            for repeat in range(repeats):
                for page, time in enumerate(times):
                    struct.pack_into("<Q", pages, page * PAGE, time + repeat * length)
                file.write(pages)


def make(name, writer):
    path = FOLDER / name
    if not path.exists():
        part = path.with_suffix(".part")
        writer(part)
        part.rename(path)
    return path


def measure(name, command):
    """CPU seconds of the median run, and its peak memory in MiB."""
    results = []
    for _ in range(RUNS):
        child = subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            sys.exit(f"traces.py: `{command}` failed.")
        results.append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    seconds, memory = statistics.median(results)
    print(f"{name:<28} {seconds:8.2f} s CPU {memory:8.0f} MiB", flush=True)
    return seconds


def main():
    blktrace = make("big.blktrace", repeat_blktrace)
    records = RECORDS
    seconds = measure("latscope, blktrace", f"{LATSCOPE} summary -r {blktrace}")
    print(f"  {records / seconds / 1e6:.1f} M records/s (bar: 20)")
    if shutil.which("blkparse"):
        measure("blkparse, merged, no text", f"blkparse -i - -O -q < {blktrace}")
    if shutil.which("btt"):
        measure("btt", f"cd {FOLDER} && btt -i {blktrace.name}")
    repeats = 100
    trace = make("big.trace.dat", lambda part: repeat_trace_dat(part, repeats))
    ours = measure("latscope, trace.dat", f"{LATSCOPE} summary -r {trace}")
    print(f"  {42_992 * repeats / ours / 1e6:.1f} M events/s")
    if shutil.which("trace-cmd"):
        theirs = measure("trace-cmd report", f"trace-cmd report -i {trace} > /dev/null")
        print(f"  {theirs / ours:.1f} times as fast (bar: 10)")


main()
