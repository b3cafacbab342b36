"""The first pairs of each group (`ORDER BY ... LIMIT n`): what a family keeps of them, and the rows made of that.

Order and SELECT list of a pair become octets (`kernels.order`) and these a label (`labels.py`): pairs are compared by
one number. What is kept of a group are the labels of its band (`kernels.top`), for all windows of the family, as deep
as the query that wants most; a query that wants fewer takes the beginning of each list.

A shard sends the lists of a group, as labels, with the octets and the columns of those that occur. Where a group is in
several shards, each of its first pairs is among the first of its shard, so the lists are merged by their octets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from muntin.core.aggregates.groups import TIME, GroupState, GroupStateImage, GroupValues, unsigned_zero
from muntin.core.aggregates.labels import LABEL, Labels
from muntin.core.aggregates.layer import BLOCK, GroupedPairs, Layer, LayerImage, Shape, blocks, in_order
from muntin.core.batch import Counters
from muntin.core.results import OutputColumns
from muntin.core.storage import Memory
from muntin.kernels.aggregate import BEFORE, Events
from muntin.kernels.arrays import Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.order import sort_keys
from muntin.kernels.top import LENGTH, SLOT, START, WINDOW, Lists, sweep_lists, sweep_ticks, write_lists
from muntin.kernels.top import TIME as AT
from muntin.model import Query
from muntin.model.job import Top
from muntin.plan import SharedJoin
from muntin.plan.families import Family, aggregation_of, combined

PLACE = "_place"
"""The place of a pair in its list, from 1; 0 in the one row of a list without pairs."""
ENTRIES = "entries"


class Band(Layer):
    """A layer that keeps of each group the pairs that are or can come to be among its first (`kernels.top`)."""

    def __init__(self, windows: Int64s, depths: Int64s, memory: Memory, image: LayerImage | None = None):
        super().__init__(Shape(windows, 1, np.zeros(0, np.int64), 1), memory, image, step=3)
        self.depths = depths

    def _coming_cells(self, pairs: GroupedPairs) -> GroupedPairs:
        order = np.argsort(pairs.time, kind="stable")
        return GroupedPairs._make(column[order] for column in pairs)

    def lists(self, events: Events) -> Lists:
        """Go through the events; the lists that may have changed, each after one that says what it was before."""
        base, parts = self.clock + 1, []
        for start, stop, _ in blocks(events):
            self._reserve(Events._make(column[start:stop] for column in events))
            args = (self.shape.windows, self.depths, base, self.sums, self.slots.control)
            parts.append(Lists(*sweep_lists(events, start, stop, *args)))
        return _joined(parts)

    def tick_lists(self, events: Events, since: int, until: int, every: int, most: int) -> Lists:
        """Go through the events; the lists of all slots and windows with pairs at each multiple of `every`.

        Stops when there are more than `most` pairs on them.
        """
        cursor, parts = np.array([(since // every + 1) * every], np.int64), []
        rows = len(events.time)
        for start, stop in pairwise([*range(0, rows, BLOCK), rows, rows]):
            self._reserve(Events._make(column[start:stop] for column in events))
            args = (self.shape.windows, self.depths, every, until, cursor, self.sums, self.slots.control, most)
            parts.append(Lists(*sweep_ticks(events, start, stop, *args)))
            if sum(len(part.labels) for part in parts) > most:
                break
        return _joined(parts)

    def standing_lists(self, since: int) -> Lists:
        slots, windows = self.present()
        return Lists(*write_lists(slots, windows, since, self.shape.windows, self.depths, self.sums))


def _joined(parts: Sequence[Lists]) -> Lists:
    """Several as one."""
    ends = np.cumsum([0, *(len(part.labels) for part in parts)])
    for part, end in zip(parts, ends, strict=False):
        part.heads[:, START] += end
    heads = np.concatenate([np.zeros((0, 5), np.int64), *(part.heads for part in parts)])
    return Lists(heads, np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)]))


class TopState(GroupState):
    """The first pairs of groups."""

    main: Band

    def __init__(self, join: SharedJoin, family: Family, memory: Memory, image: GroupStateImage | None = None):
        windows = np.array([window.size for window in family.windows], np.int64)
        depths = np.array([window.depth for window in family.windows], np.int64)
        super().__init__(join, family, memory, Band(windows, depths, memory, image.main if image else None), image)
        self._top = _top(family.first)
        fields = [pa.field(f"t.{n}", arrow_type(c.type)) for n, c in enumerate(self._top.columns)]
        self._labels = Labels(fields, memory, image.labels[ENTRIES] if image else None)

    @property
    def image(self) -> GroupStateImage:
        return replace(super().image, labels={ENTRIES: self._labels.image})

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._labels.nbytes

    def discard(self) -> None:
        super().discard()
        self._labels.discard()

    @property
    def candidates(self) -> int:
        """Pairs that are kept."""
        return len(self.main.keys(0))

    def take(self, columns: OutputColumns, chosen: Int64s) -> int:
        placed = self._placed(columns, chosen)
        if placed is None:
            return 0
        selected = [unsigned_zero(columns.values(column, placed.rows)) for column in self._top.columns]
        order = [(columns.values(by.expr, placed.rows), by.descending, by.nulls_first) for by in self._top.order]
        octets = sort_keys([*order, *((values, False, True) for values in selected)])
        labels, moved = self._labels.add(octets, selected)
        if moved is not None:
            self.main.relabel(0, moved.now)
        rows = len(labels)
        ones, has = np.ones((rows, 1), np.int64), np.ones((rows, 1), bool)
        pairs = GroupedPairs(*placed[1:5], ones, np.zeros((rows, 0)), labels.reshape(-1, 1), has)
        return self.main.take(pairs)

    def advance(self, until_us: int, counters: Counters, silent: bool = False) -> list[GroupValues]:
        since, until = self._since, until_us // self.family.pane
        if until <= since:
            return []
        events = in_order(self.main.events(since, until))
        counters.combined += int((events.hi - events.lo).sum())
        lists = self._lists(events, since, until, silent)
        found = [
            GroupValues(query.name, *self._sent(lists, n, query))
            for n, window in enumerate(self.family.windows)
            for query in window.queries
        ]
        self._forget(until)
        self._labels.settle(lambda: self.main.keys(0))
        return found

    def _lists(self, events: Events, since: int, until: int, silent: bool) -> Lists:
        """Lists for all instants; where groups are put together later, with what each was before."""
        if silent:
            return self.main.tick_lists(events, until, until, 1, self.most)
        if self.family.every is not None:
            lists = self.main.tick_lists(events, since, until, self.family.every, self.most)
            self._check_ticks(len(lists.labels))
            return lists
        if not combined(self.join, self.family.first):
            return self.main.lists(events)
        before, found = self.main.standing_lists(since), self.main.lists(events)
        return _joined([before, Lists(found.heads[found.heads[:, AT] != BEFORE], found.labels)])

    def _sent(self, lists: Lists, window: int, query: Query) -> tuple[pa.Table, dict[str, pa.Table]]:
        """The lists of a window, a row for each pair, and what the pairs are."""
        heads = lists.heads[lists.heads[:, WINDOW] == window]
        lengths = np.minimum(heads[:, LENGTH], _top(query).limit)
        shown = np.maximum(lengths, 1)
        of = np.repeat(np.arange(len(heads)), shown)
        place = np.arange(len(of)) - np.repeat(np.cumsum(shown) - shown, shown)
        empty = lengths[of] == 0
        labels = np.zeros(len(of), np.int64)
        labels[~empty] = lists.labels[(heads[of, START] + place)[~empty]]
        time = heads[:, AT]
        times = np.where(time == BEFORE, BEFORE, time * self.family.pane)
        table = pa.table({TIME: times, **self._named(heads[:, SLOT])}).take(pa.array(of))
        for name, values in ((PLACE, np.where(empty, 0, place + 1)), (LABEL, labels)):
            table = table.append_column(name, pa.array(values))
        return table, {ENTRIES: self._labels.among(labels[~empty])}


def _top(query: Query) -> Top:
    top = aggregation_of(query).top
    assert top is not None
    return top
