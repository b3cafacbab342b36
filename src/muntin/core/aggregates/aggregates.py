"""The aggregate queries of one join and shard: pairs in, values of groups out.

Pairs are evaluated once for each expression, whichever queries use it, and added up once for each family
(`plan.families`), not once for each query. Which values a group has at which instant comes out as tables of numbers
(`GroupValues`), one for each query; `values.py` makes SQL's values of them, after those of all shards have been put
together where a group is in several.

An instant is final when no pair can come any more that is live at it: rows with exactly the release point's time may
still come, so instants before it are.

Nothing here is durable: the live pairs follow from the rows that the join keeps, and are found again from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates.groups import (
    G1,
    G2,
    TIME,
    WINDOW,
    GroupState,
    GroupStateImage,
    GroupValues,
    WantedPairs,
    of_window,
)
from muntin.core.aggregates.labels import OCTETS, Labels, MovedLabels
from muntin.core.aggregates.layer import GroupedPairs, Layer, Shape, in_order
from muntin.core.aggregates.pair_values import values_of_pairs
from muntin.core.aggregates.top import TopState
from muntin.core.batch import Counters
from muntin.core.policy import EVERY_ROWS
from muntin.core.results import OutputColumns, ResultBatch
from muntin.core.storage import Memory
from muntin.kernels.aggregate import BEFORE, Events, Out
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import extend_keys, hash_keys
from muntin.model import Expr
from muntin.plan import SharedJoin
from muntin.plan.families import Family, combined, distinct_values_sent, families
from muntin.plan.functions import PAIRS, Extreme

V1, V2 = "_v1", "_v2"
"""A value within the group as 128 bits."""


class Aggregates:
    """All families of a join."""

    def __init__(
        self,
        join: SharedJoin,
        memory: Memory,
        image: Sequence[GroupStateImage] | None = None,
        every_rows: int = EVERY_ROWS,
    ):
        self._memory, self._every_rows = memory, every_rows
        found = families(join)
        images = image if image is not None else [None] * len(found)
        self.states = [self._state(join, f, kept) for f, kept in zip(found, images, strict=True)]

    def __bool__(self) -> bool:
        return bool(self.states)

    @property
    def image(self) -> list[GroupStateImage]:
        return [state.image for state in self.states]

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for state in self.states)

    @property
    def groups(self) -> int:
        return sum(state.main.live for state in self.states)

    def take(self, batch: ResultBatch, counters: Counters) -> None:
        """Take in pairs; none of them is live at an instant whose values have been sent."""
        if len(batch):
            columns, wanted = OutputColumns(batch), WantedPairs(batch)
            for state in self.states:
                counters.aggregated += state.take(columns, wanted.places(state.family.first))

    def advance(self, until_us: int, counters: Counters) -> list[GroupValues]:
        """The values of all instants up to this one."""
        return [values for state in self.states for values in state.advance(until_us, counters)]

    def change(self, join: SharedJoin) -> list[GroupState]:
        """Go on with other queries; the families that are new or have changed, which begin without pairs."""
        before = {state.family: state for state in self.states if any(state.join.partitions) == any(join.partitions)}
        self.states, new = [], []
        for family in families(join):
            state = before.pop(family, None)
            if state is None:
                state = self._state(join, family)
                new.append(state)
            state.join = join
            self.states.append(state)
        for state in before.values():
            state.discard()
        return new

    def _state(self, join: SharedJoin, family: Family, image: GroupStateImage | None = None) -> GroupState:
        kind = FamilyState if family.top is None else TopState
        state = kind(join, family, self._memory, image)
        state.most = self._every_rows
        return state


class FamilyState(GroupState):
    """The numbers of groups, and within these the values of expressions of which the different ones are counted."""

    def __init__(self, join: SharedJoin, family: Family, memory: Memory, image: GroupStateImage | None = None):
        measures = family.measures
        windows = np.array([window.size for window in family.windows], np.int64)
        counts = [measures.whole.index(wide.counted_by) for wide in measures.wide]
        shape = Shape(windows, len(measures.whole), np.array(counts, np.int64), len(measures.extremes))
        within = Shape(windows, 1, np.zeros(0, np.int64), 0)
        super().__init__(join, family, memory, Layer(shape, memory, image.main if image else None), image)
        self._within = [
            Layer(within, memory, image.within[n] if image else None) for n in range(len(measures.distinct))
        ]
        self._labels = {arg.sql: Labels((), memory, image.labels[arg.sql] if image else None) for arg in measures.texts}
        """Of expressions whose values are texts, numbers that compare as they do."""
        sent = {sql: own for query in family.queries for sql, own in distinct_values_sent(join, query).items()}
        self._sends_values = [sent[kept.arg.sql] for kept in measures.distinct]

    @property
    def image(self) -> GroupStateImage:
        labels = {sql: labels.image for sql, labels in self._labels.items()}
        return replace(super().image, within=[layer.image for layer in self._within], labels=labels)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(part.nbytes for part in self._parts)

    def discard(self) -> None:
        super().discard()
        for part in self._parts:
            part.discard()

    @property
    def _parts(self) -> list[Layer | Labels]:
        """What is kept beside the numbers of groups."""
        return [*self._within, *self._labels.values()]

    # -- pairs in -------------------------------------------------------------------------------------------------

    def take(self, columns: OutputColumns, chosen: Int64s) -> int:
        placed = self._placed(columns, chosen)
        if placed is None:
            return 0
        places, slot, time, anchor, window, h1, h2 = placed
        values = values_of_pairs(self.family.measures, columns, places, self._labelled)
        work = self.main.take(GroupedPairs(slot, time, anchor, window, *values))
        for kept, layer in zip(self.family.measures.distinct, self._within, strict=True):
            v1, v2, valid = hash_keys([columns.values(kept.arg, places)])
            there = np.flatnonzero(valid)
            v1, v2 = extend_keys(h1[there], h2[there], v1[there], v2[there])
            inner, born = layer.find(v1, v2)
            layer.slots.rows[inner[born]] = slot[there][born]
            ones, none = np.ones((len(there), 1), np.int64), np.zeros((len(there), 0))
            nothing = none.astype(np.int64), none.astype(bool)
            work += layer.take(GroupedPairs(inner, time[there], anchor[there], window[there], ones, none, *nothing))
        return work

    def _labelled(self, arg: Expr, values: pa.ChunkedArray) -> Int64s:
        """The labels of texts, whatever where there is none; those kept follow where labels change."""
        there = np.asarray(pc.is_valid(values))
        found = np.zeros(len(there), np.int64)
        found[there], moved = self._labels[arg.sql].add(values.drop_null().combine_chunks().cast(pa.large_binary()), ())
        if moved is not None:
            for n, extreme in self.family.measures.extremes_of(arg.sql):
                self.main.relabel(n, partial(_moved, extreme, moved))
        return found

    # -- values out -----------------------------------------------------------------------------------------------

    def advance(self, until_us: int, counters: Counters, silent: bool = False) -> list[GroupValues]:
        family, since, until = self.family, self._since, until_us // self.family.pane
        if until <= since:
            return []
        events = self.main.events(since, until)
        values: dict[str, pa.Table] = {}
        for n, (kept, layer) in enumerate(zip(family.measures.distinct, self._within, strict=True)):
            inner = in_order(layer.events(since, until))
            if self._sends_values[n]:
                values[kept.arg.sql] = self._values(layer, self._rows(layer, inner, since, until, silent))
            else:
                time, window, owner, step = layer.presence(inner)
                column = family.measures.whole.index(kept.name)
                events.append(self.main.adjustments(time, window, owner, column, step))
        ordered = in_order(events)
        counters.combined += int((ordered.hi - ordered.lo).sum())
        out = self._rows(self.main, ordered, since, until, silent)
        table = self._table(out)
        found = [
            GroupValues(q.name, of_window(table, n), {arg: of_window(t, n) for arg, t in values.items()})
            for n, window in enumerate(family.windows)
            for q in window.queries
        ]
        for layer in self._within:
            layer.forget(until)
        self._forget(until)
        for sql, labels in self._labels.items():
            labels.settle(partial(self._kept_labels, sql))
        return found

    def _kept_labels(self, sql: str) -> Int64s:
        extremes = self.family.measures.extremes_of(sql)
        return np.concatenate([extreme.turned(self.main.keys(n)) for n, extreme in extremes])

    def _rows(self, layer: Layer, events: Events, since: int, until: int, silent: bool) -> Out:
        """Rows for all instants; where groups are put together later, with what each had before."""
        if silent:
            return layer.ticks(events, until, until, 1, self.most)
        if self.family.every is not None:
            out = layer.ticks(events, since, until, self.family.every, self.most)
            self._check_ticks(len(out.slot))
            return out
        if not combined(self.join, self.family.first):
            return layer.changes(events, since)
        before, out = layer.standing(since), layer.changes(events, since)
        columns: list[Any] = list(out)
        new = out.time != BEFORE
        return Out._make(np.concatenate([b, rows[new]]) for b, rows in zip(before, columns, strict=True))

    def _table(self, out: Out) -> pa.Table:
        columns: dict[str, Any] = {WINDOW: out.window, TIME: self._times(out), **self._named(out.slot)}
        measures = self.family.measures
        columns |= {name: out.ints[:, n] for n, name in enumerate(measures.whole)}
        columns |= {name: out.doubles[:, n] for n, name in enumerate(measures.halves)}
        for n, extreme in enumerate(measures.extremes):
            keys, has = out.keys[:, n], out.has[:, n]
            columns[extreme.name] = self._texts(extreme, keys, has) if extreme.is_text else pa.array(keys, mask=~has)
        return pa.table(columns)

    def _texts(self, extreme: Extreme, keys: Int64s, has: Bools) -> pa.Array:
        """The texts that keys stand for."""
        at = np.cumsum(has) - 1
        octets = self._labels[extreme.arg.sql].take(extreme.turned(keys[has]))[OCTETS].combine_chunks()
        return octets.take(pa.array(at, mask=~has)).cast(arrow_type(extreme.arg.type))

    def _values(self, layer: Layer, out: Out) -> pa.Table:
        """The values within groups as a table."""
        owner, own = layer.slots.rows[out.slot], layer.slots.keys[out.slot]
        groups = self.main.slots.keys[owner]
        named = {G1: groups[:, 0], G2: groups[:, 1], V1: own[:, 0], V2: own[:, 1], PAIRS: out.ints[:, 0]}
        return pa.table({WINDOW: out.window, TIME: self._times(out), **named})

    def _times(self, out: Out) -> Int64s:
        """Instants in microseconds."""
        return np.where(out.time == BEFORE, BEFORE, out.time * self.family.pane)


def _moved(extreme: Extreme, moved: MovedLabels, keys: Int64s) -> Int64s:
    """Keys of an extreme when labels have changed."""
    return extreme.turned(moved.now(extreme.turned(keys)))
