"""Reads the log that tests/hlog.rs wrote with HdrHistogram's own reader, and writes one with its writer for the way back.

Usage: hlog_agrees.py FOLDER  with ours.hlog and ours.tsv; leaves theirs.hlog and theirs.tsv
"""

import random
import sys
from pathlib import Path

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader, HistogramLogWriter

START_S = 1_441_812_279


def equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {str(found)[:500]}, expected {str(expected)[:500]}")


def check_ours(folder):
    """Every interval has the times, the tag and, bucket by bucket, the counts that the text names."""
    reference = HdrHistogram(1, 10**12, 3)
    reader = HistogramLogReader(str(folder / "ours.hlog"), reference)
    with open(folder / "ours.tsv", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            start_ms, end_ms, tag, low, high, *buckets = line.split()
            histogram = reader.get_next_interval_histogram()
            if histogram is None:
                sys.exit(f"row {number} is not there")
            times = (round(histogram.get_start_time_stamp()), round(histogram.get_end_time_stamp()))
            equal(f"times of row {number}", times, (int(start_ms), int(end_ms)))
            equal(f"tag of row {number}", histogram.get_tag(), tag)
            counts = {}
            for item in histogram.get_recorded_iterator():
                value = histogram.get_lowest_equivalent_value(item.value_iterated_to)
                counts[value] = counts.get(value, 0) + item.count_added_in_this_iter_step
            for bucket in buckets:
                lower, upper, count = (int(part) for part in bucket.split(":"))
                found = sum(n for value, n in counts.items() if lower <= value <= upper)
                equal(f"row {number} from {lower} to {upper}", found, count)
            equal(f"count of row {number}", histogram.get_total_count(), sum(counts.values()))
            equal(f"total of row {number}", sum(counts.values()), sum(int(b.split(":")[2]) for b in buckets))
            ends = (histogram.get_min_value(), histogram.get_max_value())
            for found, expected in zip(ends, (int(low), int(high)), strict=True):
                if not histogram.values_are_equivalent(found, expected):
                    sys.exit(f"row {number} ends at {ends}, not at {low} and {high}")
    equal("rows behind the last", reader.get_next_interval_histogram(), None)


def write_theirs(folder):
    """Intervals of two and of three digits, with their values as text."""
    random.seed(4)
    with (
        open(folder / "theirs.hlog", "w", encoding="utf-8") as log,
        open(folder / "theirs.tsv", "w", encoding="utf-8") as text,
    ):
        writer = HistogramLogWriter(log)
        writer.output_log_format_version()
        writer.output_base_time(START_S * 1000)
        writer.output_legend()
        for at in range(40):
            histogram = HdrHistogram(1, 10**11, 2 + at % 2)
            values = [int(10 ** random.uniform(0, 10.5)) for _ in range(1 + 37 * at)]
            for value in values:
                histogram.record_value(value)
            writer.output_interval_histogram(histogram, at * 0.25 + 0.125, (at + 1) * 0.25 + 0.125)
            text.write(f"{at * 250 + 125} " + " ".join(map(str, values)) + "\n")


def main():
    folder = Path(sys.argv[1])
    check_ours(folder)
    write_theirs(folder)


main()
