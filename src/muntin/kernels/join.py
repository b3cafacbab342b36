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
def _purge_one(control, slots, slab, slot, side, horizon, counts):
    """Take the stale rows out of one buffer; the usual case, that there are none, costs one comparison."""
    counts[STALE_CHECKS] += 1
    if count_of(slots, slot, side) > 0:
        oldest = slots[slot, OFF + side] + slots[slot, HEAD + side]
        if slab[oldest, 0] <= horizon:
            gone = purge(control, slots, slab, slot, side, horizon)
            counts[STALE_CHECKS] += gone
            counts[REMOVED + side] += gone


@numba.njit(cache=True)
def _purge_others(control, table, slots, slab, slot, side, horizon, counts):
    """Take the stale rows of one side out of every other slot: at least one check for each."""
    for s in range(control[SLOTS]):
        if s != slot and count_of(slots, s, side) > 0:
            counts[STALE_CHECKS] += 1
            if slab[slots[s, OFF + side] + slots[s, HEAD + side], 0] <= horizon:
                gone = purge_or_drop(control, table, slots, slab, s, side, horizon)
                counts[STALE_CHECKS] += gone
                counts[REMOVED + side] += gone


@numba.njit(cache=True)
def probe_insert(index, rows, slicing, reach, limits, strategy, probing, cursor, out, homes, counts):
    """Join a run of rows with the state and with itself; returns DONE or what is missing.

    `reach[side, class]` is the age from which a row of the other side can no longer be wanted by a row of `side` in
    `class`; `limits[side]` the age from which a row of `side` is stale. `cursor` = rows done and pairs found so far;
    calling again goes on from there. `out` receives the pairs in timestamp order, `homes` the slot of each row for the
    time list, -1 where it was not kept. `counts`: see PROBES. Without `probing` rows are only stored.

    Tuples are taken apart first: an array that is fetched from a tuple in the loop costs counting its references.
    """
    control, table, slots, slab = index
    sides, ts, at, now, h1, h2, cls, row, kept = rows
    bounds, readers, wants = slicing
    out_rows, out_ts, out_tag, _ = out
    n, found, total, room = cursor[0], cursor[1], len(ts), len(out_ts)
    need, warm = DONE, n
    # One class on each side, wanted by every query: whoever is within reach is wanted.
    plain = wants.shape[1] == 1 and np.all(wants[:, 0] == readers[:, 0]) and np.all(wants[0, 0] == wants[1, 0])
    while n < total:
        if n == warm:
            warm = min(total, n + AHEAD)
            counts[TOUCHED] ^= _touch(table, slots, slab, sides, h1, h2, n, warm)
        side = np.int64(sides[n])
        other = 1 - side
        place = locate(table, slots, h1[n], h2[n])
        slot = np.int64(table[place])
        if slot < 0:
            if not kept[n]:
                counts[PROBES] += 1
                homes[n] = -1
                n += 1
                continue
            slot = take_slot(control, table, slots, place, h1[n], h2[n])
            if slot < 0:
                need = NEED_SLOTS
                break
        if probing:
            if found + count_of(slots, slot, other) > room:
                need = NEED_OUTPUT
                break
            _purge_one(control, slots, slab, slot, other, now[n] - limits[other], counts)
            if strategy in (PROBE_INSERT, ALL):
                _purge_one(control, slots, slab, slot, side, at[n] - limits[side], counts)
            if strategy >= PROBE_ALL:
                _purge_others(control, table, slots, slab, slot, other, now[n] - limits[other], counts)
            if strategy == ALL:
                _purge_others(control, table, slots, slab, slot, side, at[n] - limits[side], counts)
        if kept[n] and not has_room(control, slots, slab, slot, side):
            need = NEED_SLAB
            break
        if probing:
            counts[PROBES] += 1
            partners = count_of(slots, slot, other)
            if partners > 0:  # from the newest back to the first that nobody can want
                off, mask = slots[slot, OFF + other], mask_of(slots, slot, other)
                newest = slots[slot, HEAD + other] + partners - 1
                limit, band, edge, back = reach[side, cls[n]], 0, bounds[other, 0], 0
                mine, when, reached = row[n], ts[n], now[n]
                while back < partners:
                    entry = off + ((newest - back) & mask)
                    age = reached - slab[entry, 0]
                    back += 1
                    if age >= limit:
                        break
                    while age >= edge:
                        band += 1
                        edge = bounds[other, band]
                    partner = slab[entry, 1]
                    if plain or _wanted(wants, readers, side, cls[n], partner & CLASS_MASK, band):
                        out_rows[side, found] = mine
                        out_rows[other, found] = partner >> CLASS_BITS
                        out_ts[found] = when
                        out_tag[found] = 2 * band + other
                        found += 1
                counts[COMPARISONS] += back
        homes[n] = -1
        if kept[n]:
            append(control, slots, slab, slot, side, at[n], row[n], cls[n])
            homes[n] = slot
        elif count_of(slots, slot, 0) == 0 and count_of(slots, slot, 1) == 0:
            drop_slot(control, table, slots, slot)
        n += 1
    cursor[0], cursor[1] = n, found
    return need


