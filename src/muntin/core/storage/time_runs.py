"""What comes in any order and leaves in time order, in runs that are merged when they are of similar size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.core.storage.memory import Arrays, Layout, Memory
from muntin.core.storage.merging import first_to_merge
from muntin.core.storage.time_queues import QueueImage, TimeQueue, pass_all


class TimeRuns:
    """Columns that leave by the first of them; each row is moved O(log n) times."""

    def __init__(self, memory: Memory, columns: Layout, image: Sequence[QueueImage] = ()):
        self._memory = memory
        self._columns = columns
        self._runs = [TimeQueue.open(memory, run, columns) for run in image]

    @property
    def image(self) -> list[QueueImage]:
        return [run.image for run in self._runs]

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    @property
    def runs(self) -> list[Arrays]:
        """All that has not left, in memory that may be changed; each run by the first column."""
        return [run.arrays for run in self._runs]

    def add(self, columns: Arrays) -> None:
        """Take in rows in any order."""
        if not len(columns[0]):
            return
        first = first_to_merge([len(run) for run in self._runs], len(columns[0]))
        merged = self._runs[first:]
        whole = [np.concatenate(parts) for parts in zip(*(run.arrays for run in merged), columns, strict=True)]
        order = np.argsort(whole[0], kind="stable")
        for run in merged:
            run.discard()
        self._runs[first:] = [TimeQueue.keep(self._memory, [column[order] for column in whole])]

    def take(self, until: int) -> Arrays:
        """Let go of those up to a time; they come in no order."""
        return pass_all(self._runs, until, self._columns)

    def discard(self) -> None:
        """Let go of all."""
        for run in self._runs:
            run.discard()
        self._runs = []
