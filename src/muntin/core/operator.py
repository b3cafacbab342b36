"""One shared join over one shard: arrivals in, results in timestamp order and chunks to keep out.

What the state **is**, after each micro-batch, with F[side] the frontier of a stream, R the release point, the smaller
of the two frontiers, and J[side] how far the rows of a side have been joined, R <= J[side] <= F[side]:

    held rows     those with  ts > J[side]: they have arrived and wait
    joined rows   those with  ts <= J[side]  that some query can still want as of R
    held pairs    matches of joined rows whose later row has  ts > R: the other stream may still bring earlier results

How long a row can be wanted follows from its class (wang2006 6.1): the largest window of the queries whose selections
it satisfies, up to the end of the slice that this window lies in.

Results leave in timestamp order, when R has passed them. One rule says what is joined before that (hammad2005): under
Sync-Filter a row waits until R has passed it, so that J is R and no pair is held; under Filter-Order it is joined when
its own stream's frontier has passed it, meets partners that are earlier or later, and the pairs wait. To go over
from one to the other is to go on with the other rule: what was joined ahead is caught up with by R in time.

A row is written to the durable log once, when it arrives; that it is held, joined or out follows from R and J, so
`restore` needs only the chunks and those. Held pairs are not written: they are found again by joining the rows
beyond R once more, and since everything expires by R, under any rule, the partners are there. Rows that no query
wants are not stored. Rows that leave at different ages lie in different chunks, so that a short stay gives its bytes
back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregate import Aggregates
from muntin.core.arrival import reported_once
from muntin.core.batch import ARRIVAL, CLASS, H1, H2, KEPT, MARK, TS, Arrivals, Counters, own_columns, stored_schema
from muntin.core.came import Came
from muntin.core.chunks import ChunkLog, Kind
from muntin.core.compact import compact
from muntin.core.final import NO_FINALS, Ends, Finals
from muntin.core.groups import GroupState, Values
from muntin.core.held import Held, leave_all, take_all
from muntin.core.hold import HoldBuffer
from muntin.core.memory import Heap, Memory
from muntin.core.payload import RANGE_BITS, Payload
from muntin.core.policy import DEFAULT_POLICY, LimitError, Policy
from muntin.core.promises import Promises
from muntin.core.propagate import Fresh
from muntin.core.results import Found, UInt64s
from muntin.core.selection import Classes, Selections, per_class, routes
from muntin.core.sequence import Numbered, Sequencer
from muntin.core.state import JoinState, Judge
from muntin.core.streams import FOREVER, Streams
from muntin.core.streams import NEW as NO_STREAMS
from muntin.core.work import Work
from muntin.kernels.join import WHOLE, Pairs, Rows, Scan, empty_pairs, in_order, together
from muntin.model import Axis, Query, Side
from muntin.plan import SharedJoin
from muntin.plan.ordering import ADAPTIVE, EAGERLY, FILTER_ORDER, must_wait
from muntin.plan.punctuation import TOLD, are_used
from muntin.plan.share import Cuts

FRONTIER, IDLE, LIMIT = "_frontier", "_idle", "_limit"
"""Beside rows that are turned away: the frontier that a late one missed, whether only because its stream was idle; the
latest event time that was believed when one came that is ahead."""
GROUPS = 8
"""Ranges of row numbers for rows that stay: where there are more slices than that, neighbours share one."""
VISITORS, MOVED = GROUPS, GROUPS + 1
"""The ranges of rows that only probe here, and of those that were moved away from dead ones (core/compact.py)."""
NO_PAIRS = empty_pairs(0)
EVERYBODY = ~np.zeros(1, np.uint64)
AGAIN = 1 << 15
"""Rows that are joined at a time to find live pairs again."""
HELD_CLASS, HELD_ROW = 4, 5
HELD_KINDS = ("int64", "int64", "int64", "int64", "int32", "int64", "bool")
"""Of held rows: time, arrival, both halves of the key, class, row number, whether it is kept here."""
HELD_BYTES = sum(np.dtype(kind).itemsize for kind in HELD_KINDS)
_HELD_HINT = (
    "give the stream that is behind IDLE AFTER, mend it, raise SET held_limit, or choose on_held_limit = 'release'; "
    "then run the job again: nothing is lost"
)


@dataclass
class Step:
    """What one micro-batch did to one shard."""

    run: Found
    late: tuple[pa.Table, pa.Table]
    """Late rows: payload, the frontier they missed, whether it is that of the other stream."""
    ahead: tuple[pa.Table, pa.Table]
    """Rows too far ahead: payload and the latest event time that was believed."""
    puts: dict[str, pa.Table]
    deletes: list[str]
    counters: Counters
    span: tuple[int, int] | None
    """Event times between which the results of *all* shards of this micro-batch lie, both ends included."""
    values: Sequence[Values]
    """What the queries with aggregates learn; `run` has the pairs of the others only."""
    refused: Sequence[tuple[Side, pa.Table]]
    """Punctuations that say nothing and rows that broke a promise, with the reason."""
    punctuations: Mapping[str, pa.Table]
    """For each query, the keys of which its output brings no more rows."""


@dataclass
class _Taken:
    """What a micro-batch has brought and done so far, between `receive` and `finish`."""

    before: int
    """The release point before it."""
    puts: dict[str, pa.Table] = field(default_factory=dict)
    late: list[pa.Table] = field(default_factory=list)
    ahead: list[pa.Table] = field(default_factory=list)
    refused: list[tuple[Side, pa.Table]] = field(default_factory=list)
    fresh: Sequence[Fresh] = ()
    """Promises that have come into force."""


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
    came: Came
    complete: dict[str, int | None]
    """Queries that came while the job ran, and from when on they get all their rows."""
    chunks: ChunkLog
    counters: Counters
    streams: Streams
    release: int
    """Results up to here have left."""
    joined: list[int]
    """How far the rows of each side have been joined."""
    filter_order: bool
    """Whether rows are joined as soon as their own stream has passed them, and results wait."""
    _out: list[Any] | None
    """Where results had to leave before their time: how far each side was joined then, and the next row numbers."""
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
        self.aggregates = Aggregates(join, memory, image["aggregates"] if image else None)
        self.finals = Finals(join, memory, image and image["finals"])
        families = len(self.finals.states)
        self.promises = (
            Promises(join, policy.punctuations, memory, image and image["promises"], families)
            if are_used(join, policy.punctuations)
            else None
        )
        self._held: tuple[list[Held], list[Held]] = ([], [])
        self._pairs = HoldBuffer(memory, bool(self.verdicts.predicates), image["pairs"] if image else ())
        left, right = (stream.lateness_us for stream in join.streams)
        self.streams = Streams((left, right), policy.max_ahead_us)
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
        ahead = max(self.joined) > self.release
        if ahead:
            self._withdraw()
        selections, self.verdicts = _asked(join)
        self._pairs = HoldBuffer(self._memory, bool(self.verdicts.predicates))
        moved = [self._adopt(side, selections[side]) for side in Side]
        waits = max((ts for ts in self.complete.values() if ts is not None), default=-FOREVER)
        since = self.release + 1
        for query in join.queries:
            if query.name in covered:
                # Pairs that are live may be of rows that a promise has freed: aggregates cannot begin with them.
                at_once = covered[query.name] and not (self.promises and query.looks_at_live_pairs)
                self.complete[query.name] = max(since, waits) if at_once else self._full(query)
        self.complete = {q.name: self.complete[q.name] for q in join.queries if q.name in self.complete}
        self.join, self.selections = join, selections
        relist = ahead or any(moved)
        if self.promises:
            self.promises.change(join)
        self.state.change(join, selections, relist, [self._now(side) for side in Side], self.counters)
        self.chunks.restay(self._stay)
        for side in Side:
            if (sequencer := self.sequencers[side]) is not None:
                sequencer.window = join.reach(side)
        self._find_again(self.aggregates.change(join))
        self.finals.change(join, covered)
        if self.promises:
            self.promises.retell(self)
        if ahead:
            self._rejoin()
        self.state.settle()
        freed = rows - sum(self.state.rows(side) for side in Side)
        return Changed(since, {name: self.complete.get(name) for name in covered}, freed, size * freed // max(1, rows))

    def begin(self, max_ts: Sequence[int]) -> Changed:
        """Start in the middle of streams that have come to `max_ts`: what is late for others is late here."""
        self.streams.begin(max_ts)
        self.release = self._release_point()
        self.joined = [self.release, self.release]
        self.complete = {query.name: self._full(query) for query in self.join.queries}
        return Changed(self.release + 1, dict(self.complete), 0, 0)

    def _full(self, query: Query) -> int | None:
        """The event time from which a query gets all its rows if it has to wait until its windows have filled.

        Nobody knows when the last group is over that had pairs before.
        """
        seen = max(self.streams.max_ts)
        if seen == -FOREVER:
            return self.release + 1
        if query.final:
            return None
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
        self.receive(arrivals)
        pairs = self._relieve(self._advance_join(self.filter_order))
        self.counters.pairs += len(pairs.ts)
        return self.finish(pairs)

    def receive(self, arrivals: Arrivals) -> None:
        """Take in the rows of a micro-batch; what both streams have passed can then be joined."""
        self._taken = _Taken(self.release)
        self.came.begin(arrivals.moment, not any(self._held))
        limits = [self.streams.believe(side, arrivals.spans[side]) for side in Side]
        for side in Side:
            self._receive(side, arrivals, limits[side], self._taken)
        self.streams.note(arrivals, limits)
        self.release = self._release_point()

    def work(self, run_length: int | None = None) -> Work:
        """The join of what was received, to be done unit by unit in the order of the scheduler, before `finish`."""
        rows = self._meet(self._rows(self._numbered(), self._passed))
        self._joined_until(self._passed)
        self._relieve(NO_PAIRS)
        return Work(self.state, rows, self.counters, self.policy.scheduler, self._asks, run_length)

    def finish(self, pairs: Pairs = NO_PAIRS) -> Step:
        """The end of a micro-batch: forget what nobody can need. `pairs` are those that were not delivered before."""
        # Expiry touches the index only: the payload of the pairs just found is fetched before it is given back.
        for side in Side:
            self.state.forget(side, self._now(side), self.counters)
        taken, punctuations = self._taken, {}
        puts, before = taken.puts, taken.before
        deletes = self.chunks.expired(self._stale_before, self.release)
        ends = self._ends(taken)
        if self.promises:
            self.promises.purge(self, taken.fresh, puts)
            punctuations = self.promises.due(self, before)
            self.counters.propagated += sum(table.num_rows for table in punctuations.values())
            for side in Side:
                deletes += compact(self, self.promises.dead, side, puts)
            self.state.relist([self._now(side) for side in Side], self.counters)
        self._check_limit()
        self._note_levels()
        span = max(before, self.streams.min_ts), min(self.release, max(self.streams.max_ts))
        within = span if span[0] <= span[1] else None
        found = self.found(pairs)
        values: list[Values] = []
        if self.aggregates or self.finals:
            run = found.whole()
            self.aggregates.take(run, self.counters)
            values = self.aggregates.advance(self.release - 1, self.counters)
            over = max(self.streams.max_ts) if all(self.streams.ended) else None
            values += self.finals.tell(run, ends, over, self.counters)
            deletes += self.finals.log(self.chunks, puts)
            self.counters.groups = self.aggregates.groups + self.finals.groups
            found = found.without_aggregates(run)
        deletes = [name for name in deletes if puts.pop(name, None) is None]  # what came and went is not written
        refused = [(side, table) for side, table in taken.refused if table.num_rows]
        late, ahead = (taken.late[0], taken.late[1]), (taken.ahead[0], taken.ahead[1])
        return Step(found, late, ahead, puts, deletes, self.counters, within, values, refused, punctuations)

    def _ends(self, taken: _Taken) -> list[Ends]:
        """For each family that is told once, the keys that are over; where the streams have ended, by then."""
        if not self.promises:
            return [Ends.of(()) for _ in self.finals.states]
        found = self.promises.ends(self, taken.fresh, taken.before)
        if not all(self.streams.ended):
            return found
        end = max(self.streams.max_ts)
        return [ends._replace(at=np.minimum(ends.at, end)) for ends in found]

    def _find_again(self, states: Sequence[GroupState]) -> None:
        """Let families begin with the live pairs: those of the rows kept, joined once more.

        No row beyond the release point may be in the state: its pairs are still to come.
        """
        if not states:
            return
        policy = dataclasses.replace(self.policy, fan_out=FOREVER)
        again, rows = JoinState(self.join, self.selections, policy, Heap()), self.state.stored()
        for start in range(0, len(rows.ts), AGAIN):
            part = Rows._make(column[start : start + AGAIN] for column in rows)
            run = self.found(again.insert(part, Counters(), self._asks)).whole()
            for state in states:
                state.begin(run)
        for state in states:
            state.advance(self.release - 1, Counters(), silent=True)

    def found(self, pairs: Pairs, queries: UInt64s = EVERYBODY) -> Found:
        """Pairs with what it takes to route them to some of the queries, given as bits."""
        left = self.selections[0].wants & queries
        wants = (left, self.selections[1].wants, self.verdicts.wants)
        return Found(self.join, self.payload, wants, pairs, self.came)

    @property
    def _asks(self) -> Judge | None:
        return self._judge if self.verdicts.predicates else None

    def explained(self, error: LimitError) -> LimitError:
        """A limit of the join, with the query and the key that take most of it."""
        return LimitError(
            f"{self._title}: {error.message}; {self._dominant()}",
            hint="narrow the window or the selections, read fewer rows per micro-batch, or raise SET "
            "fan_out_limit; then run the job again: nothing is lost",
        )

    def follow(self, filter_order: bool) -> None:
        """Go on with the other rule of what is joined when: Adaptive's switch, in both directions (hammad2005 6)."""
        self.filter_order = filter_order

    def _release_point(self) -> int:
        """Results up to here can leave. Numbers depend on the order of ties over both streams: those must be
        complete."""
        return min(self.streams.frontiers) - any(self.sequencers)

    def _advance_join(self, filter_order: bool) -> Pairs:
        """Join all that may be joined; the pairs that may leave, in timestamp order.

        The rows of some joins wait under any rule (`must_wait`).
        """
        bounds = self.streams.frontiers if filter_order and self._waits is None else self._passed
        found = self._found(self._meet(self._rows(self._numbered(), bounds)), self.counters)
        self._joined_until(bounds)
        return self._pairs.exchange(found, self.release)

    @property
    def _waits(self) -> str | None:
        """Why rows wait for the release point under any rule; None where they need not."""
        told = TOLD if self.promises else None
        return must_wait(self.join) or told or (EAGERLY if self.policy.eager else None)

    @property
    def _must_wait_for_order(self) -> str | None:
        """Why results cannot leave before their time; None where they can."""
        return self._waits or ("has aggregates" if self.aggregates else None)

    @property
    def _passed(self) -> list[int]:
        """How far rows can be joined under Sync-Filter."""
        return [self.release, self.release]

    def _numbered(self) -> list[Numbered | None]:
        """The numbers of the rows that the release point has passed, where rows are counted."""
        return [s.release(self.release) if s else None for s in self.sequencers]

    def _meet(self, rows: Rows) -> Rows:
        """The rows that no promise turns away."""
        if not self.promises:
            return rows
        taken = self._taken
        rows, taken.fresh, broken = self.promises.meet(self, rows, taken.before, taken.puts)
        taken.refused += zip(Side, broken, strict=True)
        return rows

    def _joined_until(self, bounds: Sequence[int]) -> None:
        seen = self.streams.max_ts
        self.joined = [max(self.joined[side], self.release, min(bounds[side], seen[side])) for side in Side]
        for side in Side:
            leave_all(self._held[side], self.release)
        if self._out and self.release >= max(self._out[0]):
            self._out = None

    def _found(self, rows: Rows, counters: Counters) -> Pairs:
        """Join rows with what is there, also with what is later than they are; the pairs in timestamp order."""
        early = len(rows.ts) > 0 and max(self.joined) > rows.ts[0]
        ahead = early or (len(rows.ts) > 0 and rows.ts[-1] > self.release)
        scan = Scan(WHOLE.ages, bool(early), True, np.array([self.release, self.release])) if ahead else WHOLE
        try:
            pairs = self.state.insert(rows, counters, self._asks, scan)
        except LimitError as error:
            raise self.explained(error) from None
        return in_order(pairs) if early else pairs

    def _withdraw(self) -> None:
        """Undo what was joined beyond the release point, so that it can be joined anew."""
        self.state.cut(self.release)
        self._pairs.discard()
        for run in (*self._held[0], *self._held[1]):
            run.put_back()

    def _rejoin(self) -> None:
        """Join the rows beyond the release point again, as far as they had been: that finds the held pairs again."""
        pairs = self._found(self._rows([None, None], self.joined), Counters())
        if self._out:
            left = self._had_left(pairs, *self._out)
            verdict = pairs.verdict[~left] if len(pairs.verdict) else pairs.verdict
            pairs = Pairs(pairs.rows[:, ~left], pairs.ts[~left], pairs.tag[~left], verdict)
        self._pairs.exchange(pairs, self.release)

    def _had_left(self, pairs: Pairs, joined: Sequence[int], following: Sequence[Sequence[int]]) -> npt.NDArray[Any]:
        """Which pairs are of two rows that had been joined when results left before their time."""
        found = np.ones(len(pairs.ts), bool)
        for side in Side:
            rows, places = self.payload[side].fetch(pairs.rows[side])
            before = np.array(following[side], np.int64)[pairs.rows[side] >> RANGE_BITS]
            found &= (rows[TS].to_numpy()[places] <= joined[side]) & (pairs.rows[side] < before)
        return found

    def _relieve(self, pairs: Pairs) -> Pairs:
        """Where more is held than may be: join what can be joined, and let results go before their time."""
        limit = self.policy.held_bytes
        if limit is None or self.held_bytes <= limit:
            return pairs
        if self._must_wait_for_order or not self.policy.releases:
            raise LimitError(self._too_much_held(limit), hint=_HELD_HINT)
        kept = Pairs._make(a.copy() for a in pairs)
        self._advance_join(True)  # finds nothing that may leave: the release point has not moved
        if self.held_bytes <= limit:
            return kept
        none = Pairs._make(a[..., :0] for a in kept)
        early = self._pairs.exchange(none, FOREVER)
        self.counters.out_of_order += len(early.ts)
        self._out = [list(self.joined), [list(numbers) for numbers in self._next_row]]
        return together(kept, early)

    def _too_much_held(self, limit: int) -> str:
        behind, reason = self.join.streams[self.behind].name, self._must_wait_for_order
        words = f"{self._title}: {self.held_bytes:,} bytes are held in one shard because {behind} is behind, its share "
        words += f"of held_limit is {limit:,}"
        return words + (f"; nothing can leave out of order, since the join {reason}" if reason else "")

    @property
    def behind(self) -> Side:
        """The side whose stream holds the other one back."""
        left, right = self.streams.frontiers
        return Side.LEFT if left <= right else Side.RIGHT

    @property
    def held_bytes(self) -> int:
        """Bytes of what waits: rows that have not been joined, and pairs."""
        size = self._pairs.nbytes
        for side in Side:
            if rows := self._held_rows(side):
                size += rows * (HELD_BYTES + self.payload[side].nbytes // max(1, len(self.payload[side])))
        return size

    def _held_rows(self, side: Side) -> int:
        return sum(len(run) for run in self._held[side])

    def _now(self, side: Side) -> int:
        """How far the axis of a side has come; past everything once both streams have ended.

        Aggregates have come to the last instant before the release point only: pairs that go at it are still live.
        """
        sequencer = self.sequencers[side]
        return sequencer.counted if sequencer and not all(self.streams.ended) else self.release - bool(self.aggregates)

    def _stale_before(self, side: Side, age: int) -> int:
        """Rows of a side with an earlier event time have reached an age."""
        sequencer = self.sequencers[side]
        if sequencer is not None and not all(self.streams.ended):
            return sequencer.stale_before(age)
        return self._now(side) - age + 1

    def _receive(self, side: Side, arrivals: Arrivals, limit: int, taken: _Taken) -> None:
        """Sort out late, keyless and unwanted rows and those too far ahead, keep the others as chunks."""
        rows, counters, frontier = arrivals.rows[side], self.counters, self.streams.frontier(side)
        rows = self._number_arrivals(side, rows, arrivals.clocks[side], (frontier, limit), taken.puts)
        if self.promises:
            rows = self.promises.number(side, rows)
        late, on_time = _divided(rows, pc.less(rows[TS], frontier))
        ahead, on_time = _divided(on_time, pc.greater(on_time[TS], limit))
        if MARK in rows.column_names:
            marks, on_time = _divided(on_time, on_time[MARK])
            if self.promises:
                taken.refused.append((side, self.promises.receive(self, side, marks, taken.puts)))
            rows = rows.filter(pc.invert(rows[MARK]))
            late, ahead = (reported_once(self.join, side, table) for table in (late, ahead))
        counters.arrived[side] += pc.sum(rows[KEPT]).as_py() or 0 if KEPT in rows.column_names else rows.num_rows
        if KEPT in rows.column_names:  # the shard that keeps a row reports it
            late, ahead = late.filter(late[KEPT]), ahead.filter(ahead[KEPT])
        keyed = on_time.filter(pc.is_valid(on_time[H1])) if on_time[H1].null_count else on_time
        classes = self.selections[side].classify(keyed)
        self.selections[side].note(classes)
        wanted = self.selections[side].reach[classes] > 0
        counters.late[side] += late.num_rows
        counters.ahead[side] += ahead.num_rows
        counters.null_key[side] += on_time.num_rows - keyed.num_rows
        counters.unwanted[side] += keyed.num_rows - int(wanted.sum())
        order = np.flatnonzero(wanted | bool(self.promises and self.promises.looks_at(side)))
        order = order[np.argsort(keyed[TS].to_numpy()[order], kind="stable")]
        self._keep(side, keyed.take(pa.array(order)), classes[order], taken.puts)
        idle = pc.greater_equal(late[TS], self.streams.own_frontier(side) if not self.streams.ended[side] else FOREVER)
        own = [f.name for f in own_columns(self.join, side)]
        late = late.drop_columns(own).append_column(FRONTIER, _repeated(frontier, late))
        taken.late.append(late.append_column(IDLE, idle))
        taken.ahead.append(ahead.drop_columns(own).append_column(LIMIT, _repeated(limit, ahead)))

    def _number_arrivals(
        self,
        side: Side,
        rows: pa.Table,
        clock: npt.NDArray[np.int64] | None,
        accepted: tuple[int, int],
        puts: dict[str, pa.Table],
    ) -> pa.Table:
        """On an axis of rows: note the whole stream's times, and give own rows their place in the order of arrival."""
        sequencer = self.sequencers[side]
        if sequencer is None or clock is None or not len(clock):
            return rows
        base, ts, arrivals = sequencer.receive(clock, *accepted)
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
            self.came.note(side, base)
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

    def keep_moved(self, side: Side, part: pa.Table, classes: npt.NDArray[np.int32], puts: dict[str, pa.Table]) -> int:
        """The same of rows that were joined long ago."""
        return self.keep_chunk(side, MOVED, part, classes, puts)

    def _hold(self, kind: Kind, side: Side, base: int, table: pa.Table, classes: npt.NDArray[np.int32]) -> None:
        own = [f.name for f in own_columns(self.join, side) if f.name != TS]
        self.payload[side].add(base, table.drop_columns(own), classes)
        numbers = np.arange(base, base + table.num_rows, dtype=np.int64)
        ts, h1, h2 = (np.asarray(table[c]) for c in (TS, H1, H2))
        arrivals = np.asarray(table[ARRIVAL]) if ARRIVAL in own else numbers
        kept = np.full(len(ts), kind is Kind.ROWS)
        self._held[side].append(Held.keep(self._memory, (ts, arrivals, h1, h2, classes, numbers, kept)))

    def _rows(self, numbered: list[Numbered | None], bounds: Sequence[int]) -> Rows:
        """The held rows of each side up to its bound, in (ts, left first, arrival) order."""
        sides = []
        for side in Side:
            ts, arrivals, *others = take_all(self._held[side], bounds[side], HELD_KINDS)
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
            self.counters.held_rows[side] = self._held_rows(side)
        self.counters.held_pairs, self.counters.held_bytes = len(self._pairs), self.held_bytes

    def tidy(self) -> None:
        """Give back the rows that no chunk needs any more, and spare room; call once the results have been fetched."""
        self.state.settle()
        self.came.forget({side: [run.first(HELD_ROW) for run in self._held[side]] for side in Side})
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
        others = self.aggregates.nbytes + self.finals.nbytes + (self.promises.nbytes if self.promises else 0)
        return self.state.nbytes + sum(p.nbytes for p in self.payload) + others

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
        now = min(self._now(side), max(self.streams.max_ts))
        return self.state.rows_by_age(side, now) if self.promises else self.state.leaving.rows_by_age(side, now)

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        """All that `restore` needs beside the chunks."""
        return {
            "streams": self.streams.meta,
            "release": self.release,
            "joined": self.joined,
            "filter_order": self.filter_order,
            "out": self._out,
            "next_row": self._next_row,
            "chunks": self.chunks.live,
            "classes": [s.tally for s in self.selections],
            "complete": self.complete,
            "came": self.came.known,
            "sequences": [s and [s.counted, s.arrived] for s in self.sequencers],
            "counters": dataclasses.asdict(self.counters),
            "promises": self.promises and self.promises.meta,
            "finals": self.finals.meta,
        }

    def _recall(self, meta: Mapping[str, Any]) -> None:
        self.streams.recall(meta["streams"])
        self.release, self.joined, self._out = meta["release"], list(meta["joined"]), meta["out"]
        ordering = self.policy.ordering
        self.filter_order = meta["filter_order"] if ordering == ADAPTIVE else ordering == FILTER_ORDER
        self._next_row = [list(numbers) for numbers in meta["next_row"]]
        self.chunks = ChunkLog(meta["chunks"])
        self.counters = Counters(**meta["counters"])
        self.complete = dict(meta["complete"])
        self.came = Came(meta.get("came", ()))
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
            "pairs": self._pairs.image,
            "aggregates": self.aggregates.image,
            "finals": self.finals.image,
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
        numbered = [s.recount(self.release) if s else None for s in self.sequencers]
        rows = self._rows(numbered, [self.release, self.release])
        for side in Side:
            leave_all(self._held[side], self.release)
        now = np.array([self._now(side) for side in Side], np.int64)
        left, right = self.selections
        live = rows.kept & (now[rows.side] - rows.at < per_class(left.keep, right.keep)[rows.side, rows.cls])
        if self.promises:
            self.promises.restore(self, chunks)
            for side in Side:
                live &= (rows.side != side) | ~np.isin(rows.row, self.promises.dead.numbers(side))
        self.state.load(Rows._make(a[live] for a in rows))
        self._find_again(self.aggregates.states)
        self.finals.restore(join, meta.get("finals", NO_FINALS), self.chunks, chunks)
        if self.promises:
            self.promises.retell(self)
        if max(self.joined) > self.release:
            self._rejoin()
        return self


def _divided(rows: pa.Table, chosen: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """The chosen rows, usually none, and the others."""
    found = rows.filter(chosen)
    return found, rows.filter(pc.invert(chosen)) if found.num_rows else rows


def _repeated(number: int, rows: pa.Table) -> pa.Array:
    return pa.array([number] * rows.num_rows, pa.int64())


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


_FIRST_ROWS = [n << RANGE_BITS for n in range(MOVED + 1)]
_NEW: dict[str, Any] = {
    "streams": NO_STREAMS,
    "release": -FOREVER,
    "joined": [-FOREVER, -FOREVER],
    "filter_order": False,
    "out": None,
    "next_row": [_FIRST_ROWS, _FIRST_ROWS],
    "chunks": {},
    "classes": [[], []],
    "complete": {},
    "sequences": [None, None],
    "counters": {},
    "promises": None,
}
