"""Traces, and the views of them."""

from __future__ import annotations

import glob
import html
import json
import os
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import pyarrow as pa

from latscope import _native
from latscope._native import Error, UsageError
from latscope.arguments import check, check_names, fold, is_number, names, percentile_table, percents, period
from latscope.series import Look, Page, Picture, Series, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from latscope import _options
    from latscope.arguments import Duration

Paths: TypeAlias = "str | PathLike[str] | Iterable[str | PathLike[str]]"

WIDTH = 1000
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
        if not text:
            # The sentence about a file that is not there would start with its name.
            message = 'The path is empty; give the name of a file, such as "perf.data".'
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
        source: str | None = None,
        latency: str = "device",
        unitstime: str | None = None,
        unitslat: str | None = None,
        log_columns: str | Iterable[str] | None = None,
        lenient: bool = False,
        correct_omission: Duration | None = None,
        offsets: str | PathLike[str] | None = None,
        align_starts: bool = False,
        tag_file: str | PathLike[str] | None = None,
        tag: str | None = None,
    ) -> None:
        """Take what to read; see :func:`read`."""
        check(filter=filter, format=format, align_starts=align_starts, lenient=lenient, tag=tag)
        check(source=source, latency=latency, unitstime=unitstime, unitslat=unitslat)
        self._paths = found(paths)
        self._columns = None if columns is None else names(columns)
        self._options: _options.Options = {
            "filter": filter,
            "format": format,
            "source": source,
            "latency": latency,
            "unitstime": unitstime,
            "unitslat": unitslat,
            "log_columns": None if log_columns is None else names(log_columns),
            "lenient": lenient,
            "correct_omission_ns": period(correct_omission, "correct_omission"),
            "offsets": None if offsets is None else found(offsets)[0],
            "align_starts": align_starts,
            "tag_file": None if tag_file is None else found(tag_file)[0],
            "tag": tag,
        }
        self._is_temporary = False
        self._native = _native.Trace(self._paths, self._options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what is read, not what was read; the files must be where it is used."""
        if self._is_temporary:
            message = 'This trace is in a temporary file; capture with path="FILE" to use it in other processes.'
            raise UsageError(message)
        return _again, (self._paths, self._columns, self._options)

    def __copy__(self) -> Trace:
        """Return the trace itself: it does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Trace:
        """Return the trace itself: it does not change."""
        return self

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

    def waiting(self, columns: str | Iterable[str] | None = None) -> pa.Table:
        """Return the requests that had not completed when the trace ended, one row each.

        ``age_ns`` is how long each had waited by then: its latency is at least that. Views count them as lower bounds, unless
        ``completed_only`` is set; :meth:`events` has what completed.
        """
        return table(self._native.waiting(self._asked(columns)))

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
        how = fold(interval, by, self._quantity(quantity), weight, precision, completed_only=completed_only)
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
        quantity = self._quantity(quantity)
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
        check_names(options, Rounds.__annotations__)
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

    def stacks(
        self,
        by: str | Iterable[str] | None = None,
        *,
        width: str | None = None,
        top: int = 20,
        full: bool = False,
    ) -> Answer:
        """Return the call stacks with the largest share of the time waited, as ``latscope stacks`` does.

        ``width`` is what shares are of: time, events or samples.
        """
        check(top=top, full=full)
        return Answer(*self._native.stacks(_stacks(by, width, top=top, full=full)))

    def flamegraph(
        self,
        by: str | Iterable[str] | None = None,
        *,
        width: str | None = None,
        against: str | None = None,
        title: str | None = None,
        pixels: int = 1200,
        icicle: bool = False,
        color: str = "kind",
        min_share: float = 0.1,
        dark: bool | None = None,
    ) -> Picture:
        """Return the flame graph as SVG, as ``latscope flamegraph`` does; ``against`` is a filter to compare with.

        ``color`` is kind or latency. Frames below ``min_share`` percent of all are gathered.
        """
        check(against=against, title=title, pixels=pixels, icicle=icicle, color=color, dark=dark)
        if not is_number(min_share):
            message = f"min_share={min_share!r}: give a number of percent from 0 to 50."
            raise UsageError(message)
        look: _options.Flamegraph = {
            "title": title,
            "pixels": pixels,
            "icicle": icicle,
            "color": color,
            "min_share": float(min_share),
            "dark": dark,
        }
        return Picture(self._native.flamegraph(_stacks(by, width, against), look))

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
        how = fold(interval, by, self._quantity(quantity), weight, precision, completed_only=completed_only)
        check_names(look, Look.__annotations__)
        width = look.get("width", WIDTH)
        check(width=width)
        return Series(self._native.series(how, width // 2)).heatmap(**look)

    def report(self, title: str | None = None) -> Page:
        """Return the interactive page: heat map, selection and explanation, in one file of HTML."""
        check(title=title)
        return Page(self._native.report(title or None))

    def __repr__(self) -> str:
        """Say what it is, in short."""
        return f"<latscope.Trace: {', '.join(self._paths)}>"

    def _asked(self, columns: str | Iterable[str] | None) -> list[str] | None:
        return self._columns if columns is None else names(columns)

    def _quantity(self, quantity: str) -> str:
        check(quantity=quantity)
        return self._native.quantity(quantity)


def _again(paths: list[str], columns: list[str] | None, options: _options.Options) -> Trace:
    """Return the trace that was pickled."""
    trace = Trace.__new__(Trace)
    trace._paths, trace._columns, trace._options, trace._is_temporary = paths, columns, options, False
    trace._native = _native.Trace(paths, options)
    return trace


def _stacks(
    by: str | Iterable[str] | None,
    width: str | None,
    against: str | None = None,
    *,
    top: int = 20,
    full: bool = False,
) -> _options.Stacks:
    if width not in {None, "time", "events", "samples"}:
        message = f"There is no width {width}; use time, events or samples."
        raise UsageError(message)
    return {"by": names(by), "width": width, "against": against, "top": top, "full": full}


class Options(TypedDict, total=False):
    """The options of :func:`read`."""

    filter: str | None
    columns: str | Iterable[str] | None
    format: str | None
    source: str | None
    latency: str
    unitstime: str | None
    unitslat: str | None
    log_columns: str | Iterable[str] | None
    lenient: bool
    correct_omission: Duration | None
    offsets: str | PathLike[str] | None
    align_starts: bool
    tag_file: str | PathLike[str] | None
    tag: str | None


def read(paths: Paths, **options: Unpack[Options]) -> Trace:
    """Take files, folders or hubs to read, in any format that latscope knows.

    Options are those of the program, under the same names:

    * ``filter``: which events, in the language of the program; ``source``: of ``block``, ``io``, ``syscall``, ``stacks`` or ``spark``.
    * ``columns``: of the tables of :meth:`Trace.events`, unless these name others.
    * ``format`` where it is not detected, ``unitstime``, ``unitslat`` and ``log_columns`` where a file does not name its units or
      columns, ``lenient`` to skip and count malformed rows.
    * ``latency="request"`` to count from when a block request was created; ``correct_omission``: the period of a load generator.
    * ``offsets``: a file of clock offsets of hosts; ``align_starts`` to lay traces over each other.
    * ``tag_file`` and ``tag``: what the application did meanwhile.
    """
    check_names(options, Options.__annotations__)
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
