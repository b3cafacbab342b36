"""What a plan will hold and cost: rows, bytes and work of each slice, for every way of sharing.

The work of a slice is that of chain.py. Beside its slices a join costs:

    cleaning   comparisons made to find stale rows (cost.py), by the job's `invalidation`
    standing   every row of both streams is packed, sent and classified for every join that reads it, wanted or not, and
               an operator has work in each micro-batch even if no row comes: `ARRIVAL_NS` and `JOIN_NS`. Not measured;
               they keep many small joins from looking free

Selections decide what is stored and who probes; pull-up stores and probes with everything. Push-down gives each join
the rows of one part of each stream; the others are rows that no query of it wants. Numbers are averages of a steady
state, per second of stream time where they are work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from muntin.kernels.arrays import Floats
from muntin.model import Axis, JobSpec, Query, Schema, Side, UsageError
from muntin.model.types import decimal_parts
from muntin.plan.chain import Edges, cpu_opt
from muntin.plan.cost import Constants, Load, checks, resolve, visits
from muntin.plan.share import MOST_JOINS, Cuts, Plan, SharedJoin, share, signature
from muntin.plan.traffic import NOTHING, Knowledge, Traffic, assumed, survivors, traffic_of

INDEX_BYTES = 57.0
"""What the index takes for a stored row, its share of the key's slot and of free room included."""
OWN_BYTES = 12.0
"""What is stored beside its columns: event time and class."""
TEXT_BYTES = 16.0
"""What a string or binary value is taken to be."""
BYTES = {"boolean": 1 / 8, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4, "string": TEXT_BYTES,
         "binary": TEXT_BYTES, "bigint": 8, "double": 8, "timestamp": 8, "timestamp_ntz": 8}  # fmt: skip
DECIMAL_BYTES = 16.0
ARRIVAL_NS = 100.0
JOIN_NS = 1_000_000.0

Traffics = dict[tuple[object, ...], Traffic]
"""The traffic of each group of queries that can share a join, by their signature."""


@dataclass(frozen=True)
class SliceLoad:
    """Ages `[lo, hi)` of one side: rows held, and per second rows looked at, pairs located by age, nanoseconds."""

    lo: int
    hi: int
    rows: float
    bytes: float
    comparisons: float
    routed: float
    cpu_ns: float


@dataclass(frozen=True, eq=False)
class StateLoad:
    """One side of a join, slice by slice from young to old; the arrays are as in `SliceLoad`."""

    stream: str
    axis: Axis
    cuts: Cuts
    row_bytes: float
    rows: Floats
    comparisons: Floats
    routed: Floats
    cpu_ns: Floats

    @property
    def slices(self) -> tuple[SliceLoad, ...]:
        spans = zip((0, *self.cuts), self.cuts, strict=False)
        loads = zip(*(a.tolist() for a in (self.rows, self.comparisons, self.routed, self.cpu_ns)), strict=True)
        return tuple(
            SliceLoad(lo, hi, rows, rows * self.row_bytes, *work)
            for (lo, hi), (rows, *work) in zip(spans, loads, strict=True)
        )


@dataclass(frozen=True, eq=False)
class JoinLoad:
    """One join under the traffic of its group: its two states and what it costs beside them."""

    join: SharedJoin
    traffic: Traffic
    states: tuple[StateLoad, StateLoad]
    cleaning_ns: float
    standing_ns: float

    @property
    def rows(self) -> float:
        return float(sum(s.rows.sum() for s in self.states))

    @property
    def bytes(self) -> float:
        return float(sum(s.rows.sum() * s.row_bytes for s in self.states))

    @property
    def comparisons(self) -> float:
        return float(sum(s.comparisons.sum() for s in self.states))

    @property
    def routed(self) -> float:
        return float(sum(s.routed.sum() for s in self.states))

    @property
    def cpu_ns(self) -> float:
        return float(sum(s.cpu_ns.sum() for s in self.states)) + self.cleaning_ns + self.standing_ns


@dataclass(frozen=True, eq=False)
class Prediction:
    """A whole job under one strategy and chain; `why_not` says what makes it impossible, and then it has no joins."""

    strategy: str
    chain: str
    joins: tuple[JoinLoad, ...]
    why_not: str = ""

    @property
    def rows(self) -> float:
        return sum(j.rows for j in self.joins)

    @property
    def bytes(self) -> float:
        return sum(j.bytes for j in self.joins)

    @property
    def comparisons(self) -> float:
        return sum(j.comparisons for j in self.joins)

    @property
    def routed(self) -> float:
        return sum(j.routed for j in self.joins)

    @property
    def cpu_ns(self) -> float:
        return sum(j.cpu_ns for j in self.joins)


@lru_cache
def row_bytes(schema: Schema) -> float:
    """What a stored row takes: its share of the index, its columns and what is kept beside them."""
    widths = (DECIMAL_BYTES if decimal_parts(f.type) else BYTES[f.type] for f in schema)
    return INDEX_BYTES + OWN_BYTES + sum(widths)


# -- one join ------------------------------------------------------------------------------------------------------


