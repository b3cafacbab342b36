"""What a correct answer is, in plain Python: slow, obvious, and the judge of everything else.

A row maps column names to values, with its event time in int microseconds (None: NULL). Keys, selections and
conditions come as callables, so that this module needs nothing of the engine. Sections are those of docs/semantics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muntin.model import Axis, Side, Window
from muntin.model.event_time import EARLIEST_US, LATEST_US

Row = Mapping[str, Any]
Key = Callable[[Row], Sequence[Any]]
Selection = Callable[[Row], bool | None]  # None is SQL's unknown: the row is not kept
Condition = Callable[[Row, Row], bool | None]  # over the left and the right row of a pair


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
            elif not EARLIEST_US <= row[time] <= LATEST_US:
                letters.append(DeadLetter(row, "time_range"))
            elif frontier is not None and row[time] < frontier:
                letters.append(DeadLetter(row, "late", frontier))
            else:
                accepted.append(row)
        times = [row[time] for row in batch if row[time] is not None]
        newest = max((ts for ts in times if EARLIEST_US <= ts <= LATEST_US), default=None)
        if newest is not None:
            frontier = newest - lateness_us if frontier is None else max(frontier, newest - lateness_us)
    return accepted, letters


def same_key(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Section 1: equality of keys as Spark SQL has it. NULL equals nothing, NaN equals NaN, -0.0 equals 0.0."""
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
) -> list[Pair]:
    """Section 2: the window join of one query over *all* accepted rows, in output order; no `keys`, no equality.

    Rows come in (time, left first, arrival) order. Each meets the earlier rows of the other stream that are younger
    than its window; a row's age is in microseconds, or in rows of its stream that came after it, whatever they are.
    What comes after a promise of its stream has lapsed meets none of the rows that the promise told not to wait for it.
    """
    rows, past, found = (left_rows, right_rows), ([], []), []  # type: ignore[var-annotated]
    order = sorted((row[times[side]], side, n) for side in Side for n, row in enumerate(rows[side]))
    for ts, side, n in order:
        row, others, counted = rows[side][n], past[side.other], window.axes[side.other] == Axis.ROWS
        for number, earlier in enumerate(others):
            age = len(others) - 1 - number if counted else ts - earlier[times[side.other]]
            a, b = (row, earlier) if side == Side.LEFT else (earlier, row)
            same = age < window.side(side.other) and (keys is None or same_key(keys[0](a), keys[1](b)))
            kept = same and all(keep is None or keep(r) is True for keep, r in zip(keeps, (a, b), strict=True))
            met = earlier[times[side.other]]
            waits = not any(met <= p.until < ts and keys and same_key(p.key, keys[side](row)) for p in promises[side])
            if kept and waits and (holds is None or holds(a, b) is True):
                found.append(Pair(a, b, ts))
        past[side].append(row)
    return found


