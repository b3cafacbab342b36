"""The values that may still become the largest of a group, by slot: what MIN and MAX need, which cannot be subtracted.

A *skyline* has the (anchor, key) for which no other has both a later anchor and a larger key. So anchors ascend and
keys descend, and the largest key with an anchor after some time is that of the first such step. One skyline serves all
windows. All skylines lie in one slab; `spots[slot, column]` says where each is.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.compiled import inlined, kernel
from muntin.kernels.slots import SKYLINES_END, USED

OFF, ROOM, HEAD, STEPS = 0, 1, 2, 3
"""Where a spot keeps: the skyline's place in the slab, its room, its first step, how many steps it has."""


@kernel
def reserve(spots, slab, control, slots, more):
    """Make room for `more` steps on all skylines of each of these slots; False where the slab is too small for that."""
    needed = control[SKYLINES_END]
    for n in range(len(slots)):
        for e in range(spots.shape[1]):
            spot = spots[slots[n], e]
            if spot[STEPS] + more[n] > spot[ROOM]:
                needed += 2 * (spot[STEPS] + more[n])
    if needed > len(slab):
        return False
    for n in range(len(slots)):
        for e in range(spots.shape[1]):
            spot = spots[slots[n], e]
            if spot[STEPS] + more[n] > spot[ROOM]:
                _move(spot, slab, slab, control, 2 * (spot[STEPS] + more[n]))
    return True


@kernel
def _move(spot, old, new, control, room):
    start, end = spot[OFF] + spot[HEAD], control[SKYLINES_END]
    for i in range(spot[STEPS]):
        for column in range(old.shape[1]):
            new[end + i, column] = old[start + i, column]
    spot[OFF], spot[ROOM], spot[HEAD] = end, room, 0
    control[SKYLINES_END] += room


@kernel
def repack_skylines(spots, old, new, control):
    """Move all skylines into another slab, without spare room."""
    control[SKYLINES_END] = 0
    for slot in range(control[USED]):
        for e in range(spots.shape[1]):
            _move(spots[slot, e], old, new, control, spots[slot, e, STEPS])


@kernel
def count_steps(spots, control):
    total = 0
    for slot in range(control[USED]):
        for e in range(spots.shape[1]):
            total += spots[slot, e, STEPS]
    return total


@kernel
def gather_keys(spots, slab, control, column, found):
    """The keys of one of the skylines of all slots; how many there are."""
    end = 0
    for slot in range(control[USED]):
        spot = spots[slot, column]
        start = spot[OFF] + spot[HEAD]
        for at in range(start, start + spot[STEPS]):
            found[end] = slab[at, 1]
            end += 1
    return end


@kernel
def replace_keys(spots, slab, control, column, old, new):
    """Other keys for those of one of the skylines; the old ones ascend."""
    for slot in range(control[USED]):
        spot = spots[slot, column]
        start = spot[OFF] + spot[HEAD]
        for at in range(start, start + spot[STEPS]):
            slab[at, 1] = new[np.searchsorted(old, slab[at, 1])]


@inlined
def first_after(spot, slab, after):
    """The place of the first step with an anchor after this; the end of the skyline where there is none."""
    low = spot[OFF] + spot[HEAD]
    high = low + spot[STEPS]
    while low < high:
        middle = (low + high) // 2
        if slab[middle, 0] > after:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def add_step(spot, slab, anchor, key, dead):
    """Put a step in its place, and take out those that it outdoes; nothing where it is outdone itself."""
    while spot[STEPS] > 0 and slab[spot[OFF] + spot[HEAD], 0] <= dead:
        spot[HEAD] += 1
        spot[STEPS] -= 1
    start = spot[OFF] + spot[HEAD]
    end = start + spot[STEPS]
    at = first_after(spot, slab, anchor - 1)
    if at < end and slab[at, 1] >= key:
        return
    stay = at
    if stay < end and slab[stay, 0] == anchor:
        stay += 1
    while at > start and slab[at - 1, 1] <= key:
        at -= 1
    if stay == at:  # nobody goes: move up the later ones, or all to the front where the end is reached
        if end == spot[OFF] + spot[ROOM]:
            shift = spot[HEAD]
            for i in range(start, end):
                slab[i - shift, 0], slab[i - shift, 1] = slab[i, 0], slab[i, 1]
            spot[HEAD] = 0
            at, end = at - shift, end - shift
        for i in range(end, at, -1):
            slab[i, 0], slab[i, 1] = slab[i - 1, 0], slab[i - 1, 1]
        spot[STEPS] += 1
    else:
        gap = stay - at - 1
        if gap > 0:
            for i in range(stay, end):
                slab[i - gap, 0], slab[i - gap, 1] = slab[i, 0], slab[i, 1]
            spot[STEPS] -= gap
    slab[at, 0], slab[at, 1] = anchor, key
