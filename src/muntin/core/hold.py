"""Results that may not leave yet: hammad2005's hold buffer, as runs in time order instead of a heap.

Pairs are held by their row numbers. The rows themselves are still there: a pair leaves with its later row's time, and
the earlier row is younger than its stay at that time, so the chunks of both outlive the release point before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.core.held import Held, Image, pass_all
from muntin.core.memory import Memory
from muntin.kernels.join import Pairs, in_order, together

KINDS = ("int64", "int64", "int64", "int32", "int32")
"""Of a held pair: timestamp, row numbers of left and right, tag, and the verdict where there are any."""


class HoldBuffer:
    def __init__(self, memory: Memory, judged: bool, image: Sequence[Image] = ()):
        self._memory = memory
        self._kinds = KINDS if judged else KINDS[:-1]
        self._runs = [Held.open(memory, run, self._kinds) for run in image]

    @property
    def image(self) -> list[Image]:
        return [run.image for run in self._runs]

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        return len(self) * sum(np.dtype(kind).itemsize for kind in self._kinds)

    def exchange(self, found: Pairs, until: int) -> Pairs:
        """Hold what comes after `until` of these pairs, which are in time order; all that may leave, in time order."""
        may = int(np.searchsorted(found.ts, until, side="right"))
        if may < len(found.ts):
            later = slice(may, None)
            columns = [found.ts[later], *found.rows[:, later], found.tag[later], found.verdict[later]]
            self._runs.append(Held.keep(self._memory, columns[: len(self._kinds)]))
        elif not self._runs:
            return found
        ts, left, right, tag, *verdict = pass_all(self._runs, until, self._kinds)
        freed = Pairs(np.stack([left, right]), ts, tag, verdict[0] if verdict else found.verdict[:0])
        fresh = Pairs(found.rows[:, :may], found.ts[:may], found.tag[:may], found.verdict[:may])
        return in_order(together(freed, fresh))

    def discard(self) -> None:
        for run in self._runs:
            run.discard()
        self._runs.clear()
