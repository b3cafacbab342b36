"""`muntin bench cluster`: the same work on one executor with one core, and on two.

A standalone master and two workers run on this machine, out of Spark's pip package. The job has two shards each time;
with one executor they take turns. The driver works beside the executors, so on a machine with two cores the second
executor has less than a core. Runs are rotated, so that what else the machine does falls on both.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from muntin.bench.against import faults, in_words, laid_out, ours, result
from muntin.bench.peers import Terms
from muntin.bench.workload import WORKLOADS, Workload, describe
from muntin.spark.cluster import StandaloneCluster

LOAD = replace(WORKLOADS["dense"], rows=2_000_000, batch_rows=500_000)
"""Large micro-batches: what Spark does for each of them, however small, is the driver's work."""
ORDER = (1, 2, 2, 1)
"""Executors of each run."""
SHARDS = 2
WORKER_MB = 2048
TARGET = 1.6
SHOWN = ("seconds", "steady", "rows_per_s", "rows_agree", "ended")


def measure(terms: Terms) -> dict[str, Any]:
    """All runs, rows counted and discarded, and the time with one executor over that with two."""
    load = LOAD.scaled(terms.share)
    points, wrong = [], []
    terms.tell(f"dense: {load.says}; 2 x {load.rows:,} rows in micro-batches of {load.batch_rows:,}, {SHARDS} shards")
    with laid_out(load, ("parquet",)) as folder, StandaloneCluster(folder / "spark") as cluster:
        for number in range(max(ORDER)):
            cluster.add_worker(f"worker-{number}", memory_mb=WORKER_MB)
        for number, executors in enumerate(ORDER):
            name = f"cluster/{executors} executors, run {number + 1}"
            run = contender(load, folder, ("--master", cluster.master, "--executors", str(executors)), terms.limit_s)
            taken = terms.take(name, describe(load), run)
            if taken is not None:
                terms.tell(f"  {executors} executors: {in_words(taken)}")
                points.append({"executors": executors, **{k: taken[k] for k in SHOWN}})
                wrong += faults(name, taken)
    return {"points": points, "ratio": speed_up(points), "target": TARGET, "faults": wrong}


def contender(load: Workload, folder: Path, options: Sequence[str], limit_s: float) -> Callable[[], dict[str, Any]]:
    return lambda: result(load, folder, ours("counted", *options, "--shards", str(SHARDS)), limit_s)


def speed_up(points: Sequence[dict[str, Any]]) -> float | None:
    """How many times as long one executor takes as two; None where one of them has no steady run."""
    took = {n: [p["seconds"] for p in points if p["executors"] == n and p["steady"]] for n in set(ORDER)}
    return statistics.fmean(took[1]) / statistics.fmean(took[2]) if took[1] and took[2] else None


def render(figures: dict[str, Any]) -> str:
    lines = [
        f"{p['executors']} executor{'s' if p['executors'] > 1 else ' '}  {p['seconds'] or 0:6.2f} s a micro-batch, "
        f"{p['rows_per_s'] or 0:>10,.0f} rows/s, {p['ended']}"
        for p in figures["points"]
    ]
    ratio = "none" if figures["ratio"] is None else f"{figures['ratio']:.2f}"
    return "\n".join([*lines, f"one executor over two: {ratio} (target: at least {figures['target']})"])
