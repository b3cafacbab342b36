"""Aggregates over pairs that come and go: groups by number, cells of pairs, and the sweep through time.

Groups have *slots*: a hash table from 128 bits to numbers that are used again when a group is gone. Pairs that come and
go together are combined into a *cell* first. The sweep goes through the comings and goings of cells in order of time; a
cell that comes is added to all lanes from its own on, one that goes is taken out of one lane.

What can be subtracted is kept as sums per slot and lane: `ints`, exact, wide ones as limbs of 32 bits, and `doubles`,
as pairs of doubles of which the second holds what the first has no room for. What cannot be subtracted (MIN, MAX) is
kept as *stairs* per slot, for all lanes: the (anchor, key) with no other that has both a later anchor and a larger key;
so anchors ascend and keys descend, and the largest key with an anchor after some time is that of the first such step.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from muntin.kernels.arrays import Bools, Floats, Int32s, Int64s
from muntin.kernels.hashing import mix

USED, FREE, LIVE, CLOCK, STAIRS_END = 0, 1, 2, 3, 4
"""Where `control` keeps: slots ever used, free-slot chain, groups, instants gone through, end of the used stairs."""
CONTROLS = 5
BEFORE = -(1 << 62)
"""The time of a row that says what was the case before all others."""
NEVER = 1 << 62
OFF, ROOM, HEAD, STEPS = 0, 1, 2, 3
"""Where `spots` keeps the stairs of a slot: place in the slab, room, first step, how many steps."""


class Slots(NamedTuple):
    """Groups by number: `table` leads to slots, `keys` are their 128 bits, `refs` how many cells there are of each;
    `rows` is the caller's, and the free-slot chain where the slot is not used."""

    control: Int64s
    table: Int32s
    keys: Int64s
    refs: Int64s
    rows: Int64s


class Sums(NamedTuple):
    """What is kept per slot and lane; `seen` is the last instant at which a row was due, `live` per lane how many slots
    have pairs."""

    ints: Int64s
    doubles: Floats
    seen: Int64s
    live: Int64s
    spots: Int64s
    stairs: Int64s


class Events(NamedTuple):
    """Comings and goings in order of time: of which slot, in the lanes from `lo` to `hi`, with what is to be added.

    `keys` and `has` are for what comes only: what MIN and MAX compare, and where there is such a value.
    """

    time: Int64s
    slot: Int32s
    lo: Int32s
    hi: Int32s
    anchor: Int64s
    ints: Int64s
    doubles: Floats
    keys: Int64s
    has: Bools


class Out(NamedTuple):
    """Rows: values of a slot in a lane at a time."""

    slot: Int32s
    lane: Int32s
    time: Int64s
    ints: Int64s
    doubles: Floats
    keys: Int64s
    has: Bools


# -- slots ----------------------------------------------------------------------------------------------------------


@numba.njit(cache=True)
def find_slots(slots, h1, h2, start, found, born):
    """The slot of each key from `start` on, new ones given out; where it stopped for want of room, and how many new."""
    control, table, keys, refs, rows = slots
    last, births = np.int64(len(table) - 1), 0
    for n in range(start, len(h1)):
        place = np.int64(mix(h1[n], h2[n])) & last
        slot = np.int64(table[place])
        while slot >= 0 and (keys[slot, 0] != h1[n] or keys[slot, 1] != h2[n]):
            place = (place + 1) & last
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


@numba.njit(cache=True)
def fill_table(slots, used):
    """Put the slots in use into an empty hash table."""
    _, table, keys, _, _ = slots
    last = np.int64(len(table) - 1)
    for slot in used:
        place = np.int64(mix(keys[slot, 0], keys[slot, 1])) & last
        while table[place] >= 0:
            place = (place + 1) & last
        table[place] = slot


@numba.njit(cache=True)
def drop_cells(slots, spots, gone):
    """One cell less of each of these slots; those without any are free."""
    control, table, keys, refs, rows = slots
    last = np.int64(len(table) - 1)
    for n in range(len(gone)):
        slot = np.int64(gone[n])
        refs[slot] -= 1
        if refs[slot] > 0:
            continue
        place = np.int64(mix(keys[slot, 0], keys[slot, 1])) & last
        while table[place] != slot:
            place = (place + 1) & last
        hole, at = place, (place + 1) & last
        while table[at] >= 0:  # move up whoever would not be found behind a hole
            other = np.int64(table[at])
            home = np.int64(mix(keys[other, 0], keys[other, 1])) & last
            if (at - home) & last >= (at - hole) & last:
                table[hole] = other
                hole = at
            at = (at + 1) & last
        table[hole] = -1
        spots[slot] = 0
        rows[slot] = control[FREE]
        control[FREE] = slot
        control[LIVE] -= 1


