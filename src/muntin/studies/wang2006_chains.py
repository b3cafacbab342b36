"""Chains of slices (wang2006 5 and 6): figures 12 to 16, and what a migration of 5.3 costs.

A chain is a plan of the operator that ships: where its one state is cut.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.generate.arrivals import poisson
from muntin.kernels.arrays import Int64s
from muntin.model import JobSpec
from muntin.plan import Plan, share
from muntin.plan.chains import CPU_OPT, Edges
from muntin.plan.cost import DEFAULT
from muntin.plan.joins import Cuts
from muntin.plan.traffic import Survivors
from muntin.sql import parse_job
from muntin.studies.study import Effort, Findings, Panel, Study, counted, judged, over_seeds
from muntin.testing.local_job import LocalJob

SECOND_US = 1_000_000
MATCH, KEYS = 0.025, 40
"""Join selectivity, and the equally frequent keys that make it."""


def queries_of(windows_s: Sequence[float], where: Sequence[str] | None = None) -> JobSpec:
    """A query for each window, with a selection on A where there are some."""
    return parse_job(
        "".join(
            f"CREATE STREAM {s} (ts TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
            for s in "AB"
        )
        + "".join(
            f"CREATE QUERY q{n} AS SELECT A.ts AS a, B.ts AS b FROM A, B WHERE A.k = B.k{where[n] if where else ''} "
            f"WINDOW {round(w * 1000)} milliseconds;"
            for n, w in enumerate(windows_s)
        )
    )


def cut_at(spec: JobSpec, ends_s: Sequence[float]) -> Plan:
    """The shared join of a job, its states cut at these ages."""
    plan = share(spec)
    cuts: Cuts = tuple(round(e * SECOND_US) for e in ends_s)
    return replace(plan, joins=(replace(plan.joins[0], cuts=(cuts, cuts)),))


@dataclass(frozen=True)
class ChainRun:
    """What a chain kept on average, looked at, stepped over and placed by age; rows delivered, seconds of a core."""

    kept: float
    comparisons: int
    crossed: int
    routed: int
    delivered: int
    seconds: float


@lru_cache(maxsize=16)
def streams(rate: float, seconds: int, seed: int) -> dict[str, tuple[Int64s, pa.Table]]:
    """Two Poisson streams, with their times."""
    rng, made = np.random.default_rng(seed), {}
    for name in "AB":
        ts = poisson(rng, rate, seconds * SECOND_US)
        made[name] = (ts, pa.table({
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "k": pa.array(rng.integers(0, KEYS, len(ts)).astype(np.int32)),
            "v": pa.array(rng.random(len(ts))),
        }))  # fmt: skip
    return made


def run(spec: JobSpec, plan: Plan, rate: float, seconds: int, seed: int, batch_s: int = 10) -> ChainRun:
    """Two Poisson streams through the chain."""
    made = streams(rate, seconds, seed)
    local, kept, delivered, began = LocalJob(spec, plan=plan), list[int](), 0, time.process_time()
    for start in range(0, seconds, batch_s):
        batch = {}
        for name, (ts, table) in made.items():
            low, high = np.searchsorted(ts, [start * SECOND_US, (start + batch_s) * SECOND_US])
            batch[name] = table.slice(low, high - low)
        delivered += sum(t.num_rows for t in local.push(batch).values())
        kept.append(sum(local.counters()[0].state_rows))
    spent, c = time.process_time() - began, local.counters()[0]
    return ChainRun(_second_half(kept), c.comparisons, c.crossed, c.routed, delivered, spent)


def _second_half(kept: Sequence[int]) -> float:
    """Once the windows are full."""
    return float(np.mean(kept[len(kept) // 2 :]))


# -- figures 12 to 16 ------------------------------------------------------------------------------------------------

FOUR, RATE = (5.0, 10.0, 20.0, 30.0), 40
BELOW = (1.0, 0.7, 0.4, 0.2)
SELECTIONS = tuple(f" AND A.v < {below}" for below in BELOW)
"""Of each window, on stream A; the first lets all rows through."""
CHAINS = [(*inner, FOUR[-1]) for size in range(len(FOUR)) for inner in combinations(FOUR[:-1], size)]
ONE, MEM = CHAINS[0], CHAINS[-1]
"""One slice, and a slice for each window."""
Chains = dict[tuple[float, ...], ChainRun]


@lru_cache(maxsize=2)
def _chains(effort: Effort, where: tuple[str, ...] | None) -> dict[int, Chains]:
    """Every chain of four windows over the same streams, for each seed."""
    spec, (seconds, batch_s) = queries_of(FOUR, where), _length(effort)
    return {
        seed: {ends: run(spec, cut_at(spec, ends), RATE, seconds, seed, batch_s) for ends in CHAINS}
        for seed in effort.seeds
    }


def _length(effort: Effort) -> tuple[int, int]:
    """Seconds of stream, and of a micro-batch."""
    return effort.pick((72, 4), (90, 2))


def _wanted(effort: Effort, seed: int) -> float:
    """Rows that some query may still need, counted from the streams."""
    seconds, batch_s = _length(effort)
    (a, rows), (b, _) = streams(RATE, seconds, seed).values()
    reach = np.select([rows["v"].to_numpy() < below for below in BELOW[::-1]], FOUR[::-1]) * SECOND_US
    found = []
    for end in range(batch_s, seconds + 1, batch_s):
        now = min(ts[np.searchsorted(ts, end * SECOND_US) - 1] for ts in (a, b))
        found.append(
            int(((a <= now) & (a > now - reach)).sum() + ((b <= now) & (b > now - FOUR[-1] * SECOND_US)).sum())
        )
    return _second_half(found)


def _rows(found: Mapping[int, Chains]) -> list[dict[str, Any]]:
    return [
        {"seed": seed, "slices_end_at_s": _name(ends), "rows_kept": ran.kept, "comparisons": ran.comparisons,
         "steps_over_cuts": ran.crossed, "placed_by_age": ran.routed, "delivered": ran.delivered}
        for seed, each in found.items() for ends, ran in each.items()
    ]  # fmt: skip


def _name(ends: Sequence[float]) -> str:
    return " ".join(f"{e:g}" for e in ends)


def _panel(found: Mapping[int, Chains], y: str, *columns: tuple[str, str]) -> Panel:
    names = [_name(ends) for ends in CHAINS]
    curves = [over_seeds(label, names, [[float(getattr(each[ends], column)) for ends in CHAINS]
                                        for each in found.values()]) for label, column in columns]  # fmt: skip
    return Panel("windows of 5, 10, 20, 30 s", "slices end at (seconds)", y, curves)


def _of_all(each: Chains, column: str) -> float:
    """The most over the least of all chains."""
    values = [getattr(ran, column) for ran in each.values()]
    return float(max(values) / min(values))


SAME = 1e-9


def figure_12(effort: Effort) -> Findings:
    """Theorem 3 and 5.2: without selections no chain keeps more or less than another."""
    found = _chains(effort, None)
    claims = [
        judged("a Mem-Opt chain keeps what one regular join of the largest window keeps", "5.1, theorem 3, figure 12",
               "the same", [each[MEM].kept / each[ONE].kept for each in found.values()], lambda r: abs(r - 1) < SAME,
               "of the rows of one slice"),
        judged("without selections CPU-Opt, whichever it is, keeps as much as Mem-Opt", "5.2", "the same",
               [_of_all(each, "kept") for each in found.values()], lambda r: abs(r - 1) < SAME,
               "most over least rows kept, of all chains"),
        judged("the chain probes as much as the regular join", "5.1", "the same",
               [each[MEM].comparisons / each[ONE].comparisons for each in found.values()],
               lambda r: abs(r - 1) < SAME, "of the rows that one slice looks at"),
    ]  # fmt: skip
    return Findings(_rows(found), claims, [_panel(found, "rows kept", ("rows kept", "kept"))])


def figure_13(effort: Effort) -> Findings:
    found = _chains(effort, None)
    merges = [(a, b) for a in CHAINS for b in CHAINS if set(b) < set(a) and len(a) == len(b) + 1]
    claims = [
        judged("merging slices changes no probe", "5.2, figure 13", "the same",
               [_of_all(each, "comparisons") for each in found.values()], lambda r: abs(r - 1) < SAME,
               "most over least rows looked at"),
        counted("each merge of two slices saves work for each row, and routes more pairs", "5.2, figure 13",
                "one for the other", [each[b].crossed < each[a].crossed and each[b].routed > each[a].routed
                                      for each in found.values() for a, b in merges], "merges",
                "a row here steps over the cut, where the paper purges it once more and moves it through a queue"),
    ]  # fmt: skip
    panel = _panel(found, "count", ("rows looked at", "comparisons"), ("steps over cuts", "crossed"),
                   ("pairs placed by age", "routed"))  # fmt: skip
    return Findings(_rows(found), claims, [panel])


def figure_14(effort: Effort) -> Findings:
    """The graph of all slices of nine random windows: the path that the planner takes, and all 256 paths."""
    costs = {(seed, rate): _against_all(seed, rate, False) for seed in effort.seeds for rate in PATH_RATES}
    rows = [{"seed": s, "rate": r, "slices_of_the_shortest_path": slices, "chain": n, "cost": cost}
            for (s, r), (slices, each) in costs.items() for n, cost in enumerate(each)]  # fmt: skip
    inner = sum(1 < slices < 9 for slices, _ in costs.values())
    claims = [
        judged("the shortest path is the cheapest of all chains", "5.2, lemma 2, figure 14", "optimal",
               [max(1 / min(each) for (s, _), (_, each) in costs.items() if s == seed) for seed in effort.seeds],
               lambda r: abs(r - 1) < SAME, "times the cheapest of all 256 chains of nine windows",
               f"it is neither one slice nor one for each window at {inner} of {len(costs)} seeds and rates"),
    ]  # fmt: skip
    curves = []
    for rate in PATH_RATES:
        dearer = [[100 * (cost - 1) for cost in sorted(costs[seed, rate][1])] for seed in effort.seeds]
        curves.append(over_seeds(f"{rate} rows/s", list(range(1, 257)), dearer))
    panel = Panel("nine random windows", "chains, from the cheapest on", "dearer than the shortest path (%)", curves)
    return Findings(rows, claims, [panel])


def figure_15(effort: Effort) -> Findings:
    found = _chains(effort, SELECTIONS)
    claims = [
        counted("with selections pushed into it, Mem-Opt keeps the fewest rows of all chains", "6.1, theorem 4",
                "minimal", [each[MEM].kept <= min(ran.kept for ran in each.values()) for each in found.values()],
                "seeds"),
        judged("and no more than the queries want", "6.1, theorem 4", "minimal",
               [each[MEM].kept / _wanted(effort, seed) for seed, each in found.items()], lambda r: abs(r - 1) < 0.02,
               "of the rows that some query may still need",
               "counted from the streams: a row of A until the last window whose selection it passes, a row of B "
               "until the largest window that some row of A may still meet it in"),
        counted("every chain delivers the same rows", "6.1", "the same",
                [each[ends].delivered == each[MEM].delivered > 0 for each in found.values() for ends in CHAINS[:-1]],
                "chains"),
    ]  # fmt: skip
    return Findings(_rows(found), claims, [_panel(found, "rows kept", ("rows kept", "kept"))])


def figure_16(effort: Effort) -> Findings:
    found = _chains(effort, SELECTIONS)
    claims = [
        judged("merged slices keep rows for longer", "6.2, figure 16", "more",
               [each[ONE].kept / each[MEM].kept for each in found.values()], lambda r: r > 1.05,
               "times the rows, in one slice", "a row leaves at the end of the last slice that a query wants it in"),
        judged("and look at more rows", "6.2, figure 16", "more",
               [each[ONE].comparisons / each[MEM].comparisons for each in found.values()], lambda r: r > 1.05,
               "times the rows looked at, in one slice"),
        judged("the shortest path is the cheapest of all chains with selections, too", "6.2", "optimal",
               [1 / min(_against_all(seed, PATH_RATES[0], True)[1]) for seed in effort.seeds],
               lambda r: abs(r - 1) < SAME, "times the cheapest of all 256 chains of nine windows"),
    ]  # fmt: skip
    panels = [_panel(found, "rows kept", ("rows kept", "kept")),
              _panel(found, "rows looked at", ("rows looked at", "comparisons"))]  # fmt: skip
    return Findings(_rows(found), claims, panels)


PATH_RATES = (30, 100)


def _against_all(seed: int, rate: float, selections: bool) -> tuple[int, list[float]]:
    """Nine random windows: the slices of the CPU-Opt chain, and the cost of every chain over that of this one."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.integers(1, 40, 9)) / 4
    kept = np.sort(rng.random(9))[::-1] if selections else np.ones(9)
    windows = tuple(round(w * SECOND_US) for w in ends)
    edges = Edges(Survivors(windows, ends, kept, kept, kept * kept, rate, rate, MATCH), DEFAULT)
    chosen = CPU_OPT.cuts(edges)
    least = float(edges.length(*edges.path(chosen)).sum())
    return len(chosen), [
        float(edges.length(*edges.path((*inner, windows[-1]))).sum()) / least
        for size in range(9)
        for inner in combinations(windows[:-1], size)
    ]


