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
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.core.aggregates import NO_FINALS, Aggregates, Finals, GroupState, GroupValues, KeyEnds
from muntin.core.arrivals import Intake, JoinProgress, NumberedRows, intake, progress, sort_out
from muntin.core.batch import Arrivals, Counters
from muntin.core.join import EVERYBODY, JoinState, Judge, QueryRequirements
from muntin.core.limits import check_state, too_many_pairs, too_much_held
from muntin.core.order import HoldBuffer
from muntin.core.policy import DEFAULT_POLICY, LimitError, Policy
from muntin.core.punctuations import Promises, compact
from muntin.core.results import FoundPairs, UInt64s
from muntin.core.schedule import ScheduledWork
from muntin.core.selections import Selections, per_class
from muntin.core.step import ChangeOutcome, Step, StepInProgress
from muntin.core.storage import RANGE_BITS, ChunkLog, Heap, Memory
from muntin.kernels.join import WHOLE, Pairs, Rows, Scan, empty_pairs, in_order, together
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.ordering import ADAPTIVE, EAGERLY, FILTER_ORDER, must_wait
from muntin.plan.punctuation import TOLD, are_used

NO_PAIRS = empty_pairs(0)
_NEW: dict[str, Any] = {
    **progress.NEW,
    **intake.NEW,
    "filter_order": False,
    "out": None,
    "chunks": {},
    "classes": ((), ()),
    "counters": {},
    "promises": None,
}
"""What is durable of a shard that has met nothing."""


