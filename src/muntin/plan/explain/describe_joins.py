"""The joins of a plan, as the tree of `description`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import starmap
from typing import Literal

from muntin.model import AUTO, Aggregation, Axis, JoinKind, Pattern, Query, Settings, Side, Stream, is_numeric
from muntin.model.event_time import time_text
from muntin.plan.choose import Choice
from muntin.plan.cost import Constants
from muntin.plan.explain.description import (
    AggregatesUse,
    FirstPairs,
    FixedOrdering,
    JoinDescription,
    KeyEquality,
    OrderingForecast,
    OrderUse,
    PromiseUse,
    QueryUse,
    RateUse,
    SchedulingForecast,
    StateSliceUse,
    StateUse,
    StreamPart,
    TrafficUse,
    TreeUse,
    WindowSpan,
    Work,
)
from muntin.plan.families import combined, distinct_values_sent
from muntin.plan.hot_keys import why_at_home
from muntin.plan.joins import Partition, SharedJoin, Slice, signature
from muntin.plan.ordered import ordered_values, why_every_pair
from muntin.plan.orderings import ORDERINGS, SYNC_FILTER, gain, pace_of, reason_to_wait
from muntin.plan.placement import why_unheard, why_unheeded
from muntin.plan.predict import JoinLoad, Prediction, SliceLoad
from muntin.plan.promise_lags import AssumedLags, Lags
from muntin.plan.punctuation import has_promises, leave_at_own_ends, pattern_of, promising
from muntin.plan.punctuation_modes import PUNCTUATION_MODES, PunctuationMode
from muntin.plan.response_times import burst_of
from muntin.plan.schedulers import SCHEDULERS
from muntin.plan.traffic import Knowledge, Traffic

NUMBER_BYTES = 8
"""What each shard receives of each row of a stream whose rows are counted: its event time."""
Pipelines = Sequence[Collection[str]]
"""The streams that each streaming query of a job reads."""
Fractions = Mapping[str, Sequence[float]]
"""For queries by name, the fraction of the left and of the right rows that they select."""


def describe_joins(choice: Choice, settings: Settings, known: Knowledge, pipelines: Pipelines) -> list[JoinDescription]:
    """The joins of the plan, each with its prediction."""
    loads = choice.prediction.joins
    of_group = {load.traffic: load for load in loads}
    fractions = _fractions(of_group)
    traffics = {traffic: _traffic(load, known) for traffic, load in of_group.items()}
    mode = PUNCTUATION_MODES[settings.punctuations]
    described = []
    for load in loads:
        join = load.join
        left, right = (stream.name for stream in join.streams)
        described.append(
            JoinDescription(
                join=join.index + 1,
                left=left,
                right=right,
                algorithm="hash" if join.keys else "nested loops" if why_every_pair(join) else "ordered",
                on=[KeyEquality(k.left.text, k.right.text, k.type) for k in join.keys],
                in_order_of=_values(join),
                every_pair_since=why_every_pair(join),
                hot_keys_wanted=settings.hot_keys == AUTO,
                keys_at_home_since=why_at_home(join, settings),
                parts=[_part(part) for part in join.partitions],
                selections_checked_on="rows" if join.selects else "pairs",
                queries=[_query(join, query, fractions[query.name], mode) for query in join.queries],
                state=[_state(load, side) for side in Side],
                traffic=traffics[load.traffic],
                predicted=work(load),
                order=_order(load, settings, mode),
                scheduling=_scheduling(join, load.traffic, settings, known.constants),
                streaming_query=pipeline_of(join, pipelines),
                promises=[use for side in Side if (use := _promise(load, side, mode)) is not None],
                tree=_tree(join, {load.join.index: load.join for load in loads}, mode),
            )
        )
    return described


def _tree(join: SharedJoin, joins: Mapping[int, SharedJoin], mode: PunctuationMode) -> TreeUse | None:
    if join.home == join.index:
        return None
    copy = join.queries[0].copy
    reads = [None if source is None else source + 1 for source in join.reads]
    arrives: list[Literal["found there", "by key", "in every shard"]] = [
        "found there" if join.reads[side] is not None else "in every shard" if join.everywhere[side] else "by key"
        for side in Side
    ]
    below = [None if source is None else joins[source] for source in join.reads]
    passed_on = [
        None
        if source is None or not has_promises(source) or not mode.listens
        else why_unheard(join, side, source) or why_unheeded(join)
        for side, source in zip(Side, below, strict=True)
    ]
    return TreeUse(reads, join.home + 1, arrives, passed_on, None if copy is None else copy.of)


def _values(join: SharedJoin) -> OrderUse | None:
    values = ordered_values(join)
    if values is None:
        return None
    low, high = (None if end is None else float(f"{end:.12g}") for end in (values.low, values.high))
    return OrderUse(*values.texts, low, high, not is_numeric(values.ranges[0].left.type))


def work(load: SliceLoad | JoinLoad | Prediction) -> Work:
    return Work(
        rows=round(load.rows, 3),
        bytes=round(load.bytes),
        comparisons_per_second=round(load.comparisons, 3),
        routed_by_age_per_second=round(load.routed, 3),
        cpu_ms_per_second=round(load.cpu_ns / 1e6, 6),
    )


def pipeline_of(join: SharedJoin, pipelines: Pipelines) -> int:
    """The number of the streaming query that runs a join: the first that reads both of its streams, or one more."""
    names = {stream.name for stream in join.streams}
    return next((n for n, reads in enumerate(pipelines, 1) if names <= set(reads)), len(pipelines) + 1)


def _fractions(traffics: Collection[Traffic]) -> Fractions:
    met: dict[str, Sequence[float]] = {}
    for traffic in traffics:
        left, right = (mix.fractions.tolist() for mix in traffic.mixes)
        met |= {query.name: both for query, both in zip(traffic.queries, zip(left, right, strict=True), strict=True)}
    return met


# -- order, schedule, promises ---------------------------------------------------------------------------------------


def _order(load: JoinLoad, settings: Settings, mode: PunctuationMode) -> FixedOrdering | OrderingForecast:
    join = load.join
    reason = reason_to_wait(join, mode.uses(join), settings.eager)
    if reason is not None:
        return FixedOrdering(SYNC_FILTER.name, reason)
    left, right = (join.reach(side) / 1e6 for side in Side)
    pace, ordering = pace_of((left, right), load.traffic.rates, load.cpu_ns / 1e9), ORDERINGS[settings.ordering]
    responses = {o.name: o.response_s(pace) for o in ORDERINGS}
    return OrderingForecast(
        ordering=ordering.for_load(pace.load, settings.alpha).name,
        alpha=settings.alpha if ordering.adapts else None,
        load=round(pace.load, 6),
        keeps_up=pace.keeps_up,
        response_s={name: round(seconds, 6) for name, seconds in responses.items() if seconds is not None},
        gain=round(gain(pace.load), 6),
    )


def _scheduling(join: SharedJoin, traffic: Traffic, settings: Settings, constants: Constants) -> SchedulingForecast:
    burst, t = burst_of(join, traffic, constants), constants.scan_ns + constants.deliver_ns
    response = {
        query.name: {s.name: round(burst.response(s, n, t) / 1e6, 6) for s in SCHEDULERS}
        for n, query in enumerate(join.queries)
    }
    return SchedulingForecast(
        delivery=settings.delivery,
        scheduler=burst.granularity.scheduler(settings.scheduler, burst.rows).name,
        scheduler_by=AUTO if settings.scheduler == AUTO else "set",
        burst_rows=round(burst.rows),
        levels=len(burst.granularity.levels),
        run_rows=burst.granularity.run_length,
        response_ms=response,
        mean_ms={s.name: round(burst.mean(s, t) / 1e6, 6) for s in SCHEDULERS},
        at_the_end=[q.name for q in join.queries if settings.eager and q.aggregation is not None],
    )


def _promise(load: JoinLoad, side: Side, mode: PunctuationMode) -> PromiseUse | None:
    """What one stream promises of the join's key; None where it promises nothing, or nobody listens.

    How many rows are left is predicted where lags were measured, or each row is a promise; else nobody knows how many
    punctuations come.
    """
    join, said = load.join, promising(load.join, side)
    if said is None or not mode.listens:
        return None
    freed, left = side.other, None
    seen: Lags | None = load.traffic.lags[freed]
    if seen is None and said.unique:
        seen = AssumedLags.of_unique_rows(1 / load.traffic.match, load.traffic.rates[side])
    if seen is not None and join.axes[freed] is Axis.TIME and not mode.binds_for_good:
        left = seen.rows(load.traffic.rates[freed], join.reach(freed) / 1e6, said.binding_us / 1e6)
    return PromiseUse(
        stream=join.streams[side].name,
        unique=said.unique,
        punctuated=said.marked,
        every_key=pattern_of(join, side) is Pattern.EVERY,
        binding_us=None if mode.binds_for_good else said.binding_us,
        frees_rows_of=join.streams[freed].name,
        rows_left=left,
        lags_known=None if left is None else "measured" if load.traffic.lags[freed] else "assumed",
    )


# -- queries ---------------------------------------------------------------------------------------------------------


def _part(part: Partition | None) -> StreamPart | None:
    if part is None:
        return None
    pairs = list(zip(part.predicates, part.truths, strict=True))
    return StreamPart(
        holds=[p.text for p, holds in pairs if holds], does_not_hold=[p.text for p, holds in pairs if not holds]
    )


def _query(join: SharedJoin, query: Query, fractions: Sequence[float], mode: PunctuationMode) -> QueryUse:
    return QueryUse(
        name=query.name,
        streams=[query.stream(side) for side in Side],
        window=[
            WindowSpan(str(query.window.axes[side]), query.window.starts[side], query.window.side(side))
            for side in Side
        ],
        until=[None if u is None else u.text for u in query.until],
        selections=[None if w is None else w.text for w in query.where],
        selectivities=[round(fraction, 6) for fraction in fractions],
        condition=None if query.residual is None else query.residual.text,
        join=_kind(query),
        after=None if query.after is None else query.after.text,
        aggregates=None if query.aggregation is None else _aggregates(join, query, query.aggregation, mode),
        hidden=query.hidden,
        past=_past(query),
    )


def _past(query: Query) -> str | None:
    if query.since_us is not None:
        return time_text(query.since_us)
    return "beginning" if query.from_beginning else None


def _kind(query: Query) -> str | None:
    """What a query makes of its matches, in words; None where they are its answer."""
    if query.kind is JoinKind.PAIRS:
        kept = " and ".join(query.stream(side) for side in sorted(query.preserved))
        return f"outer join, with rows of {kept} that have no match" if kept else None
    assert query.subject is not None
    of = query.stream(query.subject)
    return {
        JoinKind.SEMI: f"semi join, rows of {of} at their first match",
        JoinKind.ANTI: f"anti join, rows of {of} that have no match",
        JoinKind.ASOF: f"as-of join, rows of {of} with the latest match" + " or none" * bool(query.preserved),
    }[query.kind]


def _aggregates(join: SharedJoin, query: Query, wanted: Aggregation, mode: PunctuationMode) -> AggregatesUse:
    sent, over_by = distinct_values_sent(join, query), _over_by(join, query) if wanted.final and mode.listens else []
    top = None if wanted.top is None else FirstPairs(wanted.top.limit, [by.text for by in wanted.top.order])
    return AggregatesUse(
        calls=[call.text for call in wanted.calls],
        groups=[group.text for group in wanted.groups],
        top=top,
        having=None if wanted.having is None else wanted.having.text,
        every_us=wanted.every_us,
        final=wanted.final,
        over_by=[join.streams[side].name for side in over_by],
        over_by_all=len(query.preserved) > 1,
        second_exchange=combined(join, query),
        distinct_values=[c.arg.text for c in wanted.calls if c.arg is not None and sent.get(c.arg.sql)],
    )


def _over_by(join: SharedJoin, query: Query) -> list[Side]:
    """The sides whose promises end groups: where rows go out alone, all sides that these are of have to promise."""
    sides = [side for side in query.preserved or Side if promising(join, side)]
    return sides if len(sides) >= len(query.preserved) else []


# -- states ----------------------------------------------------------------------------------------------------------


def _state(load: JoinLoad, side: Side) -> StateUse:
    join = load.join
    queries = {query.name: query for query in join.queries}

    def one(piece: Slice, held: SliceLoad) -> StateSliceUse:
        return StateSliceUse(
            start=piece.lo,
            end=piece.hi,
            readers=list(piece.readers),
            merged=len(piece.windows) > 1,
            windows=list(piece.windows),
            selection=_admits(join, side, queries, piece),
            predicted=work(held),
        )

    return StateUse(
        stream=join.streams[side].name,
        axis=str(join.axes[side]),
        reach=join.reach(side),
        until=[until.text for until in join.own_windows.untils[side]],
        stay_s=load.traffic.stays_s[side] if leave_at_own_ends(join, side) else None,
        slices=list(starmap(one, zip(join.slices(side), load.states[side].slices, strict=True))),
        sequencing_bytes_per_row_and_shard=NUMBER_BYTES if join.axes[side] is Axis.ROWS else 0,
    )


def _admits(join: SharedJoin, side: Side, queries: Mapping[str, Query], piece: Slice) -> list[str] | None:
    """The selections of which a row must satisfy one to be in a slice (wang2006 6.1, cond'); None: every row is.

    They are those of the queries that read the slice. Who reads a later one reads this one too.
    """
    wheres = {where.sql: where.text for name in piece.readers if (where := queries[name].where[side])}
    everything = not join.selects or join.partitions[side] or any(not queries[n].where[side] for n in piece.readers)
    return None if everything else list(wheres.values())


# -- what predictions rest on ----------------------------------------------------------------------------------------


def _traffic(load: JoinLoad, known: Knowledge) -> TrafficUse:
    join, traffic = load.join, load.traffic
    seen = signature(join.queries[0]) in known.measured
    declared = known.keys is not None or known.match is not None
    return TrafficUse(
        rates=[
            RateUse(stream.name, rate, "measured" if seen else _rate_known(stream, known))
            for stream, rate in zip(join.streams, traffic.rates, strict=True)
        ],
        match=traffic.match if join.keys else None,
        match_known="measured" if seen else "declared" if declared else "assumed",
        selectivities_known=_selectivities_known(traffic, seen, known),
    )


def _rate_known(stream: Stream, known: Knowledge) -> str:
    return "declared" if stream.name in known.rates or stream.rate is not None else "assumed"


def _selectivities_known(traffic: Traffic, seen: bool, known: Knowledge) -> str | None:
    """None where no query has a selection."""
    selective = [(query, side) for query in traffic.queries for side in Side if query.where[side] is not None]
    if not selective:
        return None
    if traffic.known == "measured":
        return "measured"
    if seen:
        return "partly measured"
    declared = [known.selectivities.get(query.name, (None, None))[side] is not None for query, side in selective]
    return "declared" if all(declared) else "partly declared" if any(declared) else "assumed"
