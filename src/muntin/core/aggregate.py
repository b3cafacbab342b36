"""The aggregate queries of one join and shard: pairs in, values of groups out.

Pairs are evaluated once for each expression, whichever queries use it, and added up once for each family
(`plan.families`), not once for each query. Which values a group has at which instant comes out as tables of numbers
(`Values`), one for each query; `values.py` makes SQL's values of them, after those of all shards have been put together
where a group is in several.

An instant is final when no pair can come any more that is live at it: rows with exactly the release point's time may
still come, so instants before it are.

Nothing here is durable: the live pairs follow from the rows that the join keeps, and are found again from them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core import measures
from muntin.core.batch import CLASS, Counters
from muntin.core.book import Entries
from muntin.core.layer import Layer, Pairs, Shape, in_order
from muntin.core.memory import Memory
from muntin.core.results import Columns, Run, ipc
from muntin.core.streams import FOREVER
from muntin.kernels.aggregate import BEFORE, LIVE, USED, Events, Out
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import extend_keys, hash_keys
from muntin.model import Expr, Query, Side
from muntin.plan import SharedJoin
from muntin.plan.families import Family, combined, families, told_apart

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
TIME, G1, G2, V1, V2 = "_t", "_g1", "_g2", "_v1", "_v2"
"""Columns beside the numbers: the instant, the group as 128 bits, a value within the group as 128 bits."""
SPARE_GROUPS = 1024


@dataclass(frozen=True)
class Values:
    """What a shard knows of one query's groups since the instants told last: a row for each instant and group.

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
        parts = [ipc(table) for table in (self.table, *self.values.values())]
        return struct.pack(f"<{len(parts)}q", *map(len, parts)) + b"".join(parts)

    @classmethod
    def read(cls, header: Mapping[str, Any], payload: bytes | memoryview) -> Values:
        count = 1 + len(header["values"])
        bounds = np.cumsum([8 * count, *struct.unpack_from(f"<{count}q", payload)])
        tables = [pa.ipc.open_stream(pa.py_buffer(payload)[a:b]).read_all() for a, b in pairwise(bounds)]
        return cls(header["query"], tables[0], dict(zip(header["values"], tables[1:], strict=True)))


class Aggregates:
    """All families of a join."""

    def __init__(self, join: SharedJoin, memory: Memory, image: Sequence[Mapping[str, Any]] | None = None):
        self._memory = memory
        found = families(join)
        self.states = [FamilyState(join, f, memory, image[n] if image else None) for n, f in enumerate(found)]

    def __bool__(self) -> bool:
        return bool(self.states)

    @property
    def image(self) -> list[dict[str, Any]]:
        return [state.image for state in self.states]

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for state in self.states)

    @property
    def groups(self) -> int:
        return sum(state.main.live for state in self.states)

    def take(self, run: Run, counters: Counters) -> None:
        """Take in pairs; none of them is live at an instant that has been told."""
        if len(run):
            columns, wanted = Columns(run), Wanted(run)
            for state in self.states:
                counters.aggregated += state.take(columns, wanted.places(state.family.first))

    def advance(self, until_us: int, counters: Counters) -> list[Values]:
        """Tell of all instants up to this one."""
        found = [values for state in self.states for values in state.advance(until_us, counters)]
        return found

    def change(self, join: SharedJoin) -> list[FamilyState]:
        """Go on with other queries; the families that are new or have changed, which begin without pairs."""
        before = {state.family: state for state in self.states if any(state.join.partitions) == any(join.partitions)}
        self.states, new = [], []
        for family in families(join):
            state = before.pop(family, None)
            if state is None:
                state = FamilyState(join, family, self._memory)
                new.append(state)
            state.join = join
            self.states.append(state)
        for state in before.values():
            state.discard()
        return new


