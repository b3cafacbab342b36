"""The state of a windowed hash join: per-key circular buffers in time order, all in one slab (kostowski 3.2,
hammad2003 3.4).

What it **is**: for every key that has a live row on either side, one *slot*; for each slot and side, the live rows of
that key from oldest to newest, in a circular buffer of a power of two of entries that lies contiguously in the slab:

    table  --hash-->  slot (one cache line)  --side-->  slab[off : off + cap]  of  (place, row and class)

How long a row stays depends on its class: `keep[side, class]` is the age at which it is stale. Rows that stay equally
long leave in order, so that taking one out moves the head of its buffer; where rows of one key stay for different
times, the older ones that stay are moved up.

A slot is one cache line and an entry sixteen bytes, since a probe costs what it touches: measured on 1.2 million live
rows, fields in arrays of their own took two and a half times as long.

All memory is in plain arrays (`Index`), so that it can lie in a file. Nothing here allocates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.compiled import inlined, kernel, kernel_in_place
from muntin.kernels.hash_table import close_gap, find_place, table_size

SLOTS, FREE_SLOT, BUMP, KEYS, LIVE, TOP, MATCHES, FREE_BLOCKS = 0, 1, 2, 3, 4, 6, 8, 9
"""Where `Index.control` keeps: slots ever used, free-slot chain, end of the used slab, live keys, rows of each side,
the slot with the most rows of each side (as of the last row that came to it), how many pairs of rows of the two sides
have the same key, free blocks by size."""
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
    table = table_size(slots)
    return [((FREE_BLOCKS + SIZES,), "int64"), ((table,), "int32"), ((slots, 8), "int64"), ((entries, 2), "int64")]


def clear_index(index: Index) -> None:
    """Make zeroed arrays an index without keys."""
    index.control[FREE_SLOT] = -1
    index.control[FREE_BLOCKS:] = -1
    index.table[:] = -1


@inlined
def count_of(slots, slot, side):
    return slots[slot, FILL + side] >> SIZE_BITS


@inlined
def mask_of(slots, slot, side):
    """Capacity less one, to wrap positions in the buffer."""
    return (np.int64(1) << ((slots[slot, FILL + side] & SIZE_MASK) - 1)) - 1


@kernel_in_place
def take_slot(control, table, slots, at, h1, h2):
    """Give a new key a slot; -1 where there is none left."""
    slot = control[FREE_SLOT]
    if slot >= 0:
        control[FREE_SLOT] = slots[slot, OFF]
    else:
        slot = control[SLOTS]
        if slot >= len(slots):
            return np.int64(-1)
        control[SLOTS] += 1
    table[at] = slot
    slots[slot, H1], slots[slot, H2] = h1, h2
    for side in range(2):
        slots[slot, HEAD + side] = 0
        slots[slot, FILL + side] = 0
    control[KEYS] += 1
    return slot


@kernel_in_place
def drop_slot(control, table, slots, slot):
    """Take a key without rows out of the table."""
    close_gap(table, slots, find_place(table, slots, slots[slot, H1], slots[slot, H2]))
    slots[slot, OFF] = control[FREE_SLOT]
    control[FREE_SLOT] = slot
    control[KEYS] -= 1


@inlined
def _free_block(control, slab, off, size):
    slab[off, 0] = control[FREE_BLOCKS + size]
    control[FREE_BLOCKS + size] = off


@kernel_in_place
def _resize(control, slots, slab, slot, side, size):
    """Move a buffer into a block of another size, oldest row first; False where the slab has no room."""
    off = control[FREE_BLOCKS + size]
    if off >= 0:
        control[FREE_BLOCKS + size] = slab[off, 0]
    else:
        off, cap = control[BUMP], np.int64(1) << (size - 1)
        if off + cap > len(slab):
            return False
        control[BUMP] = off + cap
    old_size, rows = slots[slot, FILL + side] & SIZE_MASK, count_of(slots, slot, side)
    if old_size > 0:
        old, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
        for i in range(rows):
            at = old + ((head + i) & mask)
            slab[off + i, 0] = slab[at, 0]
            slab[off + i, 1] = slab[at, 1]
        _free_block(control, slab, old, old_size)
    slots[slot, OFF + side] = off
    slots[slot, HEAD + side] = 0
    slots[slot, FILL + side] = rows << SIZE_BITS | size
    return True


@inlined
def has_room(control, slots, slab, slot, side):
    """Make sure that one more row fits the buffer; False where the slab has no room."""
    fill = slots[slot, FILL + side]
    size = fill & SIZE_MASK
    if size > 0 and (fill >> SIZE_BITS) < (np.int64(1) << (size - 1)):
        return True
    return _resize(control, slots, slab, slot, side, size + 1)


@inlined
def append(control, slots, slab, slot, side, place, row, cls):
    """Add the newest row of a buffer that has room."""
    rows = count_of(slots, slot, side)
    at = slots[slot, OFF + side] + ((slots[slot, HEAD + side] + rows) & mask_of(slots, slot, side))
    slab[at, 0] = place
    slab[at, 1] = row << CLASS_BITS | np.int64(cls)
    slots[slot, FILL + side] += 1 << SIZE_BITS
    control[LIVE + side] += 1
    control[MATCHES] += count_of(slots, slot, 1 - side)
    if slots[slot, FILL + side] >> SIZE_BITS > count_of(slots, control[TOP + side], side):
        control[TOP + side] = slot


@inlined
def is_stale(slab, entry, side, now, keep):
    return now - slab[entry, 0] >= keep[side, slab[entry, 1] & CLASS_MASK]


@kernel_in_place
def drop_oldest(control, slots, slab, slot, side, gone):
    """Take the first `gone` entries off a buffer, and give room back."""
    off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
    size, left = slots[slot, FILL + side] & SIZE_MASK, count_of(slots, slot, side) - gone
    control[LIVE + side] -= gone
    control[MATCHES] -= gone * count_of(slots, slot, 1 - side)
    if left == 0:
        _free_block(control, slab, off, size)
        slots[slot, HEAD + side] = 0
        slots[slot, FILL + side] = 0
        return
    slots[slot, HEAD + side] = (head + gone) & mask
    slots[slot, FILL + side] = left << SIZE_BITS | size
    if size >= 4 and left <= (mask + 1) // 4:
        _resize(control, slots, slab, slot, side, size - 1)


@kernel_in_place
def purge(control, slots, slab, slot, side, now, keep):
    """Take the stale rows out of one buffer, oldest first up to one that stays; how many there were."""
    rows, gone = count_of(slots, slot, side), 0
    if rows == 0:
        return 0
    off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
    while gone < rows and is_stale(slab, off + ((head + gone) & mask), side, now, keep):
        gone += 1
    if gone > 0:
        drop_oldest(control, slots, slab, slot, side, gone)
    return gone


@kernel_in_place
def first_from(slab, off, head, mask, rows, place):
    """The first entry of a buffer that does not lie before a place, found by bisection; `rows` where all do."""
    low, high = 0, rows
    while low < high:
        middle = (low + high) >> 1
        if slab[off + ((head + middle) & mask), 0] < place:
            low = middle + 1
        else:
            high = middle
    return low


@kernel_in_place
def holds_stale(slots, slab, slot, side, place, now, keep):
    """Whether the buffer has a stale row at this place."""
    rows = count_of(slots, slot, side)
    if rows == 0:
        return False
    off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
    low = first_from(slab, off, head, mask, rows, place)
    while low < rows:
        entry = off + ((head + low) & mask)
        if slab[entry, 0] != place:
            return False
        if is_stale(slab, entry, side, now, keep):
            return True
        low += 1
    return False


@kernel_in_place
def compact(control, slots, slab, slot, side, now, keep, youngest):
    """Take every stale row out of one buffer; none of them has a place after `youngest`. Those that stay move up."""
    rows = count_of(slots, slot, side)
    off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
    old = 0
    while old < rows and slab[off + ((head + old) & mask), 0] <= youngest:
        old += 1
    to = old - 1
    for n in range(old - 1, -1, -1):
        entry = off + ((head + n) & mask)
        if not is_stale(slab, entry, side, now, keep):
            if n != to:
                target = off + ((head + to) & mask)
                slab[target, 0] = slab[entry, 0]
                slab[target, 1] = slab[entry, 1]
            to -= 1
    if to >= 0:
        drop_oldest(control, slots, slab, slot, side, to + 1)
    return to + 1


@kernel_in_place
def drop_if_empty(control, table, slots, slot):
    """The slot goes with its last row."""
    if count_of(slots, slot, 0) == 0 and count_of(slots, slot, 1) == 0:
        drop_slot(control, table, slots, slot)


@inlined
def _size_for(rows):
    size = 1
    while (np.int64(1) << (size - 1)) < rows:
        size += 1
    return size


@kernel
def packed_entries(index):
    """Slab entries that a tight packing of the live buffers takes, and the largest of them."""
    total, largest = 0, 0
    for at in range(len(index.table)):
        slot = index.table[at]
        if slot >= 0:
            for side in range(2):
                rows = count_of(index.slots, slot, side)
                if rows > 0:
                    cap = 1 << (_size_for(rows) - 1)
                    total += cap
                    largest = max(largest, cap)
    return total, largest


@kernel
def repack(old, new, moved):
    """Copy the live keys and buffers tightly into a fresh index of another size.

    `moved[slot]` becomes the key's new slot; 0 for slots without a key, which only stale entries of a time list name.
    """
    for field in (KEYS, LIVE, LIVE + 1, MATCHES):
        new.control[field] = old.control[field]
    bump, slot = np.int64(0), np.int64(0)
    for at in range(len(old.table)):
        was = old.table[at]
        if was < 0:
            continue
        moved[was] = slot
        new.slots[slot] = old.slots[was]
        new.table[find_place(new.table, new.slots, old.slots[was, H1], old.slots[was, H2])] = slot
        for side in range(2):
            rows = count_of(old.slots, was, side)
            new.slots[slot, HEAD + side] = 0
            new.slots[slot, FILL + side] = 0
            if rows > 0:
                off, head, mask = old.slots[was, OFF + side], old.slots[was, HEAD + side], mask_of(old.slots, was, side)
                for i in range(rows):
                    entry = off + ((head + i) & mask)
                    new.slab[bump + i, 0] = old.slab[entry, 0]
                    new.slab[bump + i, 1] = old.slab[entry, 1]
                size = _size_for(rows)
                new.slots[slot, OFF + side] = bump
                new.slots[slot, FILL + side] = rows << SIZE_BITS | size
                bump += np.int64(1) << (size - 1)
        slot += 1
    new.control[SLOTS], new.control[BUMP] = slot, bump
    for side in range(2):
        new.control[TOP + side] = moved[old.control[TOP + side]]


@kernel
def clean(index, side, now, keep):
    """Take every stale row of one side out of every buffer; how many there were."""
    control, table, slots, slab = index
    gone = 0
    for slot in range(control[SLOTS]):
        if count_of(slots, slot, side) > 0:
            taken = compact(control, slots, slab, slot, side, now, keep, np.int64(1) << 62)
            if taken > 0:
                drop_if_empty(control, table, slots, slot)
            gone += taken
    return gone


@kernel
def cut_after(index, side, place):
    """Take the rows of one side that lie after a place out of every buffer; the newest ones, so nobody moves."""
    control, table, slots, slab = index
    for slot in range(control[SLOTS]):
        rows, gone = count_of(slots, slot, side), 0
        if rows == 0:
            continue
        off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
        while gone < rows and slab[off + ((head + rows - 1 - gone) & mask), 0] > place:
            gone += 1
        if gone == 0:
            continue
        size = slots[slot, FILL + side] & SIZE_MASK
        control[LIVE + side] -= gone
        control[MATCHES] -= gone * count_of(slots, slot, 1 - side)
        slots[slot, FILL + side] = (rows - gone) << SIZE_BITS | size
        if gone == rows:
            _free_block(control, slab, off, size)
            slots[slot, HEAD + side] = 0
            slots[slot, FILL + side] = 0
            drop_if_empty(control, table, slots, slot)


@kernel
def entries(index, side, places, homes):
    """List where in the slab every row of one side lies, and its slot, key after key."""
    slots = index.slots
    n = 0
    for at in range(len(index.table)):
        slot = index.table[at]
        if slot >= 0:
            rows = count_of(slots, slot, side)
            if rows > 0:
                off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
                for i in range(rows):
                    places[n], homes[n] = off + ((head + i) & mask), slot
                    n += 1
