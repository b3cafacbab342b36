"""The plan of a job: what its settings say, and where they say `auto`, what is predicted to be cheapest.

`chain = auto` is Mem-Opt unless CPU-Opt saves at least 5% of the processor, and never CPU-Opt where that would not fit
into the job's state limit. `strategy = auto` is the cheapest in processor; of those within 5% of it the one with the
smallest state, and state slices where that is a tie too. A strategy that would not fit into the limit is passed over
as long as one fits. Nothing here is random: the same job and the same knowledge give the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muntin.model import JobSpec
from muntin.plan.predict import Prediction, alternatives_to, predict, traffics_of, with_cpu_opt
from muntin.plan.punctuation import check_promises, without_windows
from muntin.plan.share import Plan, share
from muntin.plan.traffic import NOTHING, Knowledge

__all__ = ["Choice", "Knowledge", "choose", "make_plan"]

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
    plan = _made(spec, knowledge)
    if spec.settings.punctuations == "pjoin":
        check_promises(plan)
        return without_windows(plan)
    return plan


def _made(spec: JobSpec, knowledge: Knowledge | None) -> Plan:
    known, settings = knowledge or NOTHING, spec.settings
    if settings.strategy == "auto":
        return choose(spec, known).plan
    plan = share(spec, settings.strategy)
    if settings.strategy != "state-slice" or settings.chain == "mem-opt":
        return plan
    traffics = traffics_of(plan, known)
    recut = with_cpu_opt(plan, traffics, known.constants)
    if settings.chain == "cpu-opt":
        return recut
    mem_opt, cpu_opt = (predict(spec, p, traffics, known.constants) for p in (plan, recut))
    return recut if _recut_pays(spec, mem_opt, cpu_opt) else plan


def choose(spec: JobSpec, knowledge: Knowledge | None = None) -> Choice:
    """The plan for the job's settings beside all that there could be."""
    known, settings = knowledge or NOTHING, spec.settings
    sliced = share(spec, "state-slice")
    every = tuple(alternatives_to(sliced, spec, traffics_of(sliced, known), known.constants))
    mem_opt, cpu_opt, *rest = every
    recut = settings.chain == "cpu-opt" or (settings.chain == "auto" and _recut_pays(spec, mem_opt, cpu_opt))
    candidates = [cpu_opt if recut else mem_opt, *rest]
    if settings.strategy == "auto":
        chosen = _cheapest([p for p in candidates if not p.why_not], settings.state_limit_bytes)
    else:
        chosen = next(p for p in candidates if p.strategy == settings.strategy)
    if chosen.why_not or chosen.strategy == "isolated":
        plan = share(spec, chosen.strategy)  # an impossible one is refused here, with a hint
    else:
        plan = Plan(tuple(load.join for load in chosen.joins), chosen.strategy, chosen.chain, sliced.never)
    return Choice(plan, chosen, every)


def _recut_pays(spec: JobSpec, mem_opt: Prediction, cpu_opt: Prediction) -> bool:
    limit = spec.settings.state_limit_bytes
    fits = limit is None or cpu_opt.bytes <= limit
    return fits and cpu_opt.cpu_ns <= (1 - MARGIN) * mem_opt.cpu_ns


def _cheapest(candidates: Sequence[Prediction], limit: int | None) -> Prediction:
    """The choice of `strategy = auto`; the first of the candidates is that of ties."""
    fitting = [p for p in candidates if limit is None or p.bytes <= limit] or candidates
    least_ns = min(p.cpu_ns for p in fitting)
    near = [p for p in fitting if p.cpu_ns <= (1 + MARGIN) * least_ns]
    least_bytes = min(p.bytes for p in near)
    return next(p for p in near if p.bytes <= (1 + SAME) * least_bytes)
