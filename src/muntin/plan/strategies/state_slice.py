"""State-slice (wang2006 4): one join, whose state is cut by age; a row stays as long as some query wants it."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.model import Query, Side
from muntin.plan.chains import MEM_OPT
from muntin.plan.joins import Cuts, distinct_windows
from muntin.plan.strategies.strategy import Strategy


class StateSlice(Strategy):
    name = "state-slice"
    paper = "wang2006, section 4"
    summary = "one join for all queries, its state cut by age; a row stays as long as some query wants it"
    explanation = (
        "a join keeps each row once, to the end of the last slice in which some query wants it, and finds each pair",
        "once: its age and its two rows say which queries it goes to",
    )
    chain = MEM_OPT.name

    def cuts(self, queries: Sequence[Query], side: Side) -> Cuts:
        """A cut at every window; other chains cut elsewhere once the traffic is known."""
        return distinct_windows(queries, side)
