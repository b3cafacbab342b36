"""One shared join over one shard: arrivals in, results in timestamp order and chunks to keep out.

What the state **is**, after each micro-batch, with F[side] the frontier of a stream, R the release point, the smaller
of the two frontiers, and J[side] how far the rows of a side have been joined, R <= J[side] <= F[side]:

    held rows     those with  ts > J[side]: they have arrived and wait
    joined rows   those with  ts <= J[side]  that some query can still want as of R
    held pairs    matches of joined rows whose later row has  ts > R: the other stream may still bring earlier results

How long a row can be wanted follows from its class (wang2006 6.1): the largest window of the queries whose selections
it satisfies, up to the end of the slice that this window lies in. Where all of them let it wait until a time of its
own, it leaves then.

Results leave in timestamp order, when R has passed them. One rule says what is joined before that (hammad2005): under
Sync-Filter a row waits until R has passed it, so that J is R and no pair is held; under Filter-Order it is joined when
its own stream's frontier has passed it, meets partners that are earlier or later, and the pairs wait. To go over
from one to the other is to go on with the other rule: what was joined ahead is caught up with by R in time.

`Operator.check` asserts this after every step of a test (core/invariants.py).

A row is written to the durable log once, when it arrives; that it is held, joined or out follows from R and J, so
`restore` needs only the chunks and those. Held pairs are not written: they are found again by joining the rows
beyond R once more, and since everything expires by R, under any rule, the partners are there. Rows that no query
wants are not stored. Rows that leave at different ages lie in different chunks, so that a short retention gives its
bytes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from muntin.core import limits
from muntin.core.aggregates import GroupState, GroupValues, KeyEnds
from muntin.core.arrivals import Beginning, HeavyKey, sort_out
from muntin.core.batch import Arrivals, Counters, row_schema
from muntin.core.invariants import assert_invariants
from muntin.core.join import EVERYBODY, QueryRequirements
from muntin.core.operator_state import OperatorMeta
from muntin.core.operator_work import OperatorWork
from muntin.core.policy import DEFAULT_POLICY, LimitError, Policy
from muntin.core.results import FoundPairs
from muntin.core.schedule import ScheduledWork, merged
from muntin.core.selections import per_class
from muntin.core.step import ChangeOutcome, Step, StepInProgress
from muntin.core.storage import RANGE_BITS, Memory, with_columns
from muntin.kernels.arrays import UInt64s
from muntin.kernels.join import WHOLE, Pairs, Rows, Scan, empty_pairs, in_order, together
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.orderings import reason_to_wait
from muntin.plan.punctuation import FOR_GOOD

NO_PAIRS = empty_pairs(0)


class Operator(OperatorWork):
    # -- one micro-batch ------------------------------------------------------------------------------------------

    def advance(self, arrivals: Arrivals) -> Step:
        """Take in a micro-batch, join what both streams have passed, forget what nobody can need."""
        self.receive(arrivals)
        pairs = self._relieve(self._advance_join(self.filter_order))
        self.counters.pairs += len(pairs.ts)
        return self.finish(pairs)

    def receive(self, arrivals: Arrivals) -> None:
        """Take in the rows of a micro-batch; what both streams have passed can then be joined."""
        self._step = StepInProgress(self.release)
        self.intake.begin(arrivals.moment)
        believed = [self.progress.streams.believe(side, arrivals.spans[side]) for side in Side]
        for side in Side:
            self._receive(side, arrivals, believed[side])
        last_words = [self.promises.last_word(side, self.release) for side in Side]
        self.progress.advance(arrivals, believed, last_words)

    def _receive(self, side: Side, arrivals: Arrivals, limit: int) -> None:
        """Turn away what is late or too far ahead, hear the promises, keep the other rows as chunks."""
        rows, clock, copies = arrivals.rows[side], arrivals.clocks[side], arrivals.copies[side]
        rows = self.hot_keys.gather(
            self.join, side, rows, rows.slice(0, 0) if copies is None else copies, arrivals.place
        )
        rows = self.progress.number_arrivals(side, rows, clock, limit, self.chunks)
        rows = self.promises.number(side, rows)
        keyless = self.matches.preserves(side)
        accepted = sort_out(self.join, side, rows, self.progress.streams, limit, self.counters, keyless)
        self._step.late.append(accepted.late)
        self._step.ahead.append(accepted.ahead)
        if accepted.marks is not None:
            self._step.refused += self.promises.receive(side, accepted.marks, self.chunks, self.counters)
        if (over := arrivals.over[side]) is not None:
            self.promises.hear(side, over, self.chunks, self.counters)
        self.intake.receive(side, accepted.rows, self.promises.looks_at(side), self.counters)

    def work(self, run_length: int | None = None) -> ScheduledWork:
        """The join of what was received, and of what was left, to be done unit by unit in the order of the scheduler,
        before `finish`."""
        if self.left_work:
            self.intake.put_back()
        rows = self._take_heeded(self.progress.passed)
        self._relieve(NO_PAIRS)
        self._work = self._scheduled(rows, run_length)
        return self._work

    def finish(self, pairs: Pairs = NO_PAIRS) -> Step:
        """The end of a micro-batch: forget what nobody can need. `pairs` are those that were not delivered before."""
        readers = EVERYBODY
        if self._work is not None and self._summed_level >= 0:
            pairs, readers = merged([NO_PAIRS, *self._to_sum]), self._aggregate_bits
        self._close_work()
        # What promises free is taken out first: a row whose window has ended meanwhile still tells how long it waited.
        self.promises.free(self.view, self._step.new_promises, self.chunks, self.counters)
        # Expiry touches the index only: the payload of the pairs just found is fetched before it is given back.
        for side in Side:
            self.state.forget(side, self.progress.now(side), self.counters)
        step, before = self._step, self._step.before
        self.hot_keys.forget(self.release, max(map(self.join.reach, Side)))
        self.chunks.expire(self.progress.stale_before, self.progress.settled)
        ends = self.promises.key_ends(self.view, step.new_promises, before, self.progress.end)
        punctuations, passed_on = self.promises.emit(self.view, before, self.counters)
        if self.rows_leave_early:
            self.state.relist(self.progress.places, self.counters)
        self._check_state_limit()
        self._note_levels()
        found, values = self._add_up(self.found(pairs, readers), ends)
        found = self.matches.settle(found, before, self.release, self.chunks, self.counters)
        found, more = self._add_up_settled(found, ends)
        self.promises.compact(self.view, self.intake, self.chunks)
        self.finals.log(self.chunks)  # also where the last of them has just gone
        self.counters.groups = self.aggregates.groups + self.finals.groups
        puts, deletes = self.chunks.changes()
        return Step(
            found=found,
            late=(step.late[0], step.late[1]),
            ahead=(step.ahead[0], step.ahead[1]),
            puts=puts,
            deletes=deletes,
            counters=self.counters,
            span=self.progress.span(before),
            values=values + more,
            refused=[(side, table) for side, table in step.refused if table.num_rows],
            punctuations=punctuations,
            passed_on=passed_on,
        )

    def _add_up(self, found: FoundPairs, ends: Sequence[KeyEnds]) -> tuple[FoundPairs, list[GroupValues]]:
        """What the pairs of inner joins change in groups; the pairs that go on, and the values."""
        if not self.aggregates and not self.finals:
            return found, []
        batch = found.whole()
        self.aggregates.take(batch, self.counters)
        values = self.aggregates.advance(self.release - 1, self.counters)
        values += self.finals.advance(batch, False, ends, self.progress.end, self.counters)
        return found.wanted_as_they_are(batch, lambda q: q.aggregation is None or not q.is_inner), values

    def _add_up_settled(self, found: FoundPairs, ends: Sequence[KeyEnds]) -> tuple[FoundPairs, list[GroupValues]]:
        """The same of the other joins, once it is known who has a match."""
        if not self.finals.wait_for_matches:
            return found, []
        batch = found.whole()
        values = self.finals.advance(batch, True, ends, self.progress.end, self.counters)
        return found.wanted_as_they_are(batch, lambda q: q.aggregation is None), values

    def found(self, pairs: Pairs, queries: UInt64s = EVERYBODY) -> FoundPairs:
        """Pairs with what it takes to route them to some of the queries, given as bits."""
        wants = self.requirements.wants(queries)
        return FoundPairs(self.join, self.payload, wants, pairs, self.intake.arrival_times)

    def _note_levels(self) -> None:
        self.counters.keys = self.state.keys
        self.counters.promises = self.promises.count
        for side in Side:
            self.counters.state_rows[side] = self.state.rows(side)
            self.counters.held_rows[side] = self.intake.held(side)
        self.counters.held_pairs = len(self.held_pairs) + self.left_work.held_pairs
        self.counters.held_bytes = self.held_bytes + self.left_work.nbytes

    def tidy(self) -> None:
        """Give back the rows that no chunk needs any more, and spare room; call once the results have been fetched."""
        self.state.settle()
        needed = self.chunks.firsts(RANGE_BITS)
        self.intake.tidy(needed)
        self.promises.tidy(needed, self.chunks, self.release)

    def _check_state_limit(self) -> None:
        limit, nbytes = self.policy.state_bytes, self.nbytes
        if limit is not None and nbytes > limit:
            raise limits.state_too_large(self.join, nbytes, limit, self._fullest_keys)

    # -- what is joined when, and what leaves when ----------------------------------------------------------------

    def follow(self, filter_order: bool) -> None:
        """Go on with the other rule of what is joined when: Adaptive's switch, in both directions (hammad2005 6)."""
        self.filter_order = filter_order

    def heat(self, hot: Sequence[HeavyKey], cool: Sequence[HeavyKey]) -> None:
        """Keys become hot, or are so no more, for rows after the latest that has come (core/arrivals/hot_keys.py)."""
        reached = max(self.progress.streams.max_ts)
        self.hot_keys.heat(hot, reached)
        self.hot_keys.cool(cool, reached)

    @property
    def _why_rows_wait(self) -> str | None:
        """Why rows wait for the release point under any rule; None where they need not."""
        return self.hot_keys.reason_to_wait or reason_to_wait(self.join, self.promises.frees_rows, self.policy.eager)

    @property
    def _why_results_wait(self) -> str | None:
        """Why results cannot leave before their time; None where they can."""
        read = "is read by other queries" if self.join.feeds else None
        return self._why_rows_wait or read or ("has aggregates" if self.aggregates else None)

    def _advance_join(self, filter_order: bool) -> Pairs:
        """Join all that may be joined; the pairs that may leave, in timestamp order."""
        ahead = filter_order and self._why_rows_wait is None
        bounds = self.progress.streams.frontiers if ahead else self.progress.passed
        pairs = self._join(self._take_heeded(bounds), self.counters)
        self._joined_until(bounds)
        return self.held_pairs.exchange(pairs, self.release)

    def _join(self, rows: Rows, counters: Counters) -> Pairs:
        """Join rows with what is there, also with what is later than they are; the pairs in timestamp order."""
        early = len(rows.ts) > 0 and max(self.joined) > rows.ts[0]
        ahead = early or (len(rows.ts) > 0 and rows.ts[-1] > self.release)
        scan = Scan(WHOLE.ages, bool(early), True, np.array(self.progress.passed)) if ahead else WHOLE
        try:
            pairs = self.state.insert(rows, counters, self._judge, scan)
            self.matches.joined(rows, self.selections, self.payload)
        except LimitError as error:
            raise self.too_many_pairs(error) from None
        return in_order(pairs) if early else pairs

    def _relieve(self, pairs: Pairs) -> Pairs:
        """Where more is held than may be: join what can be joined, and let results go before their time."""
        limit = self.policy.held_bytes
        if limit is None or self.held_bytes <= limit:
            return pairs
        why_not = self._why_results_wait
        if why_not or not self.policy.releases:
            raise limits.too_much_held(self.join, self.held_bytes, limit, self.progress.behind, why_not)
        kept = Pairs._make(a.copy() for a in pairs)
        self._advance_join(True)  # finds nothing that may leave: the release point has not moved
        if self.held_bytes <= limit:
            return kept
        early = self.held_pairs.empty(self.joined, self.intake.next_rows)
        self.counters.out_of_order += len(early.ts)
        return together(kept, early)

    def _rejoin(self) -> None:
        """Join the rows beyond the release point again, as far as they had been: that finds the held pairs again."""
        pairs = self._join(self._take(self.joined), Counters())
        self.held_pairs.hold_again(pairs, self.release, self.payload)

    def _find_again(self, states: Sequence[GroupState]) -> None:
        """Let families begin with the live pairs: those of the rows kept, joined once more.

        No row beyond the release point may be in the state: its pairs are still to come.
        """
        if not states:
            return
        for pairs in self.state.pairs_again(self.policy, self._judge):
            batch = self.found(pairs).whole()
            for state in states:
                state.begin(batch)
        for state in states:
            state.advance(self.release - 1, Counters(), silent=True)

    # -- queries come and go --------------------------------------------------------------------------------------

    def begin(self, at: Beginning) -> ChangeOutcome:
        """Start in the middle of streams: what is late for others is late here."""
        complete = self._complete_from(self.progress.begin(at))
        return ChangeOutcome(self.release + 1, complete, 0, 0)

    def _complete_from(self, pairs: Mapping[str, int | None]) -> dict[str, int | None]:
        """From when on new queries get all their rows, which get all `pairs` from these times on.

        Nobody knows when the last group is over that had pairs before.
        """
        unknown = {query.name for query in self.join.queries if query.final and self.progress.has_begun}
        return {name: None if name in unknown else ts for name, ts in self.matches.begin(pairs).items()}

    def complete_later(self, query: str, pairs: int, own: int | None) -> int | None:
        """A new query gets all pairs from a time on, since what it reads is complete later; `own` is from when on it
        would get all its rows otherwise. What has a match is known from then on, too."""
        since = self.matches.meta.since.get(query, own)
        complete = self.matches.begin({query: pairs if since is None else max(since, pairs)})[query]
        return None if own is None or complete is None or complete >= FOR_GOOD else complete

    def change(self, join: SharedJoin, covered: Mapping[str, bool]) -> ChangeOutcome:
        """Go on with other queries over the same streams and key, from the next result on.

        `covered` names the queries that are new, and says whether the queries before kept all that they want. What was
        joined beyond the release point is undone and joined anew. No work may be left (`complete`).
        """
        assert not self.left_work, "work is left: `complete` comes first"
        rows, size = sum(self.state.rows(side) for side in Side), self.nbytes
        ahead = self.progress.is_ahead
        if ahead:
            self.state.cut(self.release)
            self.intake.put_back()
        self.join = join
        self.matches.change(join, covered, self.payload, self.release, self.chunks)
        self.requirements = QueryRequirements(join)
        self.held_pairs.begin_again(self.requirements.judges)
        classes = self.intake.change(join, self.selections)
        for side, by_number in zip(Side, classes, strict=True):
            if by_number is not None:
                self.state.reclass(side, by_number)
        self.promises.change(join)
        moved = ahead or any(by_number is not None for by_number in classes)
        stays = self.requirements.stays(self.payload)
        self.state.change(join, self.selections, moved, self.progress.places, self.counters, stays)
        self.intake.update_retentions()
        self.matches.relist(self.selections, self.payload, self.release)
        lacking = self.promises.lacking
        complete = self.progress.change(join, {name: full and name not in lacking for name, full in covered.items()})
        self._find_again(self.aggregates.change(join))
        self.finals.change(join, covered)
        self.promises.find_last_rows(self.view)
        if ahead and self._why_rows_wait is None:
            self._rejoin()
        elif ahead:
            self.progress.wait()
            self.milestones = None
        self.state.settle()
        self._note_levels()
        self.changed, self.lacks_rows = True, not all(covered.values())
        freed = rows - sum(self.state.rows(side) for side in Side)
        complete = self._complete_from({name: complete.get(name) for name in covered})
        return ChangeOutcome(self.release + 1, complete, freed, size * freed // max(1, rows))

    # -- after a restart ------------------------------------------------------------------------------------------

    @classmethod
    def restore(
        cls,
        join: SharedJoin,
        meta: OperatorMeta,
        chunks: Mapping[str, pa.Table],
        memory: Memory | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> Operator:
        """The operator that had this `meta` and these chunks."""
        self = cls(join, memory, policy, meta)
        for kind, side, base, name in self.chunks:
            if kind.has_rows:
                rows = with_columns(chunks[name], row_schema(join, side))  # some may have come with fewer
                self.intake.hold(kind, side, base, rows, self.selections[side].classify(rows))
        bounds = [min(self.release, joined) for joined in self.joined]
        joined = self._take(bounds, self.progress.recount(self.chunks, chunks))
        self.intake.leave(self.progress.settled)
        now, (left, right) = np.array(self.progress.places), self.selections
        retentions, stays = per_class(left.retention, right.retention), self.requirements.stays(self.payload)
        leave = retentions[joined.side, joined.cls] if stays is None else stays(joined)
        live = joined.kept & (now[joined.side] - joined.at < leave)
        self.promises.restore(self.view, self.chunks, chunks)
        for side in Side:
            live &= (joined.side != side) | ~np.isin(joined.row, self.promises.dead_rows(side))
        settled = joined.ts <= self.progress.settled
        self.state.load(Rows._make(a[live & settled] for a in joined))
        if self.left_work:
            self._find_left_again(Rows._make(a[~settled] for a in joined))
        self.matches.restore(joined, self.release, self.selections, self.payload, self.chunks, chunks)
        self._find_again(self.aggregates.states)
        self.finals.restore(join, meta.finals, self.chunks, chunks)
        self.promises.find_last_rows(self.view)
        if self.progress.is_ahead:
            self._rejoin()
        self.restored = True
        self._note_levels()
        return self

    def check(self) -> None:
        """Assert what the state is, as the head of this file says; for tests, since it looks at every row."""
        self.milestones = assert_invariants(self)
