"""Response times of hammad2005: the equations (figures 5 and 6), and the experiments of 7.2 (figures 7 to 10).

The operator joins one row at a time under each ordering; a server takes c seconds for a comparison, and a row is
answered when it has been joined and both streams have passed it. Windows of a minute are full when the clock starts.

What the server is charged for is a *reading* of the paper:

    one server       every row looks at the whole window of the other stream, which costs c each: the load is twice
                     c w l1 l2, since the rows of either stream make half of the comparisons
    fast rows only   as the analysis of 4.1 counts: rows of the slow stream are joined by somebody else, or for free
    fast rows, 1.4 c the same, where a comparison takes 1.4 times the c that was estimated: 7.2.1 explains
                     by its estimate of c why it gains more than it should
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from muntin.core.batch import stream_schema
from muntin.model import Side
from muntin.plan.orderings import FILTER_ORDER, SYNC_FILTER, Pace, gain
from muntin.studies.hammad2005_examples import job
from muntin.studies.study import PAPER, Curve, Effort, Findings, Panel, Study, counted, judged, over_seeds
from muntin.studies.virtual_order import SECOND_US, Arrival, Trace, simulate, stamped

WINDOW_S, SLOW, FAST, ALPHA = 60.0, 1.0, 10.0, 0.3
ORDERS = (SYNC_FILTER.name, FILTER_ORDER.name)
SAME = 1e-9
COSTS = (1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 7.5e-4, 1e-3)
"""Seconds of a comparison; the paper varies them from a microsecond to a millisecond by its number of queries."""
READINGS: dict[str, tuple[Side | None, float]] = {
    "one server": (None, 1.0),
    "fast rows only": (Side.LEFT, 1.0),
    "fast rows, 1.4 c": (Side.LEFT, 1.4),
}
"""The side whose rows are free, and what a comparison takes in c."""
MILLI = [1000 * c for c in COSTS]
BELOW, AT, BEYOND = (1e-4, 2.5e-4), 5e-4, 7.5e-4
"""Costs at which Adaptive is run: c w l1 l2 is alpha at the middle one."""


def arrivals(slow: float, fast: float, seconds: float, rng: random.Random | None = None) -> list[Arrival]:
    """S is the slow stream. Evenly spaced, T right after S; or with exponential gaps."""
    found = []
    for side, rate in ((Side.LEFT, slow), (Side.RIGHT, fast)):
        at = 0.0 if rng else 0.001 * side
        while at < seconds:
            found.append(Arrival(side, round(at * SECOND_US), at))
            at += rng.expovariate(rate) if rng else 1 / rate
    return sorted(found, key=lambda a: a.at_s)


def simulated(
    ordering: str, brought: list[Arrival], *costs: float, readings: Sequence[str] = ("one server",)
) -> list[Trace]:
    """With a window of a minute that is full when the clock starts at 60 s; all costs by each reading."""
    spec = job(ordering, "1 min")
    rows = []
    for side, name in enumerate("ST"):
        times = [a.ts_us for a in brought if a.side == side]
        rows.append(stamped(times, {"item": ["x"] * len(times)}, "ts", stream_schema(spec.streams[name])))
    servers = [(factor * c, side) for side, factor in (READINGS[reading] for reading in readings) for c in costs]
    return simulate(spec, rows, brought, servers, sum(a.at_s < WINDOW_S for a in brought))


def response(trace: Trace, brought: list[Arrival], side: Side | None = None) -> float:
    """Seconds from arrival to answer, on average; None of the rows that came while windows filled counts."""
    told = [s for n, s in trace.responses.items() if brought[n].at_s >= 61 and side in (None, brought[n].side)]
    return sum(told) / len(told) if told else float("nan")


# -- figures 5 and 6: the equations ----------------------------------------------------------------------------------


def _analytic(paces: Sequence[Pace], x: Sequence[float], label: str, title: str) -> Findings:
    sync, early = ([o.response_s(p) for p in paces] for o in (SYNC_FILTER, FILTER_ORDER))
    gains = [1 - e / s for s, e in zip(sync, early, strict=True)]
    kept_up = [g for g, p in zip(gains, paces, strict=True) if p.keeps_up]
    rows = [{label: at, "load": p.load, "sync_filter_s": s, "filter_order_s": e, "gain": g}
            for at, p, s, e, g in zip(x, paces, sync, early, gains, strict=True)]  # fmt: skip
    claims = [
        counted("Filter-Order gains load / (1 + load)", "5.2, equation 7", "exact",
                [abs(g - gain(p.load)) < SAME for g, p in zip(gains, paces, strict=True)], "points"),
        judged("the gain is bounded by 0.5 while the join keeps up", "5.2, equation 8", "0.5", [max(kept_up)],
               lambda g: g <= 0.5, "at most"),
        counted("and comes closer to 0.5 the less the join keeps up", "5.2, example 1", "closer",
                [a < b <= 0.5 for a, b in pairwise(kept_up)], "steps"),
    ]  # fmt: skip
    panels = [
        Panel(title, label, "mean response time (seconds)", [Curve("Sync-Filter, equation 3", x, sync),
              Curve("Filter-Order, equation 5", x, early)], log_x=True, log_y=True),
        Panel(title, label, "gain of Filter-Order", [Curve("equation 7", x, gains)], log_x=True),
    ]  # fmt: skip
    return Findings(rows, claims, panels)


def figure_5(_: Effort) -> Findings:
    micro = [0.01 * 2**n for n in range(8)]
    return _analytic([Pace(1e-6 * c, 86_400, SLOW, FAST) for c in micro], micro, "cost of a comparison (us)", "a day")


def figure_6(_: Effort) -> Findings:
    rates = [1e-4 * 10 ** (n / 4) for n in range(13)]
    paces = [Pace(1e-4, 86_400, slow, 1.0) for slow in rates]
    found = _analytic(paces, rates, "rate of the slow stream (rows/s)", "a day, 1 row/s")
    sync, early = ([float(o.response_s(paces[-1]) or 0.0)] for o in (SYNC_FILTER, FILTER_ORDER))
    claims = [
        judged("at 0.1 rows/s Sync-Filter takes 10 s", "5.2, example 2", "10 s", sync, lambda s: 9 < s < 11, "s"),
        judged("and Filter-Order 5 s", "5.2, example 2", "5 s", early, lambda s: 4.5 < s < 5.5 + SAME, "s"),
    ]
    return Findings(found.rows, [*found.claims, *claims], found.panels)


# -- figures 7 and 8: the cost of a comparison -----------------------------------------------------------------------


@lru_cache(maxsize=2)
def _by_cost(effort: Effort) -> dict[tuple[int, str], dict[str, list[float]]]:
    """For each seed and reading the response times of each ordering over the costs."""
    found: dict[tuple[int, str], dict[str, list[float]]] = {}
    for seed in effort.seeds:
        brought = arrivals(SLOW, FAST, WINDOW_S + effort.pick(120, 1200), random.Random(seed))
        for o in ORDERS:
            told = [response(t, brought) for t in simulated(o, brought, *COSTS, readings=list(READINGS))]
            for n, reading in enumerate(READINGS):
                found.setdefault((seed, reading), {})[o] = told[n * len(COSTS) : (n + 1) * len(COSTS)]
    return found


def _equations_met() -> float:
    """With evenly spaced rows, as 4.1 derives them: how far equations 3 and 5 are off for rows of the fast stream."""
    brought, costs, worst = arrivals(1, 10, 67), (1e-6, 1e-4, 2.5e-4, 5e-4), 0.0
    for ordering in (SYNC_FILTER, FILTER_ORDER):
        for c, trace in zip(costs, simulated(ordering.name, brought, *costs), strict=True):
            printed = ordering.response_s(Pace(c, WINDOW_S, 1, 10)) or 0.0
            worst = max(worst, abs(response(trace, brought, Side.RIGHT) / printed - 1))
    return worst


@lru_cache(maxsize=2)
def _adaptive(effort: Effort) -> dict[tuple[int, float], tuple[float, bool]]:
    """For each seed and cost the response time of Adaptive, and whether it has gone over to Filter-Order."""
    found = {}
    for seed in effort.seeds:
        brought = arrivals(SLOW, FAST, WINDOW_S + effort.pick(120, 1200), random.Random(seed))
        for c in (*BELOW, AT, BEYOND):
            (trace,) = simulated("adaptive", brought, c)
            found[seed, c] = response(trace, brought), bool(trace.switches)
    return found


def figure_7(effort: Effort) -> Findings:
    runs, seeds = _by_cost(effort), effort.seeds
    one = [runs[s, "one server"] for s in seeds]
    rows = [{"seed": s, "reading": r, "ordering": o, "c_s": c, "mean_s": v}
            for (s, r), found in runs.items() for o in ORDERS
            for c, v in zip(COSTS, found[o], strict=True)]  # fmt: skip
    adaptive = _adaptive(effort)
    rows += [{"seed": s, "reading": "one server", "ordering": "adaptive", "c_s": c, "mean_s": v}
             for (s, c), (v, _) in adaptive.items()]  # fmt: skip
    keeps_up = COSTS.index(5e-4)
    claims = [
        judged("equations 3 and 5 give the response times of evenly spaced rows", "4.1 and 5.1", "exact",
               [_equations_met()], lambda d: d < 0.05, "off at most"),
        counted("Sync-Filter is the slower one at every cost", "7.2.1, figure 7", "always",
                [s > e for f in one for s, e in zip(f[ORDERS[0]], f[ORDERS[1]], strict=True)], "points"),
        judged("while the join keeps up, Filter-Order varies little with the cost", "7.2.1, figure 7", "small or none",
               [(f[ORDERS[1]][keeps_up] - f[ORDERS[1]][0]) / (f[ORDERS[0]][keeps_up] - f[ORDERS[0]][0]) for f in one],
               lambda r: r < 0.35, "of what Sync-Filter gains, from 1 us to 0.5 ms"),
        counted("Adaptive stays with Sync-Filter below alpha, and goes over to Filter-Order beyond it", "7.2.1",
                "at c w l1 l2 = 0.3", [adaptive[s, c][1] == (c > AT) for s in seeds for c in (*BELOW, BEYOND)],
                "seeds and costs (0.1, 0.25 and 0.75 ms)"),
        counted("it goes over at 0.5 ms already", "7.2.1", "at 0.5 ms", [adaptive[s, AT][1] for s in seeds], "seeds",
                "c w l1 l2 is just alpha there, 0.3, so whether it is reached depends on the rates that come"),
    ]  # fmt: skip
    curves = [over_seeds(o, MILLI, [f[o] for f in one]) for o in ORDERS]
    tried = (*BELOW, AT, BEYOND)
    curves.append(
        over_seeds("adaptive", [1000 * c for c in tried], [[adaptive[s, c][0] for c in tried] for s in seeds])
    )
    for o, ordering in zip(ORDERS, (SYNC_FILTER, FILTER_ORDER), strict=True):
        printed = [ordering.response_s(Pace(c, WINDOW_S, SLOW, FAST)) or 0.0 for c in COSTS]
        curves.append(Curve(f"{o}, by its equation", MILLI, printed, style=PAPER))
    panel = Panel("1 and 10 rows/s, a minute", "cost of a comparison (ms)", "mean response time (seconds)", curves,
                  log_x=True, log_y=True)  # fmt: skip
    return Findings(rows, claims, [panel])


def _gains(found: dict[str, list[float]]) -> list[float]:
    return [1 - e / s for s, e in zip(found[ORDERS[0]], found[ORDERS[1]], strict=True)]


def figure_8(effort: Effort) -> Findings:
    runs, seeds = _by_cost(effort), effort.seeds
    gains = {reading: [_gains(runs[s, reading]) for s in seeds] for reading in READINGS}
    rows = [{"seed": s, "reading": r, "c_s": c, "gain": g} for r, each in gains.items()
            for s, found in zip(seeds, each, strict=True) for c, g in zip(COSTS, found, strict=True)]  # fmt: skip
    half = COSTS.index(5e-4)
    past = (
        "a comparison of a millisecond makes the rows of either stream take 0.6 s a second. One server is past "
        "saturation then, under both orderings, and both fall behind by the same work"
    )
    near = "nobody falls behind: rows of the fast stream take 0.6 s a second, and only nearer to saturation, which is "
    near += "the next reading, half is exceeded"
    estimated = (
        "of all readings this is the nearest to the figure: as the load comes near one, rows that become ready "
        "together wait for each other under Sync-Filter, and the gain is about half at both points. With more than "
        "1.4 c it exceeds half at the first and falls at the second; past saturation it is gone"
    )
    claims = [
        judged("at 0.5 ms Filter-Order gains about 45%, more than the 25% of equation 7", "7.2.1", "0.45",
               [g[half] for g in gains["one server"]], lambda g: 0.4 <= g <= 0.5, "with one server",
               "more than equation 7 says: the rows of the slow stream take time as well, and gaps are random",
               lambda g: g > 0.25),
        *(judged(f"at the last two points the gain exceeds 50%, since Sync-Filter falls behind: {reading}",
                 "7.2.1, figure 8", "above 0.5", [min(g[-2:]) for g in gains[reading]], lambda g: g > 0.5,
                 "at 0.75 and 1 ms, the smaller one", why)
          for reading, why in zip(READINGS, (past, near, estimated), strict=True)),
        judged("by the last reading the gain at 0.5 ms is about 45% as well", "7.2.1", "0.45",
               [g[half] for g in gains["fast rows, 1.4 c"]], lambda g: 0.4 <= g <= 0.5, "",
               "a comparison of 1.8 c would make it 45%, but then both orderings are past saturation at 1 ms",
               lambda g: g > 0.25),
    ]  # fmt: skip
    curves = [over_seeds(r, MILLI, each) for r, each in gains.items()]
    curves.append(Curve("equation 7", MILLI, [gain(Pace(c, WINDOW_S, SLOW, FAST).load) for c in COSTS], style=PAPER))
    panel = Panel("by reading of the cost", "cost of a comparison (ms)", "gain of Filter-Order", curves, log_x=True)
    return Findings(rows, claims, [panel])


# -- figures 9 and 10: the rate of the slow stream -------------------------------------------------------------------


@lru_cache(maxsize=2)
def _by_rate(effort: Effort) -> dict[str, Any]:
    rates = (0.01, 0.03, 0.1, 0.3, 1.0)
    found: dict[str, Any] = {"rates": rates, **{o: [] for o in (*ORDERS, "adaptive")}, "switched": []}
    for seed in effort.seeds:
        each: dict[str, list[float]] = {o: [] for o in (*ORDERS, "adaptive")}
        switched = []
        for slow in rates:
            seconds = WINDOW_S + max(effort.pick(12, 24) / slow, effort.pick(30, 300))
            brought = arrivals(slow, FAST, seconds, random.Random(seed))
            for o in each:
                (trace,) = simulated(o, brought, 5e-4)
                each[o].append(response(trace, brought))
            switched.append(bool(trace.switches))
        for o, values in each.items():
            found[o].append(values)
        found["switched"].append(switched)
    return found


def figure_9(effort: Effort) -> Findings:
    found = _by_rate(effort)
    rates = found["rates"]
    rows = [{"seed": s, "ordering": o, "slow_rate": r, "mean_s": v} for o in (*ORDERS, "adaptive")
            for s, each in zip(effort.seeds, found[o], strict=True) for r, v in zip(rates, each, strict=True)
            ]  # fmt: skip
    claims = [
        counted("the slower the slow stream, the longer everybody waits", "7.2.2, figure 9", "always",
                [a > b for o in ORDERS for each in found[o] for a, b in pairwise(each)], "steps"),
        counted("Sync-Filter is never quicker", "7.2.2, figure 9", "always",
                [s >= e for a, b in zip(*(found[o] for o in ORDERS), strict=True) for s, e in zip(a, b, strict=True)],
                "points"),
    ]  # fmt: skip
    sync, early = (found[o] for o in ORDERS)
    claims += [
        judged("at small rates of the slow stream the response time is more than a minute", "7.2.2, figure 9",
               "more than a minute", [each[0] for each in early], lambda s: s > 60, f"seconds at {rates[0]:g} rows/s"),
        judged("from 1 row/s down Sync-Filter's increases by more than Filter-Order's", "7.2.2, figure 9", "more",
               [(a[0] - a[-1]) - (b[0] - b[-1]) for a, b in zip(sync, early, strict=True)], lambda d: d > 0,
               "seconds more", "at 0.01 rows/s the window holds less than a row of the slow stream, so there is next "
               "to nothing to compare; the processing that Filter-Order overlaps is greatest at 1 row/s"),
    ]  # fmt: skip
    curves = [over_seeds(o, rates, found[o]) for o in (*ORDERS, "adaptive")]
    panel = Panel("c = 0.5 ms, 10 rows/s", "rate of the slow stream (rows/s)", "mean response time (seconds)", curves,
                  log_x=True, log_y=True)  # fmt: skip
    return Findings(rows, claims, [panel])


def figure_10(effort: Effort) -> Findings:
    found = _by_rate(effort)
    rates = found["rates"]
    gains = [[1 - e / s for s, e in zip(a, b, strict=True)]
             for a, b in zip(found[ORDERS[0]], found[ORDERS[1]], strict=True)]  # fmt: skip
    adaptive = [[1 - e / s for s, e in zip(a, b, strict=True)]
                for a, b in zip(found[ORDERS[0]], found["adaptive"], strict=True)]  # fmt: skip
    rows = [{"seed": s, "slow_rate": r, "gain": g, "gain_of_adaptive": a}
            for s, each, other in zip(effort.seeds, gains, adaptive, strict=True)
            for r, g, a in zip(rates, each, other, strict=True)]  # fmt: skip
    claims = [
        judged("the gain is small at low rates", "7.2.2, figure 10", "small", [g[0] for g in gains], lambda g: g < 0.1),
        judged("and grows with the rate of the slow stream", "7.2.2, figure 10", "larger",
               [g[-1] - g[0] for g in gains], lambda d: d > 0.2, "more at 1 row/s"),
        counted("Adaptive goes over to Filter-Order at 1 row/s and at no lower rate", "7.2.2, figure 10", "at 1 row/s",
                [s[-1] and not any(s[:-1]) for s in found["switched"]], "seeds",
                "the load is just alpha there, 0.3, so whether it is reached depends on the rates that come"),
    ]  # fmt: skip
    printed = [gain(Pace(5e-4, WINDOW_S, r, FAST).load) for r in rates]
    curves = [over_seeds("Filter-Order", rates, gains), over_seeds("Adaptive", rates, adaptive),
              Curve("equation 7", rates, printed, style=PAPER)]  # fmt: skip
    panel = Panel("c = 0.5 ms", "rate of the slow stream (rows/s)", "gain over Sync-Filter", curves, log_x=True)
    return Findings(rows, claims, [panel])


STUDIES = (
    Study("hammad2005", "figure 5", "the equations as a comparison gets dearer", figure_5),
    Study("hammad2005", "figure 6", "the equations as the slow stream gets faster", figure_6),
    Study("hammad2005", "figure 7", "response times as a comparison gets dearer", figure_7),
    Study("hammad2005", "figure 8", "the gain of Filter-Order as a comparison gets dearer", figure_8),
    Study("hammad2005", "figure 9", "response times as the slow stream gets faster", figure_9),
    Study("hammad2005", "figure 10", "the gain of Filter-Order and Adaptive as the slow stream gets faster", figure_10),
)