def aggregate(
    window: Window,
    pairs: Sequence[Pair],
    group: Callable[[Pair], Any],
    values: Callable[[list[Pair]], Any],
    shows: Callable[[Any], bool] = lambda values: True,
    every: int | None = None,
    times: tuple[str, str] = ("ts", "ts"),
) -> list[tuple[int, Any, Any]]:
    """Section 7: (instant, group, values) wherever a group's values change, or for those with pairs at each `every`.

    `values` makes of a group's live pairs, perhaps none, what the query selects; `shows` is its HAVING.
    """
    spans = [(p, p.ts, min(p.left[times[0]] + window.left, p.right[times[1]] + window.right)) for p in pairs]
    instants, found = sorted({t for _, *ends in spans for t in ends}), []
    if every and instants:
        instants = list(range(-(-instants[0] // every) * every, instants[-1], every))
    for t in instants:
        for g in dict.fromkeys(map(group, pairs)):
            before, now = ([p for p, lo, hi in spans if lo <= at < hi and group(p) == g] for at in (t - 1, t))
            was, is_ = values(before), values(now)
            appears = bool(now) and bool(every or not before or not shows(was))
            if shows(is_) and (appears or (not every and was != is_)):
                found.append((t, g, is_))
    return found


class By(NamedTuple):
    """One part of an order: a value of the pair, which way, and where its NULLs come."""

    value: Callable[[Pair], Any]
    descending: bool = False
    nulls_first: bool = True


def first(limit: int, order: Sequence[By], columns: Sequence[Callable[[Pair], Any]]) -> Callable[[list[Pair]], Any]:
    """Section 7: makes of live pairs the `limit` first of them by an order, then by what is selected of each."""

    def values(pairs: list[Pair]) -> list[tuple[Any, ...]]:
        rows = list(pairs)
        for by in reversed([*order, *(By(column) for column in columns)]):  # stable sorts, the last first
            known = [p for p in rows if by.value(p) is not None]
            unknown = [p for p in rows if by.value(p) is None]
            known.sort(key=by.value, reverse=by.descending)
            rows = [*unknown, *known] if by.nulls_first else [*known, *unknown]
        return [tuple(column(p) for column in columns) for p in rows[:limit]]

    return values


def final(
    pairs: Sequence[Pair],
    group: Callable[[Pair], Any],
    values: Callable[[list[Pair]], Any],
    ends: Callable[[Pair], Sequence[int]],
    end: int,
    shows: Callable[[Any], bool] = lambda values: True,
) -> list[tuple[int, Any, Any]]:
    """Section 7: (time, group, values) once for each group, over all its pairs, when its key is over.

    `ends` are the times at which the key of a pair is over, if it ever is, and `end` is the end of the streams. A key
    that comes again later begins a new group.
    """
    lives: dict[Any, list[Pair]] = {}
    for pair in pairs:
        over = min((at for at in ends(pair) if at >= pair.ts), default=end)
        lives.setdefault((min(over, end), group(pair)), []).append(pair)
    found = [(at, g, values(members)) for (at, g), members in lives.items()]
    return [told for told in found if shows(told[2])]


class Promise(NamedTuple):
    """From `ts` on, and up to `until`, a stream has promised not to send a key."""

    key: Sequence[Any]
    ts: int
    until: int


def promised(
    rows: Sequence[Row], marks: Sequence[Row], key: Key, binding_us: int, unique: bool = False, time: str = "ts"
) -> tuple[list[Row], list[Row], list[Promise]]:
    """Section 6: the rows of a stream that count, those that broke a promise, and the promises.

    Rows come in (time, arrival) order, punctuations (`marks`) after all rows of their time; with `unique` each row is
    one as well, at once. A punctuation for a key that is promised already makes that promise bind longer.
    """
    kept: list[Row] = []
    broken: list[Row] = []
    promises: list[Promise] = []
    events = [(row[time], 0, n, row) for n, row in enumerate(rows)] + [(m[time], 1, n, m) for n, m in enumerate(marks)]
    for ts, is_mark, _, row in sorted(events, key=lambda event: event[:3]):
        mine = [n for n, p in enumerate(promises) if same_key(p.key, key(row)) and ts <= p.until]
        if is_mark and mine:
            promises[mine[0]] = promises[mine[0]]._replace(until=ts + binding_us)
        elif any(unique or promises[n].ts < ts for n in mine):
            broken.append(row)
        else:
            if not is_mark:
                kept.append(row)
            if (is_mark or unique) and not mine and same_key(key(row), key(row)):
                promises.append(Promise(key(row), ts, ts + binding_us))
    return kept, broken, promises


def ends(
    window: Window,
    key: Sequence[Any],
    rows: tuple[Sequence[Row], Sequence[Row]],
    keys: tuple[Key, Key],
    promises: tuple[Sequence[Promise], Sequence[Promise]],
    keeps: tuple[Selection | None, Selection | None] = (None, None),
    times: tuple[str, str] = ("ts", "ts"),
) -> list[int]:
    """Section 6: when a query's output is over for a key: both streams have promised it, or one has, and its last row
    with the key has left its window. Of two promises that hold together the first one counts."""
    found = []
    mine = [[p for p in promises[side] if same_key(p.key, key)] for side in Side]
    for side in Side:
        others, keep = mine[side.other], keeps[side]
        for promise in mine[side]:
            if any(p.ts <= promise.ts <= p.until and (p.ts < promise.ts or side == Side.RIGHT) for p in others):
                continue
            wanted = [r for r in rows[side] if same_key(keys[side](r), key) and (keep is None or keep(r) is True)]
            last = [r[times[side]] + window.side(side) - 1 for r in wanted if r[times[side]] <= promise.ts]
            both = [p.ts for p in others if promise.ts <= p.ts <= promise.until]
            found.append(min([max([promise.ts, *last]), *both]))
    return sorted(found)
