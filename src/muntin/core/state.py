"""The state of one shard of a shared join: index, time lists and payload, growing and shrinking with the live rows."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from muntin.core.batch import Counters
from muntin.core.selection import Selections
from muntin.kernels.join import (
    BUMP,
    DONE,
    KEYS,
    NEED_OUTPUT,
    SLOTS,
    Arrivals,
    empty_index,
    expire,
    probe_insert,
    repack,
    slab_in_use,
)
from muntin.model import Side

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class TimeList:
    """The live rows of one side in time order (ding2004 4.1): when each leaves, and the slot it leaves from."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[Int64s, Int32s]] = deque()

    def __len__(self) -> int:
        return sum(len(ts) for ts, _ in self._blocks)

    def append(self, ts: Int64s, slots: Int32s) -> None:
        if len(ts):
            self._blocks.append((ts, slots))

    def first(self) -> tuple[Int64s, Int32s] | None:
        return self._blocks[0] if self._blocks else None

    def drop(self, rows: int) -> None:
        """Take the first rows of the first block away."""
        ts, slots = self._blocks.popleft()
        if rows < len(ts):
            self._blocks.appendleft((ts[rows:], slots[rows:]))

    def rows_until(self, ts: int) -> int:
        """How many live rows are not younger than `ts`."""
        return sum(int(np.searchsorted(block, ts, side="right")) for block, _ in self._blocks)


class JoinState:
    """Insert, probe and forget; knows nothing of streams, frontiers or payload."""

    def __init__(self, selections: tuple[Selections, Selections]):
        self.selections = selections
        self.index = empty_index(16, 64)
        self.times = (TimeList(), TimeList())

    def insert(self, runs: tuple[Arrivals, Arrivals], counters: Counters, probing: bool = True) -> Int64s:
        """Store two runs in time order; the pairs found on the way: left row numbers, right ones, timestamps."""
        total = len(runs[0].ts) + len(runs[1].ts)
        slots = (np.zeros(len(runs[0].ts), np.int32), np.zeros(len(runs[1].ts), np.int32))
        slicings = (self.selections[0].slicing(), self.selections[1].slicing())
        reach = np.zeros((2, max(len(s.reach_us) for s in self.selections)), np.int64)
        for side in Side:
            reach[side, : len(self.selections[side].reach_us)] = self.selections[side].reach_us
        out = np.empty((3, max(1024, 2 * total) if probing else 0), np.int64)
        cursor, counts = np.zeros(3, np.int64), np.zeros(2, np.int64)
        parts = []
        while True:
            need = probe_insert(self.index, runs, slicings, reach, probing, cursor, out, slots, counts)
            if need == NEED_OUTPUT or need == DONE:
                parts.append(out[:, : cursor[2]])
                found, cursor[2] = int(cursor[2]), 0
                if need == DONE:
                    break
                out = np.empty((3, 2 * out.shape[1] if found else 4 * out.shape[1]), np.int64)
            else:
                self._make_room(total - int(cursor[0]) - int(cursor[1]))
        for side in Side:
            self.times[side].append(runs[side].ts, slots[side])
            counters.inserted[side] += len(runs[side].ts)
        counters.probes += int(counts[0])
        counters.comparisons += int(counts[1])
        return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

    def forget(self, side: Side, horizon: int, counters: Counters) -> None:
        """Take out the rows of a side with a time up to `horizon`."""
        times = self.times[side]
        while (block := times.first()) is not None:
            gone = expire(self.index, int(side), *block, horizon)
            counters.expired[side] += gone
            if gone:
                times.drop(gone)
            if gone < len(block[0]):
                return

    @property
    def keys(self) -> int:
        return int(self.index.control[KEYS])

    @property
    def nbytes(self) -> int:
        """Bytes of the index as allocated."""
        return sum(a.nbytes for a in self.index)

    def _make_room(self, more: int) -> None:
        """Repack into arrays with room for `more` rows and keys; at least a quarter more than now, so that this is rare."""
        used = int(self.index.control[SLOTS])
        slots = used + max(more, used // 4)
        packed = int(slab_in_use(self.index))
        entries = packed + max(2 * more, packed // 2, int(self.index.control[BUMP]) // 8)
        grown = empty_index(slots, entries)
        repack(self.index, grown)
        self.index = grown
