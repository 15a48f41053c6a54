"""Histograms and percentiles of raw events by Spark, DuckDB, Polars and latscope: CPU seconds, and rows per core and second.

Usage: spark_engine.py [--rows 30000000] [--folder target/bench/spark_engine] [--engines latscope,duckdb,polars,spark] [--runs 3]

Makes the dataset once: 12 files of three hosts, one hour, seeded. Every engine has to give the same cells. Needs the Python package (make
python-package) with duckdb, polars and pyspark; CPU is that of this process and of all processes that it started.
"""

from __future__ import annotations

import argparse
import atexit
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from latscope import buckets

HOSTS, SEGMENTS = ["h01", "h02", "h03"], 4
START_NS, SEGMENT_NS = 1_750_000_000_000_000_000, 900 * 10**9
WIDTH_NS = 10 * 10**9
PERCENTILES = [50, 90, 99, 99.9]


def make(folder: Path, rows: int) -> None:
    """Write the events: NVMe and disks, hits of a cache, a long tail, and a disk that stalls every five minutes."""
    each = rows // (len(HOSTS) * SEGMENTS)
    for number, host in enumerate(HOSTS):
        for segment in range(SEGMENTS):
            path = folder / f"host={host}" / f"part-{segment}.parquet"
            if path.exists():
                continue
            random = np.random.default_rng(1000 * number + segment)
            start = np.sort(random.integers(0, SEGMENT_NS, each)) + START_NS + segment * SEGMENT_NS
            device = random.integers(0, 4, each)
            latency = np.exp(np.where(device < 2, np.log(90e3), np.log(5.5e6)) + random.normal(0, 0.45, each))
            hit = random.random(each) < 0.35
            latency[hit] = np.exp(np.log(12e3) + random.normal(0, 0.3, hit.sum()))
            tail = random.random(each) < 0.0005
            latency[tail] *= 1 + 20 * random.pareto(1.2, tail.sum())
            latency[(device == 2) & (start // 10**9 % 300 >= 290)] *= 8
            table = pa.table(
                {
                    "time_ns": start,
                    "latency_ns": np.clip(latency, 1, 2**42).astype(np.int64),
                    "device": pa.DictionaryArray.from_arrays(
                        pa.array(device, pa.int8()), pa.array(["nvme0n1", "nvme1n1", "sda", "sdb"])
                    ),
                }
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".unfinished")
            pq.write_table(
                table,
                unfinished,
                compression="zstd",
                row_group_size=500_000,
                use_dictionary=["device"],
                column_encoding={"time_ns": "DELTA_BINARY_PACKED", "latency_ns": "PLAIN"},
            )
            unfinished.rename(path)


def cpu_s() -> float:
    """Return the CPU seconds of this process and of all that it started, also where these run still."""
    ticks, parents, own = os.sysconf("SC_CLK_TCK"), {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            own[int(entry.name)] = sum(map(int, fields[11:15])) / ticks
    ours, before = {os.getpid()}, 0
    while len(ours) > before:
        before = len(ours)
        ours |= {process for process, parent in parents.items() if parent in ours}
    return sum(own.get(process, 0.0) for process in ours)


def latscope_engine(folder: Path):
    """Count with the native reader, and merge."""
    import latscope as lat

    def cells():
        series = lat.read([str(path) for path in sorted(folder.rglob("*.parquet"))]).series("10s", precision=32)
        table = series.cells()
        return np.column_stack([table[name].to_numpy() for name in ("time_ns", "k", "n")])

    return {"histogram": cells}


def duckdb_engine(folder: Path):
    """Count in SQL, on one thread."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    moment = "(time_ns + latency_ns)"
    query = (
        f"SELECT {moment} - {moment} % {WIDTH_NS} AS s, {buckets.bucket_sql('latency_ns', 5, 'duckdb')} AS k, count(*) AS n"
        f" FROM read_parquet('{folder}/*/*.parquet') GROUP BY ALL"
    )

    def cells():
        found = connection.execute(query).fetchnumpy()
        return np.column_stack([found["s"], found["k"], found["n"]])

    return {"histogram": cells}


def polars_engine(folder: Path):
    """Count with the streaming engine."""
    import polars as pl

    moment = pl.col("time_ns") + pl.col("latency_ns")
    bucket = buckets.bucket_polars(pl.col("latency_ns"), 5).alias("k")
    lazy = pl.scan_parquet(f"{folder}/*/*.parquet").select((moment - moment % WIDTH_NS).alias("s"), bucket)
    query = lazy.group_by("s", "k").len()

    def cells():
        found = query.collect(engine="streaming")
        return np.column_stack([found[name].to_numpy() for name in ("s", "k", "len")])

    return {"histogram": cells}


def spark_engine(folder: Path, master: str):
    """Count with column expressions; also the percentiles of every interval, and the merging of stored cells."""
    from pyspark.sql import SparkSession

    from latscope import spark as lat_spark

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for key in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(key, "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.driver.memory", "2g")
    spark = builder.config("spark.sql.files.maxPartitionBytes", "32m").getOrCreate()
    # A cluster whose driver merely exits starts executors again and again meanwhile.
    atexit.register(spark.stop)
    spark.sparkContext.setLogLevel("ERROR")
    events = spark.read.parquet(str(folder))
    counted = lat_spark.histogram(events, "10s", power=5)
    stored = folder.parent / "cells.parquet"
    lat_spark.histogram(events, "10s", by=["host", "device"], power=5).write.mode("overwrite").parquet(str(stored))

    def collect(cells):
        rows = cells.select("time_ns", "k", "n").toPandas()
        return rows.to_numpy(dtype=np.int64)

    def scan():
        return events.selectExpr("max(time_ns)", "max(latency_ns)").collect()

    def percentiles():
        return len(lat_spark.percentiles(counted, PERCENTILES, by="time_ns", power=5).collect())

    return {
        "scan": scan,
        "histogram": lambda: collect(counted),
        "percentiles": percentiles,
        "merge of stored cells": lambda: collect(lat_spark.merge(spark.read.parquet(str(stored)))),
    }


def main() -> None:
    """Measure, and print a line for each engine and task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--folder", type=Path, default=Path("target/bench/spark_engine"))
    parser.add_argument("--engines", default="latscope,duckdb,polars,spark")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    folder = arguments.folder / f"events-{arguments.rows}"
    make(folder, arguments.rows)
    each = arguments.rows // (len(HOSTS) * SEGMENTS) * len(HOSTS) * SEGMENTS
    engines = {"latscope": latscope_engine, "duckdb": duckdb_engine, "polars": polars_engine}
    digests: dict[str, tuple[int, int, str]] = {}
    print(f"{each} events in {folder}; medians of {arguments.runs} runs after one to warm up")
    print(f"{'engine':10} {'task':24} {'CPU s':>7} {'rows per core and second':>25}")
    for name in arguments.engines.split(","):
        before = cpu_s()
        tasks = spark_engine(folder, arguments.master) if name == "spark" else engines[name](folder)
        if name == "spark":
            print(f"{name:10} {'session and stored cells':24} {cpu_s() - before:7.2f}")
        for task, run in tasks.items():
            used = []
            for turn in range(arguments.runs + 1):
                before = cpu_s()
                result = run()
                if turn > 0 or arguments.runs == 0:
                    used.append(cpu_s() - before)
            median = statistics.median(used)
            stored = arguments.folder / "cells.parquet"
            rows = pq.read_table(stored, columns=["n"]).num_rows if task.startswith("merge") else each
            print(f"{name:10} {task:24} {median:7.2f} {rows / max(median, 0.01):25,.0f}", flush=True)
            if isinstance(result, np.ndarray):
                digests[f"{name} {task}"] = buckets.digest(result)
    for name, found in digests.items():
        print(f"{name:35} {found[0]} cells, {found[1]} events, sha1 {found[2]}")
    if len(set(digests.values())) > 1:
        sys.exit("the engines differ")


main()
