"""Keys by number: a hash table from 128 bits to *slots*, which are used again when their keys are gone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.compiled import kernel
from muntin.kernels.hash_table import close_gap, find_place

USED, FREE, LIVE, CLOCK, SKYLINES_END = 0, 1, 2, 3, 4
"""Where `control` keeps: slots ever used, free-slot chain, keys, instants gone through, end of the used skylines."""
CONTROLS = 5


class Slots(NamedTuple):
    """`table` leads to slots, `keys` has their 128 bits, `refs` how many cells there are of each.

    `rows` is the caller's, and the chain of free slots where a slot is not used.
    """

    control: Int64s
    table: Int32s
    keys: Int64s
    refs: Int64s
    rows: Int64s


@kernel
def find_slots(slots, h1, h2, start, found, born):
    """The slot of each key from `start` on, new ones given out; where it stopped for want of room, and how many new."""
    control, table, keys, refs, rows = slots
    births = 0
    for n in range(start, len(h1)):
        place = find_place(table, keys, h1[n], h2[n])
        slot = np.int64(table[place])
        if slot < 0:
            if control[FREE] >= 0:
                slot = control[FREE]
                control[FREE] = rows[slot]
            elif control[USED] < len(keys):
                slot = control[USED]
                control[USED] += 1
            else:
                return n, births
            control[LIVE] += 1
            table[place] = slot
            keys[slot, 0], keys[slot, 1] = h1[n], h2[n]
            refs[slot], rows[slot] = 0, -1
            born[births] = n
            births += 1
        found[n] = slot
    return len(h1), births


@kernel
def fill_table(slots, used):
    """Put the slots in use into an empty hash table."""
    _, table, keys, _, _ = slots
    for slot in used:
        table[find_place(table, keys, keys[slot, 0], keys[slot, 1])] = slot


@kernel
def drop_cells(slots, spots, gone):
    """One cell less of each of these slots; those without any are free."""
    control, table, keys, refs, rows = slots
    for n in range(len(gone)):
        slot = np.int64(gone[n])
        refs[slot] -= 1
        if refs[slot] > 0:
            continue
        close_gap(table, keys, find_place(table, keys, keys[slot, 0], keys[slot, 1]))
        spots[slot] = 0
        rows[slot] = control[FREE]
        control[FREE] = slot
        control[LIVE] -= 1


@kernel
def look_up(slots, h1, h2, found):
    """The slot of each key, -1 where it has none."""
    _, table, keys, _, _ = slots
    for n in range(len(h1)):
        found[n] = table[find_place(table, keys, h1[n], h2[n])]
