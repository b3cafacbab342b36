"""The windowed join over an index: probe, emit, insert, forget (kostowski 2, hammad2003 3.4).

Rows come in (ts, left first) order. Each one probes the other side's buffer of its key from the newest row backwards
until the first that is too old, and is then appended to its own side's buffer: cost follows the matches, not the state.
A join without a key has one slot, and the probe is the windowed nested loop.

Ages are measured on an *axis* per side: event time, or the number of rows of that stream (count windows). `at` is a
row's place on the axis of its own side, `now` the place it has reached on the other side's axis; on time axes both are
its timestamp.

A row stays for as long as a query can want it (`keep`), then it is stale. Which stale rows a row's arrival takes out is
the invalidation strategy (kostowski 2 and 4.2); `expire` takes out the rest along the lanes of a time list.

The slice of a pair is found on the way back through the buffer: ages only grow, so each cut is stepped over once per
probe. Where a slice is merged of several windows, a pair beyond the first of them is looked up by its age.

A pass may be limited to a range of ages (`Scan`), so that the join of a run of rows can be interrupted and gone on with
(hammad2003 3.2), and may meet partners later than the row itself, where one stream is ahead (hammad2005 5).

Where room is missing, `probe_insert` stops before it touches anything of the row at hand and says what it needs; the
caller makes room and calls again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.arrays import Bools, Int32s, Int64s, UInt8s, UInt64s
from muntin.kernels.compiled import inlined, kernel, kernel_in_place
from muntin.kernels.hash_table import find_place, home_of
from muntin.kernels.index import (
    FILL,
    HEAD,
    OFF,
    SIZE_BITS,
    SLOTS,
    append,
    compact,
    count_of,
    drop_if_empty,
    has_room,
    holds_stale,
    is_stale,
    mask_of,
    purge,
    take_slot,
)
from muntin.kernels.probe import Prober, find_partners, partners_of
from muntin.kernels.times import HEAD as FIRST_BLOCK
from muntin.kernels.times import START, due, pop

AHEAD = 64
DONE, NEED_OUTPUT, NEED_SLAB, NEED_SLOTS = 0, 1, 2, 3
PROBE, PROBE_INSERT, PROBE_ALL, ALL = 0, 1, 2, 3
INVALIDATION_CODES = {(False, False): PROBE, (False, True): PROBE_INSERT, (True, False): PROBE_ALL, (True, True): ALL}
"""Which buckets an arriving row cleans, by (all of them, those of both sides) (kostowski 4.2)."""
PROBES, COMPARISONS, STALE_CHECKS, REMOVED, TOUCHED, CROSSED, ROUTED = 0, 1, 2, 3, 5, 6, 7
"""Where `counts` adds up: rows that probed, partners looked at, checks for stale rows, stale rows of (left, right),
cuts between slices stepped over, pairs placed by their age in a merged slice."""
SCRATCH = 8
COUNTS = SCRATCH + AHEAD
"""Behind the counts there is room for what `_touch` has to remember."""


class Rows(NamedTuple):
    """Rows of both sides in (ts, left first) order, as the kernel reads them; those that are not `kept` only probe."""

    side: UInt8s
    ts: Int64s
    at: Int64s
    now: Int64s
    h1: Int64s
    h2: Int64s
    cls: Int32s
    row: Int64s
    kept: Bools


class Pairs(NamedTuple):
    """Pairs found: row numbers of (left, right), the timestamp, and `2 * window + side` of the earlier row.

    `window` is the first of the side's windows, ascending, that the age of the earlier row lies in. `verdict` is the
    class of each pair by the predicates over both sides; empty where there are none.
    """

    rows: Int64s
    ts: Int64s
    tag: Int32s
    verdict: Int32s


class Routes(NamedTuple):
    """Who receives what: queries (bits) that read ages within each window, and that want each class of row.

    `readers[side, window, word]`, `wants[side, class, word]`, padded where the sides differ.
    """

    readers: UInt64s
    wants: UInt64s


class Slicing(NamedTuple):
    """How each side's state is cut, and what of it is wanted; padded where the sides differ.

    `cuts[side, slice]` is where a slice ends, `first[side, slice]` the first of its windows, `windows[side, window]`
    where each ends. `guess` leads from an age, in buckets of `1 << bucket[side]`, to the first window that holds it:
    for one side after the other `2 * window`, plus one where a window ends inside the bucket. `begin[side, class]` is
    the age of a partner from which on a row of `side` can want it, `reach[side, class]` that from which it can want it
    no more, and `keep[side, class]` the age at which such a row is stale itself. `horizon[side, left class, right
    class]` is the age from which nobody wants a pair whose earlier row is of `side`; without room for that table, and
    where some query begins at a later age than 0, the `routes` tell. `newest[side, class]`: each query that wants such
    a row wants it with the newest partner that it has, and nothing else of it.
    """

    cuts: Int64s
    first: Int64s
    windows: Int64s
    guess: Int32s
    bucket: Int64s
    begin: Int64s
    reach: Int64s
    keep: Int64s
    horizon: Int64s
    routes: Routes
    newest: Bools


class Scan(NamedTuple):
    """Which partners a pass looks at, and what else it does.

    `ages[side]` = [low, high): the ages of partners on that side that this pass looks at. What follows a pass over
    smaller ages starts where that one ended, whatever has been stored since; the partner there counts as looked at by
    the second, so that all passes together look at what one would. `early`: partners may also be later than
    the row that probes, because their stream is ahead; then pairs come in no order. `stored`: rows join the state.
    `stale[side]` is where the axis of a side has come to at most: rows that are not stale there are not taken out.
    """

    ages: Int64s
    early: bool
    stored: bool
    stale: Int64s


LATE = 1 << 62
"""Beyond any age and any place on an axis."""
WHOLE = Scan(np.array([[0, LATE], [0, LATE]]), False, True, np.array([LATE, LATE]))
"""Rows that come in time order meet all that is there and are stored."""


def empty_pairs(room: int) -> Pairs:
    none = np.zeros(0, np.int32)
    return Pairs(np.empty((2, room), np.int64), np.empty(room, np.int64), np.empty(room, np.int32), none)


def together(*parts: Pairs) -> Pairs:
    """Pairs of several passes, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Pairs._make(np.concatenate(fields, axis=-1) for fields in zip(*parts, strict=True))


