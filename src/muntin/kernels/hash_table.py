"""Open addressing with linear probing, of which the index, the groups and the promises are made.

A table has a power of two of places, at most half of them used. It leads from a key of 128 bits to a number, -1 where
a place is free; `keys[number]` begins with both halves of the key. A key stands at its home, which its bits say, or at
the first free place after it. A key that leaves does not leave a mark: those behind it move up.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.compiled import inlined
from muntin.kernels.hashing import mix


def table_size(keys: int) -> int:
    """Places for so many keys."""
    return 1 << (2 * max(1, keys) - 1).bit_length()


@inlined
def home_of(table, h1, h2):
    """The place where a key stands unless others took it before."""
    return np.int64(mix(h1, h2)) & np.int64(len(table) - 1)


@inlined
def place_after(table, at):
    return (at + 1) & np.int64(len(table) - 1)


@inlined
def find_place(table, keys, h1, h2):
    """The place of a key, or the free one where it belongs."""
    at = home_of(table, h1, h2)
    while True:
        number = table[at]
        if number < 0 or (keys[number, 0] == h1 and keys[number, 1] == h2):
            return at
        at = place_after(table, at)


@inlined
def find_entry(keys, info, free, h1, h2):
    """The same where the table has the keys themselves; a place is free where its `info` begins with `free`."""
    at = home_of(keys, h1, h2)
    while info[at, 0] != free and (keys[at, 0] != h1 or keys[at, 1] != h2):
        at = place_after(keys, at)
    return at


@inlined
def close_gap(table, keys, gap):
    """Take the key at a place out, and move those up that would not be found behind a gap."""
    last = np.int64(len(table) - 1)
    at = gap
    while True:
        at = (at + 1) & last
        number = table[at]
        if number < 0:
            break
        home = home_of(table, keys[number, 0], keys[number, 1])
        if ((at - home) & last) >= ((at - gap) & last):
            table[gap] = number
            gap = at
    table[gap] = -1
