"""How one row finds its partners: a scan of one buffer, from the newest row back to the first that nobody can want.

The parts are inlined into `kernels.join.probe_insert`, which does not count references: so what belongs together is
handed on as a tuple, and costs nothing. `slicing`, `scan` and `out` are what `kernels.join` says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.compiled import inlined, kernel_in_place
from muntin.kernels.index import CLASS_BITS, CLASS_MASK, HEAD, OFF, count_of, mask_of


class Prober(NamedTuple):
    """The row that looks for partners: its side, class, number and time, and what it has reached on the other axis."""

    side: np.int64
    cls: np.int64
    row: np.int64
    ts: np.int64
    reached: np.int64


class Partners(NamedTuple):
    """The buffer that is scanned: its place in the slab, the mask that wraps it, its newest row, how many rows."""

    off: np.int64
    mask: np.int64
    newest: np.int64
    rows: np.int64


@inlined
def partners_of(slots, slot, side):
    """The rows of a key on one side; there must be some."""
    rows = count_of(slots, slot, side)
    return Partners(slots[slot, OFF + side], mask_of(slots, slot, side), slots[slot, HEAD + side] + rows - 1, rows)


@inlined
def entry_of(partners, back):
    """Where in the slab the row lies that is `back` rows before the newest."""
    return partners.off + ((partners.newest - back) & partners.mask)


@kernel_in_place
def first_of_age(slab, partners, reached, low):
    """How many rows back from the newest the first one is that has reached an age."""
    start, end = np.int64(0), np.int64(partners.rows)
    while start < end:
        middle = (start + end) >> 1
        if reached - slab[entry_of(partners, middle), 0] >= low:
            end = middle
        else:
            start = middle + 1
    return start


@inlined
def window_of(slicing, side, age):
    """The first window of a side that holds an age: guessed by the age's bucket, searched on where one ends in it."""
    guess = slicing.guess
    guessed = np.int64(guess[np.uint64(side * (len(guess) >> 1)) + np.uint64(age >> slicing.bucket[side])])
    window = guessed >> 1
    if guessed & 1:
        while age >= slicing.windows[side, window]:
            window += 1
    return window


@inlined
def horizon_of(horizon, earlier, side, own, theirs):
    """The age from which nobody wants a pair: of a row of `side` and class `own`, and a partner of class `theirs`."""
    return horizon[earlier, theirs, own] if side else horizon[earlier, own, theirs]


@inlined
def is_wanted(routes, earlier, side, own, theirs, window):
    """Whether some query wants both classes of row and reads that far."""
    readers, wants = routes
    queries = wants[side, own, 0] & wants[1 - side, theirs, 0] & readers[earlier, window, 0]
    for w in range(1, wants.shape[2]):
        queries |= wants[side, own, w] & wants[1 - side, theirs, w] & readers[earlier, window, w]
    return queries != 0


@inlined
def put_pair(out, found, prober, partner, ts, tag):
    out.rows[prober.side, found] = prober.row
    out.rows[1 - prober.side, found] = partner >> CLASS_BITS
    out.ts[found] = ts
    out.tag[found] = tag


@inlined
def meet_later(slab, partners, back, prober, slicing, out, found):
    """Find the partners that are later than the row; where the others begin, and how many pairs there are now."""
    side, own, horizon = prober.side, prober.cls, slicing.horizon
    tabled = horizon.shape[1] > 0
    while back < partners.rows:
        entry = entry_of(partners, back)
        age = slab[entry, 0] - prober.reached
        if age <= 0:
            break
        back += 1
        partner = slab[entry, 1]
        theirs = partner & CLASS_MASK
        if age >= slicing.reach[1 - side, theirs] or (tabled and age >= horizon_of(horizon, side, side, own, theirs)):
            continue
        window = window_of(slicing, side, age)
        if tabled or is_wanted(slicing.routes, side, side, own, theirs, window):
            put_pair(out, found, prober, partner, slab[entry, 0], 2 * window + side)
            found += 1
    return back, found


