"""The rows of a micro-batch on their way through the join, unit by unit, in the order of a scheduler (hammad2003 3).

    rows in (ts, left first) order, cut into runs     unit = (run, levels)     pairs -> outbox -> deliveries

The first unit of a run stores its rows, as step 1 of the paper does; a later one goes on where a smaller window ended.
With runs of one row this is the tuple-at-a-time algorithm; longer runs cost less per row, and small windows still go
out early.
Stale rows that a run with levels left to scan may still need are not taken out.

Work may span micro-batches: where it has taken as much as it may, `step` does nothing more, and `close` says what is
left. Then runs end where a timestamp ends, and rows of the last time, which may not be complete, come last of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muntin.core.batch import Counters
from muntin.core.join import JoinState, Judge
from muntin.core.policy import LimitError
from muntin.core.schedule.left_work import FoundPart, LeftWork, LeftWorkMeta, LevelCursor
from muntin.core.schedule.limits import PAIR_BYTES
from muntin.core.schedule.outbox import Delivery, Outbox
from muntin.core.selections import query_bits
from muntin.kernels.arrays import Int64s, UInt64s
from muntin.kernels.join import LATE, Rows, Scan
from muntin.model import Side
from muntin.plan.granularity import Granularity
from muntin.plan.levels import Levels
from muntin.plan.schedulers import RunQueues, Scheduler, Unit

BEYOND = np.array([LATE, LATE], np.int64)


@dataclass(frozen=True)
class Done:
    """What one unit did."""

    unit: Unit
    pairs: int
    comparisons: int
    deliveries: list[Delivery]


@dataclass(frozen=True)
class WorkSpan:
    """How work may be left to the next micro-batch, and what earlier ones have left.

    Rows before `complete` are of times that nothing more comes of. Rows up to `until` are done in any case.
    """

    left: LeftWork
    complete: int
    limit_ns: float
    until: int | None = None
    held_bytes: int | None = None


class ScheduledWork:
    def __init__(
        self,
        state: JoinState,
        rows: Rows,
        counters: Counters,
        scheduler: Scheduler,
        granularity: Granularity,
        judge: Judge | None = None,
        span: WorkSpan | None = None,
    ):
        self.state = state
        self.rows = rows
        self.counters = counters
        self.levels = granularity.levels
        self.run_length = granularity.run_length
        self.scheduler = scheduler
        self.queues = RunQueues(self.scheduler, self.levels)
        self.outbox = Outbox(self.scheduler, len(self.levels))
        of_query = np.array(self.levels.of_query)
        self._readers = query_bits(of_query == np.arange(len(self.levels))[:, None])
        self._judge = judge
        self._found = 0
        self._starts = [0]
        """The first row of each run that has arrived, and of the next one."""
        self._ages: dict[tuple[int, int], Int64s] = {}
        self._granularity = granularity
        self._span = span
        self._scanned = span.left.scanned(rows.ts) if span else None
        self.work_ns = 0.0
        """What the units so far were foretold to take."""
        self.row_scans = 0.0
        """Rows that have scanned the largest window; one that has scanned a part of it counts as that part."""

    # -- rows become runs -----------------------------------------------------------------------------------------

    def arrive(self, rows: int | None = None) -> None:
        """So many more rows have arrived, all the rest where it is not said."""
        most = self._span.complete if self._span else len(self.rows.ts)
        end = most if rows is None else min(most, self._starts[-1] + rows)
        while self._starts[-1] < end:
            self._add_run(end)

    def _add_run(self, end: int) -> None:
        run, start = len(self._starts) - 1, self._starts[-1]
        stop = min(start + self.run_length, end)
        if self._span is None or self._scanned is None:
            self.queues.add(run)
            self._starts.append(stop)
            return
        times, scanned, left = self.rows.ts, int(self._scanned[start]), self._span.left
        stop = int(np.searchsorted(times, times[stop - 1], side="right"))
        stop = min(stop, int(np.searchsorted(-self._scanned, -scanned, side="right")))
        for ts in left.sent:  # what has gone out in part is a run of its own
            first, last = (int(n) for n in np.searchsorted(times, [ts, ts + 1]))
            stop = min(stop, last if start == first else first if start < first else stop)
        self.queues.add(run, scanned)
        self._starts.append(stop)
        if scanned:
            first_ts, last_ts = int(times[start]), int(times[stop - 1])
            sent = [first_ts == cursor.sent for cursor in left.meta.cursors]
            parts = left.pairs_of(first_ts, last_ts, scanned)
            self.outbox.go_on(run, first_ts == last_ts, parts, sent)

    @property
    def arrived(self) -> int:
        """Rows that have arrived."""
        return self._starts[-1]

    @property
    def waiting(self) -> int:
        """Rows that have arrived and have something left to scan."""
        return sum(stop - start for queue in self.queues.queues for start, stop in map(self.span, queue))

    def readers(self, levels: Sequence[int]) -> UInt64s:
        """The queries of some levels, as bits."""
        return np.bitwise_or.reduce(self._readers[list(levels)], axis=0)

    def span(self, run: int) -> tuple[int, int]:
        """The first row of a run and the one after its last."""
        return self._starts[run], self._starts[run + 1]

    # -- units ----------------------------------------------------------------------------------------------------

    def step(self) -> Done | None:
        """Do the next unit; None where nothing that has arrived is left to do, or the rest has to wait."""
        unit = self._next_unit()
        if unit is None:
            return None
        start, stop = self.span(unit.run)
        rows, before = Rows._make([a[start:stop] for a in self.rows]), self.counters.comparisons
        pairs = self.state.insert(rows, self.counters, self._judge, self._scan(unit))
        self._found += len(pairs.ts)
        if self._found > self.state.fan_out:
            raise LimitError(f"more than {self.state.fan_out:,} pairs in one micro-batch of one shard")
        self.counters.pairs += len(pairs.ts)
        self.work_ns += self._granularity.unit_ns(unit.first, unit.last, stop - start)
        self.row_scans += (stop - start) * self._granularity.part(unit.first, unit.last)
        deliveries = self.outbox.done(unit, pairs, bool(rows.ts[0] == rows.ts[-1]))
        return Done(unit, len(pairs.ts), self.counters.comparisons - before, deliveries)

    def _next_unit(self) -> Unit | None:
        span = self._span
        if span is None:
            return self.queues.next()
        if span.held_bytes is not None and self.outbox.held * PAIR_BYTES > span.held_bytes:
            return self.queues.next_oldest()  # which gives back the most of what is held
        if self.work_ns >= span.limit_ns and self.arrived <= span.complete:
            oldest = self.queues.oldest
            overdue = oldest is not None and span.until is not None and self.rows.ts[self._starts[oldest]] <= span.until
            return self.queues.next_oldest() if overdue else None
        unit = self.queues.next()
        if unit is None and self.arrived < len(self.rows.ts):
            while self.arrived < len(self.rows.ts):  # of a time that may not be complete: all of it, or nothing
                self._add_run(len(self.rows.ts))
            unit = self.queues.next()
        return unit

    def _scan(self, unit: Unit) -> Scan:
        """The ages of the unit's levels; what is stale for the oldest run with something left to do may go."""
        key = unit.first, unit.last
        if key not in self._ages:
            self._ages[key] = np.array([self.levels.ages(side, *key) for side in Side], np.int64)
        oldest = self.queues.oldest
        return Scan(self._ages[key], False, unit.first == 0, self._reached(oldest))

    def _reached(self, run: int | None) -> Int64s:
        """The places on both axes that the first row of a run has come to."""
        if run is None:
            return BEYOND
        rows, row = self.rows, self._starts[run]
        side, places = int(rows.side[row]), (rows.at[row], rows.now[row])
        return np.array([places[side], places[1 - side]], np.int64)

    # -- the end of the micro-batch -------------------------------------------------------------------------------

    def close(self) -> list[Delivery]:
        """The micro-batch ends here: what can still go out before work is left to the next one."""
        return self.outbox.flush() if self._span and self.is_left else []

    @property
    def left_rows(self) -> int:
        """Rows that have something left to scan, also those that have not arrived."""
        return self.waiting + len(self.rows.ts) - self.arrived

    @property
    def is_left(self) -> bool:
        """Whether rows have something left to scan."""
        return self.arrived < len(self.rows.ts) or any(self.queues.queues)

    def cursors(self) -> list[LevelCursor]:
        """How far each level has come; none where nothing is left."""
        if not self.is_left:
            return []
        found, first, times = [], len(self._starts) - 1, self.rows.ts
        for queue in self.queues.queues:  # those in a queue have scanned the levels before it
            first = min([first, *list(queue)[:1]])
            row = self._starts[first]
            ts = int(times[row]) - 1 if row < len(times) else int(times[-1])
            found.append(LevelCursor(ts, int(times[row]) if self.outbox.has_sent(first) else None))
        return found

    def leave(self, left: LeftWork) -> None:
        """Keep what is left for the next micro-batch."""
        if self.is_left:
            left.keep(LeftWorkMeta(self.scheduler.name, self.cursors()), self.outbox.waiting())
        else:
            left.finish()


def find_again(state: JoinState, rows: Rows, levels: Levels, left: LeftWork, judge: Judge | None) -> None:
    """After a restart: let rows that had scanned some levels scan them again, for the pairs that queries wait for.

    The state must hold the rows before them, and no others.
    """
    parts: list[FoundPart] = []
    scanned, counters = left.scanned(rows.ts), Counters()
    stale = np.full(2, left.settled + 1, np.int64)
    for count in sorted(set(scanned.tolist()), reverse=True):
        own = Rows._make([a[scanned == count] for a in rows])
        for level in range(count):
            ages = np.array([levels.ages(side, level, level + 1) for side in Side], np.int64)
            pairs = state.insert(own, counters, judge, Scan(ages, False, level == 0, stale))
            wanted = ~np.isin(pairs.ts, [left.meta.cursors[-1].sent or -LATE])
            judged = pairs.verdict[wanted] if len(pairs.verdict) else pairs.verdict
            found = type(pairs)(pairs.rows[:, wanted], pairs.ts[wanted], pairs.tag[wanted], judged)
            parts.append(FoundPart(level, found))
    left.keep(left.meta, parts)
