"""When rows arrived, on the wall clock: for response times, and for nothing else.

A moment is kept for each chunk, or for each stretch of a chunk where rows of a micro-batch have arrived at different
moments, and only for as long as it can matter: a pair is complete when the later of its two rows has arrived, so of a
row that has waited for the release point it must be known whether a partner arrived after it. Where no row had to wait
and all have come together, all pairs are complete with the micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from muntin.core.storage import RANGE_BITS, RANGES
from muntin.kernels.arrays import Int64s
from muntin.kernels.route import both_before
from muntin.model import Side

MOST_STRETCHES = 32
"""Of one chunk; where there are more, neighbours share the mean of their moments."""


class ChunkArrival(NamedTuple):
    """When the rows of a side arrived that are numbered from `first_row` on."""

    side: int
    first_row: int
    moment: int


class ArrivalTimes:
    """The moments of stretches by side and first row number, and that of the micro-batch at hand."""

    def __init__(self, known: Sequence[ChunkArrival] = ()):
        self.known = list(known)
        """What another process needs to go on."""
        self._arrays: tuple[tuple[Int64s, Int64s], ...] | None = None
        self._new: list[tuple[int, int]] = []
        """Sides and first rows of the chunks of this micro-batch."""
        self.moment = 0
        self.together = True
        """None of the rows to be joined had arrived before, or apart from others."""
        self.apart = False
        """Rows of this micro-batch have arrived at different moments."""

    def begin(self, moment: int, together: bool) -> None:
        """A micro-batch has arrived; `together`: none of the rows to be joined had arrived before."""
        self.moment = moment
        self.together = together
        self.apart = False
        self._new = []
        self._arrays = None

    def add(self, side: Side, first_row: int, moments: Int64s | None = None) -> None:
        """Rows of this micro-batch are numbered from `first_row` on; they have arrived at these moments, or with it."""
        self._new.append((int(side), first_row))
        if moments is None:
            self.known.append(ChunkArrival(int(side), first_row, self.moment))
            return
        self.apart, self.together = True, False
        self.known += [ChunkArrival(int(side), first_row + n, moment) for n, moment in _stretches(moments)]

    def forget(self, waiting: Mapping[Side, Iterable[int]]) -> None:
        """Only what arrived with the oldest of the rows that wait, or after it, can still matter."""
        moments = [self._earliest(side, row) for side, rows in waiting.items() for row in rows]
        self.known = _later(self.known, min(moments)) if moments else []
        self._arrays = None

    def _earliest(self, side: Side, row: int) -> int:
        """The earliest arrival of a row and of those that are numbered after it in its range."""
        bases, moments = self._sorted[side]
        end = ((row >> RANGE_BITS) + 1) << RANGE_BITS
        return int(moments[np.searchsorted(bases, row, side="right") : np.searchsorted(bases, end) + 1].min())

    def of(self, side: Side, rows: Int64s) -> Int64s:
        """When rows with ascending numbers arrived, 0 for those of long ago; one number where all arrived together."""
        if self.together:
            return np.array([self.moment])
        bases, moments = self._sorted[side]
        return moments[np.searchsorted(bases, rows, side="right")]

    def before(self, pairs: Int64s) -> Int64s:
        """Which pairs of rows, by their numbers, had arrived before this micro-batch; both rows had to wait."""
        firsts = np.full((len(Side), RANGES), np.iinfo(np.int64).max)
        for side, base in self._new:
            at = side, base >> RANGE_BITS
            firsts[at] = min(firsts[at], base)
        return both_before(pairs, RANGE_BITS, firsts)

    @property
    def _sorted(self) -> tuple[tuple[Int64s, Int64s], ...]:
        if self._arrays is None:
            self._arrays = tuple(_sorted(self.known, side) for side in Side)
        return self._arrays


def _stretches(moments: Int64s) -> list[tuple[int, int]]:
    """Where stretches of one moment begin, and these; where there are too many, blocks with their means."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(moments)) + 1])
    if len(starts) <= MOST_STRETCHES:
        return [(int(n), int(moments[n])) for n in starts]
    ends = np.linspace(0, len(moments), MOST_STRETCHES + 1).astype(np.int64)
    return [(int(a), int(moments[a:b].mean())) for a, b in pairwise(ends)]


def _later(known: Sequence[ChunkArrival], least: int) -> list[ChunkArrival]:
    """The stretches from a moment on; rows of earlier ones between them are of long ago."""
    found: list[ChunkArrival] = []
    for entry in sorted(known):
        if entry.moment >= least:
            found.append(entry)
        elif found and found[-1].moment and _range(found[-1]) == _range(entry):
            found.append(entry._replace(moment=0))
    return found


def _range(entry: ChunkArrival) -> tuple[int, int]:
    return entry.side, entry.first_row >> RANGE_BITS


def _sorted(known: Sequence[ChunkArrival], side: Side) -> tuple[Int64s, Int64s]:
    """First numbers ascending, and before the first and from each on the moment."""
    ranges = [(number << RANGE_BITS, 0) for number in range(RANGES)]
    entries = sorted([*ranges, *((base, moment) for s, base, moment in known if s == side)])
    return np.array([b for b, _ in entries], np.int64), np.array([0, *(m for _, m in entries)], np.int64)