@inlined
def meet_earlier(slab, partners, back, limit, band, prober, slicing, out, found):
    """Find the partners from `back` on that are younger than `limit`, beginning in the slice `band`.

    Returns where the scan ended, the slice it ended in, pairs placed by their age, and how many pairs there are now.
    The partner at the limit counts as looked at unless another pass goes on there.
    """
    side, own, other, horizon = prober.side, prober.cls, 1 - prober.side, slicing.horizon
    # With one class on each side, whoever is within reach is wanted.
    plain, tabled = horizon.shape[1] == 1 and horizon.shape[2] == 1, horizon.shape[1] > 0
    edge, window, routed = slicing.cuts[other, band], slicing.first[other, band] if band else np.int64(0), np.int64(0)
    inner = slicing.windows[other, window]
    while back < partners.rows:
        entry = entry_of(partners, back)
        age = prober.reached - slab[entry, 0]
        back += 1
        if age >= limit:
            back -= limit < slicing.reach[side, own]
            break
        if age >= edge:
            while age >= edge:
                band += 1
                edge = slicing.cuts[other, band]
            window = slicing.first[other, band]
            inner = slicing.windows[other, window]
        partner = slab[entry, 1]
        theirs, within, wanted = partner & CLASS_MASK, window, True
        if not plain and tabled:
            wanted = age < horizon_of(horizon, other, side, own, theirs)
        if age >= inner and wanted:
            routed += 1
            within = window_of(slicing, other, age)
        if not tabled:
            wanted = is_wanted(slicing.routes, other, side, own, theirs, within)
        if wanted:
            put_pair(out, found, prober, partner, prober.ts, 2 * within + other)
            found += 1
    return back, band, routed, found


@inlined
def meet_newest(slab, partners, back, limit, prober, slicing, out, found):
    """Find the partners from `back` on that are younger than `limit`, until each query has the newest that it wants."""
    side, other, routes = prober.side, 1 - prober.side, slicing.routes
    asking = routes.wants[side, prober.cls, 0]
    while back < partners.rows and asking != 0:
        entry = entry_of(partners, back)
        age = prober.reached - slab[entry, 0]
        back += 1
        if age >= limit:
            break
        partner = slab[entry, 1]
        window = window_of(slicing, other, age)
        answered = asking & routes.wants[other, partner & CLASS_MASK, 0] & routes.readers[other, window, 0]
        if answered != 0:
            put_pair(out, found, prober, partner, prober.ts, 2 * window + other)
            found += 1
            asking &= ~answered
    return back, found


@inlined
def find_partners(slab, partners, prober, scan, slicing, out, found):
    """Find the partners of one row whose ages are those of the pass.

    Returns how many pairs there are now, partners looked at, cuts stepped over, and pairs placed by their age.
    """
    side, other = prober.side, 1 - prober.side
    limit = min(slicing.reach[side, prober.cls], scan.ages[other, 1])
    low = max(slicing.begin[side, prober.cls], scan.ages[other, 0])
    if scan.early:  # first those that are later than this row, as far as it can be wanted
        low = 1 - slicing.keep[side, prober.cls]
    if low >= limit:  # of these ages nothing is wanted
        return found, np.int64(0), np.int64(0), np.int64(0)
    start, skipped = np.int64(0), np.int64(0)
    if low != 0:
        start = first_of_age(slab, partners, prober.reached, low)
    while low > 0 and low >= slicing.cuts[other, skipped]:
        skipped += 1
    back = start
    if slicing.newest[side, prober.cls]:
        back, found = meet_newest(slab, partners, back, limit, prober, slicing, out, found)
        return found, back - start, np.int64(0), np.int64(0)
    if scan.early:
        back, found = meet_later(slab, partners, back, prober, slicing, out, found)
    back, band, routed, found = meet_earlier(slab, partners, back, limit, skipped, prober, slicing, out, found)
    return found, back - start, band - skipped, routed
