"""The rows of a micro-batch on their way through the join, unit by unit, in the order of a scheduler (hammad2003 3).

    rows in (ts, left first) order, cut into runs     unit = (run, levels)     pairs -> outbox -> deliveries

The first unit of a run stores its rows, as step 1 of the paper does; a later one goes on where a smaller window ended.
With runs of one row this is the tuple-at-a-time algorithm; longer runs cost less per row, and small windows still go
out early.
Stale rows that a run with levels left to scan may still need are not taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muntin.core.batch import Counters
from muntin.core.join import JoinState, Judge
from muntin.core.policy import LimitError
from muntin.core.schedule.outbox import Delivery, Outbox
from muntin.core.selections import query_bits
from muntin.kernels.arrays import Int64s, UInt64s
from muntin.kernels.join import LATE, Rows, Scan
from muntin.model import Side
from muntin.plan.granularity import Granularity
from muntin.plan.schedulers import RunQueues, Unit

BEYOND = np.array([LATE, LATE], np.int64)


@dataclass(frozen=True)
class Done:
    """What one unit did."""

    unit: Unit
    pairs: int
    comparisons: int
    deliveries: list[Delivery]


class ScheduledWork:
    def __init__(
        self,
        state: JoinState,
        rows: Rows,
        counters: Counters,
        scheduler: str,
        granularity: Granularity,
        judge: Judge | None = None,
    ):
        self.state = state
        self.rows = rows
        self.counters = counters
        self.levels = granularity.levels
        self.run_length = granularity.run_length
        self.scheduler = granularity.scheduler(scheduler, len(rows.ts))
        self.queues = RunQueues(self.scheduler, self.levels)
        self.outbox = Outbox(self.scheduler, len(self.levels))
        of_query = np.array(self.levels.of_query)
        self._readers = query_bits(of_query == np.arange(len(self.levels))[:, None])
        self._judge = judge
        self._found = 0
        self._starts = [0]
        """The first row of each run that has arrived, and of the next one."""
        self._ages: dict[tuple[int, int], Int64s] = {}

    def arrive(self, rows: int | None = None) -> None:
        """So many more rows have arrived, all the rest where it is not said."""
        end = len(self.rows.ts) if rows is None else self._starts[-1] + rows
        while self._starts[-1] < end:
            self.queues.add(len(self._starts) - 1)
            self._starts.append(min(self._starts[-1] + self.run_length, end))

    @property
    def arrived(self) -> int:
        """Rows that have arrived."""
        return self._starts[-1]

    @property
    def waiting(self) -> int:
        """Rows that have arrived and have something left to scan; all but the last run have the same length."""
        return min(self.run_length * sum(map(len, self.queues.queues)), self.arrived)

    def readers(self, levels: Sequence[int]) -> UInt64s:
        """The queries of some levels, as bits."""
        return np.bitwise_or.reduce(self._readers[list(levels)], axis=0)

    def span(self, run: int) -> tuple[int, int]:
        """The first row of a run and the one after its last."""
        return self._starts[run], self._starts[run + 1]

    def step(self) -> Done | None:
        """Do the next unit; None where nothing that has arrived is left to do."""
        unit = self.queues.next()
        if unit is None:
            return None
        start, stop = self.span(unit.run)
        rows, before = Rows._make([a[start:stop] for a in self.rows]), self.counters.comparisons
        pairs = self.state.insert(rows, self.counters, self._judge, self._scan(unit))
        self._found += len(pairs.ts)
        if self._found > self.state.fan_out:
            raise LimitError(f"more than {self.state.fan_out:,} pairs in one micro-batch of one shard")
        self.counters.pairs += len(pairs.ts)
        deliveries = self.outbox.done(unit, pairs, bool(rows.ts[0] == rows.ts[-1]))
        return Done(unit, len(pairs.ts), self.counters.comparisons - before, deliveries)

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
