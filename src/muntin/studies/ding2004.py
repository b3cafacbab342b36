"""ding2004's section 6 from counters on event time: the paper's streams, windows and samples; figures 8 to 12.

PWJoin, PJoin and WJoin are the operator that ships under `SET punctuations = 'pwjoin' | 'pjoin' | 'off'`. Rates of
output are told by the work that they take, as by a machine that always has something to do. A step is a row stored or
taken out, a partner looked at, or a punctuation looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from muntin.core.batch import Counters
from muntin.generate import Punctuated
from muntin.generate.arrivals import START_US
from muntin.generate.punctuated import punctuated_streams
from muntin.model import UsageError
from muntin.plan.promise_lags import LagCounts
from muntin.sql import parse_job
from muntin.studies.study import Effort, Findings, Panel, Study, counted, judged, over_seeds
from muntin.testing.local_job import LocalJob

SECONDS, SAMPLE_S, STEADY = 60, 2, 8
"""Seconds of stream, between two samples, and samples after which the largest window is full."""
ASC, SHORT, RANDOM = "punct-asc-100-40", "punct-asc-30-40", "punct-random-30-40"
WINDOWS = (1, 5, 15)
SAMPLES = tuple(range(SAMPLE_S, SECONDS + 1, SAMPLE_S))


IN_TURN = "in turn"
"""In place of the second stream's pattern: clusters of the first one's pattern that alternate with it (figure 7)."""


@lru_cache(maxsize=64)
def streams(a: str, b: str, seed: int, irrelevant: bool = False) -> dict[str, pa.Table]:
    other = a if b == IN_TURN else b
    made = punctuated_streams(Punctuated(a=a, b=other, irrelevant=irrelevant, duration_s=SECONDS, seed=seed))
    return _in_turn(made) if b == IN_TURN else made


def _in_turn(made: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows and promises of each value: first those of A, then those of B, at even distances in time."""
    values = np.concatenate([table["k"].to_numpy() for table in made.values()])
    place = np.empty(len(values), np.int64)
    place[np.argsort(values, kind="stable")] = np.arange(len(values))
    ts, start, found = START_US + place * (SECONDS * 1_000_000 // len(values)), 0, {}
    for name, table in made.items():
        own = pa.array(ts[start : start + table.num_rows], pa.timestamp("us", "UTC"))
        found[name] = table.set_column(0, "ts", own)
        start += table.num_rows
    return found


@dataclass(frozen=True)
class Sampled:
    """Rows of each side in the state, punctuations of the output at each sample, what was done in all, and lags."""

    states: list[tuple[int, int]]
    told: list[int]
    output: list[tuple[int, int]]
    """Steps of work and pairs found by each sample."""
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
        return steps(self.counters)


def steps(c: Counters) -> int:
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
    states, told, output = list[tuple[int, int]](), list[int](), list[tuple[int, int]]()
    lags: list[list[LagCounts]] = []
    tables = streams(a, b, seed, irrelevant)
    times = {name: (table["ts"].cast(pa.int64()).to_numpy() - START_US) // 1_000_000 for name, table in tables.items()}
    for start in range(0, SECONDS, SAMPLE_S):
        batch = {}
        for name, table in tables.items():
            low, high = np.searchsorted(times[name], [start, start + SAMPLE_S])
            batch[name] = table.slice(low, high - low)
        local.push(batch)
        counters = local.counters()[0]
        left, right = counters.state_rows
        states.append((left, right))
        output.append((steps(counters), counters.pairs))
        told.append(sum(t.num_rows for t in local.punctuations["q"]))
        lags.append([replace(counts) for counts in local.shards[0][0].operator.promises.lags])
    steady = [now.since(then) for then, now in zip(lags[STEADY - 1], lags[-1], strict=True)]
    return Sampled(states, told, output, counters, (steady[0], steady[1]) if steady else None)


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
    panels = [_output({how: [runs[s, w, how] for s in effort.seeds] for how in ("pwjoin", "off")}, f"{ASC}, {w} s")
              for w in WINDOWS[1:]]  # fmt: skip
    return Findings(rows, claims, panels)


def _output(runs: Mapping[str, Sequence[Sampled]], title: str) -> Panel:
    """Pairs found over the work done: what comes out of a join that always has something to do."""
    most = min(found.work for each in runs.values() for found in each)
    places, curves = np.linspace(0, most, 16), []
    for how, each in runs.items():
        by_seed = []
        for found in each:
            work, pairs = np.array([(0, 0), *found.output]).T
            by_seed.append(np.interp(places, work, pairs).tolist())
        curves.append(over_seeds(_name(how), (places / 1000).tolist(), by_seed))
    return Panel(title, "steps of work (thousands)", "pairs found so far", curves)


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
    each = {how: [runs[s, how] for s in effort.seeds] for how in ("pwjoin", "off")}
    return Findings(rows, claims, [_output(each, f"{SHORT} and {RANDOM}, all punctuations irrelevant")])


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


STUDIES = (
    Study("ding2004", "figure 8", "rows in the state of PWJoin and WJoin", figure_8),
    Study("ding2004", "figure 9", "pairs found by PWJoin and WJoin for the work that they do", figure_9),
    Study("ding2004", "figure 10", "the same where no punctuation is of use", figure_10),
    Study("ding2004", "figure 11", "punctuations of the output of PWJoin and PJoin", figure_11),
    Study("ding2004", "figure 12", "punctuations of the output where one stream has none", figure_12),
)
