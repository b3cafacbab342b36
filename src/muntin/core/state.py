"""The index of one shard of a shared join with its time lists, growing and shrinking with the live rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.core.batch import Counters
from muntin.core.memory import Layout, Memory
from muntin.core.selection import Selections
from muntin.kernels.join import (
    BUMP,
    COMPARISONS,
    DONE,
    KEYS,
    LIVE,
    NEED_OUTPUT,
    PROBES,
    REMOVED,
    SLOTS,
    STALE_CHECKS,
    STRATEGIES,
    Index,
    Pairs,
    Rows,
    clear_index,
    empty_pairs,
    expire,
    index_layout,
    probe_insert,
    repack,
    slab_in_use,
)
from muntin.model import Side

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Judge = Callable[[Pairs], Pairs]
BLOCK = 1 << 20
"""Pairs that are judged at a time where a predicate has to be evaluated on each."""


class TimeList:
    """The live rows of one side in order (ding2004 4.1): when each leaves, and the slot it leaves from."""

    def __init__(self, memory: Memory, image: Mapping[str, Any] | None = None):
        self._memory = memory
        self._image = dict(image) if image else {"name": memory.name("times"), "room": 1024, "head": 0, "tail": 0}
        make = memory.arrays if image else memory.allocate
        self._at, self._slots = make(self._image["name"], self._layout())

    def _layout(self) -> Layout:
        return [((self._image["room"],), "int64"), ((self._image["room"],), "int32")]

    @property
    def image(self) -> dict[str, Any]:
        """What another process needs to go on with this list."""
        return self._image

    @property
    def nbytes(self) -> int:
        return self._at.nbytes + self._slots.nbytes

    def __len__(self) -> int:
        return self._image["tail"] - self._image["head"]

    def entries(self) -> tuple[Int64s, Int32s]:
        """Places and slots, oldest first."""
        live = slice(self._image["head"], self._image["tail"])
        return self._at[live], self._slots[live]

    def append(self, at: Int64s, slots: Int32s) -> None:
        if self._image["tail"] + len(at) > self._image["room"]:
            self._move(len(self) + len(at))
        tail = self._image["tail"]
        self._at[tail : tail + len(at)] = at
        self._slots[tail : tail + len(at)] = slots
        self._image["tail"] = tail + len(at)

    def _move(self, rows: int) -> None:
        """To the front of a place with room for twice `rows`: each row is moved O(1) times on average."""
        at, slots, old = *self.entries(), self._image["name"]
        self._image |= {"name": self._memory.name("times"), "room": 2 * rows, "head": 0, "tail": len(at)}
        self._at, self._slots = self._memory.allocate(self._image["name"], self._layout())
        self._at[: len(at)] = at
        self._slots[: len(at)] = slots
        self._memory.discard(old)

    def drop(self, rows: int) -> None:
        """Take the oldest rows away."""
        self._image["head"] += rows

    def rows_until(self, place: int) -> int:
        """How many rows are not younger than `place`."""
        return int(np.searchsorted(self.entries()[0], place, side="right"))


class JoinState:
    """Insert, probe and forget; knows nothing of streams, frontiers or payload."""

    def __init__(
        self,
        selections: tuple[Selections, Selections],
        limits: tuple[int, int],
        strategy: str,
        memory: Memory,
        image: Mapping[str, Any] | None = None,
    ):
        self.selections = selections
        self.limits = np.array(limits, np.int64)
        self.strategy = STRATEGIES[strategy]
        self._memory = memory
        if image:
            self._name, self._room = image["index"], (image["slots"], image["entries"])
            self.index = Index(*memory.arrays(self._name, index_layout(*self._room)))
            self.times = (TimeList(memory, image["times"][0]), TimeList(memory, image["times"][1]))
        else:
            self.index = self._allocate(16, 64)
            self.times = (TimeList(memory), TimeList(memory))

    @property
    def image(self) -> dict[str, Any]:
        """What another process needs to go on with this state, beside the memory."""
        slots, entries = self._room
        return {"index": self._name, "slots": slots, "entries": entries, "times": [t.image for t in self.times]}

    def _allocate(self, slots: int, entries: int) -> Index:
        self._name, self._room = self._memory.name("index"), (slots, entries)
        index = Index(*self._memory.allocate(self._name, index_layout(slots, entries)))
        clear_index(index)
        return index

    def insert(self, runs: tuple[Rows, Rows], counters: Counters, judge: Judge | None = None) -> Pairs:
        """Probe with two runs and store them in time order; the pairs found on the way, as far as `judge` lets them."""
        parts: list[Pairs] = []
        for pairs in self._work(runs, counters, BLOCK if judge else None):
            parts.append(judge(pairs) if judge else pairs)
        if len(parts) == 1:
            return parts[0]
        rows = np.concatenate([p.rows for p in parts], axis=1)
        return Pairs(rows, np.concatenate([p.ts for p in parts]), np.concatenate([p.tag for p in parts]))

    def load(self, runs: tuple[Rows, Rows]) -> None:
        """Store rows that have been joined before."""
        for _ in self._work(runs, Counters(), None, probing=False):
            pass

    def _work(self, runs, counters, block, probing=True):  # type: ignore[no-untyped-def]
        """Run the kernel to its end, making room as it asks for it; yields the pairs in pieces."""
        total = len(runs[0].ts) + len(runs[1].ts)
        slots = (np.zeros(len(runs[0].ts), np.int32), np.zeros(len(runs[1].ts), np.int32))
        slicings = (self.selections[0].slicing(), self.selections[1].slicing())
        reach = np.zeros((2, max(len(s.reach) for s in self.selections)), np.int64)
        for side in Side:
            reach[side, : len(self.selections[side].reach)] = self.selections[side].reach
        out = empty_pairs(block or max(1024, 2 * total))
        cursor, counts = np.zeros(3, np.int64), np.zeros(REMOVED + 2, np.int64)
        need = -1
        while need != DONE:
            need = probe_insert(
                self.index, runs, slicings, reach, self.limits, self.strategy, probing, cursor, out, slots, counts
            )
            if need in (NEED_OUTPUT, DONE):
                found, cursor[2] = int(cursor[2]), 0
                if found or need == DONE:
                    yield Pairs(out.rows[:, :found], out.ts[:found], out.tag[:found])
                if need == NEED_OUTPUT:  # nothing found: one row alone has more partners than there is room for
                    out = empty_pairs(len(out.ts) if found and block else 2 * len(out.ts))
            else:
                self._make_room(total - int(cursor[0]) - int(cursor[1]))
        for side in Side:
            self.times[side].append(runs[side].at[runs[side].kept], slots[side][runs[side].kept])
            counters.inserted[side] += int(runs[side].kept.sum())
            counters.expired[side] += int(counts[REMOVED + side])
        counters.probes += int(counts[PROBES])
        counters.comparisons += int(counts[COMPARISONS])
        counters.stale_checks += int(counts[STALE_CHECKS])

    def forget(self, side: Side, horizon: int, counters: Counters) -> None:
        """Take out the rows of a side whose place on the axis is up to `horizon`."""
        listed, gone = expire(self.index, int(side), *self.times[side].entries(), horizon)
        self.times[side].drop(listed)
        counters.expired[side] += gone

    @property
    def keys(self) -> int:
        return int(self.index.control[KEYS])

    def rows(self, side: Side) -> int:
        return int(self.index.control[LIVE + side])

    @property
    def nbytes(self) -> int:
        """Bytes of index and time lists as allocated."""
        return sum(a.nbytes for a in self.index) + sum(t.nbytes for t in self.times)

    def _make_room(self, more: int) -> None:
        """Repack into arrays with room for `more` rows and keys, and some to spare so that this is rare."""
        used = int(self.index.control[SLOTS])
        packed = int(slab_in_use(self.index))
        entries = packed + max(2 * more, packed // 2, int(self.index.control[BUMP]) // 8)
        old, name = self.index, self._name
        self.index = self._allocate(used + max(more, used // 4), entries)
        repack(old, self.index)
        self._memory.discard(name)
