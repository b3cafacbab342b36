"""Chains of slices (wang2006 5 to 7.3): figures 12 to 16 and 19 with table 4, and what a migration of 5.3 costs.

A chain is a plan of the operator that ships: where its one state is cut. `printed_chain` is the shortest path over the
costs as section 5.2 prints them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.generate.arrivals import poisson
from muntin.kernels.arrays import Floats
from muntin.model import JobSpec
from muntin.plan import Plan, share
from muntin.plan.chains import CPU_OPT, MEM_OPT, Edges
from muntin.plan.cost import DEFAULT
from muntin.plan.joins import Cuts
from muntin.plan.traffic import Survivors
from muntin.sql import parse_job
from muntin.studies.study import Claim, Curve, Effort, Findings, Panel, Study, Verdict, counted, judged, number
from muntin.testing.local_job import LocalJob

SECOND_US = 1_000_000
TABLE_4 = {
    "Uniform": [2.5 * n for n in range(1, 13)],
    "Mostly-Small": [*range(1, 11), 20.0, 30.0],
    "Small-Large": [*range(1, 7), *range(25, 31)],
}
FIGURE_19 = {"Uniform": TABLE_4["Uniform"], "Mostly-Small": [10, 20, 30], "Small-Large": [6, 30]}
"""Ends of the slices of the CPU-Opt chains, as the paper describes them."""
MATCH, RATES = 0.025, (20, 40, 60, 80)
KEYS = 40


def windows_of(name: str, queries: int = 12) -> list[float]:
    """Table 4 for 12 queries; for more, windows in between at even distances."""
    times = queries // 12
    base = [0.0, *TABLE_4[name]]
    found = []
    for low, high in pairwise(base):
        step = min(high - low, 1.0 if name != "Uniform" else 2.5)
        found += [high - step * (times - 1 - n) / times for n in range(times)]
    return found


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


def run(spec: JobSpec, plan: Plan, rate: float, seconds: int, seed: int, batch_s: int = 10) -> ChainRun:
    """Two Poisson streams through the chain."""
    rng = np.random.default_rng(seed)
    streams = {}
    for name in "AB":
        ts = poisson(rng, rate, seconds * SECOND_US)
        streams[name] = (ts, pa.table({
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "k": pa.array(rng.integers(0, KEYS, len(ts)).astype(np.int32)),
            "v": pa.array(rng.random(len(ts))),
        }))  # fmt: skip
    local, kept, delivered, began = LocalJob(spec, plan=plan), list[int](), 0, time.process_time()
    for start in range(0, seconds, batch_s):
        batch = {}
        for name, (ts, table) in streams.items():
            low, high = np.searchsorted(ts, [start * SECOND_US, (start + batch_s) * SECOND_US])
            batch[name] = table.slice(low, high - low)
        delivered += sum(t.num_rows for t in local.push(batch).values())
        kept.append(sum(local.counters()[0].state_rows))
    spent, c = time.process_time() - began, local.counters()[0]
    return ChainRun(float(np.mean(kept[len(kept) // 2 :])), c.comparisons, c.crossed, c.routed, delivered, spent)


# -- figures 12 to 16 ------------------------------------------------------------------------------------------------

FOUR = (5.0, 10.0, 20.0, 30.0)
SELECTIONS = ("", " AND A.v < 0.7", " AND A.v < 0.4", " AND A.v < 0.2")


def _every_chain() -> list[tuple[float, ...]]:
    return [(*inner, FOUR[-1]) for size in range(len(FOUR)) for inner in combinations(FOUR[:-1], size)]


def _chains(
    effort: Effort, where: Sequence[str] | None
) -> tuple[list[dict[str, Any]], dict[tuple[int, int], ChainRun]]:
    """Every chain of four windows over the same streams."""
    spec, rows, found = queries_of(FOUR, where), [], {}
    for seed in effort.seeds[: effort.pick(1, 3)]:
        for n, ends in enumerate(_every_chain()):
            ran = run(spec, cut_at(spec, ends), 40, 90, seed, 2)
            found[seed, n] = ran
            rows.append({"seed": seed, "slices_end_at_s": " ".join(f"{e:g}" for e in ends), "rows_kept": ran.kept,
                         "comparisons": ran.comparisons, "steps_over_cuts": ran.crossed,
                         "placed_by_age": ran.routed, "delivered": ran.delivered})  # fmt: skip
    return rows, found


def figure_12(effort: Effort) -> Findings:
    """Mem-Opt and merged chains without selections: theorem 3, figures 13 and 14."""
    rows, found = _chains(effort, None)
    seeds = sorted({s for s, _ in found})
    every = range(len(_every_chain()))
    mem = len(every) - 1
    claims = [
        judged("a Mem-Opt chain keeps what one regular join of the largest window keeps", "5.1, theorem 3, figure 12",
               "the same", [found[s, mem].kept / found[s, 0].kept for s in seeds], lambda r: abs(r - 1) < 1e-9,
               "of the rows of one slice"),
        judged("merging slices changes no probe", "5.2, figure 13", "the same",
               [max(found[s, n].comparisons for n in every) / min(found[s, n].comparisons for n in every)
                for s in seeds], lambda r: abs(r - 1) < 1e-9, "most over least rows looked at"),
        counted("merging trades steps over cuts for pairs placed by age", "5.2, figure 13", "one for the other",
                [(found[s, 0].crossed < found[s, mem].crossed) and (found[s, 0].routed > found[s, mem].routed)
                 for s in seeds], "seeds"),
        judged("the shortest path is the cheapest of all chains", "5.2, lemma 2, figure 14", "optimal",
               [_against_all(seed) for seed in effort.seeds], lambda r: abs(r - 1) < 1e-9,
               "of the cheapest of all 256 chains of nine windows"),
    ]  # fmt: skip
    return Findings(rows, claims, _panels(rows, seeds[0]))


def figure_15(effort: Effort) -> Findings:
    """The same with a selection for each query: theorem 4, figure 16."""
    rows, found = _chains(effort, SELECTIONS)
    seeds = sorted({s for s, _ in found})
    every = range(len(_every_chain()))
    mem = len(every) - 1
    claims = [
        counted("with selections pushed into it, Mem-Opt keeps the fewest rows of all chains", "6.1, theorem 4",
                "minimal", [found[s, mem].kept <= min(found[s, n].kept for n in every) for s in seeds], "seeds"),
        judged("merged slices keep rows for longer", "6.2, figure 16", "more",
               [found[s, 0].kept / found[s, mem].kept for s in seeds], lambda r: r > 1.05,
               "times the rows, in one slice", "a row leaves at the end of the last slice that a query wants it in"),
        judged("and look at more rows", "6.2, figure 16", "more",
               [found[s, 0].comparisons / found[s, mem].comparisons for s in seeds], lambda r: r > 1.05,
               "times the rows looked at, in one slice"),
        counted("every chain delivers the same rows", "6.1", "the same",
                [len({found[s, n].delivered for n in every}) == 1 for s in seeds], "seeds"),
    ]  # fmt: skip
    return Findings(rows, claims, _panels(rows, seeds[0]))


def _panels(rows: list[dict[str, Any]], seed: int) -> list[Panel]:
    own = [r for r in rows if r["seed"] == seed]
    names = [r["slices_end_at_s"] for r in own]
    kept = Panel("windows of 5, 10, 20, 30 s", "slices end at (seconds)", "rows kept",
                 [Curve("rows kept", names, [r["rows_kept"] for r in own])])  # fmt: skip
    work = [Curve(label, names, [r[c] for r in own]) for label, c in
            (("rows looked at", "comparisons"), ("steps over cuts", "steps_over_cuts"),
             ("pairs placed by age", "placed_by_age"))]  # fmt: skip
    return [kept, Panel("work in 90 s", "slices end at (seconds)", "count", work)]


def _against_all(seed: int) -> float:
    """The cost of the CPU-Opt chain of nine random windows over that of the cheapest of all chains."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.integers(1, 40, 9)) / 4
    kept = np.sort(rng.random(9))[::-1]
    windows = tuple(round(w * SECOND_US) for w in ends)
    edges = Edges(Survivors(windows, ends, kept, kept, kept * kept, 30, 30, MATCH), DEFAULT)
    costs = [
        float(edges.length(*edges.path((*inner, windows[-1]))).sum())
        for size in range(9)
        for inner in combinations(windows[:-1], size)
    ]
    return float(edges.length(*edges.path(CPU_OPT.cuts(edges))).sum()) / min(costs)


