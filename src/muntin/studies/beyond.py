"""Beyond the papers: all five together against each alone, a thousand queries, and slices over shards.

wang2006 leaves open how to combine query indexing with state slicing, and slices in distributed systems. Here the
selections of all queries are indexed, a row is classified once for all of them, and shards divide the keys, each with
the slices of all queries.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.generate import Punctuated
from muntin.generate.arrivals import START_US, bursts
from muntin.generate.punctuated import punctuated_streams
from muntin.model import JobSpec, Side
from muntin.plan.orderings import ORDERINGS, Monitor
from muntin.sql import parse_job
from muntin.studies.study import PAPER, Curve, Effort, Findings, Panel, Study, counted, judged, over_seeds
from muntin.testing.local_job import LocalJob

SECOND_US = 1_000_000
WINDOWS, THRESHOLDS = 12, 3
"""36 queries: each window with each selection."""
COMPARISON_S = 1e-3
"""What Adaptive takes a comparison to cost, so that the loads of the 36 joins lie on both sides of its alpha."""
WAYS: Mapping[str, Mapping[str, str]] = {
    "each alone": {"strategy": "isolated", "punctuations": "off", "ordering": "sync-filter"},
    "slices": {"strategy": "state-slice", "punctuations": "off", "ordering": "sync-filter"},
    "punctuations": {"strategy": "isolated", "punctuations": "pwjoin", "ordering": "sync-filter"},
    "adaptive order": {"strategy": "isolated", "punctuations": "off", "ordering": "adaptive"},
    "scheduler": {"strategy": "isolated", "punctuations": "off", "ordering": "sync-filter", "delivery": "eager",
                  "scheduler": "mqt"},
    "all together": {"strategy": "state-slice", "punctuations": "pwjoin", "ordering": "adaptive",
                     "delivery": "eager", "scheduler": "mqt"},
}  # fmt: skip


def bursty(seed: int, seconds: int, rate: float = 60.0) -> dict[str, pa.Table]:
    """The punctuated streams of ding2004, their rows coming in bursts of five."""
    made = punctuated_streams(Punctuated(a="punct-asc-30-40", b="punct-asc-30-40", duration_s=seconds, rate=rate,
                                         seed=seed))  # fmt: skip
    rng, found = np.random.default_rng(seed), {}
    for name, table in made.items():
        ts = np.minimum(bursts(rng, rate, 3.0, table.num_rows), seconds * SECOND_US - 1)
        values = rng.random(table.num_rows)
        found[name] = table.set_column(0, "ts", pa.array(START_US + ts, pa.timestamp("us", "UTC"))).append_column(
            "v", pa.array(values)
        )
    return found


def queries(settings: Mapping[str, str], windows: int, thresholds: int, longest_s: float = 15.0) -> JobSpec:
    """A query for each window and threshold on A."""
    text = "".join(f"SET {name} = '{value}';" for name, value in settings.items())
    text += "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN, v DOUBLE) TIMESTAMP BY ts "
        "PUNCTUATION WHEN closed WITH (format = 'x', path = 'y');"
        for s in "AB"
    )
    text += "".join(
        f"CREATE QUERY q{w}_{t} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v >= {t / thresholds:g} "
        f"WINDOW {round(1000 * longest_s * (w + 1) / windows)} milliseconds;"
        for w in range(windows)
        for t in range(thresholds)
    )
    return parse_job(text)


@dataclass(frozen=True)
class WayRun:
    """Rows delivered, rows kept on average, rows looked at, punctuations told, joins that went over to Filter-Order,
    seconds of a core, and rows looked at by each shard."""

    delivered: int
    kept: float
    comparisons: int
    told: int
    ahead: int
    seconds: float
    by_shard: list[int]


def run(spec: JobSpec, streams: Mapping[str, pa.Table], seconds: int, shards: int = 1, batch_s: int = 3) -> WayRun:
    """A whole job in this process; Adaptive decides by a comparison's cost on a virtual clock."""
    local, kept, delivered = LocalJob(spec, shards=shards), list[int](), 0
    adaptive, ahead = _adaptive(spec, local), set[int]()
    times = {name: t["ts"].cast(pa.int64()).to_numpy() - START_US for name, t in streams.items()}
    began = time.process_time()
    for start in range(0, seconds, batch_s):
        batch = {}
        for name, table in streams.items():
            low, high = np.searchsorted(times[name], [start * SECOND_US, (start + batch_s) * SECOND_US])
            batch[name] = table.slice(low, high - low)
        delivered += sum(t.num_rows for t in local.push(batch).values())
        kept.append(sum(sum(c.state_rows) for j in local.plan.joins for c in local.counters(j.index)))
        ahead |= {join for join, monitor in adaptive.items() if _adapt(local, join, monitor, start + batch_s)}
    spent = time.process_time() - began
    counters = [c for j in local.plan.joins for c in local.counters(j.index)]
    told = sum(t.num_rows for tables in local.punctuations.values() for t in tables)
    compared = [c.comparisons for c in counters]
    steady = float(np.mean(kept[len(kept) // 2 :]))
    return WayRun(delivered, steady, sum(compared), told, len(ahead), spent, compared)


def _adaptive(spec: JobSpec, local: LocalJob) -> dict[int, Monitor]:
    """A monitor for each join, where the ordering adapts."""
    if not ORDERINGS[spec.settings.ordering].adapts:
        return {}
    return {j.index: Monitor(spec.settings.alpha, (j.reach(Side.LEFT) / SECOND_US, j.reach(Side.RIGHT) / SECOND_US))
            for j in local.plan.joins}  # fmt: skip


def _adapt(local: LocalJob, join: int, monitor: Monitor, at_s: float) -> bool:
    """Steps B and D of hammad2005 6 for one join; whether it is under Filter-Order now."""
    counters = local.counters(join)
    arrived = tuple(sum(c.arrived[side] for c in counters) for side in Side)
    spent = COMPARISON_S * sum(c.comparisons for c in counters)
    monitor.note(at_s, (arrived[0], arrived[1]), sum(c.probes for c in counters), spent)
    decision = monitor.decide()
    if decision is None:
        return False
    for shard in local.shards[join]:
        shard.operator.follow(decision.joins_ahead)
    return decision.joins_ahead


def together(effort: Effort) -> Findings:
    seconds = effort.pick(24, 36)
    runs: dict[int, dict[str, WayRun]] = {seed: {} for seed in effort.seeds[: effort.pick(2, 3)]}
    for seed, found in runs.items():
        streams = bursty(seed, seconds)
        for way, settings in WAYS.items():
            found[way] = run(queries(settings, WINDOWS, THRESHOLDS), streams, seconds)
    rows = [{"seed": s, "way": way, "delivered": f.delivered, "rows_kept": f.kept, "comparisons": f.comparisons,
             "punctuations_told": f.told, "joins_ahead": f.ahead, "core_s": f.seconds} for s, each in runs.items()
            for way, f in each.items()]  # fmt: skip
    each = list(runs.values())
    claims = [
        counted("every way delivers the same rows to 36 queries", "beyond", "the same",
                [len({f.delivered for f in found.values()}) == 1 for found in each], "seeds"),
        judged("together they keep fewer rows than any of them alone", "beyond", "fewest",
               [found["all together"].kept / min(f.kept for w, f in found.items() if w != "all together")
                for found in each], lambda r: r < 1, "of the next fewest"),
        judged("and look at no more rows", "beyond", "fewest",
               [found["all together"].comparisons / min(f.comparisons for w, f in found.items() if w != "all together")
                for found in each], lambda r: r <= 1.02, "of the next fewest"),
        judged("and take less time", "beyond", "least",
               [found["all together"].seconds / min(f.seconds for w, f in found.items() if w != "all together")
                for found in each], lambda r: r < 1, "of the next quickest",
               "delivering in the order of the scheduler costs the time that is saved elsewhere: a unit of work and a "
               "delivery of its own for each level of windows. Joining rows ahead is ruled out by punctuations, which "
               "take effect in one order over both streams", lambda r: r < 4, timed=True),
    ]  # fmt: skip
    names = list(WAYS)
    panels = [Panel("36 queries, bursts, punctuations", "", y, [over_seeds(y, names,
              [[getattr(found[w], column) for w in names] for found in each])], log_y=True)
              for y, column in (("rows kept", "kept"), ("rows looked at", "comparisons"),
                                ("seconds of a core", "seconds"))]  # fmt: skip
    return Findings(rows, claims, panels)


def many(effort: Effort) -> Findings:
    """From one query to a thousand, as windows times thresholds."""
    shapes = effort.pick([(1, 1), (10, 10), (50, 20)], [(1, 1), (5, 2), (10, 10), (20, 15), (50, 20)])
    seconds, seeds = effort.pick(12, 24), effort.seeds[: effort.pick(2, 3)]
    runs: dict[int, list[WayRun]] = {windows * thresholds: [] for windows, thresholds in shapes}
    for seed in seeds:
        streams = bursty(seed, seconds, 400.0)
        run(queries({"punctuations": "off"}, 1, 1), streams, seconds)  # compiled before anything is timed
        for shape in shapes:
            spec = queries({"punctuations": "off"}, *shape)
            runs[shape[0] * shape[1]].append(run(spec, streams, seconds))
    rows: list[dict[str, Any]] = [
        {"seed": seed, "queries": n, "delivered": f.delivered, "rows_kept": f.kept, "comparisons": f.comparisons,
         "core_s": f.seconds}
        for n, each in runs.items() for seed, f in zip(seeds, each, strict=True)
    ]  # fmt: skip
    one, all_of_them = runs[min(runs)], runs[max(runs)]
    pairs = list(zip(one, all_of_them, strict=True))
    grown = float(np.mean([b.delivered / a.delivered for a, b in pairs]))
    claims = [
        judged("a thousand queries keep no more rows than the widest one", "wang2006 9, query indexing", "open",
               [b.kept / a.kept for a, b in pairs], lambda r: r <= 1.001, "of the rows of one query"),
        judged("and look at no more", "wang2006 9, query indexing", "open",
               [b.comparisons / a.comparisons for a, b in pairs], lambda r: r <= 1.001,
               "of the rows that one query looks at"),
        judged("they cost less than a tenth of a thousand joins", "wang2006 9", "open",
               [b.seconds / a.seconds for a, b in pairs], lambda r: r < 100, "times the time of one query",
               f"they deliver {grown:,.0f} times as many rows, and these are what takes the time", timed=True),
    ]  # fmt: skip
    counts = list(runs)
    of_row = [[1e6 * runs[n][i].seconds / runs[n][i].delivered for n in counts] for i in range(len(seeds))]
    in_all = [[runs[n][i].seconds for n in counts] for i in range(len(seeds))]
    panels = [
        Panel("one shared join", "queries", y, [over_seeds("Muntin", counts, by_seed)], log_x=True, log_y=True)
        for y, by_seed in (("seconds of a core", in_all), ("microseconds per delivered row", of_row))
    ]
    return Findings(rows, claims, panels)


def shards(effort: Effort) -> Findings:
    """The slices of all queries, divided by key over shards."""
    numbers, seconds = (1, 2, 4, 8), effort.pick(24, 36)
    rows, same, even = [], [], []
    parts: list[list[float]] = []
    for seed in effort.seeds:
        streams = bursty(seed, seconds)
        spec = queries({"punctuations": "off"}, WINDOWS, THRESHOLDS)
        runs = {n: run(spec, streams, seconds, n) for n in numbers}
        for n, f in runs.items():
            rows.append({"seed": seed, "shards": n, "delivered": f.delivered, "comparisons": f.comparisons,
                         "largest_part": max(f.by_shard) / f.comparisons})  # fmt: skip
        same.append(all(f.comparisons == runs[1].comparisons and f.delivered == runs[1].delivered
                        for f in runs.values()))  # fmt: skip
        parts.append([max(f.by_shard) / f.comparisons for f in runs.values()])
        even.append(parts[-1][-1] * numbers[-1])
    claims = [
        counted("slices divided over shards find the same pairs with the same work", "wang2006 9, distributed", "open",
                same, "seeds"),
        judged("the work is divided evenly", "wang2006 9, distributed", "open", even, lambda r: r < 2,
               "times the mean of 8 shards, for the busiest", "a key is a unit, and some are frequent",
               lambda r: r < 4),
    ]  # fmt: skip
    curves = [over_seeds("busiest shard", numbers, parts), Curve("divided evenly", numbers, [1 / n for n in numbers],
              style=PAPER)]  # fmt: skip
    return Findings(rows, claims, [Panel("36 queries", "shards", "part of all rows looked at", curves)])


STUDIES = (
    Study("beyond", "all together", "slices, punctuations, order and scheduler together and one at a time", together),
    Study("beyond", "many queries", "one shared join from one query to a thousand", many),
    Study("beyond", "shards", "slices divided over shards", shards),
)
