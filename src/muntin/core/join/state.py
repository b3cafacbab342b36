"""The index of one shard of a shared join with its time lists, growing and shrinking with the live rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.core.arrivals import FOREVER
from muntin.core.batch import Counters
from muntin.core.policy import LimitError, Policy
from muntin.core.selections import Selections, per_class, slicing
from muntin.core.storage import Heap, Memory
from muntin.kernels.index import (
    CLASS_BITS,
    CLASS_MASK,
    FILL,
    H1,
    H2,
    HEAD,
    KEYS,
    LIVE,
    MATCHES,
    OFF,
    SIZE_BITS,
    TOP,
    Index,
    clean,
    clear_index,
    cut_after,
    entries,
    index_layout,
    packed_entries,
    repack,
)
from muntin.kernels.join import (
    COMPARISONS,
    COUNTS,
    CROSSED,
    DONE,
    INVALIDATION_CODES,
    NEED_SLAB,
    NEED_SLOTS,
    PROBES,
    REMOVED,
    ROUTED,
    STALE_CHECKS,
    WHOLE,
    Pairs,
    Rows,
    Scan,
    Slicing,
    empty_pairs,
    expire,
    probe_insert,
    together,
)
from muntin.kernels.promises import rows_by_age
from muntin.kernels.times import (
    BLOCK,
    Times,
    ages,
    append_listed,
    clear_times,
    grow_times,
    pack_times,
    relabel_times,
    spare_blocks,
    times_layout,
)
from muntin.kernels.times import LIVE as LISTED
from muntin.model import Side
from muntin.plan import SharedJoin

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Judge = Callable[[Pairs], Pairs]
JUDGED = 1 << 20
"""Pairs that are judged at a time where a predicate has to be evaluated on each."""
AGAIN = 1 << 15
"""Rows that are joined at a time to find pairs again."""
RUNS = (1 << 7, 1 << 13)
"""Least and most rows after which stale ones are looked for, where rows stay for different times."""
FEW = 4096
"""Entries of rows that left early which the lists of who leaves when may have in any case."""
PROMPTLY = 8
"""In between, so many times in the shortest stay."""

_SCRATCH: list[Pairs] = []


def scratch(room: int) -> Pairs:
    """Room for pairs, used again and again: fresh memory costs a page fault for each page. One user at a time."""
    if not _SCRATCH or len(_SCRATCH[0].ts) < room:
        _SCRATCH[:] = [empty_pairs(room)]
    return _SCRATCH[0]


class ExpiryLists:
    """Which rows leave when (ding2004 4.1): one lane for each slice of each side, with whose end its rows leave."""

    def __init__(
        self, join: SharedJoin, memory: Memory, image: Mapping[str, Any] | None = None, blocks: int | None = None
    ):
        self._memory = memory
        self.ends = tuple(np.array(join.cuts[side], np.int64) for side in Side)
        starts = (0, len(self.ends[0]))
        self.spans = tuple((start, start + len(ends)) for start, ends in zip(starts, self.ends, strict=True))
        self._lanes = self.spans[1][1]
        if image:
            self._name, self._blocks = image["name"], image["blocks"]
            self.times = Times(*memory.arrays(self._name, times_layout(self._lanes, self._blocks)))
        else:
            self.times = self._allocate(blocks or self._lanes + 8)

    @property
    def image(self) -> dict[str, Any]:
        """What another process needs to go on with these lists."""
        return {"name": self._name, "blocks": self._blocks}

    def _allocate(self, blocks: int) -> Times:
        self._name, self._blocks = self._memory.name("times"), blocks
        times = Times(*self._memory.allocate(self._name, times_layout(self._lanes, blocks)))
        clear_times(times)
        return times

    def _move(self, blocks: int, how: Callable[[Times, Times], None]) -> None:
        old, name = self.times, self._name
        self.times = self._allocate(blocks)
        how(old, self.times)
        self._memory.discard(name)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.times)

    def __len__(self) -> int:
        return int(self.times.lanes[:, LISTED].sum())

    def append(self, rows: Rows, slots: Int32s, lane_of: Int64s, start: int, stop: int) -> Int64s:
        """List the rows from `start` to `stop` that have a slot; how many of each side."""
        missing = (stop - start) // BLOCK + self._lanes + 1 - spare_blocks(self.times)
        if missing > 0:
            self._move(self._blocks + max(missing, self._blocks // 2), grow_times)
        stored = start + np.flatnonzero(slots[start:stop] >= 0)
        sides = rows.side[stored]
        append_listed(self.times, lane_of[sides, rows.cls[stored]], rows.at[stored], slots[stored])
        return np.bincount(sides, minlength=2)

    def lanes_of(self, selections: tuple[Selections, Selections]) -> Int64s:
        """The lane of each class of each side."""
        left, right = (selections[side].lanes() + self.spans[side][0] for side in Side)
        return per_class(left, right)

    @classmethod
    def relabelled(cls, old: ExpiryLists, join: SharedJoin, becomes: Mapping[int, int]) -> ExpiryLists:
        """The same lists with lanes for other slices: no entry is touched."""
        self = cls(join, old._memory, blocks=old._blocks)
        relabel_times(old.times, self.times, becomes)
        return self

    @staticmethod
    def blocks_for(rows: int, lanes: int) -> int:
        """Blocks that hold so many rows, however they are spread over the lanes."""
        return rows // BLOCK + 2 * lanes + 8

    def fill(self, lanes: Int64s, places: Int64s, slots: Int32s) -> None:
        """List rows that are in any order in lists that have none."""
        by_place = np.argsort(places)
        few = lanes[by_place].astype(np.min_scalar_type(self._lanes))  # small numbers are sorted by counting
        order = by_place[np.argsort(few, kind="stable")]
        append_listed(self.times, lanes[order], places[order], slots[order])

    def discard(self) -> None:
        self._memory.discard(self._name)

    def settle(self) -> None:
        """Give memory back after the lists have become much shorter."""
        needed = self.blocks_for(len(self), self._lanes)
        if self._blocks > 8 * needed:
            self._move(2 * needed, pack_times)

    def rows_by_age(self, side: Side, now: int) -> list[int]:
        """Rows in each slice of a side, young to old; those that are stale at `now` are in none."""
        ends = np.append(self.ends[side], np.iinfo(np.int64).max)
        counts = np.zeros(len(ends), np.int64)
        ages(self.times, *self.spans[side], now, ends, counts)
        return [int(n) for n in counts[:-1]]


class Retentions:
    """For how long the rows of each class of each side stay."""

    def __init__(self, selections: tuple[Selections, Selections]):
        self.keep = per_class(selections[0].keep, selections[1].keep)
        ages = [np.unique(s.keep[s.keep > 0]) for s in selections]
        self.shortest = [int(a[0]) if len(a) else 1 << 62 for a in ages]
        self.mixed = [len(a) > 1 for a in ages]

    def run(self, rows: Rows) -> int:
        """Rows to join before stale ones are looked for: all, unless rows stay for different times."""
        if not any(self.mixed) or not len(rows.ts):
            return max(1, len(rows.ts))
        span = max(1, int(max(rows.at[-1], rows.now[-1]) - min(rows.at[0], rows.now[0])))
        return int(np.clip(len(rows.ts) * min(self.shortest) / PROMPTLY / span, *RUNS))


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
        self.strategy = INVALIDATION_CODES[policy.invalidation.all_buckets, policy.invalidation.both_sides]
        self.fan_out = policy.fan_out
        self._memory = memory
        self._expected = 0
        self._made_of: tuple[object, ...] | None = None
        if image:
            self._name, self._room = image["index"], (image["slots"], image["entries"])
            self.index = Index(*memory.arrays(self._name, index_layout(*self._room)))
        else:
            self.index = self._allocate(16, 64)
        self.leaving = ExpiryLists(join, memory, image and image["times"])

    @property
    def image(self) -> dict[str, Any]:
        """What another process needs to go on with this state, beside the memory."""
        slots, entries = self._room
        return {"index": self._name, "slots": slots, "entries": entries, "times": self.leaving.image}

    def _allocate(self, slots: int, entries: int) -> Index:
        self._name, self._room = self._memory.name("index"), (slots, entries)
        index = Index(*self._memory.allocate(self._name, index_layout(slots, entries)))
        clear_index(index)
        return index

    def insert(self, rows: Rows, counters: Counters, judge: Judge | None = None, scan: Scan = WHOLE) -> Pairs:
        """Probe with a run of rows and store them as `scan` says; the pairs found, as far as `judge` lets them.

        They may lie in memory that the next call, on any state of this process, uses again.
        """
        parts: list[Pairs] = []
        for pairs in self._work(rows, counters, JUDGED if judge else None, scan):
            parts.append(judge(pairs) if judge else pairs)
        return together(*parts)

    def load(self, rows: Rows) -> None:
        """Store rows that have been joined before."""
        for _ in self._work(rows, Counters(), None, WHOLE, probing=False):
            pass

    def _work(
        self, rows: Rows, counters: Counters, block: int | None, scan: Scan, probing: bool = True
    ) -> Iterator[Pairs]:
        """Run the kernel to its end, making room as it asks for it; yields the pairs in pieces.

        Where rows stay for different times, the stale ones are taken out run by run: a probe would pass them.
        """
        total = len(rows.ts)
        slots = np.zeros(total, np.int32)
        cuts, lane_of, stays = self._read()
        run = stays.run(rows) if probing else max(1, total)
        out = scratch(block or max(1024, total, self._expected))
        cursor, counts = np.zeros(2, np.int64), np.zeros(COUNTS, np.int64)
        stop, listed, everything = min(run, total), 0, 0
        while True:
            how = scan, self.strategy, probing
            need = probe_insert(self.index, rows, cuts, *how, stop, cursor, out, slots, counts)
            if need in (NEED_SLAB, NEED_SLOTS):
                moved, done = self._make_room(total - int(cursor[0])), slots[listed : int(cursor[0])]
                done[:] = np.where(done < 0, done, moved[done])
                continue
            if need == DONE:
                if scan.stored:
                    stored = self.leaving.append(rows, slots, lane_of, listed, stop)
                    for side in Side:
                        counters.inserted[side] += int(stored[side])
                last, listed, stop = stop - 1, stop, min(stop + run, total)
                if listed < total:
                    self._sweep(rows, last, stays, scan, counters)
                    continue
            found, cursor[1] = int(cursor[1]), 0
            everything += found
            if everything > self.fan_out:
                raise LimitError(f"more than {self.fan_out:,} pairs in one micro-batch of one shard")
            if found or need == DONE:
                yield Pairs(out.rows[:, :found], out.ts[:found], out.tag[:found], out.verdict)
            if need == DONE:
                break
            # nothing found: one row alone has more partners than there is room for
            out = empty_pairs(len(out.ts) if found and block else 2 * len(out.ts))
            _SCRATCH[:] = [out]
        self._expected = everything + everything // 4
        for side in Side:
            counters.expired[side] += int(counts[REMOVED + side])
        counters.probes += int(counts[PROBES])
        counters.comparisons += int(counts[COMPARISONS])
        counters.stale_checks += int(counts[STALE_CHECKS])
        counters.crossed += int(counts[CROSSED])
        counters.routed += int(counts[ROUTED])

    def _read(self) -> tuple[Slicing, Int64s, Retentions]:
        """Cuts, lanes and stays as the kernels read them, made anew when queries or classes have changed."""
        now = (self.join, self.leaving, *(s.keep for s in self.selections))
        if self._made_of is None or any(a is not b for a, b in zip(now, self._made_of, strict=True)):
            lanes = self.leaving.lanes_of(self.selections)
            self._made_of, self._made = now, (slicing(self.join, self.selections), lanes, Retentions(self.selections))
        return self._made

    def _sweep(self, rows: Rows, last: int, stays: Retentions, scan: Scan, counters: Counters) -> None:
        """Forget what is stale once the rows up to `last` have been joined."""
        for side in Side:
            reached = rows.at[last] if rows.side[last] == side else rows.now[last]
            self._expire(side, min(int(reached), int(scan.stale[side])), stays, counters)

    def entries(self, side: Side) -> tuple[Int64s, Int32s]:
        """Where in the slab the rows of a side lie, and their slots."""
        rows = self.rows(side)
        at, homes = np.zeros(rows, np.int64), np.zeros(rows, np.int32)
        entries(self.index, int(side), at, homes)
        return at, homes

    def stored(self) -> Rows:
        """The rows of both sides as they came; for time axes."""
        sides = []
        for side in Side:
            at, homes = self.entries(side)
            ts, rows_and_classes = self.index.slab[at].T
            h1, h2 = self.index.slots[homes, H1], self.index.slots[homes, H2]
            cls, row = (rows_and_classes & CLASS_MASK).astype(np.int32), rows_and_classes >> CLASS_BITS
            kept = np.ones(len(ts), bool)
            sides.append((np.full(len(ts), side, np.uint8), ts, ts, ts, h1, h2, cls, row, kept))
        joined = [np.concatenate(both) for both in zip(*sides, strict=True)]
        order = np.argsort(joined[1], kind="stable")
        return Rows._make(column[order] for column in joined)

    def pairs_again(self, policy: Policy, judge: Judge | None = None) -> Iterator[Pairs]:
        """The pairs of the rows kept, found once more, a part at a time; for time axes."""
        policy = replace(policy, fan_out=FOREVER)
        again, rows = JoinState(self.join, self.selections, policy, Heap()), self.stored()
        for start in range(0, len(rows.ts), AGAIN):
            yield again.insert(Rows._make(column[start : start + AGAIN] for column in rows), Counters(), judge)

    def reclass(self, side: Side, by_number: Callable[[Int64s], Int32s]) -> None:
        """Give the rows of a side the classes that they have by number."""
        at, _ = self.entries(side)
        numbers = self.index.slab[at, 1] >> CLASS_BITS
        self.index.slab[at, 1] = numbers << CLASS_BITS | by_number(numbers)

    def cut(self, after: int) -> None:
        """Take out the rows of both sides that lie after a place; `change` must list anew who leaves when."""
        for side in Side:
            cut_after(self.index, int(side), after)

    def change(
        self,
        join: SharedJoin,
        selections: tuple[Selections, Selections],
        moved: bool,
        now: Sequence[int],
        counters: Counters,
    ) -> None:
        """Go on with other queries: slices are split and merged, rows that nobody wants leave at once.

        Slices are ages, so rows stay where they are; what changes is when they leave. Where all rows that left together
        go on to leave together, not even the lists of who leaves when are touched. `moved`: classes of rows changed, or
        rows have been cut off.
        """
        becomes = None if moved else self._relabelling(join, selections)
        self.join, self.selections, old = join, selections, self.leaving
        if becomes is not None:
            self.leaving = ExpiryLists.relabelled(old, join, becomes)
        else:
            self.leaving = self._listed(now, counters)
        old.discard()
        for side in Side:
            self.forget(side, now[side], counters)

    def _relabelling(self, join: SharedJoin, selections: tuple[Selections, Selections]) -> dict[int, int] | None:
        """Where each lane goes; None where its rows part, or meet others."""
        becomes: dict[int, int] = {}
        base = (0, len(join.cuts[0]))
        for side in Side:
            old, new = self.selections[side], selections[side]
            lanes = zip(old.keep, old.lanes(), new.keep, new.lanes(), strict=False)
            for was, lane, keep, target in lanes:
                if was and (not keep or becomes.setdefault(self.leaving.spans[side][0] + lane, base[side] + target)
                            != base[side] + target):  # fmt: skip
                    return None
        return becomes if len(set(becomes.values())) == len(becomes) else None

    def _listed(self, now: Sequence[int], counters: Counters) -> ExpiryLists:
        """Lists made anew from the index, after what is stale has left it."""
        stays = Retentions(self.selections)
        for side in Side:
            counters.expired[side] += clean(self.index, int(side), now[side], stays.keep)
        rows = self.rows(Side.LEFT) + self.rows(Side.RIGHT)
        leaving = ExpiryLists(
            self.join, self._memory, blocks=ExpiryLists.blocks_for(rows, sum(map(len, self.join.cuts)))
        )
        lanes, found = leaving.lanes_of(self.selections), []
        for side in Side:
            at, homes = self.entries(side)
            places, rows_and_classes = self.index.slab[at].T
            found.append((lanes[side, rows_and_classes & CLASS_MASK], places, homes))
        leaving.fill(*(np.concatenate(both) for both in zip(*found, strict=True)))
        return leaving

    def relist(self, now: Sequence[int], counters: Counters) -> None:
        """Make the lists of who leaves when anew where rows that left early have more entries in them than the rest."""
        if len(self.leaving) > 2 * (self.rows(Side.LEFT) + self.rows(Side.RIGHT)) + FEW:
            old, self.leaving = self.leaving, self._listed(now, counters)
            old.discard()

    def rows_by_age(self, side: Side, now: int) -> list[int]:
        """As of `ExpiryLists`, where rows may have left early: one step for each row."""
        ends = np.append(self.leaving.ends[side], np.iinfo(np.int64).max)
        counts = np.zeros(len(ends), np.int64)
        rows_by_age(self.index, int(side), now, ends, counts)
        return [int(n) for n in counts[:-1]]

    def forget(self, side: Side, now: int, counters: Counters) -> None:
        """Take out the rows of a side that are stale when its axis has come to `now`."""
        self._expire(side, now, Retentions(self.selections), counters)

    def _expire(self, side: Side, now: int, stays: Retentions, counters: Counters) -> None:
        span, ends, mixed = self.leaving.spans[side], self.leaving.ends[side], stays.mixed[side]
        counters.expired[side] += expire(
            self.index, self.leaving.times, int(side), *span, now, ends, stays.keep, stays.shortest[side], mixed
        )

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
        return sum(a.nbytes for a in self.index) + self.leaving.nbytes

    @property
    def matches(self) -> int:
        """How many pairs of rows of the two sides have the same key."""
        return int(self.index.control[MATCHES])

    def settle(self) -> None:
        """Give memory back after the state has become much smaller; call between two steps."""
        rows, keys = self.rows(Side.LEFT) + self.rows(Side.RIGHT), self.keys
        if len(self.index.slab) > 8 * rows + 4096 or len(self.index.slots) > 8 * keys + 1024:
            self._repack(2 * keys + 16, 2 * packed_entries(self.index)[0] + 64)
        self.leaving.settle()

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
        homes = self.leaving.times.homes
        homes[:] = moved[homes]
        return moved
