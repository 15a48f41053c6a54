"""Whether Spark counts as latscope does, in a session that exists: buckets, percentiles, stored cells and the data source."""

import os
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import latscope
from latscope import spark as lat_spark


def rows(table, by):
    return sorted(tuple(row[name] for name in ["time_ns", *by, "k", "n"]) for row in table.to_pylist())


def check(spark, testdata):
    """Raises where an answer of this Spark is not that of the other engines and of the native half."""
    lat_spark.check(spark, os.path.join(testdata, "spark_engine", "events_sample_100k.parquet"))
    lat_spark.register(spark)
    path = os.path.join(testdata, "perf_script", "story_2s.txt.gz")
    columns = "time_ns,latency_ns,device"
    events = spark.read.format("latscope").option("filter", "lat > 100us").option("columns", columns).load(path)
    cells = lat_spark.histogram(events, "100ms", by="device")
    found = lat_spark.series(cells, "100ms", by="device")
    own = latscope.read(path, filter="lat > 100us").series("100ms", by="device")
    assert rows(found.cells(), ["device"]) == rows(own.cells(), ["device"]), "the cells of the data source are others"
    assert (found + own).matrix().sum() == 2 * own.matrix().sum()
    assert found.heatmap().startswith("<svg")
    refuses(lambda: lat_spark.series(cells, "200ms", by="device"), "100000000 ns wide")
    refuses(lambda: lat_spark.series(cells, "100ms", by="device", power=5), "power=6")
    refuses(lambda: spark.read.format("latscope").option("filtr", "lat > 1ms").load(path).schema, "no option filtr")
    refuses(lambda: lat_spark.merge(cells, by="nosuch"), "no column nosuch")
    dotted = lat_spark.histogram(events.withColumnRenamed("device", "my.device"), "100ms", by="my.device")
    shown = lat_spark.percentiles(lat_spark.merge(dotted, "my.device"), [50], by="my.device").collect()
    assert sum(row["count"] for row in shown) == events.count() > 0, "a name with a dot"
    # Of two files, the start is the earlier one, as the native half has it.
    filter = "ts >= +1s"
    folder = os.path.join(testdata, "lat")
    read = spark.read.format("latscope").option("filter", filter).option("columns", "time_ns,latency_ns").load(folder)
    assert read.count() == len(latscope.read(folder, filter=filter).events(["time_ns"])), "the start is another"
    by_row_groups(spark)
    untimed = spark.sql("select cast(null as bigint) time_ns, 5L latency_ns union all select 0L, 7L")
    assert [row.n for row in lat_spark.histogram(untimed, "1s").collect()] == [1], "an event without time counts"


def by_row_groups(spark):
    """Row groups of Parquet are partitions of their own, unless a column follows from all events."""
    rows, groups = 450_000, 3
    random = np.random.default_rng(1)
    events = pa.table({"time_ns": np.arange(rows) * 1000, "latency_ns": random.integers(1, 2**40, rows)})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "events.parquet")
        pq.write_table(events, path, row_group_size=rows // groups, use_dictionary=False)
        for columns, parts in (("time_ns,latency_ns", groups), ("time_ns,latency_ns,since_previous_ns", 1)):
            read = spark.read.format("latscope").option("columns", columns).load(path)
            by_part = read.withColumn("part", F.spark_partition_id()).groupBy("part")
            found = by_part.agg(F.count("*").alias("n"), F.sum("latency_ns").alias("sum")).collect()
            sums = (sum(row["n"] for row in found), sum(row["sum"] for row in found), len(found))
            assert sums == (rows, pc.sum(events["latency_ns"]).as_py(), parts), (columns, found)


def refuses(does, why):
    try:
        does()
    except Exception as error:
        assert why in str(error), error
        return
    raise AssertionError(f"nothing says: {why}")
