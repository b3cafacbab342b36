"""What the rows of a join cost: how many others each looks at, and how many pairs it finds.

Measured by the counters, a micro-batch counting half of what the next one does. What was measured is durable, and how
a micro-batch is cut follows from what was measured before it, so that every attempt at it is cut the same way. In the
first one the rows themselves say what they will meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.core.batch import Counters
from muntin.kernels.join import Rows
from muntin.model import Axis, Side
from muntin.plan import SharedJoin
from muntin.plan.cost import Constants
from muntin.plan.granularity import Granularity, granularity_for, row_ns
from muntin.plan.levels import levels_of

SAMPLE = 20_000
"""Rows of each side that are looked at before anything was measured."""


@dataclass(frozen=True)
class MeasuredRows:
    """Rows that were joined lately, what they looked at, and the pairs that they found."""

    rows: float = 0.0
    comparisons: float = 0.0
    pairs: float = 0.0


class Density:
    def __init__(self, measured: MeasuredRows):
        self.measured = measured
        self._since: tuple[int, int] | None = None

    def granularity(
        self,
        join: SharedJoin,
        rows: Rows,
        constants: Constants,
        run_length: int | None = None,
        levels: int | None = None,
    ) -> Granularity:
        """How finely the work of rows is cut: by what they cost, or all windows and runs of a given length.

        `levels`: into so many, since work was left that was cut so.
        """
        found = self.measured
        if found.rows:
            ns = row_ns(found.comparisons / found.rows, found.pairs / found.rows, constants)
        else:
            partners = partners_among(join, rows)
            ns = row_ns(partners, partners, constants)
        if run_length is not None:
            return Granularity(levels_of(join), run_length, ns, constants)
        return granularity_for(join, ns, constants, levels)

    def begin(self, counters: Counters) -> None:
        """The work of a micro-batch begins."""
        self._since = counters.comparisons, counters.pairs

    def end(self, counters: Counters, rows: float) -> None:
        """It is over; so many rows have scanned the largest window."""
        if self._since is not None and rows:
            before, (comparisons, pairs) = self.measured, self._since
            self.measured = MeasuredRows(
                before.rows / 2 + rows,
                before.comparisons / 2 + counters.comparisons - comparisons,
                before.pairs / 2 + counters.pairs - pairs,
            )
        self._since = None


def partners_among(join: SharedJoin, rows: Rows) -> float:
    """How many others a row will look at on average, if rows meet only each other."""
    if not len(rows.ts):
        return 0.0
    keys, weights = [], []
    for side in Side:
        own = rows.h1[rows.side == side]
        every = max(1, len(own) // SAMPLE)
        keys.append(own[::every])
        weights.append(every)
    both, place = np.unique(np.concatenate(keys), return_inverse=True)
    left, right = (np.bincount(part, minlength=len(both)) for part in np.split(place.ravel(), [len(keys[0])]))
    met = float(left @ right) * weights[0] * weights[1]
    span = int(rows.ts[-1] - rows.ts[0]) + 1
    spans = [span if join.axes[s] is Axis.TIME else max(1, int((rows.side == s).sum())) for s in Side]
    within = sum(min(1.0, join.reach(side) / spans[side]) for side in Side) / 2
    return met * within / len(rows.ts)
