"""EXPLAIN: the shared plan in words, each node once, and what it costs beside the other ways of sharing.

The text stays short enough to read: what there are many of is listed up to a limit, then counted. The JSON has all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from muntin.model import Axis, JobSpec
from muntin.model.duration import format_us
from muntin.plan.choose import MARGIN
from muntin.plan.describe import Legs, describe
from muntin.plan.schedule import SCHEDULERS
from muntin.plan.traffic import Knowledge

__all__ = ["describe", "explain", "explain_json"]

LISTED = 6
"""Names, windows and selections in one line, joins of one plan: listed up to this many, then counted."""
LINES = 20
"""Queries of a join and slices of a state: listed up to this many,"""
FIRST, LAST = 10, 2
"""beyond it only so many from the young end and from the old one."""
WAYS = {
    "state-slice": (
        "a join keeps each row once, to the end of the last slice in which some query wants it, and finds each pair",
        "once: its age and its two rows say which queries it goes to",
    ),
    "pull-up": ("a join keeps each row once, for its largest window; selections and windows are checked on the pairs",),
    "push-down": (
        "the selections divide the streams, and each two parts that some query wants together have a join;",
        "a query gets the rows of its joins merged in order of time",
    ),
    "isolated": (
        "each query has a join of its own, which keeps the rows that it wants; nothing is shared but reading",
    ),
}
"""What each strategy does."""
DECIDED = {
    "auto": ", chosen by auto",
    "set": ", as set",
    "checkpoint": ", with which the checkpoint was begun",
    None: "",
}
SEVERAL = re.compile(r"\s(AND|OR)\s", re.IGNORECASE)
RANGE = re.compile(r"BETWEEN\s+\S+\s+AND", re.IGNORECASE)
HINT = (
    "what is assumed can be declared: RATE 500 PER SECOND in CREATE STREAM, or muntin explain --rate STREAM=500",
    "--keys 2000 --selectivity QUERY=0.1; or measured, after a run: muntin explain --checkpoint DIR",
)


def explain_json(
    spec: JobSpec, knowledge: Knowledge | None = None, begun_with: str | None = None, legs: Legs = ()
) -> str:
    return json.dumps(describe(spec, knowledge, begun_with, legs), indent=2)


def explain(spec: JobSpec, knowledge: Knowledge | None = None, begun_with: str | None = None, legs: Legs = ()) -> str:
    """The plan for people."""
    plan = describe(spec, knowledge, begun_with, legs)
    strategy = plan["settings"]["strategy"]
    blocks = [_head(plan), _stream_lines(plan)]
    if strategy == "push-down":
        blocks.append(["queries", *_query_lines(_queries(plan), _hopeless(plan))])
    blocks += [_join_lines(join, strategy, _hopeless(plan)) for join in plan["joins"][:LISTED]]
    if (more := len(plan["joins"]) - LISTED) > 0:
        blocks.append([f"and {more:,} more joins, which --json lists"])
    blocks += [_never_lines(plan), _prediction_lines(plan)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(plan: dict[str, Any]) -> list[str]:
    settings, decided = plan["settings"], plan["decided_by"]
    queries = _count(len(_queries(plan)), "query", "queries")
    joins = {
        "isolated": f"{_count(len(plan['joins']), 'join')}, one for each",
        "push-down": f"{_count(len(plan['joins']), 'join')} of parts of the streams",
    }.get(settings["strategy"], _count(len(plan["joins"]), "shared join"))
    width = max(map(len, settings))
    away = sum(query["planned_away"] for query in plan["never"])
    lines = [f"{queries} in {joins}, one Spark job{f'; {away:,} more planned away' if away else ''}"]
    for name, value in settings.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        lines.append(f"{name:<{width}} {shown}{DECIDED[decided.get(name)]}")
    return [*lines, *_leg_lines(plan), "", *WAYS[settings["strategy"]]]


def _leg_lines(plan: dict[str, Any]) -> list[str]:
    """Which join runs where, if not all of them in one streaming query."""
    joins: dict[int, list[str]] = {}
    for join in plan["joins"]:
        joins.setdefault(join["streaming_query"], []).append(str(join["join"]))
    if len(joins) < 2:
        return []
    return [
        f"streaming query {n}: join {', '.join(joins[n][:LISTED])}" + (", ..." if len(joins[n]) > LISTED else "")
        for n in sorted(joins)
    ]


def _queries(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The queries of all joins, each once."""
    return list({query["name"]: query for join in plan["joins"] for query in join["queries"]}.values())


