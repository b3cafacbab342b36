"""kostowski's section 4 with the index that ships: nested loops, hash join, buckets, and the four invalidations.

Two Poisson streams, windows of 30 s; the last 30 of 60 seconds are measured. The index keeps a buffer per key; for the
figures with buckets it is given the number of a bucket in place of a key, and keys are compared pair by pair, as in the
paper. Nested loops are one bucket. Rows looked at and checks are counted; seconds are those of this machine's core.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from muntin.plan.cost import Load, scanned
from muntin.plan.invalidations import INVALIDATIONS
from muntin.studies.study import PAPER, Curve, Effort, Findings, Panel, Study, counted, judged, over_seeds
from muntin.testing.stale_rows import KEYS, LOOK_S, RATE, WINDOW_S, cleaning, occupancy
from muntin.testing.steady import SteadyJoin

PROBE = "probe"
SLOW = 20.0
"""Rows a second of stream A in figures 4 to 6: nested loops look at the whole window."""
RELATIVE = (0.25, 0.5, 1.0, 2.0, 4.0)
ALIKE = (
    "a kernel looks at a row in nanoseconds here, so that storing the row and taking it out, which both do, weigh more "
    "than in 2004"
)
GREEDY, LAZY = ("probe-all", "all"), ("probe", "probe-insert")


@dataclass(frozen=True)
class HalfMinute:
    """What the measured half minute took: rows looked at, pairs, seconds of a core; and the load that really came."""

    comparisons: int
    pairs: int
    seconds: float
    came: Load


def half_minute(load: Load, buckets: int | None, seed: int) -> HalfMinute:
    """The second half of a minute, with so many buckets, or a buffer for each key."""
    join = SteadyJoin(load, "probe-insert", seed, buckets=buckets)
    first = join.draw(WINDOW_S)
    join.take(first)
    rows, before = join.draw(WINDOW_S), join.counters.comparisons
    start = time.process_time()
    pairs = join.take(rows)
    seconds = time.process_time() - start
    a, b = np.bincount(np.concatenate([first.side, rows.side]), minlength=2) / (2 * WINDOW_S)
    came = replace(load, lambda_a=float(a), lambda_b=float(b))
    return HalfMinute(join.counters.comparisons - before, pairs, seconds, came)


def _load(relative: float, keys: int = KEYS, rate: float = SLOW) -> Load:
    return Load(rate, rate * relative, WINDOW_S, WINDOW_S, keys)


# -- section 3.1 and figure 4 ----------------------------------------------------------------------------------------


def figure_4(effort: Effort) -> Findings:
    half_minute(_load(1.0), 1, 0)  # compiled before anything is timed
    runs = {
        (seed, r): (half_minute(_load(r), 1, seed), half_minute(_load(r), KEYS, seed))
        for seed in effort.seeds
        for r in RELATIVE
    }
    rows = [
        {"seed": seed, "relative_rate": r, "algorithm": name, "comparisons": f.comparisons, "pairs": f.pairs,
         "seconds": f.seconds}
        for (seed, r), found in runs.items() for name, f in zip(("WNL", "WHJ"), found, strict=True)
    ]  # fmt: skip
    ratios = [
        float(np.mean([runs[seed, r][0].comparisons / runs[seed, r][1].comparisons for r in RELATIVE]))
        for seed in effort.seeds
    ]
    seconds = [
        sum(runs[seed, r][0].seconds for r in RELATIVE) / sum(runs[seed, r][1].seconds for r in RELATIVE)
        for seed in effort.seeds
    ]
    claims = [
        judged("a hash join with 100 buckets looks at a hundredth of the rows of nested loops", "4.2, figure 4", "100",
               ratios, lambda r: 85 < r < 115, "times as many rows looked at"),
        judged("that is two orders of magnitude of processing time", "4.2, figure 4", "about 100", seconds,
               lambda r: r > 50, "times as long, in seconds", ALIKE, lambda r: r > 2, timed=True),
        counted("both find the same pairs", "2", "the same",
                [w.pairs == h.pairs > 0 for w, h in runs.values()], "runs"),
    ]  # fmt: skip
    panels = []
    for y, pick in (("rows looked at in 30 s", "comparisons"), ("seconds of a core", "seconds")):
        curves = [
            over_seeds(name, RELATIVE, [[getattr(runs[s, r][n], pick) for r in RELATIVE] for s in effort.seeds])
            for n, name in enumerate(("nested loops (WNL)", "hash join, 100 buckets (WHJ)"))
        ]
        panels.append(Panel("windows of 30 s", "rate of B over rate of A", y, curves, log_x=True, log_y=True))
    return Findings(rows, claims, panels)


def section_3_1(effort: Effort) -> Findings:
    """Equations 1 and 2 beside counts: rows looked at per second, for one and for a hundred buckets."""
    apart, rows = [], []
    measured: dict[tuple[int, int], list[float]] = {}
    for seed in effort.seeds:
        worst = 0.0
        for buckets in (1, KEYS):
            for r in RELATIVE:
                found = half_minute(_load(r), buckets, seed)
                predicted = scanned(replace(found.came, n=buckets)) * WINDOW_S
                rows.append({"seed": seed, "buckets": buckets, "relative_rate": r, "comparisons": found.comparisons,
                             "predicted": predicted})  # fmt: skip
                measured.setdefault((seed, buckets), []).append(found.comparisons)
                worst = max(worst, abs(found.comparisons / predicted - 1))
        apart.append(worst)
    growth = [measured[s, KEYS][-1] / measured[s, KEYS][0] for s in effort.seeds]
    claims = [
        judged("equations 1 and 2 give the rows looked at", "3.1, equations 1 and 2", "exact", apart,
               lambda d: d < 0.1, "apart at most",
               "by the rates that came in that minute; within it they vary, the more the slower a stream is",
               lambda d: d < 0.2),
        judged("with one rate fixed the cost grows linearly with the other", "3.1", "16 for 16 times the rate", growth,
               lambda g: 12 < g < 20, "times", "a stream of 5 rows/s brings 150 in half a minute, give or take 25"),
    ]  # fmt: skip
    panels = []
    for buckets, name in ((1, "nested loops, equation 1"), (KEYS, "hash join, equation 2")):
        printed = [scanned(Load(SLOW, SLOW * r, WINDOW_S, WINDOW_S, buckets)) * WINDOW_S for r in RELATIVE]
        curves = [over_seeds("counted", RELATIVE, [measured[s, buckets] for s in effort.seeds]),
                  Curve("by the equation", RELATIVE, printed, style=PAPER)]  # fmt: skip
        panels.append(Panel(name, "rate of B over rate of A", "rows looked at in 30 s", curves))
    return Findings(rows, claims, panels)


# -- figures 5 and 6: buckets ----------------------------------------------------------------------------------------

BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def _bucketed(keys: int, seed: int, buckets: Sequence[int] = BUCKETS) -> list[HalfMinute]:
    return [half_minute(_load(1.0, keys), n, seed) for n in buckets]


def figure_5(effort: Effort) -> Findings:
    half_minute(_load(1.0), 1, 0)
    runs = {seed: _bucketed(KEYS, seed) for seed in effort.seeds}
    rows = [{"seed": s, "buckets": n, "comparisons": f.comparisons, "seconds": f.seconds}
            for s, found in runs.items() for n, f in zip(BUCKETS, found, strict=True)]  # fmt: skip
    products = [
        max(abs(f.comparisons * n / found[0].comparisons - 1) for n, f in zip(BUCKETS[:7], found, strict=False))
        for found in runs.values()
    ]
    flat = [found[-1].comparisons / found[6].comparisons for found in runs.values()]
    claims = [
        judged("the cost is inversely proportional to the number of buckets", "4.2, figure 5", "1/N up to 100",
               products, lambda d: d < 0.15, "off 1/N at most"),
        judged("beyond the number of keys, 100, more buckets gain nothing", "4.2, figure 5", "flat from 100 on", flat,
               lambda r: 0.95 < r <= 1, "of the rows looked at with 100, for 500 buckets"),
        judged("so is the processing time", "4.2, figure 5", "100 times as long with 1 as with 100",
               [found[0].seconds / found[6].seconds for found in runs.values()], lambda r: r > 50,
               "times as long with 1 bucket as with 100", ALIKE, lambda r: r > 2, timed=True),
    ]  # fmt: skip
    counts = over_seeds("counted", BUCKETS, [[f.comparisons for f in found] for found in runs.values()])
    formula = [scanned(Load(SLOW, SLOW, WINDOW_S, WINDOW_S, n)) * WINDOW_S for n in BUCKETS]
    times = over_seeds("measured", BUCKETS, [[f.seconds for f in found] for found in runs.values()])
    panels = [
        Panel("100 keys", "buckets", "rows looked at in 30 s", [counts, Curve("equation 2", BUCKETS, formula,
              style=PAPER)], log_x=True, log_y=True),
        Panel("100 keys", "buckets", "seconds of a core", [times], log_x=True, log_y=True),
    ]  # fmt: skip
    return Findings(rows, claims, panels)


def figure_6(effort: Effort) -> Findings:
    selectivities = {0.1: 10, 0.02: 50, 0.01: 100, 0.005: 200}
    runs = {s: {keys: _bucketed(keys, s) for keys in selectivities.values()} for s in effort.seeds}
    rows = [{"seed": s, "selectivity": sel, "buckets": n, "comparisons": f.comparisons, "seconds": f.seconds}
            for s, each in runs.items() for sel, keys in selectivities.items()
            for n, f in zip(BUCKETS, each[keys], strict=True)]  # fmt: skip
    flat = [
        max(each[k][-1].comparisons / each[k][BUCKETS.index(k)].comparisons for k in selectivities.values())
        for each in runs.values()
    ]
    before = [
        min(each[k][0].comparisons / each[k][BUCKETS.index(k)].comparisons / k for k in selectivities.values())
        for each in runs.values()
    ]
    claims = [
        judged("curves flatten where buckets equal the distinct values", "4.2, figure 6", "flat from there", flat,
               lambda r: 0.9 < r < 1.1, "of the rows looked at there, with 500 buckets"),
        judged("and fall as 1/N until there", "4.2, figure 6", "1", before, lambda r: 0.85 < r < 1.15, "of 1/N"),
    ]  # fmt: skip
    curves = [
        over_seeds(f"selectivity {sel:g}", BUCKETS, [[f.comparisons for f in runs[s][k]] for s in effort.seeds])
        for sel, k in selectivities.items()
    ]
    times = [
        over_seeds(f"selectivity {sel:g}", BUCKETS, [[f.seconds for f in runs[s][k]] for s in effort.seeds])
        for sel, k in selectivities.items()
    ]
    title = "join selectivity = 1 / keys"
    panels = [Panel(title, "buckets", "rows looked at in 30 s", curves, log_x=True, log_y=True),
              Panel(title, "buckets", "seconds of a core", times, log_x=True, log_y=True)]  # fmt: skip
    return Findings(rows, claims, panels)


# -- figures 7 and 8: invalidation -----------------------------------------------------------------------------------


def figure_7(effort: Effort) -> Findings:
    names = INVALIDATIONS.names
    cleaning(names[0])
    checks: dict[str, list[int]] = {n: [] for n in names}
    seconds: dict[str, list[float]] = {n: [] for n in names}
    for seed in effort.seeds:
        for turn in range(len(names)):  # rotated, so that a slow moment does not hit always the same one
            name = names[(turn + seed) % len(names)]
            taken = [cleaning(name, seed) for _ in range(effort.pick(2, 5))]
            checks[name].append(taken[0][1])
            seconds[name].append(min(s for s, _ in taken))
    rows = [{"seed": s, "strategy": n, "checks": checks[n][i], "seconds": seconds[n][i]}
            for i, s in enumerate(effort.seeds) for n in names]  # fmt: skip
    each = range(len(effort.seeds))
    claims = [
        judged("probe-and-insert costs about as much as probe alone", "4.2, figure 7", "about 1, in seconds",
               [seconds["probe-insert"][i] / seconds["probe"][i] for i in each], lambda r: r < 1.1,
               "times probe, in seconds", timed=True),
        judged("both outperform the two greedy strategies substantially", "4.2, figure 7", "substantially",
               [min(checks[g][i] for g in GREEDY) / max(checks[z][i] for z in LAZY) for i in each],
               lambda r: r > 10, "times the checks"),
        judged("in seconds as well", "4.2, figure 7", "substantially",
               [min(seconds[g][i] for g in GREEDY) / max(seconds[z][i] for z in LAZY) for i in each],
               lambda r: r > 1.5, "times the seconds",
               "a check takes some nanoseconds here, far less than storing the row for which it is made",
               lambda r: r > 1, timed=True),
    ]  # fmt: skip
    panels = [
        Panel("equal rates, 100 keys", "invalidation", "checks for stale rows in 30 s",
              [over_seeds("checks", names, [[checks[n][i] for n in names] for i in each])], log_y=True),
        Panel("equal rates, 100 keys", "invalidation", "seconds of a core",
              [over_seeds("seconds", names, [[seconds[n][i] for n in names] for i in each])]),
    ]  # fmt: skip
    return Findings(rows, claims, panels)


def figure_8(effort: Effort) -> Findings:
    names, window = INVALIDATIONS.names, RATE * WINDOW_S
    alone = {(s, n): occupancy(n, s) for s in effort.seeds for n in names}
    swept = {(s, n): occupancy(n, s, sweep=True) for s in effort.seeds for n in names}
    places = [LOOK_S * (i + 1) for i in range(len(next(iter(alone.values()))))]
    rows = [{"seed": s, "strategy": n, "sweep": sweep, "second": at, "rows_kept": kept}
            for sweep, found in ((False, alone), (True, swept)) for (s, n), each in found.items()
            for at, kept in zip(places, each, strict=True)]  # fmt: skip

    def steady(found: dict[tuple[int, str], list[int]], seed: int, name: str) -> float:
        kept = found[seed, name]
        return float(np.mean(kept[len(kept) // 2 :])) / window

    claims = [
        judged("probe-time invalidation alone piles up stale rows", "4.2, figure 8", "well above the others",
               [steady(alone, s, PROBE) for s in effort.seeds], lambda r: r > 1.3, "windows kept"),
        judged("the other three keep about the same", "4.2, figure 8", "about one window",
               [max(steady(alone, s, n) for n in names if n != PROBE) for s in effort.seeds], lambda r: r < 1.1,
               "windows kept at most"),
        judged("so the strategy decides how much memory a join takes", "4.2, figure 8", "yes, by a factor above 1.3",
               [max(steady(swept, s, n) for n in names) / min(steady(swept, s, n) for n in names)
                for s in effort.seeds], lambda r: r > 1.3, "most over least, as the operator runs",
               "after each micro-batch the operator takes out all that is stale, by a list in order of time. With that "
               "sweep all four keep the same rows, and the strategies differ in work alone"),
    ]  # fmt: skip
    panels = []
    for title, found in (("the strategy on its own", alone), ("with the operator's sweep", swept)):
        curves = [over_seeds(n, places, [found[s, n] for s in effort.seeds]) for n in names]
        panels.append(Panel(title, "second", "rows kept of the fast stream", curves))
    return Findings(rows, claims, panels)


STUDIES = (
    Study("kostowski", "section 3.1", "equations 1 and 2 beside the rows that are looked at", section_3_1),
    Study("kostowski", "figure 4", "nested loops against a hash join as one stream gets faster", figure_4),
    Study("kostowski", "figure 5", "the hash join with more and more buckets", figure_5),
    Study("kostowski", "figure 6", "buckets and join selectivity", figure_6),
    Study("kostowski", "figure 7", "what the four invalidation strategies cost", figure_7),
    Study("kostowski", "figure 8", "what the four invalidation strategies keep", figure_8),
)
