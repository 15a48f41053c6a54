#!/usr/bin/env python3
"""Repeats perf script text until it is long enough: repeat_text.py IN[.gz] OUT BYTES LINES

Every repeat is later by the length of the slice, so that times ascend as in one long recording.
"""

import gzip
import re
import sys

ANCHOR = re.compile(rb"( *)(\d+)\.(\d{6})(: )")


def main(source, target, least_bytes, least_lines):
    opener = gzip.open if source.endswith(".gz") else open
    with opener(source, "rb") as file:
        lines = [line for line in file if ANCHOR.search(line)]
    parts = []
    for line in lines:
        anchor = ANCHOR.search(line)
        time_us = int(anchor[2]) * 1_000_000 + int(anchor[3])
        parts.append((line[: anchor.start()], time_us, anchor.end(3) - anchor.start(), line[anchor.end(3) :]))
    times = [part[1] for part in parts]
    length_us = max(times) - min(times) + 1000
    written, count, shift_us = 0, 0, 0
    with open(target, "wb") as file:
        while written < least_bytes or count < least_lines:
            text = b"".join(
                b"%s%*d.%06d%s" % (head, width - 7, (time_us + shift_us) // 1_000_000, (time_us + shift_us) % 1_000_000, tail)
                for head, time_us, width, tail in parts
            )
            file.write(text)
            written += len(text)
            count += len(parts)
            shift_us += length_us


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
