"""When rows arrived, on the wall clock: for response times, and for nothing else.

The rows of a micro-batch arrive together, so a moment is kept for each chunk, and only for as long as it can matter: a
pair is complete when the later of its two rows has arrived, so of a row that has waited for the release point it must
be known whether a partner arrived after it. Where no row had to wait, all pairs are complete with the micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from muntin.core.storage import RANGE_BITS, RANGES
from muntin.kernels.arrays import Int64s
from muntin.kernels.route import both_before
from muntin.model import Side


class ChunkArrival(NamedTuple):
    """When the rows of a side arrived that are numbered from `first_row` on."""

    side: int
    first_row: int
    moment: int


class ArrivalTimes:
    """The moments of chunks by side and first row number, and that of the micro-batch at hand."""

    def __init__(self, known: Sequence[ChunkArrival] = ()):
        self.known = list(known)
        """What another process needs to go on."""
        self._arrays: tuple[tuple[Int64s, Int64s], ...] | None = None
        self.moment = 0
        self.together = True

    def begin(self, moment: int, together: bool) -> None:
        """A micro-batch has arrived; `together`: none of the rows to be joined had arrived before."""
        self.moment = moment
        self.together = together
        self._arrays = None

    def add(self, side: Side, first_row: int) -> None:
        """Rows of this micro-batch are numbered from `first_row` on."""
        self.known.append(ChunkArrival(int(side), first_row, self.moment))

    def forget(self, waiting: Mapping[Side, Iterable[int]]) -> None:
        """Only what arrived with the oldest of the rows that wait, or after it, can still matter."""
        moments = [int(self._look_up(side, np.array([row]))[0]) for side, rows in waiting.items() for row in rows]
        self.known = [entry for entry in self.known if entry.moment >= min(moments)] if moments else []
        self._arrays = None

    def of(self, side: Side, rows: Int64s) -> Int64s:
        """When rows with ascending numbers arrived; one number where all arrived together."""
        return np.array([self.moment]) if self.together else self._look_up(side, rows)

    def before(self, pairs: Int64s) -> Int64s:
        """Which pairs of rows, by their numbers, had arrived before this micro-batch; both rows had to wait."""
        firsts = np.full((len(Side), RANGES), np.iinfo(np.int64).max)
        for side, base, moment in self.known:
            if moment == self.moment:
                at = side, base >> RANGE_BITS
                firsts[at] = min(firsts[at], base)
        return both_before(pairs, RANGE_BITS, firsts)

    def _look_up(self, side: Side, rows: Int64s) -> Int64s:
        """The moments of rows; 0 for those of long ago."""
        if self._arrays is None:
            self._arrays = tuple(_sorted(self.known, s) for s in Side)
        bases, moments = self._arrays[side]
        return moments[np.searchsorted(bases, rows, side="right")]


def _sorted(known: Sequence[ChunkArrival], side: Side) -> tuple[Int64s, Int64s]:
    """First numbers ascending, and before the first and from each on the moment."""
    ranges = [(number << RANGE_BITS, 0) for number in range(RANGES)]
    entries = sorted([*ranges, *((base, moment) for s, base, moment in known if s == side)])
    return np.array([b for b, _ in entries], np.int64), np.array([0, *(m for _, m in entries)], np.int64)
