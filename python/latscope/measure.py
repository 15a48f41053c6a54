"""What a block of code does in Spark: the counters of sparkMeasure, and the report of its tasks."""

from __future__ import annotations

import html
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from latscope._native import Error, UsageError
from latscope.trace import Application, read

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

MS = 1_000_000
"""Nanoseconds of a millisecond."""
BEHIND_S = 0.5
"""So long may Spark take to note what ended, where it cannot be asked."""


NONE = "No task of Spark was found."
"""What the native half says where no task started."""
COUNTERS = [
    "numStages",
    "elapsedTime",
    "stageDuration",
    "numTasks",
    "executorRunTime",
    "executorCpuTime",
    "executorDeserializeTime",
    "executorDeserializeCpuTime",
    "resultSerializationTime",
    "jvmGCTime",
    "shuffleFetchWaitTime",
    "shuffleWriteTime",
    "resultSize",
    "diskBytesSpilled",
    "memoryBytesSpilled",
    "peakExecutionMemory",
    "recordsRead",
    "bytesRead",
    "recordsWritten",
    "bytesWritten",
    "shuffleRecordsRead",
    "shuffleLocalBlocksFetched",
    "shuffleRemoteBlocksFetched",
    "shuffleLocalBytesRead",
    "shuffleRemoteBytesRead",
    "shuffleRemoteBytesReadToDisk",
    "shuffleBytesWritten",
    "shuffleRecordsWritten",
    "shuffleTotalBlocksFetched",
    "shuffleTotalBytesRead",
]
"""The counters, for a block in which no task started."""


class Measure:
    """The tasks that Spark starts between :meth:`begin` and :meth:`end`; see :func:`measure`."""

    def __init__(self, spark: SparkSession, source: str | None = None) -> None:
        """Take the session, and where its tasks are read."""
        self._spark = spark
        self._source = source
        self._begin_ns: int | None = None
        self._elapsed_ms = 0
        self._found: Application | None = None
        self._failure: Error | None = None
        self.notes: list[str] = []
        """What was lost, repaired or assumed: sentences."""

    def begin(self) -> Measure:
        """Start; tasks before this do not count."""
        self._found = self._failure = None
        self._begin_ns = time.time_ns()
        return self

    def end(self) -> Measure:
        """Stop, and read what Spark says of the tasks. What fails there is raised when the answer is asked for."""
        if self._begin_ns is None:
            message = "The measurement has not started; call begin, or use it in a with statement."
            raise UsageError(message)
        end_ns = time.time_ns()
        self._elapsed_ms = (end_ns - self._begin_ns) // MS
        try:
            self._settle()
            # Spark has the start of a task in whole milliseconds.
            trace = read(self._source or self._found_source(), filter=f"time >= {self._begin_ns // MS * MS}")
            self._found = Application(*trace._native.spark("stage", 20, (self._begin_ns, end_ns)))
            self.notes = trace.notes
        except Error as error:
            self._failure = error
        return self

    def __enter__(self) -> Measure:
        """Start."""
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop; what the block raises is not touched."""
        self.end()

    @property
    def application(self) -> Application:
        """The report of ``latscope spark`` of these tasks."""
        if self._failure is not None:
            raise self._failure
        if self._found is None:
            message = "The measurement is not over; look at it after the with block."
            raise UsageError(message)
        return self._found

    def to_dict(self) -> dict[str, int]:
        """Return the counters under the names of sparkMeasure: times in milliseconds, sizes in bytes; zeros where no task started."""
        counters: dict[str, int] = (
            dict.fromkeys(COUNTERS, 0) if self._is_empty() else dict(self.application["counters"])
        )
        # Of the block, not from its first stage to its last.
        counters["elapsedTime"] = self._elapsed_ms
        return counters

    def report(self) -> str:
        """Return the counters as sparkMeasure prints them, the stages with their durations, and the report of the tasks."""
        lines = ["Aggregated Spark stage metrics:"]
        lines += [f"{name} => {value}{_in_words(name, value)}" for name, value in self.to_dict().items()]
        if self._is_empty():
            return "\n".join([*lines, "", "No task of Spark started in the block."])
        lines += ["", "Stages and their duration:"]
        for stage in self.application["stages"]:
            took = stage["stageDuration"]
            lines.append(f"Stage {stage['stage']} duration => {took}{_in_words('stageDuration', took)}")
        return "\n".join([*lines, "", self.application.text])

    def _repr_html_(self) -> str:
        try:
            picture = "" if self._is_empty() else self.application.picture
            return f"{picture}<pre>{html.escape(self.report())}</pre>"
        except Error as error:
            return f"<p>{html.escape(str(error))}</p>"

    def __repr__(self) -> str:
        """Return the report, so that a shell shows it."""
        try:
            return self.report()
        except Error as error:
            return f"<latscope.spark.Measure: {error}>"

    def _is_empty(self) -> bool:
        """Return whether no task started in the block."""
        return NONE in str(self._failure or "")

    def _settle(self) -> None:
        """Wait until Spark has noted what ended: those who listen to it are behind."""
        try:
            context: Any = self._spark.sparkContext
            context._jsc.sc().listenerBus().waitUntilEmpty()
        except Exception:  # of Spark Connect, of Py4J: there is nobody to ask
            time.sleep(BEHIND_S)

    def _found_source(self) -> str:
        """Return the address of the running session, or its event log."""
        try:
            context: Any = self._spark.sparkContext
            address: str | None = context.uiWebUrl
            if address:
                return address
            settings = context.getConf()
            if settings.get("spark.eventLog.enabled") == "true":
                folder = Path(urlparse(settings.get("spark.eventLog.dir", "/tmp/spark-events")).path)
                name = context.applicationId
                known = [f"eventlog_v2_{name}", *(log.name for log in folder.glob(f"{name}*"))]
                found = [folder / log for log in known if (folder / log).exists()]
                if found:
                    return str(found[0])
        except Exception as error:
            message = "This session does not say where it can be asked; give source, such as http://driver:4040."
            raise UsageError(message) from error
        message = "The session has neither its page (spark.ui.enabled) nor an event log here; give source."
        raise UsageError(message)


def _in_words(name: str, value: int) -> str:
    """Return a time or a size for people."""
    if name.endswith(("Time", "Duration")):
        return f" ({value / 1000:.1f} s)" if value >= 1000 else f" ({value} ms)"
    if name.startswith(("num", "records", "shuffleRecords")) or name.endswith("BlocksFetched"):
        return ""
    size, unit = float(value), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f" ({size:.1f} {unit})" if unit != "bytes" else f" ({value} bytes)"


def measure(spark: SparkSession, source: str | None = None) -> Measure:
    """Measure a block of code.

    Write ``with measure(spark) as m: ...``, then ``m.report()`` or ``m.to_dict()``.

    The session is asked over its own REST API (``spark.ui.enabled``), else its event log is read: no jar and no listener, and
    failed tasks count. Give ``source``, a URL or an event log, where a session cannot say it: with Spark Connect, whose clock must
    be that of this machine. A driver remembers ``spark.ui.retainedTasks`` tasks (100,000); with more, use the event log.
    """
    return Measure(spark, source)
