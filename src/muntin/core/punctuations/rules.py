"""What the two streams of a join promise, as the kernels read it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.kernels.arrays import Bools, Int64s
from muntin.model import Axis, Side
from muntin.plan import SharedJoin
from muntin.plan.placement import why_unheeded
from muntin.plan.punctuation import FOR_GOOD, promising
from muntin.plan.punctuation_modes import PUNCTUATION_MODES


@dataclass(frozen=True, eq=False)
class PromiseRules:
    """How each side promises, and for how long that binds."""

    join: SharedJoin
    promising: tuple[bool, ...]
    unique: Bools
    """Whether each row promises that its key does not come again."""
    binding_us: Int64s
    timed: Bools
    """Whether the axis of the side is time, not a count of rows."""
    early: bool
    """Whether the output is over for a key when its last row has left its window."""
    frees: bool
    """Live pairs of aggregates are found again from the rows, so that these must stay for as long as the pairs."""
    preserved: Bools
    """Whether some query has rows of the side go out that have no match."""
    hears: tuple[bool, bool]
    """Whether the side is what a join below finds, which passes on for which keys it is over."""
    heeds: bool
    """Whether that frees rows of the other side. Totals are final by the last of these, so they stay then."""

    @classmethod
    def of(cls, join: SharedJoin, how: str) -> PromiseRules:
        eternal = PUNCTUATION_MODES[how].binds_for_good
        sides = [promising(join, side) for side in Side]
        return cls(
            join=join,
            promising=tuple(side is not None for side in sides),
            unique=np.array([bool(side and side.unique) for side in sides]),
            binding_us=np.array([FOR_GOOD if eternal else s.binding_us if s else 0 for s in sides], np.int64),
            timed=np.array([join.axes[side] is Axis.TIME for side in Side]),
            early=not eternal,
            frees=not any(query.looks_at_live_pairs for query in join.queries),
            preserved=np.array([any(side in query.preserved for query in join.queries) for side in Side]),
            hears=join.hears,
            heeds=not why_unheeded(join),
        )

    def spared(self, side: Side) -> int:
        """For how long before the end of a promise it frees no rows of the other side.

        What a join below passes on must not show. When it has lapsed, rows with the key may come again, and meet all
        that is still in its window. So only rows are freed that will have left by then.
        """
        return self.join.reach(side.other) if self.hears[side] else 0

    def window(self, side: Side) -> int:
        """How long after a promise a row of the side can still be wanted; 0 where nobody knows."""
        return self.join.reach(side) if self.timed[side] else 0
