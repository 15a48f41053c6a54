"""Latency in Spark: our buckets from raw events by plain DataFrame code, every file format as a data source, blocks measured.

There is no UDF and no jar, so it works with Spark Connect, and where nothing can be installed on executors (the data source
alone needs the package there).

>>> from latscope import spark as lat_spark
>>> events = spark.read.parquet("events/")
>>> cells = lat_spark.histogram(events, interval="10s", by=["host"])
>>> lat_spark.percentiles(cells, [50, 99], by=["time_ns", "host"]).show()
"""

from __future__ import annotations

import re
import warnings
from os import fspath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from latscope import buckets
from latscope._native import UsageError
from latscope.arguments import names, nanoseconds
from latscope.buckets import POWER
from latscope.measure import Measure, measure

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    HAS_SOURCES = True
except ImportError:  # Spark 3
    DataSource = DataSourceReader = InputPartition = object
    HAS_SOURCES = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column
    from typing_extensions import Unpack

    from latscope.arguments import Duration
    from latscope.series import Look, Picture, Series
    from latscope.trace import Trace

__all__ = [
    "Measure",
    "bucket",
    "cells",
    "check",
    "heatmap",
    "histogram",
    "measure",
    "merge",
    "percentiles",
    "register",
    "series",
]


def quoted(name: str) -> str:
    """Return a column's name as SQL has it."""
    return f"`{name.replace('`', '``')}`"


def columns(names: Iterable[str]) -> list[Column]:
    """Return columns by their names; a dot in one is no field of another."""
    return [F.col(quoted(name)) for name in names]


def bucket(column: str = "latency_ns", power: int = POWER) -> Column:
    """Return the bucket of a column of integers."""
    return F.expr(buckets.bucket_sql(quoted(column), power))


def histogram(
    events: DataFrame,
    interval: Duration | None = None,
    by: str | Iterable[str] | None = None,
    *,
    value: str = "latency_ns",
    time: str = "time_ns",
    count_by: str = "completion",
    power: int = POWER,
) -> DataFrame:
    """Return the cells of raw events: ``time_ns``, ``by``, bucket ``k`` and count ``n``.

    An event counts in the interval in which it completed (start and latency), as everywhere in latscope; with
    ``count_by="start"``, where it started. Without an interval there is no ``time_ns``.
    """
    by, keys = names(by), []
    if interval is not None:
        width = nanoseconds(interval)
        if not width:
            message = "The interval must be longer than zero."
            raise UsageError(message)
        if count_by not in {"completion", "start"}:
            message = f"There is no count_by={count_by}; use completion or start."
            raise UsageError(message)
        moment = quoted(time) if count_by == "start" else f"({quoted(time)} + {quoted(value)})"
        start = F.expr(f"{moment} - pmod({moment}, {width}L)")
        keys.append(start.alias("time_ns", metadata={"latscope.width_ns": width}))
    for name in by:
        if name in {"time_ns", "k", "n"}:
            message = f"A column of cells is called {name}; rename the one that groups."
            raise UsageError(message)
        keys.append(F.col(quoted(name)))
    # As everywhere, an event without a time or with a negative latency is none.
    known = events.where(f"{quoted(value)} >= 0 and {quoted(time)} is not null")
    cells = known.select(*keys, bucket(value, power).alias("k", metadata={"latscope.power": power}))
    return cells.groupBy(*columns(cells.columns)).agg(F.count(F.lit(1)).alias("n"))


def cells(stored: DataFrame) -> DataFrame:
    """Return the cells of stored series (``latscope convert --series``, tables of a hub): lists become rows."""
    keys = [name for name in stored.columns if name == "time_ns" or name not in _OF_SERIES]
    rows = stored.select(*columns(keys), F.explode(F.arrays_zip("k", "n")).alias("cell"))
    return rows.select(*columns(keys), F.col("cell.k").cast("bigint").alias("k"), F.col("cell.n").alias("n"))


_OF_SERIES = {"width_ns", "grid", "count", "sum_ns", "min_ns", "max_ns", "bytes", "waiting", "k", "n", "w"}


