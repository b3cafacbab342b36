"""The windowed join over an index: probe, emit, insert, forget (kostowski 2, hammad2003 3.4).

Rows come in (ts, left first) order. Each one probes the other side's buffer of its key from the newest row backwards
until the first that is too old, and is then appended to its own side's buffer: cost follows the matches, not the state.
A join without a key has one slot, and the probe is the windowed nested loop.

Ages are measured on an *axis* per side: event time, or the number of rows of that stream (count windows). `at` is a
row's place on the axis of its own side, `now` the place it has reached on the other side's axis; on time axes both are
its timestamp.

Rows that have left their window are stale. Which of them a row's arrival takes out is the invalidation strategy
(kostowski 2 and 4.2); `expire` takes out the rest, oldest first, from the time list that the caller keeps.

Where room is missing, `probe_insert` stops before it touches anything of the row at hand and says what it needs; the
caller makes room and calls again.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from muntin.kernels.hashing import mix
from muntin.kernels.index import (
    CLASS_BITS,
    CLASS_MASK,
    FILL,
    HEAD,
    OFF,
    SIZE_BITS,
    SLOTS,
    append,
    count_of,
    drop_slot,
    has_room,
    locate,
    mask_of,
    purge,
    purge_or_drop,
    take_slot,
)

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]

AHEAD = 64
DONE, NEED_OUTPUT, NEED_SLAB, NEED_SLOTS = 0, 1, 2, 3
PROBE, PROBE_INSERT, PROBE_ALL, ALL = 0, 1, 2, 3
STRATEGIES = {"probe": PROBE, "probe-insert": PROBE_INSERT, "probe-all": PROBE_ALL, "all": ALL}
"""Invalidation by name (kostowski 4.2): the buffers from which an arriving row takes stale rows out."""
PROBES, COMPARISONS, STALE_CHECKS, REMOVED, TOUCHED = 0, 1, 2, 3, 5
"""Where `counts` adds up: rows that probed, partners looked at, checks for stale rows, stale rows of (left, right)."""
COUNTS = 6


class Rows(NamedTuple):
    """Rows of both sides in (ts, left first) order, as the kernel reads them; those that are not `kept` only probe."""

    side: npt.NDArray[np.uint8]
    ts: Int64s
    at: Int64s
    now: Int64s
    h1: Int64s
    h2: Int64s
    cls: Int32s
    row: Int64s
    kept: npt.NDArray[np.bool_]


class Pairs(NamedTuple):
    """Pairs found: row numbers of (left, right), the timestamp, and `2 * slice + side` of the earlier row.

    `verdict` is the class of each pair by the predicates over both sides; empty where there are none.
    """

    rows: Int64s
    ts: Int64s
    tag: Int32s
    verdict: Int32s


class Slicing(NamedTuple):
    """For each side's state: where it is cut, and which queries (bits) read each slice and want each class of row.

    `bounds[side, slice]`, `readers[side, slice, word]`, `wants[side, class, word]`, padded where the sides differ.
    """

    bounds: Int64s
    readers: UInt64s
    wants: UInt64s


def empty_pairs(room: int) -> Pairs:
    none = np.zeros(0, np.int32)
    return Pairs(np.empty((2, room), np.int64), np.empty(room, np.int64), np.empty(room, np.int32), none)


@numba.njit(inline="always")
def _purge_one(index, slot, side, horizon, counts):
    """Take the stale rows out of one buffer; the usual case, that there are none, costs one comparison."""
    counts[STALE_CHECKS] += 1
    if count_of(index, slot, side) > 0:
        oldest = index.slots[slot, OFF + side] + index.slots[slot, HEAD + side]
        if index.slab[oldest, 0] <= horizon:
            gone = purge(index, slot, side, horizon)
            counts[STALE_CHECKS] += gone
            counts[REMOVED + side] += gone


@numba.njit(cache=True)
def _purge_others(index, slot, side, horizon, counts):
    """Take the stale rows of one side out of every other slot: at least one check for each."""
    for s in range(index.control[SLOTS]):
        if s != slot:
            counts[STALE_CHECKS] += 1
            counts[REMOVED + side] += purge_or_drop(index, s, side, horizon)


@numba.njit(cache=True)
def probe_insert(index, rows, slicing, reach, limits, strategy, probing, cursor, out, slots, counts):
    """Join a run of rows with the state and with itself; returns DONE or what is missing.

    `reach[side, class]` is the age from which a row of the other side can no longer be wanted by a row of `side` in
    `class`; `limits[side]` the age from which a row of `side` is stale. `cursor` = rows done and pairs found so far;
    calling again goes on from there. `out` receives the pairs in timestamp order, `slots` the slot of each row for the
    time list, -1 where it was not kept. `counts`: see PROBES. Without `probing` rows are only stored.
    """
    total, room, found = len(rows.ts), len(out.ts), cursor[1]
    n = cursor[0]
    need, warm = DONE, n
    while n < total:
        if n == warm:
            warm = min(total, n + AHEAD)
            counts[TOUCHED] ^= _touch(index, rows, n, warm)
        side = np.int64(rows.side[n])
        other = 1 - side
        place = locate(index, rows.h1[n], rows.h2[n])
        slot = np.int64(index.table[place])
        if slot < 0:
            if not rows.kept[n]:
                counts[PROBES] += 1
                slots[n] = -1
                n += 1
                continue
            slot = take_slot(index, place, rows.h1[n], rows.h2[n])
            if slot < 0:
                need = NEED_SLOTS
                break
        if probing:
            if found + count_of(index, slot, other) > room:
                need = NEED_OUTPUT
                break
            _purge_one(index, slot, other, rows.now[n] - limits[other], counts)
            if strategy == PROBE_INSERT or strategy == ALL:
                _purge_one(index, slot, side, rows.at[n] - limits[side], counts)
            if strategy >= PROBE_ALL:
                _purge_others(index, slot, other, rows.now[n] - limits[other], counts)
            if strategy == ALL:
                _purge_others(index, slot, side, rows.at[n] - limits[side], counts)
        if rows.kept[n] and not has_room(index, slot, side):
            need = NEED_SLAB
            break
        if probing:
            counts[PROBES] += 1
            if count_of(index, slot, other) > 0:
                found = _scan(index, slot, side, slicing, reach, rows, n, out, found, counts)
        slots[n] = -1
        if rows.kept[n]:
            append(index, slot, side, rows.at[n], rows.row[n], rows.cls[n])
            slots[n] = slot
        elif count_of(index, slot, 0) == 0 and count_of(index, slot, 1) == 0:
            drop_slot(index, slot)
        n += 1
    cursor[0], cursor[1] = n, found
    return need


@numba.njit(cache=True)
def _touch(index, rows, start, end):
    """Read what the next rows will need, so that the memory's latencies overlap instead of adding up."""
    last = np.int64(len(index.table) - 1)
    seen = np.int64(0)
    places = np.empty(AHEAD, np.int64)
    for n in range(start, end):
        places[n - start] = index.table[np.int64(mix(rows.h1[n], rows.h2[n])) & last]
    for n in range(start, end):
        slot = places[n - start]
        if slot >= 0:
            other = 1 - np.int64(rows.side[n])
            count = index.slots[slot, FILL + other] >> SIZE_BITS
            off, newest = index.slots[slot, OFF + other], index.slots[slot, HEAD + other] + count - 1
            places[n - start] = off + (newest & mask_of(index, slot, other)) if count > 0 else -1
    for n in range(start, end):
        newest = places[n - start]
        if newest >= 0:
            seen ^= index.slab[newest, 0] ^ index.slab[max(0, newest - 4), 0] ^ index.slab[max(0, newest - 8), 0]
    return seen


