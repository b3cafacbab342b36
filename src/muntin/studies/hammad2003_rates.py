"""Section 5 of hammad2003 on a virtual clock: figures 5 to 9 and the memory of 5.4.

"Average response time" is taken as the mean over windows, each counting the same: by means over output rows LWO would
be first for uniform and mostly-large windows, since nearly all rows are those of the largest windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from muntin.generate.windows import TABLE_1
from muntin.plan.schedulers import SCHEDULERS
from muntin.studies.scheduling import Scenario, measure
from muntin.studies.study import Claim, Effort, Findings, Panel, Study, counted, judged, over_seeds
from muntin.studies.virtual_clock import Measured

NAMES = SCHEDULERS.names
SMALL_LARGE = TABLE_1["small-large"]
Found = Mapping[str, Measured]
NESTED_RATE = 15.0
"""Rows a second and stream with nested loops (5.1)."""


@lru_cache(maxsize=512)
def schedulers(windows: Sequence[int], seed: int, rows: int, **more: Any) -> dict[str, Measured]:
    """The same rows under each scheduler."""
    return {name: measure(Scenario(windows, rows=rows, seed=seed, **more), name) for name in NAMES}


def means(found: Found) -> dict[str, float]:
    """Milliseconds, averaged over the windows."""
    return {name: measured.mean_of_queries_us / 1000 for name, measured in found.items()}


def by_window(found: Found, name: str, longest: bool = False) -> list[float]:
    """Milliseconds of each window, on average or at most."""
    return [(r.max_us if longest else r.mean_us) / 1000 for r in found[name].queries.values()]


def _gain(found: Found, over: str) -> float:
    mean = means(found)
    return 1 - mean["mqt"] / mean[over]


def _row(seed: int, where: Mapping[str, Any], found: Found) -> list[dict[str, Any]]:
    return [
        {
            "seed": seed,
            **where,
            "scheduler": name,
            "mean_ms": m.mean_of_queries_us / 1000,
            "mean_of_rows_ms": m.mean_us / 1000,
            "input_buffer": m.input_buffer,
            "output_buffer": m.output_buffer,
            "join_buffer": m.join_buffer,
            **{f"mean_w{i}_ms": ms for i, ms in enumerate(by_window(found, name), 1)},
            **{f"max_w{i}_ms": ms for i, ms in enumerate(by_window(found, name, True), 1)},
        }
        for name, m in found.items()
    ]


# -- figure 5 --------------------------------------------------------------------------------------------------------


def _distributions(seed: int, effort: Effort) -> dict[str, dict[str, Measured]]:
    return {name: schedulers(windows, seed, effort.pick(500, 4000)) for name, windows in TABLE_1.items()}


def figure_5(effort: Effort) -> Findings:
    runs = {seed: _distributions(seed, effort) for seed in effort.seeds}
    nested_rows = effort.pick(200, 1500)
    nested = {
        seed: {n: schedulers(w, seed, nested_rows, rate=NESTED_RATE, keys=1) for n, w in TABLE_1.items()}
        for seed in effort.seeds
    }
    rows = [
        row
        for algorithm, found in (("hash", runs), ("nested loops", nested))
        for seed, shapes in found.items()
        for name, each in shapes.items()
        for row in _row(seed, {"algorithm": algorithm, "windows": name}, each)
    ]
    claims = [*_orders(runs, "hash-based"), *_nested(runs, nested), _by_rows(runs)]
    panels = []
    for title, found in (("hash join, 100 rows/s", runs), ("nested loops, 15 rows/s", nested)):
        curves = [
            over_seeds(n.upper(), list(TABLE_1), [[means(s[d])[n] for d in TABLE_1] for s in found.values()])
            for n in NAMES
        ]
        panels.append(Panel(title, "windows (table 1)", "mean response time (ms)", curves))
    return Findings(rows, claims, panels)


def _orders(runs: Mapping[int, Mapping[str, Found]], which: str) -> list[Claim]:
    lowest = [max(means(f)["mqt"] / min(means(f)["lwo"], means(f)["swf"]) for f in s.values()) for s in runs.values()]
    claims = [
        judged("MQT has the lowest average response time for all four distributions", f"5.1, {which}", "lowest", lowest,
               lambda r: r < 1, "times the next lowest, where it is closest"),
        judged("for mostly-small windows SWF comes before LWO", f"5.1, {which}", "SWF second",
               [means(s["mostly-small"])["swf"] / means(s["mostly-small"])["lwo"] for s in runs.values()],
               lambda r: r < 1, "SWF over LWO"),
    ]  # fmt: skip
    for name in ("uniform", "mostly-large", "small-large"):
        ratios = [means(s[name])["lwo"] / means(s[name])["swf"] for s in runs.values()]
        why = ""
        if name == "uniform":
            why = (
                "the two are within some per cent of each other, so seeds decide. The load decides on which side of 1 "
                "they lie, and the paper does not say what a comparison cost it: at a load of 0.7 SWF is before LWO"
            )
        claims.append(judged(f"LWO is second for {name} windows", f"5.1, {which}", "LWO second", ratios,
                             lambda r: r < 1, "LWO over SWF", why))  # fmt: skip
    return claims


def _nested(runs: Mapping[int, Mapping[str, Found]], nested: Mapping[int, Mapping[str, Found]]) -> list[Claim]:
    lowest = [max(means(f)["mqt"] / min(means(f)["lwo"], means(f)["swf"]) for f in s.values()) for s in nested.values()]
    factors = [[means(nested[seed][d])[n] / means(runs[seed][d])[n] for d in TABLE_1 for n in NAMES] for seed in runs]
    slower, alike = [float(np.mean(f)) for f in factors], [max(f) / min(f) for f in factors]
    return [
        judged("with nested loops MQT is lowest as well", "5.1, nested loops", "resembles the hash join", lowest,
               lambda r: r < 1, "times the next lowest, where it is closest"),
        judged("apart from a factor they are alike: it is the same for all schedulers and windows",
               "5.1, nested loops", "resembles the hash join", alike, lambda r: r < 1.3,
               "largest over smallest factor"),
        judged("with nested loops at 15 rows/s response times are about ten times those of the hash join",
               "5.1, nested loops", "an order of magnitude", slower, lambda r: 7.5 < r < 13, "times",
               "the clock is virtual, and both are run at the same load of 0.5, since the costs of the paper's machine "
               "are not given: the factor is then that of the rates, 100/15, and says nothing of the join",
               lambda r: 3 < r < 30),
    ]  # fmt: skip


def _by_rows(runs: Mapping[int, Mapping[str, Found]]) -> Claim:
    ratios = [s["uniform"]["lwo"].mean_us / s["uniform"]["mqt"].mean_us for s in runs.values()]
    return judged("the average is one per output tuple, and MQT is lowest by it", "5.1", "MQT before LWO", ratios,
                  lambda r: r > 1, "LWO over MQT, uniform windows, over all rows",
                  "nearly all rows are those of the largest windows, and for these nothing is quicker than one row "
                  "after the other. The figure can only be a mean over the windows, which is how all other claims are "
                  "measured here")  # fmt: skip


# -- figure 6 --------------------------------------------------------------------------------------------------------


def figure_6(effort: Effort) -> Findings:
    names = ("uniform", "mostly-small")
    runs = {seed: {n: schedulers(TABLE_1[n], seed, effort.pick(500, 4000)) for n in names} for seed in effort.seeds}
    rows = [r for seed, s in runs.items() for n, f in s.items() for r in _row(seed, {"windows": n}, f)]
    each = list(runs.values())
    both = [f for s in each for f in s.values()]
    uneven = min(by_window(f, "swf")[-1] / by_window(f, "swf")[0] for f in both)
    claims = [
        judged("LWO takes about as long for every window", "5.1, figure 6", "about 1",
               [max(by_window(f, "lwo")[-1] / by_window(f, "lwo")[0] for f in s.values()) for s in each],
               lambda r: r < 1.5, "times as long for the largest as for the smallest",
               "a row that finds the operator idle has its first pairs at once. At a load of 0.5 half of them do; the "
               f"paper's equation 1 is for rows that come together. SWF's factor is at least {uneven:.0f}",
               lambda r: r < 3),
        counted("under SWF and MQT a larger window takes longer", "5.1, figure 6", "always",
                [b > 0.95 * a for f in both for n in ("swf", "mqt") for a, b in pairwise(by_window(f, n))],
                "neighbouring windows (5% allowed)"),
        judged("for the smallest window SWF and MQT are much faster than LWO", "5.1, figure 6", "much",
               [min(by_window(f, "lwo")[0] / by_window(f, n)[0] for f in s.values() for n in ("swf", "mqt"))
                for s in each], lambda r: r > 3, "times as fast"),
        judged("MQT and SWF are alike for all but the largest uniform window", "5.1, figure 6(a)", "similar",
               [max(abs(a / b - 1) for a, b in zip(by_window(s["uniform"], "mqt")[:-1],
                                                   by_window(s["uniform"], "swf")[:-1], strict=True)) for s in each],
               lambda d: d < 0.25, "apart at most",
               "windows at equal distances promise equal throughputs, and of equals MQT, going through the queues from "
               "the largest window on (3.3), takes the larger, SWF the smaller one"),
        judged("for the largest window MQT is faster than SWF, since it releases early", "5.1, figure 6", "faster",
               [max(by_window(f, "mqt")[-1] / by_window(f, "swf")[-1] for f in s.values()) for s in each],
               lambda r: r < 1, "MQT over SWF"),
        judged("SWF takes half as long for the largest mostly-small window as for the largest uniform one",
               "5.1, figure 6(b)", "0.5",
               [by_window(s["mostly-small"], "swf")[-1] / by_window(s["uniform"], "swf")[-1] for s in each],
               lambda r: 0.35 < r < 0.65, "of it", "the direction is that of equation 2", lambda r: r < 1),
        judged("MQT's maximum is always below SWF's for the largest window", "5.1, figure 6, maxima", "always better",
               [max(by_window(f, "mqt", True)[-1] / by_window(f, "swf", True)[-1] for f in s.values()) for s in each],
               lambda r: r < 1, "MQT over SWF, where they are closest",
               "it is for uniform windows. With mostly-small ones the two serve rows that wait in the same order, and "
               "the longest is the same", lambda r: r <= 1),
        judged("LWO's maximum is the same for all windows", "5.1, figure 6, maxima", "uniform",
               [max(max(by_window(f, "lwo", True)) / min(by_window(f, "lwo", True)) for f in s.values())
                for s in each], lambda r: r < 1.25, "largest over smallest",
               "larger windows end later in the scan of the row that waited longest", lambda r: r < 2),
        judged("a maximum can be one or two orders of magnitude above the mean", "5.1, figure 6, maxima", "10 to 100",
               [max(m / a for f in s.values() for n in NAMES
                    for m, a in zip(by_window(f, n, True), by_window(f, n), strict=True)) for s in each],
               lambda r: r >= 10, "times the mean at most", "the longest of more rows is longer", lambda r: r > 5),
    ]  # fmt: skip
    panels = []
    for longest, y in ((False, "mean response time (ms)"), (True, "longest response time (ms)")):
        for name in names:
            curves = [
                over_seeds(n.upper(), TABLE_1[name], [by_window(s[name], n, longest) for s in each]) for n in NAMES
            ]
            panels.append(Panel(f"{name} windows", "window (seconds)", y, curves, log_x=True, log_y=True))
    return Findings(rows, claims, panels)


# -- figures 7 and 8: bursts -----------------------------------------------------------------------------------------

BURSTS = (1.0, 2.0, 3.0, 4.0, 5.0)


def _bursty(seed: int, effort: Effort, size: float) -> dict[str, Measured]:
    return schedulers(SMALL_LARGE, seed, effort.pick(500, 4000), burst=size)


def figure_7(effort: Effort) -> Findings:
    runs = {seed: {b: _bursty(seed, effort, b) for b in BURSTS} for seed in effort.seeds}
    rows = [r for seed, s in runs.items() for b, f in s.items() for r in _row(seed, {"burst": b}, f)]
    each = list(runs.values())
    heavy = "the sizes of bursts have an infinite variance from a mean of 2 on, so seeds differ much"
    most = max(_gain(f, "lwo") for s in each for f in s.values())
    claims = [
        counted("MQT is the lowest for all burst sizes", "5.2, figure 7", "always",
                [means(f)["mqt"] < min(means(f)["lwo"], means(f)["swf"]) for s in each for f in s.values()],
                "runs"),
        judged("at bursts of three MQT improves on LWO by up to 60%", "5.2, figure 7", "0.6",
               [_gain(s[3.0], "lwo") for s in each], lambda g: g >= 0.55, "better",
               f"{heavy}; the most that MQT gains at any size with any seed is {most:.2f}", lambda g: g > 0.2),
        judged("at bursts of three MQT improves on SWF by 30%", "5.2, figure 7", "0.3",
               [_gain(s[3.0], "swf") for s in each], lambda g: 0.25 <= g <= 0.4, "better", heavy,
               lambda g: g > 0),
        judged("the more bursty, the longer the response times", "5.2, figure 7", "dramatically",
               [min(means(s[5.0])[n] / means(s[1.0])[n] for n in NAMES) for s in each], lambda r: r > 3,
               "times as long with 5 as with 1"),
        judged("the more bursty, the more MQT gains over LWO in absolute time", "5.2, figure 7", "more evident",
               [(means(s[5.0])["lwo"] - means(s[5.0])["mqt"]) / (means(s[1.0])["lwo"] - means(s[1.0])["mqt"])
                for s in each], lambda r: r > 1, "times the gain with 1"),
    ]  # fmt: skip
    curves = [over_seeds(n.upper(), BURSTS, [[means(s[b])[n] for b in BURSTS] for s in each]) for n in NAMES]
    gains = [over_seeds(f"over {n.upper()}", BURSTS, [[_gain(s[b], n) for b in BURSTS] for s in each])
             for n in ("lwo", "swf")]  # fmt: skip
    panels = [
        Panel("small-large windows", "mean burst size (rows)", "mean response time (ms)", curves, log_y=True),
        Panel("what MQT gains", "mean burst size (rows)", "part of the other's response time", gains),
    ]
    return Findings(rows, claims, panels)


def figure_8(effort: Effort) -> Findings:
    runs = {seed: _bursty(seed, effort, 5.0) for seed in effort.seeds}
    rows = [r for seed, f in runs.items() for r in _row(seed, {"burst": 5.0}, f)]
    each = list(runs.values())
    seconds = "the paper's seconds are those of its machine; ours are those of a load of 0.5. The ratio is compared"
    claims = [
        judged("for the largest window SWF takes 4 s where MQT is bounded by 1 s", "5.2, figure 8", "4",
               [by_window(f, "swf")[-1] / by_window(f, "mqt")[-1] for f in each], lambda r: r >= 3, "times MQT",
               seconds, lambda r: r > 1.5),
        judged("for the largest window MQT is about as quick as LWO", "3.3, figure 8", "not said",
               [by_window(f, "mqt")[-1] / by_window(f, "lwo")[-1] for f in each], lambda r: r < 1.2, "times LWO"),
        judged("for the smallest window MQT is far quicker than LWO", "3.3, figure 8", "not said",
               [by_window(f, "lwo")[0] / by_window(f, "mqt")[0] for f in each], lambda r: r > 20, "times as fast"),
    ]  # fmt: skip
    curves = [over_seeds(n.upper(), SMALL_LARGE, [by_window(f, n) for f in each]) for n in NAMES]
    panel = Panel("bursts of 5 rows", "window (seconds)", "mean response time (ms)", curves, log_x=True, log_y=True)
    return Findings(rows, claims, [panel])


# -- figure 9: where most queries are --------------------------------------------------------------------------------


def figure_9(effort: Effort) -> Findings:
    counts = [tuple(24 if n == most else 1 for n in range(7)) for most in range(7)]
    runs = {
        seed: [schedulers(SMALL_LARGE, seed, effort.pick(200, 1500), queries=c) for c in counts]
        for seed in effort.seeds
    }
    names = [f"w{n} ({w} s)" for n, w in enumerate(SMALL_LARGE, 1)]
    rows = []
    for seed, s in runs.items():
        for name, f in zip(names, s, strict=True):
            rows += [{"seed": seed, "most_queries": name, "scheduler": n, "mean_ms": ms} for n, ms in means(f).items()]
    each = list(runs.values())
    claims = [
        judged("MQT has the lowest average wherever 24 of 30 queries are", "5.3, figure 9", "lowest",
               [max(means(f)["mqt"] / min(means(f)["lwo"], means(f)["swf"]) for f in s) for s in each],
               lambda r: r < 1, "times the next lowest, where it is closest"),
        counted("with most queries at a small window SWF is before LWO", "5.3, figure 9", "SWF before LWO",
                [means(f)["swf"] < means(f)["lwo"] for s in each for f in s[:3]], "runs (w1 to w3)"),
        counted("with most queries at a large window LWO is before SWF", "5.3, figure 9", "LWO before SWF",
                [means(f)["lwo"] < means(f)["swf"] for s in each for f in s[4:]], "runs (w5 to w7)"),
    ]  # fmt: skip
    curves = [over_seeds(n.upper(), names, [[means(f)[n] for f in s] for s in each]) for n in NAMES]
    panel = Panel("24 of 30 queries at one window", "window with most queries", "mean response time (ms)", curves)
    return Findings(rows, claims, [panel])


# -- section 5.4: memory ---------------------------------------------------------------------------------------------


def section_5_4(effort: Effort) -> Findings:
    runs = {
        seed: {**_distributions(seed, effort), **{f"bursts of {b:g}": _bursty(seed, effort, b) for b in (3.0, 5.0)}}
        for seed in effort.seeds
    }
    rows = [r for seed, s in runs.items() for n, f in s.items() for r in _row(seed, {"where": n}, f)]
    each, places = list(runs.values()), list(next(iter(runs.values())))

    def share(measured: Measured, buffer: str) -> float:
        return 100 * float(getattr(measured, buffer)) / measured.join_buffer

    held = (
        "SWF keeps all pairs of each row that waits; with 120 partners a row, 3% of the join buffer are the pairs of 15"
    )
    claims = [
        judged("the input buffer stays below 20% of the join buffer", "5.4", "below 20%",
               [max(share(f[n], "input_buffer") for f in s.values() for n in NAMES) for s in each],
               lambda p: p < 20, "% at most"),
        judged("SWF's input buffer stays below 10%", "5.4", "below 10%",
               [max(share(f["swf"], "input_buffer") for f in s.values()) for s in each], lambda p: p < 10, "% at most"),
        judged("MQT's output buffer stays below 3% of the join buffer", "5.4", "below 3%",
               [max(share(f["mqt"], "output_buffer") for f in s.values()) for s in each], lambda p: p < 3, "% at most"),
        judged("SWF's output buffer stays below 3% without bursts", "5.4", "below 3%",
               [max(share(s[n]["swf"], "output_buffer") for n in TABLE_1) for s in each], lambda p: p < 3, "% at most",
               held, lambda p: p < 10),
        judged("SWF's output buffer stays below 3% in bursts", "5.4", "below 3%",
               [share(s["bursts of 3"]["swf"], "output_buffer") for s in each], lambda p: p < 3, "%", held),
    ]  # fmt: skip
    panels = []
    for buffer in ("input_buffer", "output_buffer"):
        curves = [
            over_seeds(n.upper(), places, [[share(s[p][n], buffer) for p in places] for s in each]) for n in NAMES
        ]
        panels.append(Panel(buffer.replace("_", " "), "windows and bursts", "% of the join buffer", curves, log_y=True))
    return Findings(rows, claims, panels)


STUDIES = (
    Study(
        "hammad2003",
        "figure 5",
        "mean response time of each scheduler for four sets of windows",
        figure_5,
        ("table 1",),
    ),
    Study("hammad2003", "figure 6", "mean and longest response time of each window", figure_6),
    Study("hammad2003", "figure 7", "response times as rows come in larger bursts", figure_7),
    Study("hammad2003", "figure 8", "response time of each window with bursts of five", figure_8),
    Study("hammad2003", "figure 9", "response times where most queries have one window", figure_9),
    Study("hammad2003", "section 5.4", "buffers of rows that wait and of results that are held", section_5_4),
)
