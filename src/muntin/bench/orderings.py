"""`muntin bench orderings`: a stream some seconds behind the other, under the three orderings (hammad2005).

Rows of B come five seconds after those of A with the same event times. In `bursts` they come in bursts: Sync-Filter
joins both when B has come, Filter-Order has joined A by then. In `steady` rows come evenly: then each micro-batch joins
as much under either rule, and since results leave with their micro-batch, nothing is gained. The period follows from
the load: what the micro-batches of a burst of both streams take under Sync-Filter is so much of the time until the
next.

What counts: seconds from the appearance of the later file to hand-over, and those of the micro-batch that hands over,
which is what joining ahead takes off the way of results. Rounds are rotated. A run is named as in
`bursts/load 0.6/round 1/adaptive` (for --only).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from muntin.bench.bursts import (
    STREAMS,
    Figures,
    TimedFile,
    batch_seconds,
    hardly_any,
    in_words,
    play,
    rotated,
    rows,
    spread,
    streams,
    temporary_folder,
)
from muntin.bench.peers import Tell, Terms
from muntin.plan.orderings import ADAPTIVE, FILTER_ORDER, ORDERINGS, SYNC_FILTER

LOADS = 0.3, 0.6, 0.9
BEHIND_S = 5.0
ROUNDS = 2
EVENLY = 10
"""Files of each stream in a period of the steady workload."""


@dataclass(frozen=True)
class LaggedSize:
    """Rows of each stream in a burst, and bursts; a burst covers a minute of event time, and the window three."""

    rows: int
    bursts: int = 8


FULL, QUICK = LaggedSize(4_000), LaggedSize(1_500, 4)
FEW = 3
"""Micro-batches with hardly a row."""
SPAN_S, WINDOW_S = 60, 180


def measure(quick: bool, terms: Terms, spark: Any) -> Figures:
    size, loads = (QUICK, LOADS[1:2]) if quick else (FULL, LOADS)
    figures: Figures = {"size": asdict(size), "behind_s": BEHIND_S, "workloads": {}}
    runs = [_key(w, load, n, o) for w in WORKLOADS for load in loads for n in range(ROUNDS) for o in ORDERINGS.names]
    work = terms.know("work", {"size": asdict(size)}, partial(_work, spark, size, terms.tell), runs)
    for name, make in WORKLOADS.items() if work else ():
        for load in loads:
            assert work is not None
            period_s = round((work["few_s"] + work["both_s"]) / load, 3)
            found = _compare(spark, size, name, make, load, period_s, terms)
            if found is not None:
                figures["workloads"][f"{name}, load {load:g}"] = found | {"period_s": period_s, "work": work}
    return figures


def _tables(size: LaggedSize) -> list[list[Any]]:
    rng = np.random.default_rng(2005)
    return [[rows(rng, size.rows, n * SPAN_S, (n + 1) * SPAN_S) for n in range(size.bursts)] for _ in STREAMS]


def bursts(size: LaggedSize, period_s: float) -> list[TimedFile]:
    """A burst of A, and five seconds later the same stretch of event time of B."""
    return [
        TimedFile(n * period_s + BEHIND_S * side, STREAMS[side], table)
        for side, tables in enumerate(_tables(size))
        for n, table in enumerate(tables)
    ]


def steady(size: LaggedSize, period_s: float) -> list[TimedFile]:
    """The same rows in small files, one after the other."""
    found = []
    for side, tables in enumerate(_tables(size)):
        for n, table in enumerate(tables):
            ends = np.linspace(0, table.num_rows, EVENLY + 1).astype(int)
            for part in range(EVENLY):
                at_s = (n + (part + 1) / EVENLY) * period_s + BEHIND_S * side
                piece = table.slice(ends[part], ends[part + 1] - ends[part])
                found.append(TimedFile(round(at_s, 3), STREAMS[side], piece))
    return found


Feeding = Callable[[LaggedSize, float], list[TimedFile]]
"""The files of a workload, given its size and period."""
WORKLOADS: dict[str, Feeding] = {"bursts": bursts, "steady": steady}


def _sql(ordering: str, options: str, folder: Path) -> str:
    """Few of the pairs that are looked at are results: what is held is little, and joining is what takes time."""
    query = (
        "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B "
        f"WHERE A.k = B.k AND A.v + B.v > 1.98 WINDOW {WINDOW_S} s;"
    )
    limits = "SET fan_out_limit = 1000000000; SET max_ahead = '1 hour';"
    return f"SET ordering = '{ordering}'; {limits}" + streams(folder, options) + query


def _work(spark: Any, size: LaggedSize, tell: Tell) -> Figures:
    """Seconds of a micro-batch that joins a burst of both streams, once windows are full, and of one with hardly a
    row: with bursts apart, Sync-Filter has one of each."""
    tell("what a burst takes")
    with temporary_folder() as folder:
        together = [TimedFile(float(n), STREAMS[s], t) for s, of in enumerate(_tables(size)) for n, t in enumerate(of)]
        few = hardly_any(FEW, size.bursts, size.bursts * SPAN_S)
        took = batch_seconds(spark, partial(_sql, "sync-filter", ", maxFilesPerTrigger = '1'"), together + few, folder)
    return {"both_s": statistics.fmean(took[size.bursts - 2 : size.bursts]), "few_s": min(took[size.bursts :])}


def _key(workload: str, load: float, number: int, ordering: str) -> str:
    return f"{workload}/load {load:g}/round {number + 1}/{ordering}"


def _compare(
    spark: Any, size: LaggedSize, name: str, make: Feeding, load: float, period_s: float, terms: Terms
) -> Figures | None:
    found = {ordering: list[Figures]() for ordering in ORDERINGS.names}
    for number in range(ROUNDS):
        for ordering in rotated(ORDERINGS.names, number):
            key = _key(name, load, number, ordering)
            of = {"size": asdict(size), "period_s": period_s}
            taken = terms.take(key, of, partial(_run, spark, make(size, period_s), ordering, key, terms.tell))
            found[ordering] += [taken] if taken else []
    if not all(found.values()):
        return None
    return {
        "rows": {ordering: runs[0]["response"]["rows"] for ordering, runs in found.items()},
        "mean_s": {ordering: spread([r["response"]["mean_s"] for r in runs]) for ordering, runs in found.items()},
        "p99_s": {ordering: spread([r["response"]["p99_s"] for r in runs]) for ordering, runs in found.items()},
        "longest_s": {ordering: spread([r["longest_s"] for r in runs]) for ordering, runs in found.items()},
        "switches": [switch for run in found[ADAPTIVE.name] for switch in run["switches"]],
        "decisions": [run["load"] for run in found[ADAPTIVE.name]],
    }


def _run(spark: Any, fed: list[TimedFile], ordering: str, key: str, tell: Tell) -> Figures:
    tell(key)
    with temporary_folder() as folder:
        played = play(spark, partial(_sql, ordering, ""), fed, folder)
    decision = played.status["joins"][0]["ordering"]["decision"]
    return {
        "response": played.response("q"),
        "longest_s": max(list(played.batches_s.values())[1:], default=0.0),
        "switches": [f"{s['ordering']}: {s['reason']}" for s in played.status["switches"]],
        "load": decision and round(decision["load"], 3),
        "late_s": played.late_s,
    }


def render(figures: Figures) -> str:
    size = figures["size"]
    lines = [
        f"{size['bursts']} x 2 x {size['rows']:,} rows with one key, B {figures['behind_s']:g} s behind A; "
        "seconds from the appearance of the later file to hand-over, least to most"
    ]
    for name, found in figures["workloads"].items():
        work = found["work"]
        lines += [
            "",
            f"{name}: every {found['period_s']:.2f} s a burst of both streams, which takes {work['both_s']:.2f} s "
            f"together; a micro-batch with hardly a row takes {work['few_s']:.2f} s",
            f"{'':>14}{'mean':>22}{'99%':>22}{'longest micro-batch':>22}{'rows':>10}",
        ]
        for ordering in found["mean_s"]:
            cells = "".join(f"{in_words(found[what][ordering]):>22}" for what in ("mean_s", "p99_s", "longest_s"))
            lines.append(f"{ordering:>14}{cells}{found['rows'][ordering]:>10,}")
        lines.append(_verdict(found))
        lines += [f"adaptive went over to {switch}" for switch in dict.fromkeys(found["switches"])]
    return "\n".join(lines)


def _verdict(found: Figures) -> str:
    """What joining ahead takes off the way of results, and how far Adaptive is from the better one."""
    mean, longest = ({o: t["mean"] for o, t in found[what].items()} for what in ("mean_s", "longest_s"))
    sync, ahead, chosen = SYNC_FILTER.name, FILTER_ORDER.name, ADAPTIVE.name
    better = min(mean[sync], mean[ahead])
    return (
        f"{ahead} takes {longest[sync] - longest[ahead]:.2f} s of joining off the longest micro-batch, and answers in "
        f"{mean[ahead] / mean[sync]:.2f} of the time; {chosen} in {mean[chosen] / better:.2f} of the better one's"
    )