def _hopeless(plan: dict[str, Any]) -> set[str]:
    """Queries that can have no rows and are in a join all the same."""
    return {query["name"] for query in plan["never"] if not query["planned_away"]}


def _stream_lines(plan: dict[str, Any]) -> list[str]:
    width = max((len(s["name"]) for s in plan["streams"]), default=0)
    return ["streams", *(f"  {stream['name']:<{width}}  {_use(stream)}" for stream in plan["streams"])]


def _use(stream: dict[str, Any]) -> str:
    if stream["asked_in_vain"]:
        return "not read: the queries that use it can have no rows"
    if not stream["read"]:
        return "not read: no query uses it"
    late = f"out of order by up to {format_us(stream['lateness_us'])}" if stream["lateness_us"] else "in order"
    if stream["idle_us"]:
        late += f", idle after {format_us(stream['idle_us'])}"
    joins = stream["joins"]
    feeds = f"join {', '.join(map(str, joins))}" if len(joins) <= LISTED else _count(len(joins), "join")
    times = "once" if stream["readers"] == 1 else f"by {stream['readers']} streaming queries"
    return f"read {times}, {late}, for {feeds}"


def _never_lines(plan: dict[str, Any]) -> list[str]:
    away = [query for query in plan["never"] if query["planned_away"]]
    lines = [f"  {query['name']}: {query['selection']}" for query in away[:LINES]]
    more = [f"  and {len(away) - LINES:,} more, which --json lists"] if len(away) > LINES else []
    title = "planned away, since no row can satisfy the selection; the output stays empty"
    return [title, *lines, *more] if away else []


# -- joins -----------------------------------------------------------------------------------------------------------


def _join_lines(join: dict[str, Any], strategy: str, hopeless: set[str]) -> list[str]:
    lines = [f"join {join['join']}  {join['left']} x {join['right']} on {_on(join)}"]
    if strategy == "push-down":
        lines.append(f"  queries {_listed([query['name'] for query in join['queries']])}")
    else:
        lines += _query_lines(join["queries"], hopeless)
    if not join["on"]:
        lines.append("  every row goes to every shard to look for partners, and is kept in one of them")
    for state, part in zip(join["state"], join["parts"], strict=True):
        lines += _state_lines(state, part)
    lines += [*map(_promise, join["promises"]), f"  {_order(join['order'])}"]
    return [*lines, *(f"  {line}" for line in _scheduling_lines(join["scheduling"]))]


def _scheduling_lines(found: dict[str, Any]) -> list[str]:
    """In which order work is done, where that can be seen, and how long each query then waits for its rows."""
    if found["delivery"] == "batch":
        return ["delivery batch: rows go out with their micro-batch, the order of work inside it cannot be seen"]
    name = found["scheduler"] + DECIDED[found["scheduler_by"]]
    lines = [f"delivery eager: results go out as they are found, in the order of scheduler {name};"]
    lines.append(f"mean response after {_count(found['burst_rows'], 'row')} at once, in ms of one core")
    cells = [("query", *SCHEDULERS)]
    for query, times in list(found["response_ms"].items())[:LINES]:
        cells.append((query, *(_number(times[scheduler]) for scheduler in SCHEDULERS)))
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    for query, *shown in cells:
        lines.append(f"  {query:<{widths[0]}}" + "".join(f"  {t:>{w}}" for t, w in zip(shown, widths[1:], strict=True)))
    if (more := len(found["response_ms"]) - LINES) > 0:
        lines.append(f"  and {more:,} more queries, which --json lists")
    return lines