# -- cells ----------------------------------------------------------------------------------------------------------


@numba.njit(cache=True)
def number_cells(slot, first, second):
    """The number of each pair's cell, by these three, and for each cell its first pair."""
    n = len(slot)
    size = 64
    while size < 2 * n:
        size *= 2
    last = np.int64(size - 1)
    table = np.full(size, -1, np.int64)
    ids, firsts, cells = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for i in range(n):
        place = np.int64(mix(first[i] * np.int64(0x2545F4914F6CDD1D) + second[i], np.int64(slot[i]))) & last
        while True:
            cell = table[place]
            if cell < 0:
                table[place] = cell = cells
                firsts[cells] = i
                cells += 1
                break
            at = firsts[cell]
            if slot[at] == slot[i] and first[at] == first[i] and second[at] == second[i]:
                break
            place = (place + 1) & last
        ids[i] = cell
    return ids, firsts[:cells]


@numba.njit(cache=True)
def fill_cells(ids, ints, doubles, keys, has, cell_ints, cell_doubles, cell_keys, cell_has):
    """Add up the pairs of each cell."""
    for n in range(len(ids)):
        cell = ids[n]
        for c in range(ints.shape[1]):
            cell_ints[cell, c] += ints[n, c]
        for c in range(doubles.shape[1]):
            high, low = _add(cell_doubles[cell, 2 * c], cell_doubles[cell, 2 * c + 1], doubles[n, c], 0.0)
            cell_doubles[cell, 2 * c], cell_doubles[cell, 2 * c + 1] = high, low
        for c in range(keys.shape[1]):
            if has[n, c] and (not cell_has[cell, c] or keys[n, c] > cell_keys[cell, c]):
                cell_keys[cell, c], cell_has[cell, c] = keys[n, c], True


@numba.njit(inline="always")
def _two_sum(a, b):
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


@numba.njit(inline="always")
def _add(a_high, a_low, b_high, b_low):
    """The sum of two numbers of two doubles each; exact as long as 106 bits are enough."""
    s, e = _two_sum(a_high, b_high)
    t, f = _two_sum(a_low, b_low)
    e += t
    s, e = s + e, e - ((s + e) - s)
    e += f
    high = s + e
    return high, e - (high - s)


def add_wide(a_high: Floats, a_low: Floats, b_high: Floats, b_low: Floats) -> tuple[Floats, Floats]:
    """`_add` of whole arrays."""
    high, low = np.empty_like(a_high), np.empty_like(a_low)
    _add_arrays(a_high, a_low, b_high, b_low, high, low)
    return high, low


@numba.njit(cache=True)
def _add_arrays(a_high, a_low, b_high, b_low, high, low):
    for n in range(len(a_high)):
        high[n], low[n] = _add(a_high[n], a_low[n], b_high[n], b_low[n])


# -- stairs ---------------------------------------------------------------------------------------------------------


@numba.njit(cache=True)
def reserve(spots, stairs, control, slots, more):
    """Make room for `more` steps on all stairs of each of these slots; False where the slab is too small for that."""
    needed = control[STAIRS_END]
    for n in range(len(slots)):
        for e in range(spots.shape[1]):
            spot = spots[slots[n], e]
            if spot[STEPS] + more[n] > spot[ROOM]:
                needed += 2 * (spot[STEPS] + more[n])
    if needed > len(stairs):
        return False
    for n in range(len(slots)):
        for e in range(spots.shape[1]):
            spot = spots[slots[n], e]
            if spot[STEPS] + more[n] > spot[ROOM]:
                _move(spot, stairs, stairs, control, 2 * (spot[STEPS] + more[n]))
    return True


@numba.njit(cache=True)
def _move(spot, old, new, control, room):
    start, end = spot[OFF] + spot[HEAD], control[STAIRS_END]
    for i in range(spot[STEPS]):
        for column in range(old.shape[1]):
            new[end + i, column] = old[start + i, column]
    spot[OFF], spot[ROOM], spot[HEAD] = end, room, 0
    control[STAIRS_END] += room


@numba.njit(cache=True)
def repack_stairs(spots, old, new, control):
    """Move all stairs into another slab, without spare room."""
    control[STAIRS_END] = 0
    for slot in range(control[USED]):
        for e in range(spots.shape[1]):
            _move(spots[slot, e], old, new, control, spots[slot, e, STEPS])


@numba.njit(cache=True)
def count_steps(spots, control):
    total = 0
    for slot in range(control[USED]):
        for e in range(spots.shape[1]):
            total += spots[slot, e, STEPS]
    return total


