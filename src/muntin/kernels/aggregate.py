"""Aggregates over pairs that come and go: cells of pairs, and the sweep through time.

Groups are slots (`kernels.slots`). Pairs that come and go together are combined into a *cell* first. The sweep goes
through the comings and goings of cells in order of time; a cell that comes is added to all windows from its own on, one
that goes is taken out of one window.

What can be subtracted is kept as sums per slot and window: `ints`, exact, wide ones as limbs of 32 bits, and `doubles`,
as pairs of doubles of which the second holds what the first has no room for. What cannot be subtracted (MIN, MAX) is
kept as a skyline per slot, for all windows (`kernels.skyline`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.arrays import Bools, Floats, Int32s, Int64s
from muntin.kernels.compiled import inlined, kernel
from muntin.kernels.hash_table import home_of, place_after
from muntin.kernels.skyline import HEAD, OFF, STEPS, add_step, first_after
from muntin.kernels.slots import CLOCK, USED

BEFORE = -(1 << 62)
"""The time of a row that says what was the case before all others."""
NEVER = 1 << 62


class Sums(NamedTuple):
    """What is kept per slot and window; `seen` is the last instant at which a row was due, `live` per window how many
    slots have pairs."""

    ints: Int64s
    doubles: Floats
    seen: Int64s
    live: Int64s
    spots: Int64s
    skylines: Int64s


class Events(NamedTuple):
    """Comings and goings in order of time: of which slot, in the windows from `lo` to `hi`, with what is to be added.

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
    """Rows: values of a slot in a window at a time."""

    slot: Int32s
    window: Int32s
    time: Int64s
    ints: Int64s
    doubles: Floats
    keys: Int64s
    has: Bools


# -- cells ----------------------------------------------------------------------------------------------------------


@kernel
def number_cells(slot, first, second):
    """The number of each pair's cell, by these three, and for each cell its first pair."""
    n = len(slot)
    size = 64
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1, np.int64)
    ids, firsts, cells = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for i in range(n):
        place = home_of(table, first[i] * np.int64(0x2545F4914F6CDD1D) + second[i], np.int64(slot[i]))
        while table[place] >= 0:
            at = firsts[table[place]]
            if slot[at] == slot[i] and first[at] == first[i] and second[at] == second[i]:
                break
            place = place_after(table, place)
        if table[place] < 0:
            table[place], firsts[cells] = cells, i
            cells += 1
        ids[i] = table[place]
    return ids, firsts[:cells]


@kernel
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


@inlined
def _two_sum(a, b):
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


@inlined
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


@kernel
def _add_arrays(a_high, a_low, b_high, b_low, high, low):
    for n in range(len(a_high)):
        high[n], low[n] = _add(a_high[n], a_low[n], b_high[n], b_low[n])


# -- through time ----------------------------------------------------------------------------------------------------


@inlined
def _copy(row, slot, window, time, after, ints, doubles, spots, skylines, out):
    """Write the values of a slot in a window as a row; `after` is the anchor up to which pairs are gone."""
    out_slot, out_window, out_time, out_ints, out_doubles, out_keys, out_has = out
    out_slot[row], out_window[row], out_time[row] = slot, window, time
    for c in range(ints.shape[2]):
        out_ints[row, c] = ints[slot, window, c]
    for c in range(doubles.shape[2]):
        out_doubles[row, c] = doubles[slot, window, c]
    for e in range(spots.shape[1]):
        spot = spots[slot, e]
        at = first_after(spot, skylines, after)
        out_has[row, e] = at < spot[OFF] + spot[HEAD] + spot[STEPS]
        out_keys[row, e] = skylines[at, 1] if out_has[row, e] else 0


@inlined
def _apply(n, slot, window, event_ints, event_doubles, counts, ints, doubles, live):
    """Add an event to a window; a sum of doubles over nothing is exactly zero."""
    before = ints[slot, window, 0]
    for c in range(ints.shape[2]):
        ints[slot, window, c] += event_ints[n, c]
    live[window] += np.int64(ints[slot, window, 0] > 0) - np.int64(before > 0)
    for c in range(len(counts)):
        high, low = 0.0, 0.0
        if ints[slot, window, counts[c]] != 0:
            high, low = _add(
                doubles[slot, window, 2 * c],
                doubles[slot, window, 2 * c + 1],
                event_doubles[n, 2 * c],
                event_doubles[n, 2 * c + 1],
            )
        doubles[slot, window, 2 * c], doubles[slot, window, 2 * c + 1] = high, low


