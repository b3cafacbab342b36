"""Promises of one shard of a shared join: which rows they turn away, which they free (ding2004 3.1, 4.2).

What it **is**, after each micro-batch, with R the release point:

    log              promises by number, with their keys; punctuations with  tp >= R  are held: rows of that time may
                     still come, and are not touched by them (core/punctuations/promise_log.py)
    promised[side]   for each key that a side has promised not to send, from when and until when
                     (core/punctuations/promised_keys.py)
    pending          promises after which the output can still bring rows with the key
                     (core/punctuations/propagation.py)
    dead             numbers of rows that a promise freed, in chunks that are still there
                     (core/punctuations/compaction.py)

A promise at tp takes effect when the join has come past tp in event time, so nothing depends on micro-batches. Freed
rows leave the index at once and the chunks lazily. Durable are punctuations when they arrive, promises of unique rows
when these are joined, and the numbers of dead rows; `restore` follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates import KeyEnds
from muntin.core.arrivals import EVERYWHERE, FOREVER, Intake, key_columns, range_ends
from muntin.core.batch import ARRIVAL, CAME, CLASS, H1, H2, TS, Counters, own_columns
from muntin.core.punctuations.compaction import NUMBER, DeadRows, compact
from muntin.core.punctuations.encounter import enter_again, meet, new_promises
from muntin.core.punctuations.join_view import JoinView
from muntin.core.punctuations.no_promises import HeededRows, NoPromises, PromisesImage, PromisesMeta, RefusedRows
from muntin.core.punctuations.promise_log import NO_MARKS, Marks, PromiseLog
from muntin.core.punctuations.promised_keys import PromisedKeys
from muntin.core.punctuations.propagation import LAPSE, NewPromises, PendingPunctuations
from muntin.core.punctuations.ranges import RangePromises
from muntin.core.punctuations.rules import PromiseRules
from muntin.core.punctuations.unreported import UnreportedRows
from muntin.core.storage import ChunkKind, ChunkLog, Memory
from muntin.kernels.arrays import Bools, Int64s, UInt8s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import hash_keys
from muntin.kernels.join import Rows
from muntin.kernels.promises import BROKEN, COVERED, NONE, SILENT, TP, UNTIL, Table, bound
from muntin.model import Pattern, Side
from muntin.plan import SharedJoin
from muntin.plan.promise_lags import LagCounts
from muntin.plan.punctuation import FOR_GOOD, pattern_of
from muntin.plan.punctuation_modes import are_used

REASON = "_reason"
"""A column of refused rows: why they were refused."""


def open_promises(
    join: SharedJoin,
    how: str,
    memory: Memory,
    families: int,
    meta: PromisesMeta | None = None,
    image: PromisesImage | None = None,
) -> NoPromises:
    """The promises of a join, where it has any and the job heeds them; `families` counts those of its finals."""
    if not are_used(join, how):
        return NoPromises()
    return Promises(join, how, memory, families, meta or PromisesMeta(), image)


class Promises(NoPromises):
    """The promises of a join that heeds them."""

    frees_rows = True

    def __init__(
        self,
        join: SharedJoin,
        how: str,
        memory: Memory,
        families: int,
        meta: PromisesMeta,
        image: PromisesImage | None = None,
    ):
        self._how = how
        self._rules = PromiseRules.of(join, how)
        self._log = PromiseLog(self._rules, memory, meta.log, image.log if image else None)
        self._arrived = list(meta.arrived)
        self._lags = list(meta.lags)
        self._dead = DeadRows(memory, meta.dead_lists, image.dead if image else None)
        self._pending = PendingPunctuations(memory, image.pending if image else None, self._rules.early, families)
        self._ranges = RangePromises(join, memory, image.ranges if image else (None, None))
        self._unreported = UnreportedRows(join, memory, image.unreported if image else (None, None))
        self._promised = [PromisedKeys(memory, image.promised[side] if image else None) for side in Side]

    @property
    def meta(self) -> PromisesMeta:
        return PromisesMeta(self._log.meta, self._arrived, self._dead.lists, self._lags)

    @property
    def image(self) -> PromisesImage:
        return PromisesImage(
            log=self._log.image,
            promised=[promised.image for promised in self._promised],
            pending=self._pending.image,
            dead=self._dead.image,
            ranges=self._ranges.image,
            unreported=self._unreported.image,
        )

    @property
    def nbytes(self) -> int:
        tables = sum(promised.nbytes for promised in self._promised)
        return tables + self._log.nbytes + self._pending.nbytes + self._dead.nbytes

    @property
    def tables(self) -> list[Table]:
        return [promised.table for promised in self._promised]

    @property
    def count(self) -> list[int]:
        return [len(promised) for promised in self._promised]

    @property
    def lags(self) -> list[LagCounts]:
        return self._lags

    @property
    def unique(self) -> Sequence[bool]:
        return [bool(unique) for unique in self._rules.unique]

    @property
    def lacking(self) -> set[str]:
        """Queries that look at live pairs: their rows are kept from now on, but may have been freed before."""
        return {query.name for query in self._rules.join.queries if query.looks_at_live_pairs}

    def change(self, join: SharedJoin) -> None:
        before, self._rules = self._rules, PromiseRules.of(join, self._how)
        for side in Side:  # rows that wait longer, or not so long, are freed by less, or by more
            known = self.tables[side].info[:, TP] != NONE
            self.tables[side].info[known, UNTIL] += before.spared(side) - self._rules.spared(side)
        self._log.change(self._rules)

    # -- arrivals -------------------------------------------------------------------------------------------------

    def looks_at(self, side: Side) -> bool:
        return self._rules.promising[side]

    def number(self, side: Side, rows: pa.Table) -> pa.Table:
        if not self._rules.unique[side] or not self._rules.timed[side]:
            return rows
        numbers = self._arrived[side] + np.arange(rows.num_rows)
        self._arrived[side] += rows.num_rows
        return rows.set_column(rows.column_names.index(ARRIVAL), ARRIVAL, pa.array(numbers))

    def last_word(self, side: Side, release: int) -> int:
        return self._ranges.last_word(side, release)

    def receive(self, side: Side, marks: pa.Table, chunks: ChunkLog, counters: Counters) -> RefusedRows:
        valid = pc.is_valid(marks[H1])
        malformed, marks = marks.filter(pc.invert(valid)), marks.filter(valid)
        counters.punctuations[side] += marks.num_rows
        counters.malformed[side] += malformed.num_rows
        if marks.num_rows:
            self._add(side, marks.take(pa.array(np.argsort(marks[TS].to_numpy(), kind="stable"))), chunks)
        return [(side, self._refused(side, malformed, "punctuation: it is about no value"))]

    def hear(self, side: Side, over: pa.Table, chunks: ChunkLog, counters: Counters) -> None:
        """One that binds for no longer than the rows that it could free are wanted anyway is passed over."""
        if not self._rules.heeds:
            return
        over = over.filter(pc.greater_equal(pc.subtract(over[LAPSE], self._rules.spared(side)), over[TS]))
        counters.punctuations[side] += over.num_rows
        if over.num_rows:
            over = over.take(pa.array(np.argsort(over[TS].to_numpy(), kind="stable")))
            keys = over.columns[2:]
            h1, h2, _ = hash_keys(keys)
            columns = [over[TS], pa.array(h1), pa.array(h2), over[LAPSE], *keys]
            self._log.hold(side, self._log.add(ChunkKind.MARKS, side, columns, chunks))

    def _add(self, side: Side, marks: pa.Table, chunks: ChunkLog) -> None:
        """Log punctuations in time order, and let them wait until the join has come past them."""
        join = self._rules.join
        until = pa.array(np.minimum(marks[TS].to_numpy() + self._rules.binding_us[side], FOR_GOOD))
        pattern = pattern_of(join, side)
        if pattern in EVERYWHERE:
            nowhere = pa.nulls(marks.num_rows, arrow_type(join.keys[0].type))
            ends = range_ends(join, side, marks) if pattern is Pattern.RANGE else (nowhere, nowhere)
            columns = [marks[TS], until, *ends]
            self._ranges.add(side, self._log.next_list(side), columns, chunks)
            return
        columns = [marks[TS], marks[H1], marks[H2], until, *key_columns(join, side, marks)]
        self._log.hold(side, self._log.add(ChunkKind.MARKS, side, columns, chunks))

    def _refused(self, side: Side, rows: pa.Table, reason: str) -> pa.Table:
        """Rows to report, without what they carried beside their columns."""
        own = [*(f.name for f in own_columns(self._rules.join, side)), CAME, CLASS]
        rows = rows.drop_columns([c for c in own if c in rows.column_names])
        return rows.append_column(REASON, pa.array([reason] * rows.num_rows, pa.string()))

    # -- rows that are about to be joined -------------------------------------------------------------------------

    def meet(self, view: JoinView, rows: Rows, before: int, chunks: ChunkLog, counters: Counters) -> HeededRows:
        spelled = [self._spell_out(view, side, rows, before, chunks) for side in Side]
        marks = []
        for side in Side:
            passed = self._as_heard(side, self._log.pass_held(side, view.release))
            marks.append(Marks._make(np.concatenate(both) for both in zip(passed, spelled[side], strict=True)))
        first = self._log.next_numbers.copy()
        met = meet(view, self._rules, rows, marks, self._promised, self._log.next_numbers, before)
        new = []
        for side in Side:
            last_rows = partial(view.last_rows, side, joining=rows, heeded=met.fate != BROKEN)
            new.append(new_promises(self._rules, side, met.events, met.outcome, last_rows))
            made = rows.row[(rows.side == side) & (met.made >= first[side])]
            self._write(view, side, new[side], int(first[side]), made, chunks)
        self._pending.add(self._spoken(view, new), bool(self._rules.preserved.any()))
        wanted = view.wanted[rows.side, rows.cls]
        counters.silent += int(((met.fate == SILENT) & wanted).sum())
        broken = [rows.row[(rows.side == side) & (met.fate == BROKEN)] for side in Side]
        refused = [(side, self._broken(view, side, broken[side], chunks, counters)) for side in Side]
        self._spare(view, rows, met.fate, chunks, counters)
        joined = (met.fate != BROKEN) & (met.fate != SILENT) & wanted
        kept = rows.kept & (met.fate != COVERED)
        return HeededRows(Rows._make(a[joined] for a in rows._replace(kept=kept)), new, refused, broken)

    def _as_heard(self, side: Side, marks: Marks) -> Marks:
        """Promises as they count in this join."""
        return marks._replace(until=marks.until - self._rules.spared(side))

    def _spoken(self, view: JoinView, new: Sequence[NewPromises]) -> list[NewPromises]:
        """The promises that say when a key is over. Finals do not go by what a join below passes on: how soon that is
        said depends on who shares the join."""
        if not view.finals.states or not any(self._rules.hears):
            return list(new)
        own = [replace(new[side], partner=np.full_like(new[side].partner, NONE)) for side in Side]
        return [own[side].chosen(np.full(len(own[side].tp), not self._rules.hears[side])) for side in Side]

    def _spell_out(self, view: JoinView, side: Side, rows: Rows, before: int, chunks: ChunkLog) -> Marks:
        """Ranges as punctuations for each key in them that has come: there are none for keys that nobody has sent."""
        other = self._log.held_keys(side.other, view.release)
        columns = self._ranges.keys_over(view, side, rows, before, self.tables[side], other)
        if not len(columns[0]):
            return NO_MARKS
        marks = self._log.add(ChunkKind.SPELLED, side, columns, chunks)
        return marks._replace(number=-2 - marks.number)

    def _write(self, view: JoinView, side: Side, new: NewPromises, first: int, made: Int64s, chunks: ChunkLog) -> None:
        """Make durable what is new: promises that unique rows `made` (numbered from `first` on), and last rows."""
        own = new.number >= first
        if own.any():
            found, places = view.payload[side].fetch(made)
            keys = [column.take(pa.array(places)) for column in key_columns(view.join, side, found)]
            self._log.add_unique(side, new.chosen(own), keys, chunks)
        known = ~own & (new.last != NONE) & (not self._rules.hears[side])
        if known.any():
            self._log.add_last_rows(side, new.chosen(known), chunks)

    def _broken(self, view: JoinView, side: Side, chosen: Int64s, chunks: ChunkLog, counters: Counters) -> pa.Table:
        """The rows to report, of those that broke a promise now and of those before that had to wait."""
        found, places = view.payload[side].fetch(chosen)
        reported = self._unreported.pass_on(side, found.take(pa.array(places)), view.frontier, self._log, chunks)
        counters.broken[side] += reported.num_rows
        return self._refused(side, reported, "broken: the stream had promised no more of this key")

    def _spare(self, view: JoinView, rows: Rows, fate: UInt8s, chunks: ChunkLog, counters: Counters) -> None:
        """Note the rows that would have been stored and are not."""
        for side in Side:
            gone = rows.kept & (rows.side == side) & (fate >= BROKEN)
            spared = gone & (fate > BROKEN)
            counters.dropped[side] += int(spared.sum())
            self._lags[side].add(before_us=self._since_promise(side.other, rows, spared))
            retention = view.selections[side].retention[rows.cls[gone]]
            self._dead.add(side, rows.row[gone], rows.ts[gone], retention, chunks)

    def _since_promise(self, side: Side, rows: Rows, chosen: Bools) -> Int64s:
        """How long before some rows a side promised their keys."""
        h1, h2, ts = rows.h1[chosen], rows.h2[chosen], rows.ts[chosen]
        begins, ends = np.full(len(ts), NONE), np.full(len(ts), NONE)
        bound(self.tables[side], h1, h2, begins, ends)
        there = (begins != NONE) & (begins <= ts)
        return np.asarray((ts - begins)[there])

    # -- rows that have been joined -------------------------------------------------------------------------------

    def key_ends(self, view: JoinView, new: Sequence[NewPromises], before: int, end: int | None) -> list[KeyEnds]:
        found, since = [], view.matches.meta.since
        for n, state in enumerate(view.finals.states):
            parts = list(self._pending.over(n, state.family, before, view.release, since))
            for promises in () if state.family.first.preserved else new:
                quiet = promises.chosen(promises.quiet)
                numbers = (np.full(len(quiet.tp), n) for n in range(len(state.family.windows)))
                parts += [(quiet.h1, quiet.h2, quiet.tp, number) for number in numbers]
            ends = KeyEnds.of(parts)
            found.append(ends if end is None else ends.chosen(ends.at < end))
        return found

    def emit(self, view: JoinView, before: int, counters: Counters) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        for side in Side:
            self._lags[side].expired = counters.expired[side]
        since = view.matches.meta.since
        punctuations, passed_on = self._pending.due(view.join, self._log.keys, self.tables, before, view.release, since)
        counters.propagated += sum(table.num_rows for table in punctuations.values())
        return punctuations, passed_on

    def compact(self, view: JoinView, intake: Intake, chunks: ChunkLog) -> None:
        for side in Side:
            compact(view, side, self._dead, intake, chunks)

    def free(self, view: JoinView, new: Sequence[NewPromises], chunks: ChunkLog, counters: Counters) -> None:
        for side in Side if self._rules.frees else ():
            other, until = side.other, new[side].until
            if not self._rules.timed[other]:
                # Where rows are counted, places are no times: what a promise that has lapsed could free, stays.
                until = np.where(until >= view.release, FOREVER, NONE)
            numbers, classes, ts, by = view.state.purge(other, new[side].h1, new[side].h2, until)
            if not len(numbers):
                continue
            if not self._rules.timed[other]:
                found, places = view.payload[other].fetch(numbers)
                ts = found[TS].to_numpy()[places]
            counters.purged[other] += len(numbers)
            self._lags[other].add(after_us=new[side].tp[by] - ts)
            self._dead.add(other, numbers, ts, view.selections[other].retention[classes], chunks)

    def dead_rows(self, side: Side) -> Int64s:
        return self._dead.numbers(side)

    def tidy(self, needed: Sequence[Mapping[int, int]], chunks: ChunkLog, release: int) -> None:
        for side in Side:
            self._dead.forget(side, needed[side])
            self._log.forget(side, chunks)
            self._promised[side].sweep(release, int(self._rules.binding_us[side]))
        self._ranges.forget(release)

    # -- durability -----------------------------------------------------------------------------------------------

    def find_last_rows(self, view: JoinView) -> None:
        self._pending.find_last_rows(view.last_rows, view.release, self._rules.hears)

    def restore(self, view: JoinView, chunks: ChunkLog, tables: Mapping[str, pa.Table]) -> None:
        logged = self._log.restore(chunks, tables, view.release)
        for kind, side, _, name in chunks:
            if kind is ChunkKind.DEAD:
                self._dead.recall(side, tables[name][NUMBER].to_numpy())
            elif kind is ChunkKind.RANGES:
                self._ranges.recall(side, tables[name])
            elif kind is ChunkKind.UNREPORTED:
                self._unreported.recall(side, tables[name], view.frontier)
        for side in Side:
            logged[side] = [replace(known, marks=self._as_heard(side, known.marks)) for known in logged[side]]
        again = enter_again(view, self._rules, logged, self._promised)
        self._pending.add(self._spoken(view, again), bool(self._rules.preserved.any()))
        self._pending.settle(view.join, self.tables, view.release)
