"""`muntin bench scale`: how the time of a micro-batch grows with shards, state, queries, partners and rows.

From the measured parts follows a model of more cores than this machine has:

    seconds(b, n) = fixed + per_shard * n + core_seconds * b / n        b rows in a micro-batch, n shards, one per core

Assumptions: keys are many and none dominates, so that shards are equally loaded; there are as many input files in a
micro-batch as cores, so that reading is spread too; the network moves the frames (about 50 bytes a row in, and what the
pairs take out) faster than the cores make them; `fixed`, Spark's work for a micro-batch however small, stays on one
driver. `per_shard` is measured with more shards than cores, which overstates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from muntin.bench.against import faults, in_words, laid_out, ours, result
from muntin.bench.parts import parts
from muntin.bench.peers import Terms
from muntin.bench.workload import SELECTIVE, WORKLOADS, Workload, describe, plain, selections, uniform

BASE = replace(WORKLOADS["selective"], rows=900_000)
STATES = (1, 10, 100)
QUERIES = (1, 12, 100, 1000)
PARTNERS = {1: 600_000, 3: 200_000, 12: 50_000}
"""Keys for so many partners of a row in the largest window."""
BATCHES = (20_000, 100_000, 500_000)
MANY_SHARDS = 8
SHOWN = ("seconds", "steady", "core_s", "rows_per_s", "rows_agree", "ended")
TARGETS = (("state", 1, 100, 1.5), ("queries", 12, 100, 1.5))
"""A series, two points of it, and how many times the first the time of the second may be."""
CORES = (2, 4, 8, 16, 32, 64)
Point = tuple[float, Workload, tuple[str, ...]]
"""Where on the axis, the workload, and options of ours."""


def with_state(times: int) -> Workload:
    """So many hundredths of the window and of the keys: the same pairs per row."""
    questions = plain(tuple(w * times // max(STATES) for w in uniform(12)))
    return replace(BASE, name=f"state x{times}", keys=SELECTIVE * times // max(STATES), questions=questions)


def with_batches(batch_rows: int) -> Workload:
    """Micro-batches of another size; six of them after the windows are full."""
    load = replace(BASE, name=f"{batch_rows} rows", batch_rows=batch_rows)
    return replace(load, rows=(load.warm + 6) * batch_rows // 2)


def series() -> dict[str, tuple[str, list[Point]]]:
    """What is varied: the axis, and its points."""
    keyed: list[Point] = [(n, replace(BASE, name=f"{k} keys", keys=k), ()) for n, k in PARTNERS.items()]
    many = {n: selections(uniform(n)) if n > 1 else plain(uniform(1)) for n in QUERIES}
    return {
        "shards": ("shards", [(n, BASE, ("--shards", str(n))) for n in (1, 2)]),
        "state": ("times the state, the same output", [(n, with_state(n), ()) for n in STATES]),
        "queries": ("queries", [
            (n, replace(BASE, name=f"{n} queries", says="up to 600 s", questions=q), ()) for n, q in many.items()
        ]),
        "partners": ("partners of a row", keyed),
        "rows": ("rows in a micro-batch", [(b, with_batches(b), ()) for b in BATCHES]),
        "tasks": ("shards, small micro-batches", [
            (n, with_batches(BATCHES[0]), ("--shards", str(n))) for n in (2, MANY_SHARDS)
        ]),
    }  # fmt: skip


def measure(terms: Terms) -> dict[str, Any]:
    """All series, rows counted and discarded, and the model."""
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for name, (axis, points) in series().items():
        terms.tell(f"{name}: {', '.join(f'{at:,}' for at, *_ in points)} {axis}")
        results = []
        for at, whole, options in points:
            load = whole.scaled(terms.share)
            taken = terms.take(f"{name}/{at}", describe(load), _run(load, options, terms.limit_s))
            if taken is not None:
                shown = load.batch_rows if name == "rows" else at  # with fewer rows, fewer in a micro-batch too
                terms.tell(f"  {shown:,}: {in_words(taken)}")
                results.append({"at": shown, "rows": load.batch_rows, **{k: taken[k] for k in SHOWN}})
                wrong += faults(f"{name}/{at}", taken)
        found[name] = {"axis": axis, "points": results}
    return {
        "series": found,
        "targets": targets(found),
        "parts": all_parts(terms),
        "model": model(found),
        "faults": wrong,
    }


def targets(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The targets for ratios of two points of a series, with what these are."""
    lines = []
    for name, base, at, at_most in TARGETS:
        seconds = {p["at"]: p["seconds"] for p in found[name]["points"] if p["seconds"]}
        if base in seconds and at in seconds:
            ratio = seconds[at] / seconds[base]
            lines.append({"series": name, "at": at, "over": base, "ratio": ratio, "at_most": at_most})
    return lines


def all_parts(terms: Terms) -> dict[str, Any]:
    """Of selective and dense micro-batches of both sizes, delivered as Parquet and counted."""
    terms.tell("the parts of a micro-batch, without Spark")
    found = {}
    for name in ("selective", "dense"):
        for batch_rows in BATCHES[1:]:
            load = replace(with_batches(batch_rows), keys=WORKLOADS[name].keys).scaled(terms.share)
            for delivery, layouts in (("Parquet out", ("queries", "sliced")), ("counted", ())):
                what = f"{name}, {load.batch_rows:,} rows, {delivery}"
                taken = terms.take(f"parts/{what}", describe(load), partial(_parts, load, layouts))
                if taken is not None:
                    found[what] = taken["parts"]
    return found


def _parts(load: Workload, layouts: Sequence[str]) -> dict[str, Any]:
    with laid_out(load, ("parquet",)) as folder:
        return {"parts": parts(load, folder, layouts)}


def _run(load: Workload, options: Sequence[str], limit_s: float) -> Callable[[], dict[str, Any]]:
    def run() -> dict[str, Any]:
        with laid_out(load, ("parquet",)) as folder:
            return result(load, folder, ours("counted", *options), limit_s)

    return run


def model(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """The parts of a micro-batch's time, and the throughput on more cores that follows from them."""
    rows = [(p["rows"], p["seconds"]) for p in found["rows"]["points"] if p["seconds"]]
    tasks = [(p["at"], p["seconds"]) for p in found["tasks"]["points"] if p["seconds"]]
    if len(rows) < 2 or len(tasks) < 2:
        return None
    per_row, at_zero = np.polyfit([b for b, _ in rows], [s for _, s in rows], 1)
    (few, quicker), (many, slower) = tasks
    per_shard = max(0.0, (slower - quicker) / (many - few))
    fixed = max(0.0, float(at_zero) - per_shard * few)
    costs = {"fixed_s": fixed, "per_shard_s": per_shard, "core_s_per_row": float(per_row) * few}
    return {**costs, "predicted": [predicted(costs, n, batch) for n in CORES for batch in BATCHES[1:]]}


def predicted(costs: Mapping[str, float], cores: int, batch_rows: int) -> dict[str, Any]:
    seconds = costs["fixed_s"] + costs["per_shard_s"] * cores + costs["core_s_per_row"] * batch_rows / cores
    return {"cores": cores, "batch_rows": batch_rows, "seconds": seconds, "rows_per_s": batch_rows / seconds}
