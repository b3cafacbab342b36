"""Results that may not leave yet: hammad2005's hold buffer, as runs in time order instead of a heap.

Pairs are held by their row numbers. The rows themselves are still there: a pair leaves with its later row's time, and
the earlier row is younger than its stay at that time, so the chunks of both outlive the release point before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from muntin.core.arrivals import FOREVER
from muntin.core.batch import TS
from muntin.core.storage import RANGE_BITS, Memory, StoredRows, TimeRun, flat, pass_all
from muntin.kernels.arrays import Bools
from muntin.kernels.join import Pairs, empty_pairs, in_order, together
from muntin.model import Side

COLUMNS = flat("int64", "int64", "int64", "int32", "int32")
"""Of a held pair: timestamp, row numbers of left and right, tag, and the verdict where there are any."""


class HoldBuffer:
    out: list[Any] | None
    """Where results had to leave before their time: how far each side was joined then, and the next row numbers."""

    def __init__(self, memory: Memory, judged: bool, out: list[Any] | None = None, image: Sequence[Any] = ()):
        self._memory, self.out = memory, out
        self._columns = COLUMNS if judged else COLUMNS[:-1]
        self._runs = [TimeRun.open(memory, run, self._columns) for run in image]

    @property
    def image(self) -> list[Any]:
        return [run.image for run in self._runs]

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        return len(self) * sum(np.dtype(kind).itemsize for _, kind in self._columns)

    def exchange(self, found: Pairs, until: int) -> Pairs:
        """Hold what comes after `until` of these pairs, which are in time order; all that may leave, in time order."""
        may = int(np.searchsorted(found.ts, until, side="right"))
        if may < len(found.ts):
            later = slice(may, None)
            columns = [found.ts[later], *found.rows[:, later], found.tag[later], found.verdict[later]]
            self._runs.append(TimeRun.keep(self._memory, columns[: len(self._columns)]))
        elif not self._runs:
            return found
        ts, left, right, tag, *verdict = pass_all(self._runs, until, self._columns)
        freed = Pairs(np.stack([left, right]), ts, tag, verdict[0] if verdict else found.verdict[:0])
        fresh = Pairs(found.rows[:, :may], found.ts[:may], found.tag[:may], found.verdict[:may])
        return in_order(together(freed, fresh))

    def empty(self, joined: Sequence[int], following: Sequence[Sequence[int]]) -> Pairs:
        """Let all go before its time, in time order, and remember how far rows had been joined by then."""
        self.out = [list(joined), following]
        return self.exchange(empty_pairs(0), FOREVER)

    def passed(self, release: int) -> None:
        """Once the release point has come to where rows had been joined, nothing is left of what went before its
        time."""
        if self.out and release >= max(self.out[0]):
            self.out = None

    def begin_again(self, judged: bool) -> None:
        """Give back all pairs, which are to be found again."""
        for run in self._runs:
            run.discard()
        self._runs.clear()
        self._columns = COLUMNS if judged else COLUMNS[:-1]

    def hold_again(self, found: Pairs, release: int, payload: Sequence[StoredRows]) -> None:
        """Hold pairs that have been found again, but for those that have left."""
        if self.out:
            left = _had_left(found, payload, *self.out)
            verdict = found.verdict[~left] if len(found.verdict) else found.verdict
            found = Pairs(found.rows[:, ~left], found.ts[~left], found.tag[~left], verdict)
        self.exchange(found, release)


def _had_left(
    pairs: Pairs, payload: Sequence[StoredRows], joined: Sequence[int], following: Sequence[Sequence[int]]
) -> Bools:
    """Which pairs are of two rows that had been joined when results left before their time."""
    found = np.ones(len(pairs.ts), bool)
    for side in Side:
        rows, places = payload[side].fetch(pairs.rows[side])
        before = np.array(following[side], np.int64)[pairs.rows[side] >> RANGE_BITS]
        found &= (rows[TS].to_numpy()[places] <= joined[side]) & (pairs.rows[side] < before)
    return found
