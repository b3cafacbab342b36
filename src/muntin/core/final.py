"""Groups of a join key that are told once, when they can get no more pairs (semantics, section 7).

Unlike live pairs, those of a group's whole life cannot be found again from the rows that the join keeps. So their
totals are durable (core/book.py), and rows may be freed by promises: nobody needs them for the totals.

A family's pairs are added up once: each in the smallest lane that has it (`plan.families`); the totals of a query are
those of its own lane and the smaller ones. When a key is over for a lane, its groups are told there, and what they have
moves to the next lane; when it is over for the largest, they are closed. The ends of a key are event times (`Ends`), so
that rows do not depend on micro-batches: pairs later than the last end of their key begin a new group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.core import measures
from muntin.core.aggregate import measured, sums_of_doubles, whole_numbers
from muntin.core.arrival import key_columns
from muntin.core.batch import Counters
from muntin.core.book import RUN, SERIAL, Book, Entries, closed_in, contents_of
from muntin.core.chunks import ChunkLog, Kind
from muntin.core.groups import G1, G2, TIME, Groups, Values, Wanted, group_hashes
from muntin.core.memory import Heap, Layout, Memory
from muntin.core.results import Columns, Run
from muntin.core.selection import query_flags
from muntin.core.streams import FOREVER
from muntin.kernels.aggregate import add_wide, fill_cells
from muntin.kernels.chains import count_members, link, list_members
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import extend_keys, hash_keys
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.families import Family, final_families

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Puts = dict[str, pa.Table]
Keys = tuple[Int64s, Int64s]
NO_NUMBERS = np.zeros(0, np.int64)
H1, H2, KEY1, KEY2, OWNER1, OWNER2 = "_h1", "_h2", "_k1", "_k2", "_o1", "_o2"
WINDOWS = "_left", "_right"
NEXT, KEY, INTS, DOUBLES, KEYS, HAS, HEADS = range(7)
"""Columns of groups: the next one of the same key, the key, totals by lane, and from `HEADS` on for each expression
whose different values are counted the first of them."""
OWNER, LANE = 1, 2
"""Columns of different values, after `NEXT`: their group, and the smallest lane that has them."""
VALUES: Layout = [((), "int64"), ((), "int64"), ((), "int64")]
NO_FINALS: Mapping[str, Any] = {"next": 0, "states": ()}
"""What is known of a shard that never had any."""


class Ends(NamedTuple):
    """Keys that are over for a lane, in order of time."""

    h1: Int64s
    h2: Int64s
    at: Int64s
    lane: Int64s

    @classmethod
    def of(cls, parts: Iterable[tuple[Int64s, Int64s, Int64s, Int64s]]) -> Ends:
        none = np.zeros(0, np.int64)
        h1, h2, at, lane = (np.concatenate(c) for c in zip((none, none, none, none), *parts, strict=True))
        order = np.lexsort((lane, at))
        return cls(h1[order], h2[order], at[order], lane[order])

    def chosen(self, which: npt.NDArray[Any]) -> Ends:
        return Ends._make(column[which] for column in self)


class Totals(NamedTuple):
    """What is added up, for some groups."""

    ints: Int64s
    doubles: npt.NDArray[np.float64]
    keys: Int64s
    has: Bools


class Finals:
    """All families of a join that are told once."""

    def __init__(self, join: SharedJoin, memory: Memory, image: Mapping[str, Any] | None = None):
        self._memory = memory
        self._obsolete: list[str] = []
        self._next: int = image["next"] if image else 0
        if image is None:
            found = final_families(q for q in join.queries if q.final)
            self.states = [FinalState(join, family, memory) for family in found]
        else:
            self.states = [FinalState(join, _family(join, part["queries"]), memory, part) for part in image["states"]]

    def __bool__(self) -> bool:
        return bool(self.states)

    @property
    def image(self) -> dict[str, Any]:
        return {"next": self._next, "states": [state.image for state in self.states]}

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for state in self.states)

    @property
    def groups(self) -> int:
        return sum(state.groups.live for state in self.states)

    def change(self, join: SharedJoin, new: Mapping[str, Any]) -> None:
        """Go on with other queries; those that are `new` begin without pairs, each on its own.

        Each on its own: promises of the time before may bind for a shorter time than its window.
        """
        states, there = [], {q.name for q in join.queries}
        for state in self.states:
            names = [q.name for q in state.family.queries]
            stay = [name for name in names if name not in new and name in there]
            if not stay:
                self._obsolete += state.discard()
            elif stay == names:
                state.join, state.family = join, _family(join, stay)
                states.append(state)
            else:
                narrowed, obsolete = state.narrowed(join, _family(join, stay))
                self._obsolete += obsolete
                states.append(narrowed)
        begun = [q for q in join.queries if q.final and q.name in new]
        self.states = states + [FinalState(join, family, self._memory) for q in begun for family in final_families([q])]

    def open_keys(self) -> list[tuple[pa.ChunkedArray, Int64s, Int64s]]:
        """The keys of groups that are not final yet, where the key is one column: its value and both halves."""
        return [state.open_keys() for state in self.states]

    def wanted(self, join: SharedJoin, side: Side, wants: npt.NDArray[np.uint64]) -> list[Bools]:
        """For each family, which classes of rows of a side it wants; `wants` are the queries of each class, as bits."""
        flags = query_flags(wants, len(join.queries)).astype(bool)
        numbers = {q.name: n for n, q in enumerate(join.queries)}
        return [np.ascontiguousarray(flags[:, numbers[state.family.first.name]]) for state in self.states]

    def tell(self, run: Run, ends: Sequence[Ends], end: int | None, counters: Counters) -> list[Values]:
        """Take in pairs, and tell of the groups that are over; of all where the streams have come to their `end`."""
        columns, found = Columns(run), dict[str, list[pa.Table]]()
        wanted, keys = (Wanted(run), _keys(run)) if len(run) else (None, (NO_NUMBERS, NO_NUMBERS))
        for state, own in zip(self.states, ends, strict=True):
            chosen = wanted.places(state.family.first) if wanted else NO_NUMBERS
            for values in state.advance(columns, chosen, keys, own, end, counters):
                found.setdefault(values.query, []).append(values.table)
        return [Values(name, pa.concat_tables(tables)) for name, tables in found.items()]

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        return {"next": self._next, "states": [state.meta for state in self.states]}

    def log(self, chunks: ChunkLog, puts: Puts) -> list[str]:
        """Write what has changed; the chunks that are needed no more."""
        obsolete, self._obsolete = self._obsolete, []
        for state in self.states:
            for book, render in state.books:
                obsolete += book.log(chunks, self._next, puts, render)
                self._next += 1
        for name in obsolete:
            chunks.live.pop(name, None)
        return obsolete

    def restore(self, join: SharedJoin, meta: Mapping[str, Any], chunks: ChunkLog, tables: Mapping[str, Any]) -> None:
        """Everything again from the chunks; those that belong to nobody go with the next micro-batch."""
        self._next = meta["next"]
        self.states = []
        for part in meta["states"]:
            state = FinalState(join, _family(join, part["queries"]), self._memory)
            state.restore(part, tables)
            self.states.append(state)
        known = {run.name for state in self.states for book, _ in state.books for run in book.runs}
        self._obsolete = [name for kind, _, _, name in chunks if kind is Kind.TOTALS and name not in known]


def _keys(run: Run) -> Keys:
    """The join key of each pair as 128 bits."""
    h1, h2, _ = hash_keys(key_columns(run.join, Side.LEFT, run.rows[Side.LEFT]))
    at = run.pairs[Side.LEFT]
    return h1[at], h2[at]


def _family(join: SharedJoin, names: Sequence[str]) -> Family:
    (family,) = final_families(q for q in join.queries if q.name in names)
    return family


class FinalState:
    """One family: its groups by key, and the different values within them."""

    def __init__(self, join: SharedJoin, family: Family, memory: Memory, image: Mapping[str, Any] | None = None):
        self.join, self.family, self._memory = join, family, memory
        self._ints, self._doubles = whole_numbers(family), sums_of_doubles(family)
        windows = [[lane.queries[0].window.side(side) for lane in family.lanes] for side in Side]
        self._windows = np.array(windows, np.int64)
        self._lanes = len(family.lanes)
        self.groups = Book(self._group_columns(), memory, image and image["groups"])
        self._keys = Entries([], memory, image and image["keys"])  # `rows` leads to the groups of a key
        self._values = [Book(VALUES, memory, image and image["values"][n]) for n in range(len(family.distinct))]
        self._named = Groups(family.groups, memory, image["named"] if image else ())

    def _group_columns(self) -> Layout:
        lanes, extremes = self._lanes, len(self.family.extremes)
        return [
            ((), "int64"),
            ((2,), "int64"),
            ((lanes, len(self._ints)), "int64"),
            ((lanes, 2 * len(self._doubles)), "float64"),
            ((lanes, extremes), "int64"),
            ((lanes, extremes), "bool"),
            *(((), "int64") for _ in self.family.distinct),
        ]

    @property
    def image(self) -> dict[str, Any]:
        return {
            "queries": [q.name for q in self.family.queries],
            "groups": self.groups.image,
            "keys": self._keys.image,
            "values": [book.image for book in self._values],
            "named": self._named.image,
        }

    @property
    def nbytes(self) -> int:
        return sum(book.nbytes for book in (self.groups, self._keys, *self._values)) + self._named.nbytes

    @property
    def books(self) -> list[tuple[Book, Callable[[Int64s], pa.Table]]]:
        """What is durable, with how entries are written."""
        return [(self.groups, self._written), *((book, partial(self._written_values, book)) for book in self._values)]

    def discard(self) -> list[str]:
        """Give all back; the chunks that are needed no more."""
        for entries in (self.groups, self._keys, *self._values):
            entries.discard()
        self._named.discard()
        return [run.name for book, _ in self.books for run in book.runs]

    # -- pairs in -------------------------------------------------------------------------------------------------

    def advance(
        self, columns: Columns, chosen: Int64s, keys: Keys, ends: Ends, end: int | None, counters: Counters
    ) -> list[Values]:
        """Take in pairs and tell of what is over, life by life of each key; `keys` are those of all pairs."""
        found: list[Values] = []
        run, last = columns.run, self._lanes - 1
        left, right = (run.ts(side)[run.pairs[side][chosen]] for side in Side)
        time, ages = np.maximum(left, right), (right - left, left - right)
        lane = np.maximum(*(np.searchsorted(self._windows[side], ages[side], side="right") for side in Side))
        inside = np.flatnonzero(lane <= last)
        chosen, time, lane = chosen[inside], time[inside], lane[inside]
        h1, h2 = keys[0][chosen], keys[1][chosen]
        while len(chosen) or len(ends.at):
            closing = ends.chosen(ends.lane == last)
            now, due = time <= first_ends(closing, h1, h2), ends.at <= first_ends(closing, ends.h1, ends.h2)
            counters.aggregated += self._add(columns, chosen[now], lane[now], h1[now], h2[now])
            found += self._tell(ends.chosen(due))
            chosen, time, lane, h1, h2 = (column[~now] for column in (chosen, time, lane, h1, h2))
            ends = ends.chosen(~due)
        if end is not None:
            found += self._tell_all(end)
        self._named.settle(self.groups)
        return found

    def _add(self, columns: Columns, chosen: Int64s, lane: Int64s, k1: Int64s, k2: Int64s) -> int:
        """Add up pairs; how many additions that took."""
        if not len(chosen):
            return 0
        places = columns.places(chosen)
        h1, h2 = group_hashes(columns, self.family.groups, places)
        slot, born = self.groups.find(h1, h2)
        self.groups.slots.rows[slot[born]] = self._named.add(columns, places, born)
        self._enter(slot[born], k1[born], k2[born])
        self.groups.touch(slot)
        totals = (column.reshape(-1, column.shape[2]) if column.size else column[0] for column in self._totals_by_lane)
        fill_cells(slot * self._lanes + lane, *measured(self.family, columns, places), *totals)
        work = len(chosen)
        for n, arg in enumerate(self.family.distinct):
            v1, v2, valid = hash_keys([columns.values(arg, places)])
            there = np.flatnonzero(valid)
            v1, v2 = extend_keys(h1[there], h2[there], v1[there], v2[there])
            self._add_values(n, v1, v2, slot[there], lane[there])
            work += len(there)
        return work

    @property
    def _totals_by_lane(self) -> Sequence[npt.NDArray[Any]]:
        return self.groups.columns[INTS:HEADS]

    def _enter(self, groups: Int64s, k1: Int64s, k2: Int64s) -> None:
        """Make new groups known by their keys; they have no values yet."""
        keys, born = self._keys.find(k1, k2)
        self._keys.slots.rows[keys[born]] = -1
        link(self._keys.slots.rows, self.groups.columns[NEXT], keys, groups)
        self.groups.columns[KEY][groups] = np.stack([k1, k2], axis=1)
        for n in range(len(self._values)):
            self.groups.columns[HEADS + n][groups] = -1

    def _add_values(self, n: int, v1: Int64s, v2: Int64s, owner: Int64s, lane: Int64s) -> None:
        """Count the values that are new in a group, each in the smallest lane that has it."""
        book, none = self._values[n], self._lanes
        slot, born = book.find(v1, v2)
        self._enter_values(n, slot[born], owner[born], np.full(len(born), none))
        touched, lanes = np.unique(slot), book.columns[LANE]
        before = lanes[touched].copy()
        np.minimum.at(lanes, slot, lane)
        less = lanes[touched] < before
        touched, before, known = touched[less], before[less], before[less] < none
        owners, totals = book.columns[OWNER][touched], self.groups.columns[INTS]
        counts = totals[:, :, self._ints.index(measures.distinct_name(self.family.distinct[n]))]
        np.add.at(counts, (owners[known], before[known]), -1)
        np.add.at(counts, (owners, lanes[touched]), 1)
        book.touch(touched)

    def _enter_values(self, n: int, values: Int64s, owners: Int64s, lanes: Int64s) -> None:
        columns = self._values[n].columns
        columns[OWNER][values], columns[LANE][values] = owners, lanes
        link(self.groups.columns[HEADS + n], columns[NEXT], owners, values)

    # -- values out -----------------------------------------------------------------------------------------------

    def _tell(self, ends: Ends) -> list[Values]:
        """Tell of the groups of keys that are over, lane by lane."""
        found: list[Values] = []
        for lane in np.unique(ends.lane).tolist():
            mine = ends.chosen(ends.lane == lane)
            keys = self._keys.seek(mine.h1, mine.h2)
            known = np.flatnonzero(keys >= 0)
            keys, first = np.unique(keys[known], return_index=True)
            groups, places = members_of(self._keys.slots.rows, self.groups.columns[NEXT], keys)
            found += self._leave(lane, groups, mine.at[known[first]][places])
            if lane == self._lanes - 1:
                self._close(groups, keys)
            else:
                self._move_up(lane, groups)
        return found

    def _tell_all(self, end: int) -> list[Values]:
        """Tell of all groups: the streams have ended."""
        groups, found = self.groups.opened, []
        for lane in range(self._lanes):
            found += self._leave(lane, groups, np.full(len(groups), end))
        self._close(groups, self._keys.opened)
        return found

    def _leave(self, lane: int, groups: Int64s, at: Int64s) -> list[Values]:
        totals = self._totals(groups, lane)
        there = totals.ints[:, 0] > 0
        if not there.any():
            return []
        groups, slots = groups[there], self.groups.slots
        columns: dict[str, Any] = {TIME: at[there], G1: slots.keys[groups, 0], G2: slots.keys[groups, 1]}
        columns |= self._named.take(slots.rows[groups])
        table = pa.table(columns | self._numbers(Totals._make(column[there] for column in totals)))
        return [Values(query.name, table) for query in self.family.lanes[lane].queries]

    def _numbers(self, totals: Totals) -> dict[str, Any]:
        """Totals by the names that they are known by (core/measures.py)."""
        found: dict[str, Any] = {name: totals.ints[:, n] for n, name in enumerate(self._ints)}
        for n, arg in enumerate(self._doubles):
            halves = enumerate(measures.double_names(arg))
            found |= {name: totals.doubles[:, 2 * n + half] for half, name in halves}
        for n, call in enumerate(self.family.extremes):
            found[measures.extreme_name(call)] = pa.array(totals.keys[:, n], mask=~totals.has[:, n])
        return found

    def _totals(self, groups: Int64s, lane: int) -> Totals:
        """What groups have in all lanes up to one."""
        by_lane = [column[groups] for column in self._totals_by_lane]
        total = Totals(*(column[:, 0] for column in by_lane))
        for n in range(1, lane + 1):
            total = together(total, Totals(*(column[:, n] for column in by_lane)))
        return total

    def _move_up(self, lane: int, groups: Int64s) -> None:
        """What groups have up to a lane is the next one's from now on: the lane's own queries have been told."""
        moved = self._totals(groups, lane + 1)
        for column, values in zip(self._totals_by_lane, moved, strict=True):
            column[groups, : lane + 1] = 0
            column[groups, lane + 1] = values
        self.groups.touch(groups)
        for n, book in enumerate(self._values):
            values, _ = members_of(self.groups.columns[HEADS + n], book.columns[NEXT], groups)
            values = values[book.columns[LANE][values] <= lane]
            book.columns[LANE][values] = lane + 1
            book.touch(values)

    def _close(self, groups: Int64s, keys: Int64s) -> None:
        for n, book in enumerate(self._values):
            book.close(members_of(self.groups.columns[HEADS + n], book.columns[NEXT], groups)[0])
        self.groups.close(groups)
        self._keys.close(keys)

    def open_keys(self) -> tuple[pa.ChunkedArray, Int64s, Int64s]:
        """The keys of the groups that there are, where the key is one column: its values, and both halves."""
        (pair,), groups = self.join.keys, self.groups.opened
        number = next(n for n, g in enumerate(self.family.groups) if g.sql in (pair.left.sql, pair.right.sql))
        values = self._named.take(self.groups.slots.rows[groups])[f"g.{number}"]
        halves = self.groups.columns[KEY][groups]
        return values.cast(arrow_type(pair.type), safe=False), halves[:, 0].copy(), halves[:, 1].copy()

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        values = {arg.sql: book.meta for arg, book in zip(self.family.distinct, self._values, strict=True)}
        return {"queries": [q.name for q in self.family.queries], "groups": self.groups.meta, "values": values}

    def _written(self, groups: Int64s) -> pa.Table:
        """Groups with their totals, each named by the window of its lane: others may have other lanes."""
        slots, keys = self.groups.slots, self.groups.columns[KEY][groups]
        hashes = slots.keys[groups]
        columns: dict[str, Any] = {H1: hashes[:, 0], H2: hashes[:, 1], KEY1: keys[:, 0], KEY2: keys[:, 1]}
        columns |= self._named.take(slots.rows[groups])
        for n, (left, right) in enumerate(self._windows.T.tolist()):
            own = self._numbers(Totals(*(column[groups, n] for column in self._totals_by_lane)))
            columns |= {f"{left}/{right} {name}": numbers for name, numbers in own.items()}
        return pa.table(columns)

    def _written_values(self, book: Book, values: Int64s) -> pa.Table:
        hashes, owners = book.slots.keys[values], self.groups.slots.keys[book.columns[OWNER][values]]
        left, right = self._windows[:, book.columns[LANE][values]]
        columns = [hashes[:, 0], hashes[:, 1], owners[:, 0], owners[:, 1], left, right]
        return pa.table([pa.array(c) for c in columns], names=[H1, H2, OWNER1, OWNER2, *WINDOWS])

    def restore(self, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """What a log with this `meta` has, perhaps of a family with more queries."""
        values = {arg.sql: meta["values"][arg.sql] for arg in self.family.distinct}
        gone = {
            name: closed_in(tables[name]) for book in (meta["groups"], *values.values()) for _, name, _ in book["runs"]
        }
        found = [contents_of(book, tables) for book in (meta["groups"], *values.values())]
        self._refill([meta["groups"], *values.values()], found, gone)

    def narrowed(self, join: SharedJoin, family: Family) -> tuple[FinalState, list[str]]:
        """The same with fewer queries, and the chunks that are needed no more; between micro-batches only."""
        other, args = FinalState(join, family, self._memory), [arg.sql for arg in self.family.distinct]
        stay = [0, *(1 + args.index(arg.sql) for arg in family.distinct)]
        books = [self.books[n] for n in stay]
        gone = {run.name: run.gone.arrays[0] for book, _ in books for run in book.runs}
        other._refill([book.meta for book, _ in books], [book.contents(render) for book, render in books], gone)
        kept = {run.name for book, _ in books for run in book.runs}
        return other, [name for name in self.discard() if name not in kept]

    def _refill(
        self, metas: Sequence[Mapping[str, Any]], found: Sequence[pa.Table | None], gone: Mapping[str, Int64s]
    ) -> None:
        """Take in groups, and the values within them, that a log has."""
        takes: list[Callable[[pa.Table], tuple[pa.Table, Int64s]]] = [self._take_groups]
        takes += [partial(self._take_values, n) for n in range(len(self._values))]
        for book, meta, table, take in zip([self.groups, *self._values], metas, found, takes, strict=True):
            taken, slots = take(table) if table is not None else (NOTHING, np.zeros(0, np.int64))
            book.refill(meta, taken, slots, gone)

    def _take_groups(self, table: pa.Table) -> tuple[pa.Table, Int64s]:
        h1, h2, k1, k2 = (table[name].to_numpy() for name in (H1, H2, KEY1, KEY2))
        slots, _ = self.groups.find(h1, h2)
        values = [table[f"g.{n}"] for n in range(len(self.family.groups))]
        self.groups.slots.rows[slots] = self._named.add_rows(values, len(slots))
        self._enter(slots, k1, k2)
        written = {name.split(" ", 1)[0] for name in table.column_names if name[0].isdigit()}
        for windows in sorted(written):
            left, right = map(int, windows.split("/"))
            lane = int(self._lanes_of(left, right))
            if lane < self._lanes:
                has = Totals(*(column[slots, lane] for column in self._totals_by_lane))
                for column, total in zip(self._totals_by_lane, together(has, self._read(table, windows)), strict=True):
                    column[slots, lane] = total
        return table, slots

    def _lanes_of(self, left: Any, right: Any) -> Any:
        """The smallest lane that has pairs of such windows."""
        return np.maximum(np.searchsorted(self._windows[0], left), np.searchsorted(self._windows[1], right))

    def _read(self, table: pa.Table, windows: str) -> Totals:
        """The totals of a lane as they were written."""

        def numbers(names: Iterable[str], kind: Any) -> npt.NDArray[Any]:
            columns = [table[f"{windows} {name}"].fill_null(0).to_numpy() for name in names]
            return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), kind)

        extremes = [measures.extreme_name(call) for call in self.family.extremes]
        has = [np.asarray(table[f"{windows} {name}"].is_valid()) for name in extremes]
        doubles = [half for arg in self._doubles for half in measures.double_names(arg)]
        present = np.stack(has, axis=1) if has else np.zeros((table.num_rows, 0), bool)
        return Totals(numbers(self._ints, np.int64), numbers(doubles, float), numbers(extremes, np.int64), present)

    def _take_values(self, n: int, table: pa.Table) -> tuple[pa.Table, Int64s]:
        lanes = self._lanes_of(*(table[name].to_numpy() for name in WINDOWS))
        table, lanes = table.filter(pa.array(lanes < self._lanes)), lanes[lanes < self._lanes]
        h1, h2, o1, o2 = (table[name].to_numpy() for name in (H1, H2, OWNER1, OWNER2))
        slots, _ = self._values[n].find(h1, h2)
        self._enter_values(n, slots, self.groups.seek(o1, o2), lanes)
        return table, slots


NOTHING = pa.table({SERIAL: np.zeros(0, np.int64), RUN: np.zeros(0, np.int64)})


def together(one: Totals, other: Totals) -> Totals:
    """The totals of both."""
    halves = [half.ravel() for sums in (one.doubles, other.doubles) for half in (sums[:, ::2], sums[:, 1::2])]
    high, low = add_wide(*(np.ascontiguousarray(half) for half in halves))
    doubles = np.empty_like(one.doubles)
    doubles[:, ::2], doubles[:, 1::2] = high.reshape(doubles[:, ::2].shape), low.reshape(doubles[:, ::2].shape)
    both = one.has & other.has
    keys = np.where(both, np.maximum(one.keys, other.keys), np.where(one.has, one.keys, other.keys))
    return Totals(one.ints + other.ints, doubles, keys, one.has | other.has)


def members_of(heads: Int64s, after: Int64s, owners: Int64s) -> tuple[Int64s, Int64s]:
    """All members of some owners, with the place of each one's owner among them."""
    rows = count_members(heads, after, owners)
    members, places = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    list_members(heads, after, owners, members, places)
    return members, places


def first_ends(ends: Ends, h1: Int64s, h2: Int64s) -> Int64s:
    """For each key, the first time at which it ends; FOREVER where it does not."""
    found = np.full(len(h1), FOREVER)
    if not len(ends.at) or not len(h1):
        return found
    known = Entries([((), "int64")], Heap())
    slots, born = known.find(ends.h1, ends.h2)
    known.columns[0][slots[born]] = ends.at[born]  # the first of each key: ends are in order of time
    slots = known.seek(h1, h2)
    return np.where(slots >= 0, known.columns[0][slots], FOREVER)
