"""The windowed hash join: per-key circular buffers in time order, all in one slab (kostowski 3.2, hammad2003 3.4).

What the state **is**: for every key that has a live row on either side, one *slot*; for each slot and side, the live
rows of that key from oldest to newest, in a circular buffer of a power of two of entries that lies contiguously in the
slab:

    table  --hash-->  slot  --side-->  [ head | len | cap ]  -->  slab[off : off + cap]  (ts, row, class)

Rows come in (ts, left first) order. Each one probes the other side's buffer of its key from the newest row backwards
until the first that is too old, and is then appended to its own side's buffer: cost follows the matches, not the state.
Rows that have left their window are taken out by `expire`, oldest first, from the time list that the caller keeps.

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
SLOTS, FREE_SLOT, BUMP, KEYS, FREE_BLOCKS = 0, 1, 2, 3, 8
"""Where `Index.control` keeps: slots ever used, free-slot chain, end of the used slab, live keys, free blocks by size."""
SIZES = 40


class Index(NamedTuple):
    """The arrays of the state; their sizes are fixed between two calls of `rebuild`."""

    control: Int64s
    table: Int32s
    key: Int64s
    off: Int64s
    cap: Int32s
    head: Int32s
    len: Int32s
    ts: Int64s
    row: Int64s
    cls: Int32s


class Arrivals(NamedTuple):
    """Rows of one side in time order, as the kernel reads them."""

    ts: Int64s
    h1: Int64s
    h2: Int64s
    cls: Int32s
    row: Int64s


class Slicing(NamedTuple):
    """For one side's state: where it is cut, and which queries (bits) read each slice and want each class of row."""

    bounds: Int64s
    readers: UInt64s
    wants: UInt64s


def empty_index(slots: int, entries: int) -> Index:
    """An index with room for `slots` keys and `entries` rows."""
    slots = max(8, slots)
    table = 1 << (2 * slots - 1).bit_length()
    control = np.zeros(FREE_BLOCKS + SIZES, np.int64)
    control[FREE_SLOT] = -1
    control[FREE_BLOCKS:] = -1
    return Index(
        control,
        np.full(table, -1, np.int32),
        np.zeros((slots, 2), np.int64),
        np.zeros((slots, 2), np.int64),
        np.zeros((slots, 2), np.int32),
        np.zeros((slots, 2), np.int32),
        np.zeros((slots, 2), np.int32),
        np.zeros(entries, np.int64),
        np.zeros(entries, np.int64),
        np.zeros(entries, np.int32),
    )


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
        if off + cap > len(index.ts):
            return False
        index.control[BUMP] = off + cap
    old, old_cap, head = index.off[slot, side], index.cap[slot, side], index.head[slot, side]
    for i in range(index.len[slot, side]):
        at = old + ((head + i) & (old_cap - 1))
        index.ts[off + i] = index.ts[at]
        index.row[off + i] = index.row[at]
        index.cls[off + i] = index.cls[at]
    if old_cap > 0:
        _free_block(index, old, old_cap)
    index.off[slot, side] = off
    index.cap[slot, side] = cap
    index.head[slot, side] = 0
    return True


@numba.njit(inline="always")
def _append(index, slot, side, ts, row, cls):
    at = index.off[slot, side] + ((index.head[slot, side] + index.len[slot, side]) & (index.cap[slot, side] - 1))
    index.ts[at] = ts
    index.row[at] = row
    index.cls[at] = cls
    index.len[slot, side] += 1


@numba.njit(inline="always")
def _has_room(index, slot, side):
    """Make sure that one more row fits the buffer."""
    cap = index.cap[slot, side]
    return index.len[slot, side] < cap or _resize(index, slot, side, max(1, 2 * cap))