class Wanted:
    """Which pairs of a run queries want, whatever their age."""

    def __init__(self, run: Run):
        self._run = run
        self._classes = [run.rows[side][CLASS].to_numpy() for side in Side]

    def places(self, query: Query) -> Int64s:
        run = self._run
        word, bit = divmod([q.name for q in run.join.queries].index(query.name), 64)
        left, right, pairs = ((wants[:, word] >> np.uint64(bit) & np.uint64(1)).astype(bool) for wants in run.wants)
        chosen = left[self._classes[0]][run.pairs[0]] & right[self._classes[1]][run.pairs[1]]
        if len(run.verdicts):
            chosen &= pairs[run.verdicts]
        return np.flatnonzero(chosen)


class FamilyState:
    """One family: its groups, and within them the values of expressions of which the different ones are counted."""

    def __init__(self, join: SharedJoin, family: Family, memory: Memory, image: Mapping[str, Any] | None = None):
        self.join, self.family = join, family
        self._memory = memory
        self._ints, self._doubles = whole_numbers(family), sums_of_doubles(family)
        windows = np.array([lane.window for lane in family.lanes], np.int64)
        counts = [self._ints.index(measures.count_name(arg)) for arg in self._doubles]
        shape = Shape(windows, len(self._ints), np.array(counts, np.int64), len(family.extremes))
        within = Shape(windows, 1, np.zeros(0, np.int64), 0)
        self.main = Layer(shape, memory, image and image["main"])
        self._within = [Layer(within, memory, image and image["within"][n]) for n in range(len(family.distinct))]
        self._groups = Groups(family.groups, memory, image["groups"] if image else ())
        self._since: int = image["since"] if image else -FOREVER // family.pane
        apart = {sql: told for query in family.queries for sql, told in told_apart(join, query).items()}
        self._apart = [apart[arg.sql] for arg in family.distinct]

    @property
    def image(self) -> dict[str, Any]:
        return {
            "main": self.main.image,
            "within": [layer.image for layer in self._within],
            "groups": self._groups.image,
            "since": self._since,
        }

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in (self.main, *self._within)) + self._groups.nbytes

    def discard(self) -> None:
        self._groups.discard()
        for layer in (self.main, *self._within):
            layer.discard()

    # -- pairs in -------------------------------------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        """Take in pairs of the time before the family was there."""
        if len(run):
            self.take(Columns(run), Wanted(run).places(self.family.first))

    def take(self, columns: Columns, chosen: Int64s) -> int:
        """Take in those of the pairs chosen that are live at some instant; how many additions that took."""
        family, run = self.family, columns.run
        left, right = (run.ts(side)[run.pairs[side][chosen]] for side in Side)
        time = _panes(np.maximum(left, right), family.pane)
        anchor = _panes(np.minimum(left + family.delta, right), family.pane)
        lane = np.searchsorted(self.main.shape.windows, time - anchor, side="right").astype(np.int32)
        inside = np.flatnonzero(lane < len(family.lanes))
        if not len(inside):
            return 0
        chosen, time, anchor, lane = chosen[inside], time[inside], anchor[inside], lane[inside]
        places = columns.places(chosen)
        h1, h2 = group_hashes(columns, family.groups, places)
        slot, born = self.main.find(h1, h2)
        if family.groups:
            self.main.slots.rows[slot[born]] = self._groups.add(columns, places, born)
        work = self.main.take(Pairs(slot, time, anchor, lane, *measured(family, columns, places)))
        for arg, layer in zip(family.distinct, self._within, strict=True):
            v1, v2, valid = hash_keys([columns.values(arg, places)])
            there = np.flatnonzero(valid)
            v1, v2 = extend_keys(h1[there], h2[there], v1[there], v2[there])
            inner, born = layer.find(v1, v2)
            layer.slots.rows[inner[born]] = slot[there][born]
            ones, none = np.ones((len(there), 1), np.int64), np.zeros((len(there), 0))
            nothing = none.astype(np.int64), none.astype(bool)
            work += layer.take(Pairs(inner, time[there], anchor[there], lane[there], ones, none, *nothing))
        return work

    # -- values out -----------------------------------------------------------------------------------------------

    def advance(self, until_us: int, counters: Counters, silent: bool = False) -> list[Values]:
        """Come to an instant, and tell of all up to it, unless `silent`."""
        family, since, until = self.family, self._since, until_us // self.family.pane
        if until <= since:
            return []
        events = self.main.events(since, until)
        told: dict[str, pa.Table] = {}
        for n, (arg, layer) in enumerate(zip(family.distinct, self._within, strict=True)):
            inner = in_order(layer.events(since, until))
            if self._apart[n]:
                told[arg.sql] = self._values(layer, self._rows(layer, inner, since, until, silent))
            else:
                time, lane, owner, step = layer.presence(inner)
                column = self._ints.index(measures.distinct_name(arg))
                events.append(self.main.adjustments(time, lane, owner, column, step))
        ordered = in_order(events)
        counters.combined += int((ordered.hi - ordered.lo).sum())
        out = self._rows(self.main, ordered, since, until, silent)
        table = self._table(out)
        found = [
            Values(q.name, _of_lane(table, n), {arg: _of_lane(t, n) for arg, t in told.items()})
            for n, lane in enumerate(family.lanes)
            for q in lane.queries
        ]
        for layer in (*self._within, self.main):
            layer.forget(until)
        self._groups.settle(self.main)
        self._since = until
        return found

    def _rows(self, layer: Layer, events: Events, since: int, until: int, silent: bool) -> Out:
        """Rows for all instants; where groups are put together later, with what each had before."""
        if silent:
            return layer.ticks(events, until, until, 1)
        if self.family.every is not None:
            return layer.ticks(events, since, until, self.family.every)
        if not combined(self.join, self.family.first):
            return layer.changes(events, since)
        before, out = layer.standing(since), layer.changes(events, since)
        columns: list[Any] = list(out)
        new = out.time != BEFORE
        return Out._make(np.concatenate([b, rows[new]]) for b, rows in zip(before, columns, strict=True))

    def _table(self, out: Out) -> pa.Table:
        slots = self.main.slots
        columns: dict[str, Any] = {
            "lane": out.lane,
            TIME: self._times(out),
            G1: slots.keys[out.slot, 0],
            G2: slots.keys[out.slot, 1],
        }
        columns |= self._groups.take(slots.rows[out.slot])
        columns |= {name: out.ints[:, n] for n, name in enumerate(self._ints)}
        for n, arg in enumerate(self._doubles):
            columns |= {name: out.doubles[:, 2 * n + half] for half, name in enumerate(measures.double_names(arg))}
        for n, call in enumerate(self.family.extremes):
            columns[measures.extreme_name(call)] = pa.array(out.keys[:, n], mask=~out.has[:, n])
        return pa.table(columns)

    def _values(self, layer: Layer, out: Out) -> pa.Table:
        """The values within groups as a table."""
        owner, own = layer.slots.rows[out.slot], layer.slots.keys[out.slot]
        groups = self.main.slots.keys[owner]
        named = {G1: groups[:, 0], G2: groups[:, 1], V1: own[:, 0], V2: own[:, 1], measures.PAIRS: out.ints[:, 0]}
        return pa.table({"lane": out.lane, TIME: self._times(out), **named})

    def _times(self, out: Out) -> Int64s:
        """Instants in microseconds."""
        return np.where(out.time == BEFORE, BEFORE, out.time * self.family.pane)


