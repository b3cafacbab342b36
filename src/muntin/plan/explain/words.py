"""Numbers and lists as EXPLAIN writes them: what there are many of is listed up to a limit, then counted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from muntin.model import Axis
from muntin.model.duration import format_us

LISTED = 6
"""Names, windows and selections in one line, joins of one plan: listed up to this many, then counted."""
LINES = 20
"""Queries of a join and slices of a state: listed up to this many,"""
FIRST, LAST = 10, 2
"""beyond it only so many from the young end and from the old one."""
SEVERAL = re.compile(r"\s(AND|OR)\s", re.IGNORECASE)
RANGE = re.compile(r"BETWEEN\s+\S+\s+AND", re.IGNORECASE)
DECIDED = {
    "auto": ", chosen by auto",
    "set": ", as set",
    "checkpoint": ", with which the checkpoint was begun",
    None: "",
}
"""Who chose, in words."""


def any_of(selections: Sequence[str]) -> str:
    """One selection or another."""
    return listed(_grouped(selections) if len(selections) > 1 else selections, " OR ")


def _grouped(selections: Sequence[str]) -> list[str]:
    """Selections in parentheses where they are more than one comparison."""
    return [f"({s})" if SEVERAL.search(RANGE.sub("", s)) and s[:1] + s[-1:] != "()" else s for s in selections]


def place(at: int, axis: str) -> str:
    """A place on an axis; a bound that is included ends a microsecond later."""
    if axis == Axis.ROWS:
        return count(at, "row")
    return f"{format_us(at - 1)} + 1 us" if at % 1000 == 1 and at > 1 else format_us(at)


def count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def listed(names: Sequence[str], joined: str = ", ") -> str:
    shown, more = joined.join(names[:LISTED]), len(names) - LISTED
    return f"{shown}{' and ' if joined == ', ' else joined}{more:,} more" if more > 0 else shown


def rounded(rows: float) -> str:
    return "<1" if 0 < rows < 1 else f"{rows:,.0f}"


def row_count(rows: float) -> str:
    return f"{rounded(rows)} {'row' if rows <= 1 else 'rows'}"


def number(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(fraction: float) -> str:
    return f"{fraction:.0%}" if fraction >= 0.1 else f"{100 * fraction:.2g}%"


def byte_size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.4g} TB"