def predict_join(join: SharedJoin, traffic: Traffic, constants: Constants, invalidation: str = "auto") -> JoinLoad:
    """A join with its own cuts, under the traffic of its group of queries."""
    edges = [Edges(state, constants) for state in survivors(join, traffic)]
    stored = [float(e.inserted(0)) for e in edges]
    return JoinLoad(
        join,
        traffic,
        (_state(join, Side.LEFT, edges[0]), _state(join, Side.RIGHT, edges[1])),
        _cleaning_ns(stored[0], stored[1], traffic.match, constants, resolve(invalidation)),
        sum(traffic.rates) * ARRIVAL_NS + JOIN_NS,
    )


def _state(join: SharedJoin, side: Side, edges: Edges) -> StateLoad:
    starts, ends = edges.path(join.cuts[side])
    stream = join.streams[side]
    return StateLoad(
        stream.name,
        join.axes[side],
        join.cuts[side],
        row_bytes(stream.schema),
        edges.rows(starts, ends),
        edges.comparisons(starts, ends),
        edges.routed(starts, ends),
        edges.length(starts, ends),
    )


def _cleaning_ns(left: float, right: float, match: float, constants: Constants, invalidation: str) -> float:
    if not (left and right and match):
        return 0.0
    load = Load(left, right, 0, 0, 1 / match)
    elsewhere = visits(load, invalidation)
    return (checks(load, invalidation) - elsewhere) * constants.check_ns + elsewhere * constants.visit_ns


def match_seen(join: SharedJoin, traffic: Traffic, comparisons: float) -> float:
    """The chance that two rows have the same key, from the rows that a running join looked at per second."""
    most = predict_join(join, replace(traffic, match=1.0), NOTHING.constants).comparisons
    return min(comparisons / most, 1.0) if most else 0.0


# -- a whole job ---------------------------------------------------------------------------------------------------


def traffics_of(plan: Plan, knowledge: Knowledge = NOTHING) -> Traffics:
    """What is known of each join of a plan in which every group of queries shares one."""
    return {signature(join.queries[0]): traffic_of(join, knowledge) for join in plan.joins}


def predict(spec: JobSpec, plan: Plan, traffics: Traffics, constants: Constants) -> Prediction:
    """A plan for the job by any strategy."""
    joins = (
        predict_join(join, traffics[signature(join.queries[0])], constants, spec.settings.invalidation)
        for join in plan.joins
    )
    return Prediction(plan.strategy, plan.chain, tuple(joins))


def with_cpu_opt(plan: Plan, traffics: Traffics, constants: Constants) -> Plan:
    """The same joins, cut where it costs least."""
    return replace(plan, joins=tuple(_recut(j, traffics[signature(j.queries[0])], constants) for j in plan.joins),
                   chain="cpu-opt")  # fmt: skip


def _recut(join: SharedJoin, traffic: Traffic, constants: Constants) -> SharedJoin:
    left, right = (cpu_opt(Edges(state, constants)).cuts for state in survivors(join, traffic))
    return replace(join, cuts=(left, right))


def alternatives(spec: JobSpec, knowledge: Knowledge = NOTHING) -> list[Prediction]:
    """State slices by Mem-Opt and by CPU-Opt, pull-up, push-down and isolated queries, in this order."""
    sliced = share(spec, "state-slice")
    return list(alternatives_to(sliced, spec, traffics_of(sliced, knowledge), knowledge.constants))


def alternatives_to(sliced: Plan, spec: JobSpec, traffics: Traffics, constants: Constants) -> Iterator[Prediction]:
    """The same, where the Mem-Opt plan and the traffic are at hand."""
    for plan in (sliced, with_cpu_opt(sliced, traffics, constants), pulled_up(sliced)):
        yield predict(spec, plan, traffics, constants)
    try:
        for join in sliced.joins:
            check_push_down(join, traffics[signature(join.queries[0])])
        yield predict(spec, share(spec, "push-down"), traffics, constants)
    except UsageError as error:
        yield Prediction("push-down", "none", (), error.message)
    yield predict(spec, Plan(tuple(alone(sliced)), "isolated", "none"), traffics, constants)


def pulled_up(sliced: Plan) -> Plan:
    """The plan of strategy pull-up, from that of state-slice."""
    joins = (replace(j, cuts=(j.cuts[0][-1:], j.cuts[1][-1:]), selects=False) for j in sliced.joins)
    return Plan(tuple(joins), "pull-up", "none", sliced.never)


def alone(sliced: Plan) -> Iterable[SharedJoin]:
    """Each query in a join of its own, to predict; which of them report late rows is left open."""

    def cuts(query: Query) -> tuple[Cuts, Cuts]:
        return (query.window.left,), (query.window.right,)

    pairs = ((join, query) for join in sliced.joins for query in join.queries)
    return (replace(j, index=n, queries=(q,), cuts=cuts(q)) for n, (j, q) in enumerate(pairs))


def check_push_down(join: SharedJoin, traffic: Traffic) -> None:
    """Refuse what `share` would refuse for its number of joins, before it makes them one by one.

    The classes of a mix that was not measured are the parts of the stream, each of which meets one of the other side.
    """
    mixes = traffic.mixes if traffic.known != "measured" else assumed(join).mixes
    parts = [mix.wants[mix.wants.any(axis=1)] for mix in mixes]
    least = max(map(len, parts))
    if least <= MOST_JOINS:
        least = int(np.count_nonzero(parts[0].astype(np.float32) @ parts[1].astype(np.float32).T))
    if least > MOST_JOINS:
        raise UsageError(f"strategy push-down would make at least {least:,} joins of one; the limit is {MOST_JOINS}")
