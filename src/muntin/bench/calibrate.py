"""What one piece of the join's work costs on this machine: the constants of kostowski's cost model (3.1), measured.

The join runs under settings that mix the kinds of work differently; each run gives its counters and its time, and the
constants are the non-negative ones whose sum over the counters comes nearest to the times:

    filling       empty windows: rows are inserted and none invalidated, which a steady state cannot tell apart
    plain         few partners: insertion and invalidation, with one or two checks a row
    dense         many partners: scanning
    greedy        every bucket visited for every row
    sliced        many windows, each in its own slice: probes step over the cuts
    merged        many windows in one slice: pairs are placed by their age

Noise only ever adds time, so each setting counts with its best round; errors are relative, so that long settings do not
outvote short ones. The constants hold for a state of some megabytes: one that fits the processor's caches is quicker,
one that exceeds them by far is slower per row inserted. What units of work cost is measured apart (`calibrate_units`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import combinations

import numpy as np

from muntin.bench.calibrate_units import calibrated_units
from muntin.plan.cost import Constants, Load
from muntin.plan.invalidations import INVALIDATIONS
from muntin.testing.steady import SteadyJoin

ROUNDS = 9
OTHERS = 5
"""Kinds of work that are fitted together: all but steps and routes."""
WINDOWS = 12
"""As many as in table 4 of wang2006."""
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class CalibrationPoint:
    """A join and how long it runs: `warm_s` unmeasured, then `run_s` measured, both in stream time."""

    name: str
    load: Load
    invalidation: str = "probe"
    warm_s: float = 0.0
    run_s: float = 1.0
    windows: int = 1
    merged: bool = False


SETTINGS = (
    CalibrationPoint("filling", Load(20_000, 20_000, 60, 60, 20_000)),
    CalibrationPoint("plain", Load(20_000, 20_000, 2, 2, 20_000), warm_s=2.5),
    CalibrationPoint("plain, twice the checks", Load(20_000, 20_000, 2, 2, 20_000), "probe-insert", warm_s=2.5),
    CalibrationPoint("dense", Load(20_000, 20_000, 10, 10, 20_000), warm_s=11, run_s=0.5),
    CalibrationPoint("denser", Load(20_000, 20_000, 10, 10, 5_000), warm_s=11, run_s=0.5),
    CalibrationPoint("greedy", Load(2_000, 2_000, 1, 1, 100), "probe-all", warm_s=1.2, run_s=0.2),
    CalibrationPoint("greedier", Load(2_000, 2_000, 1, 1, 100), "all", warm_s=1.2, run_s=0.2),
    CalibrationPoint("sliced", Load(20_000, 20_000, 10, 10, 5_000), warm_s=11, run_s=0.5, windows=WINDOWS),
    CalibrationPoint("merged", Load(20_000, 20_000, 10, 10, 5_000), warm_s=11, run_s=0.5, windows=WINDOWS, merged=True),
)


@dataclass(frozen=True)
class Measurement:
    """Work done and the nanoseconds it took; the kinds of work are the first of `Constants`, in their order."""

    setting: str
    invalidated: int
    scanned: int
    inserted: int
    checked: int
    visited: int
    stepped: int
    routed: int
    time_ns: float

    @property
    def work(self) -> tuple[int, ...]:
        return (
            self.invalidated,
            self.scanned,
            self.inserted,
            self.checked,
            self.visited,
            self.stepped,
            self.routed,
        )


def run(setting: CalibrationPoint, seed: int = 0) -> Measurement:
    join = SteadyJoin(setting.load, setting.invalidation, seed, windows=setting.windows, merged=setting.merged)
    if setting.warm_s:
        join.advance(setting.warm_s)
    rows, before = join.draw(setting.run_s), json.loads(json.dumps(asdict(join.counters)))
    start = time.perf_counter()
    join.take(rows)
    seconds = time.perf_counter() - start
    after = join.counters
    inserted = sum(after.inserted) - sum(before["inserted"])
    checks = after.stale_checks - before["stale_checks"]
    visited = round(inserted * INVALIDATIONS[setting.invalidation].visits(setting.load) / setting.load.arrivals)
    return Measurement(
        setting.name,
        invalidated=sum(after.expired) - sum(before["expired"]),
        scanned=after.comparisons - before["comparisons"],
        inserted=inserted,
        checked=checks - visited,
        visited=visited,
        stepped=after.crossed - before["crossed"],
        routed=after.routed - before["routed"],
        time_ns=seconds * SECOND_NS,
    )


def measure(rounds: int = ROUNDS) -> list[Measurement]:
    """The best round of each setting. Rounds go around all settings, so that a slow moment does not hit one alone."""
    run(SETTINGS[0])  # compiles the kernel, where it is not compiled yet
    taken = [[run(setting, seed=7) for setting in SETTINGS] for _ in range(rounds)]
    return [min(same, key=lambda m: m.time_ns) for same in zip(*taken, strict=True)]


def fit(measurements: Sequence[Measurement]) -> Constants:
    """The constants with the least squared relative error, none of them negative.

    Steps and routes are what a setting takes longer than one that does the same work without them: they are a small
    part of the whole, and would be lost in its error.
    """
    plain = [m for m in measurements if not m.stepped and not m.routed]
    others = _fit([m.work[:OTHERS] for m in plain], [m.time_ns for m in plain])
    slices = [_more(m, plain) / m.stepped for m in measurements if m.stepped]
    routes = [_more(m, plain) / m.routed for m in measurements if m.routed]
    steps = [max(0.0, float(np.median(more))) for more in (slices, routes)]
    return Constants(*[*others, *steps])


def _more(measurement: Measurement, plain: Sequence[Measurement]) -> float:
    """Nanoseconds beyond those of the measurement with the same work otherwise."""
    twin = next(m for m in plain if m.work[:OTHERS] == measurement.work[:OTHERS])
    return measurement.time_ns - twin.time_ns


def _fit(work: Sequence[tuple[int, ...]], times: Sequence[float]) -> list[float]:
    """The best of the 31 subsets of five unknowns, each solved freely and taken if it has no negative value.

    That is the exact answer: at the optimum the positive constants solve their own unconstrained problem.
    """
    shares = np.array(work, float) / np.array(times)[:, None]
    best, least = np.zeros(OTHERS), np.inf
    for size in range(1, OTHERS + 1):
        for chosen in map(list, combinations(range(OTHERS), size)):
            found = np.linalg.lstsq(shares[:, chosen], np.ones(len(shares)), rcond=None)[0]
            error = float(np.sum((shares[:, chosen] @ found - 1) ** 2))
            if (found >= 0).all() and error < least:
                best, least = np.zeros(OTHERS), error
                best[chosen] = found
    return [float(ns) for ns in best]


def predicted_ns(constants: Constants, measurement: Measurement) -> float:
    return sum(n * ns for n, ns in zip(measurement.work, astuple(constants), strict=False))


def calibrate(rounds: int = ROUNDS) -> Constants:
    """Measure and fit: a few seconds."""
    return calibrated_units(fit(measure(rounds)), rounds)
