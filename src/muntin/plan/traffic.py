"""How the rows of a join's two streams divide over its queries: what every prediction is made from.

Rows of one side that the same queries want are one class; a *mix* says which classes there are and how much of the
side each of them is. With the rates, and the chance that two rows have the same key, it says how full each slice of a
state is and how much is looked at in it. Three sources, the better one first:

    measured   counts per class from a running job
    declared   rates, keys and selectivities that somebody gave
    assumed    nothing is known: 1,000 rows a second, 10,000 keys, and regions of the columns as follows

The constants in the selections divide each column into regions (regions.py). Where a column is compared by order, the
ranges from each constant up to the next are equally likely; within a range the constant itself has 10%, or all if
nothing lies between it and the next. Where a column is only ever tested for equality, a value that some query names is
as likely as a ninth of all values that none names. NULL is 1%. What cannot be indexed is true half of the time. Columns
are independent of each other. Up to 4,096 combinations of regions are enumerated, beyond that as many are drawn at
random, always the same.

Declared selectivities are then fitted: classes that satisfy a predicate are scaled until they have its fraction, the
others until they have the rest, for one predicate after the other, again and again until nothing changes (iterative
proportional fitting). Of all mixes with these fractions that finds the one nearest to the assumed. Declarations that
contradict each other, or a predicate that none of the classes satisfies, are met as far as it goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Literal

import numpy as np

from muntin.kernels.arrays import Bools, Floats, Int64s
from muntin.model import Axis, Expr, Query, Schema, Side
from muntin.plan.cost import DEFAULT, Constants
from muntin.plan.joins import Cuts, Partition, SharedJoin, signature
from muntin.plan.promise_lags import MeasuredLags
from muntin.plan.regions import Predicates, Regions

Known = Literal["assumed", "declared", "measured"]
Selectivities = Mapping[str, tuple[float | None, float | None]]
"""For queries by name, the fraction of the left and of the right rows that they select; None where not known."""

RATE = 1_000.0
"""Rows per second of a stream of which nothing is known."""
KEYS = 10_000.0
"""Equally frequent keys of a join of which nothing is known."""
POINTS = 0.1
"""What a constant has of the range that begins with it."""
OTHERS = 9
"""How many times as likely as a named value all that are not named are together."""
NULLS = 0.01
FOUND = 0.9
"""What finds a row in a table that it looks into."""
MOST_CLASSES = 4096
DRAWING = 1 << 30
"""Fewer are drawn where each has very many regions and predicates: this many outcomes are looked up at most."""
SEED = 2006
SWEEPS = 200
"""How often all declared selectivities are fitted at most,"""
UPDATES = 20_000
"""and how often any one is."""
STABLE = 1e-9


@dataclass(frozen=True, eq=False)
class Mix:
    """The classes of one side's rows: `wants[class, query]`, and `weights[class]` that sum to 1."""

    wants: Bools
    weights: Floats

    @cached_property
    def fractions(self) -> Floats:
        """For each query, the fraction of the rows that it wants."""
        return self.weights @ self.wants

    def only(self, columns: Sequence[int]) -> Mix:
        """The same rows with only some of the queries."""
        return Mix(self.wants[:, columns], self.weights)

    def weight(self, wants: Bools) -> float:
        """How much of the rows exactly these queries want."""
        return float(self.weights[(self.wants == wants).all(axis=1)].sum())


def uniform(fraction: float, queries: int) -> Mix:
    """Rows of which a fraction is wanted by every query, and the rest by none."""
    wants = np.repeat(np.array([[True], [False]]), queries, axis=1)
    return Mix(wants, np.array([fraction, 1 - fraction]))


