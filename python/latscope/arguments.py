"""What users give, as the native half takes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from latscope._native import UsageError, duration_ns

if TYPE_CHECKING:
    from latscope._native import Fold

Duration: TypeAlias = "str | timedelta | np.timedelta64"
"""A length of time: ``"10ms"``, or an object that has its unit."""


_TEXTS = {
    "against": "size > 64k",
    "filter": "lat > 1ms",
    "format": "perf_script",
    "palette": "viridis",
    "quantity": "latency",
    "selection": "lat > 10ms",
    "source": "block",
    "title": "The disk of the database",
    "weight": "bytes",
}
"""What is a text, with an example."""
_NUMBERS = {
    "height": (100, 4000),
    "precision": (1, 64),
    "rounds": (100, 100_000),
    "seed": (0, 2**64 - 1),
    "top": (0, 2**32 - 1),
    "width": (200, 4000),
}
"""What is a whole number, with its bounds."""
_OPTIONAL = {"against", "dark", "filter", "format", "precision", "selection", "title"}


def check(**given: Any) -> None:
    """Raise what to give instead of a value that is of another type or out of its bounds."""
    for name, value in given.items():
        if value is None and name in _OPTIONAL:
            continue
        if name in _TEXTS:
            fits, wanted = isinstance(value, str), f'a text such as "{_TEXTS[name]}"'
        elif name in _NUMBERS:
            least, most = _NUMBERS[name]
            fits = isinstance(value, Integral) and least <= int(value) <= most
            wanted = f"a whole number from {least} to {most}"
        else:
            fits, wanted = isinstance(value, (bool, np.bool_)), "True or False"
        if not fits:
            message = f"{name}={value!r}: give {wanted}."
            raise UsageError(message)


def nanoseconds(duration: Duration | None) -> int | None:
    """Return the length of time in nanoseconds."""
    match duration:
        case None:
            return None
        case str():
            return duration_ns(duration)
        case timedelta():
            length = ((duration.days * 86400 + duration.seconds) * 1_000_000 + duration.microseconds) * 1000
        case np.timedelta64():
            length = int(duration.astype("timedelta64[ns]").astype(np.int64))
        case _:
            message = f'{duration!r} is not a length of time; give it as a text with a unit, such as "10ms" or "5s".'
            raise UsageError(message)
    if not 0 <= length < 2**63:
        message = f"A length of time from 0 to 292 years is needed, not {duration}."
        raise UsageError(message)
    return length


def names(fields: str | Iterable[str] | None) -> list[str]:
    """Return names of fields, of which one may stand alone."""
    if fields is None:
        return []
    if isinstance(fields, str):
        return fields.split(",")
    each = list(fields) if isinstance(fields, Iterable) else []
    if not isinstance(fields, Iterable) or not all(isinstance(name, str) for name in each):
        message = f'{fields!r} are no names of fields; for example, use ["device", "host"].'
        raise UsageError(message)
    return each


def percents(percentiles: float | Iterable[float]) -> list[float]:
    """Return percentiles, of which one may stand alone."""
    try:
        return [float(percentiles)] if isinstance(percentiles, (int, float)) else [float(each) for each in percentiles]
    except (TypeError, ValueError):
        message = f"{percentiles!r} are no percentiles; for example, use [50, 99, 99.9]."
        raise UsageError(message) from None


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
        "interval_ns": nanoseconds(interval),
        "by": names(by),
        "quantity": quantity,
        "weight": weight,
        "precision": precision,
        "completed_only": completed_only,
    }


def rows(lines: str) -> list[dict[str, Any]]:
    """Return JSON lines as rows."""
    return [json.loads(line) for line in lines.splitlines()]
