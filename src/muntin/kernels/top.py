"""The first pairs of groups, as pairs come and go: bands, and the sweep that writes lists.

Of each group a *band* is kept, for all windows: the pairs, in order, of which fewer than `depth` others are both before
them and stay at least as long. Nobody else can ever be among the `depth` first: those others would have to go earlier.
So a pair that goes is replaced by one that is in the band already, and with pairs in random order the band of a group
with n pairs has about `depth * (1 + ln(n / depth))` of them.

A step of the band is (anchor, label, how many are before it and stay as long). A pair is live in a window when its
anchor is after `now - window`. A list is written for a slot and window when a pair comes that is among its first, or
one of them goes; for the first time after `base`, what it was before is written, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.aggregate import BEFORE
from muntin.kernels.arrays import Int64s
from muntin.kernels.compiled import kernel
from muntin.kernels.skyline import OFF, STEPS
from muntin.kernels.slots import CLOCK, USED

SLOT, WINDOW, TIME, START, LENGTH = 0, 1, 2, 3, 4
"""Where `heads` has of each list: slot, window, time, where its labels begin, and how many there are."""


class Lists(NamedTuple):
    heads: Int64s
    labels: Int64s


@kernel
def _wider(array, rows):
    """The same with room for so many rows."""
    if rows <= len(array):
        return array
    wider = np.empty((max(rows, 2 * len(array)), array.shape[1]), np.int64)
    wider[: len(array)] = array
    return wider


@kernel
def _write(spot, steps, after, depth, labels, end):
    """The labels of the first live pairs; where they end."""
    stop = end + depth
    for at in range(spot[OFF], spot[OFF] + spot[STEPS]):
        if end == stop:
            break
        if steps[at, 0] > after:
            labels[end, 0] = steps[at, 1]
            end += 1
    return end


@kernel
def _goes(spot, steps, anchor, depth):
    """Whether of the first pairs that stay until this anchor or longer one has just this."""
    left = depth
    for at in range(spot[OFF], spot[OFF] + spot[STEPS]):
        if left == 0:
            return False
        if steps[at, 0] == anchor:
            return True
        left -= steps[at, 0] > anchor
    return False


@kernel
def _before(spot, steps, anchor, label, now, windows, counts):
    """How many pairs that stay as long as this one are before it; in `counts`, how many live ones are by window."""
    counts[:] = 0
    longer, last = 0, len(windows) - 1
    for at in range(spot[OFF], spot[OFF] + spot[STEPS]):
        if steps[at, 1] > label:
            break
        longer += steps[at, 0] >= anchor
        age, window = now - steps[at, 0], 0
        while window <= last and windows[window] <= age:
            window += 1
        if window <= last:
            counts[window] += 1
    for window in range(last):
        counts[window + 1] += counts[window]
    return longer


@kernel
def _enter(spot, steps, anchor, label, longer, depth, dead):
    """Put a pair in its place, and take out those that `depth` others outdo now, and those gone."""
    start, end = spot[OFF], spot[OFF] + spot[STEPS]
    to, holding, placed = start, False, False
    a, b, c = np.int64(0), np.int64(0), np.int64(0)
    for at in range(start, end):
        own_anchor, own_label, outdone = steps[at, 0], steps[at, 1], steps[at, 2]
        if not placed and own_label > label:
            a, b, c, holding, placed = anchor, label, longer, True, True
        if own_label >= label and own_anchor <= anchor and (placed or own_anchor < anchor):
            outdone += 1
        stays = own_anchor > dead and outdone < depth
        if holding:
            steps[to, 0], steps[to, 1], steps[to, 2] = a, b, c
            to += 1
            a, b, c, holding = own_anchor, own_label, outdone, stays
        elif stays:
            steps[to, 0], steps[to, 1], steps[to, 2] = own_anchor, own_label, outdone
            to += 1
    if not placed:
        a, b, c, holding = anchor, label, longer, True
    if holding:
        steps[to, 0], steps[to, 1], steps[to, 2] = a, b, c
        to += 1
    spot[STEPS] = to - start


@kernel
def sweep_lists(events, start, stop, windows, depths, base, sums, control):
    """Go through the events from `start` to `stop`, and write a list wherever one may have changed."""
    time, slots, lo, hi, anchor, ints, _, keys, has = events
    kept, _, seen, live, spots, steps = sums
    heads, labels, counts = np.empty((64, 5), np.int64), np.empty((64, 1), np.int64), np.zeros(len(windows), np.int64)
    found, end, n, deepest = 0, 0, start, depths.max()
    while n < stop:
        now, first = time[n], found
        control[CLOCK] += 1
        clock = control[CLOCK]
        while n < stop and time[n] == now:
            slot = np.int64(slots[n])
            spot = spots[slot, 0]
            comes = has[n, 0]
            longer = 0
            if comes:
                longer = _before(spot, steps, anchor[n], keys[n, 0], now, windows, counts)
            # A pair that comes when it would have left a smaller window must not be in what that one was before.
            left = comes and lo[n] > 0 and anchor[n] == now - windows[lo[n] - 1]
            for window in range(lo[n] - left, hi[n]):
                if window >= lo[n]:
                    was = kept[slot, window, 0]
                    kept[slot, window, 0] += ints[n, 0]
                    live[window] += np.int64(kept[slot, window, 0] > 0) - np.int64(was > 0)
                if seen[slot, window] == clock:
                    continue
                if comes and counts[window] >= depths[window]:
                    continue
                if not comes and not _goes(spot, steps, anchor[n], depths[window]):
                    continue
                heads = _wider(heads, found + 2)
                if seen[slot, window] < base:
                    labels = _wider(labels, end + depths[window])
                    heads[found, SLOT], heads[found, WINDOW], heads[found, TIME] = slot, window, BEFORE
                    heads[found, START] = end
                    end = _write(spot, steps, now - 1 - windows[window], depths[window], labels, end)
                    heads[found, LENGTH] = end - heads[found, START]
                    found += 1
                seen[slot, window] = clock
                heads[found, SLOT], heads[found, WINDOW], heads[found, TIME] = slot, window, now
                found += 1
            if comes and longer < deepest:
                dead = now - 1 - windows[-1]
                _enter(spot, steps, anchor[n], keys[n, 0], longer, deepest, dead)
            n += 1
        for row in range(first, found):
            if heads[row, TIME] == now:
                window = heads[row, WINDOW]
                labels = _wider(labels, end + depths[window])
                heads[row, START] = end
                end = _write(spots[heads[row, SLOT], 0], steps, now - windows[window], depths[window], labels, end)
                heads[row, LENGTH] = end - heads[row, START]
    return heads[:found], labels[:end, 0]


@kernel
def sweep_ticks(events, start, stop, windows, depths, every, until, cursor, sums, control, most):
    """Go through the events, and write at each multiple of `every` the lists of all slots and windows with pairs.

    `cursor[0]` is the next such instant; where there are no events, all up to `until` are written. Stops after the
    instant at which there are more than `most` labels.
    """
    time, slots, lo, hi, anchor, ints, _, keys, has = events
    kept, _, _, live, spots, steps = sums
    heads, labels, counts = np.empty((64, 5), np.int64), np.empty((64, 1), np.int64), np.zeros(len(windows), np.int64)
    found, end, n, deepest = 0, 0, start, depths.max()
    while n < stop or start == stop:
        now = time[n] if n < stop else until + 1
        while cursor[0] < now and cursor[0] <= until:
            tick = cursor[0]
            if live.sum() == 0:  # nothing to tell until the next event
                cursor[0] = max(tick, -(-now // every) * every)
                break
            for slot in range(control[USED]):
                for window in range(len(windows)):
                    if kept[slot, window, 0] > 0:
                        heads, labels = _wider(heads, found + 1), _wider(labels, end + depths[window])
                        heads[found, SLOT], heads[found, WINDOW], heads[found, TIME] = slot, window, tick
                        heads[found, START] = end
                        end = _write(spots[slot, 0], steps, tick - windows[window], depths[window], labels, end)
                        heads[found, LENGTH] = end - heads[found, START]
                        found += 1
            cursor[0] += every
            if end > most:
                break
        if n == stop or end > most:
            break
        own = np.int64(slots[n])
        for window in range(lo[n], hi[n]):
            was = kept[own, window, 0]
            kept[own, window, 0] += ints[n, 0]
            live[window] += np.int64(kept[own, window, 0] > 0) - np.int64(was > 0)
        if has[n, 0]:
            longer = _before(spots[own, 0], steps, anchor[n], keys[n, 0], now, windows, counts)
            if longer < deepest:
                dead = now - 1 - windows[-1]
                _enter(spots[own, 0], steps, anchor[n], keys[n, 0], longer, deepest, dead)
        n += 1
    return heads[:found], labels[:end, 0]


@kernel
def write_lists(slots, chosen, since, windows, depths, sums):
    """The lists at `since` of these slots and windows, as of the time before."""
    _, _, _, _, spots, steps = sums
    heads, labels, end = np.empty((len(slots), 5), np.int64), np.empty((64, 1), np.int64), 0
    for n in range(len(slots)):
        slot, window = slots[n], chosen[n]
        labels = _wider(labels, end + depths[window])
        heads[n, SLOT], heads[n, WINDOW], heads[n, TIME], heads[n, START] = slot, window, BEFORE, end
        end = _write(spots[slot, 0], steps, since - windows[window], depths[window], labels, end)
        heads[n, LENGTH] = end - heads[n, START]
    return heads, labels[:end, 0]