def _promise(said: dict[str, Any]) -> str:
    """What a stream promises, and what that does."""
    how = ["each row says that its key is over"] if said["unique"] else []
    how += ["punctuations say which keys are over"] if said["punctuated"] else []
    bound = f" for {format_us(said['binding_us'])}" if said["binding_us"] else " for good"
    left = "" if said["rows_left"] is None else f": about {_rows(said['rows_left'])} if each finds its key there"
    return f"  {said['stream']}: {' and '.join(how)}{bound}, which frees rows of {said['frees_rows_of']}{left}"


def _order(order: dict[str, Any]) -> str:
    """What waits while one stream is behind (rows under sync-filter, results under filter-order), and why."""
    if "since_the_join" in order:
        return f"sync-filter: the join {order['since_the_join']}"
    beside, alpha = "", order["alpha"]
    if alpha is not None:
        beside = f", {'below' if order['load'] < alpha else 'not below'} alpha {alpha:g}"
    wait, gain = _number(1000 * order["response_s"]["sync-filter"]), _number(100 * order["gain"])
    answers = f"a row waits {wait} ms for its partners' stream, with filter-order {gain}% less"
    return f"{order['ordering']}: load {_number(order['load'])}{beside}; {answers}"


def _on(join: dict[str, Any]) -> str:
    if join["on"]:
        return " AND ".join(f"{k['left']} = {k['right']}" for k in join["on"])
    conditions = list(dict.fromkeys(q["condition"] for q in join["queries"]))
    where = conditions[0] if len(conditions) == 1 else "the condition of some query holds"
    return f"any pair (nested loops) where {where}"


def _query_lines(queries: Sequence[dict[str, Any]], hopeless: set[str]) -> list[str]:
    shown = queries if len(queries) <= LINES else queries[:FIRST]
    width = max(len(query["name"]) for query in shown)
    vain = {name: "; no row can satisfy this, the output stays empty" for name in hopeless}
    lines = [f"  query {q['name']:<{width}}  {_asks(q)}{vain.get(q['name'], '')}" for q in shown]
    more = len(queries) - len(shown)
    return [*lines, f"  and {more:,} more queries, which --json lists"] if more else lines


def _asks(query: dict[str, Any]) -> str:
    """What one query wants of its join, and how much of each stream that is."""
    left, right = query["window"]
    sizes = [_place(w["to"], w["axis"]) for w in (left, right)]
    parts = [f"window {sizes[0]}" if left == right else f"window {sizes[0]} / {sizes[1]}"]
    selections = zip(query["selections"], query["selectivities"], query["streams"], strict=True)
    wheres = " and ".join(f"{where} ({_percent(share)} of {stream})" for where, share, stream in selections if where)
    parts += [f"where {wheres}"] if wheres else []
    parts += [f"checked on each pair: {query['condition']}"] if query["condition"] else []
    return ", ".join(parts) + (f"; {_aggregated(query['aggregates'])}" if query["aggregates"] else "")


def _aggregated(asked: dict[str, Any]) -> str:
    """What becomes of the pairs, and where: a group on the join key is whole in its shard."""
    calls, top = _listed(asked["calls"]) or "DISTINCT", asked["top"]
    if top:
        calls = f"the {top['limit']} first" if top["limit"] > 1 else "the first"
        calls += f" by {_listed(top['order'])}"
    groups = f" {'of each' if top else 'by'} {_listed(asked['groups'])}" if asked["groups"] else ""
    when = f"every {format_us(asked['every_us'])}" if asked["every_us"] else "at every change"
    when = _once(asked["over_by"]) if asked["final"] else when
    where = "each group in one shard"
    if asked["second_exchange"]:
        where = "added up in each shard, then over all of them in a second exchange"
        told = _listed(asked["values_told"])
        where += f", with the different values of {told}" if told else ""
    if top:
        where = "those of each shard merged in a second exchange" if asked["second_exchange"] else where
        fewer = "no other" if top["limit"] == 1 else f"fewer than {top['limit']} others"
        where += f", of pairs with {fewer} before them for as long as they stay"
    return f"{calls}{groups} {when}, {where}"


