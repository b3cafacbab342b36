"""Members of owners as chains through arrays: `heads[owner]` is the first, `after[member]` the next, -1 the end.

Owners and members are slots (`kernels.slots`). Members are only ever let go with their owner, all at once.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.compiled import kernel
from muntin.kernels.hash_table import find_place
from muntin.kernels.index import CLASS_BITS, CLASS_MASK, HEAD, OFF, count_of, mask_of


@kernel
def link(heads, after, owners, members):
    """Put members, each new, at the front of their owners' chains."""
    for n in range(len(members)):
        after[members[n]] = heads[owners[n]]
        heads[owners[n]] = members[n]


@kernel
def count_members(heads, after, owners):
    total = 0
    for owner in owners:
        member = heads[owner]
        while member >= 0:
            total += 1
            member = after[member]
    return total


@kernel
def list_members(heads, after, owners, members, places):
    """All members of these owners, with the place of each one's owner among them."""
    total = 0
    for n in range(len(owners)):
        member = heads[owners[n]]
        while member >= 0:
            members[total], places[total] = member, n
            total += 1
            member = after[member]


@kernel
def last_rows(index, side, h1s, h2s, until, wanted, lasts):
    """For each key, the time of the last row of a side in the index that is not after `until` and of a `wanted` class.

    `lasts` is left as it is where there is no such row, or an earlier one than it says.
    """
    _, table, slots, slab = index
    for n in range(len(h1s)):
        slot = np.int64(table[find_place(table, slots, h1s[n], h2s[n])])
        back = count_of(slots, slot, side) if slot >= 0 else np.int64(0)
        while back > 0:
            back -= 1
            at = slots[slot, HEAD + side] + back
            entry = slots[slot, OFF + side] + (at & mask_of(slots, slot, side))
            if slab[entry, 0] <= until[n] and wanted[slab[entry, 1] & CLASS_MASK]:
                lasts[n] = max(lasts[n], slab[entry, 0])
                break


@kernel
def last_before(h1s, h2s, times, values, k1s, k2s, until, lasts):
    """The same of rows by key: for each of the other keys, the largest of the `values` of rows not after `until`."""
    size = 64
    while size < 2 * len(k1s):
        size *= 2
    table, same = np.full(size, -1, np.int64), np.full(len(k1s), -1, np.int64)
    keys = np.empty((len(k1s), 2), np.int64)
    keys[:, 0], keys[:, 1] = k1s, k2s
    for n in range(len(k1s)):
        place = find_place(table, keys, k1s[n], k2s[n])
        same[n], table[place] = table[place], n
    for row in range(len(times)):
        named = table[find_place(table, keys, h1s[row], h2s[row])]
        while named >= 0:
            if times[row] <= until[named]:
                lasts[named] = max(lasts[named], values[row])
            named = same[named]


@kernel
def list_rows(index, side, h1s, h2s, until, wanted, numbers, times, by):
    """The rows of a side with these keys that are not after `until` and of a `wanted` class; how many there are.

    `numbers` and `times` are of the rows, `by` says which of the keys each has. There is room for all rows of the keys.
    """
    _, table, slots, slab = index
    found = 0
    for n in range(len(h1s)):
        slot = np.int64(table[find_place(table, slots, h1s[n], h2s[n])])
        for i in range(count_of(slots, slot, side) if slot >= 0 else 0):
            entry = slots[slot, OFF + side] + ((slots[slot, HEAD + side] + i) & mask_of(slots, slot, side))
            if slab[entry, 0] <= until[n] and wanted[slab[entry, 1] & CLASS_MASK]:
                numbers[found], times[found], by[found] = slab[entry, 1] >> CLASS_BITS, slab[entry, 0], n
                found += 1
    return found
