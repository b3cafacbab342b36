"""Rows that leave the index one by one, wherever in their buffers they lie."""

from __future__ import annotations

from muntin.kernels.compiled import kernel, kernel_in_place
from muntin.kernels.hash_table import find_place
from muntin.kernels.index import CLASS_BITS, HEAD, OFF, count_of, drop_if_empty, drop_oldest, first_from, mask_of

GONE = -1
"""Stands in an entry for the number and class of a row that is to leave."""


@kernel_in_place
def _mark(slots, slab, slot, side, place, row):
    """Mark a row that is to leave; where in its buffer it lies, -1 where it is not there."""
    rows = count_of(slots, slot, side)
    if rows == 0:
        return -1
    off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
    low = first_from(slab, off, head, mask, rows, place)
    while low < rows:
        entry = off + ((head + low) & mask)
        if slab[entry, 0] != place:
            return -1
        if slab[entry, 1] >> CLASS_BITS == row:
            slab[entry, 1] = GONE
            return low
        low += 1
    return -1


@kernel_in_place
def _drop_marked(control, slots, slab, slot, side, newest):
    """Take the marked rows out of one buffer, none of which lies after `newest`. Older ones that stay move up."""
    off, head, mask = slots[slot, OFF + side], slots[slot, HEAD + side], mask_of(slots, slot, side)
    to = newest
    for n in range(newest, -1, -1):
        entry = off + ((head + n) & mask)
        if slab[entry, 1] != GONE:
            if n != to:
                target = off + ((head + to) & mask)
                slab[target, 0] = slab[entry, 0]
                slab[target, 1] = slab[entry, 1]
            to -= 1
    drop_oldest(control, slots, slab, slot, side, to + 1)
    return to + 1


@kernel
def take_rows(index, side, h1, h2, places, rows):
    """Take rows of one side out, given by key, place and number; those of a key come together. How many there were.

    A buffer is gone through once, up to the newest row that leaves it.
    """
    control, table, slots, slab = index
    gone, n = 0, 0
    while n < len(rows):
        slot, newest, first = table[find_place(table, slots, h1[n], h2[n])], -1, n
        while n < len(rows) and h1[n] == h1[first] and h2[n] == h2[first]:
            if slot >= 0:
                newest = max(newest, _mark(slots, slab, slot, side, places[n], rows[n]))
            n += 1
        if newest >= 0:
            gone += _drop_marked(control, slots, slab, slot, side, newest)
            drop_if_empty(control, table, slots, slot)
    return gone
