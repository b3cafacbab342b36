"""Promises by key: hash tables beside the index, and the walk that holds rows against them (ding2004 4.2, 4.4).

What a table **is**, for one side: for each key that the side has promised not to send any more, one entry

    tp, until   rows of this side with  tp < ts <= until  break the promise;
                rows of the other side with such a time wait for nobody: they probe and are not stored
    over        rows of the other side after it cannot even find a partner (the flag `propagated` of ding2004 4.4)
    number      of the promise, by which its key's values are found; -2 - number if it is *quiet*: one that was made of
                a range, for a key that had no row then, so that the output says nothing of it

Rows and promises are walked in order of event time, a promise after all rows of its time: what comes out does not
depend on how the input was cut. A job without promises has no tables and never comes here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.arrays import Int64s, UInt8s
from muntin.kernels.compiled import inlined, kernel, kernel_in_place
from muntin.kernels.hash_table import find_entry, find_place, table_size
from muntin.kernels.index import (
    CLASS_BITS,
    CLASS_MASK,
    HEAD,
    OFF,
    SLOTS,
    count_of,
    drop_if_empty,
    drop_oldest,
    mask_of,
)

TP, UNTIL, OVER, NUMBER = 0, 1, 2, 3
NONE = -(1 << 62)
"""No time: earlier than any."""
FREE = NONE
"""What an unused entry has for its `tp`."""
LEFT_ROW, RIGHT_ROW, MARK = 0, 1, 2
"""Kinds of events: rows by side, and the promises that come as rows of their own."""
PASSES, BROKEN, COVERED, SILENT, FRESH, STALE = 0, 1, 2, 3, 4, 5
"""What becomes of an event. A row: joined and stored, turned away, joined but not stored, not even joined. A promise:
new, or one that was in force already."""


class Table(NamedTuple):
    """Open addressing; a power of two of entries, at most half of them used. `used[0]` counts them."""

    used: Int64s
    keys: Int64s
    info: Int64s


def table_layout(entries: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of a table with room for so many promises, in the order of `Table`."""
    size = table_size(entries)
    return [((1,), "int64"), ((size, 2), "int64"), ((size, 4), "int64")]


def clear_table(table: Table) -> None:
    """Make zeroed arrays a table without promises."""
    table.info[:, TP] = FREE


class PromiseEvents(NamedTuple):
    """Rows and promises in order of (event time, kind); `until` and `number` are of promises only."""

    side: UInt8s
    kind: UInt8s
    ts: Int64s
    h1: Int64s
    h2: Int64s
    until: Int64s
    number: Int64s


class Outcome(NamedTuple):
    """What becomes of each event, and of each new promise: its number, the time of the last row of its own side and
    key that some query still wants, the number of the other side's promise for the same key (NONE: there is none), and
    the time of that promise."""

    fate: UInt8s
    number: Int64s
    last: Int64s
    partner: Int64s
    other: Int64s


@inlined
def _find(keys, info, h1, h2):
    """Where the key is, or the free place where it belongs."""
    return find_entry(keys, info, FREE, h1, h2)


@inlined
def _replace_recent(recent, side, h1, h2, event):
    """Make an event the last wanted one of its key and side; the one before it, -1 where there is none."""
    keys, info = recent.keys, recent.info
    at = _find(keys, info, h1, h2)
    if info[at, TP] == FREE:
        keys[at, 0], keys[at, 1] = h1, h2
        info[at, UNTIL], info[at, OVER] = -1, -1
        info[at, TP] = 0
    before = info[at, UNTIL + side]
    info[at, UNTIL + side] = event
    return before


@inlined
def _last_kept(index, side, h1, h2, ts, timed, keep):
    """The time of the last row of a key in the index that is still wanted at `ts`; NONE where there is none."""
    _, table, slots, slab = index
    slot = np.int64(table[find_place(table, slots, h1, h2)])
    back = count_of(slots, slot, side) if slot >= 0 else np.int64(0)
    while back > 0:
        back -= 1
        at = slots[slot, HEAD + side] + back
        entry = slots[slot, OFF + side] + (at & mask_of(slots, slot, side))
        if not timed or slab[entry, 0] + keep[side, slab[entry, 1] & CLASS_MASK] > ts:
            return slab[entry, 0]
    return np.int64(NONE)


