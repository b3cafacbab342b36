"""EXPLAIN: the shared plan in words, each node once, as text or JSON."""

from __future__ import annotations

import json
from typing import Any

from muntin.model import Axis, JobSpec, Query, Side
from muntin.model.duration import format_us
from muntin.plan.cost import resolve
from muntin.plan.share import SharedJoin, share

LISTED = 6
"""Query names are listed up to this many, then counted."""
NUMBER_BYTES = 8
"""What each shard receives of each row of a stream whose rows are counted: its event time."""


def describe(spec: JobSpec) -> dict[str, Any]:
    """The plan as plain values; the text and the JSON are made of this."""
    plan = share(spec)
    read = {s.name for s in plan.streams}
    return {
        "settings": _settings(spec),
        "streams": [
            {
                "name": s.name,
                "time": s.time,
                "lateness_us": s.lateness_us,
                "read": s.name in read,
                "joins": [j.index + 1 for j in plan.joins if s in j.streams],
            }
            for s in spec.streams.values()
        ],
        "joins": [_join(join) for join in plan.joins],
    }


def _settings(spec: JobSpec) -> dict[str, Any]:
    """What the job will do, choices of `auto` made; limits only where they are set."""
    given = spec.settings
    chosen = {
        "strategy": "state-slice",
        "chain": "mem-opt",
        "order": given.order,
        "ordering": "sync-filter",
        "invalidation": resolve(given.invalidation),
    }
    limits = {"state_limit_bytes": given.state_limit_bytes, "fan_out_limit": given.fan_out_limit}
    return chosen | {name: value for name, value in limits.items() if value is not None}


def _join(join: SharedJoin) -> dict[str, Any]:
    left, right = (s.name for s in join.streams)
    return {
        "join": join.index + 1,
        "left": left,
        "right": right,
        "algorithm": "hash" if join.keys else "nested loops",
        "on": [{"left": k.left.text, "right": k.right.text, "type": k.type} for k in join.keys],
        "queries": [_query(q) for q in join.queries],
        "state": [_state(join, side) for side in Side],
    }


def _query(query: Query) -> dict[str, Any]:
    return {
        "name": query.name,
        "window": [{"axis": str(query.window.axes[side]), "from": 0, "to": query.window.side(side)} for side in Side],
        "selections": [None if w is None else w.text for w in query.where],
        "condition": None if query.residual is None else query.residual.text,
    }


def _state(join: SharedJoin, side: Side) -> dict[str, Any]:
    axis = join.axes[side]
    return {
        "stream": join.streams[side].name,
        "axis": str(axis),
        "reach": join.reach(side),
        "slices": [{"from": s.lo, "to": s.hi, "readers": list(s.readers)} for s in join.slices(side)],
        "sequencing_bytes_per_row_and_shard": NUMBER_BYTES if axis is Axis.ROWS else 0,
    }


def explain_json(spec: JobSpec) -> str:
    return json.dumps(describe(spec), indent=2)


def explain(spec: JobSpec) -> str:
    """The plan for people."""
    plan = describe(spec)
    queries, joins = sum(len(j["queries"]) for j in plan["joins"]), len(plan["joins"])
    lines = [f"{_count(queries, 'query', 'queries')} in {_count(joins, 'shared join')}, one Spark job"]
    width = max(map(len, plan["settings"]))
    lines += [f"{name:<{width}} {value}" for name, value in plan["settings"].items()]
    lines += ["", "streams"]
    width = max((len(s["name"]) for s in plan["streams"]), default=0)
    for stream in plan["streams"]:
        lines.append(f"  {stream['name']:<{width}}  {_use(stream)}")
    for join in plan["joins"]:
        lines += ["", *_join_lines(join)]
    return "\n".join(lines)


def _use(stream: dict[str, Any]) -> str:
    if not stream["read"]:
        return "not read: no query uses it"
    late = f"out of order by up to {format_us(stream['lateness_us'])}" if stream["lateness_us"] else "in order"
    feeds = ", ".join(map(str, stream["joins"]))
    return f"read once, {late}, for join {feeds}"


def _join_lines(join: dict[str, Any]) -> list[str]:
    lines = [f"join {join['join']}  {join['left']} x {join['right']} on {_on(join)}"]
    width = max(len(q["name"]) for q in join["queries"])
    lines += [f"  query {query['name']:<{width}}  {_asks(query)}" for query in join["queries"]]
    if not join["on"]:
        lines.append("  every row goes to every shard to look for partners, and is kept in one of them")
    for state in join["state"]:
        lines += _state_lines(state)
    return lines


def _on(join: dict[str, Any]) -> str:
    if join["on"]:
        return " AND ".join(f"{k['left']} = {k['right']}" for k in join["on"])
    conditions = list(dict.fromkeys(q["condition"] for q in join["queries"]))
    where = conditions[0] if len(conditions) == 1 else "the condition of some query holds"
    return f"any pair (nested loops) where {where}"


def _asks(query: dict[str, Any]) -> str:
    """What one query wants of its join."""
    left, right = query["window"]
    sizes = [_place(w["to"], w["axis"]) for w in (left, right)]
    parts = [f"window {sizes[0]}" if left == right else f"window {sizes[0]} / {sizes[1]}"]
    wheres = " and ".join(w for w in query["selections"] if w)
    parts += [f"where {wheres}"] if wheres else []
    parts += [f"checked on each pair: {query['condition']}"] if query["condition"] else []
    return ", ".join(parts)


def _state_lines(state: dict[str, Any]) -> list[str]:
    axis, slices = state["axis"], state["slices"]
    kept = f"each row once, for {_place(state['reach'], axis)}, in {_count(len(slices), 'slice')}"
    lines = [f"  state of {state['stream']}: {kept}"]
    names = [f"[{_place(s['from'], axis)}, {_place(s['to'], axis)})" for s in slices]
    width = max(map(len, names))
    lines += [f"    {n:<{width}}  -> {_listed(s['readers'])}" for n, s in zip(names, slices, strict=True)]
    if axis == Axis.ROWS:
        each = f"{state['sequencing_bytes_per_row_and_shard']} bytes a row"
        lines.append(
            f"    every shard receives the event time of every row of {state['stream']} ({each}) to number the rows"
        )
    return lines


def _place(number: int, axis: str) -> str:
    return _count(number, "row") if axis == Axis.ROWS else format_us(number)


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return shown if len(names) <= LISTED else f"{shown} and {len(names) - LISTED} more"
