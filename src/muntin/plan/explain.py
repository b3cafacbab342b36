"""EXPLAIN: the shared plan in words, each node once, as text or JSON."""

from __future__ import annotations

import json
from typing import Any

from muntin.model import JobSpec, Side
from muntin.model.duration import format_us
from muntin.plan.share import SharedJoin, share

LISTED = 6
"""Query names are listed up to this many, then counted."""


def describe(spec: JobSpec) -> dict[str, Any]:
    """The plan as plain values; the text and the JSON are made of this."""
    plan = share(spec)
    read = {s.name for s in plan.streams}
    return {
        "settings": {"strategy": "state-slice", "chain": "mem-opt", "order": spec.settings.order, "ordering": "sync-filter"},
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


def _join(join: SharedJoin) -> dict[str, Any]:
    left, right = (s.name for s in join.streams)
    return {
        "join": join.index + 1,
        "left": left,
        "right": right,
        "on": [{"left": k.left.text, "right": k.right.text, "type": k.type} for k in join.keys],
        "queries": [
            {
                "name": q.name,
                "window_us": [q.window.left, q.window.right],
                "selections": [None if w is None else w.text for w in q.where],
            }
            for q in join.queries
        ],
        "state": [
            {
                "stream": join.streams[side].name,
                "reach_us": join.reach(side),
                "slices": [{"from_us": s.lo, "to_us": s.hi, "readers": list(s.readers)} for s in join.slices(side)],
            }
            for side in Side
        ],
    }


def explain_json(spec: JobSpec) -> str:
    return json.dumps(describe(spec), indent=2)


def explain(spec: JobSpec) -> str:
    """The plan for people."""
    plan = describe(spec)
    queries, joins = sum(len(j["queries"]) for j in plan["joins"]), len(plan["joins"])
    lines = [f"{_count(queries, 'query', 'queries')} in {_count(joins, 'shared join')}, one Spark job"]
    lines += [f"{name:<9} {value}" for name, value in plan["settings"].items()]
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
    on = " AND ".join(f"{k['left']} = {k['right']}" for k in join["on"])
    lines = [f"join {join['join']}  {join['left']} x {join['right']} on {on}"]
    width = max(len(q["name"]) for q in join["queries"])
    for query in join["queries"]:
        left, right = query["window_us"]
        window = format_us(left) if left == right else f"{format_us(left)} / {format_us(right)}"
        wheres = " and ".join(w for w in query["selections"] if w)
        lines.append(f"  query {query['name']:<{width}}  window {window}" + (f", where {wheres}" if wheres else ""))
    for state in join["state"]:
        slices = len(state["slices"])
        lines.append(f"  state of {state['stream']}: each row once, for {format_us(state['reach_us'])}, "
                     f"in {_count(slices, 'slice')}")
        names = [f"[{format_us(s['from_us'])}, {format_us(s['to_us'])})" for s in state["slices"]]
        for name, piece in zip(names, state["slices"], strict=True):
            lines.append(f"    {name:<{max(map(len, names))}}  -> {_listed(piece['readers'])}")
    return lines


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return shown if len(names) <= LISTED else f"{shown} and {len(names) - LISTED} more"
