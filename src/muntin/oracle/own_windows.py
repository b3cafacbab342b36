"""Section 2: rows that wait until a time of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muntin.model import Side

Until = Callable[[Mapping[str, Any]], int | None]
"""A time of a row's own, until when it waits; None is SQL's NULL: then it waits for its window."""
Untils = tuple[Until | None, Until | None]


def end(side: Side, row: Mapping[str, Any], untils: Untils) -> float:
    """The time of its own until when a row waits; without end where it has none."""
    until = untils[side]
    at = None if until is None else until(row)
    return float("inf") if at is None else at
