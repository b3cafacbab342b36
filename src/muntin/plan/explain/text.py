"""EXPLAIN for people: the plan in words, and the prediction beside those of the alternatives."""

from __future__ import annotations

import json
from collections.abc import Sequence

from muntin.model import AUTO, NO_CHAIN, JobSpec
from muntin.model.duration import format_us
from muntin.plan.choose import MARGIN
from muntin.plan.explain.describe import describe
from muntin.plan.explain.describe_joins import Pipelines
from muntin.plan.explain.description import (
    Alternative,
    ImpossibleAlternative,
    PlanDescription,
    StreamUse,
    TrafficUse,
    to_json,
)
from muntin.plan.explain.join_text import join_lines, query_lines
from muntin.plan.explain.order_text import order_lines
from muntin.plan.explain.words import DECIDED, LINES, LISTED, byte_size, count, number, rounded
from muntin.plan.strategies import STRATEGIES
from muntin.plan.traffic import Knowledge

HINT = (
    "what is assumed can be declared: RATE 500 PER SECOND in CREATE STREAM, or muntin explain --rate STREAM=500",
    "--keys 2000 --selectivity QUERY=0.1; or measured, after a run: muntin explain --checkpoint DIR",
)
CONSTANTS = {
    "assumed": "CPU by default constants (muntin calibrate --checkpoint DIR measures those of this machine)",
    "measured": "CPU by the constants that muntin calibrate measured",
}


def explain_json(
    spec: JobSpec, knowledge: Knowledge | None = None, begun_with: str | None = None, pipelines: Pipelines = ()
) -> str:
    """The plan for programs."""
    return json.dumps(to_json(describe(spec, knowledge, begun_with, pipelines)), indent=2)


def explain(
    spec: JobSpec, knowledge: Knowledge | None = None, begun_with: str | None = None, pipelines: Pipelines = ()
) -> str:
    """The plan for people."""
    return in_words(describe(spec, knowledge, begun_with, pipelines))


