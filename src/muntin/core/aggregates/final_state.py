"""One family of queries with EMIT FINAL: what its groups have, window by window, until their keys are over.

A family's pairs are added up once: each in the smallest window that has it (`plan.families`); the totals of a query are
those of its own window and the smaller ones. When a key is over for a window, the values of its groups there go out,
and what they have moves to the next window; when it is over for the largest, they are closed. The ends of a key are
event times (`KeyEnds`), so that rows do not depend on micro-batches: pairs later than the last end of their key begin a
new group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.core.aggregates.durable_totals import (
    SEGMENT,
    SERIAL,
    DurableTotals,
    DurableTotalsImage,
    DurableTotalsMeta,
    Entries,
    EntriesImage,
    closed_in,
    contents_of,
)
from muntin.core.aggregates.groups import G1, G2, TIME, Groups, GroupsImage, GroupValues, group_hashes
from muntin.core.aggregates.key_ends import KeyEnds, first_ends
from muntin.core.aggregates.pair_values import values_of_pairs
from muntin.core.aggregates.totals import Totals, TotalsLayout, together
from muntin.core.batch import Counters
from muntin.core.results import OutputColumns, ResultBatch
from muntin.core.storage import Layout, Memory, flat
from muntin.kernels.aggregate import fill_cells
from muntin.kernels.arrays import AnyArray, Int64s
from muntin.kernels.chains import count_members, link, list_members
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import extend_keys, hash_keys
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.families import Family

Keys = tuple[Int64s, Int64s]
"""Join keys as 128 bits."""
H1, H2, KEY1, KEY2, OWNER1, OWNER2 = "_h1", "_h2", "_k1", "_k2", "_o1", "_o2"
SIZES = "_left", "_right"
NEXT, KEY, INTS, DOUBLES, KEYS, HAS, HEADS = range(7)
"""Columns of groups: the next one of the same key, the key, totals by window, and from `HEADS` on for each expression
whose different values are counted the first of them."""
OWNER, WINDOW = 1, 2
"""OutputColumns of different values, after `NEXT`: their group, and the smallest window that has them."""
VALUES = flat("int64", "int64", "int64")
NOTHING = pa.table({SERIAL: np.zeros(0, np.int64), SEGMENT: np.zeros(0, np.int64)})


@dataclass(frozen=True)
class FinalStateMeta:
    """What is durable of a family beside its chunks: its queries, and the logs of groups and of different values."""

    queries: list[str]
    groups: DurableTotalsMeta
    values: dict[str, DurableTotalsMeta]


@dataclass(frozen=True)
class FinalStateImage:
    """What another process needs, beside the memory, to go on with a family."""

    queries: list[str]
    groups: DurableTotalsImage
    keys: EntriesImage
    values: list[DurableTotalsImage]
    named: GroupsImage


class FinalState:
    """One family: its groups by key, and the different values within them."""

    def __init__(self, join: SharedJoin, family: Family, memory: Memory, image: FinalStateImage | None = None):
        self.join, self.family, self._memory = join, family, memory
        self._layout = TotalsLayout(family.measures)
        sizes = [[window.queries[0].window.side(side) for window in family.windows] for side in Side]
        self._sizes = np.array(sizes, np.int64)
        self._count = len(family.windows)
        self.groups = DurableTotals(self._group_columns(), memory, image.groups if image else None)
        self._keys = Entries([], memory, image.keys if image else None)  # `rows` leads to the groups of a key
        self._values = [
            DurableTotals(VALUES, memory, image.values[n] if image else None)
            for n in range(len(family.measures.distinct))
        ]
        self._named = Groups(family.groups, memory, image.named if image else [])

    def _group_columns(self) -> Layout:
        heads = flat(*("int64" for _ in self.family.measures.distinct))
        return [*flat("int64"), ((2,), "int64"), *self._layout.columns(self._count), *heads]

    @property
    def _distinct(self) -> list[str]:
        """The expressions whose different values are counted."""
        return [kept.arg.sql for kept in self.family.measures.distinct]

    @property
    def image(self) -> FinalStateImage:
        queries, values = [q.name for q in self.family.queries], [log.image for log in self._values]
        return FinalStateImage(queries, self.groups.image, self._keys.image, values, self._named.image)

    @property
    def nbytes(self) -> int:
        return sum(log.nbytes for log in (self.groups, self._keys, *self._values)) + self._named.nbytes

    @property
    def logs(self) -> list[tuple[DurableTotals, Callable[[Int64s], pa.Table]]]:
        """What is durable, with how entries are written."""
        return [(self.groups, self._written), *((log, partial(self._written_values, log)) for log in self._values)]

    def discard(self) -> list[str]:
        """Give all back; the chunks that are needed no more."""
        for entries in (self.groups, self._keys, *self._values):
            entries.discard()
        self._named.discard()
        return [segment.name for log, _ in self.logs for segment in log.segments]

    # -- pairs in -------------------------------------------------------------------------------------------------

    def advance(
        self, columns: OutputColumns, chosen: Int64s, keys: Keys, ends: KeyEnds, end: int | None, counters: Counters
    ) -> list[GroupValues]:
        """Take in pairs; the values of what is over, life by life of each key; `keys` are those of all pairs."""
        found: list[GroupValues] = []
        last = self._count - 1
        chosen, time, window = self._inside(columns.batch, chosen)
        h1, h2 = keys[0][chosen], keys[1][chosen]
        while len(chosen) or len(ends.at):
            closing = ends.chosen(ends.window == last)
            now, due = time <= first_ends(closing, h1, h2), ends.at <= first_ends(closing, ends.h1, ends.h2)
            counters.aggregated += self._add(columns, chosen[now], window[now], h1[now], h2[now])
            found += self._send(ends.chosen(due))
            chosen, time, window, h1, h2 = (column[~now] for column in (chosen, time, window, h1, h2))
            ends = ends.chosen(~due)
        if end is not None:
            found += self._send_all(end)
        self._named.settle(self.groups)
        return found

    def _inside(self, batch: ResultBatch, chosen: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Those of the pairs chosen that some window has, their times, and the smallest window of each."""
        left, right = (batch.ts(side)[batch.pairs[side][chosen]] for side in Side)
        time, ages = np.maximum(left, right), (right - left, left - right)
        if self.family.is_routed:
            return chosen, time, np.zeros(len(chosen), np.int64)
        window = np.maximum(*(np.searchsorted(self._sizes[side], ages[side], side="right") for side in Side))
        inside = np.flatnonzero(window < self._count)
        return chosen[inside], time[inside], window[inside]

    def _add(self, columns: OutputColumns, chosen: Int64s, window: Int64s, k1: Int64s, k2: Int64s) -> int:
        """Add up pairs; how many additions that took."""
        if not len(chosen):
            return 0
        places = columns.places(chosen)
        h1, h2 = group_hashes(columns, self.family.groups, places)
        slot, born = self.groups.find(h1, h2)
        self.groups.slots.rows[slot[born]] = self._named.add(columns, places, born)
        self._enter(slot[born], k1[born], k2[born])
        self.groups.touch(slot)
        totals = (
            column.reshape(-1, column.shape[2]) if column.size else column[0] for column in self._totals_by_window
        )
        fill_cells(slot * self._count + window, *values_of_pairs(self.family.measures, columns, places), *totals)
        work = len(chosen)
        for n, kept in enumerate(self.family.measures.distinct):
            v1, v2, valid = hash_keys([columns.values(kept.arg, places)])
            there = np.flatnonzero(valid)
            v1, v2 = extend_keys(h1[there], h2[there], v1[there], v2[there])
            self._add_values(n, v1, v2, slot[there], window[there])
            work += len(there)
        return work

    @property
    def _totals_by_window(self) -> Sequence[AnyArray]:
        return self.groups.columns[INTS:HEADS]

    def _enter(self, groups: Int64s, k1: Int64s, k2: Int64s) -> None:
        """Make new groups known by their keys; they have no values yet."""
        keys, born = self._keys.find(k1, k2)
        self._keys.slots.rows[keys[born]] = -1
        link(self._keys.slots.rows, self.groups.columns[NEXT], keys, groups)
        self.groups.columns[KEY][groups] = np.stack([k1, k2], axis=1)
        for n in range(len(self._values)):
            self.groups.columns[HEADS + n][groups] = -1

    def _add_values(self, n: int, v1: Int64s, v2: Int64s, owner: Int64s, window: Int64s) -> None:
        """Count the values that are new in a group, each in the smallest window that has it."""
        log, none = self._values[n], self._count
        slot, born = log.find(v1, v2)
        self._enter_values(n, slot[born], owner[born], np.full(len(born), none))
        touched, windows = np.unique(slot), log.columns[WINDOW]
        before = windows[touched].copy()
        np.minimum.at(windows, slot, window)
        less = windows[touched] < before
        touched, before, known = touched[less], before[less], before[less] < none
        owners, totals = log.columns[OWNER][touched], self.groups.columns[INTS]
        measures = self.family.measures
        counts = totals[:, :, measures.whole.index(measures.distinct[n].name)]
        np.add.at(counts, (owners[known], before[known]), -1)
        np.add.at(counts, (owners, windows[touched]), 1)
        log.touch(touched)

    def _enter_values(self, n: int, values: Int64s, owners: Int64s, windows: Int64s) -> None:
        columns = self._values[n].columns
        columns[OWNER][values], columns[WINDOW][values] = owners, windows
        link(self.groups.columns[HEADS + n], columns[NEXT], owners, values)

    # -- values out -----------------------------------------------------------------------------------------------

    def _send(self, ends: KeyEnds) -> list[GroupValues]:
        """The values of the groups of keys that are over, window by window."""
        found: list[GroupValues] = []
        for window in np.unique(ends.window).tolist():
            mine = ends.chosen(ends.window == window)
            keys = self._keys.seek(mine.h1, mine.h2)
            known = np.flatnonzero(keys >= 0)
            keys, first = np.unique(keys[known], return_index=True)
            groups, places = members_of(self._keys.slots.rows, self.groups.columns[NEXT], keys)
            found += self._leave(window, groups, mine.at[known[first]][places])
            if window == self._count - 1:
                self._close(groups, keys)
            else:
                self._move_up(window, groups)
        return found

    def _send_all(self, end: int) -> list[GroupValues]:
        """The values of all groups: the streams have ended."""
        groups, found = self.groups.opened, []
        for window in range(self._count):
            found += self._leave(window, groups, np.full(len(groups), end))
        self._close(groups, self._keys.opened)
        return found

    def _leave(self, window: int, groups: Int64s, at: Int64s) -> list[GroupValues]:
        totals = self._totals(groups, window)
        there = totals.ints[:, 0] > 0
        if not there.any():
            return []
        groups, slots = groups[there], self.groups.slots
        columns: dict[str, Any] = {TIME: at[there], G1: slots.keys[groups, 0], G2: slots.keys[groups, 1]}
        columns |= self._named.take(slots.rows[groups])
        table = pa.table(columns | self._layout.named(Totals._make(column[there] for column in totals)))
        return [GroupValues(query.name, table) for query in self.family.windows[window].queries]

    def _totals(self, groups: Int64s, window: int) -> Totals:
        """What groups have in all windows up to one."""
        by_window = [column[groups] for column in self._totals_by_window]
        total = Totals(*(column[:, 0] for column in by_window))
        for n in range(1, window + 1):
            total = together(total, Totals(*(column[:, n] for column in by_window)))
        return total

    def _move_up(self, window: int, groups: Int64s) -> None:
        """What groups have up to a window is the next one's from now on: the window's own queries have their values."""
        moved = self._totals(groups, window + 1)
        for column, values in zip(self._totals_by_window, moved, strict=True):
            column[groups, : window + 1] = 0
            column[groups, window + 1] = values
        self.groups.touch(groups)
        for n, log in enumerate(self._values):
            values, _ = members_of(self.groups.columns[HEADS + n], log.columns[NEXT], groups)
            values = values[log.columns[WINDOW][values] <= window]
            log.columns[WINDOW][values] = window + 1
            log.touch(values)

    def _close(self, groups: Int64s, keys: Int64s) -> None:
        for n, log in enumerate(self._values):
            log.close(members_of(self.groups.columns[HEADS + n], log.columns[NEXT], groups)[0])
        self.groups.close(groups)
        self._keys.close(keys)

    def open_keys(self) -> tuple[list[pa.ChunkedArray], Int64s, Int64s]:
        """The keys of the groups that there are: their values column by column, and both halves."""
        groups, query = self.groups.opened, self.family.first
        named, values = self._named.take(self.groups.slots.rows[groups]), []
        for pair in self.join.keys:
            number = next(n for n, g in enumerate(self.family.groups) if query.is_key(pair, g))
            values.append(named[f"g.{number}"].cast(arrow_type(pair.type), safe=False))
        there = np.all([np.asarray(column.is_valid()) for column in values], axis=0)
        halves = self.groups.columns[KEY][groups][there]
        return [column.filter(pa.array(there)) for column in values], halves[:, 0].copy(), halves[:, 1].copy()

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> FinalStateMeta:
        values = {sql: log.meta for sql, log in zip(self._distinct, self._values, strict=True)}
        return FinalStateMeta([q.name for q in self.family.queries], self.groups.meta, values)

    def _written(self, groups: Int64s) -> pa.Table:
        """Groups with their totals, each named by the window of its window: others may have other windows."""
        slots, keys = self.groups.slots, self.groups.columns[KEY][groups]
        hashes = slots.keys[groups]
        columns: dict[str, Any] = {H1: hashes[:, 0], H2: hashes[:, 1], KEY1: keys[:, 0], KEY2: keys[:, 1]}
        columns |= self._named.take(slots.rows[groups])
        for n, (left, right) in enumerate(self._sizes.T.tolist()):
            own = self._layout.named(Totals(*(column[groups, n] for column in self._totals_by_window)))
            columns |= {f"{left}/{right} {name}": numbers for name, numbers in own.items()}
        return pa.table(columns)

    def _written_values(self, log: DurableTotals, values: Int64s) -> pa.Table:
        hashes, owners = log.slots.keys[values], self.groups.slots.keys[log.columns[OWNER][values]]
        left, right = self._sizes[:, log.columns[WINDOW][values]]
        columns = [hashes[:, 0], hashes[:, 1], owners[:, 0], owners[:, 1], left, right]
        return pa.table([pa.array(c) for c in columns], names=[H1, H2, OWNER1, OWNER2, *SIZES])

    def restore(self, meta: FinalStateMeta, tables: Mapping[str, pa.Table]) -> None:
        """What a log with this `meta` has, perhaps of a family with more queries."""
        logs = [meta.groups, *(meta.values[sql] for sql in self._distinct)]
        gone = {segment.name: closed_in(tables[segment.name]) for log in logs for segment in log.segments}
        self._refill(logs, [contents_of(log, tables) for log in logs], gone)

    def narrowed(self, join: SharedJoin, family: Family) -> tuple[FinalState, list[str]]:
        """The same with fewer queries, and the chunks that are needed no more; between micro-batches only."""
        other = FinalState(join, family, self._memory)
        stay = [0, *(1 + self._distinct.index(sql) for sql in other._distinct)]
        logs = [self.logs[n] for n in stay]
        gone = {segment.name: segment.gone.arrays[0] for log, _ in logs for segment in log.segments}
        other._refill([log.meta for log, _ in logs], [log.contents(render) for log, render in logs], gone)
        kept = {segment.name for log, _ in logs for segment in log.segments}
        return other, [name for name in self.discard() if name not in kept]

    def _refill(
        self, metas: Sequence[DurableTotalsMeta], found: Sequence[pa.Table | None], gone: Mapping[str, Int64s]
    ) -> None:
        """Take in groups, and the values within them, that a log has."""
        takes: list[Callable[[pa.Table], tuple[pa.Table, Int64s]]] = [self._take_groups]
        takes += [partial(self._take_values, n) for n in range(len(self._values))]
        for log, meta, table, take in zip([self.groups, *self._values], metas, found, takes, strict=True):
            taken, slots = take(table) if table is not None else (NOTHING, np.zeros(0, np.int64))
            log.refill(meta, taken, slots, gone)

    def _take_groups(self, table: pa.Table) -> tuple[pa.Table, Int64s]:
        h1, h2, k1, k2 = (table[name].to_numpy() for name in (H1, H2, KEY1, KEY2))
        slots, _ = self.groups.find(h1, h2)
        values = [table[f"g.{n}"] for n in range(len(self.family.groups))]
        self.groups.slots.rows[slots] = self._named.add_rows(values, len(slots))
        self._enter(slots, k1, k2)
        written = {name.split(" ", 1)[0] for name in table.column_names if name[0].isdigit()}
        for sizes in sorted(written):
            left, right = map(int, sizes.split("/"))
            window = int(self._windows_with(left, right))
            if window < self._count:
                has = Totals(*(column[slots, window] for column in self._totals_by_window))
                both = together(has, self._layout.read(table, sizes))
                for column, total in zip(self._totals_by_window, both, strict=True):
                    column[slots, window] = total
        return table, slots

    def _windows_with(self, left: Any, right: Any) -> Any:
        """The smallest window that has pairs of such windows."""
        return np.maximum(np.searchsorted(self._sizes[0], left), np.searchsorted(self._sizes[1], right))

    def _take_values(self, n: int, table: pa.Table) -> tuple[pa.Table, Int64s]:
        windows = self._windows_with(*(table[name].to_numpy() for name in SIZES))
        table, windows = table.filter(pa.array(windows < self._count)), windows[windows < self._count]
        h1, h2, o1, o2 = (table[name].to_numpy() for name in (H1, H2, OWNER1, OWNER2))
        slots, _ = self._values[n].find(h1, h2)
        self._enter_values(n, slots, self.groups.seek(o1, o2), windows)
        return table, slots


def members_of(heads: Int64s, after: Int64s, owners: Int64s) -> tuple[Int64s, Int64s]:
    """All members of some owners, with the place of each one's owner among them."""
    rows = count_members(heads, after, owners)
    members, places = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    list_members(heads, after, owners, members, places)
    return members, places
