"""Mem-Opt against CPU-Opt (wang2006 7.3): figure 19 with the windows of table 4.

`printed_chain` is the shortest path over the costs as section 5.2 prints them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from muntin.kernels.arrays import Floats
from muntin.plan.chains import CPU_OPT, MEM_OPT, Edges
from muntin.plan.cost import DEFAULT
from muntin.plan.traffic import Survivors
from muntin.studies.study import Claim, Effort, Findings, Panel, Study, Verdict, judged, number, over_seeds
from muntin.studies.wang2006_chains import MATCH, SECOND_US, cut_at, queries_of, run

TABLE_4 = {
    "Uniform": [2.5 * n for n in range(1, 13)],
    "Mostly-Small": [*range(1, 11), 20.0, 30.0],
    "Small-Large": [*range(1, 7), *range(25, 31)],
}
FIGURE_19 = {"Uniform": TABLE_4["Uniform"], "Mostly-Small": [10, 20, 30], "Small-Large": [6, 30]}
"""Ends of the slices of the CPU-Opt chains, as the paper describes them."""
RATES = (20, 40, 60, 80)
PARTS = [("a", "Uniform", 12), ("b", "Mostly-Small", 12), ("c", "Small-Large", 12), ("d", "Small-Large", 24),
         ("e", "Small-Large", 36)]  # fmt: skip
"""Of figure 19: windows and number of queries."""


def windows_of(name: str, queries: int = 12) -> list[float]:
    """Table 4 for 12 queries; for more, windows in between at even distances."""
    times = queries // 12
    base = [0.0, *TABLE_4[name]]
    found = []
    for low, high in pairwise(base):
        step = min(high - low, 1.0 if name != "Uniform" else 2.5)
        found += [high - step * (times - 1 - n) / times for n in range(times)]
    return found


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


def _timed(effort: Effort, rates: Sequence[int]) -> list[dict[str, Any]]:
    """Each part at each rate under both chains, one right after the other, in an order that changes with the round."""
    rows = []
    for part, name, queries in PARTS:
        windows = windows_of(name, queries)
        spec = queries_of(windows)
        chains = {MEM_OPT.name: windows, CPU_OPT.name: [w for w in windows if w in FIGURE_19[name]]}
        run(spec, cut_at(spec, windows), rates[0], 10, 0)  # compiled before anything is timed
        for rate, turn in product(rates, range(effort.pick(3, 5))):
            for which in (list(chains), list(chains)[::-1])[turn % 2]:
                ran = run(spec, cut_at(spec, chains[which]), rate, 90, turn)
                rows.append({"part": part, "windows": name, "queries": queries, "rate": rate, "round": turn,
                             "chain": which, "slices": len(chains[which]), "rows_per_s": ran.delivered / ran.seconds,
                             "steps_over_cuts": ran.crossed, "placed_by_age": ran.routed})  # fmt: skip
    return rows


def figure_19(effort: Effort) -> Findings:
    together, points, each = _as_printed()
    ours = [r for r in np.geomspace(1, 10_000, 120)
            if all(our_chain(w, r) == FIGURE_19[n] for n, w in TABLE_4.items())]  # fmt: skip
    rates = effort.pick((80,), RATES)
    rows = _timed(effort, rates)
    speed = {(r["part"], r["rate"], r["round"], r["chain"]): r["rows_per_s"] for r in rows}
    rounds = sorted({r["round"] for r in rows})

    def gains(*parts: str) -> list[float]:
        """Of CPU-Opt over Mem-Opt in each round, on average over parts and rates."""
        return [float(np.mean([speed[p, r, turn, CPU_OPT.name] / speed[p, r, turn, MEM_OPT.name] - 1
                               for p in parts for r in rates])) for turn in rounds]  # fmt: skip

    cheap = "a cut costs a probe some nanoseconds here; there is no operator to run, and rows are purged once"
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
               "0.2 to 0.3", gains("b", "c", "d", "e"), lambda g: g >= 0.15, "more rows a second, on average", cheap,
               lambda g: g > 0, over="rounds", timed=True),
        judged("the more skewed the windows, the more it improves", "7.3, figure 19(b) and (c)", "more in (c)",
               [c - b for b, c in zip(gains("b"), gains("c"), strict=True)], lambda d: d > 0,
               "more in (c) than in (b)", cheap, over="rounds", timed=True),
        judged("the more queries, the more it improves", "7.3, figure 19(c) to (e)", "more in (e)",
               [e - c for c, e in zip(gains("c"), gains("e"), strict=True)], lambda d: d > 0,
               "more with 36 queries than with 12", cheap, over="rounds", timed=True),
    ]  # fmt: skip
    panels = []
    for part, name, queries in PARTS:
        curves = [over_seeds(which, [str(r) for r in rates], [[speed[part, r, turn, which] for r in rates]
                                                                     for turn in rounds])
                  for which in (MEM_OPT.name, CPU_OPT.name)]  # fmt: skip
        panels.append(Panel(f"({part}) {name}, {queries} queries", "rows a second and stream",
                            "rows delivered per second of a core", curves))  # fmt: skip
    return Findings(rows, claims, panels)


STUDIES = (
    Study("wang2006", "figure 19", "Mem-Opt against CPU-Opt, with 12, 24 and 36 queries", figure_19, ("table 4",)),
)
