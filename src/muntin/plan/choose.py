"""The plan of a job: what its settings say, and where they say `auto`, what is predicted to be cheapest.

`chain = auto` is the first chain, Mem-Opt, unless another saves at least 5% of the processor and fits into the job's
state limit. `strategy = auto` is the cheapest in processor; of those within 5% of it the one with the smallest state,
and the first strategy, state-slice, where that is a tie too. A strategy that would not fit into the limit is passed
over as long as one fits. Nothing here is random: the same job and the same knowledge give the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from muntin.model import AUTO, NO_CHAIN, JobSpec, Query, Side
from muntin.plan.chains import CHAINS
from muntin.plan.joins import Plan, signature
from muntin.plan.predict import Prediction, alternatives_of, predict, traffics_of, with_chain
from muntin.plan.punctuation_modes import PUNCTUATION_MODES
from muntin.plan.strategies import STRATEGIES, group_queries, share
from muntin.plan.traffic import NOTHING, Knowledge
from muntin.plan.trees import lowered

__all__ = ["Choice", "Knowledge", "choose", "make_plan", "predict_in_force"]

MARGIN = 0.05
"""Savings of less are not worth a dearer state."""
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Choice:
    """A plan with its prediction, and all alternatives to it in a fixed order, itself included."""

    plan: Plan
    prediction: Prediction
    alternatives: tuple[Prediction, ...]


def make_plan(spec: JobSpec, knowledge: Knowledge | None = None) -> Plan:
    """The plan for the job's settings; only what they leave open is predicted."""
    plan = PUNCTUATION_MODES[spec.settings.punctuations].apply(_make(lowered(spec), knowledge or NOTHING))
    return replace(plan, asked=declared_queries(spec))


def declared_queries(spec: JobSpec) -> tuple[Query, ...]:
    """The queries that a plan may have otherwise: those over more than two streams, and those over two queries."""
    over = {name: [query.stream(side) in spec.streams for side in Side] for name, query in spec.queries.items()}
    return tuple(query for name, query in spec.queries.items() if query.inputs or not any(over[name]))


def _make(spec: JobSpec, known: Knowledge) -> Plan:
    settings = spec.settings
    if settings.strategy == AUTO:
        return choose(spec, known).plan
    groups = group_queries(spec)
    plan = STRATEGIES[settings.strategy].plan(groups)
    if plan.chain in (NO_CHAIN, settings.chain):
        return plan
    traffics = traffics_of(groups.joins, known)
    if settings.chain != AUTO:
        return with_chain(plan, CHAINS[settings.chain], traffics, known.constants)
    plans = [with_chain(plan, chain, traffics, known.constants) for chain in CHAINS]
    best = _best_chain([predict(spec, p, traffics, known.constants) for p in plans], settings.state_limit_bytes)
    return next(p for p in plans if p.chain == best.chain)


def choose(spec: JobSpec, knowledge: Knowledge | None = None) -> Choice:
    """The plan for the job's settings beside all that there could be."""
    known, settings, groups = knowledge or NOTHING, spec.settings, group_queries(spec)
    every = tuple(alternatives_of(groups, traffics_of(groups.joins, known), known.constants))
    candidates = []
    for _, predictions in groupby(every, key=lambda p: p.strategy):
        by_chain = list(predictions)
        named = [p for p in by_chain if p.chain == settings.chain]
        candidates.append(_best_chain(named or by_chain, settings.state_limit_bytes))
    if settings.strategy == AUTO:
        chosen = _cheapest([p for p in candidates if not p.why_not], settings.state_limit_bytes)
    else:
        chosen = next(p for p in candidates if p.strategy == settings.strategy)
    if chosen.why_not:
        return Choice(share(spec, chosen.strategy), chosen, every)  # raises, with a hint
    joins = tuple(load.join for load in chosen.joins)
    return Choice(Plan(joins, chosen.strategy, chosen.chain, groups.never, asked=declared_queries(spec)), chosen, every)


def predict_in_force(spec: JobSpec, plan: Plan, knowledge: Knowledge) -> Prediction:
    """A plan as it is, under what is known. The traffic is that of the queries of a join, unless several share them."""
    together = len({signature(join.queries[0]) for join in plan.joins}) == len(plan.joins)
    joins = plan.joins if together else group_queries(spec).joins
    return predict(spec, plan, traffics_of(joins, knowledge), knowledge.constants)


def _best_chain(predictions: Sequence[Prediction], limit: int | None) -> Prediction:
    """The choice of `chain = auto` among predictions for one strategy."""
    best = predictions[0]
    for other in predictions[1:]:
        fits = limit is None or other.bytes <= limit
        if fits and other.cpu_ns <= (1 - MARGIN) * best.cpu_ns:
            best = other
    return best


def _cheapest(candidates: Sequence[Prediction], limit: int | None) -> Prediction:
    """The choice of `strategy = auto`; the first of the candidates is that of ties."""
    fitting = [p for p in candidates if limit is None or p.bytes <= limit] or candidates
    least_ns = min(p.cpu_ns for p in fitting)
    near = [p for p in fitting if p.cpu_ns <= (1 + MARGIN) * least_ns]
    least_bytes = min(p.bytes for p in near)
    return next(p for p in near if p.bytes <= (1 + SAME) * least_bytes)