class Operator:
    join: SharedJoin
    asked: QueryRequirements
    """What its queries ask of rows and pairs."""
    progress: JoinProgress
    """How far it has come."""
    intake: Intake
    """Rows that have arrived and wait."""
    state: JoinState
    """Rows that have been joined."""
    aggregates: Aggregates
    finals: Finals
    promises: Promises | None
    chunks: ChunkLog
    counters: Counters
    filter_order: bool
    """Whether rows are joined as soon as their own stream has passed them, and results wait."""

    def __init__(
        self,
        join: SharedJoin,
        memory: Memory | None = None,
        image: Mapping[str, Any] | None = None,
        policy: Policy = DEFAULT_POLICY,
        meta: Mapping[str, Any] = _NEW,
    ):
        """Go on from an image, or begin: anew, or with what `meta` says and `restore` adds."""
        self.join, self.policy = join, policy
        memory, meta = memory or Heap(), image["meta"] if image else meta
        self.chunks, self.counters = ChunkLog(meta["chunks"]), Counters(**meta["counters"])
        ordering = policy.ordering
        self.filter_order = meta["filter_order"] if ordering == ADAPTIVE else ordering == FILTER_ORDER
        self.asked = QueryRequirements(join, meta["classes"], image["classes"] if image else ())
        counted = image["sequencers"] if image else (None, None)
        self.progress = JoinProgress(join, policy.max_ahead_us, memory, meta, counted)
        self.intake = Intake(join, self.selections, self.chunks, memory, meta, image)
        self.streams, self.payload = self.progress.streams, self.intake.payload
        self.state = JoinState(join, self.selections, policy, memory, image and image["state"])
        self._hold = HoldBuffer(memory, self.asked.judges, meta["out"], image["pairs"] if image else ())
        self.aggregates = Aggregates(join, memory, image["aggregates"] if image else None, policy.every_rows)
        self.finals = Finals(join, memory, image and image["finals"])
        self.promises = None
        if are_used(join, policy.punctuations):
            families, known = len(self.finals.states), image and image["promises"]
            self.promises = Promises(join, policy.punctuations, memory, known, families)
            if meta["promises"]:
                self.promises.recall(meta["promises"])

    @property
    def release(self) -> int:
        """Results up to here have left."""
        return self.progress.release

    @property
    def joined(self) -> list[int]:
        """How far the rows of each side have been joined."""
        return self.progress.joined

    @property
    def selections(self) -> tuple[Selections, Selections]:
        return self.asked.selections

    # -- one micro-batch ------------------------------------------------------------------------------------------

    def advance(self, arrivals: Arrivals) -> Step:
        """Take in a micro-batch, join what both streams have passed, forget what nobody can need."""
        self.receive(arrivals)
        pairs = self._relieve(self._advance_join(self.filter_order))
        self.counters.pairs += len(pairs.ts)
        return self.finish(pairs)

    def receive(self, arrivals: Arrivals) -> None:
        """Take in the rows of a micro-batch; what both streams have passed can then be joined."""
        self._taken = StepInProgress(self.release)
        self.intake.begin(arrivals.moment)
        limits = [self.streams.believe(side, arrivals.spans[side]) for side in Side]
        for side in Side:
            self._receive(side, arrivals, limits[side], self._taken)
        self.progress.advance(arrivals, limits)

    def _receive(self, side: Side, arrivals: Arrivals, limit: int, taken: StepInProgress) -> None:
        """Turn away what is late or too far ahead, hear the promises, keep the other rows as chunks."""
        rows, clock, promises = arrivals.rows[side], arrivals.clocks[side], self.promises
        rows = self.progress.number_arrivals(side, rows, clock, limit, self.chunks, taken.puts)
        if promises:
            rows = promises.number(side, rows)
        found = sort_out(self.join, side, rows, self.streams, limit, self.counters)
        taken.late.append(found.late)
        taken.ahead.append(found.ahead)
        if promises and found.marks is not None:
            taken.refused.append((side, promises.receive(self, side, found.marks, taken.puts)))
        everything = bool(promises and promises.looks_at(side))
        self.intake.receive(side, found.rows, everything, self.counters, taken.puts)

    def work(self, run_length: int | None = None) -> ScheduledWork:
        """The join of what was received, to be done unit by unit in the order of the scheduler, before `finish`."""
        rows = self._ready(self.progress.passed)
        self._joined_until(self.progress.passed)
        self._relieve(NO_PAIRS)
        return ScheduledWork(self.state, rows, self.counters, self.policy.scheduler, self._judge, run_length)

    def finish(self, pairs: Pairs = NO_PAIRS) -> Step:
        """The end of a micro-batch: forget what nobody can need. `pairs` are those that were not delivered before."""
        # Expiry touches the index only: the payload of the pairs just found is fetched before it is given back.
        for side in Side:
            self.state.forget(side, self.progress.now(side), self.counters)
        taken = self._taken
        deletes = self.chunks.expired(self.progress.stale_before, self.release)
        ends = self._ends(taken)
        punctuations = self._heed(self.promises, taken, deletes) if self.promises else {}
        check_state(self)
        self._note_levels()
        found, values = self.found(pairs), list[GroupValues]()
        if self.aggregates or self.finals:
            found, values = self._add_up(found, ends)
        deletes += self.finals.log(self.chunks, taken.puts)  # also where the last of them has just gone
        self.counters.groups = self.aggregates.groups + self.finals.groups
        deletes = [name for name in deletes if taken.puts.pop(name, None) is None]  # what came and went is not written
        refused = [(side, table) for side, table in taken.refused if table.num_rows]
        late, ahead = (taken.late[0], taken.late[1]), (taken.ahead[0], taken.ahead[1])
        span = self.progress.span(taken.before)
        return Step(found, late, ahead, taken.puts, deletes, self.counters, span, values, refused, punctuations)

    def _ends(self, taken: StepInProgress) -> list[KeyEnds]:
        """For each family that is told once, the keys that are over; where the streams have ended, by then."""
        if not self.promises:
            return [KeyEnds.of(()) for _ in self.finals.states]
        return self.promises.ends(self, taken.fresh, taken.before, self.progress.end)

    def _heed(self, promises: Promises, taken: StepInProgress, deletes: list[str]) -> dict[str, pa.Table]:
        """Free what promises make useless; for each query, the keys of which its output brings no more rows."""
        promises.purge(self, taken.fresh, taken.puts)
        punctuations = promises.due(self, taken.before)
        self.counters.propagated += sum(table.num_rows for table in punctuations.values())
        for side in Side:
            deletes += compact(self, promises.dead, side, taken.puts)
        self.state.relist(self.progress.places, self.counters)
        return punctuations

    def _add_up(self, found: FoundPairs, ends: Sequence[KeyEnds]) -> tuple[FoundPairs, list[GroupValues]]:
        """What the pairs of all queries change in groups; the pairs that go on, and the values."""
        run = found.whole()
        self.aggregates.take(run, self.counters)
        values = self.aggregates.advance(self.release - 1, self.counters)
        values += self.finals.advance(run, ends, self.progress.end, self.counters)
        return found.without_aggregates(run), values

    def found(self, pairs: Pairs, queries: UInt64s = EVERYBODY) -> FoundPairs:
        """Pairs with what it takes to route them to some of the queries, given as bits."""
        return FoundPairs(self.join, self.payload, self.asked.wants(queries), pairs, self.intake.came)

    def _note_levels(self) -> None:
        self.counters.keys = self.state.keys
        self.counters.promises = self.promises.count if self.promises else [0, 0]
        for side in Side:
            self.counters.state_rows[side] = self.state.rows(side)
            self.counters.held_rows[side] = self.intake.held(side)
        self.counters.held_pairs, self.counters.held_bytes = len(self._hold), self.held_bytes

    def tidy(self) -> None:
        """Give back the rows that no chunk needs any more, and spare room; call once the results have been fetched."""
        self.state.settle()
        needed = [self.chunks.firsts(side, RANGE_BITS) for side in Side]
        self.intake.tidy(needed)
        if self.promises:
            self.promises.tidy(self, needed)

    # -- what is joined when, and what leaves when ----------------------------------------------------------------

    def follow(self, filter_order: bool) -> None:
        """Go on with the other rule of what is joined when: Adaptive's switch, in both directions (hammad2005 6)."""
        self.filter_order = filter_order

    @property
    def _waits(self) -> str | None:
        """Why rows wait for the release point under any rule; None where they need not."""
        told = TOLD if self.promises else None
        return must_wait(self.join) or told or (EAGERLY if self.policy.eager else None)

    @property
    def _must_wait_for_order(self) -> str | None:
        """Why results cannot leave before their time; None where they can."""
        return self._waits or ("has aggregates" if self.aggregates else None)

    def _advance_join(self, filter_order: bool) -> Pairs:
        """Join all that may be joined; the pairs that may leave, in timestamp order.

        The rows of some joins wait under any rule (`must_wait`).
        """
        bounds = self.streams.frontiers if filter_order and self._waits is None else self.progress.passed
        found = self._found(self._ready(bounds), self.counters)
        self._joined_until(bounds)
        return self._hold.exchange(found, self.release)

    def _ready(self, bounds: Sequence[int]) -> Rows:
        """The rows to be joined: those up to the bounds that no promise turns away."""
        rows, taken = self._take(bounds, self.progress.number()), self._taken
        if not self.promises:
            return rows
        rows, taken.fresh, broken = self.promises.meet(self, rows, taken.before, taken.puts)
        taken.refused += zip(Side, broken, strict=True)
        return rows

    def _take(self, bounds: Sequence[int], numbered: Sequence[NumberedRows | None] = (None, None)) -> Rows:
        return self.intake.take(bounds, numbered, self.promises.unique if self.promises else (False, False))

    def _joined_until(self, bounds: Sequence[int]) -> None:
        self.progress.joined_until(bounds)
        self.intake.leave(self.release)
        self._hold.passed(self.release)

    def _found(self, rows: Rows, counters: Counters) -> Pairs:
        """Join rows with what is there, also with what is later than they are; the pairs in timestamp order."""
        early = len(rows.ts) > 0 and max(self.joined) > rows.ts[0]
        ahead = early or (len(rows.ts) > 0 and rows.ts[-1] > self.release)
        scan = Scan(WHOLE.ages, bool(early), True, np.array(self.progress.passed)) if ahead else WHOLE
        try:
            pairs = self.state.insert(rows, counters, self._judge, scan)
        except LimitError as error:
            raise too_many_pairs(self, error) from None
        return in_order(pairs) if early else pairs

    @property
    def _judge(self) -> Judge | None:
        return self.asked.judge(self.payload)

    def _relieve(self, pairs: Pairs) -> Pairs:
        """Where more is held than may be: join what can be joined, and let results go before their time."""
        limit = self.policy.held_bytes
        if limit is None or self.held_bytes <= limit:
            return pairs
        if self._must_wait_for_order or not self.policy.releases:
            raise too_much_held(self, limit, self._must_wait_for_order)
        kept = Pairs._make(a.copy() for a in pairs)
        self._advance_join(True)  # finds nothing that may leave: the release point has not moved
        if self.held_bytes <= limit:
            return kept
        early = self._hold.empty(self.joined, self.intake.following)
        self.counters.out_of_order += len(early.ts)
        return together(kept, early)

    def _rejoin(self) -> None:
        """Join the rows beyond the release point again, as far as they had been: that finds the held pairs again."""
        pairs = self._found(self._take(self.joined), Counters())
        self._hold.hold_again(pairs, self.release, self.payload)

    def _find_again(self, states: Sequence[GroupState]) -> None:
        """Let families begin with the live pairs: those of the rows kept, joined once more.

        No row beyond the release point may be in the state: its pairs are still to come.
        """
        if not states:
            return
        for pairs in self.state.pairs_again(self.policy, self._judge):
            run = self.found(pairs).whole()
            for state in states:
                state.begin(run)
        for state in states:
            state.advance(self.release - 1, Counters(), silent=True)

    # -- what it takes --------------------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """Bytes of what waits: rows that have not been joined, and pairs."""
        return self.intake.held_bytes + self._hold.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes that the state takes in memory: index, time lists, and the rows themselves."""
        others = self.aggregates.nbytes + self.finals.nbytes + (self.promises.nbytes if self.promises else 0)
        return self.state.nbytes + sum(p.nbytes for p in self.payload) + others

    def slice_rows(self, side: Side) -> list[int]:
        """Live rows per slice of one side, from young to old, as of the release point."""
        now = min(self.progress.now(side), max(self.streams.max_ts))
        return self.state.rows_by_age(side, now) if self.promises else self.state.leaving.rows_by_age(side, now)

    # -- queries come and go --------------------------------------------------------------------------------------

    def begin(self, max_ts: Sequence[int]) -> ChangeOutcome:
        """Start in the middle of streams that have come to `max_ts`: what is late for others is late here."""
        complete = self.progress.begin(max_ts)
        return ChangeOutcome(self.release + 1, complete, 0, 0)

    def change(self, join: SharedJoin, covered: Mapping[str, bool]) -> ChangeOutcome:
        """Go on with other queries over the same streams and key, from the next result on.

        `covered` names the queries that are new, and says whether the queries before kept all that they want. What was
        joined beyond the release point is undone and joined anew.
        """
        rows, size = sum(self.state.rows(side) for side in Side), self.nbytes
        ahead = self.progress.is_ahead
        if ahead:
            self.state.cut(self.release)
            self.intake.put_back()
        self.join, self.asked = join, QueryRequirements(join)
        self._hold.begin_again(self.asked.judges)
        classes = self.intake.change(join, self.selections)
        for side, by_number in zip(Side, classes, strict=True):
            if by_number is not None:
                self.state.reclass(side, by_number)
        if self.promises:
            self.promises.change(join)
        moved = ahead or any(by_number is not None for by_number in classes)
        self.state.change(join, self.selections, moved, self.progress.places, self.counters)
        self.intake.restay()
        lacking = self.promises.lacking if self.promises else ()
        complete = self.progress.change(join, {name: full and name not in lacking for name, full in covered.items()})
        self._find_again(self.aggregates.change(join))
        self.finals.change(join, covered)
        if self.promises:
            self.promises.retell(self)
        if ahead:
            self._rejoin()
        self.state.settle()
        freed = rows - sum(self.state.rows(side) for side in Side)
        complete = {name: complete.get(name) for name in covered}
        return ChangeOutcome(self.release + 1, complete, freed, size * freed // max(1, rows))

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        """All that `restore` needs beside the chunks."""
        return {
            **self.progress.meta,
            **self.intake.meta,
            "filter_order": self.filter_order,
            "out": self._hold.out,
            "chunks": self.chunks.live,
            "classes": self.asked.tallies,
            "counters": dataclasses.asdict(self.counters),
            "promises": self.promises and self.promises.meta,
            "finals": self.finals.meta,
        }

    @property
    def image(self) -> dict[str, Any]:
        """All that another process needs, beside the memory, to go on from here."""
        return {
            "meta": self.meta,
            "cuts": self.join.cuts,
            "state": self.state.image,
            **self.intake.image,
            "classes": self.asked.image,
            "pairs": self._hold.image,
            "aggregates": self.aggregates.image,
            "finals": self.finals.image,
            "sequencers": self.progress.image,
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
        self = cls(join, memory, policy=policy, meta=meta)
        for kind, side, base, name in self.chunks:
            if kind.has_rows:
                self.intake.hold(kind, side, base, chunks[name], self.selections[side].classify(chunks[name]))
        rows = self._take(self.progress.passed, self.progress.recount(self.chunks, chunks))
        self.intake.leave(self.release)
        now, (left, right), promises = np.array(self.progress.places), self.selections, self.promises
        live = rows.kept & (now[rows.side] - rows.at < per_class(left.keep, right.keep)[rows.side, rows.cls])
        if promises:
            promises.restore(self, chunks)
            for side in Side:
                live &= (rows.side != side) | ~np.isin(rows.row, promises.dead.numbers(side))
        self.state.load(Rows._make(a[live] for a in rows))
        self._find_again(self.aggregates.states)
        self.finals.restore(join, meta.get("finals", NO_FINALS), self.chunks, chunks)
        if promises:
            promises.retell(self)
        if self.progress.is_ahead:
            self._rejoin()
        return self


def fits(join: SharedJoin, image: Mapping[str, Any]) -> bool:
    """Whether an image was made with the same cuts: its time lists have a lane for each slice."""
    return [list(cuts) for cuts in image["cuts"]] == [list(cuts) for cuts in join.cuts]
