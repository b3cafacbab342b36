"""How an operator takes rows to the join, and does the work in the order of a scheduler, in one micro-batch or several.

Where results are delivered as they are found, the driver may limit the work of a micro-batch. What is beyond the limit
is left to the next, with the rows that come then: a burst is a queue of work, not a wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from muntin.core.arrivals import NumberedRows
from muntin.core.join import Judge
from muntin.core.operator_parts import OperatorParts
from muntin.core.schedule import HELD_BYTES, Delivery, ScheduledWork, WorkSpan, find_again, why_at_once
from muntin.core.selections import query_bits
from muntin.core.step import StepInProgress
from muntin.kernels.arrays import UInt64s
from muntin.kernels.join import Pairs, Rows
from muntin.model import Side
from muntin.plan.levels import levels_of


class OperatorWork(OperatorParts):
    _step: StepInProgress
    """The micro-batch at hand."""
    _work: ScheduledWork | None = None
    """Its work, where that is done in the order of a scheduler."""
    work_ns = 0
    """What the work of the last micro-batch was foretold to take."""
    left_rows = 0
    """Rows that it has left work for."""
    _summed_level = -1
    """The level of the largest window of an aggregate; -1 where there is none."""
    _to_sum: list[Pairs]
    """Pairs that go out as they are found, of which aggregates want some when the micro-batch is over."""

    # -- rows go to the join --------------------------------------------------------------------------------------

    def _take_heeded(self, bounds: Sequence[int]) -> Rows:
        """The rows to be joined: those up to the bounds that no promise turns away."""
        rows, step = self._take(bounds, self.progress.number()), self._step
        heeded = self.promises.meet(self.view, rows, step.before, self.chunks, self.counters)
        step.new_promises = heeded.new
        step.refused += heeded.refused
        for side, numbers in zip(Side, heeded.broken, strict=False):
            self.matches.turn_away(side, numbers, self.payload[side], self.release, self.chunks)
        return heeded.rows

    def _take(self, bounds: Sequence[int], numbered: Sequence[NumberedRows | None] = (None, None)) -> Rows:
        rows = self.intake.take(bounds, numbered, self.promises.unique)
        if any(numbered):
            countable = np.where(rows.side == Side.LEFT, *(self.progress.countable(side, rows.ts) for side in Side))
            rows = rows._replace(kept=rows.kept & countable)
        return rows

    def _joined_until(self, bounds: Sequence[int]) -> None:
        self.progress.joined_until(bounds)
        self.intake.leave(self.release)
        self.held_pairs.advance(self.release)

    @property
    def _judge(self) -> Judge | None:
        return self.requirements.judge(self.payload)

    # -- work in the order of a scheduler -------------------------------------------------------------------------

    def _scheduled(self, rows: Rows, run_length: int | None = None) -> ScheduledWork:
        limit, policy, left = self.work_limit, self.policy, self.left_work.meta
        limited = limit.limit_ns is not None
        constants = limit.constants if limited else policy.constants
        levels = len(left.cursors) or None
        granularity = self.density.granularity(self.join, rows, constants, run_length, levels)
        name = left.scheduler or (limit.scheduler if limited else policy.scheduler)
        scheduler = granularity.scheduler(name, len(rows.ts))
        self.density.begin(self.counters)
        levels_of_queries = zip(self.join.queries, granularity.levels.of_query, strict=True)
        self._to_sum, summed = [], [level for query, level in levels_of_queries if query.aggregation is not None]
        self._summed_level = max(summed, default=-1)
        made = self.state, rows, self.counters, scheduler, granularity, self._judge
        return ScheduledWork(*made, span=self._work_span(rows))

    def keep_for_aggregates(self, delivery: Delivery) -> None:
        """Keep the pairs that aggregates want: that of the largest window gets each of them once."""
        if self._summed_level in delivery.levels:
            self._to_sum.append(Pairs._make([a.copy() for a in delivery.pairs]))

    def readers(self, work: ScheduledWork, levels: Sequence[int]) -> UInt64s:
        """The queries of some levels that get pairs as they are found, as bits."""
        return work.readers(levels) & ~self._aggregate_bits

    @property
    def _aggregate_bits(self) -> UInt64s:
        bits: UInt64s = query_bits(np.array([[query.aggregation is not None for query in self.join.queries]]))[0]
        return bits

    def _work_span(self, rows: Rows) -> WorkSpan | None:
        """How far the work of a micro-batch may be left to the next; None where all of it is to be done at once."""
        limit, ended = self.work_limit, all(self.progress.streams.ended)
        if not self.left_work and (limit.limit_ns is None or ended or why_at_once(self.join, self.promises.frees_rows)):
            return None
        if limit.limit_ns is None or ended:
            return WorkSpan(self.left_work, len(rows.ts), float("inf"))
        complete, until = int(np.searchsorted(rows.ts, self.release)), limit.until
        if not self.left_work:  # what ties with rows that are done must be done, too: a time is left as a whole
            until = max(self._step.before, self._step.before if until is None else until)
        return WorkSpan(self.left_work, complete, limit.limit_ns, until, self.policy.held_bytes or HELD_BYTES)

    def _settle(self, work: ScheduledWork) -> None:
        """What has been joined has been; what has not is left to the next micro-batch."""
        self.density.end(self.counters, work.row_scans)
        self.work_ns, self.left_rows = int(work.work_ns), work.left_rows
        work.leave(self.left_work)
        if self.left_work:
            joined, settled = self.left_work.joined, self.left_work.settled
            self.intake.put_back()
            self._take([joined, joined])
            self.progress.leave_work(joined, settled)
            self.intake.leave(settled)
        else:
            self._joined_until(self.progress.passed)

    def complete(self) -> ScheduledWork | None:
        """All that is left, to be done before queries change; `completed` ends it. None where nothing is left."""
        if not self.left_work:
            return None
        limit, self.work_limit = self.work_limit, replace(self.work_limit, limit_ns=None)
        self.intake.put_back()
        self._work = self._scheduled(self._take(self.progress.passed))
        self.work_limit = limit
        return self._work

    def completed(self) -> None:
        """What was left has been done: forget what the queries that are there can need no more."""
        self._close_work()
        for side in Side:
            self.state.forget(side, self.progress.now(side), self.counters)
        self.chunks.expire(self.progress.stale_before, self.progress.settled)

    def _close_work(self) -> None:
        """The work of a micro-batch is over."""
        work, self._work = self._work, None
        if work is not None:
            self._settle(work)

    def _find_left_again(self, rows: Rows) -> None:
        """After a restart: rows that had not scanned all levels are where they were."""
        levels = levels_of(self.join, len(self.left_work.meta.cursors))
        find_again(self.state, rows, levels, self.left_work, self._judge)
