"""The bucket grid of latscope in other engines: the same bucket for the same value, in integers only.

A value ``v`` of the octave ``e`` (``2^e <= v < 2^(e+1)``) has the bucket ``(s << p) + (v >> s)`` with ``s = max(e - p, 0)``;
``p`` is the power of the grid, 6 for the grid of latscope (64 buckets to the octave).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from latscope._native import UsageError
from latscope.arguments import names, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from latscope.arguments import Duration
    from latscope.series import Series

POWER = 6
"""The power of the grid of latscope."""
MOST_POWER = 14
"""The finest grid."""
TOP = 62
"""The last octave of a signed 64-bit integer."""

Dialect: TypeAlias = Literal["spark", "duckdb"]


def checked(power: int) -> int:
    """Return the power of a grid, if it is one."""
    if not 0 <= power <= MOST_POWER:
        message = f"power={power}: a grid has a power from 0 to {MOST_POWER}."
        raise UsageError(message)
    return power


def bucket_sql(value: str, power: int = POWER, dialect: Dialect = "spark") -> str:
    """Return SQL that computes the bucket of a column or expression of integers; NULL for NULL and for negative values.

    It is one CASE over the octaves, because a logarithm costs half more and rounds.
    """
    power = checked(power)
    shift = "shiftright({}, {})" if dialect == "spark" else "({} >> {})"
    long = "L" if dialect == "spark" else ""
    cases = [f"WHEN {value} < 0 THEN NULL", f"WHEN {value} < {2 << power}{long} THEN CAST({value} AS BIGINT)"]
    for octave in range(power + 1, TOP):
        by = octave - power
        shifted = shift.format(value, by)
        cases.append(f"WHEN {value} < {2 << octave}{long} THEN {by << power}{long} + {shifted}")
    by = TOP - power
    return f"CASE {' '.join(cases)} ELSE {by << power}{long} + {shift.format(value, by)} END"


def bounds_sql(bucket: str, power: int = POWER, dialect: Dialect = "spark") -> tuple[str, str]:
    """Return SQL for the smallest and the largest value of a bucket."""
    power = checked(power)
    by = f"CAST(greatest({bucket} - {1 << power}, 0) // {1 << power} AS INT)"
    left = "({} << {})"
    if dialect == "spark":
        by, left = f"CAST(greatest({bucket} - {1 << power}, 0) DIV {1 << power} AS INT)", "shiftleft({}, {})"
    low = left.format(f"CAST({bucket} - {by} * {1 << power} AS BIGINT)", by)
    width = left.format("CAST(1 AS BIGINT)", by)
    return low, f"{low} + ({width} - 1)"


def bucket_polars(value: Any, power: int = POWER) -> Any:
    """Return the Polars expression of the bucket of an expression of integers that are not negative."""
    import polars as pl

    power = checked(power)
    wide = value.cast(pl.Int64)
    octave = 63 - wide.bitwise_leading_zeros().cast(pl.Int64)
    by = pl.max_horizontal(octave - power, pl.lit(0, dtype=pl.Int64))
    return by * (1 << power) + wide // pl.lit(2, dtype=pl.Int64).pow(by)


def whole(values: ArrayLike, most: int, what: str) -> NDArray[np.int64]:
    """Return values as signed 64-bit integers; raise if one is not an integer from 0 to ``most``."""
    array = np.asarray(values)
    if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() > most):
        message = f"{what}: give integers from 0 to {most}."
        raise UsageError(message)
    return array.astype(np.int64)


def last_bucket(power: int) -> int:
    """Return the bucket of the largest signed 64-bit integer."""
    return ((TOP - power) << power) + (2 << power) - 1


def bucket(values: ArrayLike, power: int = POWER) -> NDArray[np.int64]:
    """Return the buckets of integers that are not negative."""
    power = checked(power)
    wide = whole(values, 2**63 - 1, "values")
    # A double may round up to the next power of two; the bucket is the same then, because the grid is continuous there.
    octave = np.frexp(wide.astype(np.float64))[1].astype(np.int64) - 1
    by = np.clip(octave - power, 0, TOP - power)
    return (by << power) + (wide >> by)


def bounds(buckets: ArrayLike, power: int = POWER) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest values of buckets."""
    power = checked(power)
    numbers = whole(buckets, last_bucket(power), "buckets")
    by = np.maximum((numbers >> power) - 1, 0)
    low = (numbers - (by << power)) << by
    return low, low + ((np.int64(1) << by) - 1)


def ranks(percentiles: Iterable[float]) -> list[tuple[str, int, int]]:
    """Return name, numerator and denominator of percentiles: that of 99.9 is the first bucket with 1000 n >= 999 N below or in it."""
    parts = []
    for percentile in percentiles:
        part = Fraction(str(percentile)) / 100
        if not 0 <= part <= 1:
            message = f"{percentile} is not a percentile; for example, use [50, 99, 99.9]."
            raise UsageError(message)
        name = f"p{percentile:g}".replace(".", "_")
        parts.append((name, part.numerator, part.denominator))
    return parts


