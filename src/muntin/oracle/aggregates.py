"""Section 7: what a query shows of its groups, over the pairs that are live at an instant or over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from muntin.model import Side, Window
from muntin.oracle.join import Pair
from muntin.oracle.own_windows import Untils, end


def aggregate(
    window: Window,
    pairs: Sequence[Pair],
    group: Callable[[Pair], Any],
    values: Callable[[list[Pair]], Any],
    shows: Callable[[Any], bool] = lambda values: True,
    every: int | None = None,
    times: tuple[str, str] = ("ts", "ts"),
    untils: Untils = (None, None),
) -> list[tuple[int, Any, Any]]:
    """(instant, group, values) wherever a group's values change, or for each group with live pairs at each `every`.

    `values` makes of a group's live pairs, perhaps none, what the query selects; `shows` is its HAVING.
    """
    ends = [
        [min(p.side(side)[times[side]] + window.side(side), end(side, p.side(side), untils)) for side in Side]
        for p in pairs
    ]
    spans = [(p, p.ts, int(min(both))) for p, both in zip(pairs, ends, strict=True)]
    instants, found = sorted({t for _, *both in spans for t in both}), []
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
    """Makes of live pairs the `limit` first of them by an order, then by what is selected of each."""

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
    """(time, group, values) once for each group, over all its pairs, when its key is over.

    `ends` are the times at which the key of a pair is over, if it ever is, and `end` is the end of the streams. A key
    that comes again later begins a new group.
    """
    lives: dict[Any, list[Pair]] = {}
    for pair in pairs:
        over = min((at for at in ends(pair) if at >= pair.ts), default=end)
        lives.setdefault((min(over, end), group(pair)), []).append(pair)
    rows = [(at, g, values(members)) for (at, g), members in lives.items()]
    return [row for row in rows if shows(row[2])]
