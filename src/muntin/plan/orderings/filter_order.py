"""Filter-Order (hammad2005 5): rows are joined as soon as their own stream has passed them; results wait."""

from __future__ import annotations

from muntin.plan.orderings.ordering import Ordering
from muntin.plan.orderings.pace import Pace


class FilterOrder(Ordering):
    name = "filter-order"
    paper = "hammad2005, section 5"
    summary = "rows are joined at once and results wait for the stream that is behind; it answers the soonest"

    def joins_ahead(self, now: bool = False) -> bool:
        return True

    def total_s(self, pace: Pace) -> float:
        """Equation 4: seconds from arrival to result of n rows of the fast stream; joining is done while waiting."""
        return pace.waiting_total_s

    def response_s(self, pace: Pace) -> float:
        """Equation 5: of one of them, on average."""
        return self.total_s(pace) / pace.n


FILTER_ORDER = FilterOrder()
