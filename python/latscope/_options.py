"""Dictionaries that the native half takes."""

from __future__ import annotations

from typing import TypedDict


class Fold(TypedDict):
    """How events become histograms."""

    interval_ns: int | None
    by: list[str]
    quantity: str
    weight: str
    precision: int | None
    completed_only: bool


class Options(TypedDict):
    """How files are read."""

    filter: str | None
    format: str | None
    source: str | None
    latency: str
    unitstime: str | None
    unitslat: str | None
    log_columns: list[str] | None
    lenient: bool
    correct_omission_ns: int | None
    offsets: str | None
    align_starts: bool
    tag_file: str | None
    tag: str | None


class Stacks(TypedDict):
    """How stacks are shown."""

    by: list[str]
    width: str | None
    against: str | None
    top: int
    full: bool


class Flamegraph(TypedDict):
    """How a flame graph looks."""

    title: str | None
    pixels: int
    icicle: bool
    color: str
    min_share: float
    dark: bool | None
