"""ding2004's section 6 from counters on event time: the paper's streams, windows and samples; figures 7 to 12.

PWJoin, PJoin and WJoin are the operator that ships under `SET punctuations = 'pwjoin' | 'pjoin' | 'off'`. Rates of
output are not measured: all joins bring the same rows, so the work that they take decides. A step is a row stored or
taken out, a partner looked at, or a punctuation looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from muntin.core.batch import Counters
from muntin.generate import Punctuated
from muntin.generate.arrivals import START_US
from muntin.generate.punctuated import punctuated_streams
from muntin.model import UsageError
from muntin.plan.promise_lags import LagCounts, MeasuredLags
from muntin.plan.punctuation import rows_after
from muntin.sql import parse_job
from muntin.studies.study import (
    PAPER,
    Claim,
    Curve,
    Effort,
    Findings,
    Panel,
    Study,
    Verdict,
    counted,
    judged,
    over_seeds,
)
from muntin.testing.local_job import LocalJob

SECONDS, SAMPLE_S, STEADY = 60, 2, 8
"""Seconds of stream, between two samples, and samples after which the largest window is full."""
ASC, SHORT, RANDOM = "punct-asc-100-40", "punct-asc-30-40", "punct-random-30-40"
WINDOWS = (1, 5, 15)
SAMPLES = tuple(range(SAMPLE_S, SECONDS + 1, SAMPLE_S))


@lru_cache(maxsize=64)
def streams(a: str, b: str, seed: int, irrelevant: bool = False) -> dict[str, pa.Table]:
    return punctuated_streams(Punctuated(a=a, b=b, irrelevant=irrelevant, duration_s=SECONDS, seed=seed))


@dataclass(frozen=True)
class Sampled:
    """Rows of each side in the state, punctuations of the output at each sample, what was done in all, and lags."""

    states: list[tuple[int, int]]
    told: list[int]
    counters: Counters
    lags: tuple[LagCounts, LagCounts] | None
    """Of each side, counted since the windows were full; None where promises are not used."""

    @property
    def state(self) -> list[int]:
        return [left + right for left, right in self.states]

    @property
    def steady(self) -> float:
        """Rows in the state once the windows are full."""
        return float(np.mean(self.state[STEADY:]))

    @property
    def work(self) -> int:
        c = self.counters
        moved = sum(c.inserted) + sum(c.expired) + sum(c.purged)
        return moved + c.probes + c.comparisons + 2 * sum(c.punctuations)


@lru_cache(maxsize=256)
def run(how: str, window_s: int, a: str, b: str, seed: int, irrelevant: bool = False) -> Sampled:
    """One join over two streams of the paper."""
    text = f"SET punctuations = '{how}';" + "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts "
        + ("" if pattern.startswith("uniform") else "PUNCTUATION WHEN closed ")
        + "WITH (format = 'x', path = 'y');"
        for name, pattern in (("A", a), ("B", b))
    )
    query = f"SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW {window_s} seconds"
    local = LocalJob(parse_job(f"{text} CREATE QUERY q AS {query};"))
    states, told = list[tuple[int, int]](), list[int]()
    lags: list[list[LagCounts]] = []
    tables = streams(a, b, seed, irrelevant)
    times = {name: (table["ts"].cast(pa.int64()).to_numpy() - START_US) // 1_000_000 for name, table in tables.items()}
    for start in range(0, SECONDS, SAMPLE_S):
        batch = {}
        for name, table in tables.items():
            low, high = np.searchsorted(times[name], [start, start + SAMPLE_S])
            batch[name] = table.slice(low, high - low)
        local.push(batch)
        left, right = local.counters()[0].state_rows
        states.append((left, right))
        told.append(sum(t.num_rows for t in local.punctuations["q"]))
        lags.append([replace(counts) for counts in local.shards[0][0].operator.promises.lags])
    steady = [now.since(then) for then, now in zip(lags[STEADY - 1], lags[-1], strict=True)]
    return Sampled(states, told, local.counters()[0], (steady[0], steady[1]) if steady else None)


# -- figures 8 to 10: PWJoin against WJoin ---------------------------------------------------------------------------


def figure_8(effort: Effort) -> Findings:
    runs = {(s, w, how): run(how, w, ASC, ASC, s) for s in effort.seeds for w in WINDOWS for how in ("pwjoin", "off")}
    rows = [{"seed": s, "window_s": w, "join": _name(how), "second": at, "state_rows": kept}
            for (s, w, how), f in runs.items() for at, kept in zip(SAMPLES, f.state, strict=True)]  # fmt: skip

    def spared(seed: int, window: int) -> float:
        return runs[seed, window, "off"].steady - runs[seed, window, "pwjoin"].steady

    claims = [
        counted("PWJoin never holds more rows than WJoin", "6.2, figure 8", "never more",
                [a <= b for s in effort.seeds for w in WINDOWS
                 for a, b in zip(runs[s, w, "pwjoin"].state, runs[s, w, "off"].state, strict=True)], "samples"),
        judged("the larger the window, the more rows are saved", "6.2, figure 8", "growing",
               [min(spared(s, 5) / spared(s, 1), spared(s, 15) / spared(s, 5)) for s in effort.seeds],
               lambda r: r > 1, "times what the next smaller window saves, at least"),
        judged("with 15 s the saving is significant", "6.2, figure 8", "significant",
               [1 - runs[s, 15, "pwjoin"].steady / runs[s, 15, "off"].steady for s in effort.seeds],
               lambda p: p > 0.25, "of the rows of WJoin"),
        counted("both find the same pairs", "4.2", "the same",
                [runs[s, w, "pwjoin"].counters.pairs == runs[s, w, "off"].counters.pairs > 0
                 for s in effort.seeds for w in WINDOWS], "runs"),
    ]  # fmt: skip
    curves = [over_seeds(f"{_name(how)}-{w}", SAMPLES, [runs[s, w, how].state for s in effort.seeds])
              for w in WINDOWS for how in ("pwjoin", "off")]  # fmt: skip
    return Findings(rows, claims, [Panel(ASC, "second", "rows in both states", curves)])


def _name(how: str) -> str:
    return {"pwjoin": "PWJoin", "pjoin": "PJoin", "off": "WJoin"}[how]


def figure_9(effort: Effort) -> Findings:
    runs = {(s, w, how): run(how, w, ASC, ASC, s) for s in effort.seeds for w in WINDOWS for how in ("pwjoin", "off")}
    rows = [{"seed": s, "window_s": w, "join": _name(how), "work": f.work, "inserted": sum(f.counters.inserted),
             "comparisons": f.counters.comparisons} for (s, w, how), f in runs.items()]  # fmt: skip

    def work(seed: int, window: int) -> float:
        return runs[seed, window, "pwjoin"].work / runs[seed, window, "off"].work

    def looked(seed: int, window: int) -> float:
        return runs[seed, window, "pwjoin"].counters.comparisons / runs[seed, window, "off"].counters.comparisons

    together = "the rows of a key lie together here, and nobody probes for a key that is over, so a purge saves rows "
    claims = [
        judged("with small windows WJoin does slightly better", "6.2, figure 9", "WJoin ahead at 5 s",
               [work(s, 5) for s in effort.seeds], lambda r: 1 < r < 1.1, "of WJoin's work, at 5 s",
               together + "but no probes: storing fewer rows outweighs looking up punctuations at any window"),
        judged("the larger the window, the better for PWJoin", "6.2, figure 9", "apparently better at 15 s",
               [work(s, 15) / work(s, 1) for s in effort.seeds], lambda r: r < 0.97,
               "of the ratio at 1 s",
               together + "and their storing, which is the same share of the work at any window"),
        judged("shrinking the state makes probes cheaper", "6.2, figure 9", "fewer rows probed",
               [looked(s, 15) for s in effort.seeds], lambda r: r < 0.99, "of the rows looked at by WJoin, at 15 s",
               together + "and no probes"),
        judged("PWJoin stores fewer rows, since it discards on the fly", "4.2", "fewer",
               [sum(runs[s, 15, "pwjoin"].counters.inserted) / sum(runs[s, 15, "off"].counters.inserted)
                for s in effort.seeds], lambda r: r < 1, "of the rows that WJoin stores"),
    ]  # fmt: skip
    names = [f"{w} s" for w in WINDOWS]
    curves = [over_seeds(_name(how), names, [[runs[s, w, how].work for w in WINDOWS] for s in effort.seeds])
              for how in ("pwjoin", "off")]  # fmt: skip
    return Findings(rows, claims, [Panel(ASC, "window", "steps in a minute of stream", curves)])


def figure_10(effort: Effort) -> Findings:
    runs = {(s, how): run(how, 5, SHORT, RANDOM, s, True) for s in effort.seeds for how in ("pwjoin", "off")}
    rows = [{"seed": s, "join": _name(how), "work": f.work, "pairs": f.counters.pairs,
             "punctuations": sum(f.counters.punctuations)} for (s, how), f in runs.items()]  # fmt: skip
    claims = [
        judged("irrelevant punctuations cost next to nothing", "6.2, figure 10", "insignificant",
               [runs[s, "pwjoin"].work / runs[s, "off"].work - 1 for s in effort.seeds], lambda r: 0 < r < 0.06,
               "more work"),
        counted("they free nothing and lose nothing", "6.2, figure 10", "the same output",
                [runs[s, "pwjoin"].counters.purged == [0, 0]
                 and runs[s, "pwjoin"].counters.pairs == runs[s, "off"].counters.pairs > 0 for s in effort.seeds],
                "seeds"),
    ]  # fmt: skip
    curves = [over_seeds(_name(how), ["all punctuations irrelevant"], [[runs[s, how].work] for s in effort.seeds])
              for how in ("pwjoin", "off")]  # fmt: skip
    return Findings(rows, claims, [Panel(f"{SHORT} and {RANDOM}", "", "steps in a minute of stream", curves)])


# -- figures 11 and 12: punctuations of the output -------------------------------------------------------------------


def figure_11(effort: Effort) -> Findings:
    runs = {(s, how): run(how, 1, SHORT, RANDOM, s) for s in effort.seeds for how in ("pwjoin", "pjoin")}
    rows = [{"seed": s, "join": _name(how), "second": at, "punctuations": n}
            for (s, how), f in runs.items() for at, n in zip(SAMPLES, f.told, strict=True)]  # fmt: skip
    claims = [
        counted("PWJoin has told at least as many punctuations at every moment", "6.3, figure 11", "always",
                [a >= b for s in effort.seeds
                 for a, b in zip(runs[s, "pwjoin"].told, runs[s, "pjoin"].told, strict=True)], "samples"),
        judged("it has an overall higher rate of punctuations", "6.3, figure 11", "higher",
               [runs[s, "pwjoin"].told[-1] / max(1, runs[s, "pjoin"].told[-1]) for s in effort.seeds],
               lambda r: r > 1.2, "times as many"),
    ]  # fmt: skip
    curves = [over_seeds(_name(how), SAMPLES, [runs[s, how].told for s in effort.seeds]) for how in ("pwjoin", "pjoin")]
    title = f"{SHORT}, {RANDOM}, 1 s"
    return Findings(rows, claims, [Panel(title, "second", "punctuations of the output so far", curves)])


def figure_12(effort: Effort) -> Findings:
    runs = {s: run("pwjoin", 5, "uniform-15000", SHORT, s) for s in effort.seeds}
    rows = [{"seed": s, "second": at, "punctuations": n} for s, f in runs.items()
            for at, n in zip(SAMPLES, f.told, strict=True)]  # fmt: skip
    claims = [
        judged("with punctuations on one stream alone PWJoin tells some at a steady rate", "6.3, figure 12", "steady",
               [float((np.diff(f.told[4:]) > 0).mean()) for f in runs.values()], lambda p: p > 0.9,
               "of the samples after the fourth bring some"),
        counted("PJoin cannot tell any then", "6.3", "none", [_refused(s) for s in effort.seeds], "seeds"),
    ]  # fmt: skip
    curves = [over_seeds("PWJoin", SAMPLES, [f.told for f in runs.values()])]
    title = f"A: no punctuations, B: {SHORT}, 5 s"
    return Findings(rows, claims, [Panel(title, "second", "punctuations of the output so far", curves)])


def _refused(seed: int) -> bool:
    try:
        run("pjoin", 5, "uniform-15000", SHORT, seed)
    except UsageError as error:
        return "A promises nothing" in str(error)
    return False


# -- figure 7 and equation 1 -----------------------------------------------------------------------------------------

LEARNED_S = {1: 5, 5: 15, 15: 5}
"""From which window the lags are learned that predict another."""
LAG = (
    "what is kept is what comes times how long it stays. How long before and after rows the promises for their keys "
    "come is counted by a join with another window; beyond what that could see they are taken to come as they did last"
)
PATTERNS = ("cluster-asc-25", "cluster-random-25", ASC, SHORT, "punct-random-100-40")


def _equation_1(pattern: str, window_s: int, seed: int, found: Sampled) -> float:
    """Both states by equation 1, averaged over the samples that count."""
    a, b = (t.filter(pa.compute.invert(t["closed"])) for t in streams(pattern, pattern, seed).values())
    predicted = []
    for at in SAMPLES[STEADY:]:
        total = 0.0
        for own, other in ((a, 0), (b, 1)):
            times = (own["ts"].cast(pa.int64()).to_numpy() - START_US) / 1e6
            values = len(np.unique(own["k"].to_numpy()[times < at]))
            promises = found.counters.punctuations[other] / SECONDS
            total += rows_after(own.num_rows / SECONDS, window_s, promises, at, values)
        predicted.append(total)
    return float(np.mean(predicted))


def _by_lag(pattern: str, window_s: int, seed: int) -> float:
    """Both states by the lag of promises, counted by a join with another window."""
    learned_s = LEARNED_S[window_s]
    found = run("pwjoin", learned_s, pattern, pattern, seed)
    assert found.lags is not None
    return sum(MeasuredLags(counts, learned_s, learned_s).rows(arrived / SECONDS, window_s, window_s)
               for counts, arrived in zip(found.lags, found.counters.arrived, strict=True))  # fmt: skip


def figure_7(effort: Effort) -> Findings:
    rows, patterns = [], effort.pick(PATTERNS[:3], PATTERNS)
    by_equation: list[float] = []
    by_lag: dict[str, list[float]] = {pattern: [] for pattern in patterns}
    for seed in effort.seeds:
        off: dict[str, list[tuple[float, float]]] = {pattern: [] for pattern in patterns}
        for pattern in patterns:
            for window in WINDOWS:
                found = run("pwjoin", window, pattern, pattern, seed)
                printed, ours = _equation_1(pattern, window, seed, found), _by_lag(pattern, window, seed)
                rows.append({"seed": seed, "pattern": pattern, "window_s": window, "state_rows": found.steady,
                             "equation_1": printed, "lag": ours})  # fmt: skip
                off[pattern].append((abs(printed / found.steady - 1), abs(ours / found.steady - 1)))
            by_lag[pattern].append(max(lag for _, lag in off[pattern]))
        by_equation.append(max(equation for each in off.values() for equation, _ in each))
    clusters = patterns[0]
    best = [run("pwjoin", 15, clusters, clusters, s).steady / run("off", 15, clusters, clusters, s).steady
            for s in effort.seeds]  # fmt: skip
    claims = [
        judged("equation 1 gives the rows in the state", "5.2, equation 1", "exact", by_equation,
               lambda d: d < 0.2, "off at most",
               "it compares the keys promised with the keys seen since the stream began. The two grow together, so "
               "it goes to 0 over time; what counts is whether the promise for a row that is in the window now has "
               "come, and with keys in random order, or to come in later segments, it mostly has not"),
        judged("in the best case, synchronous clusters, next to nothing is kept", "5.2, figure 7", "a cluster at most",
               best, lambda p: p < 0.05, "of a window's rows", "the clusters of two Poisson streams do not stay side "
               "by side: where one is ahead, its rows wait for the promises of the other", lambda p: p < 0.35),
        *(judged(f"the planner's model, by the lag of promises, is within 20% for {pattern}", "not in the paper", "0.2",
                 found, lambda d: d <= 0.2, "off at most, over windows of 1, 5 and 15 s", LAG, lambda d: d < 0.4)
          for pattern, found in by_lag.items()),
    ]  # fmt: skip
    panels = []
    for pattern in patterns:
        own = [r for r in rows if r["pattern"] == pattern]

        def curve(name: str, column: str, style: str, own: Sequence[dict[str, object]] = own) -> Curve:
            by_seed = [[float(str(r[column])) for r in own if r["seed"] == s] for s in effort.seeds]
            return over_seeds(name, WINDOWS, by_seed, style)

        curves = [curve("counted", "state_rows", "solid"), curve("equation 1", "equation_1", PAPER),
                  curve("by the lag", "lag", PAPER)]  # fmt: skip
        panels.append(Panel(pattern, "window (seconds)", "rows in both states", curves))
    return Findings(rows, claims, panels)


# -- figure 1: the auction -------------------------------------------------------------------------------------------

AUCTION = """
CREATE STREAM Auction (ts TIMESTAMP, item_id BIGINT, UNIQUE (item_id)) TIMESTAMP BY ts WITH (format='x', path='y');
CREATE STREAM Bid (ts TIMESTAMP, item_id BIGINT, closed BOOLEAN) TIMESTAMP BY ts PUNCTUATION WHEN closed
  WITH (format = 'x', path = 'y');
