"""Which pairs go to which query: one pass over the pairs, cost of what comes out."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def route(left, right, tags, verdicts, slicing, allowed, totals, places):
    """Count (`places` empty) or list, query after query, the pairs that each query receives.

    `left`, `right` are the classes of each pair's rows. `tags` say which slice the earlier row was found in,
    `verdicts` (empty: all the same) which row of `allowed` queries the predicates over both sides leave.
    `totals[q]` counts; with `places`, `totals[q]` must hold where query q begins and ends up where it ends.
    """
    words = slicing.readers.shape[2]
    listing = len(places) > 0
    for n in range(len(tags)):
        earlier, band = tags[n] & 1, tags[n] >> 1
        verdict = verdicts[n] if len(verdicts) > 0 else 0
        for w in range(words):
            queries = slicing.wants[0, left[n], w] & slicing.wants[1, right[n], w]
            queries &= slicing.readers[earlier, band, w] & allowed[verdict, w]
            base = 64 * w
            while queries:
                bit = queries & (~queries + np.uint64(1))
                q = base + _position(bit)
                if listing:
                    places[totals[q]] = n
                totals[q] += 1
                queries ^= bit


@numba.njit(inline="always")
def _position(bit):
    """The number of the single set bit."""
    at = 0
    if bit & np.uint64(0xFFFFFFFF00000000):
        at += 32
    if bit & np.uint64(0xFFFF0000FFFF0000):
        at += 16
    if bit & np.uint64(0xFF00FF00FF00FF00):
        at += 8
    if bit & np.uint64(0xF0F0F0F0F0F0F0F0):
        at += 4
    if bit & np.uint64(0xCCCCCCCCCCCCCCCC):
        at += 2
    if bit & np.uint64(0xAAAAAAAAAAAAAAAA):
        at += 1
    return at


@numba.njit(cache=True)
def renumber(ids, low, span):
    """Distinct values of `ids` in order, and the place of each id among them; all lie in [low, low + span)."""
    seen = np.zeros(span, np.int32)
    for n in range(len(ids)):
        seen[ids[n] - low] = 1
    count = 0
    for n in range(span):
        if seen[n]:
            seen[n] = count
            count += 1
        else:
            seen[n] = -1
    distinct = np.empty(count, np.int64)
    for n in range(span):
        if seen[n] >= 0:
            distinct[seen[n]] = low + n
    places = np.empty(len(ids), np.int32)
    for n in range(len(ids)):
        places[n] = seen[ids[n] - low]
    return distinct, places
