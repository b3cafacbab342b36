"""A plan with what it is predicted to hold and cost, as the tree of `description`."""

from __future__ import annotations

from dataclasses import asdict, replace

from muntin.model import AUTO, JobSpec, Side, Stream
from muntin.plan.choose import Choice, choose, predict_in_force
from muntin.plan.cost import DEFAULT
from muntin.plan.explain.describe_joins import Pipelines, describe_joins, pipeline_of, work
from muntin.plan.explain.describe_orders import describe_orders
from muntin.plan.explain.description import (
    Alternative,
    DecidedBy,
    ImpossibleAlternative,
    KnownConstants,
    NeverTrue,
    PlanDescription,
    StreamUse,
)
from muntin.plan.invalidations import invalidation_of
from muntin.plan.joins import Plan, SharedJoin, enriched, never_true
from muntin.plan.predict import Prediction
from muntin.plan.punctuation import has_promises
from muntin.plan.strategies import STRATEGIES
from muntin.plan.traffic import NOTHING, Knowledge


def describe(
    spec: JobSpec, knowledge: Knowledge | None = None, begun_with: str | None = None, pipelines: Pipelines = ()
) -> PlanDescription:
    """The plan of a job.

    `begun_with` is the strategy of its checkpoint, which `auto` does not change any more; `pipelines` are the streams
    that each of its streaming queries reads.
    """
    known, settings = knowledge or NOTHING, spec.settings
    strategy = begun_with if begun_with and settings.strategy == AUTO else settings.strategy
    choice = choose(replace(spec, settings=replace(settings, strategy=strategy)), known)
    has_chains = STRATEGIES[choice.plan.strategy].has_chains
    return PlanDescription(
        settings=_settings(spec, choice.plan),
        decided_by=DecidedBy(
            strategy="checkpoint" if strategy != settings.strategy else _decided_by(settings.strategy),
            chain=_decided_by(settings.chain) if has_chains else None,
        ),
        streams=[_stream(stream, choice.plan, pipelines) for stream in spec.streams.values()],
        joins=describe_joins(choice, settings, known, pipelines),
        never=_never(spec, choice.plan),
        constants=_constants(known),
        alternatives=[_alternative(p, p is choice.prediction) for p in choice.alternatives],
        join_orders=describe_orders(spec, known, begun_with is not None),
    )


def describe_in_force(
    spec: JobSpec, plan: Plan, knowledge: Knowledge | None = None, pipelines: Pipelines = ()
) -> PlanDescription:
    """A plan as it is, not as it would be chosen now, and without alternatives."""
    known = knowledge or NOTHING
    prediction = predict_in_force(spec, plan, known)
    return PlanDescription(
        settings=_settings(spec, plan),
        decided_by=DecidedBy("checkpoint", "checkpoint" if STRATEGIES[plan.strategy].has_chains else None),
        streams=[_stream(stream, plan, pipelines) for stream in spec.streams.values()],
        joins=describe_joins(Choice(plan, prediction, ()), spec.settings, known, pipelines),
        never=_never(spec, plan),
        constants=_constants(known),
        alternatives=[_alternative(prediction, True)],
        join_orders=describe_orders(replace(spec, queries=plan.queries), known, True),
    )


def _constants(known: Knowledge) -> KnownConstants:
    return KnownConstants(**asdict(known.constants), known="assumed" if known.constants == DEFAULT else "measured")


def _decided_by(setting: str) -> str:
    return AUTO if setting == AUTO else "set"


def _settings(spec: JobSpec, plan: Plan) -> dict[str, str | int]:
    """What the job will do, choices of `auto` made; limits only where they are set."""
    given = spec.settings
    limits: dict[str, str | int | None] = {
        "state_limit_bytes": given.state_limit_bytes,
        "fan_out_limit": given.fan_out_limit,
        "max_ahead_us": given.max_ahead_us,
        "held_limit_bytes": given.held_limit_bytes,
        "on_held_limit": given.on_held_limit if given.held_limit_bytes else None,
        "punctuations": given.punctuations if any(map(has_promises, plan.joins)) else None,
    }
    return {
        "strategy": plan.strategy,
        "chain": plan.chain,
        "output_order": given.output_order,
        "ordering": given.ordering,
        "invalidation": invalidation_of(given.invalidation).name,
        **{name: value for name, value in limits.items() if value is not None},
    }


def _stream(stream: Stream, plan: Plan, pipelines: Pipelines) -> StreamUse:
    reading = [join for join in plan.joins if stream.name in {s.name for s in join.streams}]
    return StreamUse(
        name=stream.name,
        time=stream.time,
        lateness_us=stream.lateness_us,
        idle_us=stream.idle_us,
        read=bool(reading),
        only_in_vain=not reading and stream.name in {q.stream(side) for q in plan.never for side in Side},
        joins=[join.index + 1 for join in reading],
        readers=len({pipeline_of(join, pipelines) for join in reading}),
        lookups=_lookups(stream, reading),
    )


def _lookups(stream: Stream, reading: list[SharedJoin]) -> list[str]:
    """Each key of a table with the columns that are wanted of it."""
    found = [lookup for join in reading for own in join.streams for lookup in own.lookups]
    return [
        f"{lookup.text}" + (f" for {', '.join(column.name for column in lookup.columns)}" if lookup.columns else "")
        for lookup in stream.looking_up(found).lookups
    ]


def _never(spec: JobSpec, plan: Plan) -> list[NeverTrue]:
    """The queries that can have no rows.

    Where all are like that they are not planned away: their joins run and keep nothing.
    """
    running = [query for join in plan.joins for query in join.queries]
    without_rows = plan.never or (running if running and never_true(enriched(spec), running[0]) else ())
    found = {query.name: never_true(enriched(spec), query) for query in without_rows}
    return [NeverTrue(name, expr.text, bool(plan.never)) for name, expr in found.items() if expr]


def _alternative(prediction: Prediction, chosen: bool) -> Alternative | ImpossibleAlternative:
    if prediction.why_not:
        return ImpossibleAlternative(prediction.strategy, prediction.chain, chosen, prediction.why_not)
    return Alternative(
        prediction.strategy, prediction.chain, chosen, joins=len(prediction.joins), **asdict(work(prediction))
    )
