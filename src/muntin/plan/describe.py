"""A plan with what it is predicted to hold and cost, as plain values: the JSON of EXPLAIN, and what its text says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from muntin.model import Aggregation, Axis, JobSpec, Query, Settings, Side, Stream
from muntin.plan.choose import Choice
from muntin.plan.choose import choose as choose_plan
from muntin.plan.cost import DEFAULT, Constants, resolve
from muntin.plan.families import combined, distinct_values_sent
from muntin.plan.ordering import ADAPTIVE, EAGERLY, FILTER_ORDER, SYNC_FILTER, choose, gain, must_wait, pace_of
from muntin.plan.predict import JoinLoad, Prediction, SliceLoad
from muntin.plan.punctuation import TOLD, are_used, promising, rows_after
from muntin.plan.response import burst_of
from muntin.plan.schedule import SCHEDULERS
from muntin.plan.share import Partition, Plan, SharedJoin, Slice, never_true, signature
from muntin.plan.traffic import NOTHING, Knowledge, Traffic

NUMBER_BYTES = 8
"""What each shard receives of each row of a stream whose rows are counted: its event time."""
Legs = Sequence[Collection[str]]
Fractions = Mapping[str, Sequence[float]]
"""For queries by name, the fraction of the left and of the right rows that they select."""


def describe(
    spec: JobSpec, knowledge: Knowledge | None = None, begun_with: str | None = None, legs: Legs = ()
) -> dict[str, Any]:
    """The plan of a job. `begun_with` is the strategy of its checkpoint, which `auto` does not change any more; `legs`
    are the streams that each of its streaming queries reads."""
    known, settings = knowledge or NOTHING, spec.settings
    kept = begun_with if begun_with and settings.strategy == "auto" else settings.strategy
    choice = choose_plan(replace(spec, settings=replace(settings, strategy=kept)), known)
    fractions = _fractions(choice)
    of_group = {load.traffic: load for load in choice.prediction.joins}
    traffics = {traffic: _traffic(load, known) for traffic, load in of_group.items()}
    return {
        "settings": _settings(spec, choice.plan),
        "decided_by": {
            "strategy": "checkpoint" if kept != settings.strategy else _decided_by(settings.strategy),
            "chain": _decided_by(settings.chain) if choice.plan.strategy == "state-slice" else None,
        },
        "streams": [_stream(stream, choice.plan, legs) for stream in spec.streams.values()],
        "joins": [
            {
                **_join(join, load, traffics[load.traffic], fractions, settings.punctuations),
                "order": _order(join, load, settings),
                "scheduling": _scheduling(join, load.traffic, settings, known.constants),
                "streaming_query": _leg(join, legs),
                "promises": _promises(join, load, settings.punctuations),
            }
            for join, load in _loads(choice)
        ],
        "never": _never(spec, choice.plan),
        "constants": {**asdict(known.constants), "known": "assumed" if known.constants == DEFAULT else "measured"},
        "alternatives": [_alternative(p, p is choice.prediction) for p in choice.alternatives],
    }


def _decided_by(setting: str) -> str:
    return "auto" if setting == "auto" else "set"


def _settings(spec: JobSpec, plan: Plan) -> dict[str, Any]:
    """What the job will do, choices of `auto` made; limits only where they are set."""
    given = spec.settings
    chosen = {
        "strategy": plan.strategy,
        "chain": plan.chain,
        "order": given.order,
        "ordering": given.ordering,
        "invalidation": resolve(given.invalidation),
    }
    limits = {
        "state_limit_bytes": given.state_limit_bytes,
        "fan_out_limit": given.fan_out_limit,
        "max_ahead_us": given.max_ahead_us,
        "held_limit_bytes": given.held_limit_bytes,
        "on_held_limit": given.on_held_limit if given.held_limit_bytes else None,
        "punctuations": given.punctuations if any(are_used(join, "pwjoin") for join in plan.joins) else None,
    }
    return chosen | {name: value for name, value in limits.items() if value is not None}


def _stream(stream: Stream, plan: Plan, legs: Legs) -> dict[str, Any]:
    asked = {query.stream(side) for query in plan.never for side in Side}
    reading = [join for join in plan.joins if stream in join.streams]
    joins = [join.index + 1 for join in reading]
    return {
        "name": stream.name,
        "time": stream.time,
        "lateness_us": stream.lateness_us,
        "idle_us": stream.idle_us,
        "read": bool(joins),
        "asked_in_vain": not joins and stream.name in asked,
        "joins": joins,
        "readers": len({_leg(join, legs) for join in reading}),
    }


def _never(spec: JobSpec, plan: Plan) -> list[dict[str, Any]]:
    """The queries that can have no rows, with the selection that is never true.

    Where all are like that they are not planned away: their joins run and keep nothing.
    """
    running = [query for join in plan.joins for query in join.queries]
    hopeless = plan.never or (running if running and never_true(spec, running[0]) else ())
    found = {query.name: never_true(spec, query) for query in hopeless}
    return [
        {"name": name, "selection": expr.text, "planned_away": bool(plan.never)} for name, expr in found.items() if expr
    ]


# -- joins -----------------------------------------------------------------------------------------------------------


def _loads(choice: Choice) -> list[tuple[SharedJoin, JoinLoad]]:
    """The joins of the plan, each with its prediction."""
    if choice.plan.strategy != "isolated":
        return [(load.join, load) for load in choice.prediction.joins]
    of_query = {load.join.queries[0].name: load for load in choice.prediction.joins}
    return [(join, of_query[join.queries[0].name]) for join in choice.plan.joins]


def _fractions(choice: Choice) -> Fractions:
    met: dict[str, Sequence[float]] = {}
    for traffic in {load.traffic for load in choice.prediction.joins}:
        left, right = (mix.fractions.tolist() for mix in traffic.mixes)
        met |= {query.name: both for query, both in zip(traffic.queries, zip(left, right, strict=True), strict=True)}
    return met


def _join(join: SharedJoin, load: JoinLoad, traffic: dict[str, Any], fractions: Fractions, how: str) -> dict[str, Any]:
    left, right = (s.name for s in join.streams)
    return {
        "join": join.index + 1,
        "left": left,
        "right": right,
        "algorithm": "hash" if join.keys else "nested loops",
        "on": [{"left": k.left.text, "right": k.right.text, "type": k.type} for k in join.keys],
        "parts": [_part(part) for part in join.partitions],
        "selections_checked_on": "rows" if join.selects else "pairs",
        "queries": [_query(join, query, fractions[query.name], how) for query in join.queries],
        "state": [_state(join, load, side) for side in Side],
        "traffic": traffic,
        "predicted": _work(load),
    }


def _order(join: SharedJoin, load: JoinLoad, settings: Settings) -> dict[str, Any]:
    """What waits for a stream that is behind, and how long a row of the faster stream takes to be answered."""
    told = TOLD if are_used(join, settings.punctuations) else None
    reason = must_wait(join) or told or (EAGERLY if settings.delivery == "eager" else None)
    if reason is not None:
        return {"ordering": SYNC_FILTER, "since_the_join": reason}
    left, right = (join.reach(side) / 1e6 for side in Side)
    pace = pace_of((left, right), load.traffic.rates, load.cpu_ns / 1e9)
    return {
        "ordering": choose(pace.load, settings.alpha) if settings.ordering == ADAPTIVE else settings.ordering,
        "alpha": settings.alpha if settings.ordering == ADAPTIVE else None,
        "load": round(pace.load, 6),
        "keeps_up": pace.keeps_up,
        "response_s": {SYNC_FILTER: round(pace.sync_response, 6), FILTER_ORDER: round(pace.filter_order_response, 6)},
        "gain": round(gain(pace.load), 6),
    }


def _scheduling(join: SharedJoin, traffic: Traffic, settings: Settings, constants: Constants) -> dict[str, Any]:
    """How long each query waits for its rows after a burst under each scheduler (hammad2003 3), were delivery eager."""
    burst = burst_of(join, traffic)
    response = {
        query.name: {name: round(burst.response(name, n, constants.scan_ns) / 1e6, 6) for name in SCHEDULERS}
        for n, query in enumerate(join.queries)
    }
    return {
        "delivery": settings.delivery,
        "scheduler": burst.best if settings.scheduler == "auto" else settings.scheduler,
        "scheduler_by": _decided_by(settings.scheduler),
        "burst_rows": round(burst.rows),
        "response_ms": response,
    }


def _leg(join: SharedJoin, legs: Legs) -> int:
    """The number of the streaming query that runs a join: the first that reads both of its streams, or one more."""
    names = {stream.name for stream in join.streams}
    return next((n for n, reads in enumerate(legs, 1) if names <= set(reads)), len(legs) + 1)


def _promises(join: SharedJoin, load: JoinLoad, how: str) -> list[dict[str, Any]]:
    """What each stream of a join promises of its key, and whose rows that frees.

    How many follows from equation 1 of ding2004 where each row is a promise; how many punctuations come nobody knows.
    """
    found = []
    for side in Side if how != "off" else ():
        said = promising(join, side)
        if said is None:
            continue
        freed, rate = side.other, load.traffic.rates[side]
        kept = None
        if said.unique and join.axes[freed] is Axis.TIME:
            window_s = join.reach(freed) / 1e6
            kept = rows_after(load.traffic.rates[freed], window_s, rate, 1.0, rate)
        found.append(
            {
                "stream": join.streams[side].name,
                "unique": said.unique,
                "punctuated": said.marked,
                "binding_us": said.binding_us if how == "pwjoin" else None,
                "frees_rows_of": join.streams[freed].name,
                "rows_left": kept,
            }
        )
    return found


def _part(part: Partition | None) -> dict[str, list[str]] | None:
    """The selections that hold for a part of a stream, and those that do not."""
    if part is None:
        return None
    pairs = list(zip(part.predicates, part.truths, strict=True))
    return {
        "holds": [p.text for p, holds in pairs if holds],
        "does_not_hold": [p.text for p, holds in pairs if not holds],
    }


def _query(join: SharedJoin, query: Query, fractions: Sequence[float], how: str) -> dict[str, Any]:
    return {
        "name": query.name,
        "streams": [query.stream(side) for side in Side],
        "window": [{"axis": str(query.window.axes[side]), "from": 0, "to": query.window.side(side)} for side in Side],
        "selections": [None if w is None else w.text for w in query.where],
        "selectivities": [round(fraction, 6) for fraction in fractions],
        "condition": None if query.residual is None else query.residual.text,
        "aggregates": None if query.aggregation is None else _aggregates(join, query, query.aggregation, how),
    }


def _aggregates(join: SharedJoin, query: Query, asked: Aggregation, how: str) -> dict[str, Any]:
    """What is made of the pairs, and where groups are put together; `values_told` of which they are told one by one.

    Groups that are told once are over for a key by the promises of the streams `over_by`, or when both streams end.
    """
    apart, promised = distinct_values_sent(join, query), asked.final and how != "off"
    told = [call.arg.text for call in asked.calls if call.arg is not None and apart.get(call.arg.sql)]
    return {
        "calls": [call.text for call in asked.calls],
        "groups": [group.text for group in asked.groups],
        "top": asked.top and {"limit": asked.top.limit, "order": [by.text for by in asked.top.order]},
        "having": None if asked.having is None else asked.having.text,
        "every_us": asked.every_us,
        "final": asked.final,
        "over_by": [join.streams[side].name for side in Side if promised and promising(join, side)],
        "second_exchange": combined(join, query),
        "values_told": told,
    }


def _state(join: SharedJoin, load: JoinLoad, side: Side) -> dict[str, Any]:
    axis, queries = join.axes[side], {query.name: query for query in join.queries}
    slices = zip(join.slices(side), load.states[side].slices, strict=True)
    return {
        "stream": join.streams[side].name,
        "axis": str(axis),
        "reach": join.reach(side),
        "slices": [_slice(piece, _admits(join, side, queries, piece), held) for piece, held in slices],
        "sequencing_bytes_per_row_and_shard": NUMBER_BYTES if axis is Axis.ROWS else 0,
    }


def _admits(join: SharedJoin, side: Side, queries: Mapping[str, Query], piece: Slice) -> list[str] | None:
    """The selections of which a row must satisfy one to be in a slice (wang2006 6.1, cond'); None: every row is.

    They are those of the queries that read the slice. Who reads a later one reads this one too.
    """
    wheres = {where.sql: where.text for name in piece.readers if (where := queries[name].where[side])}
    everything = not join.selects or join.partitions[side] or any(not queries[n].where[side] for n in piece.readers)
    return None if everything else list(wheres.values())


def _slice(piece: Slice, selection: list[str] | None, held: SliceLoad) -> dict[str, Any]:
    return {
        "from": piece.lo,
        "to": piece.hi,
        "readers": list(piece.readers),
        "merged": len(piece.windows) > 1,
        "windows": list(piece.windows),
        "selection": selection,
        "predicted": _work(held),
    }


def _work(load: SliceLoad | JoinLoad | Prediction) -> dict[str, float]:
    """Rows and bytes held on average, and what is done per second of stream time."""
    return {
        "rows": round(load.rows, 3),
        "bytes": round(load.bytes),
        "comparisons_per_second": round(load.comparisons, 3),
        "routed_by_age_per_second": round(load.routed, 3),
        "cpu_ms_per_second": round(load.cpu_ns / 1e6, 6),
    }


def _alternative(prediction: Prediction, chosen: bool) -> dict[str, Any]:
    named = {"strategy": prediction.strategy, "chain": prediction.chain, "chosen": chosen}
    if prediction.why_not:
        return {**named, "impossible": prediction.why_not}
    return {**named, "joins": len(prediction.joins), **_work(prediction)}


# -- what predictions rest on ----------------------------------------------------------------------------------------


def _traffic(load: JoinLoad, known: Knowledge) -> dict[str, Any]:
    """What is taken to come to the joins of a group of queries, and how that is known."""
    join, traffic = load.join, load.traffic
    seen = signature(join.queries[0]) in known.measured
    rates = [
        {"stream": stream.name, "rows_per_second": rate, "known": "measured" if seen else _rate_known(stream, known)}
        for stream, rate in zip(join.streams, traffic.rates, strict=True)
    ]
    declared = known.keys is not None or known.match is not None
    return {
        "rates": rates,
        "match": traffic.match if join.keys else None,
        "match_known": "measured" if seen else "declared" if declared else "assumed",
        "selectivities_known": _selectivities_known(traffic, seen, known),
    }


def _rate_known(stream: Stream, known: Knowledge) -> str:
    return "declared" if stream.name in known.rates or stream.rate is not None else "assumed"


def _selectivities_known(traffic: Traffic, seen: bool, known: Knowledge) -> str | None:
    """None where no query has a selection."""
    asked = [(query, side) for query in traffic.queries for side in Side if query.where[side] is not None]
    if not asked:
        return None
    if traffic.known == "measured":
        return "measured"
    if seen:
        return "partly measured"
    told = [known.selectivities.get(query.name, (None, None))[side] is not None for query, side in asked]
    return "declared" if all(told) else "partly declared" if any(told) else "assumed"
