"""The index of one shard of a shared join with its time lists, growing and shrinking with the live rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.core.batch import Counters
from muntin.core.memory import Layout, Memory
from muntin.core.policy import LimitError, Policy
from muntin.core.selection import Selections, slicing
from muntin.kernels.index import (
    CLASS_BITS,
    FILL,
    HEAD,
    KEYS,
    LIVE,
    OFF,
    SIZE_BITS,
    TOP,
    Index,
    clear_index,
    index_layout,
    packed_entries,
    repack,
)
from muntin.kernels.join import (
    COMPARISONS,
    COUNTS,
    DONE,
    NEED_OUTPUT,
    PROBES,
    REMOVED,
    STALE_CHECKS,
    STRATEGIES,
    Pairs,
    Rows,
    empty_pairs,
    expire,
    probe_insert,
)
from muntin.model import Side
from muntin.plan import SharedJoin

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Judge = Callable[[Pairs], Pairs]
BLOCK = 1 << 20
"""Pairs that are judged at a time where a predicate has to be evaluated on each."""


_SCRATCH: list[Pairs] = []


def scratch(room: int) -> Pairs:
    """Room for pairs, used again and again: fresh memory costs a page fault for each page. One user at a time."""
    if not _SCRATCH or len(_SCRATCH[0].ts) < room:
        _SCRATCH[:] = [empty_pairs(room)]
    return _SCRATCH[0]


class TimeList:
    """The live rows of one side in order (ding2004 4.1): when each leaves, and the slot it leaves from."""

    def __init__(self, memory: Memory, image: Mapping[str, Any] | None = None):
        self._memory = memory
        new: dict[str, Any] = {"name": memory.name("times"), "room": 1024, "head": 0, "tail": 0}
        self._image = dict(image) if image else new
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
        """To the front of a place with room for half as many more: each row is moved O(1) times on average."""
        at, slots, old = *self.entries(), self._image["name"]
        self._image |= {"name": self._memory.name("times"), "room": rows + rows // 2 + 64, "head": 0, "tail": len(at)}
        self._at, self._slots = self._memory.allocate(self._image["name"], self._layout())
        self._at[: len(at)] = at
        self._slots[: len(at)] = slots
        self._memory.discard(old)

    def drop(self, rows: int) -> None:
        """Take the oldest rows away."""
        self._image["head"] += rows

    def settle(self) -> None:
        """Give memory back after the list has become much shorter."""
        if self._image["room"] > 8 * len(self) + 4096:
            self._move(len(self) + 512)

    def rows_until(self, place: int) -> int:
        """How many rows are not younger than `place`."""
        return int(np.searchsorted(self.entries()[0], place, side="right"))


class JoinState:
    """Insert, probe and forget; knows nothing of streams, frontiers or payload."""

    def __init__(
        self,
        join: SharedJoin,
        selections: tuple[Selections, Selections],
        policy: Policy,
        memory: Memory,
        image: Mapping[str, Any] | None = None,
    ):
        self.join = join
        self.selections = selections
        self.limits = np.array([join.reach(side) for side in Side], np.int64)
        self.strategy = STRATEGIES[policy.invalidation]
        self.fan_out = policy.fan_out
        self._memory = memory
        self._expected = 0
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

    def insert(self, rows: Rows, counters: Counters, judge: Judge | None = None) -> Pairs:
        """Probe with a run of rows and store them; the pairs found on the way, as far as `judge` lets them.

        They may lie in memory that the next call, on any state of this process, uses again.
        """
        parts: list[Pairs] = []
        for pairs in self._work(rows, counters, BLOCK if judge else None):
            parts.append(judge(pairs) if judge else pairs)
        if len(parts) == 1:
            return parts[0]
        return Pairs._make(np.concatenate(fields, axis=-1) for fields in zip(*parts, strict=True))

    def load(self, rows: Rows) -> None:
        """Store rows that have been joined before."""
        for _ in self._work(rows, Counters(), None, probing=False):
            pass

    def _work(self, rows: Rows, counters: Counters, block: int | None, probing: bool = True) -> Iterator[Pairs]:
        """Run the kernel to its end, making room as it asks for it; yields the pairs in pieces."""
        total = len(rows.ts)
        slots = np.zeros(total, np.int32)
        cuts, reach = slicing(self.join, [s.wants for s in self.selections]), self._reach()
        out = scratch(block or max(1024, total, self._expected))
        cursor, counts = np.zeros(2, np.int64), np.zeros(COUNTS, np.int64)
        need, everything = -1, 0
        while need != DONE:
            need = probe_insert(
                self.index, rows, cuts, reach, self.limits, self.strategy, probing, cursor, out, slots, counts
            )
            if need in (NEED_OUTPUT, DONE):
                found, cursor[1] = int(cursor[1]), 0
                everything += found
                if everything > self.fan_out:
                    raise LimitError(f"more than {self.fan_out:,} pairs in one micro-batch of one shard")
                if found or need == DONE:
                    yield Pairs(out.rows[:, :found], out.ts[:found], out.tag[:found], out.verdict)
                if need == NEED_OUTPUT:  # nothing found: one row alone has more partners than there is room for
                    out = empty_pairs(len(out.ts) if found and block else 2 * len(out.ts))
                    _SCRATCH[:] = [out]
            else:
                moved, done = self._make_room(total - int(cursor[0])), slots[: int(cursor[0])]
                done[:] = np.where(done < 0, done, moved[done])
        self._expected = everything + everything // 4
        for side in Side:
            stored = rows.kept & (rows.side == side)
            self.times[side].append(rows.at[stored], slots[stored])
            counters.inserted[side] += int(stored.sum())
            counters.expired[side] += int(counts[REMOVED + side])
        counters.probes += int(counts[PROBES])
        counters.comparisons += int(counts[COMPARISONS])
        counters.stale_checks += int(counts[STALE_CHECKS])

    def _reach(self) -> Int64s:
        reach = np.zeros((2, max(len(s.reach) for s in self.selections)), np.int64)
        for side in Side:
            reach[side, : len(self.selections[side].reach)] = self.selections[side].reach
        return reach

    def forget(self, side: Side, horizon: int, counters: Counters) -> None:
        """Take out the rows of a side whose place on the axis is up to `horizon`."""
        listed, gone = expire(self.index, int(side), *self.times[side].entries(), horizon)
        self.times[side].drop(listed)
        counters.expired[side] += gone

    def top(self, side: Side) -> tuple[int, int]:
        """How many rows the fullest key of a side has, and the number of one of them (-1: none)."""
        slot = int(self.index.control[TOP + side])
        rows = int(self.index.slots[slot, FILL + side]) >> SIZE_BITS
        at = self.index.slots[slot, OFF + side] + self.index.slots[slot, HEAD + side]
        return rows, int(self.index.slab[at, 1]) >> CLASS_BITS if rows else -1

    @property
    def keys(self) -> int:
        return int(self.index.control[KEYS])

    def rows(self, side: Side) -> int:
        return int(self.index.control[LIVE + side])

    @property
    def nbytes(self) -> int:
        """Bytes of index and time lists as allocated."""
        return sum(a.nbytes for a in self.index) + sum(t.nbytes for t in self.times)

    def settle(self) -> None:
        """Give memory back after the state has become much smaller; call between two steps."""
        rows, keys = self.rows(Side.LEFT) + self.rows(Side.RIGHT), self.keys
        if len(self.index.slab) > 8 * rows + 4096 or len(self.index.slots) > 8 * keys + 1024:
            self._repack(2 * keys + 16, 2 * packed_entries(self.index)[0] + 64)
        for times in self.times:
            times.settle()

    def _make_room(self, more: int) -> Int32s:
        """Room for `more` rows and keys, and half of what there is, so that this is rare; where slots moved to.

        The fullest buffer must be able to double: one key may have all rows.
        """
        packed, largest = packed_entries(self.index)
        spare = max(2 * more, packed // 2, 2 * largest)
        return self._repack(self.keys + max(more, self.keys // 2) + 16, packed + spare + 64)

    def _repack(self, slots: int, entries: int) -> Int32s:
        old, name = self.index, self._name
        moved = np.zeros(max(1, len(old.slots)), np.int32)
        self.index = self._allocate(slots, entries)
        repack(old, self.index, moved)
        self._memory.discard(name)
        for times in self.times:
            _, homes = times.entries()
            homes[:] = moved[homes]
        return moved