def measured(
    family: Family, columns: Columns, places: tuple[pa.Array, pa.Array]
) -> tuple[Int64s, npt.NDArray[np.float64], Int64s, Bools]:
    """What each pair adds: whole numbers, doubles; and the keys of MIN and MAX, with where there is a value."""
    rows, names, added = len(places[0]), whole_numbers(family), sums_of_doubles(family)
    ints, doubles = np.zeros((rows, len(names)), np.int64), np.zeros((rows, len(added)))
    keys, has = np.zeros((rows, len(family.extremes)), np.int64), np.zeros((rows, len(family.extremes)), bool)
    ints[:, 0] = 1
    for arg in family.counted:
        values = columns.values(arg, places)
        ints[:, names.index(measures.count_name(arg))] = np.asarray(pc.is_valid(values))
        if arg in family.summed:
            whole, double = measures.summands(arg, values)
            first = names.index(measures.sum_names(arg)[0])
            for n, column in enumerate(whole):
                ints[:, first + n] = column
            for sums in double:
                doubles[:, added.index(arg)] = sums
        for n, call in enumerate(family.extremes):
            if call.arg == arg:
                keys[:, n], has[:, n] = measures.keys(call, values)
    return ints, doubles, keys, has


def sums_of_doubles(family: Family) -> list[Expr]:
    """The expressions whose sums are doubles."""
    return [arg for arg in family.summed if measures.double_names(arg)]


