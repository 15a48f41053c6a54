"""What users give, as the native half takes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from latscope._native import UsageError, duration_ns, quantity_unit

if TYPE_CHECKING:
    from latscope._options import Fold

MOST = 2**63 - 1
"""The largest whole number of a column."""
Duration: TypeAlias = "str | timedelta | np.timedelta64"
"""A length of time: ``"10ms"``, or an object that has its unit."""


_TEXTS = {
    "against": "size > 64k",
    "color": "kind",
    "filter": "lat > 1ms",
    "format": "perf_script",
    "latency": "request",
    "palette": "viridis",
    "quantity": "latency",
    "selection": "lat > 10ms",
    "source": "block",
    "stacks": "slow=50ms",
    "tag": "query",
    "title": "The disk of the database",
    "unitslat": "us",
    "unitstime": "us",
    "weight": "bytes",
}
"""What is a text, with an example."""
_NUMBERS = {
    "height": (100, 4000),
    "pixels": (200, 4000),
    "precision": (1, 64),
    "rounds": (100, 100_000),
    "seed": (0, 2**64 - 1),
    "top": (0, 2**32 - 1),
    "width": (200, 4000),
}
"""What is a whole number, with its bounds."""
_OPTIONAL = {"against", "dark", "filter", "format", "precision", "selection", "source", "stacks", "tag", "title"}
_OPTIONAL |= {"unitslat", "unitstime"}


def check(**given: Any) -> None:
    """Raise what to give instead of a value that is of another type or out of its bounds."""
    for name, value in given.items():
        if value is None and name in _OPTIONAL:
            continue
        if name in _TEXTS:
            fits, wanted = is_text(value), f'a text such as "{_TEXTS[name]}"'
        elif name in _NUMBERS:
            least, most = _NUMBERS[name]
            fits = isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most
            wanted = f"a whole number from {least} to {most}"
        else:
            fits, wanted = isinstance(value, (bool, np.bool_)), "True or False"
        if not fits:
            message = f"{name}={value!r}: give {wanted}."
            raise UsageError(message)


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise which options there are, where one is given that does not exist."""
    known = list(known)
    unknown = sorted(set(given) - set(known))
    if unknown:
        message = f"There is no option {unknown[0]}; there are {', '.join(known)}."
        raise UsageError(message)


def is_text(value: object) -> bool:
    """Say whether it is a text that can be written as UTF-8."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


_UNITS_NS = {"W": 604800 * 10**9, "D": 86400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9}
_UNITS_NS |= {"ms": 10**6, "us": 10**3, "ns": 1}
"""The units of numpy that have a length."""


def nanoseconds(duration: Duration | None) -> int | None:
    """Return the length of time in nanoseconds."""
    match duration:
        case None:
            return None
        case str() if is_text(duration):
            return duration_ns(duration)
        case timedelta():
            length = ((duration.days * 86400 + duration.seconds) * 1_000_000 + duration.microseconds) * 1000
            # That of pandas has them.
            length += getattr(duration, "nanoseconds", 0)
        case np.timedelta64() if np.datetime_data(duration.dtype)[0] in _UNITS_NS:
            unit, number = np.datetime_data(duration.dtype)
            length = int(duration.astype(np.int64)) * number * _UNITS_NS[unit]
        case _:
            message = f'{duration!r} is not a length of time; give it as a text with a unit, such as "10ms" or "5s".'
            raise UsageError(message)
    if not 0 <= length < 2**63:
        message = f"A length of time from 0 to 292 years is needed, not {duration}."
        raise UsageError(message)
    return length


def period(duration: Duration | None, name: str) -> int | None:
    """Return a length of time that is longer than zero in nanoseconds."""
    length = nanoseconds(duration)
    if length == 0:
        message = f"{name}={duration!r}: give a length of time above zero."
        raise UsageError(message)
    return length


def names(fields: str | Iterable[str] | None) -> list[str]:
    """Return names of fields, of which one may stand alone."""
    if fields is None:
        return []
    if isinstance(fields, str) and is_text(fields):
        return fields.split(",")
    each = list(fields) if isinstance(fields, Iterable) else []
    if not isinstance(fields, Iterable) or not all(is_text(name) for name in each):
        message = f'{fields!r} are no names of fields; for example, use ["device", "host"].'
        raise UsageError(message)
    return each


def is_number(value: object) -> bool:
    """Say whether it is a real number, which bool is not."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def percents(percentiles: float | Iterable[float]) -> list[float]:
    """Return percentiles, of which one may stand alone, each once."""
    several = isinstance(percentiles, Iterable) and not isinstance(percentiles, (str, bytes))
    each: list[Any] = list(percentiles) if several else [percentiles]  # type: ignore[arg-type]
    if not all(is_number(one) and 0 <= one <= 100 for one in each):
        message = f"{percentiles!r} are no percentiles; for example, use [50, 99, 99.9]."
        raise UsageError(message)
    return list(dict.fromkeys(float(one) for one in each))


def fold(
    interval: Duration | None = None,
    by: str | Iterable[str] | None = None,
    quantity: str = "latency",
    weight: str = "count",
    precision: int | None = None,
    *,
    completed_only: bool = False,
) -> Fold:
    """Return how events become histograms."""
    check(quantity=quantity, weight=weight, precision=precision, completed_only=completed_only)
    return {
        "interval_ns": period(interval, "interval"),
        "by": names(by),
        "quantity": quantity,
        "weight": weight,
        "precision": precision,
        "completed_only": completed_only,
    }


def percentile_table(lines: str, by: Iterable[str], percentiles: Iterable[float], quantity: str) -> pa.Table:
    """Return JSON lines of percentiles as a table. Types of columns do not depend on what the rows hold."""
    unit, rows = quantity_unit(quantity), [json.loads(line) for line in lines.splitlines()]
    asked = [f"p{percentile:.15g}".replace(".", "_") for percentile in percentiles]
    own = ["time_ns", "width_ns", "count", "rate_per_s"] + [f"{name}_{unit}" for name in ["mean", *asked, "max"]]
    own += ["trusted_p", "incomplete", "waiting", "oldest_ns", "at_least", "covered_ns"]
    columns = list(rows[0]) if rows else [*by, *own]
    groups = set(columns[: len(columns) - len(own)])

    def kind(name: str) -> pa.DataType:
        if name in groups or name == "at_least":
            return pa.string()
        if name in {"count", "rate_per_s", f"mean_{unit}", "trusted_p"}:
            return pa.float64()
        return pa.bool_() if name == "incomplete" else pa.int64()

    schema = pa.schema([(name, kind(name)) for name in columns])
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except pa.ArrowInvalid:
        floats = {name for name in columns if kind(name) == pa.float64()}
        return pa.Table.from_pylist([fitted(row, floats) for row in rows], schema=schema)


def fitted(row: dict[str, Any], floats: set[str]) -> dict[str, Any]:
    """Return a row with the nearest numbers that its columns can hold: JSON has those of centuries rounded, some beyond 64 bits."""

    def fit(name: str, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        return float(value) if name in floats else min(value, MOST)

    return {name: fit(name, value) for name, value in row.items()}
