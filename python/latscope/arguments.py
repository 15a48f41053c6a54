"""What users give, as the native half takes it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from latscope._native import UsageError, duration_ns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from latscope._native import Fold

Duration: TypeAlias = "str | timedelta | np.timedelta64"
"""A length of time: ``"10ms"``, or an object that has its unit."""


def nanoseconds(duration: Duration | None) -> int | None:
    """Return the length of time in nanoseconds."""
    match duration:
        case None:
            return None
        case str():
            return duration_ns(duration)
        case timedelta():
            return ((duration.days * 86400 + duration.seconds) * 1_000_000 + duration.microseconds) * 1000
        case np.timedelta64():
            return int(duration.astype("timedelta64[ns]").astype(np.int64))
    message = f'{duration!r} needs a unit: "{duration}ms" or "{duration}s".'
    raise UsageError(message)


def names(fields: str | Iterable[str] | None) -> list[str]:
    """Return names of fields, of which one may stand alone."""
    if fields is None:
        return []
    return fields.split(",") if isinstance(fields, str) else list(fields)


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