def merge(cells: DataFrame, by: str | Iterable[str] | None = None) -> DataFrame:
    """Return cells added up over everything but ``time_ns`` and these fields; nothing is lost."""
    by = names(by)
    unknown = [name for name in by if name not in cells.columns]
    if unknown:
        message = f"The cells have no column {unknown[0]}; they have {', '.join(cells.columns)}."
        raise UsageError(message)
    keys = [name for name in ["time_ns", *by] if name in cells.columns]
    return cells.groupBy(*columns(dict.fromkeys([*keys, "k"]))).agg(F.sum("n").alias("n"))


def percentiles(
    cells: DataFrame,
    percentiles: Iterable[float] = (50, 90, 99, 99.9),
    by: str | Iterable[str] | None = None,
    power: int = POWER,
) -> DataFrame:
    """Return percentiles of each group: the bucket (``p99_k``) and the range of values that it stands for (``p99_min``, ``p99_max``).

    The bucket is the first up to which there are at least so many events as the percentile asks for, in whole numbers: no
    double decides. ``by`` may have ``time_ns``.
    """
    by, asked = names(by), buckets.ranks(percentiles)
    keys = columns(by)
    merged = cells.groupBy(*keys, "k").agg(F.sum("n").alias("n"))
    group = Window.partitionBy(*keys)
    upto = merged.select(
        *keys, "k", F.sum("n").over(group.orderBy("k")).alias("upto"), F.sum("n").over(group).alias("count")
    )
    first = [
        F.min(F.expr(f"IF(upto * {den}L >= count * {num}L, k, NULL)")).alias(f"{name}_k") for name, num, den in asked
    ]
    found = upto.groupBy(*keys).agg(F.max("count").alias("count"), *first)
    shown: list[Any] = [*keys, "count"]
    for name, _, _ in asked:
        low, high = buckets.bounds_sql(f"{name}_k", power)
        shown += [f"{name}_k", F.expr(low).alias(f"{name}_min"), F.expr(high).alias(f"{name}_max")]
    return found.select(*shown)


def series(cells: DataFrame, interval: Duration, by: str | Iterable[str] | None = None, power: int = POWER) -> Series:
    """Collect merged cells as a series, with all its views. What is collected does not grow with the number of events.

    Of the events only their buckets are known, so sums, minima and maxima are those of buckets.
    """
    by = names(by)
    for field in cells.schema.fields:
        buckets.same_cells(field.metadata, nanoseconds(interval) or 0, power)
    rows = merge(cells, by).toPandas().sort_values(["time_ns", *by, "k"])
    return buckets.series_of_cells(pa.Table.from_pandas(rows, preserve_index=False), interval, by, power)


def heatmap(
    cells: DataFrame,
    interval: Duration,
    by: str | Iterable[str] | None = None,
    power: int = POWER,
    **look: Unpack[Look],
) -> Picture:
    """Return the heat map of cells as SVG."""
    return series(cells, interval, by, power).heatmap(**look)


class LatscopeSource(DataSource):  # type: ignore[misc]
    """Every file format of events: ``spark.read.format("latscope").load(path)``, one partition for each part of a file.

    Parts are row groups of Parquet (small neighbours together) and 16 MiB of a ``.lat`` file; other files are one part.

    Options are ``filter``, ``columns`` and ``format``, as in :func:`latscope.read`. With a filter that counts from the start of the
    trace (``+5s``), the files are one partition, because the start is that of all. What is lost or damaged is a Python warning: of
    folders in the driver, of files in the log of the executor that reads them.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "latscope"

    def trace(self, path: str, part: tuple[int, int] | None = None) -> Trace:
        """Return the events of a path, or of a part of a file."""
        from latscope.trace import read

        known = {"filter", "columns", "format"}
        # Spark hands over names in lower case, and has one of its own.
        unknown = sorted(set(self.options) - known - {"path"})
        if unknown:
            message = f"There is no option {unknown[0]}; there are filter, columns and format."
            raise UsageError(message)
        trace = read(path, **{key: value for key, value in self.options.items() if key in known and value})
        if part:
            trace._native = trace._native.part(*part)
        return trace

    def path(self) -> str:
        """Return the file or folder, also of a URL of this machine's files."""
        path: str | None = self.options.get("path")
        if not path:
            message = 'There is no file to read; use .load("FILE") or .load("FOLDER").'
            raise UsageError(message)
        if re.match("https?:/", path):
            message = f"{path} is no file. Of a driver or a history server, use latscope.read(URL), or latscope.spark.measure(spark)."
            raise UsageError(message)
        return re.sub("^file:(//)?(?=/)", "", path)

    def schema(self) -> str:
        """Return the columns that the files have: integers, and texts."""
        asked = self.options.get("columns")
        known = dict(self.trace(self.path())._native.columns())
        chosen = asked.split(",") if asked else [name for name in known if name != "trace"]
        return ", ".join(f"{quoted(name)} {'string' if known.get(name) else 'bigint'}" for name in chosen)

    def reader(self, schema: Any) -> SourceReader:
        """Return what reads the partitions."""
        return SourceReader(self, [field.name for field in schema.fields])


