"""Which rows have met a partner, for which queries: one pass over the pairs that were found, in time order.

A pair belongs to the queries in its `bits[pair, word]`; `places[pair]` says which of some rows it has on the side that
is looked at, and `met[row, word]` for which queries that row has met a partner before.
"""

from __future__ import annotations

from muntin.kernels.compiled import kernel


@kernel
def note_matches(bits, places, met, tracked, once):
    """Note the matches of the `tracked` queries; for queries in `once`, a row keeps the first match only."""
    for n in range(len(places)):
        row = places[n]
        for w in range(bits.shape[1]):
            before = met[row, w]
            met[row, w] = before | (bits[n, w] & tracked[w])
            bits[n, w] &= ~(before & once[w])


@kernel
def keep_latest(bits, places, ties, asof, taken):
    """For queries in `asof`, of the matches of each row leave only the latest.

    Partners of the same time as the row (`ties`) come in order of arrival, and the last of them is the latest. Those
    before it come from the newest back, and are behind any tie.
    """
    for n in range(len(places) - 1, -1, -1):
        if ties[n]:
            _leave_untaken(bits, n, places[n], asof, taken)
    for n in range(len(places)):
        if not ties[n]:
            _leave_untaken(bits, n, places[n], asof, taken)


@kernel
def _leave_untaken(bits, n, row, asof, taken):
    for w in range(bits.shape[1]):
        wanted = bits[n, w] & asof[w]
        bits[n, w] &= ~(wanted & taken[row, w])
        taken[row, w] |= wanted
