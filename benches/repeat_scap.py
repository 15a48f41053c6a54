#!/usr/bin/env python3
"""Repeats a capture of sysdig until it has enough events: repeat_scap.py IN[.gz] OUT EVENTS

The lists in front are kept once; every repeat of the events is later by the length of the capture, so that times ascend as in one
long recording.
"""

import gzip
import struct
import sys

EVENT, EVENT_WITH_FLAGS = 0x216, 0x217


def main(source, target, least):
    opener = gzip.open if source.endswith(".gz") else open
    with opener(source, "rb") as file:
        data = file.read()
    lists, events, at = [], bytearray(), 0
    times = []
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind in (EVENT, EVENT_WITH_FLAGS):
            time_at = len(events) + 10 + 4 * (kind == EVENT_WITH_FLAGS)
            events += data[at : at + length]
            times.append((time_at, struct.unpack_from("<Q", events, time_at)[0]))
        else:
            lists.append(data[at : at + length])
        at += length
    known = [time for _, time in times if time]
    span = max(known) - min(known) + 1000
    with open(target, "wb") as file:
        file.writelines(lists)
        for turn in range(-(-least // len(times))):
            file.write(events)
            for position, time in times:
                struct.pack_into("<Q", events, position, time + (turn + 1) * span)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