# -- section 5.3: migration ------------------------------------------------------------------------------------------


def section_5_3(effort: Effort) -> Findings:
    windows = [2.5 * n for n in range(1, 13)]
    rows: list[dict[str, float]] = []
    split, merge, moved = [], [], []
    for seed in effort.seeds:
        rng = np.random.default_rng(seed)
        local, pushes = LocalJob(queries_of(windows)), []
        for second in range(0, 60, 2):
            ts = {n: np.sort(rng.integers(second * SECOND_US, (second + 2) * SECOND_US, 400)) for n in "AB"}
            began = time.process_time()
            local.push({n: pa.table({"ts": pa.array(t, pa.timestamp("us", "UTC")),
                                     "k": pa.array(rng.integers(0, KEYS * 50, 400).astype(np.int32)),
                                     "v": pa.array(rng.random(400))}) for n, t in ts.items()})  # fmt: skip
            pushes.append(time.process_time() - began)
            if second == 40:
                compared = local.counters()[0].comparisons
                took = []
                for wanted in map(queries_of, (sorted([*windows, 11.0]), windows)):
                    began = time.process_time()
                    local.change(wanted)
                    took.append(time.process_time() - began)
                moved.append(local.counters()[0].comparisons - compared)
        batch = float(np.median(pushes[20:]))
        split.append(took[0] / batch)
        merge.append(took[1] / batch)
        rows.append({"seed": seed, "split_s": took[0], "merge_s": took[1], "micro_batch_s": batch})
    claims = [
        judged("splitting a slice suspends the system for a negligible time", "5.3", "negligible", split,
               lambda r: r < 0.1, "micro-batches of 800 rows", "no row moves, but the plan is made anew and rows get "
               "new classes. Negligible would be a tenth of a micro-batch; partly is less than one of them, which the "
               "next rows wait for anyway", lambda r: r < 1, timed=True),
        judged("merging two slices waits until the queue between them is empty", "5.3", "bounded by the queue", merge,
               lambda r: r <= 1, "micro-batches of 800 rows", "there is no queue: a cut is a number. What takes time "
               "is making the plan anew; a queue would hold the rows of a micro-batch at most, so that is the bound",
               timed=True),
        judged("neither costs extra processing", "5.3", "none", moved, lambda n: n == 0, "rows looked at"),
    ]  # fmt: skip
    names = {"split": "split_s", "merge": "merge_s", "a micro-batch": "micro_batch_s"}
    curve = over_seeds("seconds", list(names), [[row[c] for c in names.values()] for row in rows])
    return Findings(rows, claims, [Panel("twelve windows, 800 rows each 2 s", "", "seconds of a core", [curve])])


STUDIES = (
    Study("wang2006", "figure 12", "what all chains of four windows keep, without selections", figure_12),
    Study("wang2006", "figure 13", "what merging slices trades", figure_13),
    Study("wang2006", "figure 14", "the shortest path beside all chains of nine windows", figure_14),
    Study("wang2006", "figure 15", "what all chains of four windows keep, with selections", figure_15),
    Study("wang2006", "figure 16", "what merged slices with selections keep and look at", figure_16),
    Study("wang2006", "section 5.3", "how long a change of slices takes", section_5_3),
)