def _once(over_by: list[str]) -> str:
    """When a group is over; where nobody says so, totals of all groups are kept until the streams end."""
    if not over_by:
        return "told when the streams end: neither of them says that a key is over"
    return f"told once, when {' or '.join(over_by)} says that the key is over"


def _state_lines(state: dict[str, Any], part: dict[str, list[str]] | None) -> list[str]:
    axis, slices, stream = state["axis"], state["slices"], state["stream"]
    rows, size = (sum(s["predicted"][what] for s in slices) for what in ("rows", "bytes"))
    reach = _place(state["reach"], axis)
    held = f"about {_rows(rows)}, {_bytes(size)}"
    if len(slices) == 1:
        where = _where(slices[0], part)
        kept = f"of the last {reach}, rows where {where}" if where else f"the last {reach}"
        lines = [f"  state of {stream}: {kept}; {held}"]
        lines += [f"    {line}" for line in _routing(slices[0], axis)]
    else:
        lines = [f"  state of {stream}: the last {reach} in {_count(len(slices), 'slice')}; {held}"]
        lines += [f"    {line}" for line in _slice_lines(slices, axis)]
    if axis == Axis.ROWS:
        each = f"{state['sequencing_bytes_per_row_and_shard']} bytes a row"
        lines.append(f"    every shard receives the event time of every row of {stream} ({each}) to number the rows")
    return lines


def _where(piece: dict[str, Any], part: dict[str, list[str]] | None) -> str:
    """Which rows are in a state of one slice; empty where all are."""
    if part is None:
        return _any_of(piece["selection"] or [])
    holds, fails = part["holds"], part["does_not_hold"]
    words = [f"{_listed(holds)} {'holds' if len(holds) == 1 else 'hold'}"] if holds else []
    words += [f"{_listed(fails)} {'does' if len(fails) == 1 else 'do'} not"] if fails else []
    return " and ".join(words) + (" hold" if fails and not holds else "")


def _slice_lines(slices: Sequence[dict[str, Any]], axis: str) -> Iterator[str]:
    """A line for each slice, young ones first, and one more where it is merged."""
    cells = [("age", "rows", "read by", "selection before it")]
    shown = slices if len(slices) <= LINES else [*slices[:FIRST], *slices[-LAST:]]
    for piece in shown:
        ages = f"[{_place(piece['from'], axis)}, {_place(piece['to'], axis)})"
        selection = "all rows" if piece["selection"] is None else _any_of(piece["selection"])
        cells.append((ages, _rounded(piece["predicted"]["rows"]), _listed(piece["readers"]), selection))
    widths = [max(len(row[n]) for row in cells) for n in range(3)]
    for n, (ages, rows, readers, selection) in enumerate(cells):
        if n == FIRST + 1 and len(shown) < len(slices):
            yield f"and {len(slices) - len(shown):,} more slices, which --json lists"
        yield f"{ages:<{widths[0]}}  {rows:>{widths[1]}}  {readers:<{widths[2]}}  {selection}"
        if n > 0:
            yield from (f"  {line}" for line in _routing(shown[n - 1], axis))


def _routing(piece: dict[str, Any], axis: str) -> list[str]:
    """Of a merged slice, how its pairs find their queries."""
    if not piece["merged"]:
        return []
    windows = _listed([_place(w, axis) for w in piece["windows"]])
    return [f"several windows end in it: pairs are routed by age among {windows}"]


# -- predictions -----------------------------------------------------------------------------------------------------


def _prediction_lines(plan: dict[str, Any]) -> list[str]:
    if not plan["joins"]:
        return []
    rests: dict[str, list[int]] = {}
    for join in plan["joins"]:
        rests.setdefault(_rests_on(join["traffic"]), []).append(join["join"])
    lines = ["predicted for a steady state, from"]
    for words, joins in rests.items():
        numbers = f"join {', '.join(map(str, joins))}" if len(joins) <= LISTED else _count(len(joins), "join")
        lines.append(f"  {words}" if len(rests) == 1 else f"  {numbers}: {words}")
    if any("assumed" in words for words in rests):
        lines += [f"  {line}" for line in HINT]
    return [*lines, "", *_alternative_lines(plan)]


