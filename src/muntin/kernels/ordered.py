"""Rows in order of a value, for joins without an equality: a probe looks at a range of values, not at every row.

What it **is**: for each side a few *runs*, from old to new. A run has the rows of a stretch of places on the side's
axis, sorted by their values:

    places    |--------- run 0 ---------|------ run 1 ------|-- run 2 --|- run 3 -|
    values      -7 -2 0 3 3 8 9 12 40     -1 0 4 5 9 33       2 3 7 50    6 8

A row bisects each run for the least value that it wants, and goes on up to the greatest: what it looks at follows what
lies in the range. New rows come as a run of their own; two neighbours become one when the newer has half the size of
the older, so that each row is moved O(log n) times and there are O(log n) runs. No run grows beyond a part of the
side: a run leaves as a whole when its newest row is stale, and until then its stale rows are passed by.

Each side lies in three arrays: the table of runs, the values, and the entries of `kernels.index`. Runs follow each
other there, perhaps with gaps. Nothing but `merge` allocates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.arrays import Floats, Int64s
from muntin.kernels.compiled import inlined, kernel, kernel_in_place
from muntin.kernels.index import CLASS_MASK
from muntin.kernels.join import COMPARISONS, DONE, NEED_OUTPUT, PROBES, ROUTED
from muntin.kernels.probe import Prober, horizon_of, is_wanted, put_pair, window_of

START, COUNT, FIRST, LAST = 0, 1, 2, 3
"""Where the table says of a run: where it begins, its rows, and the first and the last place of one of them."""
MOST_RUNS = 64
"""Of a side."""


class Ordered(NamedTuple):
    """The rows of one side. `runs[0, 0]` is how many runs there are, the others are behind it."""

    runs: Int64s
    values: Floats
    entries: Int64s


class Wanted(NamedTuple):
    """What the rows that probe want: values from `low` to `high`, and for each run where `low` would be.

    A row with NaN for its `low` wants nothing. `since[side]` are the numbers, within the rows that probe, of those in
    the newest run: a row meets only those before it. Empty where none of them are there.
    """

    low: Floats
    high: Floats
    starts: Int64s
    since: tuple[Int64s, Int64s]


def ordered_layout(room: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of one side with room for so many rows, in the order of `Ordered`."""
    return [((MOST_RUNS + 1, 4), "int64"), ((room,), "float64"), ((room, 2), "int64")]


@inlined
def _place_from(values, at, end, low):
    """The first place from `at` on with a value that is not less than `low`: in steps that double, then by halves."""
    step = 1
    while at + step < end and values[at + step] < low:
        at += step
        step *= 2
    end = min(end, at + step)
    while at < end:
        middle = (at + end) >> 1
        if values[middle] < low:
            at = middle + 1
        else:
            end = middle
    return at


@kernel_in_place
def locate(runs, values, low, rows, starts):
    """Where in each run the least value would be that each row wants; `rows` are in order of that value."""
    for run in range(runs[0, 0]):
        at, end = runs[run + 1, START], runs[run + 1, START] + runs[run + 1, COUNT]
        for row in rows:
            at = _place_from(values, at, end, low[row])
            starts[row, run] = at


@inlined
def _meet(ordered, run, since, ages, wanted, row, prober, slicing, out, found):
    """Find the partners of one row in one run.

    Returns partners looked at and how many pairs there are now, -1 where there is no room for them.
    """
    side, own, other, horizon = prober.side, prober.cls, 1 - prober.side, slicing.horizon
    tabled, (low, limit) = horizon.shape[1] > 0, ages
    start, high, compared = ordered.runs[run + 1, START], wanted.high[row], 0
    end = start + ordered.runs[run + 1, COUNT]
    at = wanted.starts[row, run]
    while at < end and ordered.values[at] <= high:
        age, partner = prober.reached - ordered.entries[at, 0], ordered.entries[at, 1]
        compared += 1
        at += 1
        if age < low or age >= limit or (len(since) > 0 and since[at - 1 - start] >= row):
            continue
        theirs = partner & CLASS_MASK
        if tabled and age >= horizon_of(horizon, other, side, own, theirs):
            continue
        window = window_of(slicing, other, age)
        if not tabled and not is_wanted(slicing.routes, other, side, own, theirs, window):
            continue
        if found == len(out.ts):
            return compared, np.int64(-1)
        put_pair(out, found, prober, partner, prober.ts, 2 * window + other)
        found += 1
    return compared, found