@numba.njit(cache=True)
def probe_insert(index, arrivals, slicings, reach, probing, cursor, out, slots, counts):
    """Join two sorted runs with the state and each other; returns DONE or what is missing.

    `arrivals`, `slicings`, `slots` are (left, right). `reach[side, class]` is the age from which a row of the other side
    can no longer be wanted by a row of `side` in `class`. `cursor` = rows done on each side and pairs found so far; calling
    again goes on from there. `out` receives (left row, right row, timestamp) in timestamp order, `slots[side]` the slot of each row
    for the time list. `counts` += probes, comparisons. Without `probing` rows are only stored.
    """
    words = slicings[0].readers.shape[1]
    while True:
        i, j = cursor[0], cursor[1]
        left, right = i < len(arrivals[0].ts), j < len(arrivals[1].ts)
        if not left and not right:
            return DONE
        side = 0 if left and (not right or arrivals[0].ts[i] <= arrivals[1].ts[j]) else 1
        rows, n, other = arrivals[side], cursor[side], 1 - side
        h1, h2, now, cls = rows.h1[n], rows.h2[n], rows.ts[n], rows.cls[n]
        at = _locate(index, h1, h2)
        slot = np.int64(index.table[at])
        if slot < 0:
            slot = _take_slot(index, at, h1, h2)
            if slot < 0:
                return NEED_SLOTS
        partners = index.len[slot, other]
        if probing and cursor[2] + partners > out.shape[1]:
            return NEED_OUTPUT
        if not _has_room(index, slot, side):
            return NEED_SLAB
        if probing:
            counts[0] += 1
            if partners > 0:
                found = cursor[2]
                slicing, mine, theirs = slicings[other], slicings[side].wants[cls], slicings[other].wants
                off, head, mask = index.off[slot, other], index.head[slot, other], index.cap[slot, other] - 1
                limit, band = reach[side, cls], 0
                for back in range(partners - 1, -1, -1):
                    entry = off + ((head + back) & mask)
                    age = now - index.ts[entry]
                    counts[1] += 1
                    if age >= limit:
                        break
                    while age >= slicing.bounds[band]:
                        band += 1
                    wanted = theirs[index.cls[entry]]
                    for w in range(words):
                        if mine[w] & wanted[w] & slicing.readers[band, w]:
                            out[side, found] = rows.row[n]
                            out[other, found] = index.row[entry]
                            out[2, found] = now
                            found += 1
                            break
                cursor[2] = found
        _append(index, slot, side, now, rows.row[n], cls)
        slots[side][n] = slot
        cursor[side] = n + 1


@numba.njit(cache=True)
def expire(index, side, ts, slots, horizon):
    """Take out the rows of one side with a time up to `horizon`; returns how many of the time list they are.

    The time list (`ts`, `slots`) is in time order, so the expired rows are its prefix, and each is the oldest of its
    buffer: the cost is the number of rows that leave.
    """
    n = 0
    while n < len(ts) and ts[n] <= horizon:
        slot = np.int64(slots[n])
        index.head[slot, side] = (index.head[slot, side] + 1) & (index.cap[slot, side] - 1)
        index.len[slot, side] -= 1
        cap, left = index.cap[slot, side], index.len[slot, side]
        if left == 0:
            _free_block(index, index.off[slot, side], cap)
            index.cap[slot, side] = 0
            index.head[slot, side] = 0
            if index.len[slot, 1 - side] == 0:
                _drop_slot(index, slot)
        elif cap >= 8 and left <= cap // 4:
            _resize(index, slot, side, cap // 2)
        n += 1
    return n


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
                new.ts[bump + i] = old.ts[at]
                new.row[bump + i] = old.row[at]
                new.cls[bump + i] = old.cls[at]
            new.off[slot, side], new.len[slot, side], new.cap[slot, side] = bump, count, 1 << _size_of(count)
            bump += new.cap[slot, side]
    new.control[BUMP] = bump
    for at in range(len(old.table)):
        slot = old.table[at]
        if slot >= 0:
            new.table[_locate(new, old.key[slot, 0], old.key[slot, 1])] = slot