@numba.njit(cache=True)
def gather_keys(spots, stairs, control, column, found):
    """The keys of one of the stairs of all slots; how many there are."""
    end = 0
    for slot in range(control[USED]):
        spot = spots[slot, column]
        start = spot[OFF] + spot[HEAD]
        for at in range(start, start + spot[STEPS]):
            found[end] = stairs[at, 1]
            end += 1
    return end


@numba.njit(cache=True)
def replace_keys(spots, stairs, control, column, old, new):
    """Other keys for those of one of the stairs; the old ones ascend."""
    for slot in range(control[USED]):
        spot = spots[slot, column]
        start = spot[OFF] + spot[HEAD]
        for at in range(start, start + spot[STEPS]):
            stairs[at, 1] = new[np.searchsorted(old, stairs[at, 1])]


@numba.njit(inline="always")
def _first_after(spot, stairs, after):
    """The place of the first step with an anchor after this; the end of the stairs where there is none."""
    low = spot[OFF] + spot[HEAD]
    high = low + spot[STEPS]
    while low < high:
        middle = (low + high) // 2
        if stairs[middle, 0] > after:
            high = middle
        else:
            low = middle + 1
    return low


@numba.njit(cache=True)
def _climb(spot, stairs, anchor, key, dead):
    """Put a step in its place, and take out those that it outdoes; nothing where it is outdone itself."""
    while spot[STEPS] > 0 and stairs[spot[OFF] + spot[HEAD], 0] <= dead:
        spot[HEAD] += 1
        spot[STEPS] -= 1
    start = spot[OFF] + spot[HEAD]
    end = start + spot[STEPS]
    at = _first_after(spot, stairs, anchor - 1)
    if at < end and stairs[at, 1] >= key:
        return
    stay = at
    if stay < end and stairs[stay, 0] == anchor:
        stay += 1
    while at > start and stairs[at - 1, 1] <= key:
        at -= 1
    if stay == at:  # nobody goes: move up the later ones, or all to the front where the end is reached
        if end == spot[OFF] + spot[ROOM]:
            shift = spot[HEAD]
            for i in range(start, end):
                stairs[i - shift, 0], stairs[i - shift, 1] = stairs[i, 0], stairs[i, 1]
            spot[HEAD] = 0
            at, end = at - shift, end - shift
        for i in range(end, at, -1):
            stairs[i, 0], stairs[i, 1] = stairs[i - 1, 0], stairs[i - 1, 1]
        spot[STEPS] += 1
    else:
        gap = stay - at - 1
        if gap > 0:
            for i in range(stay, end):
                stairs[i - gap, 0], stairs[i - gap, 1] = stairs[i, 0], stairs[i, 1]
            spot[STEPS] -= gap
    stairs[at, 0], stairs[at, 1] = anchor, key


# -- through time ----------------------------------------------------------------------------------------------------


@numba.njit(inline="always")
def _copy(row, slot, lane, time, after, ints, doubles, spots, stairs, out):
    """Write the values of a slot in a lane as a row; `after` is the anchor up to which pairs are gone."""
    out_slot, out_lane, out_time, out_ints, out_doubles, out_keys, out_has = out
    out_slot[row], out_lane[row], out_time[row] = slot, lane, time
    for c in range(ints.shape[2]):
        out_ints[row, c] = ints[slot, lane, c]
    for c in range(doubles.shape[2]):
        out_doubles[row, c] = doubles[slot, lane, c]
    for e in range(spots.shape[1]):
        spot = spots[slot, e]
        at = _first_after(spot, stairs, after)
        out_has[row, e] = at < spot[OFF] + spot[HEAD] + spot[STEPS]
        out_keys[row, e] = stairs[at, 1] if out_has[row, e] else 0


@numba.njit(inline="always")
def _apply(n, slot, lane, event_ints, event_doubles, counts, ints, doubles, live):
    """Add an event to a lane; a sum of doubles over nothing is exactly zero."""
    before = ints[slot, lane, 0]
    for c in range(ints.shape[2]):
        ints[slot, lane, c] += event_ints[n, c]
    live[lane] += np.int64(ints[slot, lane, 0] > 0) - np.int64(before > 0)
    for c in range(len(counts)):
        high, low = 0.0, 0.0
        if ints[slot, lane, counts[c]] != 0:
            high, low = _add(
                doubles[slot, lane, 2 * c],
                doubles[slot, lane, 2 * c + 1],
                event_doubles[n, 2 * c],
                event_doubles[n, 2 * c + 1],
            )
        doubles[slot, lane, 2 * c], doubles[slot, lane, 2 * c + 1] = high, low