# -- figure 19 and table 4 -------------------------------------------------------------------------------------------


def printed_chain(windows: Sequence[float], rates: Floats, overheads: Floats) -> list[list[bool]]:
    """For each pair of a rate and an overhead the windows that the shortest path by section 5.2 cuts at.

    A slice of the windows i to j costs a purge and the system overhead for each row that comes, and routing for each
    pair and each window inside but the last.
    """
    n, ends = len(windows), [0.0, *windows]
    best, previous = [np.zeros_like(rates)], [np.zeros(len(rates), int)]
    for j in range(1, n + 1):
        costs = np.array([
            best[i] + 2 * rates * (1 + overheads) + 2 * rates**2 * (ends[j] - ends[i]) * MATCH * (j - i - 1)
            for i in range(j)
        ])  # fmt: skip
        previous.append(costs.argmin(axis=0))
        best.append(costs.min(axis=0))
    found = []
    for point in range(len(rates)):
        cut, j = [False] * n, n
        while j > 0:
            cut[j - 1] = True
            j = int(previous[j][point])
        found.append(cut)
    return found


def _as_printed() -> tuple[int, int, dict[str, int]]:
    """Of 14,400 rates and overheads those where all three chains are those of figure 19; and where each one is."""
    grid = list(product(np.geomspace(0.1, 1e5, 120), np.geomspace(1e-3, 1e5, 120)))
    rates, overheads = (np.array(column) for column in zip(*grid, strict=True))
    alike = {}
    for name, windows in TABLE_4.items():
        wanted = [w in FIGURE_19[name] for w in windows]
        alike[name] = np.array([cut == wanted for cut in printed_chain(windows, rates, overheads)])
    together = np.logical_and.reduce(list(alike.values()))
    return int(together.sum()), len(grid), {name: int(found.sum()) for name, found in alike.items()}


