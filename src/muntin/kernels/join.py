"""The windowed hash join: per-key circular buffers in time order, all in one slab (kostowski 3.2, hammad2003 3.4).

What the state **is**: for every key that has a live row on either side, one *slot*; for each slot and side, the live
rows of that key from oldest to newest, in a circular buffer of a power of two of entries that lies contiguously in the
slab:

    table  --hash-->  slot  --side-->  [ head | len | cap ]  -->  slab[off : off + cap]  (ts, row, class)

Rows come in (ts, left first) order. Each one probes the other side's buffer of its key from the newest row backwards
until the first that is too old, and is then appended to its own side's buffer: cost follows the matches, not the state.
A join without a key has one slot, and the probe is the windowed nested loop (kostowski 2).

Ages are measured on an *axis* per side: event time, or the number of rows of that stream (count windows). `at` is a
row's place on the axis of its own side, `now` the place it has reached on the other side's axis; on time axes both are
its timestamp.

Rows that have left their window are stale. Which of them a row's arrival takes out is the invalidation strategy
(kostowski 2 and 4.2); `expire` takes out the rest, oldest first, from the time list that the caller keeps.

All memory is in plain arrays (`Index`), so that it can lie in a file. The functions never allocate: where room is
missing they stop *before* touching anything of the row at hand and say what they need; the caller makes room and calls
again.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from muntin.kernels.hashing import mix

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]

DONE, NEED_OUTPUT, NEED_SLAB, NEED_SLOTS = 0, 1, 2, 3
SLOTS, FREE_SLOT, BUMP, KEYS, LIVE, FREE_BLOCKS = 0, 1, 2, 3, 4, 8
"""Where `Index.control` keeps: slots ever used, free-slot chain, end of the used slab, live keys, rows of each side, free
blocks by size."""
SIZES = 40
PROBE, PROBE_INSERT, PROBE_ALL, ALL = 0, 1, 2, 3
STRATEGIES = {"probe": PROBE, "probe-insert": PROBE_INSERT, "probe-all": PROBE_ALL, "all": ALL}
"""Invalidation by name (kostowski 4.2): the buffers from which an arriving row takes stale rows out."""
PROBES, COMPARISONS, STALE_CHECKS, REMOVED = 0, 1, 2, 3
"""Where `counts` adds up: rows that probed, partners looked at, checks for stale rows, stale rows of (left, right)."""


class Index(NamedTuple):
    """The arrays of the state; their sizes are fixed between two calls of `rebuild`."""

    control: Int64s
    table: Int32s
    key: Int64s
    off: Int64s
    cap: Int32s
    head: Int32s
    len: Int32s
    at: Int64s
    row: Int64s
    cls: Int32s


class Rows(NamedTuple):
    """Rows of one side in time order, as the kernel reads them; those that are not `kept` only probe."""

    ts: Int64s
    at: Int64s
    now: Int64s
    h1: Int64s
    h2: Int64s
    cls: Int32s
    row: Int64s
    kept: npt.NDArray[np.bool_]


class Pairs(NamedTuple):
    """Pairs found: row numbers of (left, right), the timestamp, and `2 * slice + side` of the earlier row."""

    rows: Int64s
    ts: Int64s
    tag: Int32s


class Slicing(NamedTuple):
    """For one side's state: where it is cut, and which queries (bits) read each slice and want each class of row."""

    bounds: Int64s
    readers: UInt64s
    wants: UInt64s