def in_order(pairs: Pairs) -> Pairs:
    """Pairs by their timestamps."""
    order = np.argsort(pairs.ts, kind="stable")
    verdict = pairs.verdict[order] if len(pairs.verdict) else pairs.verdict
    return Pairs(pairs.rows[:, order], pairs.ts[order], pairs.tag[order], verdict)


@inlined
def _purge_one(control, slots, slab, slot, side, now, keep, shortest, counts):
    """Take stale rows out of one buffer; the usual case, that there are none, costs one comparison."""
    counts[STALE_CHECKS] += 1
    oldest = slots[slot, OFF + side] + slots[slot, HEAD + side]
    if count_of(slots, slot, side) > 0 and now - slab[oldest, 0] >= shortest[side]:
        gone = purge(control, slots, slab, slot, side, now, keep)
        counts[STALE_CHECKS] += gone
        counts[REMOVED + side] += gone


@kernel_in_place
def _purge_others(control, table, slots, slab, slot, side, now, keep, counts):
    """Take the stale rows of one side out of every other slot: at least one check for each."""
    for s in range(control[SLOTS]):
        if s != slot and count_of(slots, s, side) > 0:
            counts[STALE_CHECKS] += 1
            if is_stale(slab, slots[s, OFF + side] + slots[s, HEAD + side], side, now, keep):
                gone = purge(control, slots, slab, s, side, now, keep)
                drop_if_empty(control, table, slots, s)
                counts[STALE_CHECKS] += gone
                counts[REMOVED + side] += gone


@inlined
def _invalidate(control, table, slots, slab, slot, side, ours, theirs, strategy, keep, shortest, counts):
    """Take out the stale rows that the strategy lets a row of `side` take out; both sides have come to these places."""
    _purge_one(control, slots, slab, slot, 1 - side, theirs, keep, shortest, counts)
    if strategy in (PROBE_INSERT, ALL):
        _purge_one(control, slots, slab, slot, side, ours, keep, shortest, counts)
    if strategy >= PROBE_ALL:
        _purge_others(control, table, slots, slab, slot, 1 - side, theirs, keep, counts)
    if strategy == ALL:
        _purge_others(control, table, slots, slab, slot, side, ours, keep, counts)