@kernel_in_place
def walk(left, right, index, events, stay, keep, unique, binding, timed, numbers, recent, before, out):
    """Hold each event against the tables, in order, and enter the promises; the tables must have room.

    `stay`: for how long each row is wanted, 0 where it is not; `keep[side, class]` says the same of rows in the index.
    `unique[side]`: each row of the side promises that its key is over, from now on, for `binding[side]`; it gets the
    next of `numbers[side]`. `timed[side]`: places in the index are event times. `recent` is an empty table that leads
    to the last wanted event of each key and side in this run, `before[event]` to the one before it, where promises ask
    for the last row of their key that is still wanted; the index has the rows before this run. All fates are `PASSES`.
    """
    used = (left.used, right.used)
    keys, info = (left.keys, right.keys), (left.info, right.info)
    sides, kinds, times, h1s, h2s, untils, given = events
    fates, made, lasts, partners, others = out
    for n in range(len(times)):
        side, other, ts, h1, h2 = np.int64(sides[n]), 1 - np.int64(sides[n]), times[n], h1s[n], h2s[n]
        if h1 == side + 1 and h2 == side + 1:  # a row without a key: it promises nothing, and passes
            continue
        mine = _find(keys[side], info[side], h1, h2)
        theirs = _find(keys[other], info[other], h1, h2)
        until, number, is_row = untils[n], given[n], kinds[n] != MARK
        if is_row:
            tp = info[side][mine, TP]
            if tp != FREE and tp + 1 - unique[side] <= ts <= info[side][mine, UNTIL]:
                fates[n] = BROKEN
                continue
            tp = info[other][theirs, TP]
            if tp != FREE and tp + 1 - unique[other] <= ts <= info[other][theirs, UNTIL]:
                fates[n] = SILENT if ts > info[other][theirs, OVER] else COVERED
            if stay[n] > 0 and len(recent.keys) > 2:
                before[n] = _replace_recent(recent, side, h1, h2, n)
            if not unique[side]:
                continue
            until, number = ts + binding[side], numbers[side]
            numbers[side] += 1
        elif info[side][mine, TP] != FREE and ts <= info[side][mine, UNTIL]:
            info[side][mine, UNTIL] = max(info[side][mine, UNTIL], until)
            fates[n] = STALE
            continue
        else:
            fates[n] = FRESH
        if info[side][mine, TP] == FREE:
            keys[side][mine, 0], keys[side][mine, 1] = h1, h2
            used[side][0] += 1
        if is_row:
            lasts[n] = ts if stay[n] > 0 else NONE
        elif len(recent.keys) > 2:  # none where promises are entered again
            at = _find(recent.keys, recent.info, h1, h2)
            event = recent.info[at, UNTIL + side] if recent.info[at, TP] != FREE else np.int64(-1)
            while event >= 0 and timed[side] and times[event] + stay[event] <= ts:
                event = before[event]
            lasts[n] = times[event] if event >= 0 else _last_kept(index, side, h1, h2, ts, timed[side], keep)
        if number < -1 and lasts[n] != NONE:
            number = -2 - number
        info[side][mine, TP], info[side][mine, UNTIL] = ts, until
        info[side][mine, OVER], info[side][mine, NUMBER] = -NONE, number
        made[n] = number
        tp = info[other][theirs, TP]
        if tp != FREE and tp <= ts <= info[other][theirs, UNTIL]:
            partners[n], others[n] = info[other][theirs, NUMBER], tp


@kernel
def finish(table, h1s, h2s, numbers, over):
    """Note from when on rows of the other side find no partner, for promises that are still those of their keys."""
    keys, info = table.keys, table.info
    for n in range(len(h1s)):
        at = _find(keys, info, h1s[n], h2s[n])
        if info[at, TP] != FREE and info[at, NUMBER] == numbers[n]:
            info[at, OVER] = over[n]


@kernel
def bound(table, h1s, h2s, begins, ends):
    """From when and until when keys are promised; NONE where they are not."""
    keys, info = table.keys, table.info
    for n in range(len(h1s)):
        at = _find(keys, info, h1s[n], h2s[n])
        begins[n], ends[n] = info[at, TP], info[at, UNTIL] if info[at, TP] != FREE else NONE


@kernel
def one_of_each(index, numbers, homes):
    """For each key that has rows, the number of one of them (the left side's have it negative) and the key's slot."""
    control, _, slots, slab = index
    found = 0
    for slot in range(control[SLOTS]):
        for side in range(2):
            if count_of(slots, slot, side) > 0:
                number = slab[slots[slot, OFF + side] + slots[slot, HEAD + side], 1] >> CLASS_BITS
                numbers[found], homes[found] = number if side else -1 - number, slot
                found += 1
                break
    return found


@kernel
def carry_over(old, new, now):
    """Copy the promises that bind at `now` or later into an empty table."""
    for at in range(len(old.keys)):
        if old.info[at, TP] != FREE and old.info[at, UNTIL] >= now:
            to = _find(new.keys, new.info, old.keys[at, 0], old.keys[at, 1])
            new.keys[to] = old.keys[at]
            new.info[to] = old.info[at]
            new.used[0] += 1


@kernel
def count_rows(index, side, h1s, h2s):
    """How many rows of a side have any of these keys, those of a key that is named twice counted twice."""
    _, table, slots, _ = index
    rows = 0
    for n in range(len(h1s)):
        slot = np.int64(table[find_place(table, slots, h1s[n], h2s[n])])
        if slot >= 0:
            rows += count_of(slots, slot, side)
    return rows


@kernel
def purge_keys(index, side, h1s, h2s, until, gone, places, by):
    """Take the rows of one side with these keys out of the index, up to the place `until` of each.

    `gone` receives their numbers with their classes, `places` their places, `by` which of the keys they have; returns
    how many there were. Entries of the time list stay behind: only stale rows are ever taken by them.
    """
    control, table, slots, slab = index
    total = 0
    for n in range(len(h1s)):
        slot = np.int64(table[find_place(table, slots, h1s[n], h2s[n])])
        if slot < 0:
            continue
        rows, taken = count_of(slots, slot, side), 0
        if rows == 0:
            continue
        off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
        while taken < rows:
            entry = off + ((head + taken) & mask)
            if slab[entry, 0] > until[n]:
                break
            gone[total], places[total], by[total] = slab[entry, 1], slab[entry, 0], n
            taken += 1
            total += 1
        if taken > 0:
            drop_oldest(control, slots, slab, slot, side, taken)
            drop_if_empty(control, table, slots, slot)
    return total


@kernel
def rows_by_age(index, side, now, ends, counts):
    """Add up the rows of one side by age: `counts[i]` those from `ends[i - 1]` up to below `ends[i]`."""
    _, table, slots, slab = index
    for at in range(len(table)):
        slot = table[at]
        if slot < 0:
            continue
        rows = count_of(slots, slot, side)
        if rows == 0:
            continue
        off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
        band = len(ends) - 1
        for i in range(rows):
            age = now - slab[off + ((head + i) & mask), 0]
            while band > 0 and age < ends[band - 1]:
                band -= 1
            counts[band] += 1
