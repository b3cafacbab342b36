"""What waits while one stream of a join is behind the other, rows or results (hammad2005): one file for each ordering.

An ordering says how far ahead rows may be joined, and how long a row then takes to be answered; `pace` has the symbols.
Adaptive changes between the other two while a job runs. Some joins have no choice: `reason_to_wait` says why.
"""

from muntin.plan.orderings.adaptive import ADAPTIVE, Decision, Monitor, Switching
from muntin.plan.orderings.filter_order import FILTER_ORDER
from muntin.plan.orderings.ordering import Ordering, must_wait, reason_to_wait
from muntin.plan.orderings.pace import MOST_GAIN, Pace, gain, pace_of
from muntin.plan.orderings.sync_filter import SYNC_FILTER
from muntin.plan.registry import Registry

__all__ = [
    "ADAPTIVE",
    "FILTER_ORDER",
    "MOST_GAIN",
    "ORDERINGS",
    "SYNC_FILTER",
    "Decision",
    "Monitor",
    "Ordering",
    "Pace",
    "Switching",
    "gain",
    "must_wait",
    "ordering_in_force",
    "pace_of",
    "reason_to_wait",
]

ORDERINGS: Registry[Ordering] = Registry(SYNC_FILTER, FILTER_ORDER, ADAPTIVE)


def ordering_in_force(joins_ahead: bool) -> Ordering:
    """The ordering that an operator follows at a moment."""
    return FILTER_ORDER if joins_ahead else SYNC_FILTER