@kernel
def sweep_changes(events, start, stop, windows, counts, since, base, sums, control, out):
    """Go through the events from `start` to `stop`, and write a row for each instant, slot and window that they touch.

    A slot and window not touched since the instant `base` gets a row before it that says what was the case at `since`.
    Returns the number of rows. `counts` says which of the ints counts the values of each sum of doubles.
    """
    time, slots, lo, hi, anchor, event_ints, event_doubles, keys, has = events
    ints, doubles, seen, live, spots, skylines = sums
    found, n, oldest = 0, start, windows[len(windows) - 1]
    while n < stop:
        now, first = time[n], found
        control[CLOCK] += 1
        clock = control[CLOCK]
        while n < stop and time[n] == now:
            slot = np.int64(slots[n])
            for window in range(lo[n], hi[n]):
                if seen[slot, window] < clock:
                    if seen[slot, window] < base:
                        _copy(found, slot, window, BEFORE, since - windows[window], ints, doubles, spots, skylines, out)
                        found += 1
                    seen[slot, window] = clock
                    out.slot[found], out.window[found], out.time[found] = slot, window, now
                    found += 1
                _apply(n, slot, window, event_ints, event_doubles, counts, ints, doubles, live)
            for e in range(spots.shape[1]):
                if has[n, e]:
                    add_step(spots[slot, e], skylines, anchor[n], keys[n, e], now - oldest)
            n += 1
        for row in range(first, found):
            if out.time[row] == now:
                of, within = np.int64(out.slot[row]), np.int64(out.window[row])
                _copy(row, of, within, now, now - windows[within], ints, doubles, spots, skylines, out)
    return found


@kernel
def sweep_ticks(events, windows, counts, every, until, cursor, sums, control, out):
    """Go through the events, and write at each multiple of `every` up to `until` a row for each slot with pairs.

    `cursor` = events done, next tick, rows written; False where there was no room for the next tick's rows.
    """
    time, slots, lo, hi, anchor, event_ints, event_doubles, keys, has = events
    ints, doubles, _, live, spots, skylines = sums
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
                for window in range(len(windows)):
                    if ints[slot, window, 0] > 0:
                        after = tick - windows[window]
                        _copy(cursor[2], slot, window, tick, after, ints, doubles, spots, skylines, out)
                        cursor[2] += 1
            cursor[1] += every
        if n == len(time):
            return True
        own = np.int64(slots[n])
        for window in range(lo[n], hi[n]):
            _apply(n, own, window, event_ints, event_doubles, counts, ints, doubles, live)
        for e in range(spots.shape[1]):
            if has[n, e]:
                add_step(spots[own, e], skylines, anchor[n], keys[n, e], now - oldest)
        cursor[0] += 1


@kernel
def write_standing(slots, chosen, since, time, windows, sums, out):
    """Write the values at `since` of these slots and windows as rows of a time."""
    ints, doubles, _, _, spots, skylines = sums
    for n in range(len(slots)):
        slot, window = np.int64(slots[n]), np.int64(chosen[n])
        _copy(n, slot, window, time, since - windows[window], ints, doubles, spots, skylines, out)


@kernel
def sweep_presence(events, sums, rows, out_time, out_window, out_owner, out_step):
    """Go through the events of values, and tell their owners where one appears in a window (1) or is gone (-1)."""
    time, slots, lo, hi, _, event_ints, _, _, _ = events
    ints, _, _, live, _, _ = sums
    found = 0
    for n in range(len(time)):
        slot = np.int64(slots[n])
        for window in range(lo[n], hi[n]):
            before = ints[slot, window, 0]
            ints[slot, window, 0] += event_ints[n, 0]
            step = np.int64(ints[slot, window, 0] > 0) - np.int64(before > 0)
            live[window] += step
            if step != 0:
                out_time[found], out_window[found], out_owner[found], out_step[found] = (
                    time[n],
                    window,
                    rows[slot],
                    step,
                )
                found += 1
    return found
