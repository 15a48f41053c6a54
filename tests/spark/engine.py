"""Whether Spark counts as latscope does, in a session that exists: buckets, percentiles, stored cells and the data source."""

import os

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
