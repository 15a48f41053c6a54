"""Histograms over time and groups."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa

from latscope import _native
from latscope._native import Error, UsageError, quantity_unit
from latscope.arguments import check, percentile_table, percents, period

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from numpy.typing import NDArray

    from latscope.arguments import Duration


def write(text: str, path: str | PathLike[str], *endings: str) -> None:
    """Write a text to a file, of which other programs go by the end of the name."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        message = f"{path} is written as {endings[0][1:].upper()}; give a name that ends in {endings[0]}."
        raise UsageError(message)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{path}: Cannot be written: {error.strerror}."
        raise Error(message) from error


class Picture(str):
    """An SVG document that notebooks show."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def image(self, name: str = "") -> str:
        """Return it as an image of HTML."""
        data = base64.b64encode(self.encode()).decode()
        known = f' id="{name}"' if name else ' style="max-width:100%"'
        return f'<img{known} alt="heat map" src="data:image/svg+xml;base64,{data}">'

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file whose name ends in .svg."""
        write(self, path, ".svg")


class Page(str):
    """The interactive page of a report, which notebooks show in a frame."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return self.framed()

    def framed(self, picture: Picture | None = None) -> str:
        """Return the page in a frame, with a picture that stands in where the page, or its script, is not allowed."""
        page, style, beside = str(self), "", ""
        if picture is not None:
            page = page.replace("style-src ", f"img-src data:; style-src 'sha256-{_STYLE_HASH}' ", 1)
            page = page.replace("<body>", f"<body><style>{_STYLE}</style>{picture.image('instead')}", 1)
            # Whoever removes frames, as notebooks that are not trusted do, removes the style, too, and shows the picture.
            style, beside = "<style>.latscope+img{display:none}</style>", picture.image()
        # A frame of its own: scripts and styles of page and notebook do not meet.
        look = 'class="latscope" style="width:100%;height:720px;border:0" sandbox="allow-scripts"'
        return f'{style}<iframe srcdoc="{html.escape(page, quote=True)}" {look}></iframe>{beside}'

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file whose name ends in .html."""
        write(self, path, ".html", ".htm")


_STYLE = (
    "#instead{position:fixed;inset:0;z-index:9;width:100%;height:100%;background:#fff;object-fit:contain;object-position:top}"
    ":root[data-ready] #instead,:root[data-failed] #instead{display:none}"
)
"""The picture lies over the page until its script says that it is ready."""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def table(stream: _native.Stream) -> pa.Table:
    """Take all batches of a stream. They are what the native half has made; nothing is copied."""
    try:
        reader = pa.RecordBatchReader.from_stream(stream)
        return pa.Table.from_batches(list(reader), schema=reader.schema)
    except (pa.ArrowException, OSError) as error:
        stream.finish()
        raise Error(str(error)) from error


def merge(series: Iterable[Series]) -> Series:
    """Return one series with the events of all of these, exactly; of one at least. ``sum`` does the same."""
    merged = sum(series) if isinstance(series, Iterable) else None
    if isinstance(series, Series) or merged is None:
        message = f"{series!r} is not several series; give a list, such as [one, another]."
        raise UsageError(message)
    if not isinstance(merged, Series):
        message = "There is no series to merge; give at least one."
        raise UsageError(message)
    return merged


class Look(TypedDict, total=False):
    """How a heat map looks: the options of :meth:`Series.heatmap`."""

    title: str | None
    width: int
    height: int
    lines: float | Iterable[float]
    palette: str
    scale: str | None
    dark: bool | None


