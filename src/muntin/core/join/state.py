"""The rows of one shard that have been joined: an index by key, which grows and shrinks with the live rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muntin.core.arrivals import FOREVER
from muntin.core.batch import Counters
from muntin.core.join.expiry_lists import ExpiryImage, ExpiryLists, Retentions
from muntin.core.join.own_ends import OwnEnds, Stays
from muntin.core.join.scratch import fresh_scratch, scratch
from muntin.core.policy import LimitError, Policy
from muntin.core.selections import Selections, slicing
from muntin.core.storage import Heap, Memory, QueueImage
from muntin.kernels.arrays import Int32s, Int64s
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
    expire,
    probe_insert,
    together,
)
from muntin.kernels.promises import count_rows, purge_keys, rows_by_age
from muntin.model import Side
from muntin.plan import SharedJoin

Judge = Callable[[Pairs], Pairs]
JUDGED = 1 << 20
"""Pairs that are judged at a time where a predicate has to be evaluated on each."""
AGAIN = 1 << 15
"""Rows that are joined at a time to find pairs again."""
FEW = 4096
"""Entries of rows that left early which the expiry lists may have in any case."""


@dataclass(frozen=True)
class StateImage:
    """What another process needs, beside the memory, to go on with a state."""

    index: str
    slots: int
    entries: int
    expiry: ExpiryImage
    own_ends: list[list[QueueImage]]


class JoinState:
    """Insert, probe and forget; knows nothing of streams, frontiers or payload."""

    def __init__(
        self,
        join: SharedJoin,
        selections: tuple[Selections, Selections],
        policy: Policy,
        memory: Memory,
        image: StateImage | None = None,
        stays: Stays | None = None,
    ):
        """`stays`: for how long rows stay, where that does not follow from their classes."""
        self.join = join
        self.selections = selections
        self._stays = stays
        self.strategy = INVALIDATION_CODES[policy.invalidation.all_buckets, policy.invalidation.both_sides]
        self.fan_out = policy.fan_out
        self._memory = memory
        self._expected = 0
        self._made_of: tuple[object, ...] | None = None
        if image:
            self._name = image.index
            self._room = image.slots, image.entries
            self.index = Index(*memory.arrays(self._name, index_layout(*self._room)))
        else:
            self.index = self._allocate(16, 64)
        self.expiry = ExpiryLists(join, memory, image.expiry if image else None)
        self._own_ends = OwnEnds(memory, image.own_ends if image else ((), ()))

    @property
    def image(self) -> StateImage:
        return StateImage(self._name, *self._room, self.expiry.image, self._own_ends.image)

    def _allocate(self, slots: int, entries: int) -> Index:
        self._name = self._memory.name("index")
        self._room = slots, entries
        index = Index(*self._memory.allocate(self._name, index_layout(slots, entries)))
        clear_index(index)
        return index

    def insert(self, rows: Rows, counters: Counters, judge: Judge | None = None, scan: Scan = WHOLE) -> Pairs:
        """Probe with rows and store them as `scan` says; the pairs found, as far as `judge` lets them.

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

        Where rows stay for different times, the stale ones are taken out now and then: a probe would pass them.
        """
        total = len(rows.ts)
        slots = np.zeros(total, np.int32)
        cuts, list_of_class, retentions = self._read()
        sweep_after = retentions.rows_between_sweeps(rows, self._stays is not None) if probing else max(1, total)
        out = scratch(block or max(1024, total, self._expected))
        cursor, counts = np.zeros(2, np.int64), np.zeros(COUNTS, np.int64)
        stop, listed, everything = min(sweep_after, total), 0, 0
        while True:
            how = scan, self.strategy, probing
            need = probe_insert(self.index, rows, cuts, *how, stop, cursor, out, slots, counts)
            if need in (NEED_SLAB, NEED_SLOTS):
                moved, done = self._make_room(total - int(cursor[0])), slots[listed : int(cursor[0])]
                done[:] = np.where(done < 0, done, moved[done])
                continue
            if need == DONE:
                if scan.stored:
                    stored = self.expiry.append(rows, slots, list_of_class, listed, stop)
                    self._own_ends.append(rows, slots, listed, stop, self._stays, retentions.by_class)
                    for side in Side:
                        counters.inserted[side] += int(stored[side])
                last, listed, stop = stop - 1, stop, min(stop + sweep_after, total)
                if listed < total:
                    self._sweep(rows, last, retentions, scan, counters)
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
            out = fresh_scratch(len(out.ts) if found and block else 2 * len(out.ts))
        self._expected = everything + everything // 4
        for side in Side:
            counters.expired[side] += int(counts[REMOVED + side])
        counters.probes += int(counts[PROBES])
        counters.comparisons += int(counts[COMPARISONS])
        counters.stale_checks += int(counts[STALE_CHECKS])
        counters.crossed += int(counts[CROSSED])
        counters.routed += int(counts[ROUTED])

    def _read(self) -> tuple[Slicing, Int64s, Retentions]:
        """Cuts, lists and retentions as the kernels read them, made anew when queries or classes have changed."""
        now = (self.join, self.expiry, *(s.retention for s in self.selections))
        if self._made_of is None or any(a is not b for a, b in zip(now, self._made_of, strict=True)):
            lists = self.expiry.list_of_class(self.selections)
            self._made_of = now
            self._made = slicing(self.join, self.selections), lists, Retentions(self.selections)
        return self._made

    def _sweep(self, rows: Rows, last: int, retentions: Retentions, scan: Scan, counters: Counters) -> None:
        """Forget what is stale once the rows up to `last` have been joined."""
        for side in Side:
            reached = rows.at[last] if rows.side[last] == side else rows.now[last]
            self._expire(side, min(int(reached), int(scan.stale[side])), retentions, counters)

    def entries(self, side: Side) -> tuple[Int64s, Int32s]:
        """Where in the slab the rows of a side lie, and their slots."""
        rows = self.rows(side)
        at, homes = np.zeros(rows, np.int64), np.zeros(rows, np.int32)
        entries(self.index, int(side), at, homes)
        return at, homes

    def stored(self) -> Rows:
        """The rows of both sides as they came; where rows are counted, their places stand for their times."""
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
        """Take out the rows of both sides that lie after a place; `change` must make the expiry lists anew."""
        for side in Side:
            cut_after(self.index, int(side), after)

    def change(
        self,
        join: SharedJoin,
        selections: tuple[Selections, Selections],
        moved: bool,
        now: Sequence[int],
        counters: Counters,
        stays: Stays | None = None,
    ) -> None:
        """Go on with other queries: slices are split and merged, rows that nobody wants leave at once.

        Slices are ages, so rows stay where they are; what changes is when they leave. Where all rows that left together
        go on to leave together, not even the expiry lists are touched. `moved`: classes of rows changed, or
        rows have been cut off.
        """
        becomes = None if moved else self._relabelling(join, selections)
        old = self.expiry
        self.join = join
        self.selections = selections
        if becomes is not None:
            self.expiry = ExpiryLists.relabelled(old, join, becomes)
        else:
            self.expiry = self._listed(now, counters)
        old.discard()
        self._stays = stays
        self.list_own_ends()
        for side in Side:
            self.forget(side, now[side], counters)

    def list_own_ends(self) -> None:
        """Note anew which rows leave before others of their class."""
        rows = self.stored() if self._stays else None
        self._own_ends.begin_again(rows, self._stays, Retentions(self.selections).by_class)

    def _relabelling(self, join: SharedJoin, selections: tuple[Selections, Selections]) -> dict[int, int] | None:
        """Where each list goes; None where its rows part, or meet others."""
        becomes: dict[int, int] = {}
        base = (0, len(join.cuts[0]))
        for side in Side:
            old, new, start = self.selections[side], selections[side], self.expiry.spans[side][0]
            classes = zip(old.retention, old.last_slices, new.retention, new.last_slices, strict=False)
            for before, source, after, target in classes:
                wanted = base[side] + target
                if before and (not after or becomes.setdefault(start + source, wanted) != wanted):
                    return None
        return becomes if len(set(becomes.values())) == len(becomes) else None

    def _listed(self, now: Sequence[int], counters: Counters) -> ExpiryLists:
        """Lists made anew from the index, after what is stale has left it."""
        retention = Retentions(self.selections).by_class
        retention = np.where(retention > 0, retention, -FOREVER)  # rows that nobody wants leave, whatever their age
        for side in Side:
            counters.expired[side] += clean(self.index, int(side), now[side], retention)
        rows = self.rows(Side.LEFT) + self.rows(Side.RIGHT)
        blocks = ExpiryLists.blocks_for(rows, sum(map(len, self.join.cuts)))
        expiry = ExpiryLists(self.join, self._memory, blocks=blocks)
        list_of_class, found = expiry.list_of_class(self.selections), []
        for side in Side:
            at, homes = self.entries(side)
            places, rows_and_classes = self.index.slab[at].T
            found.append((list_of_class[side, rows_and_classes & CLASS_MASK], places, homes))
        expiry.fill(*(np.concatenate(both) for both in zip(*found, strict=True)))
        return expiry

    def relist(self, now: Sequence[int], counters: Counters) -> None:
        """Make the expiry lists anew where rows that left early have more entries in them than the rest."""
        if len(self.expiry) > 2 * (self.rows(Side.LEFT) + self.rows(Side.RIGHT)) + FEW:
            old = self.expiry
            self.expiry = self._listed(now, counters)
            old.discard()

    def rows_by_age(self, side: Side, now: int) -> list[int]:
        """As of `ExpiryLists`, where rows may have left early: one step for each row."""
        ends = np.append(self.expiry.ends[side], np.iinfo(np.int64).max)
        counts = np.zeros(len(ends), np.int64)
        rows_by_age(self.index, int(side), now, ends, counts)
        return [int(n) for n in counts[:-1]]

    def forget(self, side: Side, now: int, counters: Counters) -> None:
        """Take out the rows of a side that are stale when its axis has come to `now`."""
        self._expire(side, now, Retentions(self.selections), counters)

    def _expire(self, side: Side, now: int, retentions: Retentions, counters: Counters) -> None:
        counters.expired[side] += self._own_ends.expire(self.index, side, now)
        counters.expired[side] += expire(
            self.index,
            self.expiry.times,
            int(side),
            *self.expiry.spans[side],
            now,
            self.expiry.ends[side],
            retentions.by_class,
            retentions.shortest[side],
            retentions.mixed[side],
        )

    def purge(self, side: Side, h1: Int64s, h2: Int64s, until: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Take out the rows of a side that have one of these keys, up to a place for each: their numbers, classes,
        places, and which of the keys they have. Their entries in the expiry lists stay (`relist`)."""
        rows = count_rows(self.index, int(side), h1, h2)
        gone, places, by = (np.zeros(rows, np.int64) for _ in range(3))
        count = purge_keys(self.index, int(side), h1, h2, until, gone, places, by) if rows else 0
        return gone[:count] >> CLASS_BITS, gone[:count] & CLASS_MASK, places[:count], by[:count]

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
        return sum(a.nbytes for a in self.index) + self.expiry.nbytes + self._own_ends.nbytes

    @property
    def matches(self) -> int:
        """How many pairs of rows of the two sides have the same key."""
        return int(self.index.control[MATCHES])

    def settle(self) -> None:
        """Give memory back after the state has become much smaller; call between two steps."""
        rows, keys = self.rows(Side.LEFT) + self.rows(Side.RIGHT), self.keys
        if len(self.index.slab) > 8 * rows + 4096 or len(self.index.slots) > 8 * keys + 1024:
            self._repack(2 * keys + 16, 2 * packed_entries(self.index)[0] + 64)
        self.expiry.settle()

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
        homes = self.expiry.times.homes
        homes[:] = moved[homes]
        return moved
