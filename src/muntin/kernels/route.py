"""Which pairs go to which query: one pass over the pairs, cost of what comes out."""

from __future__ import annotations

import numpy as np

from muntin.kernels.compiled import inlined, kernel


@kernel
def route(left, right, tags, verdicts, routes, allowed, totals, places):
    """Count (`places` empty) or list, query after query, the pairs that each query receives.

    `left`, `right` are the classes of each pair's rows. `tags` say which window the age of the earlier row is in,
    `verdicts` (empty: all the same) which row of `allowed` queries the predicates over both sides leave.
    `totals[q]` counts; with `places`, `totals[q]` must hold where query q begins and ends up where it ends.
    """
    words = routes.readers.shape[2]
    listing = len(places) > 0
    for n in range(len(tags)):
        earlier, window = tags[n] & 1, tags[n] >> 1
        verdict = verdicts[n] if len(verdicts) > 0 else 0
        for w in range(words):
            queries = routes.wants[0, left[n], w] & routes.wants[1, right[n], w]
            queries &= routes.readers[earlier, window, w] & allowed[verdict, w]
            base = 64 * w
            while queries:
                bit = queries & (~queries + np.uint64(1))
                q = base + _position(bit)
                if listing:
                    places[totals[q]] = n
                totals[q] += 1
                queries ^= bit


@inlined
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


@kernel
def tally(left, right, tags, verdicts, counts):
    """How many pairs there are of each tag, two classes and verdict: on nothing else depends who gets them."""
    for n in range(len(tags)):
        counts[tags[n], left[n], right[n], verdicts[n] if len(verdicts) > 0 else 0] += 1


@kernel
def both_before(pairs, shift, firsts):
    """The places of pairs of numbers that are both below the first of their range of `1 << shift` numbers.

    A negative number stands for no row, which nobody waited for.
    """
    places = np.empty(pairs.shape[1], np.int64)
    count = 0
    for n in range(pairs.shape[1]):
        left, right = pairs[0, n], pairs[1, n]
        if min(left, right) >= 0 and left < firsts[0, left >> shift] and right < firsts[1, right >> shift]:
            places[count] = n
            count += 1
    return places[:count]


@kernel
def look_up(numbers, bases, starts, values, out):
    """The value of each number: those from `bases[i]` on lie in `values` from `starts[i]` on. Neighbours are quick."""
    table, low, high = 0, np.int64(0), np.int64(-1)
    for n in range(len(numbers)):
        if not low <= numbers[n] < high:
            table = np.searchsorted(bases, numbers[n], side="right") - 1
            low = bases[table]
            end = starts[table + 1] if table + 1 < len(starts) else len(values)
            high = low + end - starts[table]
        out[n] = values[starts[table] + numbers[n] - low]


@kernel
def spans(ids, shift, lows, highs):
    """The least and the greatest of the ids in each range of `1 << shift` ids; `lows` above `highs` where none is."""
    for n in range(len(ids)):
        part = ids[n] >> shift
        lows[part] = min(lows[part], ids[n])
        highs[part] = max(highs[part], ids[n])


@kernel
def renumber(ids, shift, lows, starts, total):
    """Distinct values of `ids` in order, and the place of each id among them.

    Ids of the range `part` (see `spans`) lie in [lows[part], lows[part] + its span); the spans begin at `starts`, one
    after the other, and are `total` together.
    """
    seen = np.zeros(total, np.int32)
    for n in range(len(ids)):
        part = ids[n] >> shift
        seen[ids[n] - lows[part] + starts[part]] = 1
    count = 0
    for n in range(total):
        if seen[n]:
            seen[n] = count
            count += 1
        else:
            seen[n] = -1
    distinct = np.empty(count, np.int64)
    places = np.empty(len(ids), np.int32)
    for n in range(len(ids)):
        part = ids[n] >> shift
        place = seen[ids[n] - lows[part] + starts[part]]
        places[n] = place
        distinct[place] = ids[n]
    return distinct, places
