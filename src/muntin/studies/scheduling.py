"""Response times under LWO, SWF and MQT: section 5 of hammad2003 on a virtual clock.

The setting of the paper: two streams of 100 rows a second each, a row matches 0.2% of the other stream, seven windows
from one second to ten minutes in four distributions (table 1). The state is filled for the largest window before
anything is measured. What a comparison and a pair cost the paper does not say, beyond that pairs are up to 40% of the
time (3.4) and that the system keeps up: `costs_for` takes the first as given and the second as a load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muntin.core.batch import Counters
from muntin.core.join import JoinState
from muntin.core.policy import DEFAULT_POLICY
from muntin.core.schedule import ScheduledWork
from muntin.core.selections import Selections
from muntin.core.storage import Heap
from muntin.generate.arrivals import bursts
from muntin.kernels.arrays import Int64s
from muntin.kernels.join import Rows
from muntin.model import Query, Schema, Side, Stream, Window
from muntin.plan import SharedJoin
from muntin.plan.granularity import Granularity
from muntin.plan.levels import levels_of
from muntin.plan.schedulers import SCHEDULERS
from muntin.studies.virtual_clock import Costs, Measured, play

SECOND_US = 1_000_000
RATE, KEYS, NEW = 100.0, 500, 100_000
"""Rows a second and stream; equally frequent keys, for a selectivity of 0.002; rows measured."""
OUTPUTS = 0.4
"""How much of the time pairs take (3.4)."""
LOAD = 0.5
"""How much of its time the operator works, where the study does not say."""


@dataclass(frozen=True)
class Scenario:
    """An experiment: windows in seconds, the queries of each, how rows come, and how busy they keep the operator.

    `rows` are those measured, of both streams; `keys` 1 is the nested loop.
    """

    windows: Sequence[float]
    queries: Sequence[int] | None = None
    rate: float = RATE
    keys: int = KEYS
    burst: float = 1.0
    load: float = LOAD
    rows: int = NEW
    seed: int = 2003


def join_of(windows_us: Sequence[int], queries: Sequence[int] | None = None) -> SharedJoin:
    """A shared join of queries that select nothing: `w1`, `w2`, ... or `w1_1`, `w1_2` where windows have several."""
    streams = (Stream("A", Schema(()), "ts"), Stream("B", Schema(()), "ts"))
    counts = queries or [1] * len(windows_us)
    made = [
        Query(f"w{n}" if count == 1 else f"w{n}_{i}", "A", "B", (), Window(window, window), ())
        for n, (window, count) in enumerate(zip(windows_us, counts, strict=True), 1)
        for i in range(1, count + 1)
    ]
    ends = tuple(sorted(set(windows_us)))
    return SharedJoin(0, streams, (), tuple(made), (False, False), (ends, ends))


def rows_of(times: Sequence[Int64s], keys: Sequence[Int64s]) -> Rows:
    """Rows of both sides in the order in which they are joined."""
    sides = np.repeat(np.array([0, 1], np.uint8), [len(t) for t in times])
    ts, key = np.concatenate(times), np.concatenate(keys)
    numbers = np.concatenate([np.arange(len(t)) for t in times])
    order = np.argsort(ts, kind="stable")
    ts, total = ts[order], len(ts)
    zeros, classes = np.zeros(total, np.int64), np.zeros(total, np.int32)
    return Rows(sides[order], ts, ts, ts, key[order], zeros, classes, numbers[order], np.ones(total, bool))


def run(join: SharedJoin, history: Rows, rows: Rows, scheduler: str, costs: Costs) -> Measured:
    """Join rows one at a time as they come, with a state that holds the history."""
    selections = (Selections(join, Side.LEFT), Selections(join, Side.RIGHT))
    state = JoinState(join, selections, DEFAULT_POLICY, Heap())
    state.load(history)
    return play(ScheduledWork(state, rows, Counters(), SCHEDULERS[scheduler], Granularity(levels_of(join), 1)), costs)


def costs_for(setting: Scenario) -> Costs:
    """Costs that keep the operator busy for the load, pairs taking their part of it."""
    partners = setting.rate * max(setting.windows) / setting.keys
    each_us = setting.load * SECOND_US / (2 * setting.rate)
    return Costs(probe_us=(1 - OUTPUTS) * each_us / partners, output_us=OUTPUTS * each_us / partners)


def measure(setting: Scenario, scheduler: str) -> Measured:
    """One point of figures 5 to 9."""
    rng = np.random.default_rng(setting.seed)
    reach_us, each = round(max(setting.windows) * SECOND_US), setting.rows // 2
    before = round(setting.rate * max(setting.windows))
    times = [bursts(rng, setting.rate, setting.burst, before + each) for _ in Side]
    starts = [t[before] for t in times]  # both streams are measured from the same moment on
    times = [t - start + reach_us for t, start in zip(times, starts, strict=True)]
    keys = [rng.integers(0, setting.keys, before + each) for _ in Side]
    every = rows_of(times, keys)
    cut = int(np.searchsorted(every.ts, reach_us))
    history, new = (Rows._make(a[part] for a in every) for part in (slice(0, cut), slice(cut, None)))
    join = join_of([round(w * SECOND_US) for w in setting.windows], setting.queries)
    return run(join, history, new, scheduler, costs_for(setting))
