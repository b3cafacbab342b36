"""Sections 1 and 2: which rows of a stream count, and which pairs belong to the answer of one query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muntin.model import Axis, Side, Window
from muntin.model.event_time import EARLIEST_US, LATEST_US
from muntin.oracle.own_windows import Untils, end

Row = Mapping[str, Any]
Key = Callable[[Row], Sequence[Any]]
Selection = Callable[[Row], bool | None]
"""A condition on one row; None is SQL's unknown, and the row is not kept."""
Condition = Callable[[Row, Row], bool | None]
"""A condition on the left and the right row of a pair."""


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

    def side(self, side: Side) -> Row:
        return (self.left, self.right)[side]


class Promise(NamedTuple):
    """From `ts` on, and up to `until`, a stream has promised not to send a key; None: any key."""

    key: Sequence[Any] | None
    ts: int
    until: int

    def is_about(self, key: Sequence[Any]) -> bool:
        return same_key(key if self.key is None else self.key, key)


def admit(
    batches: Iterable[Sequence[Row]], lateness_us: int = 0, time: str = "ts"
) -> tuple[list[Row], list[DeadLetter]]:
    """The rows of a stream that count, and its dead letters, for a division of the stream into micro-batches.

    The frontier moves only between micro-batches, so rows of one micro-batch are never late for each other.
    """
    accepted: list[Row] = []
    dead_letters: list[DeadLetter] = []
    frontier: int | None = None
    for batch in batches:
        for row in batch:
            if row[time] is None:
                dead_letters.append(DeadLetter(row, "null_time"))
            elif not EARLIEST_US <= row[time] <= LATEST_US:
                dead_letters.append(DeadLetter(row, "time_range"))
            elif frontier is not None and row[time] < frontier:
                dead_letters.append(DeadLetter(row, "late", frontier))
            else:
                accepted.append(row)
        times = [row[time] for row in batch if row[time] is not None]
        newest = max((ts for ts in times if EARLIEST_US <= ts <= LATEST_US), default=None)
        if newest is not None:
            frontier = newest - lateness_us if frontier is None else max(frontier, newest - lateness_us)
    return accepted, dead_letters


def same_key(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two keys are equal in Spark SQL: NULL equals nothing, NaN equals NaN, -0.0 equals 0.0."""
    pairs = zip(left, right, strict=True)  # nothing but NaN differs from itself
    return all(a is not None and b is not None and bool(a == b or (a != a and b != b)) for a, b in pairs)


def columns(*names: str) -> Key:
    """The key that is nothing but these columns."""
    return lambda row: tuple(row[name] for name in names)


def answer(
    window: Window,
    left_rows: Sequence[Row],
    right_rows: Sequence[Row],
    keys: tuple[Key, Key] | None,
    keeps: tuple[Selection | None, Selection | None] = (None, None),
    times: tuple[str, str] = ("ts", "ts"),
    holds: Condition | None = None,
    promises: tuple[Sequence[Promise], Sequence[Promise]] = ((), ()),
    untils: Untils = (None, None),
) -> list[Pair]:
    """The pairs of one query over *all* accepted rows, in output order; without `keys` there is no equality.

    Rows come in (time, left first, arrival) order. Each row meets every earlier row of the other stream.
    """
    rows = (left_rows, right_rows)
    past: tuple[list[Row], list[Row]] = ([], [])
    found = []
    order = sorted((row[times[side]], side, n) for side in Side for n, row in enumerate(rows[side]))
    for ts, side, n in order:
        row, earlier_rows = rows[side][n], past[side.other]
        for number, earlier in enumerate(earlier_rows):
            earlier_ts = earlier[times[side.other]]
            rows_since = len(earlier_rows) - 1 - number
            age = rows_since if window.axes[side.other] == Axis.ROWS else ts - earlier_ts
            pair = Pair(row, earlier, ts) if side == Side.LEFT else Pair(earlier, row, ts)
            if (
                window.starts[side.other] <= age < window.side(side.other)
                and (ts < end(side.other, earlier, untils) or (ts == earlier_ts and ts < end(side, row, untils)))
                and _match(pair, keys, keeps, holds)
                and not _was_given_up(row, ts, earlier_ts, keys and keys[side], promises[side])
            ):
                found.append(pair)
        past[side].append(row)
    return found


def _match(
    pair: Pair,
    keys: tuple[Key, Key] | None,
    keeps: tuple[Selection | None, Selection | None],
    holds: Condition | None,
) -> bool:
    """Whether the keys are equal, both rows satisfy their selections, and the pair satisfies the condition."""
    equal = keys is None or same_key(keys[0](pair.left), keys[1](pair.right))
    selected = all(keep is None or keep(row) is True for keep, row in zip(keeps, pair[:2], strict=True))
    return equal and selected and (holds is None or holds(pair.left, pair.right) is True)


def _was_given_up(row: Row, ts: int, earlier_ts: int, key: Key | None, promises: Sequence[Promise]) -> bool:
    """Whether the earlier row need not wait for this one: a promise said so, which has lapsed before this row came."""
    return key is not None and any(p.until < ts and earlier_ts <= p.until and p.is_about(key(row)) for p in promises)
