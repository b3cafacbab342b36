"""Section 6: what a stream promises, which rows break a promise, and when the output is over for a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muntin.model import JoinKind, Side, Window
from muntin.oracle.join import Key, Promise, Row, Selection, same_key
from muntin.oracle.outer import given_up
from muntin.oracle.own_windows import Untils, end

FOREVER = 1 << 62
"""Later than any event time."""


def promised(
    rows: Sequence[Row],
    marks: Sequence[Row],
    key: Key,
    binding_us: int,
    unique: bool = False,
    time: str = "ts",
    every: bool = False,
) -> tuple[list[Row], list[Row], list[Promise]]:
    """The rows of a stream that count, those that broke a promise, and the promises.

    Rows come in (time, arrival) order, punctuations (`marks`) after all rows of their time. With `unique` each row
    is a promise as well, at once. With `every` punctuations are about any key. A punctuation for what is promised
    already makes that promise bind longer.
    """
    kept: list[Row] = []
    broken: list[Row] = []
    promises: list[Promise] = []
    events = [(row[time], 0, n, row) for n, row in enumerate(rows)] + [(m[time], 1, n, m) for n, m in enumerate(marks)]
    for ts, is_mark, _, row in sorted(events, key=lambda event: event[:3]):
        if is_mark and every:
            mine = [n for n, p in enumerate(promises) if p.key is None and ts <= p.until]
        else:
            mine = [n for n, p in enumerate(promises) if p.is_about(key(row)) and ts <= p.until]
        if is_mark and mine:
            promises[mine[0]] = promises[mine[0]]._replace(until=ts + binding_us)
        elif any(unique or promises[n].ts < ts for n in mine):
            broken.append(row)
        else:
            if not is_mark:
                kept.append(row)
            if is_mark and every:
                promises.append(Promise(None, ts, ts + binding_us))
            elif (is_mark or unique) and not mine and same_key(key(row), key(row)):
                promises.append(Promise(key(row), ts, ts + binding_us))
    return kept, broken, promises


def admit_both(
    batches: Sequence[tuple[Sequence[Row], Sequence[Row]]],
    lateness_us: int,
    ends_stream: tuple[Selection | None, Selection | None],
    time: str = "ts",
) -> tuple[list[Row], list[Row]]:
    """The rows of two joined streams that are not late, where punctuations about every key may end a stream.

    `ends_stream` says which rows of a side are such. While no row of its stream is later than one of them, the stream
    is idle: its frontier is at least that of the other one. They are taken to bind for longer than the streams last.
    """
    accepted: tuple[list[Row], list[Row]] = ([], [])
    own, floor = [-FOREVER, -FOREVER], [-FOREVER, -FOREVER]
    newest, last_word, idle = [-FOREVER, -FOREVER], [-FOREVER, -FOREVER], [False, False]
    for batch in batches:
        for side in Side:
            on_time = [row for row in batch[side] if row[time] >= max(own[side], floor[side])]
            accepted[side].extend(on_time)
            is_end = ends_stream[side]
            last_word[side] = max([last_word[side], *(r[time] for r in on_time if is_end and is_end(r) is True)])
            newest[side] = max([newest[side], *(row[time] for row in batch[side])])
            own[side] = newest[side] - lateness_us
            idle[side] = newest[side] <= last_word[side] if batch[side] else idle[side]
        for side in Side:
            floor[side] = max(floor[side], own[side.other]) if idle[side] else floor[side]
    return accepted


def ends(
    window: Window,
    key: Sequence[Any],
    rows: tuple[Sequence[Row], Sequence[Row]],
    keys: tuple[Key, Key],
    promises: tuple[Sequence[Promise], Sequence[Promise]],
    keeps: tuple[Selection | None, Selection | None] = (None, None),
    times: tuple[str, str] = ("ts", "ts"),
    kind: JoinKind = JoinKind.PAIRS,
    preserved: Sequence[Side] = (),
    untils: Untils = (None, None),
) -> list[int]:
    """The times at which a query's output is over for a key.

    Both streams have promised the key, or one has, and its last row with the key has left its window. Of two
    promises that hold together the first one counts. Where rows go out that have no match, their streams have
    promised the key, and a row of the time of the promise would have gone out.
    """
    found = []
    mine = [[p for p in promises[side] if p.is_about(key)] for side in Side]
    if len(preserved) == 1:
        return sorted(given_up(promise.ts, window, preserved[0], kind) for promise in mine[preserved[0]])
    for side in Side:
        others, keep = mine[side.other], keeps[side]
        for promise in mine[side]:
            held = [p for p in others if p.ts <= promise.ts <= p.until and (p.ts < promise.ts or side == Side.RIGHT)]
            if preserved:
                told = given_up(promise.ts, window, side, kind)
                found += [max(told, given_up(p.ts, window, side.other, kind)) for p in held]
            elif not held:
                wanted = [r for r in rows[side] if same_key(keys[side](r), key) and (keep is None or keep(r) is True)]
                before = [(r[times[side]], end(side, r, untils)) for r in wanted if r[times[side]] <= promise.ts]
                last = [given_up(ts, window, side, JoinKind.PAIRS, until) - 1 for ts, until in before]
                both = [p.ts for p in others if promise.ts <= p.ts <= promise.until]
                found.append(min([max([promise.ts, *last]), *both]))
    return sorted(found)