@numba.njit(cache=True)
def sweep_changes(events, start, stop, windows, counts, since, base, sums, control, out):
    """Go through the events from `start` to `stop`, and write a row for each instant, slot and lane that they touch.

    A slot and lane not touched since the instant `base` gets a row before it that says what was the case at `since`.
    Returns the number of rows. `counts` says which of the ints counts the values of each sum of doubles.
    """
    time, slots, lo, hi, anchor, event_ints, event_doubles, keys, has = events
    ints, doubles, seen, live, spots, stairs = sums
    found, n, oldest = 0, start, windows[len(windows) - 1]
    while n < stop:
        now, first = time[n], found
        control[CLOCK] += 1
        clock = control[CLOCK]
        while n < stop and time[n] == now:
            slot = np.int64(slots[n])
            for lane in range(lo[n], hi[n]):
                if seen[slot, lane] < clock:
                    if seen[slot, lane] < base:
                        _copy(found, slot, lane, BEFORE, since - windows[lane], ints, doubles, spots, stairs, out)
                        found += 1
                    seen[slot, lane] = clock
                    out.slot[found], out.lane[found], out.time[found] = slot, lane, now
                    found += 1
                _apply(n, slot, lane, event_ints, event_doubles, counts, ints, doubles, live)
            for e in range(spots.shape[1]):
                if has[n, e]:
                    _climb(spots[slot, e], stairs, anchor[n], keys[n, e], now - oldest)
            n += 1
        for row in range(first, found):
            if out.time[row] == now:
                of, within = np.int64(out.slot[row]), np.int64(out.lane[row])
                _copy(row, of, within, now, now - windows[within], ints, doubles, spots, stairs, out)
    return found


@numba.njit(cache=True)
def sweep_ticks(events, windows, counts, every, until, cursor, sums, control, out):
    """Go through the events, and write at each multiple of `every` up to `until` a row for each slot with pairs.

    `cursor` = events done, next tick, rows written; False where there was no room for the next tick's rows.
    """
    time, slots, lo, hi, anchor, event_ints, event_doubles, keys, has = events
    ints, doubles, _, live, spots, stairs = sums
    oldest = windows[len(windows) - 1]
    while True:
        n = cursor[0]
        now = time[n] if n < len(time) else np.int64(NEVER)
        while cursor[1] < now and cursor[1] <= until:
            total = live.sum()
            if total == 0:  # nothing to tell until the next event
                cursor[1] = until + 1 if now == NEVER else -(-now // every) * every
                continue
            if cursor[2] + total > len(out.slot):
                return False
            tick = cursor[1]
            for slot in range(control[USED]):
                for lane in range(len(windows)):
                    if ints[slot, lane, 0] > 0:
                        after = tick - windows[lane]
                        _copy(cursor[2], slot, lane, tick, after, ints, doubles, spots, stairs, out)
                        cursor[2] += 1
            cursor[1] += every
        if n == len(time):
            return True
        own = np.int64(slots[n])
        for lane in range(lo[n], hi[n]):
            _apply(n, own, lane, event_ints, event_doubles, counts, ints, doubles, live)
        for e in range(spots.shape[1]):
            if has[n, e]:
                _climb(spots[own, e], stairs, anchor[n], keys[n, e], now - oldest)
        cursor[0] += 1


@numba.njit(cache=True)
def write_standing(slots, lanes, since, time, windows, sums, out):
    """Write the values at `since` of these slots and lanes as rows of a time."""
    ints, doubles, _, _, spots, stairs = sums
    for n in range(len(slots)):
        slot, lane = np.int64(slots[n]), np.int64(lanes[n])
        _copy(n, slot, lane, time, since - windows[lane], ints, doubles, spots, stairs, out)


@numba.njit(cache=True)
def sweep_presence(events, sums, rows, out_time, out_lane, out_owner, out_step):
    """Go through the events of values, and tell their owners where one appears in a lane (1) or is gone (-1)."""
    time, slots, lo, hi, _, event_ints, _, _, _ = events
    ints, _, _, live, _, _ = sums
    found = 0
    for n in range(len(time)):
        slot = np.int64(slots[n])
        for lane in range(lo[n], hi[n]):
            before = ints[slot, lane, 0]
            ints[slot, lane, 0] += event_ints[n, 0]
            step = np.int64(ints[slot, lane, 0] > 0) - np.int64(before > 0)
            live[lane] += step
            if step != 0:
                out_time[found], out_lane[found], out_owner[found], out_step[found] = time[n], lane, rows[slot], step
                found += 1
    return found
