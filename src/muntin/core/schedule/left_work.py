"""Work that outlives its micro-batch: which rows have scanned which levels, and the pairs that wait for a query.

    rows, by time     ------------------------------|---------------|------------|--------> held
    have scanned      all levels                 C[2]  levels 0, 1  C[1] level 0  C[0]  nothing

Rows never overtake each other, and a unit ends where a timestamp ends. So one time for each level says it all, and that
is durable. The rows are in the chunks. The pairs that were found and wait, for a query with a larger window, stay in
memory; after a restart they are found again, by going over the same rows and levels once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from muntin.core.storage import Memory, QueueImage, TimeQueue, flat
from muntin.kernels.arrays import Int64s
from muntin.kernels.join import Pairs, empty_pairs, together

COLUMNS = flat("int64", "int64", "int64", "int32", "int32", "int64")
"""Of a pair that waits: timestamp, row numbers of left and right, tag, verdict, and the level that it was found at."""


@dataclass(frozen=True)
class LevelCursor:
    """How far a level has come: rows up to `ts` have scanned it.

    `sent` is the time of the next rows where the queries of the level have already got what those have found so far.
    """

    ts: int
    sent: int | None = None


@dataclass(frozen=True)
class LeftWorkMeta:
    """What is durable: the cursors of the levels, from small windows to large ones, and the scheduler."""

    scheduler: str = ""
    cursors: list[LevelCursor] = field(default_factory=list)


@dataclass(frozen=True)
class FoundPart:
    """Pairs that rows have found at a level and that a query still waits for."""

    level: int
    pairs: Pairs


class LeftWork:
    """What earlier micro-batches have left to do; nothing, usually."""

    def __init__(self, memory: Memory, meta: LeftWorkMeta, image: QueueImage | None = None):
        self._memory = memory
        self.meta = meta
        self._pairs = TimeQueue.open(memory, image, COLUMNS) if image else None

    def __bool__(self) -> bool:
        return bool(self.meta.cursors)

    @property
    def image(self) -> QueueImage | None:
        return self._pairs.image if self._pairs else None

    @property
    def held_pairs(self) -> int:
        return len(self._pairs) if self._pairs else 0

    @property
    def nbytes(self) -> int:
        return self._pairs.nbytes if self._pairs else 0

    @property
    def joined(self) -> int:
        """Rows up to here are in the index."""
        return self.meta.cursors[0].ts

    @property
    def settled(self) -> int:
        """Rows up to here have scanned all levels."""
        return self.meta.cursors[-1].ts

    @property
    def sent(self) -> list[int]:
        """Times whose pairs have gone out in part."""
        return sorted({cursor.sent for cursor in self.meta.cursors if cursor.sent is not None})

    def scanned(self, ts: Int64s) -> Int64s:
        """How many levels rows of these times have scanned."""
        found = np.zeros(len(ts), np.int64)
        for cursor in self.meta.cursors:
            found += ts <= cursor.ts
        return found

    def pairs_of(self, first_ts: int, last_ts: int, levels: int) -> list[Pairs]:
        """What rows between two times have found, level by level."""
        if self._pairs is None:
            return [empty_pairs(0)] * levels
        times = self._pairs.arrays[0]
        start, stop = np.searchsorted(times, [first_ts, last_ts + 1])
        ts, left, right, tag, verdict, level = (column[start:stop] for column in self._pairs.arrays)
        parts = []
        for n in range(levels):
            mine = level == n
            judged = verdict[mine] if (verdict >= 0).any() else verdict[:0]
            parts.append(Pairs(np.stack([left[mine], right[mine]]), ts[mine], tag[mine], judged))
        return parts

    def keep(self, meta: LeftWorkMeta, parts: Sequence[FoundPart]) -> None:
        """Go on with this in the next micro-batch; the parts are in the order of their rows."""
        self._clear()
        self.meta = meta
        parts = [part for part in parts if len(part.pairs.ts)]
        if not parts:
            return
        pairs = together(*(part.pairs for part in parts))
        level = np.repeat([part.level for part in parts], [len(part.pairs.ts) for part in parts])
        verdict = pairs.verdict if len(pairs.verdict) else np.full(len(pairs.ts), -1, np.int32)
        order = np.argsort(pairs.ts, kind="stable")
        columns = (pairs.ts, *pairs.rows, pairs.tag, verdict, level.astype(np.int64))
        self._pairs = TimeQueue.keep(self._memory, [column[order] for column in columns])

    def finish(self) -> None:
        """Nothing is left."""
        self._clear()
        self.meta = LeftWorkMeta()

    def _clear(self) -> None:
        if self._pairs is not None:
            self._pairs.discard()
        self._pairs = None