@dataclass(frozen=True, eq=False)
class Traffic:
    """The streams of a join: rows per second of each, the chance that two rows have the same key, who wants which.

    `queries` are those of the whole group, in the order of the mixes' columns; any join over some of them, or over a
    part of the streams, sees what `mix` says.
    """

    rates: tuple[float, float]
    match: float
    mixes: tuple[Mix, Mix]
    known: Known
    queries: tuple[Query, ...]
    lags: tuple[MeasuredLags | None, MeasuredLags | None] = (None, None)
    """How long rows of each side wait for promises, where that was measured."""
    stays_s: tuple[float | None, float | None] = (None, None)
    """How long rows of each side stay on average that leave at ends of their own, where that was measured."""

    def mix(self, join: SharedJoin, side: Side) -> Mix:
        """The rows of the stream as a join sees them: those of another part of the stream are wanted by no query."""
        part = join.partitions[side]
        if part is not None:
            columns, wants = self._decided_by(part, side)
            return uniform(self.mixes[side].only(columns).weight(wants), len(join.queries))
        if not join.selects:
            return uniform(1.0, len(join.queries))
        if join.queries == self.queries:
            return self.mixes[side]
        columns = [self._column[q.name] for q in join.queries]
        if len(columns) == 1:
            return uniform(float(self.mixes[side].fractions[columns[0]]), 1)
        return self.mixes[side].only(columns)

    @cached_property
    def _column(self) -> dict[str, int]:
        return {q.name: n for n, q in enumerate(self.queries)}

    def _decided_by(self, part: Partition, side: Side) -> tuple[list[int], Bools]:
        """The queries for which a part decides whether they want its rows, and whether they do."""
        truth = {p.sql: holds for p, holds in zip(part.predicates, part.truths, strict=True)}
        wheres = [(n, q.where[side]) for n, q in enumerate(self.queries)]
        wants = {n: where is None or truth[where.sql] for n, where in wheres if where is None or where.sql in truth}
        return list(wants), np.array(list(wants.values()), bool)


@dataclass(frozen=True)
class Knowledge:
    """What is known of a job beside its text. `rates` are by stream; where `match` is not given it is 1 / `keys`.

    `measured` is the traffic of running joins, by the `signature` of their queries.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    keys: float | None = None
    match: float | None = None
    selectivities: Selectivities = field(default_factory=dict)
    measured: Mapping[tuple[object, ...], Traffic] = field(default_factory=dict)
    constants: Constants = DEFAULT


NOTHING = Knowledge()


def traffic_of(join: SharedJoin, knowledge: Knowledge = NOTHING) -> Traffic:
    """The best that is known of a join. What was measured without some of its queries still says how often the others
    find their rows, and how fast the streams are."""
    seen = knowledge.measured.get(signature(join.queries[0]))
    if seen is None:
        return assumed(join, knowledge.rates, knowledge.keys, knowledge.match, knowledge.selectivities)
    if set(seen.queries).issuperset(join.queries):
        return replace(seen, mixes=(seen.mix(join, Side.LEFT), seen.mix(join, Side.RIGHT)), queries=join.queries)
    left, right = (mix.fractions for mix in seen.mixes)
    known = {q.name: (float(left[n]), float(right[n])) for n, q in enumerate(seen.queries)}
    rates = {stream.name: rate for stream, rate in zip(join.streams, seen.rates, strict=True)}
    found = assumed(join, rates, match=seen.match, selectivities={**knowledge.selectivities, **known})
    return replace(found, lags=seen.lags)


def measured(
    join: SharedJoin, seconds: float, wants: tuple[Bools, Bools], counts: tuple[Int64s, Int64s], match: float
) -> Traffic:
    """The traffic of a join that ran: for each side the queries that want each class, and the rows of it that came."""
    left, right = (
        Mix(w, n / n.sum() if n.sum() else np.full(len(n), 1 / max(len(n), 1)))
        for w, n in zip(wants, counts, strict=True)
    )
    rates = (float(counts[0].sum() / seconds), float(counts[1].sum() / seconds))
    return Traffic(rates, match, (left, right), "measured", join.queries)


def assumed(
    join: SharedJoin,
    rates: Mapping[str, float] | None = None,
    keys: float | None = None,
    match: float | None = None,
    selectivities: Selectivities | None = None,
) -> Traffic:
    """The traffic of a join by what was declared; by assumption where nothing was."""
    left, right = ((rates or {}).get(s.name, s.rate) for s in join.streams)
    declared = {q.name: (selectivities or {})[q.name] for q in join.queries if q.name in (selectivities or {})}
    anything = declared or any(given is not None for given in (left, right, keys, match))
    if match is None:
        match = 1 / (KEYS if keys is None else keys)
    return Traffic(
        (RATE if left is None else left, RATE if right is None else right),
        match if join.keys else 1.0,
        (_assumed_mix(join, Side.LEFT, declared), _assumed_mix(join, Side.RIGHT, declared)),
        "declared" if anything else "assumed",
        join.queries,
    )


def _assumed_mix(join: SharedJoin, side: Side, declared: Selectivities) -> Mix:
    wheres = [q.where[side] for q in join.queries]
    distinct = {w.sql: w for w in wheres if w is not None}
    predicates = Predicates(list(distinct.values()), join.streams[side].schema)
    holds, weights = _merged(*_classes(predicates, _found(join, side)))
    number = {sql: n for n, sql in enumerate(distinct)}
    targets: dict[int, list[float]] = {}
    for query, where in zip(join.queries, wheres, strict=True):
        fraction = declared.get(query.name, (None, None))[side]
        if where is not None and fraction is not None:
            targets.setdefault(number[where.sql], []).append(min(max(fraction, 0.0), 1.0))
    means = [float(np.mean(given)) for given in targets.values()]
    always = np.ones((len(holds), 1), bool)
    wants = np.concatenate([holds, always], axis=1)[:, [-1 if w is None else number[w.sql] for w in wheres]]
    return Mix(wants, fit(weights, holds[:, list(targets)], means))


def selected_part(where: Expr, schema: Schema) -> float:
    """The part of a stream's rows that a selection is assumed to take."""
    holds, weights = _classes(Predicates([where], schema), {})
    return float(weights[holds[:, 0]].sum())