def whole_numbers(family: Family) -> list[str]:
    """The whole numbers that are kept of each group."""
    sums = [name for arg in family.summed for name in measures.sum_names(arg)]
    distinct = [measures.distinct_name(arg) for arg in family.distinct]
    return [measures.PAIRS, *(measures.count_name(arg) for arg in family.counted), *sums, *distinct]


def _of_lane(table: pa.Table, lane: int) -> pa.Table:
    return table.filter(pc.equal(table["lane"], lane)).drop_columns(["lane"])


def _panes(us: Int64s, pane: int) -> Int64s:
    """The first instant, in panes, that is not before each time."""
    return us if pane == 1 else -(-us // pane)


def group_hashes(columns: Columns, groups: Sequence[Expr], places: tuple[pa.Array, pa.Array]) -> tuple[Int64s, Int64s]:
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

    def __init__(self, exprs: Sequence[Expr], memory: Memory, image: Sequence[tuple[int, str]] = ()):
        self._exprs, self._memory = exprs, memory
        self._schema = pa.schema([pa.field(f"g.{n}", arrow_type(e.type)) for n, e in enumerate(exprs)])
        self._tables = [(base, name, memory.table(name)) for base, name in image]

    @property
    def image(self) -> list[tuple[int, str]]:
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

    def add(self, columns: Columns, places: tuple[pa.Array, pa.Array], chosen: Int64s) -> Int64s:
        """Take in the groups of the pairs chosen; their numbers."""
        at = places[0].take(pa.array(chosen)), places[1].take(pa.array(chosen))
        return self.add_rows([_plain(columns.values(expr, at)) for expr in self._exprs], len(chosen))

    def add_rows(self, values: Sequence[pa.ChunkedArray], rows: int) -> Int64s:
        """Take in groups by their columns; their numbers."""
        first = self._end
        if rows and self._exprs:
            self._append(first, pa.table(list(values), schema=self._schema))
        return first + np.arange(rows)

    def _append(self, base: int, table: pa.Table) -> None:
        while self._tables and self._tables[-1][2].num_rows < 2 * table.num_rows:
            base, name, before = self._tables.pop()
            table = pa.concat_tables([before, table])
            self._memory.discard(name)
        name = self._memory.name("groups")
        self._tables.append((base, name, self._memory.keep(name, table.combine_chunks())))

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

    def settle(self, layer: Layer | Entries) -> None:
        """Let go of groups that are no more, once they are the larger part."""
        if self._end <= 2 * layer.live + SPARE_GROUPS:
            return
        used = layer.slots.refs[: layer.slots.control[USED]] > 0
        slots = np.flatnonzero(used)
        slots = slots[np.argsort(layer.slots.rows[slots])]
        assert len(slots) == layer.slots.control[LIVE]
        kept = pa.table(self.take(layer.slots.rows[slots]))
        self.discard()
        if len(slots):
            self._append(0, kept)
        layer.slots.rows[slots] = np.arange(len(slots))


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Zero without a sign: both zeros are one group."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
