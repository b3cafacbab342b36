"""The state of a windowed hash join: per-key circular buffers in time order, all in one slab (kostowski 3.2, hammad2003 3.4).

What it **is**: for every key that has a live row on either side, one *slot*; for each slot and side, the live rows of
that key from oldest to newest, in a circular buffer of a power of two of entries that lies contiguously in the slab:

    table  --hash-->  slot (one cache line)  --side-->  slab[off : off + cap]  of  (place, row and class)

A slot is one cache line and an entry sixteen bytes, since a probe costs what it touches: measured on 1.2 million live
rows, fields in arrays of their own took two and a half times as long.

All memory is in plain arrays (`Index`), so that it can lie in a file. Nothing here allocates.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from muntin.kernels.hashing import mix

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

SLOTS, FREE_SLOT, BUMP, KEYS, LIVE, TOP, FREE_BLOCKS = 0, 1, 2, 3, 4, 6, 8
"""Where `Index.control` keeps: slots ever used, free-slot chain, end of the used slab, live keys, rows of each side, the slot
with the most rows of each side (as of the last row that came to it), free blocks by size."""
SIZES = 48
H1, H2, OFF, HEAD, FILL = 0, 1, 2, 4, 6
"""Where a slot keeps its key and, for each side, the buffer's place, its oldest entry, and `rows << 6 | size`; the
capacity is `2 ** (size - 1)`, size 0 means no buffer."""
SIZE_BITS = 6
SIZE_MASK = (1 << SIZE_BITS) - 1
CLASS_BITS = 20
CLASS_MASK = (1 << CLASS_BITS) - 1
"""An entry holds `row << 20 | class`."""


class Index(NamedTuple):
    """The arrays of the state; they have a fixed size, `repack` moves them into larger or smaller ones."""

    control: Int64s
    table: Int32s
    slots: Int64s
    slab: Int64s


def index_layout(slots: int, entries: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of an index with room for `slots` keys and `entries` rows, in the order of `Index`."""
    table = 1 << (2 * slots - 1).bit_length()
    return [((FREE_BLOCKS + SIZES,), "int64"), ((table,), "int32"), ((slots, 8), "int64"), ((entries, 2), "int64")]


def clear_index(index: Index) -> None:
    """Make zeroed arrays an index without keys."""
    index.control[FREE_SLOT] = -1
    index.control[FREE_BLOCKS:] = -1
    index.table[:] = -1


@numba.njit(inline="always")
def count_of(index, slot, side):
    return index.slots[slot, FILL + side] >> SIZE_BITS


@numba.njit(inline="always")
def mask_of(index, slot, side):
    """Capacity less one, to wrap positions in the buffer."""
    return (np.int64(1) << ((index.slots[slot, FILL + side] & SIZE_MASK) - 1)) - 1


@numba.njit(inline="always")
def locate(index, h1, h2):
    """Position in the table of the key, or of the free place where it belongs."""
    last = np.int64(len(index.table) - 1)
    at = np.int64(mix(h1, h2)) & last
    while True:
        slot = index.table[at]
        if slot < 0 or (index.slots[slot, H1] == h1 and index.slots[slot, H2] == h2):
            return at
        at = (at + 1) & last


@numba.njit(cache=True)
def take_slot(index, at, h1, h2):
    """Give a new key a slot; -1 where there is none left."""
    slot = index.control[FREE_SLOT]
    if slot >= 0:
        index.control[FREE_SLOT] = index.slots[slot, OFF]
    else:
        slot = index.control[SLOTS]
        if slot >= len(index.slots):
            return np.int64(-1)
        index.control[SLOTS] += 1
    index.table[at] = slot
    index.slots[slot, H1], index.slots[slot, H2] = h1, h2
    for side in range(2):
        index.slots[slot, HEAD + side] = 0
        index.slots[slot, FILL + side] = 0
    index.control[KEYS] += 1
    return slot


@numba.njit(cache=True)
def drop_slot(index, slot):
    """Take a key without rows out of the table, closing the gap so that no tombstones pile up."""
    last = np.int64(len(index.table) - 1)
    gap = locate(index, index.slots[slot, H1], index.slots[slot, H2])
    at = gap
    while True:
        at = (at + 1) & last
        other = index.table[at]
        if other < 0:
            break
        home = np.int64(mix(index.slots[other, H1], index.slots[other, H2])) & last
        if ((at - home) & last) >= ((at - gap) & last):
            index.table[gap] = other
            gap = at
    index.table[gap] = -1
    index.slots[slot, OFF] = index.control[FREE_SLOT]
    index.control[FREE_SLOT] = slot
    index.control[KEYS] -= 1


@numba.njit(inline="always")
def _free_block(index, off, size):
    index.slab[off, 0] = index.control[FREE_BLOCKS + size]
    index.control[FREE_BLOCKS + size] = off