def series_of_cells(
    cells: pa.Table, interval: Duration, by: str | Iterable[str] | None = None, power: int = POWER
) -> Series:
    """Return the cells of any engine (``time_ns``, ``by``, ``k``, ``n``) as a series.

    ``interval`` and ``power`` are those that the cells were counted with; groups of numbers become text. Cells of the same time,
    group and bucket add up, as those of several hosts do.
    """
    from latscope.series import Series
    from latscope.trace import read

    by = names(by)
    width = nanoseconds(interval) or 0
    same_cells({key.decode(): text.decode() for key, text in (cells.schema.metadata or {}).items()}, width, power)
    cells = _whole_cells(cells, by, power)
    times = cells["time_ns"].to_numpy()
    if width == 0 or (times % width).any():
        message = (
            f"Some cells do not start at a whole multiple of {interval}; give the interval that they were counted with."
        )
        raise UsageError(message)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "series.parquet"
        pq.write_table(_stored(cells, width, by, power), path)
        # The file is there only now, so the series has no page.
        return Series(read(path).series(interval, by=by)._native)


def same_cells(known: Mapping[str, Any], width_ns: int, power: int) -> None:
    """Raise if cells are known to be of another interval or grid."""
    if int(known.get("latscope.width_ns", width_ns)) != width_ns:
        message = (
            f"These cells are {known['latscope.width_ns']} ns wide, not {width_ns} ns; collect them so, then use rebin."
        )
        raise UsageError(message)
    if int(known.get("latscope.power", power)) != power:
        message = f"These cells were counted with power={known['latscope.power']}, not {power}."
        raise UsageError(message)


def _whole_cells(cells: pa.Table, by: list[str], power: int) -> pa.Table:
    """Return cells with integers and groups of text, each once; raise if a column is missing or has something else."""
    missing = [name for name in ["time_ns", *by, "k", "n"] if name not in cells.column_names]
    if missing:
        message = f"The cells have no column {', '.join(missing)}; they have {', '.join(cells.column_names)}."
        raise UsageError(message)
    columns: dict[str, pa.ChunkedArray] = {name: cells[name].cast(pa.string()) for name in by}
    for name in ("time_ns", "k", "n"):
        column = cells[name]
        if not pa.types.is_integer(column.type) or column.null_count:
            message = f"The column {name} of the cells has the type {column.type} and {column.null_count} nulls; give integers."
            raise UsageError(message)
        if name != "time_ns":
            whole(
                column.to_numpy(), last_bucket(power) if name == "k" else 2**63 - 1, f"The column {name} of the cells"
            )
        columns[name] = column.cast(pa.int64())
    keys = ["time_ns", *by, "k"]
    table = pa.table(columns).group_by(keys).aggregate([("n", "sum")])
    table = table.select([*keys, "n_sum"]).rename_columns([*keys, "n"])
    return table.filter(pa.array(table["n"].to_numpy() > 0))


def _stored(cells: pa.Table, width: int, by: list[str], power: int) -> pa.Table:
    """Return cells in the form of a stored series."""
    keys = ["time_ns", *by]
    cells = cells.sort_by([(name, "ascending") for name in [*keys, "k"]])
    lists = cells.group_by(keys, use_threads=False).aggregate([("k", "list"), ("n", "list")])
    ks, ns = lists["k_list"].combine_chunks(), lists["n_list"].combine_chunks()
    offsets = ks.offsets.to_numpy()[:-1]
    ends = ks.offsets.to_numpy()[1:] - 1
    k = ks.values.to_numpy().astype(np.int64)
    n = ns.values.to_numpy().astype(np.int64)
    low, high = bounds(k, power)
    middles = low + (high - low + 1) // 2
    # Beyond 2^63-1 a sum stays at that, as in the files of latscope.
    sums = np.minimum(np.add.reduceat(middles.astype(np.float64) * n, offsets), 2.0**62).astype(np.int64)
    columns = {name: lists[name] for name in keys}
    columns["width_ns"] = pa.array(np.full(len(lists), width, dtype=np.int64))
    columns["grid"] = pa.array(np.full(len(lists), power, dtype=np.int32))
    columns["count"] = pa.array(np.add.reduceat(n, offsets))
    columns["sum_ns"] = pa.array(sums)
    columns["min_ns"], columns["max_ns"] = pa.array(low[offsets]), pa.array(high[ends])
    columns["k"] = ks.cast(pa.list_(pa.int32()))
    columns["n"] = ns.cast(pa.list_(pa.int64()))
    described = {"group_fields": by, "value": "latency", "weight": "count"}
    return pa.table(columns).replace_schema_metadata({"latscope.series": json.dumps(described)})


def digest(rows: Any) -> tuple[int, int, str]:
    """Return the number of cells, their events, and a checksum of rows of bucket and count, or of interval, bucket and count."""
    table = np.ascontiguousarray(sorted(map(tuple, np.asarray(rows, dtype=np.int64).tolist())), dtype=np.int64)
    return len(table), int(table[:, -1].sum()), hashlib.sha1(table.tobytes()).hexdigest()[:12]