def index_layout(slots: int, entries: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of an index with room for `slots` keys and `entries` rows, in the order of `Index`."""
    table = 1 << (2 * slots - 1).bit_length()
    per_slot = [((slots, 2), kind) for kind in ("int64", "int64", "int32", "int32", "int32")]
    return [((FREE_BLOCKS + SIZES,), "int64"), ((table,), "int32"), *per_slot,
            ((entries,), "int64"), ((entries,), "int64"), ((entries,), "int32")]  # fmt: skip


def clear_index(index: Index) -> None:
    """Make zeroed arrays an index without keys."""
    index.control[FREE_SLOT] = -1
    index.control[FREE_BLOCKS:] = -1
    index.table[:] = -1


def empty_pairs(room: int) -> Pairs:
    return Pairs(np.empty((2, room), np.int64), np.empty(room, np.int64), np.empty(room, np.int32))


@numba.njit(inline="always")
def _locate(index, h1, h2):
    """Position in the table of the key, or of the free place where it belongs."""
    last = len(index.table) - 1
    at = np.int64(mix(h1, h2) & np.uint64(last))
    while True:
        slot = index.table[at]
        if slot < 0 or (index.key[slot, 0] == h1 and index.key[slot, 1] == h2):
            return at
        at = (at + 1) & last


@numba.njit(inline="always")
def _take_slot(index, at, h1, h2):
    """Give a new key a slot; -1 where there is none left."""
    slot = index.control[FREE_SLOT]
    if slot >= 0:
        index.control[FREE_SLOT] = index.off[slot, 0]
    else:
        slot = index.control[SLOTS]
        if slot >= len(index.off):
            return np.int64(-1)
        index.control[SLOTS] += 1
    index.table[at] = slot
    index.key[slot, 0], index.key[slot, 1] = h1, h2
    for side in range(2):
        index.cap[slot, side] = 0
        index.head[slot, side] = 0
        index.len[slot, side] = 0
    index.control[KEYS] += 1
    return slot


@numba.njit(cache=True)
def _drop_slot(index, slot):
    """Take a key without rows out of the table, closing the gap so that no tombstones pile up."""
    last = len(index.table) - 1
    gap = _locate(index, index.key[slot, 0], index.key[slot, 1])
    at = gap
    while True:
        at = (at + 1) & last
        other = index.table[at]
        if other < 0:
            break
        home = np.int64(mix(index.key[other, 0], index.key[other, 1]) & np.uint64(last))
        if ((at - home) & last) >= ((at - gap) & last):
            index.table[gap] = other
            gap = at
    index.table[gap] = -1
    index.off[slot, 0] = index.control[FREE_SLOT]
    index.control[FREE_SLOT] = slot
    index.control[KEYS] -= 1


@numba.njit(inline="always")
def _size_of(cap):
    size = 0
    while (1 << size) < cap:
        size += 1
    return size


@numba.njit(inline="always")
def _free_block(index, off, cap):
    size = _size_of(cap)
    index.row[off] = index.control[FREE_BLOCKS + size]
    index.control[FREE_BLOCKS + size] = off


@numba.njit(cache=True)
def _resize(index, slot, side, cap):
    """Move a buffer into a block of `cap` entries, oldest row first; False where the slab has no room."""
    size = _size_of(cap)
    off = index.control[FREE_BLOCKS + size]
    if off >= 0:
        index.control[FREE_BLOCKS + size] = index.row[off]
    else:
        off = index.control[BUMP]
        if off + cap > len(index.at):
            return False
        index.control[BUMP] = off + cap
    old, old_cap, head = index.off[slot, side], index.cap[slot, side], index.head[slot, side]
    for i in range(index.len[slot, side]):
        at = old + ((head + i) & (old_cap - 1))
        index.at[off + i] = index.at[at]
        index.row[off + i] = index.row[at]
        index.cls[off + i] = index.cls[at]
    if old_cap > 0:
        _free_block(index, old, old_cap)
    index.off[slot, side] = off
    index.cap[slot, side] = cap
    index.head[slot, side] = 0
    return True


@numba.njit(inline="always")
def _append(index, slot, side, place, row, cls):
    at = index.off[slot, side] + ((index.head[slot, side] + index.len[slot, side]) & (index.cap[slot, side] - 1))
    index.at[at] = place
    index.row[at] = row
    index.cls[at] = cls
    index.len[slot, side] += 1
    index.control[LIVE + side] += 1


@numba.njit(inline="always")
def _has_room(index, slot, side):
    """Make sure that one more row fits the buffer."""
    cap = index.cap[slot, side]
    return index.len[slot, side] < cap or _resize(index, slot, side, max(1, 2 * cap))


@numba.njit(cache=True)
def _purge(index, slot, side, horizon):
    """Take the stale rows out of one buffer, oldest first; how many there were."""
    gone, cap = 0, index.cap[slot, side]
    off, head, count = index.off[slot, side], index.head[slot, side], index.len[slot, side]
    while gone < count and index.at[off + ((head + gone) & (cap - 1))] <= horizon:
        gone += 1
    if gone == 0:
        return 0
    index.head[slot, side] = (head + gone) & (cap - 1)
    index.len[slot, side] = count - gone
    index.control[LIVE + side] -= gone
    left = count - gone
    if left == 0:
        _free_block(index, off, cap)
        index.cap[slot, side] = 0
        index.head[slot, side] = 0
    elif cap >= 8 and left <= cap // 4:
        _resize(index, slot, side, cap // 2)
    return gone


@numba.njit(cache=True)
def _purge_or_drop(index, slot, side, horizon):
    """The same, and the slot goes with its last row."""
    gone = _purge(index, slot, side, horizon)
    if gone > 0 and index.len[slot, 0] == 0 and index.len[slot, 1] == 0:
        _drop_slot(index, slot)
    return gone


@numba.njit(cache=True)
def _invalidate(index, strategy, slot, side, horizons, counts):
    """What one arrival on `side` takes out: stale rows of its own buffer pair, or of every buffer."""
    other = 1 - side
    if strategy == PROBE_ALL or strategy == ALL:
        for s in range(index.control[SLOTS]):
            if s != slot:
                for x in range(2):
                    if x == other or strategy == ALL:
                        counts[STALE_CHECKS] += 1
                        counts[REMOVED + x] += _purge_or_drop(index, s, x, horizons[x])
    gone = _purge(index, slot, other, horizons[other])
    counts[STALE_CHECKS] += 1 + gone
    counts[REMOVED + other] += gone
    if strategy == PROBE_INSERT or strategy == ALL:
        gone = _purge(index, slot, side, horizons[side])
        counts[STALE_CHECKS] += 1 + gone
        counts[REMOVED + side] += gone


@numba.njit(cache=True)
def probe_insert(index, runs, slicings, reach, limits, strategy, probing, cursor, out, slots, counts):
    """Join two sorted runs with the state and each other; returns DONE or what is missing.

    `runs`, `slicings`, `slots` are (left, right). `reach[side, class]` is the age from which a row of the other side can
    no longer be wanted by a row of `side` in `class`; `limits[side]` the age from which a row of `side` is stale.
    `cursor` = rows done on each side and pairs found so far; calling again goes on from there. `out` receives the pairs in
    timestamp order, `slots[side]` the slot of each row for the time list, -1 where it was not kept. `counts`: see PROBES.
    Without `probing` rows are only stored.
    """
    words = slicings[0].readers.shape[1]
    horizons = np.empty(2, np.int64)
    while True:
        i, j = cursor[0], cursor[1]
        left, right = i < len(runs[0].ts), j < len(runs[1].ts)
        if not left and not right:
            return DONE
        side = 0 if left and (not right or runs[0].ts[i] <= runs[1].ts[j]) else 1
        rows, n, other = runs[side], cursor[side], 1 - side
        h1, h2, now, cls = rows.h1[n], rows.h2[n], rows.now[n], rows.cls[n]
        place = _locate(index, h1, h2)
        slot = np.int64(index.table[place])
        if slot < 0:
            if not rows.kept[n]:
                counts[PROBES] += 1
                slots[side][n] = -1
                cursor[side] = n + 1
                continue
            slot = _take_slot(index, place, h1, h2)
            if slot < 0:
                return NEED_SLOTS
        if probing and cursor[2] + index.len[slot, other] > len(out.ts):
            return NEED_OUTPUT
        if probing:
            horizons[side], horizons[other] = rows.at[n] - limits[side], now - limits[other]
            _invalidate(index, strategy, slot, side, horizons, counts)
        if rows.kept[n] and not _has_room(index, slot, side):
            return NEED_SLAB
        if probing:
            counts[PROBES] += 1
            partners = index.len[slot, other]
            if partners > 0:
                found = cursor[2]
                slicing, mine, theirs = slicings[other], slicings[side].wants[cls], slicings[other].wants
                off, head, mask = index.off[slot, other], index.head[slot, other], index.cap[slot, other] - 1
                limit, band = reach[side, cls], 0
                for back in range(partners - 1, -1, -1):
                    entry = off + ((head + back) & mask)
                    age = now - index.at[entry]
                    counts[COMPARISONS] += 1
                    if age >= limit:
                        break
                    while age >= slicing.bounds[band]:
                        band += 1
                    wanted = theirs[index.cls[entry]]
                    for w in range(words):
                        if mine[w] & wanted[w] & slicing.readers[band, w]:
                            out.rows[side, found] = rows.row[n]
                            out.rows[other, found] = index.row[entry]
                            out.ts[found] = rows.ts[n]
                            out.tag[found] = 2 * band + other
                            found += 1
                            break
                cursor[2] = found
        if rows.kept[n]:
            _append(index, slot, side, rows.at[n], rows.row[n], cls)
            slots[side][n] = slot
        else:
            slots[side][n] = -1
        cursor[side] = n + 1


@numba.njit(cache=True)
def expire(index, side, at, slots, horizon):
    """Take out the rows of one side whose place is up to `horizon`; how many of the time list, and of the index, they are.

    The time list (`at`, `slots`) is in order, so the stale rows are its prefix. A row that an arrival has taken out already
    leaves a stale entry here, perhaps with a slot that has a new key by now: only rows that are stale are ever taken.
    """
    n, gone = 0, 0
    while n < len(at) and at[n] <= horizon:
        gone += _purge_or_drop(index, np.int64(slots[n]), side, horizon)
        n += 1
    return n, gone


@numba.njit(cache=True)
def slab_in_use(index):
    """Slab entries that a tight packing of the live buffers would take."""
    total = 0
    for slot in range(index.control[SLOTS]):
        for side in range(2):
            if index.len[slot, side] > 0:
                total += 1 << _size_of(index.len[slot, side])
    return total


@numba.njit(cache=True)
def repack(old, new):
    """Copy the live buffers tightly into a fresh slab and table of other sizes; slot numbers stay."""
    new.control[SLOTS] = old.control[SLOTS]
    new.control[FREE_SLOT] = old.control[FREE_SLOT]
    new.control[KEYS] = old.control[KEYS]
    new.control[LIVE], new.control[LIVE + 1] = old.control[LIVE], old.control[LIVE + 1]
    bump = 0
    for slot in range(old.control[SLOTS]):
        new.key[slot, 0], new.key[slot, 1] = old.key[slot, 0], old.key[slot, 1]
        new.off[slot, 0] = old.off[slot, 0]
        for side in range(2):
            count, cap, head = old.len[slot, side], old.cap[slot, side], old.head[slot, side]
            if count == 0:
                continue
            off = old.off[slot, side]
            for i in range(count):
                at = off + ((head + i) & (cap - 1))
                new.at[bump + i] = old.at[at]
                new.row[bump + i] = old.row[at]
                new.cls[bump + i] = old.cls[at]
            new.off[slot, side], new.len[slot, side], new.cap[slot, side] = bump, count, 1 << _size_of(count)
            bump += new.cap[slot, side]
    new.control[BUMP] = bump
    for at in range(len(old.table)):
        slot = old.table[at]
        if slot >= 0:
            new.table[_locate(new, old.key[slot, 0], old.key[slot, 1])] = slot
