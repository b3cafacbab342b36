"""What one piece of the join's work costs on this machine: the constants of kostowski's cost model (3.1), measured.

The join runs under settings that mix the kinds of work differently; each run gives its counters and its time, and the
constants are the non-negative ones whose sum over the counters comes nearest to the times:

    filling       empty windows: rows are inserted and none invalidated, which a steady state cannot tell apart
    plain         few partners: insertion and invalidation, with one or two checks a row
    dense         many partners: scanning
    greedy        every bucket visited for every row

Noise only ever adds time, so each setting counts with its best round; errors are relative, so that long settings do not
outvote short ones. The constants hold for a state of some megabytes: one that fits the processor's caches is quicker,
one that exceeds them by far is slower per row inserted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import MISSING, asdict, astuple, dataclass, fields
from itertools import combinations
from pathlib import Path

import numpy as np

from muntin.bench.steady import SteadyJoin
from muntin.model import MuntinError
from muntin.plan.cost import Constants, Load, visits

ROUNDS = 5
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Setting:
    """A join and how long it runs: `warm_s` unmeasured, then `run_s` measured, both in stream time."""

    name: str
    load: Load
    invalidation: str = "probe"
    warm_s: float = 0.0
    run_s: float = 1.0


SETTINGS = (
    Setting("filling", Load(20_000, 20_000, 60, 60, 20_000)),
    Setting("plain", Load(20_000, 20_000, 2, 2, 20_000), warm_s=2.5),
    Setting("plain, twice the checks", Load(20_000, 20_000, 2, 2, 20_000), "probe-insert", warm_s=2.5),
    Setting("dense", Load(20_000, 20_000, 10, 10, 20_000), warm_s=11, run_s=0.5),
    Setting("denser", Load(20_000, 20_000, 10, 10, 5_000), warm_s=11, run_s=0.5),
    Setting("greedy", Load(2_000, 2_000, 1, 1, 100), "probe-all", warm_s=1.2, run_s=0.2),
    Setting("greedier", Load(2_000, 2_000, 1, 1, 100), "all", warm_s=1.2, run_s=0.2),
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
    time_ns: float

    @property
    def work(self) -> tuple[int, ...]:
        return self.invalidated, self.scanned, self.inserted, self.checked, self.visited


def run(setting: Setting, seed: int = 0) -> Measurement:
    join = SteadyJoin(setting.load, setting.invalidation, seed)
    if setting.warm_s:
        join.advance(setting.warm_s)
    rows, before = join.draw(setting.run_s), json.loads(json.dumps(asdict(join.counters)))
    start = time.perf_counter()
    join.take(rows)
    seconds = time.perf_counter() - start
    after = join.counters
    inserted = sum(after.inserted) - sum(before["inserted"])
    checks = after.stale_checks - before["stale_checks"]
    visited = round(inserted * visits(setting.load, setting.invalidation) / setting.load.arrivals)
    return Measurement(
        setting.name,
        invalidated=sum(after.expired) - sum(before["expired"]),
        scanned=after.comparisons - before["comparisons"],
        inserted=inserted,
        checked=checks - visited,
        visited=visited,
        time_ns=seconds * SECOND_NS,
    )


def measure(rounds: int = ROUNDS) -> list[Measurement]:
    """The best round of each setting. Rounds go around all settings, so that a slow moment does not hit one alone."""
    run(SETTINGS[0])  # compiles the kernel, where it is not compiled yet
    taken = [[run(setting, seed=7) for setting in SETTINGS] for _ in range(rounds)]
    return [min(same, key=lambda m: m.time_ns) for same in zip(*taken, strict=True)]


def fit(measurements: Sequence[Measurement]) -> Constants:
    """The constants with the least squared relative error, none of them negative.

    With five unknowns the best of the 31 subsets, each solved freely and taken if it has no negative value, is the
    exact answer: at the optimum the positive constants solve their own unconstrained problem.
    """
    work = np.array([m.work for m in measurements], float) / np.array([[m.time_ns] for m in measurements])
    best, least = np.zeros(work.shape[1]), np.inf
    for size in range(1, work.shape[1] + 1):
        for chosen in map(list, combinations(range(work.shape[1]), size)):
            found = np.linalg.lstsq(work[:, chosen], np.ones(len(work)), rcond=None)[0]
            error = float(np.sum((work[:, chosen] @ found - 1) ** 2))
            if (found >= 0).all() and error < least:
                best, least = np.zeros(work.shape[1]), error
                best[chosen] = found
    return Constants(*map(float, best))


def predicted_ns(constants: Constants, measurement: Measurement) -> float:
    return sum(n * ns for n, ns in zip(measurement.work, astuple(constants), strict=False))


def calibrate(rounds: int = ROUNDS) -> Constants:
    """Measure and fit: a few seconds."""
    return fit(measure(rounds))


def constants_file(checkpoint: Path) -> Path:
    return checkpoint / "muntin" / "constants.json"


def to_json(constants: Constants) -> str:
    return json.dumps(asdict(constants), indent=2) + "\n"


def load(checkpoint: Path) -> Constants | None:
    """The constants kept with a job, None where it was never calibrated."""
    path = constants_file(checkpoint)
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text())
        given = [f.name for f in fields(Constants) if f.default is MISSING or f.name in stored]
        return Constants(**{name: float(stored[name]) for name in given})
    except (ValueError, KeyError, TypeError) as error:
        raise MuntinError(f"{path} does not hold the constants", hint="run muntin calibrate again") from error