@numba.njit(cache=True)
def _resize(index, slot, side, size):
    """Move a buffer into a block of another size, oldest row first; False where the slab has no room."""
    off = index.control[FREE_BLOCKS + size]
    if off >= 0:
        index.control[FREE_BLOCKS + size] = index.slab[off, 0]
    else:
        off, cap = index.control[BUMP], np.int64(1) << (size - 1)
        if off + cap > len(index.slab):
            return False
        index.control[BUMP] = off + cap
    old_size, rows = index.slots[slot, FILL + side] & SIZE_MASK, count_of(index, slot, side)
    if old_size > 0:
        old, head, mask = index.slots[slot, OFF + side], index.slots[slot, HEAD + side], mask_of(index, slot, side)
        for i in range(rows):
            at = old + ((head + i) & mask)
            index.slab[off + i, 0] = index.slab[at, 0]
            index.slab[off + i, 1] = index.slab[at, 1]
        _free_block(index, old, old_size)
    index.slots[slot, OFF + side] = off
    index.slots[slot, HEAD + side] = 0
    index.slots[slot, FILL + side] = rows << SIZE_BITS | size
    return True


@numba.njit(inline="always")
def has_room(index, slot, side):
    """Make sure that one more row fits the buffer; False where the slab has no room."""
    fill = index.slots[slot, FILL + side]
    size = fill & SIZE_MASK
    if size > 0 and (fill >> SIZE_BITS) < (np.int64(1) << (size - 1)):
        return True
    return _resize(index, slot, side, size + 1)


@numba.njit(inline="always")
def append(index, slot, side, place, row, cls):
    """Add the newest row of a buffer that has room."""
    rows = count_of(index, slot, side)
    at = index.slots[slot, OFF + side] + ((index.slots[slot, HEAD + side] + rows) & mask_of(index, slot, side))
    index.slab[at, 0] = place
    index.slab[at, 1] = row << CLASS_BITS | np.int64(cls)
    index.slots[slot, FILL + side] += 1 << SIZE_BITS
    index.control[LIVE + side] += 1
    if index.slots[slot, FILL + side] >> SIZE_BITS > count_of(index, index.control[TOP + side], side):
        index.control[TOP + side] = slot


@numba.njit(cache=True)
def purge(index, slot, side, horizon):
    """Take the stale rows out of one buffer, oldest first; how many there were."""
    rows, gone = count_of(index, slot, side), 0
    if rows == 0:
        return 0
    off, head, mask = index.slots[slot, OFF + side], index.slots[slot, HEAD + side], mask_of(index, slot, side)
    while gone < rows and index.slab[off + ((head + gone) & mask), 0] <= horizon:
        gone += 1
    if gone == 0:
        return 0
    size, left = index.slots[slot, FILL + side] & SIZE_MASK, rows - gone
    index.control[LIVE + side] -= gone
    if left == 0:
        _free_block(index, off, size)
        index.slots[slot, HEAD + side] = 0
        index.slots[slot, FILL + side] = 0
        return gone
    index.slots[slot, HEAD + side] = (head + gone) & mask
    index.slots[slot, FILL + side] = left << SIZE_BITS | size
    if size >= 4 and left <= (mask + 1) // 4:
        _resize(index, slot, side, size - 1)
    return gone


@numba.njit(cache=True)
def purge_or_drop(index, slot, side, horizon):
    """The same, and the slot goes with its last row."""
    gone = purge(index, slot, side, horizon)
    if gone > 0 and count_of(index, slot, 1 - side) == 0 and count_of(index, slot, side) == 0:
        drop_slot(index, slot)
    return gone


@numba.njit(inline="always")
def _size_for(rows):
    size = 1
    while (np.int64(1) << (size - 1)) < rows:
        size += 1
    return size


@numba.njit(cache=True)
def packed_entries(index):
    """Slab entries that a tight packing of the live buffers takes."""
    total = 0
    for slot in range(index.control[SLOTS]):
        for side in range(2):
            rows = count_of(index, slot, side)
            if rows > 0:
                total += 1 << (_size_for(rows) - 1)
    return total


@numba.njit(cache=True)
def repack(old, new):
    """Copy the live buffers tightly into a fresh index of other sizes; slot numbers stay."""
    for field in (SLOTS, FREE_SLOT, KEYS, LIVE, LIVE + 1, TOP, TOP + 1):
        new.control[field] = old.control[field]
    bump = np.int64(0)
    for slot in range(old.control[SLOTS]):
        new.slots[slot] = old.slots[slot]
        for side in range(2):
            rows = count_of(old, slot, side)
            if rows == 0:
                continue
            off, head, mask = old.slots[slot, OFF + side], old.slots[slot, HEAD + side], mask_of(old, slot, side)
            for i in range(rows):
                at = off + ((head + i) & mask)
                new.slab[bump + i, 0] = old.slab[at, 0]
                new.slab[bump + i, 1] = old.slab[at, 1]
            size = _size_for(rows)
            new.slots[slot, OFF + side] = bump
            new.slots[slot, HEAD + side] = 0
            new.slots[slot, FILL + side] = rows << SIZE_BITS | size
            bump += np.int64(1) << (size - 1)
    new.control[BUMP] = bump
    for at in range(len(old.table)):
        slot = old.table[at]
        if slot >= 0:
            new.table[locate(new, old.slots[slot, H1], old.slots[slot, H2])] = slot
