"""Sync-Filter (hammad2005 4): rows wait until both streams have passed them; results need not wait."""

from __future__ import annotations

from muntin.plan.orderings.ordering import Ordering
from muntin.plan.orderings.pace import Pace


class SyncFilter(Ordering):
    name = "sync-filter"
    paper = "hammad2005, section 4"
    summary = "rows wait for the stream that is behind; it holds the least"

    def joins_ahead(self, now: bool = False) -> bool:
        return False

    def total_s(self, pace: Pace) -> float:
        """Equation 2: seconds from arrival to result of n rows of the fast stream together."""
        return pace.waiting_total_s + pace.n * (pace.n + 1) / 2 * pace.seconds_per_row

    def response_s(self, pace: Pace) -> float:
        """Equation 3: of one of them, on average."""
        return self.total_s(pace) / pace.n


SYNC_FILTER = SyncFilter()
