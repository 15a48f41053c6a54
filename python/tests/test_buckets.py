"""The same buckets in every engine, in integers only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import latscope as lat
from latscope import buckets

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = "spark_engine/events_sample_100k.parquet"
START_NS = 1_750_000_000_000_000_000
WIDTH_NS = 10_000_000_000
EXPECTED = (1396, 100_000, "95f962cc3cd0")


@pytest.fixture
def events(data: Callable[[str], str]) -> pa.Table:
    return pq.read_table(data(GOLDEN), columns=["ts_ns", "lat_ns"])


def test_every_engine_has_the_same_cells(events: pa.Table, data: Callable[[str], str], tmp_path: Path) -> None:
    time, value = events["ts_ns"].to_numpy(), events["lat_ns"].to_numpy()
    pairs = np.stack([(time - START_NS) // WIDTH_NS, buckets.bucket(value, 5)], 1)
    unique, counts = np.unique(pairs, axis=0, return_counts=True)
    assert buckets.digest(np.column_stack([unique, counts])) == EXPECTED

    sql = buckets.bucket_sql("lat_ns", 5, "duckdb")
    slot = f"(ts_ns - {START_NS}) // {WIDTH_NS}"
    found = duckdb.sql(f"SELECT {slot} AS s, {sql} AS k, count(*) AS n FROM '{data(GOLDEN)}' GROUP BY ALL").fetchall()
    assert buckets.digest(found) == EXPECTED

    lazy = pl.scan_parquet(data(GOLDEN)).select(
        ((pl.col("ts_ns") - START_NS) // WIDTH_NS).alias("s"), buckets.bucket_polars(pl.col("lat_ns"), 5).alias("k")
    )
    assert buckets.digest(lazy.group_by("s", "k").len().collect().rows()) == EXPECTED

    # Ours counts by completion: with the latency taken off the start, that is where the others count.
    ours = pa.table({"time_ns": pa.array(time - value), "latency_ns": pa.array(value)})
    path = tmp_path / "events.parquet"
    pq.write_table(ours, path)
    series = lat.read(path).series("10s", precision=32)
    cells = series.cells()
    slots = (cells["time_ns"].to_numpy() - START_NS) // WIDTH_NS
    assert buckets.digest(np.column_stack([slots, cells["k"].to_numpy(), cells["n"].to_numpy()])) == EXPECTED
    total = np.cumsum(np.bincount(cells["k"].to_numpy(), weights=cells["n"].to_numpy()).astype(np.int64))
    found = [int(np.argmax(total * den >= total[-1] * num)) for _, num, den in buckets.ranks([50, 90, 99, 99.9])]
    assert found == [393, 596, 624, 644]

    again = buckets.series_of_cells(cells, "10s", power=5)
    assert again.cells().to_pylist() == cells.to_pylist()
    assert (again + series).matrix().sum() == 200_000


@pytest.mark.parametrize("power", [0, 3, 5, 6, 10])
def test_edges_of_buckets(power: int) -> None:
    powers = [1 << bit for bit in range(62)]
    values = sorted({value + by for value in powers for by in (-2, -1, 0, 1, 2)} - {-1})
    values += [(1 << 62) + 1, (1 << 63) - 1]

    def index(value: int) -> int:
        by = max(value.bit_length() - 1 - power, 0)
        return (by << power) + (value >> by)

    expected = [index(value) for value in values]
    assert buckets.bucket(values, power).tolist() == expected
    low, high = buckets.bounds(expected, power)
    assert (low <= np.array(values)).all() and (np.array(values) <= high).all()
    assert buckets.bucket(low, power).tolist() == expected and buckets.bucket(high, power).tolist() == expected

    numbers = pa.table({"v": pa.array(values, pa.int64())})  # noqa: F841, by name in SQL
    sql = buckets.bucket_sql("v", power, "duckdb")
    smallest, largest = buckets.bounds_sql("k", power, "duckdb")
    rows = duckdb.sql(f"SELECT k, {smallest}, {largest} FROM (SELECT v, {sql} AS k FROM numbers) ORDER BY v").fetchall()
    ordered = sorted(zip(values, expected, low.tolist(), high.tolist(), strict=True))
    assert rows == [(k, least, most) for _, k, least, most in ordered]
    assert duckdb.sql(f"SELECT {buckets.bucket_sql('NULL', power, 'duckdb')}").fetchall() == [(None,)]
    assert duckdb.sql(f"SELECT {buckets.bucket_sql('-1', power, 'duckdb')}").fetchall() == [(None,)]
    frame = pl.DataFrame({"v": values}).select(buckets.bucket_polars(pl.col("v"), power))
    assert frame.to_series().to_list() == expected


@pytest.mark.parametrize("values", [[-1], [1.5], [2**63], [True], ["a"], [None], [[1], [2.5]]])
def test_what_has_no_bucket(values: list[object]) -> None:
    for of in (buckets.bucket, buckets.bounds):
        with pytest.raises(lat.UsageError, match="give integers from 0"):
            of(values)  # type: ignore[arg-type]
    assert buckets.bucket([]).tolist() == []
    assert buckets.bounds([buckets.bucket([2**63 - 1])[0]])[1].tolist() == [2**63 - 1]
    with pytest.raises(lat.UsageError, match="from 0 to 3711"):
        buckets.bounds([3712])


def test_ranks_are_whole_numbers() -> None:
    assert buckets.ranks([50, 99.9, 100]) == [("p50", 1, 2), ("p99_9", 999, 1000), ("p100", 1, 1)]
    with pytest.raises(lat.UsageError, match="not a percentile"):
        buckets.ranks([101])
    with pytest.raises(lat.UsageError, match="power"):
        buckets.bucket_sql("v", 15)


def test_cells_show_themselves_and_are_not_mistaken(data: Callable[[str], str]) -> None:
    series = lat.read(data("perf_script/story_2s.txt.gz")).series("100ms")
    cells = series.cells()
    again = buckets.series_of_cells(cells, "100ms")
    assert again._repr_html_().startswith("<img") and again.rebin("1s")._repr_html_().startswith("<img")
    for interval, power in (("150ms", 6), ("10ms", 6), ("100ms", 5)):
        with pytest.raises(lat.UsageError, match="These cells"):
            buckets.series_of_cells(cells, interval, power=power)
    with pytest.raises(lat.UsageError, match="whole multiple"):
        buckets.series_of_cells(cells.replace_schema_metadata(None), "150ms")
    # By text that is kept as codes, and twice the same.
    grouped = lat.read(data("perf_script/story_2s.txt.gz")).series("100ms", by="kind")
    twice = pa.concat_tables([grouped.cells(), grouped.cells()])
    assert (
        buckets.series_of_cells(twice, "100ms", by="kind").cells().to_pylist()
        == (grouped + grouped).cells().to_pylist()
    )
    nothing = pa.table({"time_ns": [0], "k": [700], "n": [0]})
    assert buckets.series_of_cells(nothing, "1s").matrix().sum() == 0
    for name, values in {"n": [1.5], "k": [-1], "time_ns": [None]}.items():
        wrong = nothing.set_column(nothing.column_names.index(name), name, [values])
        with pytest.raises(lat.UsageError, match=f"column {name} of the cells"):
            buckets.series_of_cells(wrong, "1s")
    with pytest.raises(lat.UsageError, match="no column n; they have time_ns, k"):
        buckets.series_of_cells(nothing.drop_columns(["n"]), "1s")
    stages = pa.table({"time_ns": [0, 0], "stage": [3, 4], "k": [700, 700], "n": [1, 2]})
    assert buckets.series_of_cells(stages, "1s", by="stage").groups == [("3",), ("4",)]
