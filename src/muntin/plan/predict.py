"""What a plan will hold and cost: rows, bytes and work of each slice, for every way of sharing.

The work of a slice is that of chains/edges.py. Beside its slices a join costs:

    cleaning   comparisons made to find stale rows (invalidations/), by the job's `invalidation`
    standing   every row of both streams is packed, sent and classified for every join that reads it, wanted or not, and
               an operator has work in each micro-batch even if no row comes: `ARRIVAL_NS` and `JOIN_NS`. Not measured;
               they keep many small joins from looking free

Selections decide what is stored and who probes, unless a join is without (`selects`). A join for a part of a stream
gets the rows of that part; the others are rows that no query of it wants. Numbers are averages of a steady state, per
second of stream time where they are work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from muntin.kernels.arrays import Floats
from muntin.model import AUTO, NO_CHAIN, Axis, JobSpec, Schema, Side, UsageError
from muntin.model.types import decimal_parts, nested_kind, nested_parts
from muntin.plan.chains import CHAINS, Chain, Edges
from muntin.plan.cost import Constants, Load
from muntin.plan.invalidations import Invalidation, invalidation_of
from muntin.plan.joins import Cuts, Plan, SharedJoin, signature
from muntin.plan.punctuation import leave_at_own_ends
from muntin.plan.strategies import STRATEGIES, QueryGroups, group_queries
from muntin.plan.traffic import NOTHING, Knowledge, Traffic, survivors, traffic_of

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
    return INDEX_BYTES + OWN_BYTES + sum(_width(f.type) for f in schema)


def _width(kind: str) -> float:
    """The bytes that a value is taken to have; an array or map is taken to have two elements."""
    if nested_kind(kind) is None:
        return DECIMAL_BYTES if decimal_parts(kind) else BYTES[kind]
    return (1 if nested_kind(kind) == "struct" else 2) * sum(_width(inner) for _, inner in nested_parts(kind))


# -- one join ------------------------------------------------------------------------------------------------------


def predict_join(join: SharedJoin, traffic: Traffic, constants: Constants, invalidation: str = AUTO) -> JoinLoad:
    """A join with its own cuts, under the traffic of its group of queries."""
    edges = [Edges(state, constants) for state in survivors(join, traffic)]
    stored = [float(e.inserted(0)) for e in edges]
    return JoinLoad(
        join,
        traffic,
        (_state(join, Side.LEFT, edges[0], traffic), _state(join, Side.RIGHT, edges[1], traffic)),
        _cleaning_ns(stored[0], stored[1], traffic.match, constants, invalidation_of(invalidation)),
        sum(traffic.rates) * ARRIVAL_NS + JOIN_NS,
    )


def _state(join: SharedJoin, side: Side, edges: Edges, traffic: Traffic) -> StateLoad:
    starts, ends = edges.path(join.cuts[side])
    stream, rows = join.streams[side], edges.rows(starts, ends)
    stays = _part_that_stays(join, side, edges, traffic, float(rows.sum()))
    return StateLoad(
        stream.name,
        join.axes[side],
        join.cuts[side],
        row_bytes(stream.schema),
        rows * stays,
        edges.comparisons(starts, ends) * stays,
        edges.routed(starts, ends) * stays,
        edges.length(starts, ends) * stays,
    )


def _part_that_stays(join: SharedJoin, side: Side, edges: Edges, traffic: Traffic, rows: float) -> float:
    """The part of the rows that is still there where rows leave at ends of their own; 1 where nobody has measured it.

    All slices are taken to have the same part: how the ends are spread is not known.
    """
    stay_s = traffic.stays_s[side] if leave_at_own_ends(join, side) else None
    return 1.0 if stay_s is None or not rows else min(1.0, stay_s * float(edges.inserted(0)) / rows)


def _cleaning_ns(left: float, right: float, match: float, constants: Constants, invalidation: Invalidation) -> float:
    if not (left and right and match):
        return 0.0
    load = Load(left, right, 0, 0, 1 / match)
    return invalidation.cleaning_ns(load, constants)


def match_seen(join: SharedJoin, traffic: Traffic, comparisons: float) -> float:
    """The chance that two rows have the same key, from the rows that a running join looked at per second."""
    most = predict_join(join, replace(traffic, match=1.0), NOTHING.constants).comparisons
    return min(comparisons / most, 1.0) if most else 0.0


# -- a whole job ---------------------------------------------------------------------------------------------------


def traffics_of(joins: Iterable[SharedJoin], knowledge: Knowledge = NOTHING) -> Traffics:
    """What is known of each join, where every group of queries shares one."""
    found: Traffics = {}
    every = list(joins)
    read = {stream.name for join in every for stream in join.streams if stream.derived}
    for join in every:
        found[signature(join.queries[0])] = traffic = traffic_of(join, knowledge)
        if read:
            knowledge = replace(knowledge, rates={**_output_rates(join, traffic, read), **knowledge.rates})
    return found


def _output_rates(join: SharedJoin, traffic: Traffic, read: Collection[str]) -> dict[str, float]:
    """Rows per second that the queries of a join put out which are read; where rows are counted, nobody knows."""
    if Axis.ROWS in join.axes:
        return {}
    met = traffic.rates[0] * traffic.rates[1] * traffic.match / 1e6
    left, right = (mix.fractions for mix in traffic.mixes)
    found = {
        query: float(met * left[n] * right[n] * sum(query.window.side(s) - query.window.starts[s] for s in Side))
        for n, query in enumerate(traffic.queries)
        if query.name in read
    }
    few = min(traffic.rates)
    return {query.name: rate if query.aggregation is None else min(rate, few) for query, rate in found.items()}


def predict(spec: JobSpec, plan: Plan, traffics: Traffics, constants: Constants) -> Prediction:
    """A plan for the job by any strategy."""
    joins = (
        predict_join(join, traffics[signature(join.queries[0])], constants, spec.settings.invalidation)
        for join in plan.joins
    )
    return Prediction(plan.strategy, plan.chain, tuple(joins))


def with_chain(plan: Plan, chain: Chain, traffics: Traffics, constants: Constants) -> Plan:
    """The same joins, cut as a chain says."""
    if plan.chain == chain.name:
        return plan
    joins = (_with_chain(join, chain, traffics[signature(join.queries[0])], constants) for join in plan.joins)
    return replace(plan, joins=tuple(joins), chain=chain.name)


def _with_chain(join: SharedJoin, chain: Chain, traffic: Traffic, constants: Constants) -> SharedJoin:
    left, right = (chain.cuts(Edges(state, constants)) for state in survivors(join, traffic))
    return replace(join, cuts=(left, right))


def alternatives(spec: JobSpec, knowledge: Knowledge = NOTHING) -> list[Prediction]:
    """The job by every strategy, and where it has chains by every one of these, in the order of the registries."""
    groups = group_queries(spec)
    return list(alternatives_of(groups, traffics_of(groups.joins, knowledge), knowledge.constants))


def alternatives_of(groups: QueryGroups, traffics: Traffics, constants: Constants) -> Iterator[Prediction]:
    """The same, where the traffic of each group of queries is at hand."""
    for strategy in STRATEGIES:
        try:
            strategy.check((join, traffics[signature(join.queries[0])]) for join in groups.joins)
            plan = strategy.plan(groups)
        except UsageError as error:
            yield Prediction(strategy.name, NO_CHAIN, (), error.message)
            continue
        chains = [with_chain(plan, c, traffics, constants) for c in CHAINS] if strategy.has_chains else [plan]
        for chained in chains:
            yield predict(groups.spec, chained, traffics, constants)