def _rests_on(traffic: dict[str, Any]) -> str:
    """What is taken to come, by how that is known."""
    parts = [
        (f"{rate['stream']} {_number(rate['rows_per_second'])} rows/s", rate["known"]) for rate in traffic["rates"]
    ]
    if traffic["match"]:
        keys = f"{_number(1 / traffic['match'])} equally frequent keys"
        parts.append((f"matches like {keys}" if traffic["match_known"] == "measured" else keys, traffic["match_known"]))
    if traffic["selectivities_known"]:
        parts.append(("selectivities", traffic["selectivities_known"]))
    known: dict[str, list[str]] = {}
    for what, how in parts:
        known.setdefault(how, []).append(what)
    return "; ".join(f"{how}: {', '.join(whats)}" for how, whats in known.items())


def _alternative_lines(plan: dict[str, Any]) -> list[str]:
    header = ("strategy", "chain", "rows kept", "bytes", "comparisons/s", "routed by age/s", "CPU ms/s")
    cells = [header, *(_cells(way) for way in plan["alternatives"] if "impossible" not in way)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            f"{c:<{w}}" if n < 2 else f"{c:>{w}}" for n, (c, w) in enumerate(zip(row, widths, strict=True))
        )

    lines = [line(header)]
    for way in plan["alternatives"]:
        if "impossible" in way:
            reason = way["impossible"].removeprefix(f"strategy {way['strategy']} ")
            lines.append(f"{way['strategy']:<{widths[0]}}  {_chain(way):<{widths[1]}}  impossible: it {reason}")
        else:
            lines.append(line(_cells(way)) + ("  <- chosen" if way["chosen"] else ""))
    return [*lines, *_reasons(plan)]


def _cells(way: dict[str, Any]) -> tuple[str, ...]:
    work = ("comparisons_per_second", "routed_by_age_per_second", "cpu_ms_per_second")
    return (way["strategy"], _chain(way), _rounded(way["rows"]), _bytes(way["bytes"]), *(_number(way[w]) for w in work))


def _chain(way: dict[str, Any]) -> str:
    return "" if way["chain"] == "none" else str(way["chain"])


def _reasons(plan: dict[str, Any]) -> list[str]:
    constants = plan["constants"]["known"]
    by = {
        "assumed": "CPU by default constants (muntin calibrate --checkpoint DIR measures those of this machine)",
        "measured": "CPU by the constants that muntin calibrate measured",
    }
    lines = [f"work is per second of stream time; {by[constants]}"]
    decided, limit = plan["decided_by"], plan["settings"].get("state_limit_bytes")
    if "auto" in (decided["strategy"], decided["chain"]):
        fits = " of what fits into state_limit" if limit else ""
        lines.append(f"auto takes the least CPU{fits}, and the smallest state of all within {MARGIN:.0%} of it")
    return lines


# -- words -----------------------------------------------------------------------------------------------------------


def _any_of(selections: Sequence[str]) -> str:
    """One selection or another."""
    return _listed(_grouped(selections) if len(selections) > 1 else selections, " OR ")


def _grouped(selections: Sequence[str]) -> list[str]:
    """Selections in parentheses where they are more than one comparison."""
    return [f"({s})" if SEVERAL.search(RANGE.sub("", s)) and s[:1] + s[-1:] != "()" else s for s in selections]


def _place(number: int, axis: str) -> str:
    return _count(number, "row") if axis == Axis.ROWS else format_us(number)


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _listed(names: Sequence[str], joined: str = ", ") -> str:
    shown, more = joined.join(names[:LISTED]), len(names) - LISTED
    return f"{shown}{' and ' if joined == ', ' else joined}{more:,} more" if more > 0 else shown


def _rounded(rows: float) -> str:
    return "<1" if 0 < rows < 1 else f"{rows:,.0f}"


def _rows(rows: float) -> str:
    return f"{_rounded(rows)} {'row' if rows <= 1 else 'rows'}"


def _number(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(fraction: float) -> str:
    return f"{fraction:.0%}" if fraction >= 0.1 else f"{100 * fraction:.2g}%"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.4g} TB"
