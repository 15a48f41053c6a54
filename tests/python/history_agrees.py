"""Counts what the folder of a hub has, with DuckDB and pyarrow: argument 1 is the folder."""

import glob
import sys

import duckdb
import pyarrow.dataset

folder = sys.argv[1]
for level in ["1s", "10s", "60s"]:
    pattern = f"{folder}/date=*/host=*/{level}-*.parquet"
    rows = duckdb.sql(
        f"SELECT host, sum(c), max(m) FROM (SELECT host, list_sum(n) AS c, max_ns AS m"
        f" FROM read_parquet('{pattern}', hive_partitioning = true)) GROUP BY host ORDER BY host"
    ).fetchall()
    print(level, "total", sum(row[1] for row in rows), max(row[2] for row in rows))
    for host, count, _ in rows:
        print(level, host, count)
    dataset = pyarrow.dataset.dataset(
        sorted(glob.glob(pattern)), format="parquet", partitioning="hive", partition_base_dir=folder
    )
    table = dataset.to_table(columns=["host", "count"])
    counts = table.group_by("host").aggregate([("count", "sum")]).to_pydict()
    for host, count in zip(counts["host"], counts["count_sum"]):
        print(level, host, count)
