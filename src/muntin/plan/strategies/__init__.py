"""How queries over the same streams share joins (wang2006 3 and 4): each strategy is one file and makes one plan.

A strategy says which joins a job has and what each of them is for, when it is impossible, how a plan changes with its
queries, and what EXPLAIN says of it. All strategies are plans of the same operator. `STRATEGIES` lists them; the first
is the choice where predictions are equal.
"""

from muntin.model import JobSpec
from muntin.plan.joins import Plan
from muntin.plan.registry import Registry
from muntin.plan.strategies.isolated import Isolated
from muntin.plan.strategies.pull_up import PullUp
from muntin.plan.strategies.push_down import MOST_JOINS, PushDown
from muntin.plan.strategies.state_slice import StateSlice
from muntin.plan.strategies.strategy import JoinPart, QueryGroups, Strategy, group_queries

__all__ = ["ISOLATED", "MOST_JOINS", "STRATEGIES", "JoinPart", "QueryGroups", "Strategy", "group_queries", "share"]

STRATEGIES: Registry[Strategy] = Registry(StateSlice(), PullUp(), PushDown(), Isolated())
ISOLATED = Isolated.name
"""What the others are compared with."""


def share(spec: JobSpec, strategy: str | None = None) -> Plan:
    """The plan of a job by one strategy, the first where none is named; states are cut at every window."""
    return STRATEGIES[strategy or STRATEGIES.names[0]].plan(group_queries(spec))