def _found(join: SharedJoin, side: Side) -> dict[str, float]:
    """How likely rows have looked into tables, and have found something."""
    columns = [f'"{side.prefix}{lookup.name}"' for lookup in join.streams[side].lookups]
    looked = {f"NOT ({column} IS NOT DISTINCT FROM NULL)": 1.0 for column in columns}
    return looked | dict.fromkeys(columns, FOUND)


def _classes(predicates: Predicates, known: Mapping[str, float]) -> tuple[Bools, Floats]:
    """The predicates that hold in combinations of regions, and how likely each combination is."""
    shares = [_shares(column) for column in predicates.columns]
    for expr, possible in zip(predicates.opaque, predicates.possible[len(shares) :], strict=True):
        likely = known.get(expr.sql, 0.5) if len(possible) == 2 else 1.0
        shares.append(np.array([1 - likely, likely][-len(possible) :]))
    if predicates.combinations <= MOST_CLASSES:
        return predicates.enumerate(), reduce(np.multiply.outer, shares, np.ones(1)).ravel()
    draw, drawn = np.random.default_rng(SEED), min(MOST_CLASSES, DRAWING // (len(shares) * len(predicates.predicates)))
    codes = [draw.choice(p, drawn, p=s) for p, s in zip(predicates.possible, shares, strict=True)]
    return predicates.holds(codes), np.full(drawn, 1 / drawn)


def _shares(column: Regions) -> Floats:
    """How likely each possible region of a column is."""
    points = len(column.points)
    shares = np.ones(column.size)
    if column.ordered:
        shares[1:-1:2], shares[2:-1:2] = POINTS, 1 - POINTS
        shares[1:-1:2][~column.possible[2:-1:2]] = 1
    else:
        shares[points] = OTHERS
    shares[-1] = 0
    shares *= (1 - NULLS) / shares[column.possible].sum()
    shares[-1] = NULLS
    return shares[column.possible]


def _merged(holds: Bools, weights: Floats) -> tuple[Bools, Floats]:
    """The same with each set of predicates once."""
    if holds.shape[1] == 0:
        return holds[:1], weights.sum(keepdims=True)
    packed = np.ascontiguousarray(np.packbits(holds, axis=1))
    _, first, place = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    return holds[first], np.bincount(place.ravel(), weights).astype(float)


def fit(weights: Floats, holds: Bools, fractions: Sequence[float]) -> Floats:
    """The weights scaled so that predicates `holds[class, n]` have these fractions, as far as that is possible."""
    sweeps = min(SWEEPS, UPDATES // max(len(fractions), 1) + 1)
    columns = np.ascontiguousarray(holds.T)
    for _ in range(sweeps):
        before = weights
        for column, fraction in zip(columns, fractions, strict=True):
            now = float(weights[column].sum())
            if 1e-12 < now < 1 - 1e-12:
                weights = weights * np.where(column, fraction / now, (1 - fraction) / (1 - now))
        weights = weights / weights.sum()
        if np.abs(weights - before).max() < STABLE:
            break
    return weights


@dataclass(frozen=True, eq=False)
class Survivors:
    """One side's state by age: how its rows get fewer, and how few rows of the other side look that far.

    For each of the side's windows, ascending: `kept` is the fraction of the side's rows that some query with this
    window or a larger one wants, `probing` the fraction of the other side's rows that look as far as this window, and
    `wanted` the fraction of all pairs of rows that one such query wants both of.
    """

    windows: Cuts
    seconds: Floats
    kept: Floats
    probing: Floats
    wanted: Floats
    rate: float
    other_rate: float
    match: float


def survivors(join: SharedJoin, traffic: Traffic) -> tuple[Survivors, Survivors]:
    """How long the rows of each side stay, and how far those of the other look; n rows are n / rate seconds."""
    left, right = traffic.mix(join, Side.LEFT), traffic.mix(join, Side.RIGHT)
    mixes = left, right, pairs(left, right)
    return _survivors(join, traffic, mixes, Side.LEFT), _survivors(join, traffic, mixes, Side.RIGHT)


def pairs(left: Mix, right: Mix) -> Mix:
    """Pairs of a row of each side, by the queries that want both; where there are too many classes, of some."""
    if len(left.weights) * len(right.weights) <= MOST_CLASSES:
        wants = left.wants[:, None] & right.wants
        return Mix(wants.reshape(-1, wants.shape[-1]), np.multiply.outer(left.weights, right.weights).ravel())
    draw = np.random.default_rng(SEED)
    ours, theirs = (draw.choice(len(m.weights), MOST_CLASSES, p=m.weights / m.weights.sum()) for m in (left, right))
    return Mix(left.wants[ours] & right.wants[theirs], np.full(MOST_CLASSES, 1 / MOST_CLASSES))


def _survivors(join: SharedJoin, traffic: Traffic, mixes: tuple[Mix, Mix, Mix], side: Side) -> Survivors:
    windows = join.windows[side]
    ends = np.array([q.window.side(side) for q in join.queries], np.int64)
    place = np.where(ends > 0, np.searchsorted(windows, ends) + 1, 0)
    per_second = max(traffic.rates[side], 1e-9) if join.axes[side] is Axis.ROWS else 1_000_000
    return Survivors(
        windows,
        np.array(windows) / per_second,
        _reaching(mixes[side], place, len(windows)),
        _reaching(mixes[side.other], place, len(windows)),
        _reaching(mixes[2], place, len(windows)),
        traffic.rates[side],
        traffic.rates[side.other],
        traffic.match,
    )


def _reaching(mix: Mix, place: Int64s, windows: int) -> Floats:
    """For each window, counted from 1 in `place[query]`: the fraction of rows wanted for it or for a larger one."""
    if windows == 1:
        return mix.weights[mix.wants[:, place > 0].any(axis=1)].sum(keepdims=True)
    order = np.argsort(-place, kind="stable")
    largest = order[mix.wants[:, order].argmax(axis=1)]
    wanted = mix.wants[np.arange(len(largest)), largest]
    counts = np.bincount(np.where(wanted, place[largest], 0), mix.weights, windows + 1).astype(float)
    return counts[::-1].cumsum()[::-1][1:]
