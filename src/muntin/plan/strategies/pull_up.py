"""Selection pull-up (wang2006 3.1): one join of the largest window that keeps every row."""

from __future__ import annotations

from muntin.plan.strategies.strategy import Strategy


class PullUp(Strategy):
    name = "pull-up"
    paper = "wang2006, section 3.1"
    summary = "one join of the largest window; selections and windows are checked on the pairs"
    explanation = (
        "a join keeps each row once, for its largest window; selections and windows are checked on the pairs",
    )
    selects = False
