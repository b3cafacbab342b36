"""What a mode of using promises is."""

from __future__ import annotations

from typing import ClassVar

from muntin.plan.joins import Plan, SharedJoin
from muntin.plan.punctuation import has_promises


class PunctuationMode:
    name: ClassVar[str]
    title: ClassVar[str]
    """The name of the join in the paper's figures."""
    paper: ClassVar[str]
    summary: ClassVar[str]
    listens: ClassVar[bool] = True
    """Whether promises are looked at."""
    binds_for_good: ClassVar[bool] = False
    """Whether a promise holds without end, as there are no windows; else for its binding time."""

    def uses(self, join: SharedJoin) -> bool:
        return self.listens and has_promises(join)

    def apply(self, plan: Plan) -> Plan:
        """The plan of a job in this mode; raises UsageError where its state would grow for ever."""
        return plan
