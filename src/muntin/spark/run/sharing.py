"""What the queries of a job would take if each had a join of its own, predicted from the traffic of the shared job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muntin.model import JobSpec, Side
from muntin.plan.predict import JoinLoad, predict, traffics_of
from muntin.plan.strategies import ISOLATED, STRATEGIES, group_queries
from muntin.plan.traffic import Knowledge
from muntin.spark.control import knowledge_of
from muntin.spark.store import Location


@dataclass(frozen=True)
class Sharing:
    """One join for each query: rows kept and their bytes, comparisons per second of event time, processor time, and
    how many times each row would be read."""

    rows: float = 0.0
    bytes: float = 0.0
    comparisons_per_second: float = 0.0
    cpu_ms_per_second: float = 0.0
    readers: float = 0.0


def apart(spec: JobSpec, checkpoint: Location) -> Sharing | None:
    """The queries of a job one by one; None where the job has measured nothing so far."""
    knowledge = knowledge_of(spec, checkpoint)
    if not knowledge.measured or not spec.queries:
        return None
    return predicted_apart(spec, knowledge)


def predicted_apart(spec: JobSpec, knowledge: Knowledge) -> Sharing:
    """The same, from what is known of the streams."""
    groups = group_queries(spec)
    traffics = traffics_of(groups.joins, knowledge)
    alone = predict(spec, STRATEGIES[ISOLATED].plan(groups), traffics, knowledge.constants)
    return Sharing(alone.rows, alone.bytes, alone.comparisons, alone.cpu_ns / 1e6, _readers(alone.joins))


def _readers(joins: Sequence[JoinLoad]) -> float:
    """The average over all rows: a stream of ten queries is read ten times."""
    rates = {load.join.streams[side].name: load.traffic.rates[side] for load in joins for side in Side}
    read = sum(load.traffic.rates[side] for load in joins for side in Side)
    return read / sum(rates.values()) if any(rates.values()) else 0.0