@numba.njit(inline="always")
def _wanted(wants, readers, side, mine, theirs, band):
    """Whether some query wants both classes of row and reads the slice."""
    queries = wants[side, mine, 0] & wants[1 - side, theirs, 0] & readers[1 - side, band, 0]
    for w in range(1, wants.shape[2]):
        queries |= wants[side, mine, w] & wants[1 - side, theirs, w] & readers[1 - side, band, w]
    return queries != 0


@numba.njit(cache=True)
def _touch(table, slots, slab, sides, h1, h2, start, end):
    """Read what the next rows will need, so that the memory's latencies overlap instead of adding up."""
    last = np.int64(len(table) - 1)
    seen = np.int64(0)
    places = np.empty(AHEAD, np.int64)
    for n in range(start, end):
        places[n - start] = table[np.int64(mix(h1[n], h2[n])) & last]
    for n in range(start, end):
        slot = places[n - start]
        if slot >= 0:
            other = 1 - np.int64(sides[n])
            count = slots[slot, FILL + other] >> SIZE_BITS
            off, newest = slots[slot, OFF + other], slots[slot, HEAD + other] + count - 1
            places[n - start] = off + (newest & mask_of(slots, slot, other)) if count > 0 else -1
    for n in range(start, end):
        newest = places[n - start]
        if newest >= 0:
            seen ^= slab[newest, 0] ^ slab[max(0, newest - 4), 0] ^ slab[max(0, newest - 8), 0]
    return seen


@numba.njit(cache=True)
def expire(index, side, at, homes, horizon):
    """Take out the rows of one side whose place is up to `horizon`; how many of the time list, and of the index, they
    are.

    The time list (`at`, `homes`) is in order, so the stale rows are its prefix. A row that an arrival has taken out
    already leaves a stale entry here, perhaps with a slot that has a new key by now: only rows that are stale are
    ever taken.
    """
    control, table, slots, slab = index
    end = np.searchsorted(at, horizon, side="right")
    gone = 0
    for start in range(0, end, AHEAD):
        stop, seen = min(end, start + AHEAD), np.int64(0)
        for n in range(start, stop):  # overlaps the memory's latencies, see _touch
            seen ^= slots[homes[n], FILL + side]
        if seen < 0:  # never, no fill is negative; without a use the reads would be left out
            break
        for n in range(start, stop):
            slot = np.int64(homes[n])
            if count_of(slots, slot, side) > 0:
                oldest = slots[slot, OFF + side] + slots[slot, HEAD + side]
                if slab[oldest, 0] <= horizon:
                    gone += purge_or_drop(control, table, slots, slab, slot, side, horizon)
    return end, gone