def our_chain(windows_s: Sequence[float], rate: float) -> list[float]:
    """The CPU-Opt chain of the planner, with its default constants."""
    windows, ones = tuple(round(w * SECOND_US) for w in windows_s), np.ones(len(windows_s))
    state = Survivors(windows, np.array(windows_s, float), ones, ones, ones, rate, rate, MATCH)
    return [cut / SECOND_US for cut in CPU_OPT.cuts(Edges(state, DEFAULT))]


PARTS = [("a", "Uniform", 12), ("b", "Mostly-Small", 12), ("c", "Small-Large", 12), ("d", "Small-Large", 24),
         ("e", "Small-Large", 36)]  # fmt: skip


def figure_19(effort: Effort) -> Findings:
    together, points, each = _as_printed()
    ours = [r for r in np.geomspace(1, 10_000, 120)
            if all(our_chain(w, r) == FIGURE_19[n] for n, w in TABLE_4.items())]  # fmt: skip
    rates, rounds = effort.pick((80,), RATES), effort.pick(2, 4)
    best: dict[tuple[str, int, str], float] = {}
    rows = []
    for part, name, queries in PARTS:
        windows = windows_of(name, queries)
        spec = queries_of(windows)
        chains = {MEM_OPT.name: windows, CPU_OPT.name: [w for w in windows if w in FIGURE_19[name]]}
        for rate, turn in product(rates, range(rounds)):
            for which in (list(chains), list(chains)[::-1])[turn % 2]:
                ran = run(spec, cut_at(spec, chains[which]), rate, 90, turn)
                best[part, rate, which] = max(best.get((part, rate, which), 0.0), ran.delivered / ran.seconds)
                rows.append({"part": part, "windows": name, "queries": queries, "rate": rate, "round": turn,
                             "chain": which, "slices": len(chains[which]), "rows_per_s": ran.delivered / ran.seconds,
                             "steps_over_cuts": ran.crossed, "placed_by_age": ran.routed})  # fmt: skip
    gains = [best[p, r, CPU_OPT.name] / best[p, r, MEM_OPT.name] - 1 for p, _, _ in PARTS[1:] for r in rates]
    claims = [
        judged("the printed model makes the three chains of figure 19 somewhere", "5.2 and 7.3, table 4",
               "at 20 to 80 rows/s", [together], lambda n: n > 0, f"of {points:,} rates and overheads",
               "its routing term counts every pair of a merged slice once for each window inside, so an overhead that "
               "makes the ten small windows of mostly-small one slice merges the two beyond them as well. Alone the "
               f"chains are made at {each['Uniform']:,} (uniform), {each['Mostly-Small']:,} (mostly-small) and "
               f"{each['Small-Large']:,} (small-large) points"),
        Claim("the planner's model makes them", "7.3, figure 19", "at 20 to 80 rows/s",
              f"at {number(min(ours))} to {number(max(ours))} rows/s" if ours else "at no rate",
              Verdict.PARTLY if ours else Verdict.DOES_NOT,
              "a pair of a merged slice is placed once, by a look-up; that is cheap beside a step over a cut, so it "
              "takes more pairs, and higher rates"),
        judged("CPU-Opt improves the service rate by 20% to 30% for skewed windows", "7.3, figure 19(b) to (e)",
               "0.2 to 0.3", [float(np.mean(gains))], lambda g: g >= 0.15, "more rows a second, on average",
               "a cut costs a probe some nanoseconds here; there is no operator to run, and rows are purged once"),
    ]  # fmt: skip
    panels = []
    for part, name, queries in PARTS:
        curves = [Curve(which, [f"{r} rows/s" for r in rates], [best[part, r, which] for r in rates])
                  for which in (MEM_OPT.name, CPU_OPT.name)]  # fmt: skip
        panels.append(Panel(f"({part}) {name}, {queries} queries", "rate", "rows delivered per core second", curves))
    return Findings(rows, claims, panels)