def in_words(plan: PlanDescription) -> str:
    """A plan that has been described, for people."""
    strategy = STRATEGIES[str(plan.settings["strategy"])]
    blocks = [_head(plan), _stream_lines(plan)]
    if strategy.divides_queries:
        blocks.append(["queries", *query_lines(plan.queries, plan.without_rows)])
    blocks += [join_lines(join, strategy.divides_queries, plan.without_rows) for join in plan.joins[:LISTED]]
    if (more := len(plan.joins) - LISTED) > 0:
        blocks.append([f"and {more:,} more joins, which --json lists"])
    blocks += [order_lines(plan.join_orders), _never_lines(plan), _prediction_lines(plan)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(plan: PlanDescription) -> list[str]:
    strategy = STRATEGIES[str(plan.settings["strategy"])]
    queries = count(sum(not query.hidden for query in plan.queries), "query", "queries")
    joins = strategy.headline(count(len(plan.joins), "join"))
    width = max(map(len, plan.settings))
    away = sum(query.planned_away for query in plan.never)
    lines = [f"{queries} in {joins}, one Spark job{f'; {away:,} more planned away' if away else ''}"]
    for name, value in plan.settings.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        lines.append(f"{name:<{width}} {shown}{DECIDED[getattr(plan.decided_by, name, None)]}")
    return [*lines, *_pipeline_lines(plan), "", *strategy.explanation]


def _pipeline_lines(plan: PlanDescription) -> list[str]:
    """Which join runs where, if not all of them in one streaming query."""
    joins: dict[int, list[str]] = {}
    for join in plan.joins:
        joins.setdefault(join.streaming_query, []).append(str(join.join))
    if len(joins) < 2:
        return []
    return [
        f"streaming query {n}: join {', '.join(joins[n][:LISTED])}" + (", ..." if len(joins[n]) > LISTED else "")
        for n in sorted(joins)
    ]


def _stream_lines(plan: PlanDescription) -> list[str]:
    width = max((len(stream.name) for stream in plan.streams), default=0)
    lines = ["streams"]
    for stream in plan.streams:
        lines.append(f"  {stream.name:<{width}}  {_use(stream)}")
        lines += [f"  {'':<{width}}  looks up {lookup}, before the exchange" for lookup in stream.lookups]
    return lines


def _use(stream: StreamUse) -> str:
    if stream.only_in_vain:
        return "not read: the queries that use it can have no rows"
    if not stream.read:
        return "not read: no query uses it"
    late = f"out of order by up to {format_us(stream.lateness_us)}" if stream.lateness_us else "in order"
    if stream.idle_us:
        late += f", idle after {format_us(stream.idle_us)}"
    times = "once" if stream.readers == 1 else f"by {stream.readers} streaming queries"
    source = f"; {stream.source}" if stream.source else ""
    return f"read {times}, {late}, for {_joins(stream.joins)}{source}"


def _joins(numbers: Sequence[int]) -> str:
    return f"join {', '.join(map(str, numbers))}" if len(numbers) <= LISTED else count(len(numbers), "join")


def _never_lines(plan: PlanDescription) -> list[str]:
    away = [query for query in plan.never if query.planned_away]
    lines = [f"  {query.name}: {query.selection}" for query in away[:LINES]]
    more = [f"  and {len(away) - LINES:,} more, which --json lists"] if len(away) > LINES else []
    title = "planned away, since no row can satisfy the selection; the output stays empty"
    return [title, *lines, *more] if away else []


# -- predictions -----------------------------------------------------------------------------------------------------


def _prediction_lines(plan: PlanDescription) -> list[str]:
    if not plan.joins:
        return []
    rests: dict[str, list[int]] = {}
    for join in plan.joins:
        rests.setdefault(_rests_on(join.traffic), []).append(join.join)
    lines = ["predicted for a steady state, from"]
    for words, joins in rests.items():
        lines.append(f"  {words}" if len(rests) == 1 else f"  {_joins(joins)}: {words}")
    if any("assumed" in words for words in rests):
        lines += [f"  {line}" for line in HINT]
    return [*lines, "", *_alternative_lines(plan)]


def _rests_on(traffic: TrafficUse) -> str:
    """What is taken to come, by how that is known."""
    parts = [(f"{rate.stream} {number(rate.rows_per_second)} rows/s", rate.known) for rate in traffic.rates]
    if traffic.match:
        keys = f"{number(1 / traffic.match)} equally frequent keys"
        parts.append((f"matches like {keys}" if traffic.match_known == "measured" else keys, traffic.match_known))
    if traffic.selectivities_known:
        parts.append(("selectivities", traffic.selectivities_known))
    known: dict[str, list[str]] = {}
    for what, how in parts:
        known.setdefault(how, []).append(what)
    return "; ".join(f"{how}: {', '.join(whats)}" for how, whats in known.items())


def _alternative_lines(plan: PlanDescription) -> list[str]:
    header = ("strategy", "chain", "rows kept", "bytes", "comparisons/s", "routed by age/s", "CPU ms/s")
    cells = [header, *(_cells(way) for way in plan.alternatives if isinstance(way, Alternative))]
    widths = [max(len(row[n]) for row in cells) for n in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            f"{c:<{w}}" if n < 2 else f"{c:>{w}}" for n, (c, w) in enumerate(zip(row, widths, strict=True))
        )

    lines = [line(header)]
    for way in plan.alternatives:
        if isinstance(way, ImpossibleAlternative):
            reason = way.impossible.removeprefix(f"strategy {way.strategy} ")
            lines.append(f"{way.strategy:<{widths[0]}}  {_chain(way.chain):<{widths[1]}}  impossible: it {reason}")
        else:
            lines.append(line(_cells(way)) + ("  <- chosen" if way.chosen else ""))
    return [*lines, *_reasons(plan)]


def _cells(way: Alternative) -> tuple[str, ...]:
    work = way.comparisons_per_second, way.routed_by_age_per_second, way.cpu_ms_per_second
    return way.strategy, _chain(way.chain), rounded(way.rows), byte_size(way.bytes), *map(number, work)


def _chain(name: str) -> str:
    return "" if name == NO_CHAIN else name


def _reasons(plan: PlanDescription) -> list[str]:
    lines = [f"work is per second of stream time; {CONSTANTS[plan.constants.known]}"]
    if AUTO in (plan.decided_by.strategy, plan.decided_by.chain):
        fits = " of what fits into state_limit" if plan.settings.get("state_limit_bytes") else ""
        lines.append(f"auto takes the least CPU{fits}, and the smallest state of all within {MARGIN:.0%} of it")
    return lines
