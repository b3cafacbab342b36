"""One shared join over one shard: arrivals in, results in timestamp order and chunks to keep out.

What the state **is**, after each micro-batch, with R the release point, min over both streams of `max ts seen -
lateness`:

    held[side]    rows that arrived on time with  ts > R: the other stream may still bring earlier ones
    joined[side]  rows with  ts <= R  that some query can still want: later rows can match them

How long a row can be wanted follows from its class (wang2006 6.1): the largest window of the queries whose selections
it satisfies, up to the end of the slice that this window lies in.

Rows wait until both frontiers have passed them and are then joined in (ts, left first) order: hammad2005's Sync-Filter,
so that results leave in timestamp order and the join itself never sees disorder. A row is written to the durable log
once, when it arrives; that it moves from held to joined and out follows from R alone, so `restore` needs only the
chunks and R. Rows that no query wants are not stored. Rows that leave at different ages lie in different chunks, so
that a short stay gives its bytes back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.batch import ARRIVAL, CLASS, H1, H2, KEPT, MARK, TS, Arrivals, Counters, own_columns, stored_schema
from muntin.core.chunks import ChunkLog, Kind
from muntin.core.compact import compact
from muntin.core.held import Held, pass_all
from muntin.core.memory import Heap, Memory
from muntin.core.payload import RANGE_BITS, Payload
from muntin.core.policy import DEFAULT_POLICY, LimitError, Policy
from muntin.core.promises import Promises, are_used
from muntin.core.results import Found
from muntin.core.selection import Classes, Selections, per_class, routes
from muntin.core.sequence import Numbered, Sequencer
from muntin.core.state import JoinState
from muntin.kernels.join import Pairs, Rows
from muntin.model import Axis, Query, Side
from muntin.plan import SharedJoin
from muntin.plan.share import Cuts

FOREVER = 1 << 62
"""Later than any event time; its negative is earlier than any."""
FRONTIER = "_frontier"
GROUPS = 8
"""Ranges of row numbers for rows that stay: where there are more slices than that, neighbours share one."""
VISITORS = GROUPS
"""The range of rows that only probe here."""
HELD_CLASS, HELD_ROW = 4, 5
HELD_KINDS = ("int64", "int64", "int64", "int64", "int32", "int64", "bool")
"""Of held rows: time, arrival, both halves of the key, class, row number, whether it is kept here."""


@dataclass
class Step:
    """What one micro-batch did to one shard."""

    run: Found
    late: tuple[pa.Table, pa.Table]
    """Late rows: payload and the frontier they missed."""
    puts: dict[str, pa.Table]
    deletes: list[str]
    counters: Counters
    span: tuple[int, int] | None
    """Event times between which the results of *all* shards of this micro-batch lie, both ends included."""
    refused: list[tuple[Side, pa.Table]]
    """Punctuations that say nothing and rows that broke a promise, with the reason."""
    punctuations: dict[str, pa.Table]
    """For each query, the keys of which its output brings no more rows."""


@dataclass(frozen=True)
class Changed:
    """What a change of queries did to one shard."""

    applied_from: int
    """Results from this event time on follow the new queries."""
    complete_from: dict[str, int | None]
    """For each new query, the event time from which it gets all its rows; None where that cannot be foretold."""
    freed_rows: int
    freed_bytes: int
    """Their share of what the state took."""


class Operator:
    complete: dict[str, int | None]
    """Queries that came while the job ran, and from when on they get all their rows."""
    chunks: ChunkLog
    counters: Counters
    max_ts: list[int]
    min_ts: int
    ended: list[bool]
    release: int
    """Rows up to here have been joined, the others are held."""
    _next_row: list[list[int]]
    """The next number in each range of each side."""

    def __init__(
        self,
        join: SharedJoin,
        memory: Memory | None = None,
        image: Mapping[str, Any] | None = None,
        policy: Policy = DEFAULT_POLICY,
    ):
        self.join = join
        self.policy = policy
        self._memory = memory = memory or Heap()
        self.selections, self.verdicts = _asked(join)
        for classes, known in zip((*self.selections, self.verdicts), image["classes"] if image else (), strict=False):
            classes.remember(known)
        self.state = JoinState(join, self.selections, policy, memory, image and image["state"])
        self.payload = tuple(
            Payload(stored_schema(join, side), memory, image["payload"][side] if image else ()) for side in Side
        )
        self.sequencers = tuple(
            Sequencer(join.reach(side), memory, image and image["sequencers"][side])
            if join.axes[side] is Axis.ROWS
            else None
            for side in Side
        )
        self.promises = (
            Promises(join, policy.punctuations, memory, image and image["promises"])
            if are_used(join, policy.punctuations)
            else None
        )
        self._held: tuple[list[Held], list[Held]] = ([], [])
        self._recall(image["meta"] if image else _NEW)
        if image:
            for side in Side:
                self._held[side].extend(Held.open(memory, held, HELD_KINDS) for held in image["held"][side])

    # -- queries come and go --------------------------------------------------------------------------------------

    def change(self, join: SharedJoin, covered: Mapping[str, bool]) -> Changed:
        """Go on with other queries over the same streams and key, from the next result on.

        `covered` names the queries that are new, and says whether the queries before kept all that they want.
        """
        rows, size = sum(self.state.rows(side) for side in Side), self.nbytes
        selections, self.verdicts = _asked(join)
        moved = [self._adopt(side, selections[side]) for side in Side]
        waits = max((ts for ts in self.complete.values() if ts is not None), default=-FOREVER)
        since = self.release + 1
        for query in join.queries:
            if query.name in covered:
                self.complete[query.name] = max(since, waits) if covered[query.name] else self._full(query)
        self.complete = {q.name: self.complete[q.name] for q in join.queries if q.name in self.complete}
        self.join, self.selections = join, selections
        if self.promises:
            self.promises.change(join)
        self.state.change(join, selections, any(moved), [self._now(side) for side in Side], self.counters)
        self.chunks.restay(self._stay)
        for side in Side:
            if (sequencer := self.sequencers[side]) is not None:
                sequencer.window = join.reach(side)
        self.state.settle()
        freed = rows - sum(self.state.rows(side) for side in Side)
        return Changed(since, {name: self.complete.get(name) for name in covered}, freed, size * freed // max(1, rows))

    def begin(self, max_ts: Sequence[int]) -> Changed:
        """Start in the middle of streams that have come to `max_ts`: what is late for others is late here."""
        self.max_ts = list(max_ts)
        self.min_ts = max(self.max_ts) if max(self.max_ts) > -FOREVER else FOREVER
        self.release = self._release_point()
        self.complete = {query.name: self._full(query) for query in self.join.queries}
        return Changed(self.release + 1, dict(self.complete), 0, 0)

    def _full(self, query: Query) -> int | None:
        """The event time from which a query gets all its rows if it has to wait until its windows have filled."""
        seen = max(self.max_ts)
        if seen == -FOREVER:
            return self.release + 1
        return None if Axis.ROWS in query.window.axes else seen + 1 + max(query.window.left, query.window.right)

    def _adopt(self, side: Side, selections: Selections) -> bool:
        """Classify the rows of a side anew where predicates are new; whether that was so."""
        new = selections.adopt(self.selections[side])
        if not new:
            return False
        payload = self.payload[side]
        payload.reclassify(selections.refined(new))
        by_number = payload.class_by_number()
        self.state.reclass(side, by_number)
        for run in self._held[side]:
            run.update(HELD_CLASS, lambda columns: by_number(columns[HELD_ROW]))
        return True

    def _stay(self, kind: Kind, side: Side, base: int, rows: int) -> int:
        """The age at which the last row of a chunk leaves."""
        if kind is Kind.CLOCK:
            return self.join.reach(side)
        if not kind.has_rows:
            return self.join.cuts[side][-1]
        return int(self.selections[side].keep[self.payload[side].classes_of(base, rows)].max())

    # -- one micro-batch ------------------------------------------------------------------------------------------

    def advance(self, arrivals: Arrivals) -> Step:
        """Take in a micro-batch, join what both streams have passed, forget what nobody can need."""
        puts: dict[str, pa.Table] = {}
        refused: list[tuple[Side, pa.Table]] = []
        late = [self._receive(side, arrivals, puts, refused) for side in Side]
        for side in Side:
            self._note_progress(side, arrivals)
        before, self.release = self.release, self._release_point()
        rows = self._ready()
        if self.promises:
            rows, fresh, broken = self.promises.meet(self, rows, before, puts)
            refused += zip(Side, broken, strict=True)
        try:
            pairs = self.state.insert(rows, self.counters, self._judge if self.verdicts.predicates else None)
        except LimitError as error:
            raise LimitError(
                f"{self._title}: {error.message}; {self._dominant()}",
                hint="narrow the window or the selections, read fewer rows per micro-batch, or raise SET "
                "fan_out_limit; then run the job again: nothing is lost",
            ) from None
        self.counters.pairs += len(pairs.ts)
        # Expiry touches the index only: the payload of the pairs just found is fetched before it is given back.
        for side in Side:
            self.state.forget(side, self._now(side), self.counters)
        punctuations: dict[str, pa.Table] = {}
        deletes = self.chunks.expired(self._stale_before, self.release)
        if self.promises:
            self.promises.purge(self, fresh, puts)
            punctuations = self.promises.due(self, before)
            self.counters.propagated += sum(table.num_rows for table in punctuations.values())
            for side in Side:
                deletes += compact(self, self.promises.dead, side, puts)
            self.state.relist([self._now(side) for side in Side], self.counters)
        self._check_limit()
        self._note_levels()
        deletes = [name for name in deletes if puts.pop(name, None) is None]  # what came and went is not written
        span = max(before, self.min_ts), min(self.release, max(self.max_ts))
        wants = (self.selections[0].wants, self.selections[1].wants, self.verdicts.wants)
        found = Found(self.join, self.payload, wants, pairs)
        within = span if span[0] <= span[1] else None
        refused = [(side, table) for side, table in refused if table.num_rows]
        return Step(found, (late[0], late[1]), puts, deletes, self.counters, within, refused, punctuations)

    def frontier(self, side: Side) -> int:
        """No row older than this is accepted any more."""
        if self.ended[side]:
            return FOREVER
        return self.max_ts[side] - self.join.streams[side].lateness_us if self.max_ts[side] > -FOREVER else -FOREVER

    def _release_point(self) -> int:
        """Rows up to here can be joined. Numbers depend on the order of ties over both streams: those must be
        complete."""
        return min(self.frontier(side) for side in Side) - any(self.sequencers)

    def _now(self, side: Side) -> int:
        """How far the axis of a side has come; past everything once both streams have ended."""
        sequencer = self.sequencers[side]
        return sequencer.counted if sequencer and not all(self.ended) else self.release

    def _stale_before(self, side: Side, age: int) -> int:
        """Rows of a side with an earlier event time have reached an age."""
        sequencer = self.sequencers[side]
        if sequencer is not None and not all(self.ended):
            return sequencer.stale_before(age)
        return self.release - age + 1

    def _receive(
        self, side: Side, arrivals: Arrivals, puts: dict[str, pa.Table], refused: list[tuple[Side, pa.Table]]
    ) -> pa.Table:
        """Sort out late, keyless and unwanted rows, keep the others as chunks; returns the late ones to report."""
        rows, counters, frontier = arrivals.rows[side], self.counters, self.frontier(side)
        rows = self._number_arrivals(side, rows, arrivals.clocks[side], frontier, puts)
        if self.promises:
            rows = self.promises.number(side, rows)
        is_late = pc.less(rows[TS], frontier)
        late = rows.filter(is_late)
        on_time = rows.filter(pc.invert(is_late)) if late.num_rows else rows
        if MARK in rows.column_names:
            is_mark = on_time[MARK]
            if self.promises:
                refused.append((side, self.promises.receive(self, side, on_time.filter(is_mark), puts)))
            on_time, rows = on_time.filter(pc.invert(is_mark)), rows.filter(pc.invert(rows[MARK]))
        counters.arrived[side] += pc.sum(rows[KEPT]).as_py() or 0 if KEPT in rows.column_names else rows.num_rows
        if KEPT in rows.column_names:  # the shard that keeps a row reports it
            late = late.filter(late[KEPT])
        keyed = on_time.filter(pc.is_valid(on_time[H1])) if on_time[H1].null_count else on_time
        classes = self.selections[side].classify(keyed)
        self.selections[side].note(classes)
        wanted = self.selections[side].reach[classes] > 0
        counters.late[side] += late.num_rows
        counters.null_key[side] += on_time.num_rows - keyed.num_rows
        counters.unwanted[side] += keyed.num_rows - int(wanted.sum())
        order = np.flatnonzero(wanted | bool(self.promises and self.promises.looks_at(side)))
        order = order[np.argsort(keyed[TS].to_numpy()[order], kind="stable")]
        self._keep(side, keyed.take(pa.array(order)), classes[order], puts)
        own = [f.name for f in own_columns(self.join, side)]
        return late.drop_columns(own).append_column(FRONTIER, pa.array([frontier] * late.num_rows, pa.int64()))

    def _number_arrivals(
        self, side: Side, rows: pa.Table, clock: npt.NDArray[np.int64] | None, frontier: int, puts: dict[str, pa.Table]
    ) -> pa.Table:
        """On an axis of rows: note the whole stream's times, and give own rows their place in the order of arrival."""
        sequencer = self.sequencers[side]
        if sequencer is None or clock is None or not len(clock):
            return rows
        base, ts, arrivals = sequencer.receive(clock, frontier)
        if len(ts):
            name = self.chunks.add(Kind.CLOCK, side, base, int(ts[-1]), self.join.reach(side), len(ts))
            puts[name] = pa.table({TS: ts, ARRIVAL: arrivals})
        at = rows.column_names.index(ARRIVAL)
        return rows.set_column(at, ARRIVAL, pc.add(rows[ARRIVAL], base))

    def _keep(self, side: Side, table: pa.Table, classes: npt.NDArray[np.int32], puts: dict[str, pa.Table]) -> None:
        """Number rows in time order and hold them back, in chunks of those that leave at about the same age."""
        selections = self.selections[side]
        ranges = _groups(self.join.cuts[side])[selections.lanes()[classes]]
        if KEPT in table.column_names:
            ranges = np.where(np.asarray(table[KEPT]), ranges, VISITORS)
        ranges = np.where(selections.reach[classes] > 0, ranges, VISITORS)
        for number in np.unique(ranges):
            chosen = ranges == number
            part, own = (table, classes) if chosen.all() else (table.filter(pa.array(chosen)), classes[chosen])
            part = part.combine_chunks()
            base = self.keep_chunk(side, int(number), part, own, puts)
            self._hold(Kind.VISITORS if number == VISITORS else Kind.ROWS, side, base, part, own)

    def keep_chunk(
        self, side: Side, number: int, part: pa.Table, classes: npt.NDArray[np.integer], puts: dict[str, pa.Table]
    ) -> int:
        """Give rows in time order the next numbers of a range, and the log a chunk of them; returns the first."""
        base = self._next_row[side][number]
        self._next_row[side][number] += part.num_rows
        kind, keep = Kind.VISITORS if number == VISITORS else Kind.ROWS, int(self.selections[side].keep[classes].max())
        puts[self.chunks.add(kind, side, base, int(part[TS][-1].as_py()), keep, part.num_rows)] = part
        return base

    def _hold(self, kind: Kind, side: Side, base: int, table: pa.Table, classes: npt.NDArray[np.int32]) -> None:
        own = [f.name for f in own_columns(self.join, side) if f.name != TS]
        self.payload[side].add(base, table.drop_columns(own), classes)
        numbers = np.arange(base, base + table.num_rows, dtype=np.int64)
        ts, h1, h2 = (np.asarray(table[c]) for c in (TS, H1, H2))
        arrivals = np.asarray(table[ARRIVAL]) if ARRIVAL in own else numbers
        kept = np.full(len(ts), kind is Kind.ROWS)
        self._held[side].append(Held.keep(self._memory, (ts, arrivals, h1, h2, classes, numbers, kept)))

    def _note_progress(self, side: Side, arrivals: Arrivals) -> None:
        low, high = arrivals.min_ts[side], arrivals.max_ts[side]
        if low is not None and high is not None:
            self.max_ts[side] = max(self.max_ts[side], high)
            self.min_ts = min(self.min_ts, low)
        self.ended[side] |= arrivals.ended[side]

    def _ready(self) -> Rows:
        """The held rows that the release point has passed, in (ts, left first, arrival) order; the others stay held."""
        return self._rows([s.release(self.release) if s else None for s in self.sequencers])

    def _rows(self, numbered: list[Numbered | None]) -> Rows:
        sides = []
        for side in Side:
            ts, arrivals, *others = pass_all(self._held[side], self.release, HELD_KINDS)
            if self.promises and self.promises.is_unique(side):
                first = np.lexsort((arrivals, ts))
                ts, arrivals, *others = (column[first] for column in (ts, arrivals, *others))
            mine, theirs = numbered[side], numbered[side.other]
            at = mine.numbers(arrivals) if mine else ts
            now = theirs.reached(ts, inclusive=side is Side.RIGHT) if theirs else ts
            others[-1] &= self.selections[side].keep[others[2]] > 0  # of no use to anyone since a query has left
            sides.append((np.full(len(ts), side, np.uint8), ts, at, now, *others))
        joined = [np.concatenate(columns) for columns in zip(*sides, strict=True)]
        order = np.lexsort((joined[2], joined[0], joined[1])) if any(numbered) else np.argsort(joined[1], kind="stable")
        return Rows._make(a[order] for a in joined)

    def _judge(self, pairs: Pairs) -> Pairs:
        """Evaluate the predicates over both sides; only pairs that some query wants go on."""
        table, wanted = {}, ~np.uint64(0)
        for side in Side:
            rows, places = self.payload[side].fetch(pairs.rows[side])
            wanted = wanted & self.selections[side].wants[rows[CLASS].to_numpy()[places]]
            for name in self.verdicts.columns(side):
                table[side.prefix + name] = rows[name].take(pa.array(places))
        verdicts = self.verdicts.numbers(pa.table(table))
        readers = routes(self.join, [s.wants for s in self.selections]).readers
        wanted &= self.verdicts.wants[verdicts] & readers[pairs.tag & 1, pairs.tag >> 1]
        kept = wanted.any(axis=1)
        return Pairs(pairs.rows[:, kept], pairs.ts[kept], pairs.tag[kept], verdicts[kept])

    def _note_levels(self) -> None:
        self.counters.keys = self.state.keys
        self.counters.promises = self.promises.count if self.promises else [0, 0]
        for side in Side:
            self.counters.state_rows[side] = self.state.rows(side)
            self.counters.held_rows[side] = sum(len(run) for run in self._held[side])

    def tidy(self) -> None:
        """Give back the rows that no chunk needs any more, and spare room; call once the results have been fetched."""
        self.state.settle()
        for side in Side:
            firsts = self.chunks.firsts(side, RANGE_BITS)
            self.payload[side].forget(firsts)
            if self.promises:
                self.promises.dead.forget(side, firsts)
        if self.promises:
            self.promises.tidy(self)

    @property
    def nbytes(self) -> int:
        """Bytes that the state takes in memory: index, time lists, and the rows themselves."""
        return self.state.nbytes + sum(p.nbytes for p in self.payload) + (self.promises.nbytes if self.promises else 0)

    @property
    def _title(self) -> str:
        return f"join {self.join.index + 1} ({self.join.streams[0].name} x {self.join.streams[1].name})"

    def _check_limit(self) -> None:
        limit = self.policy.state_bytes
        if limit is not None and self.nbytes > limit:
            raise LimitError(
                f"{self._title}: the state takes {self.nbytes:,} bytes in one shard, its share of state_limit is "
                f"{limit:,}; {self._dominant()}",
                hint="shorten the largest window, select more narrowly, or raise SET state_limit; then run the job "
                "again: nothing is lost",
            )

    def _dominant(self) -> str:
        """The query and the key that hold most of the state, in words."""
        query = max(self.join.queries, key=lambda q: max(q.window.side(side) for side in Side))
        tops = [(self.top_key(side), side) for side in Side if self.state.top(side)[0]]
        words = f"query {query.name} has the largest window"
        if tops:
            (rows, key), side = max(tops, key=lambda top: top[0][0])
            share = rows / max(1, self.state.rows(side))
            named = ", ".join(f"{name} = {value!r}" for name, value in key.items()) or "no key"
            words += (
                f", the fullest key ({named}) has {rows:,} rows of {self.join.streams[side].name}, {share:.0%} of them"
            )
        return words

    def top_key(self, side: Side) -> tuple[int, dict[str, Any]]:
        """How many rows the fullest key of a side has, and its values."""
        rows, number = self.state.top(side)
        if number < 0:
            return 0, {}
        row = self.payload[side].take(np.array([number], np.int64))
        columns = dict.fromkeys(c for pair in self.join.keys for c in pair.side(side).columns(side))
        return rows, {name: row[name][0].as_py() for name in columns}

    def slice_rows(self, side: Side) -> list[int]:
        """Live rows per slice of one side, from young to old, as of the release point."""
        now = min(self._now(side), max(self.max_ts))
        return self.state.rows_by_age(side, now) if self.promises else self.state.leaving.rows_by_age(side, now)

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        """All that `restore` needs beside the chunks."""
        return {
            "max_ts": self.max_ts,
            "min_ts": self.min_ts,
            "ended": self.ended,
            "release": self.release,
            "next_row": self._next_row,
            "chunks": self.chunks.live,
            "classes": [s.tally for s in self.selections],
            "complete": self.complete,
            "sequences": [s and [s.counted, s.arrived] for s in self.sequencers],
            "counters": dataclasses.asdict(self.counters),
            "promises": self.promises and self.promises.meta,
        }

    def _recall(self, meta: Mapping[str, Any]) -> None:
        self.max_ts, self.min_ts = list(meta["max_ts"]), meta["min_ts"]
        self.ended, self.release = list(meta["ended"]), meta["release"]
        self._next_row = [list(numbers) for numbers in meta["next_row"]]
        self.chunks = ChunkLog(meta["chunks"])
        self.counters = Counters(**meta["counters"])
        self.complete = dict(meta["complete"])
        if self.promises and meta["promises"]:
            self.promises.recall(meta["promises"])
        for selections, tally in zip(self.selections, meta["classes"], strict=True):
            selections.recall(tally)
        for sequencer, numbers in zip(self.sequencers, meta["sequences"], strict=True):
            if sequencer and numbers:
                sequencer.counted, sequencer.arrived = numbers

    @property
    def image(self) -> dict[str, Any]:
        """All that another process needs, beside the memory, to go on from here."""
        return {
            "meta": self.meta,
            "cuts": self.join.cuts,
            "state": self.state.image,
            "payload": [p.image for p in self.payload],
            "classes": [c.image for c in (*self.selections, self.verdicts)],
            "held": [[run.image for run in runs] for runs in self._held],
            "sequencers": [s and s.image for s in self.sequencers],
            "promises": self.promises and self.promises.image,
        }

    @classmethod
    def restore(
        cls,
        join: SharedJoin,
        meta: Mapping[str, Any],
        chunks: Mapping[str, pa.Table],
        memory: Memory | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> Operator:
        """The operator that had this `meta` and these chunks."""
        self = cls(join, memory, policy=policy)
        self._recall(meta)
        for kind, side, base, name in self.chunks:
            table, sequencer = chunks[name], self.sequencers[side]
            if kind.has_rows:
                self._hold(kind, side, base, table, self.selections[side].classify(table))
            elif kind is Kind.CLOCK and sequencer is not None:
                sequencer.hold(*(table[c].to_numpy() for c in (TS, ARRIVAL)))
        rows = self._rows([s.recount(self.release) if s else None for s in self.sequencers])
        now = np.array([self._now(side) for side in Side], np.int64)
        left, right = self.selections
        live = rows.kept & (now[rows.side] - rows.at < per_class(left.keep, right.keep)[rows.side, rows.cls])
        if self.promises:
            self.promises.restore(self, chunks)
            for side in Side:
                live &= (rows.side != side) | ~np.isin(rows.row, self.promises.dead.numbers(side))
        self.state.load(Rows._make(a[live] for a in rows))
        return self


def _asked(join: SharedJoin) -> tuple[tuple[Selections, Selections], Classes]:
    """What the queries of a join ask of the rows of each side, and of pairs."""
    verdicts = Classes([q.residual for q in join.queries], len(join.queries))
    return (Selections(join, Side.LEFT), Selections(join, Side.RIGHT)), verdicts


def fits(join: SharedJoin, image: Mapping[str, Any]) -> bool:
    """Whether an image was made with the same cuts: its time lists have a lane for each slice."""
    return [list(cuts) for cuts in image["cuts"]] == [list(cuts) for cuts in join.cuts]


def _groups(cuts: Cuts) -> npt.NDArray[np.int64]:
    """The range of row numbers of each slice: its own, or with many slices one shared by ends of the same magnitude."""
    if len(cuts) <= GROUPS:
        return np.arange(len(cuts))
    sizes = np.log(np.array(cuts, float))
    return np.minimum(((sizes - sizes[0]) / (sizes[-1] - sizes[0]) * GROUPS).astype(np.int64), GROUPS - 1)


_FIRST_ROWS = [n << RANGE_BITS for n in range(GROUPS + 1)]
_NEW: dict[str, Any] = {
    "max_ts": [-FOREVER, -FOREVER],
    "min_ts": FOREVER,
    "ended": [False, False],
    "release": -FOREVER,
    "next_row": [_FIRST_ROWS, _FIRST_ROWS],
    "chunks": {},
    "classes": [[], []],
    "complete": {},
    "sequences": [None, None],
    "counters": {},
    "promises": None,
}
