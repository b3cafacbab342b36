"""How much work a micro-batch does before it leaves the rest to the next.

The limit is in nanoseconds of the cost model, not of a clock: how much a unit takes is foretold from what rows have
cost in earlier micro-batches, so that every attempt at a micro-batch stops at the same place. The driver says the limit
in the control stream, and whatever else the place depends on.
"""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import AUTO, Axis
from muntin.plan import SharedJoin
from muntin.plan.cost import DEFAULT, Constants

PAIR_BYTES = 32
"""What a pair takes that waits for a query."""

HELD_BYTES = 1 << 28
"""What pairs may take that wait in one shard, where the job sets no limit: then those that would free the most go
first, whatever the scheduler says."""


def why_at_once(join: SharedJoin, frees_rows: bool) -> str | None:
    """Why the work of a micro-batch cannot be left to the next; None where it can."""
    if Axis.ROWS in join.axes:
        return "counts rows, and forgets them by their number when the micro-batch is over"
    if any(query.aggregation is not None for query in join.queries):
        return "has aggregates, which are found anew from the rows kept up to the release point"
    return "is told by promises which keys are over, when the micro-batch is over" if frees_rows else None


@dataclass(frozen=True)
class WorkLimit:
    """What the driver has told of the work of a micro-batch."""

    limit_ns: int | None = None
    """None: all work is done in its micro-batch."""
    until: int | None = None
    """Rows up to this event time have waited for long enough, and are done whatever that takes."""
    scheduler: str = AUTO
    constants: Constants = DEFAULT