class Series:
    """A histogram for each interval and group. Series add up exactly with ``+``; ``sum`` takes many of them."""

    def __init__(self, native: _native.Series, page: Callable[[], Page] | None = None) -> None:
        """Wrap the native half; ``page`` makes the interactive page of the trace behind it."""
        self._native = native
        self._page = page
        self._matrices: dict[tuple[int | None, bool], NDArray[np.uint64]] = {}
        self._places: dict[int | None, tuple[int, int, int, int]] = {}

    @property
    def width_ns(self) -> int:
        """Width of the intervals, nanoseconds."""
        return self._native.width_ns

    @property
    def by(self) -> list[str]:
        """Names of the group fields."""
        return self._native.by

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Values of the group fields."""
        return [tuple(group) for group in self._native.groups]

    @property
    def quantity(self) -> str:
        """What the histograms are of."""
        return self._native.quantity

    @property
    def unit(self) -> str:
        """The unit of the quantity: ``ns`` or ``bytes``."""
        return quantity_unit(self.quantity)

    @property
    def power(self) -> int:
        """The logarithm to base 2 of the number of buckets to the octave."""
        return self._native.power

    @property
    def notes(self) -> list[str]:
        """What was lost, repaired or assumed: sentences."""
        return self._native.notes

    @property
    def waiting(self) -> int:
        """Number of requests that wait when the traces end. :meth:`percentiles` has those of each interval, with their age."""
        return self._native.waiting

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all histograms. In a notebook, what is unpickled shows itself as a picture."""
        return _again, (self._native.to_bytes(),)

    def __copy__(self) -> Series:
        """Return the series itself: it does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Series:
        """Return the series itself: it does not change."""
        return self

    def __len__(self) -> int:
        """Return the number of intervals, from the first to the last."""
        return self._native.intervals

    def matrix(self, group: tuple[str, ...] | str | None = None, *, weight: bool = False) -> NDArray[Any]:
        """Return counts as a matrix, interval by bucket: of one group, or of all together.

        It is a view of what the native half has counted, and not to be written to. With ``weight=True`` the cells are sums of
        the weight (nanoseconds or bytes). Counts by overlap are fractions.
        """
        number = self._number(group)
        cells = self._cells(number, weight)
        return cells if weight or self._native.per_event == 1 else cells / self._native.per_event

    def edges(self, group: tuple[str, ...] | str | None = None) -> NDArray[np.uint64]:
        """Return the smallest value of each column of the matrix, and of the bucket after the last."""
        _, _, first, columns = self._place(self._number(group))
        return np.array(self._native.edges(first, columns), dtype=np.uint64)

    @property
    def start_ns(self) -> NDArray[np.int64]:
        """Start of each row of the matrix, nanoseconds on the clock of the trace."""
        start, count, _, _ = self._place(None)
        return start + np.arange(count, dtype=np.int64) * self.width_ns

    @property
    def times(self) -> NDArray[Any]:
        """Start of each row: the moment (UTC) where the trace knows it, else the time since the first row."""
        start, to_unix = self.start_ns, self._native.to_unix_ns
        if to_unix is not None:
            return (start + to_unix).astype("datetime64[ns]")
        return (start - start[:1]).astype("timedelta64[ns]")

    def cells(self) -> pa.Table:
        """Return all cells that are not empty: ``time_ns``, the group fields, bucket ``k`` and count ``n``."""
        how = {"latscope.width_ns": str(self.width_ns), "latscope.power": str(self.power)}
        return table(self._native.cells()).replace_schema_metadata(how)

    def __add__(self, other: Series) -> Series:
        """Add the events of another series, exactly."""
        if not isinstance(other, Series):
            message = f"A series can be added to another series only, not to {other!r}."
            raise UsageError(message)
        return Series(self._native.merged(other._native))

    def __radd__(self, other: object) -> Series:
        """Start a ``sum``."""
        return self if isinstance(other, int) and other == 0 else self + other  # type: ignore[operator]

    def rebin(self, interval: Duration) -> Series:
        """Return the same in wider intervals: a whole multiple of the present ones."""
        width_ns = period(interval, "interval")
        if width_ns is None:
            message = 'An interval is needed; give a length of time with a unit, such as "10ms" or "5s".'
            raise UsageError(message)
        return Series(self._native.rebinned(width_ns), self._page)

    def percentiles(self, percentiles: float | Iterable[float] = (50, 90, 99, 99.9), *, all: bool = False) -> pa.Table:
        """Return percentiles by interval and group. An event counts in the interval in which it completed."""
        asked = percents(percentiles)
        return percentile_table(self._native.percentiles(asked, all), self.by, asked, self.quantity)

    def heatmap(
        self,
        *,
        title: str | None = None,
        width: int = 1000,
        height: int = 400,
        lines: float | Iterable[float] = (50, 99),
        palette: str = "viridis",
        scale: str | None = None,
        dark: bool | None = None,
    ) -> Picture:
        """Return the heat map as SVG."""
        check(title=title, width=width, height=height, palette=palette, dark=dark)
        if scale not in {None, "log", "linear"}:
            message = f"There is no scale {scale}; use log or linear."
            raise UsageError(message)
        linear = None if scale is None else scale == "linear"
        return Picture(self._native.svg(title, width, height, percents(lines), palette, linear, dark))

    def plot(self, ax: Any = None, **look: Any) -> Any:
        """Draw the counts with matplotlib, and the age of the oldest request that waits, and return the axes."""
        from matplotlib import pyplot
        from matplotlib.colors import LogNorm

        ax = pyplot.gca() if ax is None else ax
        counts, edges, times = self.matrix(), self.edges(), self.times
        times = np.append(times, times[-1:] + np.timedelta64(self.width_ns, "ns"))
        if times.dtype.kind == "m":
            times = times.astype(np.int64) / 1e9
        if counts.size:
            look.setdefault("norm", LogNorm(vmin=1, vmax=max(2, counts.max())))
            mesh = ax.pcolormesh(times, np.maximum(edges, 1), np.ma.masked_equal(counts, 0).T, **look)
            ax.figure.colorbar(mesh, ax=ax, label="events")
        if self.waiting:
            oldest = self._oldest()
            ax.plot(times[[row + 1 for row in oldest]], list(oldest.values()), "r.-", label="oldest waiting")
            ax.legend()
        ax.set_yscale("log")
        ax.set_xlabel("time (UTC)" if self._native.to_unix_ns is not None else "time since the start (s)")
        ax.set_ylabel(f"{self.quantity} ({self.unit})")
        waiting = f", {self.waiting} waiting" if self.waiting else ""
        ax.set_title(f"{self.quantity}, {self._native.events:.0f} events{waiting}")
        return ax

    def _oldest(self) -> dict[int, int]:
        """Return the age of the oldest request that waits at the end of an interval, by row of the matrix."""
        rows = self.percentiles(50)
        ages: dict[int, int] = {}
        start = int(self.start_ns[0])
        for time, age in zip(rows["time_ns"].to_pylist(), rows["oldest_ns"].to_pylist(), strict=True):
            if age:
                row = (time - start) // self.width_ns
                ages[row] = max(age, ages.get(row, 0))
        return ages

    def __repr__(self) -> str:
        """Say what it is, in short."""
        by = f" by {', '.join(self.by)}" if self.by else ""
        waiting = f", {self.waiting} waiting" if self.waiting else ""
        return (
            f"<latscope.Series: {self._native.events:.0f} events{waiting}, {self.quantity}{by}, {len(self)} intervals>"
        )

    def _repr_html_(self) -> str:
        """Show the interactive page, or the picture where scripts are not allowed."""
        try:
            picture = self.heatmap()
        except Error as error:
            return f"<pre>{html.escape(f'{self!r}: {error}')}</pre>"
        # Without events there is nothing to choose from.
        return picture.image() if self._page is None or not self._native.events else self._page().framed(picture)

    def _number(self, group: tuple[str, ...] | str | None) -> int | None:
        if group is None:
            return None
        wanted = tuple(group) if isinstance(group, (tuple, list)) else (group,)
        if wanted not in self.groups:
            message = f"There is no group {' '.join(map(str, wanted))}; groups has all of them."
            raise UsageError(message)
        return self.groups.index(wanted)

    def _place(self, number: int | None) -> tuple[int, int, int, int]:
        if number not in self._places:
            self._cells(number, weight=False)
        return self._places[number]

    def _cells(self, number: int | None, weight: bool) -> NDArray[np.uint64]:
        key = (number, weight)
        if key not in self._matrices:
            stream, start, count, first, columns = self._native.matrix(number, weight)
            cells: NDArray[np.uint64] = table(stream)["cells"].chunk(0).to_numpy(zero_copy_only=True)
            self._matrices[key] = cells.reshape(count, columns)
            self._places[number] = (start, count, first, columns)
        return self._matrices[key]


def _again(kept: bytes) -> Series:
    """Return the series that was pickled."""
    return Series(_native.Series.from_bytes(kept))