class SourceReader(DataSourceReader):  # type: ignore[misc]
    """Reads files on executors."""

    def __init__(self, source: LatscopeSource, columns: list[str]) -> None:
        """Take the source and the columns that Spark expects."""
        self.source, self.columns = source, columns

    def partitions(self) -> list[Any]:
        """Return a partition for each part of a file."""
        path = self.source.path()
        if COUNTS_FROM_START.search(self.source.options.get("filter") or ""):
            return [InputPartition((path, None))]  # pyright: ignore[reportCallIssue]
        trace = self.source.trace(path)
        parts = trace._native.parts(self.columns)
        warn(trace)
        return [InputPartition((fspath(file), part)) for file, *part in parts]  # pyright: ignore[reportCallIssue]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the events of a part of a file."""
        trace = self.source.trace(*partition.value)
        for batch in trace.batches(self.columns):
            arrays = []
            for name in self.columns:
                column = batch.column(name)
                arrays.append(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
            yield pa.RecordBatch.from_arrays(arrays, names=self.columns)
        warn(trace)


COUNTS_FROM_START = re.compile(r"\+\s*\d|reltime")
"""What a filter has that counts from the start of the trace."""


def warn(trace: Trace) -> None:
    """Warn of what was lost, repaired or assumed."""
    for note in trace.notes:
        warnings.warn(note, stacklevel=2)


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("latscope")`` known to a session; Spark 4 or later."""
    if not HAS_SOURCES:
        message = "Data sources in Python need Spark 4; read Parquet files (latscope convert) with Spark 3."
        raise UsageError(message)
    spark.dataSource.register(LatscopeSource)


GOLDEN = {"cells": 1396, "events": 100_000, "sha1": "95f962cc3cd0", "buckets": [393, 596, 624, 644]}
"""What `events_sample_100k.parquet` has in 10 s intervals with 32 buckets to the octave, by every engine that was asked."""

GOLDEN_START_NS = 1_750_000_000_000_000_000


def check(spark: SparkSession, golden: str) -> None:
    """Compare the buckets and percentiles of this Spark with those of the other engines; raises where they differ."""
    events = spark.read.parquet(golden)
    found = histogram(events, "10s", value="lat_ns", time="ts_ns", count_by="start", power=5)
    rows = [((row.time_ns - GOLDEN_START_NS) // 10**10, row.k, row.n) for row in found.collect()]
    cells_found, events_found, sha1 = buckets.digest(rows)
    expected = (GOLDEN["cells"], GOLDEN["events"], GOLDEN["sha1"])
    if (cells_found, events_found, sha1) != expected:
        message = f"cells, events and checksum are {(cells_found, events_found, sha1)}, expected {expected}"
        raise AssertionError(message)
    row = percentiles(found, [50, 90, 99, 99.9], power=5).collect()[0]
    at = [row.p50_k, row.p90_k, row.p99_k, row.p99_9_k]
    low, high = buckets.bounds(at, 5)
    ranges = [(row[f"{name}_min"], row[f"{name}_max"]) for name in ("p50", "p90", "p99", "p99_9")]
    if at != GOLDEN["buckets"] or ranges != list(zip(low.tolist(), high.tolist(), strict=True)):
        message = f"the buckets of p50, p90, p99 and p99.9 are {at} {ranges}, expected {GOLDEN['buckets']}"
        raise AssertionError(message)