# -- section 5.3: migration ------------------------------------------------------------------------------------------


def section_5_3(effort: Effort) -> Findings:
    windows = windows_of("Uniform")
    rows, split, merge, moved = [], [], [], []
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
               "next rows wait for anyway", lambda r: r < 1),
        judged("merging two slices waits until the queue between them is empty", "5.3", "bounded by the queue", merge,
               lambda r: r <= 1, "micro-batches of 800 rows", "there is no queue: a cut is a number. What takes time "
               "is making the plan anew; a queue would hold the rows of a micro-batch at most, so that is the bound"),
        judged("neither costs extra processing", "5.3", "none", moved, lambda n: n == 0, "rows looked at"),
    ]  # fmt: skip
    names = ["split", "merge", "a micro-batch"]
    curve = Curve("seconds", names, [float(np.mean([r[c] for r in rows])) for c in ("split_s", "merge_s",
                  "micro_batch_s")])  # fmt: skip
    return Findings(rows, claims, [Panel("twelve windows, 800 rows each 2 s", "", "seconds of a core", [curve])])


STUDIES = (
    Study("wang2006", "figure 12", "all chains of four windows: Mem-Opt and merged ones (figures 12 to 14)", figure_12),
    Study("wang2006", "figure 15", "all chains of four windows with selections (figures 15 and 16)", figure_15),
    Study("wang2006", "figure 19", "Mem-Opt against CPU-Opt, with the windows of table 4", figure_19),
    Study("wang2006", "section 5.3", "how long a change of slices takes", section_5_3),
)