@numba.njit(inline="always")
def _scan(index, slot, side, slicing, reach, rows, n, out, found, counts):
    """Emit the partners of one row, from the newest back to the first that nobody can want."""
    other = 1 - side
    words, first = slicing.readers.shape[2], slicing.wants[side, rows.cls[n], 0]
    row, ts, now, cls = rows.row[n], rows.ts[n], rows.now[n], rows.cls[n]
    off, mask, partners = index.slots[slot, OFF + other], mask_of(index, slot, other), count_of(index, slot, other)
    newest = index.slots[slot, HEAD + other] + partners - 1
    limit, band, back = reach[side, cls], 0, 0
    while back < partners:
        entry = off + ((newest - back) & mask)
        age = now - index.slab[entry, 0]
        back += 1
        if age >= limit:
            break
        while age >= slicing.bounds[other, band]:
            band += 1
        partner = index.slab[entry, 1]
        wanted = partner & CLASS_MASK
        queries = first & slicing.wants[other, wanted, 0] & slicing.readers[other, band, 0]
        for w in range(1, words):
            queries |= slicing.wants[side, cls, w] & slicing.wants[other, wanted, w] & slicing.readers[other, band, w]
        if queries:
            out.rows[side, found] = row
            out.rows[other, found] = partner >> CLASS_BITS
            out.ts[found] = ts
            out.tag[found] = 2 * band + other
            found += 1
    counts[COMPARISONS] += back
    return found


@numba.njit(cache=True)
def expire(index, side, at, slots, horizon):
    """Take out the rows of one side whose place is up to `horizon`; how many of the time list, and of the index, they are.

    The time list (`at`, `slots`) is in order, so the stale rows are its prefix. A row that an arrival has taken out already
    leaves a stale entry here, perhaps with a slot that has a new key by now: only rows that are stale are ever taken.
    """
    end = np.searchsorted(at, horizon, side="right")
    gone = 0
    for start in range(0, end, AHEAD):
        stop, seen = min(end, start + AHEAD), np.int64(0)
        for n in range(start, stop):  # overlaps the memory's latencies, see _touch
            seen ^= index.slots[slots[n], FILL + side]
        if seen == -1:
            break
        for n in range(start, stop):
            slot = np.int64(slots[n])
            if count_of(index, slot, side) > 0:
                oldest = index.slots[slot, OFF + side] + index.slots[slot, HEAD + side]
                if index.slab[oldest, 0] <= horizon:
                    gone += purge_or_drop(index, slot, side, horizon)
    return end, gone
