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
    refuses(lambda: lat_spark.series(cells, "200ms", by="device"), "100000000 ns wide")
    refuses(lambda: lat_spark.series(cells, "100ms", by="device", power=5), "power=6")
    refuses(lambda: spark.read.format("latscope").option("filtr", "lat > 1ms").load(path), "no option filtr")
    # Of two files, the start is the earlier one, as the native half has it.
    filter = "ts >= +1s"
    folder = os.path.join(testdata, "lat")
    read = spark.read.format("latscope").option("filter", filter).option("columns", "time_ns,latency_ns").load(folder)
    assert read.count() == len(latscope.read(folder, filter=filter).events(["time_ns"])), "the start is another"
    untimed = spark.sql("select cast(null as bigint) time_ns, 5L latency_ns union all select 0L, 7L")
    assert [row.n for row in lat_spark.histogram(untimed, "1s").collect()] == [1], "an event without time counts"


def refuses(does, why):
    try:
        does()
    except Exception as error:
        assert why in str(error), error
        return
    raise AssertionError(f"nothing says: {why}")
