"""The rows of one shard that have been joined: an index by key, which grows and shrinks with the live rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muntin.core.arrivals import FOREVER
from muntin.core.batch import Counters
from muntin.core.join.expiry_lists import ExpiryImage, ExpiryLists, Retentions
from muntin.core.join.indexed_rows import IndexedRows
from muntin.core.join.ordered_rows import NOTHING, OrderedImage, OrderedRows
from muntin.core.join.own_ends import OwnEnds, Stays
from muntin.core.join.scratch import fresh_scratch, scratch
from muntin.core.policy import LimitError, Policy
from muntin.core.selections import Selections, slicing
from muntin.core.storage import Heap, Memory, QueueImage, StoredRows
from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.index import CLASS_MASK, Index, clean, clear_index, index_layout, packed_entries, repack
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
from muntin.kernels.ordered import probe_ordered
from muntin.kernels.promises import rows_by_age
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
    ordered: OrderedImage | None


class JoinState(IndexedRows):
    """Insert, probe and forget; knows nothing of streams or frontiers, and of the rows themselves only the values by
    which they are in order, where a join without an equality has such an order."""

    def __init__(
        self,
        join: SharedJoin,
        selections: tuple[Selections, Selections],
        policy: Policy,
        memory: Memory,
        image: StateImage | None = None,
        stays: Stays | None = None,
        payload: Sequence[StoredRows] = (),
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
        self._payload = payload
        self.ordered = OrderedRows.open(join, payload, memory, image.ordered if image else None)

    @property
    def image(self) -> StateImage:
        ordered = None if self.ordered is None else self.ordered.image
        return StateImage(self._name, *self._room, self.expiry.image, self._own_ends.image, ordered)

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
        work = self._work if self.ordered is None else self._work_in_order
        for pairs in work(rows, counters, JUDGED if judge else None, scan):
            parts.append(judge(pairs) if judge else pairs)
        return together(*parts)

    def load(self, rows: Rows) -> None:
        """Store rows that have been joined before."""
        self._store(rows, Counters(), WHOLE)
        self._put_in_order()

    def _store(self, rows: Rows, counters: Counters, scan: Scan) -> None:
        for _ in self._work(rows, counters, None, scan, probing=False):
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
                    stay = self._own_ends.append(rows, slots, listed, stop, self._stays, retentions.by_class)
                    for side in Side:
                        counters.inserted[side] += int(stored[side])
                        counters.stay_us[side] += stay[side]
                last, listed, stop = stop - 1, stop, min(stop + sweep_after, total)
                if listed < total:
                    self._sweep(rows, last, retentions, scan, counters)
                    continue
            found, cursor[1] = int(cursor[1]), 0
            pairs = self._found(out, found, everything)
            everything += found
            if found or need == DONE:
                yield pairs
            if need == DONE:
                break
            # nothing found: one row alone has more partners than there is room for
            out = fresh_scratch(len(out.ts) if found and block else 2 * len(out.ts))
        if probing:
            self._expected = everything + everything // 4
        self._count(counts, counters)

    def _count(self, counts: Int64s, counters: Counters) -> None:
        for side in Side:
            counters.expired[side] += int(counts[REMOVED + side])
        counters.probes += int(counts[PROBES])
        counters.comparisons += int(counts[COMPARISONS])
        counters.stale_checks += int(counts[STALE_CHECKS])
        counters.crossed += int(counts[CROSSED])
        counters.routed += int(counts[ROUTED])

    def _work_in_order(self, rows: Rows, counters: Counters, block: int | None, scan: Scan) -> Iterator[Pairs]:
        """The same where rows are in order of a value: each part of them joins the others, and then looks for partners
        there."""
        ordered, values = self._ordered, self._ordered.of_rows(rows)
        cuts, _, retentions = self._read()
        ordered.keep, offsets = retentions.by_class, ordered.offsets(self.join.selects, self.selections)
        out, counts, found, everything = scratch(block or max(1024, self._expected)), np.zeros(COUNTS, np.int64), 0, 0
        start, total = 0, len(rows.ts)
        while start < total:
            stop = start + ordered.part(self.rows(Side.LEFT) + self.rows(Side.RIGHT))
            part, own = Rows._make(column[start:stop] for column in rows), values[start:stop]
            kept = np.flatnonzero(part.kept) if scan.stored else NOTHING
            left, right = (ordered.add(side, part, kept[part.side[kept] == side], own) for side in Side)
            wanted, cursor = ordered.wanted(part, own, offsets, (left, right)), np.array([0, found])
            while probe_ordered(*ordered.sides, part, wanted, cuts, scan, cursor, out, counts) != DONE:
                found, cursor[1] = int(cursor[1]), 0
                yield self._found(out, found, everything)
                everything += found
                out = fresh_scratch(len(out.ts) if found and block else 2 * len(out.ts))
            found = int(cursor[1])
            self._store(Rows._make(column[kept] for column in part), counters, scan)
            ordered.merge()
            start = stop
            if start < total:
                self._sweep(part, len(part.ts) - 1, retentions, scan, counters)
        yield self._found(out, found, everything)
        self._expected = (everything + found) * 5 // 4
        self._count(counts, counters)

    @property
    def _ordered(self) -> OrderedRows:
        assert self.ordered is not None
        return self.ordered

    def _put_in_order(self) -> None:
        """Put the rows of the index in order of their values, where the join has such an order."""
        if self.ordered is not None:
            self.ordered.discard()
        self.ordered = OrderedRows.open(self.join, self._payload, self._memory, None)
        if self.ordered is None:
            return
        self.ordered.keep = Retentions(self.selections).by_class
        for side in Side:
            self.ordered.fill(side, *self.index.slab[self.entries(side)[0]].T)

    def _found(self, out: Pairs, found: int, before: int) -> Pairs:
        """The pairs that were found, unless with those before they are too many."""
        if before + found > self.fan_out:
            raise LimitError(f"more than {self.fan_out:,} pairs in one micro-batch of one shard")
        return Pairs(out.rows[:, :found], out.ts[:found], out.tag[:found], out.verdict)

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

    def pairs_again(self, policy: Policy, judge: Judge | None = None) -> Iterator[Pairs]:
        """The pairs of the rows kept, found once more, a part at a time; for time axes."""
        policy = replace(policy, fan_out=FOREVER)
        again, rows = JoinState(self.join, self.selections, policy, Heap(), payload=self._payload), self.stored()
        for start in range(0, len(rows.ts), AGAIN):
            yield again.insert(Rows._make(column[start : start + AGAIN] for column in rows), Counters(), judge)

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
        self._put_in_order()
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
        if self.ordered is not None:
            self.ordered.keep = retentions.by_class
            self.ordered.forget(side, now, self.rows(side))

    @property
    def nbytes(self) -> int:
        """Bytes of index and time lists as allocated."""
        ordered = self.ordered.nbytes if self.ordered is not None else 0
        return sum(a.nbytes for a in self.index) + self.expiry.nbytes + self._own_ends.nbytes + ordered

    def settle(self) -> None:
        """Give memory back after the state has become much smaller; call between two steps."""
        rows, keys = self.rows(Side.LEFT) + self.rows(Side.RIGHT), self.keys
        if len(self.index.slab) > 8 * rows + 4096 or len(self.index.slots) > 8 * keys + 1024:
            self._repack(2 * keys + 16, 2 * packed_entries(self.index)[0] + 64)
        self.expiry.settle()
        if self.ordered is not None:
            self.ordered.settle()

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