@kernel_in_place
def probe_ordered(left, right, rows, wanted, slicing, scan, cursor, out, counts):
    """Find the partners of rows among those in order; returns DONE, or NEED_OUTPUT before a row that lacks room.

    `cursor` = rows done and pairs found so far; calling again goes on from there. `slicing`, `scan`, `out` and `counts`
    are what `kernels.join` says. Rows come in time order, and so do the pairs.
    """
    n, found, need = cursor[0], cursor[1], DONE
    while n < len(rows.ts):
        side = np.int64(rows.side[n])
        other, cls, reached = 1 - side, np.int64(rows.cls[n]), rows.now[n]
        limit = min(slicing.reach[side, cls], scan.ages[other, 1])
        low = max(slicing.begin[side, cls], scan.ages[other, 0])
        before, compared = found, np.int64(0)
        if low < limit and wanted.low[n] <= wanted.high[n]:
            ordered, fresh = (left, wanted.since[0]) if other == 0 else (right, wanted.since[1])
            prober, runs = Prober(side, cls, rows.row[n], rows.ts[n], reached), ordered.runs
            for run in range(runs[0, 0]):
                if reached - runs[run + 1, FIRST] < low or reached - runs[run + 1, LAST] >= limit:
                    continue
                since = fresh if run == runs[0, 0] - 1 else fresh[:0]
                looked, found = _meet(ordered, run, since, (low, limit), wanted, n, prober, slicing, out, found)
                compared += looked
                if found < 0:
                    break
        if found < 0:
            found, need = before, NEED_OUTPUT
            break
        counts[PROBES] += 1
        counts[COMPARISONS] += compared
        counts[ROUTED] += found - before
        n += 1
    cursor[0], cursor[1] = n, found
    return need


@kernel
def merge(ordered, run, now, keep):
    """Make one run of a run and the next one, without the rows that are stale; `keep[class]` is how long rows stay."""
    runs, values, entries = ordered
    start, count, after, more = runs[run + 1, START], runs[run + 1, COUNT], runs[run + 2, START], runs[run + 2, COUNT]
    own, rows = values[start : start + count].copy(), entries[start : start + count].copy()
    a, b, to = 0, 0, start
    while a < count or b < more:
        if b == more or (a < count and own[a] <= values[after + b]):
            value, place, row = own[a], rows[a, 0], rows[a, 1]
            a += 1
        else:
            value, place, row = values[after + b], entries[after + b, 0], entries[after + b, 1]
            b += 1
        if now - place < keep[row & CLASS_MASK]:
            values[to], entries[to, 0], entries[to, 1] = value, place, row
            to += 1
    runs[run + 1, COUNT] = to - start
    runs[run + 1, LAST] = runs[run + 2, LAST]
    for n in range(run + 2, runs[0, 0]):
        runs[n] = runs[n + 1]
    runs[0, 0] -= 1


@kernel_in_place
def close_up(ordered, now, keep):
    """Take stale rows out of all runs, and move the runs together to the beginning; how many rows there are."""
    runs, values, entries = ordered
    to, kept = np.int64(0), np.int64(0)
    for run in range(runs[0, 0]):
        start, end, begin = runs[run + 1, START], runs[run + 1, START] + runs[run + 1, COUNT], to
        for at in range(start, end):
            if now - entries[at, 0] < keep[entries[at, 1] & CLASS_MASK]:
                values[to], entries[to, 0], entries[to, 1] = values[at], entries[at, 0], entries[at, 1]
                to += 1
        if to > begin:
            first, last = runs[run + 1, FIRST], runs[run + 1, LAST]
            kept += 1
            runs[kept, START], runs[kept, COUNT], runs[kept, FIRST], runs[kept, LAST] = begin, to - begin, first, last
    runs[0, 0] = kept
    return to
