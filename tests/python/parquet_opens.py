"""Opens the files that tests/parquet.rs wrote, in DuckDB, Polars and pyarrow, and compares with the values as text.

Usage: parquet_opens.py FOLDER  with events.parquet, series.parquet, trace.lat, events.tsv and series.tsv
"""

import csv
import sys
from collections import Counter, defaultdict
from pathlib import Path

import duckdb
import polars
import pyarrow.ipc

FIELDS = ["time_ns", "latency_ns", "kind", "size", "pid", "comm", "path", "queue_ns"]
TEXTS = {"kind", "comm", "path"}


def known_events(folder):
    """The events as tuples; an empty cell is a missing value."""
    with open(folder / "events.tsv", newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    read = [str if name in TEXTS else int for name in FIELDS]
    return [tuple(None if cell == "" else of(cell) for of, cell in zip(read, row, strict=True)) for row in rows]


def equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {str(found)[:500]}, expected {str(expected)[:500]}")


def order(rows):
    return sorted(rows, key=lambda row: tuple((value is None, value) for value in row))


def check_events(folder):
    events = known_events(folder)
    file = str(folder / "events.parquet")
    columns = ", ".join(FIELDS)

    rows = duckdb.sql(f"SELECT {columns} FROM '{file}'").fetchall()
    equal("DuckDB events", order(rows), order(events))
    equal("DuckDB order", [row[0] for row in rows], sorted(row[0] for row in events))
    by_kind = duckdb.sql(f"SELECT kind, count(*), max(latency_ns) FROM '{file}' GROUP BY kind").fetchall()
    expected = defaultdict(list)
    for event in events:
        expected[event[2]].append(event[1])
    equal("DuckDB groups", set(by_kind), {(kind, len(values), max(values)) for kind, values in expected.items()})
    middle = sorted(row[0] for row in events)[35_000]
    found = duckdb.sql(f"SELECT count(*) FROM '{file}' WHERE time_ns >= {middle}").fetchall()[0][0]
    equal("DuckDB row groups and pages left out by time", found, sum(row[0] >= middle for row in events))
    types = {name: kind for name, kind, *_ in duckdb.sql(f"DESCRIBE SELECT * FROM '{file}'").fetchall()}
    equal("DuckDB types", {types[name] for name in FIELDS if name not in TEXTS}, {"BIGINT"})
    equal("DuckDB types", {types[name] for name in TEXTS}, {"VARCHAR"})

    frame = polars.read_parquet(file)
    equal("Polars events", order(frame.select(FIELDS).rows()), order(events))
    lazy = polars.scan_parquet(file).filter(polars.col("time_ns") >= middle)
    equal("Polars pages left out by time", lazy.select(polars.len()).collect().item(), found)
    counts = frame.group_by("comm").len().rows()
    equal("Polars groups", dict(counts), dict(Counter(row[5] for row in events)))


def check_series(folder):
    with open(folder / "series.tsv", encoding="utf-8") as lines:
        cells = [line.rstrip("\n").split("\t") for line in lines]
    known = [(int(time), device, int(count), int(total), int(top)) for time, device, count, total, top in cells]
    file = str(folder / "series.parquet")
    names = "time_ns, device, count, sum_ns, max_ns"
    equal("DuckDB series", order(duckdb.sql(f"SELECT {names} FROM '{file}'").fetchall()), order(known))
    lists = duckdb.sql(f"SELECT count, list_sum(n), len(k), len(n), len(w) FROM '{file}'").fetchall()
    equal("DuckDB buckets", [row for row in lists if row[0] != row[1] or len(set(row[2:])) != 1], [])
    unnested = duckdb.sql(
        f"SELECT device, sum(n)::BIGINT FROM (SELECT device, unnest(k) AS k, unnest(n) AS n FROM '{file}') GROUP BY device"
    ).fetchall()
    expected = Counter()
    for _, device, count, _, _ in known:
        expected[device] += count
    equal("DuckDB unnested", dict(unnested), dict(expected))

    frame = polars.read_parquet(file)
    equal("Polars series", order(frame.select(names.split(", ")).rows()), order(known))
    per_bucket = frame.explode("k", "n", "w").group_by("device").agg(polars.col("n").sum())
    equal("Polars unnested", dict(per_bucket.rows()), dict(expected))
    equal("grid", set(frame["grid"]), {6})
    equal("width", set(frame["width_ns"]), {1_000_000_000})


def check_trace(folder):
    events = known_events(folder)
    with pyarrow.ipc.open_stream(str(folder / "trace.lat")) as stream:
        context = stream.schema.metadata[b"latscope"].decode()
        batches = list(stream)
    equal("several batches", len(batches) > 2, True)
    rows = [tuple(row[name] for name in FIELDS) for batch in batches for row in batch.to_pylist()]
    equal("pyarrow trace", rows, events)
    equal("pyarrow context", '"host":"db1"' in context, True)
    equal("pyarrow unit", batches[0].schema.field("latency_ns").metadata, {b"unit": b"ns"})
    frame = polars.read_ipc_stream(str(folder / "trace.lat"))
    frame = frame.with_columns(polars.col(sorted(TEXTS)).cast(polars.String))
    equal("Polars trace", frame.select(FIELDS).rows(), events)


def main():
    folder = Path(sys.argv[1])
    check_events(folder)
    check_series(folder)
    check_trace(folder)


main()
