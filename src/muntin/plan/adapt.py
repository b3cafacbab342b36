"""When to cut the states of a running job elsewhere (wang2006 5.3): not at every whim of the traffic, and not for
nothing.

A better chain must be predicted to save a margin several times in a row; then the job goes over to it, and what its
micro-batches cost is compared with what they cost before. If that did not fall, the change is undone, and for a while
nothing is tried.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from statistics import median

from muntin.plan.joins import Cuts, Plan

MARGIN = 0.1
"""Part of the processor's work that a migration must be predicted to save."""
PATIENCE = 3
"""How often in a row."""
TRIAL = 5
"""Micro-batches that are compared, before and after."""
REST = 20
"""Looks that are let pass after a migration was undone."""
AllCuts = dict[int, tuple[Cuts, Cuts]]


def cuts_of(plan: Plan) -> AllCuts:
    """Where the states of each join are cut."""
    return {join.index: join.cuts for join in plan.joins}


def with_cuts(plan: Plan, cuts: AllCuts, chain: str) -> Plan:
    """The same joins, cut elsewhere."""
    return replace(plan, joins=tuple(replace(j, cuts=cuts[j.index]) for j in plan.joins), chain=chain)


@dataclass(frozen=True)
class Move:
    """A migration: the plan to go over to, and why: the part of the work that it saves, as predicted or as measured."""

    kind: str
    plan: Plan
    gain: float


@dataclass(frozen=True)
class _Trial:
    before: Plan
    target: AllCuts
    cost: float
    names: frozenset[str]


class Adaptation:
    """Looks at a running job from time to time and says when to migrate, and when to undo it."""

    def __init__(self) -> None:
        self._costs: deque[float] = deque(maxlen=TRIAL)
        self._streak = 0
        self._rest = 0
        self._trial: _Trial | None = None

    def note(self, cost: float) -> None:
        """What a micro-batch cost, per row."""
        self._costs.append(cost)

    def look(self, plan: Plan, better: Plan, gain: float) -> Move | None:
        """`plan` is in force; `better` is predicted to save `gain` of its work."""
        if self._trial is not None:
            return self._judge(plan, self._trial)
        if self._rest:
            self._rest -= 1
            return None
        if gain < MARGIN or cuts_of(plan) == cuts_of(better):
            self._streak = 0
            return None
        self._streak += 1
        if self._streak < PATIENCE or len(self._costs) < TRIAL:
            return None
        self._trial = _Trial(plan, cuts_of(better), median(self._costs), frozenset(plan.queries))
        self._streak = 0
        self._costs.clear()
        return Move("migrated", better, gain)

    def _judge(self, plan: Plan, trial: _Trial) -> Move | None:
        """Whether a migration has paid, once enough micro-batches have passed; None where it has, or is not known."""
        if frozenset(plan.queries) != trial.names:  # other queries: the costs say nothing any more
            self._trial = None
            return None
        if cuts_of(plan) != trial.target:
            self._costs.clear()
            return None
        if len(self._costs) < TRIAL:
            return None
        self._trial, gain = None, 1 - median(self._costs) / trial.cost
        if gain > 0:
            return None
        self._rest = REST
        self._costs.clear()
        return Move("undone", with_cuts(plan, cuts_of(trial.before), trial.before.chain), gain)
