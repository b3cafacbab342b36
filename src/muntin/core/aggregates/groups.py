"""Groups of one family in one shard: which pair is in which, when it comes and goes, and what is sent of them.

What is kept of the pairs of a group is another matter: numbers (`aggregates.py`), or the first of them (`top.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates.labels import LabelsImage
from muntin.core.aggregates.layer import Layer, LayerImage
from muntin.core.arrivals import FOREVER
from muntin.core.batch import CLASS, Counters
from muntin.core.policy import EVERY_ROWS, LimitError
from muntin.core.results import OutputColumns, ResultBatch
from muntin.core.selections import microseconds, wanted_by
from muntin.core.storage import Memory, Slotted, first_to_merge, pack, read_table, table_bytes, unpack
from muntin.kernels.arrays import AnyArray, Int32s, Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import extend_keys, hash_keys
from muntin.model import Expr, Query, Side
from muntin.plan import SharedJoin
from muntin.plan.families import Family

TIME, G1, G2, WINDOW = "_t", "_g1", "_g2", "_window"
"""OutputColumns beside the numbers: the instant, the group as 128 bits; the number of the window in its family."""
SPARE_GROUPS = 1024


@dataclass(frozen=True)
class GroupValues:
    """What a shard knows of one query's groups since the instants sent last: a row for each instant and group.

    `values`, for each expression whose different values have to be counted over several shards: which there are, as
    rows of value and instant, with `n` above zero while it is there.
    """

    query: str
    table: pa.Table
    values: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def header(self) -> dict[str, Any]:
        """What says how to read the `payload`."""
        return {"query": self.query, "values": list(self.values)}

    @property
    def payload(self) -> bytes:
        return pack([table_bytes(table) for table in (self.table, *self.values.values())])

    @classmethod
    def read(cls, header: Mapping[str, Any], payload: bytes | memoryview) -> GroupValues:
        tables = [read_table(part) for part in unpack(payload, 1 + len(header["values"]))]
        return cls(header["query"], tables[0], dict(zip(header["values"], tables[1:], strict=True)))


class WantedPairs:
    """Which of some pairs queries want."""

    def __init__(self, batch: ResultBatch):
        self._batch = batch
        self._classes = [batch.rows[side][CLASS].to_numpy() for side in Side]

    def places(self, query: Query) -> Int64s:
        """The pairs that a query wants, whatever their age."""
        batch = self._batch
        word, bit = self._bit_of(query)
        left, right, pairs = ((wants[:, word] >> bit & np.uint64(1)).astype(bool) for wants in batch.wants)
        chosen = left[self._classes[0]][batch.pairs[0]] & right[self._classes[1]][batch.pairs[1]]
        if len(batch.verdicts):
            chosen &= pairs[batch.verdicts]
        return np.flatnonzero(chosen)

    def routed(self, query: Query) -> Int64s:
        """The pairs that a query would get, by their age as well."""
        batch = self._batch
        word, bit = self._bit_of(query)
        classes = [self._classes[side][batch.pairs[side]] for side in Side]
        wanted = wanted_by(batch.join, batch.wants, classes, batch.tags, batch.verdicts)
        return np.flatnonzero(wanted[:, word] >> bit & np.uint64(1))

    def _bit_of(self, query: Query) -> tuple[int, np.uint64]:
        """Where a query is among the bits of queries."""
        word, bit = divmod([q.name for q in self._batch.join.queries].index(query.name), 64)
        return word, np.uint64(bit)


class PlacedPairs(NamedTuple):
    """Pairs that are live at some instant: rows, slot, when they come, anchor, first window, group as 128 bits."""

    rows: tuple[pa.Array, pa.Array]
    slot: Int32s
    time: Int64s
    anchor: Int64s
    window: Int32s
    h1: Int64s
    h2: Int64s


GroupsImage = list[tuple[int, str]]
"""The tables of groups: the number of the first group in each, and its name in the memory."""


@dataclass(frozen=True)
class GroupStateImage:
    """What another process needs, beside the memory, to go on with a family.

    `within` are layers of different values, `labels` are by expression.
    """

    main: LayerImage
    groups: GroupsImage
    since: int
    within: list[LayerImage] = field(default_factory=list)
    labels: dict[str, LabelsImage] = field(default_factory=dict)


class GroupState(ABC):
    """One family: its groups, and what is kept of their pairs."""

    most = EVERY_ROWS
    """Rows that may be sent for the instants of `EVERY d` at once."""

    def __init__(self, join: SharedJoin, family: Family, memory: Memory, main: Layer, image: GroupStateImage | None):
        self.join, self.family, self.main = join, family, main
        self._groups = Groups(family.groups, memory, image.groups if image else [])
        self._since = image.since if image else -FOREVER // family.pane

    @property
    def image(self) -> GroupStateImage:
        return GroupStateImage(self.main.image, self._groups.image, self._since)

    @property
    def nbytes(self) -> int:
        return self.main.nbytes + self._groups.nbytes

    def discard(self) -> None:
        self._groups.discard()
        self.main.discard()

    def begin(self, batch: ResultBatch) -> None:
        """Take in pairs of the time before the family was there."""
        if len(batch):
            self.take(OutputColumns(batch), WantedPairs(batch).places(self.family.first))

    @abstractmethod
    def take(self, columns: OutputColumns, chosen: Int64s) -> int:
        """Take in those of the pairs chosen that are live at some instant; how many additions that took."""

    @abstractmethod
    def advance(self, until_us: int, counters: Counters, silent: bool = False) -> list[GroupValues]:
        """Come to an instant, and send the values of all up to it, unless `silent`."""

    def _check_ticks(self, rows: int) -> None:
        """Stop where the instants of `EVERY d` have more rows than a micro-batch may bring."""
        if rows > self.most:
            largest = self.family.windows[-1]
            names = ", ".join(query.name for query in self.family.queries)
            seconds = [panes * self.family.pane / 1e6 for panes in (self.family.every or 1, largest.size)]
            raise LimitError(
                f"query {names}: EVERY {seconds[0]:g} s over windows of up to {seconds[1]:g} s tells more than "
                f"{self.most:,} rows in one micro-batch of one shard",
                hint="let EVERY be longer or the window shorter, write EMIT CHANGES, or raise SET fan_out_limit; then "
                "run the job again: nothing is lost",
            )

    def _placed(self, columns: OutputColumns, chosen: Int64s) -> PlacedPairs | None:
        """Those of the pairs chosen that are live at some instant, new groups taken in; None where there are none."""
        family, batch = self.family, columns.batch
        left, right = (batch.ts(side)[batch.pairs[side][chosen]] for side in Side)
        time = _panes(np.maximum(left, right), family.pane)
        anchor = _panes(self._anchors(columns, chosen, np.minimum(left + family.delta, right)), family.pane)
        window = np.searchsorted(self.main.shape.windows, time - anchor, side="right").astype(np.int32)
        inside = np.flatnonzero(window < len(family.windows))
        if not len(inside):
            return None
        rows = columns.places(chosen[inside])
        h1, h2 = group_hashes(columns, family.groups, rows)
        slot, born = self.main.find(h1, h2)
        if family.groups:
            self.main.slots.rows[slot[born]] = self._groups.add(columns, rows, born)
        return PlacedPairs(rows, slot, time[inside], anchor[inside], window[inside], h1, h2)

    def _anchors(self, columns: OutputColumns, chosen: Int64s, anchors: Int64s) -> Int64s:
        """The anchors of pairs; where rows wait until times of their own, a window before the first of these."""
        for side, until in zip(Side, self.family.until, strict=True):
            if until is not None:
                ends = microseconds(columns.per_row(until, side))[columns.batch.pairs[side][chosen]]
                anchors = np.minimum(anchors, ends - self.family.first.window.right)
        return anchors

    def _forget(self, until: int) -> None:
        """Let go of what is over at an instant."""
        self.main.forget(until)
        self._groups.settle(self.main)
        self._since = until

    def _named(self, slot: AnyArray) -> dict[str, Any]:
        """The columns that say which group is in each slot."""
        slots = self.main.slots
        own = {G1: slots.keys[slot, 0], G2: slots.keys[slot, 1]}
        return own | self._groups.take(slots.rows[slot])


def of_window(table: pa.Table, number: int) -> pa.Table:
    return table.filter(pc.equal(table[WINDOW], number)).drop_columns([WINDOW])


def _panes(us: Int64s, pane: int) -> Int64s:
    """The first instant, in panes, that is not before each time."""
    return us if pane == 1 else -(-us // pane)


def group_hashes(
    columns: OutputColumns, groups: Sequence[Expr], places: tuple[pa.Array, pa.Array]
) -> tuple[Int64s, Int64s]:
    """The group of each pair as 128 bits; unlike as a key, NULL is a value like any other."""
    if not groups:
        nothing = np.zeros(len(places[0]), np.int64)
        return nothing, nothing
    sides = {Side.RIGHT if g.right else Side.LEFT for g in groups}
    if len(sides) == 1 and not any(g.left and g.right for g in groups):
        (side,) = sides
        h1, h2 = _hashed([columns.per_row(g, side) for g in groups])
        at = places[side].to_numpy()
        return h1[at], h2[at]
    return _hashed([columns.values(g, places) for g in groups])


def _hashed(values: list[pa.ChunkedArray]) -> tuple[Int64s, Int64s]:
    h1, h2, valid = hash_keys(values)
    if not valid.all():
        nulls = np.stack([np.asarray(pc.is_null(v)) for v in values], axis=1)
        missing = nulls @ (1 << np.arange(len(values)))
        some = np.flatnonzero(~valid)
        h1, h2 = h1.copy(), h2.copy()
        h1[some], h2[some] = extend_keys(h1[some], h2[some], missing[some], np.ones(len(some), np.int64))
    return h1, h2


class Groups:
    """The columns of groups by number, in tables that are merged when they are of similar size."""

    def __init__(self, exprs: Sequence[Expr], memory: Memory, image: GroupsImage):
        self._exprs, self._memory = exprs, memory
        self._schema = pa.schema([pa.field(f"g.{n}", arrow_type(e.type)) for n, e in enumerate(exprs)])
        self._tables = [(base, name, memory.table(name)) for base, name in image]

    @property
    def image(self) -> GroupsImage:
        return [(base, name) for base, name, _ in self._tables]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for *_, table in self._tables)

    def discard(self) -> None:
        for _, name, _ in self._tables:
            self._memory.discard(name)
        self._tables = []

    @property
    def _end(self) -> int:
        return self._tables[-1][0] + self._tables[-1][2].num_rows if self._tables else 0

    def add(self, columns: OutputColumns, places: tuple[pa.Array, pa.Array], chosen: Int64s) -> Int64s:
        """Take in the groups of the pairs chosen; their numbers."""
        at = places[0].take(pa.array(chosen)), places[1].take(pa.array(chosen))
        return self.add_rows([unsigned_zero(columns.values(expr, at)) for expr in self._exprs], len(chosen))

    def add_rows(self, values: Sequence[pa.ChunkedArray], rows: int) -> Int64s:
        """Take in groups by their columns; their numbers."""
        first = self._end
        if rows and self._exprs:
            self._append(first, pa.table(list(values), schema=self._schema))
        return first + np.arange(rows)

    def _append(self, base: int, table: pa.Table) -> None:
        first = first_to_merge([known.num_rows for *_, known in self._tables], table.num_rows)
        merged = self._tables[first:]
        table = pa.concat_tables([*(known for *_, known in merged), table]).combine_chunks()
        for _, name, _ in merged:
            self._memory.discard(name)
        name = self._memory.name("groups")
        self._tables[first:] = [(merged[0][0] if merged else base, name, self._memory.keep(name, table))]

    def take(self, numbers: Int64s) -> dict[str, pa.ChunkedArray]:
        """The columns of these groups."""
        if not self._exprs:
            return {}
        wanted, places = np.unique(numbers, return_inverse=True)
        parts = [self._schema.empty_table()]
        for base, _, table in self._tables:
            low, high = np.searchsorted(wanted, [base, base + table.num_rows])
            if low < high:
                parts.append(table.take(pa.array(wanted[low:high] - base)))
        found = pa.concat_tables(parts).take(pa.array(places.ravel()))
        return {name: found[name] for name in self._schema.names}

    def settle(self, kept_by: Slotted) -> None:
        """Let go of groups that are no more, once they are the larger part."""
        if self._end <= 2 * kept_by.live + SPARE_GROUPS:
            return
        slots, numbers = kept_by.opened, kept_by.slots.rows
        slots = slots[np.argsort(numbers[slots])]
        assert len(slots) == kept_by.live
        kept = pa.table(self.take(numbers[slots]))
        self.discard()
        if len(slots):
            self._append(0, kept)
        numbers[slots] = np.arange(len(slots))


def unsigned_zero(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Zero without a sign: both zeros are one group."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
