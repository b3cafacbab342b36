"""What a correct answer is, in plain Python: slow, obvious, and the judge of everything else.

A row maps column names to values, with its event time in int microseconds (None: NULL). Keys and selections
come as callables, so that this module needs nothing of the engine. Sections are those of docs/semantics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muntin.model import Window

Row = Mapping[str, Any]
Key = Callable[[Row], Sequence[Any]]
Selection = Callable[[Row], bool | None]  # None is SQL's unknown: the row is not kept


class DeadLetter(NamedTuple):
    """A row that was turned away; `frontier_us` is the one it was too old for, None where its time is NULL."""

    row: Row
    reason: str
    frontier_us: int | None = None


class Pair(NamedTuple):
    """One output row before its SELECT list: the two rows and the output timestamp."""

    left: Row
    right: Row
    ts: int


def admit(
    batches: Iterable[Sequence[Row]], lateness_us: int = 0, time: str = "ts"
) -> tuple[list[Row], list[DeadLetter]]:
    """Section 1: the rows of a stream that count, and the dead letters, over a division into micro-batches.

    The frontier moves only between micro-batches, so rows of one micro-batch are never late for each other.
    """
    accepted: list[Row] = []
    letters: list[DeadLetter] = []
    frontier: int | None = None
    for batch in batches:
        for row in batch:
            if row[time] is None:
                letters.append(DeadLetter(row, "null_time"))
            elif frontier is not None and row[time] < frontier:
                letters.append(DeadLetter(row, "late", frontier))
            else:
                accepted.append(row)
        newest = max((row[time] for row in batch if row[time] is not None), default=None)
        if newest is not None:
            frontier = newest - lateness_us if frontier is None else max(frontier, newest - lateness_us)
    return accepted, letters


def same_key(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Section 1: equality of keys as Spark SQL has it. NULL equals nothing, NaN equals NaN, -0.0 equals 0.0."""
    return all(_equal(a, b) for a, b in zip(left, right, strict=True))


def _equal(a: Any, b: Any) -> bool:
    both_nan = a != a and b != b  # nothing but NaN differs from itself
    return a is not None and b is not None and bool(a == b or both_nan)


def in_window(window: Window, left_us: int, right_us: int) -> bool:
    """Section 2: the earlier row is younger than its own stream's window when the later one comes."""
    return 0 <= right_us - left_us < window.left or 0 <= left_us - right_us < window.right


def columns(*names: str) -> Key:
    """The key that is nothing but these columns."""
    return lambda row: tuple(row[name] for name in names)


def answer(
    window: Window,
    left_rows: Iterable[Row],
    right_rows: Sequence[Row],
    keys: tuple[Key, Key],
    keeps: tuple[Selection | None, Selection | None] = (None, None),
    times: tuple[str, str] = ("ts", "ts"),
) -> list[Pair]:
    """Section 2: the window join of one query over accepted rows, by nested loops, in output order."""
    lefts, rights = (
        [row for row in rows if keep is None or keep(row) is True]
        for rows, keep in zip((left_rows, right_rows), keeps, strict=True)
    )
    found = [
        Pair(a, b, max(a[times[0]], b[times[1]]))
        for a in lefts
        for b in rights
        if same_key(keys[0](a), keys[1](b)) and in_window(window, a[times[0]], b[times[1]])
    ]
    return sorted(found, key=lambda pair: pair.ts)