CREATE QUERY bids AS SELECT A.item_id, COUNT(*) AS bids
FROM Auction [RANGE 12 HOURS] A JOIN Bid [NOW] B ON A.item_id = B.item_id GROUP BY A.item_id EMIT FINAL;
"""
HOUR_US = 3_600_000_000


def auction() -> list[tuple[float, int, int, int, int]]:
    """Item 180 closes after 5 hours, item 181 after 20: hour, item and count of each result, rows of (Auction, Bid)."""
    local, told = LocalJob(parse_job(AUCTION)), []
    for half in range(0, 46):
        at = half * HOUR_US // 2
        opened = [180, 181] if half == 0 else [1000 + half]  # others open later, and nobody bids on them
        bids = [(180, half == 10)] if 1 <= half <= 10 else []
        bids += [(181, half == 40)] if 1 <= half <= 40 else []
        got = local.push({
            "Auction": pa.table({"ts": pa.array([at] * len(opened), pa.timestamp("us", "UTC")),
                                 "item_id": pa.array(opened, pa.int64())}),
            "Bid": pa.table({"ts": pa.array([at] * len(bids), pa.timestamp("us", "UTC")),
                             "item_id": pa.array([i for i, _ in bids], pa.int64()),
                             "closed": pa.array([c for _, c in bids], pa.bool_())}),
        })["bids"]  # fmt: skip
        kept = local.counters()[0].state_rows
        told += [(half / 2, row["item_id"], row["bids"], *kept) for row in got.to_pylist()]
    return told


def figure_1(_: Effort) -> Findings:
    told = auction()
    rows = [{"hour": h, "item": i, "bids": n, "auctions_kept": a, "bids_kept": b} for h, i, n, a, b in told]
    by_item = {item: (hour, bids) for hour, item, bids, _, _ in told}
    early, late = by_item.get(180, (99.0, 0)), by_item.get(181, (99.0, 0))
    claims = [
        Claim("an auction that closes before 12 hours is counted when its punctuation comes", "1.2",
              "before the window ends", f"hour {early[0]:g}, {early[1]} bids",
              Verdict.HOLDS if early[0] <= 6 and early[1] == 9 else Verdict.DOES_NOT, ""),
        Claim("one that is open for longer is counted when its window ends", "1.2", "at 12 hours",
              f"hour {late[0]:g}, {late[1]} bids",
              Verdict.HOLDS if 12 <= late[0] <= 13 and late[1] == 23 else Verdict.DOES_NOT, ""),
        counted("no bid is kept, since each auction's item is unique", "1.2", "none", 
                [r["bids_kept"] == 0 for r in rows], "results"),
    ]  # fmt: skip
    curve = Curve("counted at", ["180, closes after 5 h", "181, closes after 20 h"], [early[0], late[0]])
    return Findings(rows, claims, [Panel("bids within 12 hours", "item", "hour of the result", [curve])])


STUDIES = (
    Study("ding2004", "figure 1", "bids of each auction within twelve hours of its opening", figure_1),
    Study("ding2004", "figure 7", "rows in the state beside equation 1", figure_7),
    Study("ding2004", "figure 8", "rows in the state of PWJoin and WJoin", figure_8),
    Study("ding2004", "figure 9", "the work of PWJoin and WJoin", figure_9),
    Study("ding2004", "figure 10", "the work of PWJoin where no punctuation is of use", figure_10),
    Study("ding2004", "figure 11", "punctuations of the output of PWJoin and PJoin", figure_11),
    Study("ding2004", "figure 12", "punctuations of the output where one stream has none", figure_12),
)
