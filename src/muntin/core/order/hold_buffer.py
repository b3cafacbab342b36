"""Results that may not leave yet: hammad2005's hold buffer, as queues in time order instead of a heap.

Pairs are held by their row numbers. The rows themselves are still there: a pair leaves with its later row's time, and
the earlier row is younger than its retention at that time, so the chunks of both outlive the release point before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muntin.core.arrivals import FOREVER
from muntin.core.batch import TS
from muntin.core.storage import RANGE_BITS, Memory, QueueImage, StoredRows, TimeQueue, flat, pass_all
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.join import Pairs, empty_pairs, in_order, together
from muntin.model import Side

COLUMNS = flat("int64", "int64", "int64", "int32", "int32")
"""Of a held pair: timestamp, row numbers of left and right, tag, and the verdict where there are any."""


@dataclass(frozen=True)
class EarlyRelease:
    """That results had to leave before their time: how far each side was joined then, and the next row numbers."""

    joined: list[int]
    next_rows: list[list[int]]


class HoldBuffer:
    def __init__(
        self,
        memory: Memory,
        judged: bool,
        early_release: EarlyRelease | None = None,
        image: Sequence[QueueImage] = (),
    ):
        self._memory = memory
        self.early_release = early_release
        self._columns = COLUMNS if judged else COLUMNS[:-1]
        self._queues = [TimeQueue.open(memory, queue, self._columns) for queue in image]

    @property
    def image(self) -> list[QueueImage]:
        return [queue.image for queue in self._queues]

    @property
    def pairs(self) -> tuple[Int64s, Int64s]:
        """The timestamps of the held pairs, and the row numbers of both sides."""
        held = [np.stack(queue.arrays[:3]) for queue in self._queues]
        ts, left, right = np.concatenate([np.zeros((3, 0), np.int64), *held], axis=1)
        return ts, np.stack([left, right])

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues)

    @property
    def nbytes(self) -> int:
        return len(self) * sum(np.dtype(kind).itemsize for _, kind in self._columns)

    def exchange(self, found: Pairs, until: int) -> Pairs:
        """Hold what comes after `until` of these pairs, which are in time order; all that may leave, in time order."""
        may = int(np.searchsorted(found.ts, until, side="right"))
        if may < len(found.ts):
            later = slice(may, None)
            columns = [found.ts[later], *found.rows[:, later], found.tag[later], found.verdict[later]]
            self._queues.append(TimeQueue.keep(self._memory, columns[: len(self._columns)]))
        elif not self._queues:
            return found
        ts, left, right, tag, *verdict = pass_all(self._queues, until, self._columns)
        freed = Pairs(np.stack([left, right]), ts, tag, verdict[0] if verdict else found.verdict[:0])
        new = Pairs(found.rows[:, :may], found.ts[:may], found.tag[:may], found.verdict[:may])
        return in_order(together(freed, new))

    def empty(self, joined: Sequence[int], next_rows: Sequence[Sequence[int]]) -> Pairs:
        """Let all go before its time, in time order, and remember how far rows had been joined by then."""
        self.early_release = EarlyRelease(list(joined), [list(numbers) for numbers in next_rows])
        return self.exchange(empty_pairs(0), FOREVER)

    def advance(self, release: int) -> None:
        """Forget an early release once the release point has come to where rows had been joined."""
        if self.early_release and release >= max(self.early_release.joined):
            self.early_release = None

    def begin_again(self, judged: bool) -> None:
        """Give back all pairs, which are to be found again."""
        for queue in self._queues:
            queue.discard()
        self._queues.clear()
        self._columns = COLUMNS if judged else COLUMNS[:-1]

    def hold_again(self, found: Pairs, release: int, payload: Sequence[StoredRows]) -> None:
        """Hold pairs that have been found again, but for those that have left."""
        if self.early_release:
            left = _had_left(found, payload, self.early_release)
            verdict = found.verdict[~left] if len(found.verdict) else found.verdict
            found = Pairs(found.rows[:, ~left], found.ts[~left], found.tag[~left], verdict)
        self.exchange(found, release)


def _had_left(pairs: Pairs, payload: Sequence[StoredRows], early: EarlyRelease) -> Bools:
    """Which pairs are of two rows that had been joined when results left before their time."""
    found = np.ones(len(pairs.ts), bool)
    for side in Side:
        rows, places = payload[side].fetch(pairs.rows[side])
        before = np.array(early.next_rows[side], np.int64)[pairs.rows[side] >> RANGE_BITS]
        found &= (rows[TS].to_numpy()[places] <= early.joined[side]) & (pairs.rows[side] < before)
    return found