@kernel_in_place
def probe_insert(index, rows, slicing, scan, strategy, probing, stop, cursor, out, homes, counts):
    """Join the rows up to `stop` with the state and with each other; returns DONE or what is missing.

    `cursor` = rows done and pairs found so far; calling again goes on from there. `out` receives the pairs, in
    timestamp order unless partners are `early`, `homes` the slot of each row for the time list, -1 where it was not
    kept. `counts`: see PROBES. Without `probing` rows are only stored.
    """
    control, table, slots, slab = index
    sides, ts, at, now, h1, h2, cls, row, kept = rows
    n, found, need, warm, keep = cursor[0], cursor[1], DONE, cursor[0], slicing.keep
    shortest = (_least(keep[0]), _least(keep[1]))
    while n < stop:
        if n == warm:
            warm = min(stop, n + AHEAD)
            _touch(table, slots, slab, sides, h1, h2, n, warm, counts)
        side, keeps = np.int64(sides[n]), kept[n] and scan.stored
        other = 1 - side
        place = find_place(table, slots, h1[n], h2[n])
        slot = np.int64(table[place])
        homes[n] = -1
        if slot < 0 and not keeps:
            counts[PROBES] += 1
            n += 1
            continue
        if slot < 0:
            slot = take_slot(control, table, slots, place, h1[n], h2[n])
        if slot < 0:
            need = NEED_SLOTS
            break
        if probing:
            if found + count_of(slots, slot, other) > len(out.ts):
                need = NEED_OUTPUT
                break
            ours, theirs = min(at[n], scan.stale[side]), min(now[n], scan.stale[other])
            _invalidate(control, table, slots, slab, slot, side, ours, theirs, strategy, keep, shortest, counts)
        if keeps and not has_room(control, slots, slab, slot, side):
            need = NEED_SLAB
            break
        if probing:
            counts[PROBES] += 1
            if count_of(slots, slot, other) > 0:
                prober = Prober(side, np.int64(cls[n]), row[n], ts[n], now[n])
                found, compared, crossed, routed = find_partners(
                    slab, partners_of(slots, slot, other), prober, scan, slicing, out, found
                )
                counts[COMPARISONS] += compared
                counts[CROSSED] += crossed
                counts[ROUTED] += routed
        if keeps:
            append(control, slots, slab, slot, side, at[n], row[n], cls[n])
            homes[n] = slot
        else:
            drop_if_empty(control, table, slots, slot)
        n += 1
    cursor[0], cursor[1] = n, found
    return need


@kernel_in_place
def _least(keep):
    """The shortest stay of any class that is stored at all."""
    least = np.int64(1 << 62)
    for n in range(len(keep)):
        if 0 < keep[n] < least:
            least = keep[n]
    return least


@kernel
def horizons(left, right, windows, found):
    """For each two classes, the largest window of a query that wants both; 0 where there is none.

    `left[class, word]` and `right[class, word]` are bits of queries in the order of their `windows`, ascending.
    """
    for a in range(len(left)):
        for b in range(len(right)):
            found[a, b] = 0
            for w in range(left.shape[1] - 1, -1, -1):
                both = left[a, w] & right[b, w]
                if both:
                    top = 0
                    while both >> np.uint64(1):
                        both >>= np.uint64(1)
                        top += 1
                    found[a, b] = windows[64 * w + top]
                    break


@kernel_in_place
def _touch(table, slots, slab, sides, h1, h2, start, end, counts):
    """Read what the next rows will need, so that the memory's latencies overlap instead of adding up."""
    to = SCRATCH - start
    for n in range(start, end):
        counts[to + n] = table[home_of(table, h1[n], h2[n])]
    for n in range(start, end):
        slot = counts[to + n]
        if slot >= 0:
            other = 1 - np.int64(sides[n])
            count = slots[slot, FILL + other] >> SIZE_BITS
            off, newest = slots[slot, OFF + other], slots[slot, HEAD + other] + count - 1
            counts[to + n] = off + (newest & mask_of(slots, slot, other)) if count > 0 else -1
    for n in range(start, end):
        newest = counts[to + n]
        if newest >= 0:
            counts[TOUCHED] ^= slab[newest, 0] ^ slab[max(0, newest - 4), 0] ^ slab[max(0, newest - 8), 0]


@kernel_in_place
def expire(index, times, side, first, last, now, ends, keep, shortest, mixed):
    """Take out the rows of one side that are stale at `now`; how many there were.

    The lanes from `first` to `last` are the side's, a row of lane i leaves at the age `ends[i - first]`. No row leaves
    before the age `shortest`; `mixed` says that not all leave at the same age. A row that an
    arrival has taken out already leaves an entry here, perhaps with a slot that has a new key by now: only rows that
    are stale are ever taken.
    """
    control, table, slots, slab = index
    times_control, lanes, after, at, homes = times
    gone = 0
    for lane in range(first, last):
        until = now - ends[lane - first]
        count = due(lanes, at, lane, until)
        while count > 0:
            block, start, seen = lanes[lane, FIRST_BLOCK], lanes[lane, START], np.int64(0)
            for n in range(start, start + count):  # overlaps the memory's latencies, see _touch
                seen ^= slots[homes[block, n], FILL + side]
            if seen < 0:  # never, no fill is negative; without a use the reads would be left out
                break
            for n in range(start, start + count):
                slot = np.int64(homes[block, n])
                if count_of(slots, slot, side) > 0:
                    taken = 0
                    if is_stale(slab, slots[slot, OFF + side] + slots[slot, HEAD + side], side, now, keep):
                        taken = purge(control, slots, slab, slot, side, now, keep)
                    if mixed and holds_stale(slots, slab, slot, side, at[block, n], now, keep):
                        taken += compact(control, slots, slab, slot, side, now, keep, now - shortest)
                    if taken > 0:
                        drop_if_empty(control, table, slots, slot)
                    gone += taken
            pop(times_control, lanes, after, lane, count)
            count = due(lanes, at, lane, until)
    return gone
