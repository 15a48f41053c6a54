#!/usr/bin/env python3
"""Repeats the samples of a perf.data until there are enough: repeat_perf_data.py IN OUT SAMPLES

Takes a plain file of a little-endian machine whose events share the columns IDENTIFIER, IP, TID and TIME in front, as
`perf record -a -e tracepoint` writes it. perf's own records come once, samples and round marks in every repeat, later by
the length of the recording. What stands behind the data (the features) moves back, with the offsets that point to it.
"""

import struct
import sys

SAMPLE, FINISHED_ROUND = 9, 68
IDENTIFIER, IP, TID, TIME = 1 << 16, 1 << 0, 1 << 1, 1 << 2
SAMPLE_TIME_FEATURE = 21


def check(condition, message):
    if not condition:
        sys.exit(f"repeat_perf_data.py: {message}")


def main(source, target, least_samples):
    with open(source, "rb") as file:
        old = file.read()
    check(old[:8] == b"PERFILE2", "This is no perf.data of a little-endian machine.")
    attr_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from("<5Q", old, 16)
    features = int.from_bytes(old[72:104], "little")
    for at in range(attrs_at, attrs_at + attrs_size, attr_size):
        sample_type = struct.unpack_from("<Q", old, at + 24)[0]
        check(sample_type & IDENTIFIER and sample_type & TIME and sample_type & TID, "Samples lack identifier or time.")
    time_at = 8 + 8 + (8 if sample_type & IP else 0) + 8

    others, repeated, times = bytearray(), bytearray(), []
    at = data_at
    while at < data_at + data_size:
        kind, _, size = struct.unpack_from("<IHH", old, at)
        check(size >= 8, "The data are damaged.")
        record = old[at : at + size]
        if kind == SAMPLE:
            times.append((len(repeated) + time_at, struct.unpack_from("<Q", record, time_at)[0]))
        (repeated if kind in (SAMPLE, FINISHED_ROUND) else others).extend(record)
        at += size
    check(times, "There are no samples.")
    first, last = min(time for _, time in times), max(time for _, time in times)
    length_ns = last - first + 1_000_000
    repeats = -(-least_samples // len(times))

    with open(target, "wb") as file:
        file.write(old[:data_at])
        # Perf's own records are of the time before and during the first repeat; they name threads and programs.
        file.write(others)
        for repeat in range(repeats):
            for place, time in times:
                struct.pack_into("<Q", repeated, place, time + repeat * length_ns)
            file.write(repeated)
        new_size = len(others) + repeats * len(repeated)
        moved = new_size - data_size
        # A table of (offset, size) for each feature whose bit is set, then the features themselves.
        tail = bytearray(old[data_at + data_size :])
        present = [bit for bit in range(256) if features >> bit & 1]
        for index, bit in enumerate(present):
            offset, size = struct.unpack_from("<2Q", tail, 16 * index)
            struct.pack_into("<2Q", tail, 16 * index, offset + moved, size)
            if bit == SAMPLE_TIME_FEATURE:
                struct.pack_into("<2Q", tail, offset - data_at - data_size, first, last + (repeats - 1) * length_ns)
        file.write(tail)
        file.seek(48)
        file.write(struct.pack("<Q", new_size))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
