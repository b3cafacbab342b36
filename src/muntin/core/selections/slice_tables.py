"""Slices, windows and readers of a shared join as the kernels read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.core.selections.classes import query_bits, query_flags
from muntin.core.selections.selections import Selections
from muntin.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from muntin.kernels.join import Routes, Slicing, horizons
from muntin.model import JoinKind, Side
from muntin.plan import SharedJoin

BUCKETS = 1 << 10
"""Ages that are told apart in the table that leads from an age to its window."""
HORIZONS = 1 << 18
"""Pairs of classes up to which the age from which nobody wants them is kept in a table."""


def everybody(join: SharedJoin) -> int:
    """The window that all queries read, behind those of each side: for rows without a partner."""
    return max(map(len, join.windows))


def routes(join: SharedJoin, wants: Sequence[UInt64s]) -> Routes:
    """Who receives what, as the kernels read it; `wants[side]` are the classes of each side."""
    wanted = np.zeros((2, max(len(wants[side]) for side in Side), wants[0].shape[1]), np.uint64)
    for side in Side:
        wanted[side, : len(wants[side])] = wants[side]
    return Routes(readers_of(join), wanted)


def readers_of(join: SharedJoin) -> UInt64s:
    """For each side and window the queries that read pairs whose earlier row has an age in it, as bits."""
    readers = np.zeros((2, everybody(join) + 1, -(-len(join.queries) // 64)), np.uint64)
    readers[:, everybody(join)] = ~np.uint64(0)
    for side in Side:
        ends = np.array(join.windows[side], np.int64)
        windows = np.array([q.window.side(side) for q in join.queries], np.int64)
        starts = np.array([q.window.starts[side] for q in join.queries], np.int64)
        readers[side, : len(ends)] = query_bits((windows >= ends[:, None]) & (starts < ends[:, None]))
    return readers


def wanted_by(
    join: SharedJoin, wants: Sequence[UInt64s], classes: Sequence[Int32s], tags: Int32s, verdicts: Int32s
) -> UInt64s:
    """The queries that want each pair, as bits: by the classes of its two rows, its age, and its verdict if any."""
    queries = wants[0][classes[0]] & wants[1][classes[1]] & routes(join, wants[:2]).readers[tags & 1, tags >> 1]
    return queries & wants[2][verdicts] if len(verdicts) else queries


def per_class(left: Int64s, right: Int64s) -> Int64s:
    """Figures of each class of both sides as one array, padded where the sides differ."""
    both = np.zeros((2, max(len(left), len(right))), np.int64)
    both[0, : len(left)], both[1, : len(right)] = left, right
    return both


def slicing(join: SharedJoin, selections: Sequence[Selections]) -> Slicing:
    """The cuts of both sides' states as the kernels read them."""
    cuts = np.zeros((2, max(map(len, join.cuts))), np.int64)
    first = np.zeros((2, cuts.shape[1] + 1), np.int64)
    windows = np.zeros((2, max(map(len, join.windows))), np.int64)
    for side in Side:
        ends, inside = join.cuts[side], join.windows[side]
        cuts[side, : len(ends)] = ends
        windows[side, : len(inside)] = inside
        first[side, : len(ends) + 1] = np.searchsorted(inside, (0, *ends), side="right")
    left, right = selections
    reach, retention = per_class(left.reach, right.reach), per_class(left.retention, right.retention)
    begin = per_class(left.begin, right.begin)
    readers = routes(join, [s.wants for s in selections])
    guess, bucket = _guesses(join)
    wanted = begin, reach, retention, _horizons(join, selections), readers, _newest(join, selections)
    return Slicing(cuts, first, windows, guess, bucket, *wanted)


def _newest(join: SharedJoin, selections: Sequence[Selections]) -> Bools:
    """Which classes of rows of each side only as-of joins want, whose partners need not satisfy more than selections.

    Queries beyond one word of bits are not told apart.
    """
    found = []
    for side in Side:
        conditions = zip(join.queries, join.own_windows.conditions(join.queries), strict=True)
        alike = [q.kind is JoinKind.ASOF and q.subject is side and asked is None for q, asked in conditions]
        others = query_bits(~np.array([alike]))
        wants = selections[side].wants
        found.append(((wants & others == 0).all(axis=1) & (wants.shape[1] == 1)).astype(np.int64))
    return per_class(*found) > 0


def _guesses(join: SharedJoin) -> tuple[Int32s, Int64s]:
    """For each side a table from ages to windows, in buckets of a power of two; the last bucket holds the reach."""
    guesses, bucket = [], np.zeros(2, np.int64)
    for side in Side:
        bucket[side] = max(0, join.reach(side).bit_length() - BUCKETS.bit_length() + 1)
        starts = np.arange(BUCKETS + 1) << bucket[side]
        places = np.searchsorted(np.array(join.windows[side], np.int64), starts, side="right")
        guesses.append(2 * places[:-1] + (places[1:] > places[:-1]))
    return np.concatenate(guesses).astype(np.int32), bucket


def _horizons(join: SharedJoin, selections: Sequence[Selections]) -> Int64s:
    """The age from which nobody wants a pair of two classes; empty where there are too many of them, and where some
    query does not begin at the age 0."""
    left, right = (len(s.wants) for s in selections)
    if left * right > HORIZONS or any(max(q.window.starts) for q in join.queries):
        return np.zeros((2, 0, 0), np.int64)
    found = np.zeros((2, left, right), np.int64)
    for side in Side:
        if not join.selects:
            found[side] = join.reach(side)
            continue
        windows = np.array([q.window.side(side) for q in join.queries], np.int64)
        order = np.argsort(windows, kind="stable")
        bits = [query_bits(query_flags(s.wants, len(windows))[:, order]) for s in selections]
        horizons(bits[0], bits[1], windows[order], found[side])
    return found
