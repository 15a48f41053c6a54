"""Traces, and the views of them."""

from __future__ import annotations

import glob
import html
import json
import os
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import pyarrow as pa

from latscope import _native
from latscope._native import Error, UsageError
from latscope.arguments import check, fold, names, percentile_table, percents, period
from latscope.series import Page, Picture, Series, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from latscope.arguments import Duration
    from latscope.series import Look

Paths: TypeAlias = "str | PathLike[str] | Iterable[str | PathLike[str]]"

WIDTH = 1180
"""Width of a heat map."""
INTERVALS = WIDTH // 2
"""So many intervals has a series at most whose interval is not given."""


def found(paths: Paths) -> list[str]:
    """Return paths with those that match where a path is a pattern, as a shell does; a file of that very name comes first."""
    each = [paths] if isinstance(paths, (str, PathLike)) or not isinstance(paths, Iterable) else list(paths)
    every: list[str] = []
    for path in each:
        text = fspath(path) if isinstance(path, (str, PathLike)) else path
        if not isinstance(text, str) or isinstance(paths, bytes) or not is_path(text):
            message = f'{paths!r} is no path; give a text such as "perf.data", or a list of them.'
            raise UsageError(message)
        if "://" in text or os.path.lexists(text):
            every.append(text)
            continue
        text = os.path.expanduser(text)  # noqa: PTH111
        matching = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else [text]  # noqa: PTH207
        if not matching:
            message = f"{text}: No file has such a name."
            raise Error(message)
        every.extend(matching)
    return every


def is_path(text: str) -> bool:
    """Say whether a file can have such a name."""
    try:
        return os.fsencode(text) is not None
    except UnicodeEncodeError:
        return False


class Answer(dict[str, Any]):
    """What a view answers: its JSON as a dictionary, and its text."""

    def __init__(self, content: str, text: str) -> None:
        """Take the answer in both forms."""
        super().__init__(json.loads(content))
        self.text = text

    def __str__(self) -> str:
        """Return the text that the program prints."""
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


class Application(Answer):
    """The report of an application of Spark, with its picture."""

    def __init__(self, content: str, text: str, picture: str) -> None:
        """Take the report in all forms."""
        super().__init__(content, text)
        self.picture = Picture(picture)

    def _repr_html_(self) -> str:
        return f"{self.picture}{super()._repr_html_()}"


