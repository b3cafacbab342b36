"""Promises of one shard of a shared join: which rows they turn away, which they free (ding2004 3.1, 4.2).

What it **is**, after each micro-batch, with R the release point:

    held[side]       punctuations with  tp >= R: rows of that time may still come, and are not touched by them
    promised[side]   for each key that a side has promised not to send, from when and until when (core/punctuations/promised_keys.py)
    pending          promises after which the output can still bring rows with the key (core/punctuations/propagation.py)
    dead             numbers of rows that a promise freed, in chunks that are still there (core/punctuations/compaction.py)

A promise at tp takes effect when the join has come past tp in event time, so nothing depends on micro-batches. Freed
rows leave the index at once and the chunks lazily. Durable are punctuations when they arrive, promises of unique rows
when these are joined, and the numbers of dead rows; `restore` follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates import Finals, KeyEnds
from muntin.core.arrivals import key_columns, range_ends
from muntin.core.batch import ARRIVAL, CLASS, H1, H2, TS, Counters, own_columns
from muntin.core.join import JoinState
from muntin.core.punctuations.compaction import DeadRows
from muntin.core.punctuations.promised_keys import PromisedKeys
from muntin.core.punctuations.propagation import (
    FOREVER,
    NewPromises,
    PendingPunctuations,
    key_names,
    punctuation_schema,
)
from muntin.core.punctuations.ranges import Keys, RangePromises
from muntin.core.selections import Selections, per_class
from muntin.core.storage import ChunkKind, ChunkLog, Memory, StoredRows, TimeRun, flat, pass_all
from muntin.kernels.chains import last_before, last_rows
from muntin.kernels.index import CLASS_BITS, CLASS_MASK
from muntin.kernels.join import Rows
from muntin.kernels.promises import (
    BROKEN,
    COVERED,
    MARK,
    NONE,
    PASSES,
    SILENT,
    Outcome,
    PromiseEvents,
    Table,
    clear_table,
    count_rows,
    purge_keys,
    table_layout,
    walk,
)
from muntin.model import Axis, Side
from muntin.plan import SharedJoin
from muntin.plan.punctuation import FOR_GOOD, is_range, promising

Int64s = npt.NDArray[np.int64]
UInt8s = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Puts = dict[str, pa.Table]
LastRows = Callable[[Int64s, Int64s, Int64s], Int64s]
"""By both halves of keys and a time for each: the last rows not after it, for each family."""
REASON = "_reason"
UNTIL, LAST, NUMBER = "_until", "_last", "_number"
HELD = flat(*("int64",) * 5)
"""Of held punctuations: time, both halves of the key, number, until when it binds."""
PROMISED = (ChunkKind.MARKS, ChunkKind.UNIQUE, ChunkKind.SPELLED)
"""Kinds of chunks that hold promises, by number."""


class Host(Protocol):
    """What promises need of the operator that they belong to."""

    join: SharedJoin
    state: JoinState
    payload: tuple[StoredRows, ...]
    chunks: ChunkLog
    counters: Counters
    finals: Finals

    @property
    def selections(self) -> tuple[Selections, Selections]: ...

    @property
    def release(self) -> int: ...


class Promises:
    def __init__(
        self, join: SharedJoin, how: str, memory: Memory, image: Mapping[str, Any] | None = None, families: int = 0
    ):
        self._memory = memory
        self._eternal = how == "pjoin"
        self.change(join)
        keys = list(punctuation_schema(join))[:-2]
        schema = pa.schema([pa.field(TS, pa.int64()), pa.field(CLASS, pa.int32()), *keys])
        self.keys = tuple(StoredRows(schema, memory, image["keys"][side] if image else ()) for side in Side)
        self._held: tuple[list[TimeRun], list[TimeRun]] = ([], [])
        self._families = families
        self.pending = PendingPunctuations(memory, image and image["pending"], not self._eternal, families)
        self.dead = DeadRows(memory, image and image["dead"])
        self.ranges = RangePromises(join, memory, image and image["ranges"])
        self._numbers, self._lists, self._arrived = np.zeros(2, np.int64), [0, 0], [0, 0]
        self._promised = [PromisedKeys(memory, image and image["promised"][side]) for side in Side]
        if image:
            for side in Side:
                self._held[side].extend(TimeRun.open(memory, held, HELD) for held in image["held"][side])
            self.recall(image["meta"])

    def change(self, join: SharedJoin) -> None:
        """Go on with other queries over the same streams and key."""
        self.join = join
        self._sides = [promising(join, side) for side in Side]
        self._unique = np.array([bool(p and p.unique) for p in self._sides])
        bound = [FOR_GOOD if self._eternal else p.binding_us if p else 0 for p in self._sides]
        self._binding = np.array(bound, np.int64)
        self._timed = np.array([join.axes[side] is Axis.TIME for side in Side])
        self._frees = not any(query.looks_at_live_pairs for query in join.queries)
        """Live pairs of aggregates are found again from the rows, so that these must stay for as long as the pairs."""

    def looks_at(self, side: Side) -> bool:
        """Whether rows that no query wants have to be looked at as well: they may break a promise, or make one."""
        return self._sides[side] is not None

    @property
    def unique(self) -> list[bool]:
        """Of which sides, of rows with the same key and time, the first one counts."""
        return [bool(unique) for unique in self._unique]

    @property
    def lacking(self) -> set[str]:
        """Queries that, where they are new, do not find all pairs that they begin with.

        Who looks at live pairs keeps the rows of those that are to come (`change`); before, rows may have been freed.
        """
        return {query.name for query in self.join.queries if query.looks_at_live_pairs}

    # -- arrivals -------------------------------------------------------------------------------------------------

    def number(self, side: Side, rows: pa.Table) -> pa.Table:
        """Give the rows of a side of which the first one counts their places in the order of arrival."""
        if not self._unique[side] or not self._timed[side]:
            return rows
        numbers = self._arrived[side] + np.arange(rows.num_rows)
        self._arrived[side] += rows.num_rows
        return rows.set_column(rows.column_names.index(ARRIVAL), ARRIVAL, pa.array(numbers))

    def receive(self, host: Host, side: Side, marks: pa.Table, puts: Puts) -> pa.Table:
        """Take in punctuations that are not late; returns those that say nothing, with the reason."""
        counters, valid = host.counters, pc.is_valid(marks[H1])
        malformed, marks = marks.filter(pc.invert(valid)), marks.filter(valid)
        counters.punctuations[side] += marks.num_rows
        counters.malformed[side] += malformed.num_rows
        if marks.num_rows:
            marks = marks.take(pa.array(np.argsort(marks[TS].to_numpy(), kind="stable")))
            until = pa.array(np.minimum(marks[TS].to_numpy() + self._binding[side], FOR_GOOD))
            if is_range(self.join, side):
                ends = range_ends(self.join, side, marks)
                self._lists[side] += 1
                self.ranges.add(host.chunks, side, self._lists[side], marks[TS], until, ends, puts)
            else:
                columns = [marks[TS], marks[H1], marks[H2], until, *key_columns(self.join, side, marks)]
                base, table = self._take_in(host, ChunkKind.MARKS, side, columns, puts)
                self._hold(side, base, table)
        return self._refused(side, malformed, "punctuation: it is about no value")

    def _take_in(
        self, host: Host, kind: ChunkKind, side: Side, columns: Sequence[Any], puts: Puts
    ) -> tuple[int, pa.Table]:
        """Number and log punctuations, given by time, key, until when they bind, and the key's values."""
        table = pa.table(columns, names=[TS, H1, H2, UNTIL, *key_names(self.join)])
        base = int(self._numbers[side])
        self._numbers[side] += table.num_rows
        puts[self._enter(host.chunks, kind, side, base, table)] = table
        return base, table

    def _refused(self, side: Side, rows: pa.Table, reason: str) -> pa.Table:
        """Rows to report, without what they carried beside their columns."""
        own = [f.name for f in own_columns(self.join, side)] + [CLASS]
        rows = rows.drop_columns([c for c in own if c in rows.column_names])
        return rows.append_column(REASON, pa.array([reason] * rows.num_rows, pa.string()))

    def _enter(self, chunks: ChunkLog, kind: ChunkKind, side: Side, base: int, table: pa.Table) -> str:
        """Log promises and keep their keys in memory: they are needed while they bind or are pending."""
        self.keys[side].add(base, table.select([TS, *key_names(self.join)]), np.zeros(table.num_rows, np.int32))
        last = max(pc.max(table[UNTIL]).as_py(), pc.max(table[TS]).as_py() + self._stay(side))
        return chunks.add(kind, side, base, last, 0, table.num_rows)

    def _stay(self, side: Side) -> int:
        return self.join.reach(side) if self._timed[side] else 0

    def _hold(self, side: Side, base: int, table: pa.Table) -> None:
        numbers = np.arange(base, base + table.num_rows, dtype=np.int64)
        ts, h1, h2, until = (table[c].to_numpy() for c in (TS, H1, H2, UNTIL))
        self._held[side].append(TimeRun.keep(self._memory, (ts, h1, h2, numbers, until)))

    # -- rows that are about to be joined -------------------------------------------------------------------------

    def meet(self, host: Host, rows: Rows, before: int, puts: Puts) -> tuple[Rows, list[NewPromises], list[pa.Table]]:
        """Hold rows against the promises before them; `before` is the release point that they come after.

        Returns the rows to join, the promises that have come into force, and the rows of each side that broke one.
        """
        keep = per_class(host.selections[0].keep, host.selections[1].keep)
        stay = keep[rows.side, rows.cls]
        wanted = stay > 0
        ranged = [self._spell_out(host, side, rows, before, puts) for side in Side]
        events, order, marks = self._events(rows, host.release, ranged)
        for side in Side:
            own = int((rows.side == side).sum()) if self._unique[side] else 0
            self._promised[side].reserve(marks[side] + own, before, int(self._binding[side]))
        total, count = len(order), len(rows.ts)
        out = _outcome(total)
        stays = np.concatenate([stay, np.zeros(total - count, np.int64)])[order]
        recent = Table(*(np.zeros(shape, kind) for shape, kind in table_layout(max(2, count) if sum(marks) else 0)))
        clear_table(recent)
        first = self._numbers.copy()
        how = self._unique, self._binding, self._timed, self._numbers
        chain = np.full(total if sum(marks) else 0, -1)
        walk(*self._tables, host.state.index, events, stays, keep, *how, recent, chain, out)
        fate, made = _in_place(order, out.fate)[:count], _in_place(order, out.number)[:count]
        if not self._frees:
            fate[fate > BROKEN] = PASSES
        fresh = [self._fresh(side, events, out, self._lasts(host, side, rows, fate != BROKEN)) for side in Side]
        for side in Side:
            self._note(host, side, fresh[side], int(first[side]), rows, made, puts)
        self.pending.add(fresh)
        broken = [self._broken(host, side, rows, fate) for side in Side]
        self._spare(host, rows, fate, puts)
        host.counters.silent += int(((fate == SILENT) & wanted).sum())
        joined = (fate != BROKEN) & (fate != SILENT) & wanted
        kept = rows.kept & (fate != COVERED)
        return Rows._make(a[joined] for a in rows._replace(kept=kept)), fresh, broken

    def _spell_out(self, host: Host, side: Side, rows: Rows, before: int, puts: Puts) -> list[Int64s]:
        """Ranges as punctuations for each key in them that has come: there are none for keys that nobody has sent."""
        columns = self.ranges.keys_over(host, side, rows, before, self._tables[side], self._marked(host, side.other))
        if not len(columns[0]):
            return [np.zeros(0, np.int64) for _ in HELD]
        base, table = self._take_in(host, ChunkKind.SPELLED, side, columns, puts)
        ts, h1, h2, until = (table[c].to_numpy() for c in (TS, H1, H2, UNTIL))
        return [ts, h1, h2, -2 - np.arange(base, base + table.num_rows), until]

    def _marked(self, host: Host, side: Side) -> Keys:
        """The keys of punctuations of a side that are about to come into force."""
        held = [run.peek(host.release - 1) for run in self._held[side]]
        none = np.zeros(0, np.int64)
        h1, h2, numbers = (np.concatenate([none, *(columns[n] for columns in held)]) for n in (1, 2, 3))
        found, places = self.keys[side].fetch(numbers)
        return found[key_names(self.join)[0]].take(pa.array(places)), h1, h2

    def _events(
        self, rows: Rows, release: int, more: Sequence[Sequence[Int64s]]
    ) -> tuple[PromiseEvents, Int64s, list[int]]:
        """Rows and punctuations in the order in which they take effect, and how many of the latter each side has."""
        marks = []
        for side in Side:
            passed = pass_all(self._held[side], release - 1, HELD)
            marks.append([np.concatenate(both) for both in zip(passed, more[side], strict=True)])
        none = np.zeros(len(rows.ts), np.int64)
        parts = [(rows.side, rows.side, rows.ts, rows.h1, rows.h2, none, none)]
        for side, (ts, h1, h2, numbers, until) in zip(Side, marks, strict=True):
            sides = np.full(len(ts), side, np.uint8)
            parts.append((sides, np.full(len(ts), MARK, np.uint8), ts, h1, h2, until, numbers))
        joined = PromiseEvents._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.arange(len(rows.ts))
        if len(joined.ts) > len(order):
            order = np.lexsort((joined.kind == MARK, joined.ts))
        return PromiseEvents._make(column[order] for column in joined), order, [len(m[0]) for m in marks]

    def _fresh(self, side: Side, events: PromiseEvents, out: Outcome, last_rows: LastRows | None = None) -> NewPromises:
        chosen = np.flatnonzero((out.number != NONE) & (events.side == side))
        tp, last = events.ts[chosen], out.last[chosen]
        until = np.where(events.kind[chosen] == MARK, events.until[chosen], tp + self._binding[side])
        if not self._timed[side]:  # nobody knows when so many rows will have come
            last = np.where(last == NONE, NONE, FOREVER)
        h1, h2 = events.h1[chosen], events.h2[chosen]
        lasts = last_rows(h1, h2, tp) if last_rows else np.full((self._families, len(tp)), NONE)
        return NewPromises(tp, until, h1, h2, out.number[chosen], last, out.partner[chosen], lasts)

    def _lasts(self, host: Host, side: Side, rows: Rows | None = None, heeded: Bools | None = None) -> LastRows:
        """For each family that is told once, the last rows that it wants: of the state, and of `rows` to be joined."""

        def found(h1: Int64s, h2: Int64s, until: Int64s) -> Int64s:
            lasts = np.full((len(host.finals.states), len(h1)), NONE)
            if lasts.size:
                mine_too = None if rows is None else np.flatnonzero((rows.side == side) & heeded)
                for n, classes in enumerate(host.finals.wanted(self.join, side, host.selections[side].wants)):
                    last_rows(host.state.index, int(side), h1, h2, until, classes, lasts[n])
                    if rows is not None and mine_too is not None:
                        mine = mine_too[classes[rows.cls[mine_too]]]
                        last_before(rows.h1[mine], rows.h2[mine], rows.ts[mine], h1, h2, until, lasts[n])
            return lasts

        return found

    def retell(self, host: Host) -> None:
        """Find the last rows of families anew: others are told once, or nothing of them is known after a restart."""
        self._families = len(host.finals.states)
        self.pending.retell(lambda side, *keys: self._lasts(host, side)(*keys))

    def ends(self, host: Host, fresh: Sequence[NewPromises], before: int, end: int | None) -> list[KeyEnds]:
        """For each family that is told once, the keys that are over, as far as this has become certain.

        Where the streams have come to their `end`, all of them are so by then.
        """
        found = []
        for n, state in enumerate(host.finals.states):
            windows = [[own.queries[0].window.side(side) for side in Side] for own in state.family.windows]
            parts = list(self.pending.over(n, windows, before, host.release))
            for side in Side:
                new = fresh[side]
                for lane in range(len(windows)):
                    over = new.h1[new.quiet], new.h2[new.quiet], new.tp[new.quiet]
                    parts.append((*over, np.full(len(over[0]), lane)))
            ends = KeyEnds.of(parts)
            found.append(ends if end is None else ends._replace(at=np.minimum(ends.at, end)))
        return found

    def _note(
        self, host: Host, side: Side, fresh: NewPromises, first: int, rows: Rows, made: Int64s, puts: Puts
    ) -> None:
        """Make durable what is new: promises of unique rows (numbered from `first` on), and last rows."""
        own = fresh.number >= first
        if own.any():
            mine = np.flatnonzero((rows.side == side) & (made >= first))
            found, places = host.payload[side].fetch(rows.row[mine])
            values = [column.take(pa.array(places)) for column in key_columns(self.join, side, found)]
            columns = [fresh.tp, fresh.h1, fresh.h2, fresh.until, fresh.last]
            names = [TS, H1, H2, UNTIL, LAST, *key_names(self.join)]
            table = pa.table([*(pa.array(c[own]) for c in columns), *values], names=names)
            puts[self._enter(host.chunks, ChunkKind.UNIQUE, side, first, table)] = table
        known = ~own & (fresh.last != NONE)
        if known.any():
            self._lists[side] += 1
            last = int(fresh.tp[known].max()) + self._stay(side)
            name = host.chunks.add(ChunkKind.LAST, side, self._lists[side], last, 0, int(known.sum()))
            puts[name] = pa.table({NUMBER: fresh.number[known], LAST: fresh.last[known]})

    def _broken(self, host: Host, side: Side, rows: Rows, fate: UInt8s) -> pa.Table:
        chosen = rows.row[(rows.side == side) & (fate == BROKEN)]
        host.counters.broken[side] += len(chosen)
        found, places = host.payload[side].fetch(chosen)
        return self._refused(side, found.take(pa.array(places)), "broken: the stream had promised no more of this key")

    def _spare(self, host: Host, rows: Rows, fate: UInt8s, puts: Puts) -> None:
        """Note the rows that would have been stored and are not."""
        for side in Side:
            gone = rows.kept & (rows.side == side) & (fate >= BROKEN)
            host.counters.dropped[side] += int((gone & (fate > BROKEN)).sum())
            keep = host.selections[side].keep[rows.cls[gone]]
            self.dead.add(host.chunks, side, rows.row[gone], rows.ts[gone], keep, puts)

    # -- rows that have been joined -------------------------------------------------------------------------------

    def purge(self, host: Host, fresh: Sequence[NewPromises], puts: Puts) -> None:
        """Take out the rows that wait for keys that are over."""
        for side in Side if self._frees else ():
            other, new, index = side.other, fresh[side], host.state.index
            rows = count_rows(index, int(other), new.h1, new.h2)
            if not rows:
                continue
            # Where rows are counted, places are no times: what a promise that has lapsed meanwhile could free, stays.
            until = new.until if self._timed[other] else np.where(new.until >= host.release, FOREVER, NONE)
            gone, ts = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
            count = purge_keys(index, int(other), new.h1, new.h2, until, gone, ts)
            numbers, classes, ts = gone[:count] >> CLASS_BITS, gone[:count] & CLASS_MASK, ts[:count]
            if not self._timed[other]:
                found, places = host.payload[other].fetch(numbers)
                ts = found[TS].to_numpy()[places]
            host.counters.purged[other] += count
            self.dead.add(host.chunks, other, numbers, ts, host.selections[other].keep[classes], puts)

    def due(self, host: Host, before: int) -> dict[str, pa.Table]:
        """For each query, the keys of which its output brings no more, as far as this has become certain."""
        return self.pending.due(self.join, self.keys, self._tables, before, host.release)

    def tidy(self, host: Host, needed: Sequence[Mapping[int, int]]) -> None:
        """Give back the keys that no chunk needs, and promises that have lapsed: at most half a binding time late.

        `needed` is the first row number needed in each range of each side.
        """
        for side in Side:
            self.dead.forget(side, needed[side])
            bases = [base for kind, s, base, _ in host.chunks if s is side and kind in PROMISED]
            self.keys[side].forget({0: min(bases)} if bases else {})
            self._promised[side].sweep(host.release, int(self._binding[side]))
        self.ranges.forget(host.release)

    @property
    def _tables(self) -> list[Table]:
        return [promised.table for promised in self._promised]

    @property
    def count(self) -> list[int]:
        """Promises of each side that are remembered."""
        return [len(promised) for promised in self._promised]

    @property
    def nbytes(self) -> int:
        tables = sum(promised.nbytes for promised in self._promised)
        return tables + sum(keys.nbytes for keys in self.keys) + self.pending.nbytes + self.dead.nbytes

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        lists = {"lists": self._lists, "dead": self.dead.lists}
        return {"numbers": self._numbers.tolist(), "arrived": self._arrived, **lists}

    def recall(self, meta: Mapping[str, Any]) -> None:
        self._numbers[:], self._arrived = meta["numbers"], list(meta["arrived"])
        self._lists, self.dead.lists = list(meta["lists"]), list(meta["dead"])

    @property
    def image(self) -> dict[str, Any]:
        """What another process needs to go on with these promises, beside the memory."""
        return {
            "keys": [keys.image for keys in self.keys],
            "promised": [promised.image for promised in self._promised],
            "held": [[run.image for run in runs] for runs in self._held],
            "pending": self.pending.image,
            "dead": self.dead.image,
            "ranges": self.ranges.image,
            "meta": self.meta,
        }

    def restore(self, host: Host, tables: Mapping[str, pa.Table]) -> None:
        """Everything again from the chunks, as it was at the host's release point."""
        lasts: list[dict[int, int]] = [{}, {}]
        found: tuple[list[Any], list[Any]] = ([], [])
        for kind, side, _, name in host.chunks:
            if kind is ChunkKind.LAST:
                columns = (tables[name][c].to_pylist() for c in (NUMBER, LAST))
                lasts[side].update(zip(*columns, strict=True))
        for kind, side, base, name in host.chunks:
            if kind is ChunkKind.DEAD:
                self.dead.recall(side, tables[name][NUMBER].to_numpy())
            elif kind is ChunkKind.RANGES:
                self.ranges.recall(side, tables[name])
            elif kind in PROMISED:
                self._recover(host, kind, side, base, tables[name], lasts[side], found)
        self.pending.add(self._replay(host, found))
        self.pending.settle(self.join, self._tables, host.release)

    def _recover(
        self,
        host: Host,
        kind: ChunkKind,
        side: Side,
        base: int,
        table: pa.Table,
        lasts: Mapping[int, int],
        found: Sequence[Any],
    ) -> None:
        """Keys into memory; punctuations that are not in force yet are held, the others are found."""
        self.keys[side].add(base, table.select([TS, *key_names(self.join)]), np.zeros(table.num_rows, np.int32))
        in_force = table.num_rows
        if kind is ChunkKind.MARKS:
            in_force = int(np.searchsorted(table[TS].to_numpy(), host.release, side="left"))
            if in_force < table.num_rows:
                self._hold(side, base + in_force, table.slice(in_force))
        part = table.slice(0, in_force)
        ts, h1, h2, until = (part[c].to_numpy() for c in (TS, H1, H2, UNTIL))
        numbers = np.arange(base, base + in_force)
        last = np.array([lasts.get(n, NONE) for n in numbers.tolist()], np.int64)
        if kind is ChunkKind.UNIQUE:
            last = part[LAST].to_numpy()
        elif kind is ChunkKind.SPELLED:
            numbers = np.where(last == NONE, -2 - numbers, numbers)
        found[side].append((ts, h1, h2, until, numbers, last))

    def _replay(self, host: Host, found: Sequence[Any]) -> list[NewPromises]:
        """Enter promises that were in force, in order of event time."""
        bits, none = np.zeros(0, np.uint8), np.zeros(0, np.int64)
        parts, lasts = [(bits, bits, none, none, none, none, none)], [none]
        for side in Side:
            for ts, h1, h2, until, numbers, last in found[side]:
                kinds = np.full(len(ts), MARK, np.uint8)
                parts.append((np.full(len(ts), side, np.uint8), kinds, ts, h1, h2, until, numbers))
                lasts.append(last)
        events = PromiseEvents._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(events.ts, kind="stable")
        events, last = PromiseEvents._make(column[order] for column in events), np.concatenate(lasts)[order]
        for side in Side:
            self._promised[side].reserve(int((events.side == side).sum()), -FOREVER, int(self._binding[side]))
        out, recent = _outcome(len(order)), Table(*(np.zeros(s, k) for s, k in table_layout(0)))
        clear_table(recent)
        how = np.zeros(2, bool), self._binding, np.zeros(2, bool), self._numbers.copy()
        nothing = np.zeros(len(order), np.int64)
        walk(*self._tables, host.state.index, events, nothing, np.zeros((2, 1), np.int64), *how, recent, nothing, out)
        out.last[:] = last
        return [self._fresh(side, events, out) for side in Side]


def _outcome(events: int) -> Outcome:
    return Outcome(np.zeros(events, np.uint8), *(np.full(events, NONE) for _ in range(3)))


def _in_place(order: Int64s, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values of events in the order in which the events came."""
    placed = np.zeros_like(values)
    placed[order] = values
    return placed
