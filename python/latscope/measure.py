"""What a block of code does in Spark: the counters of sparkMeasure, and the report of its tasks."""

from __future__ import annotations

import html
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
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
LOST = {"lost_tasks", "missing_parts"}
"""The anomalies of tasks, jobs and stages that a driver has forgotten, or its log lacks."""
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


class Asked(NamedTuple):
    """The report of a block or why there is none, and its notes."""

    found: Application | None
    failure: Error | None
    notes: list[str]

    @property
    def is_empty(self) -> bool:
        """Whether no task started in the block."""
        return NONE in str(self.failure or "")

    @property
    def tasks(self) -> int:
        """How many tasks are known."""
        return 0 if self.found is None else int(self.found["counters"]["numTasks"])

    @property
    def missing(self) -> list[str]:
        """The sentences of what is missing, where that may be tasks; without a report, anything may be."""
        lacks = self.is_empty if self.found is None else bool(LOST & set(self.found["anomalies"]))
        said = [note for note in self.notes if note.startswith("Spark event log, ") and ": missing: " in note]
        return said if lacks else []


class Measure:
    """The tasks that Spark starts between :meth:`begin` and :meth:`end`; see :func:`measure`."""

    def __init__(self, spark: SparkSession, source: str | None = None) -> None:
        """Take the session, and where its tasks are read."""
        self._spark = spark
        self._source = source
        self._begin_ns: int | None = None
        self._block_ms = 0
        self._asked = Asked(None, None, [])

    def begin(self) -> Measure:
        """Start; tasks before this do not count."""
        self._asked = Asked(None, None, [])
        self._begin_ns = time.time_ns()
        return self

    def end(self) -> Measure:
        """Stop, and read what Spark says of the tasks. What fails there is raised when the answer is asked for."""
        self._stop()
        return self

    def __enter__(self) -> Measure:
        """Start."""
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop; what the block raises is not touched."""
        self._stop()

    @property
    def application(self) -> Application:
        """The report of ``latscope spark`` of these tasks."""
        if self._asked.failure is not None:
            raise self._asked.failure
        if self._asked.found is None:
            message = "The measurement is not over; look at it after the with block."
            raise UsageError(message)
        return self._asked.found

    @property
    def notes(self) -> list[str]:
        """What was lost, repaired or assumed: sentences."""
        return list(self._asked.notes)

    @property
    def missing(self) -> list[str]:
        """What Spark has forgotten of the application, so that counters may be too small: sentences."""
        return self._asked.missing

    def to_dict(self) -> dict[str, Any]:
        """Return the counters under the names of sparkMeasure: times in milliseconds, sizes in bytes; zeros where no task started.

        ``elapsedTime`` is from the start of the first stage to the end of the last, as there, and ``blockTime`` is that of the
        block. ``missing`` is there where Spark has forgotten something, and has the sentences that say so.
        """
        counters = self._counters()
        return {**counters, "missing": self.missing} if self.missing else dict(counters)

    def report(self) -> str:
        """Return the counters as sparkMeasure prints them, the stages with their durations, and the report of the tasks."""
        lines = [*self.missing, "Aggregated Spark stage metrics:"]
        lines += [f"{name} => {value}{_in_words(name, value)}" for name, value in self._counters().items()]
        if self._asked.is_empty:
            return "\n".join([*lines, "", "No task of Spark started in the block."])
        lines += ["", "Stages and their duration:"]
        for stage in self.application["stages"]:
            took = stage["stageDuration"]
            lines.append(f"Stage {stage['stage']} duration => {took}{_in_words('stageDuration', took)}")
        return "\n".join([*lines, "", self.application.text])

    def _repr_html_(self) -> str:
        try:
            picture = "" if self._asked.is_empty else self.application.picture
            return f"{picture}<pre>{html.escape(self.report())}</pre>"
        except Error as error:
            return f"<p>{html.escape(str(error))}</p>"

    def __repr__(self) -> str:
        """Return the report, so that a shell shows it."""
        try:
            return self.report()
        except Error as error:
            return f"<latscope.spark.Measure: {error}>"

    def _counters(self) -> dict[str, int]:
        """Return the counters, and how long the block took."""
        known: dict[str, int] = dict.fromkeys(COUNTERS, 0) if self._asked.is_empty else self.application["counters"]
        return {**known, "blockTime": self._block_ms}

    def _stop(self) -> None:
        """Read what Spark says, and warn of what it has forgotten: two calls below the one of the user."""
        if self._begin_ns is None:
            message = "The measurement has not started; call begin, or use it in a with statement."
            raise UsageError(message)
        block_ns = (self._begin_ns, time.time_ns())
        self._block_ms = (block_ns[1] - block_ns[0]) // MS
        try:
            self._settle()
            self._asked = self._ask(self._source or self._found_source(), block_ns)
            log = self._log() if self.missing and self._source is None else None
            if log is not None:
                # Its log forgets nothing, but may lack what was not yet written.
                of_log = self._ask(log, block_ns)
                is_answer = of_log.found is not None or of_log.is_empty
                if is_answer and not of_log.missing and of_log.tasks >= self._asked.tasks:
                    self._asked = of_log
        except Error as error:
            self._asked = Asked(None, error, [])
        for sentence in self.missing:
            warnings.warn(sentence, stacklevel=3)

    def _ask(self, source: str, block_ns: tuple[int, int]) -> Asked:
        """Return what a driver, or a log, says of a block."""
        trace = None
        try:
            # Spark has the start of a task in whole milliseconds.
            trace = read(source, filter=f"time >= {block_ns[0] // MS * MS}")
            return Asked(Application(*trace._native.spark("stage", 20, block_ns)), None, trace.notes)
        except Error as error:
            return Asked(None, error, trace.notes if trace else [])

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
            source: str | None = self._spark.sparkContext.uiWebUrl or self._log()
        except Exception as error:
            message = "This session does not say where it can be asked; give source, such as http://driver:4040."
            raise UsageError(message) from error
        if source:
            return source
        message = "The session has neither its page (spark.ui.enabled) nor an event log here; give source."
        raise UsageError(message)

    def _log(self) -> str | None:
        """Return the event log of the running session, if it is here."""
        context: Any = self._spark.sparkContext
        settings = context.getConf()
        if settings.get("spark.eventLog.enabled") != "true":
            return None
        folder = Path(urlparse(settings.get("spark.eventLog.dir", "/tmp/spark-events")).path)
        name = context.applicationId
        known = [f"eventlog_v2_{name}", *(log.name for log in folder.glob(f"{name}*"))]
        found = [folder / log for log in known if (folder / log).exists()]
        return str(found[0]) if found else None


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
    be that of this machine. A driver remembers ``spark.ui.retainedTasks`` tasks (100,000) of a stage, and so many jobs and stages. Where
    it has forgotten some, the event log is read, if the session has one here; else there is a warning, and ``missing``.
    """
    return Measure(spark, source)