class Trace:
    """Files and which of their events. Nothing is read before a view asks for it; a pipe can be read once."""

    def __init__(
        self,
        paths: Paths,
        *,
        filter: str | None = None,
        columns: str | Iterable[str] | None = None,
        format: str | None = None,
        offsets: str | PathLike[str] | None = None,
        align_starts: bool = False,
        lenient: bool = False,
        from_queue: bool = False,
        all_syscalls: bool = False,
        all_of_spark: bool = False,
        correct_omission: Duration | None = None,
    ) -> None:
        """Take what to read; see :func:`read`."""
        check(filter=filter, format=format, align_starts=align_starts, lenient=lenient)
        check(from_queue=from_queue, all_syscalls=all_syscalls, all_of_spark=all_of_spark)
        self._paths = found(paths)
        self._columns = None if columns is None else names(columns)
        self._native = _native.Trace(
            self._paths,
            filter,
            format,
            None if offsets is None else found(offsets)[0],
            align_starts,
            lenient,
            from_queue,
            all_syscalls,
            all_of_spark,
            period(correct_omission, "correct_omission"),
        )

    @property
    def paths(self) -> list[str]:
        """What is read: files, folders or hubs."""
        return list(self._paths)

    @property
    def notes(self) -> list[str]:
        """What views have found lost, repaired or assumed so far: sentences. Look at them before you rely on numbers."""
        return self._native.notes

    def files(self) -> list[str]:
        """Return the files, with those of folders in place of these."""
        return [fspath(path) for path in self._native.files()]

    def events(self, columns: str | Iterable[str] | None = None) -> pa.Table:
        """Return the events as an Arrow table, without copying them.

        Columns without any value are left out, unless they are asked for by name. ``end_ns``, the completion, is there
        where it is asked for.
        """
        asked = self._asked(columns)
        events = table(self._native.events(asked))
        if asked is not None:
            return events
        return events.select([name for name in events.column_names if events[name].null_count < max(1, len(events))])

    def batches(self, columns: str | Iterable[str] | None = None) -> pa.RecordBatchReader:
        """Return the events batch by batch, for traces larger than memory."""
        stream = self._native.events(self._asked(columns))
        reader = pa.RecordBatchReader.from_stream(stream)

        def batches(trace: Trace) -> Iterator[pa.RecordBatch]:
            """Keep the trace, whose file may live as long as it does."""
            try:
                yield from reader
            except (pa.ArrowException, OSError) as error:
                # With the sentence of the program, not that of Arrow.
                stream.finish()
                raise Error(str(error)) from error

        return pa.RecordBatchReader.from_batches(reader.schema, batches(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand over the events to any program that takes Arrow data, such as ``polars.DataFrame(trace)``."""
        return self.batches().__arrow_c_stream__(requested_schema)

    def series(
        self,
        interval: Duration | None = None,
        *,
        by: str | Iterable[str] | None = None,
        quantity: str = "latency",
        weight: str = "count",
        precision: int | None = None,
        completed_only: bool = False,
    ) -> Series:
        """Return a histogram for each interval and group; an event counts in the interval in which it completed."""
        how = fold(interval, by, quantity, weight, precision, completed_only=completed_only)
        return Series(self._native.series(how, INTERVALS), self.report)

    def percentiles(
        self,
        percentiles: float | Iterable[float] = (50, 90, 99, 99.9),
        interval: Duration | None = None,
        *,
        by: str | Iterable[str] | None = None,
        all: bool = False,
        quantity: str = "latency",
        count_by: str = "overlap",
        precision: int | None = None,
        completed_only: bool = False,
    ) -> pa.Table:
        """Return percentiles by interval and group, as ``latscope percentiles`` does.

        An event counts in every interval in which it was in flight, in proportion to its time there; with
        ``count_by="completion"``, where it completed.
        """
        if count_by not in {"overlap", "completion"}:
            message = f"There is no count_by={count_by}; use overlap or completion."
            raise UsageError(message)
        how = fold(interval, by, quantity, precision=precision, completed_only=completed_only)
        asked = percents(percentiles)
        lines = self._native.percentiles(asked, how, all, count_by == "overlap")
        return percentile_table(lines, how["by"], asked, quantity)

    def summary(
        self,
        by: str | Iterable[str] | None = None,
        *,
        quantity: str = "latency",
        precision: int | None = None,
        completed_only: bool = False,
    ) -> Answer:
        """Return counts, rates and percentiles of each group, as ``latscope summary`` does. ``by=[]`` gives the total alone."""
        how = fold(quantity=quantity, precision=precision, completed_only=completed_only)
        return Answer(*self._native.summary(None if by is None else names(by), how))

    def compare(self, other: Trace, **options: Unpack[Rounds]) -> Answer:
        """Say whether another trace is slower or faster than this one; see :func:`compare`."""
        if not isinstance(other, Trace):
            message = f"{other!r} is no trace; give lat.read(...)."
            raise UsageError(message)
        first, second = (" ".join(trace.paths) for trace in (self, other))
        sides = {first: self, second: other} if first != second else {f"{first} (1)": self, f"{second} (2)": other}
        return compare(sides, **options)

    def explain(
        self,
        selection: str | None = None,
        *,
        against: str | None = None,
        columns: str | Iterable[str] | None = None,
        seed: int = 1,
        quantity: str = "latency",
    ) -> Answer:
        """Say what the events of a filter have in common that others have not; without one, what is unusual in a quantity."""
        check(selection=selection, against=against, seed=seed, quantity=quantity)
        columns = None if columns is None else names(columns)
        return Answer(*self._native.explain(selection, against, columns, seed, quantity))

    def spark(self, by: str = "stage", top: int = 20) -> Application:
        """Return the report of an application of Spark, as ``latscope spark`` does; ``by`` is stage, job or sql."""
        check(top=top)
        if by not in {"stage", "job", "sql"}:
            message = f"There is no report by {by}; use stage, job or sql."
            raise UsageError(message)
        return Application(*self._native.spark(by, top))

    def heatmap(
        self,
        interval: Duration | None = None,
        *,
        by: str | Iterable[str] | None = None,
        quantity: str = "latency",
        weight: str = "count",
        precision: int | None = None,
        completed_only: bool = False,
        **look: Unpack[Look],
    ) -> Picture:
        """Return the heat map as SVG; see :meth:`series` and :meth:`Series.heatmap`."""
        how = fold(interval, by, quantity, weight, precision, completed_only=completed_only)
        width = look.get("width", WIDTH)
        check(width=width)
        return Series(self._native.series(how, width // 2)).heatmap(**look)

    def report(self, title: str | None = None) -> Page:
        """Return the interactive page: heat map, selection and explanation, in one file of HTML."""
        check(title=title)
        return Page(self._native.report(title or ", ".join(Path(path).name for path in self._paths)))

    def __repr__(self) -> str:
        """Say what it is, in short."""
        return f"<latscope.Trace: {', '.join(self._paths)}>"

    def _asked(self, columns: str | Iterable[str] | None) -> list[str] | None:
        return self._columns if columns is None else names(columns)


class Options(TypedDict, total=False):
    """The options of :func:`read`."""

    filter: str | None
    columns: str | Iterable[str] | None
    format: str | None
    offsets: str | PathLike[str] | None
    align_starts: bool
    lenient: bool
    from_queue: bool
    all_syscalls: bool
    all_of_spark: bool
    correct_omission: Duration | None


def read(paths: Paths, **options: Unpack[Options]) -> Trace:
    """Take files, folders or hubs to read, in any format that latscope knows.

    Options are those of :class:`Trace`: ``filter`` (the language of the program), ``columns`` (of tables), ``format``,
    ``offsets``, ``align_starts``, ``lenient``, ``from_queue``, ``all_syscalls``, ``all_of_spark`` and ``correct_omission``.
    """
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        message = f"There is no option {unknown[0]}; there are {', '.join(Options.__annotations__)}."
        raise UsageError(message)
    return Trace(paths, **options)


class Rounds(TypedDict, total=False):
    """The options of :func:`compare`."""

    percentiles: Iterable[float]
    rounds: int
    seed: int
    quantity: str


def compare(
    sides: Mapping[str, Trace | Iterable[Trace]],
    *,
    percentiles: Iterable[float] = (50, 90, 99, 99.9),
    rounds: int = 2000,
    seed: int = 1,
    quantity: str = "latency",
) -> Answer:
    """Compare measurements, as ``latscope compare`` does; the first is the base. A side may have several traces: its turns."""
    check(rounds=rounds, seed=seed, quantity=quantity)
    named = sides.items() if isinstance(sides, Mapping) else [(sides, sides)]
    turns = [(name, list(side) if isinstance(side, Iterable) else [side]) for name, side in named]
    if not all(isinstance(name, str) and all(isinstance(trace, Trace) for trace in side) for name, side in turns):
        message = 'A comparison takes traces by name, such as {"old": lat.read("a.lat"), "new": lat.read("b.lat")}.'
        raise UsageError(message)
    native = [(name, [trace._native for trace in traces]) for name, traces in turns]
    content, text, notes = _native.compare(native, percents(percentiles), rounds, seed, quantity)
    answer = Answer(content, text)
    answer.setdefault("traces", notes)
    return answer
