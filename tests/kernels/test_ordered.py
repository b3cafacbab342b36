"""Rows in order of a value against a naive twin, and how much of them a probe looks at."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kernels.test_join import one_slice
from muntin.core.storage.memory import Heap
from muntin.kernels.index import CLASS_BITS
from muntin.kernels.join import COMPARISONS, COUNTS, DONE, NEED_OUTPUT, WHOLE, Rows, empty_pairs
from muntin.kernels.ordered import COUNT, FIRST, LAST, START, Ordered, Wanted, close_up, locate, merge, ordered_layout
from muntin.kernels.ordered import probe_ordered as probe


def filled(runs: list[list[tuple[float, int, int]]], room: int = 200) -> Ordered:
    """Runs of (value, place, row), each sorted by value."""
    made = Ordered(*Heap().allocate("ordered", ordered_layout(room)))
    start = 0
    for n, run in enumerate(runs):
        for at, (value, place, row) in enumerate(sorted(run)):
            made.values[start + at], made.entries[start + at] = value, (place, row << CLASS_BITS)
        places = [place for _, place, _ in run]
        made.runs[n + 1] = start, len(run), min(places), max(places)
        start += len(run) + 1  # with gaps
    made.runs[0, 0] = len(runs)
    return made


def listed(ordered: Ordered) -> list[list[tuple[float, int, int]]]:
    found = []
    for run in range(ordered.runs[0, 0]):
        start, count = ordered.runs[run + 1, START], ordered.runs[run + 1, COUNT]
        own = slice(start, start + count)
        places, rows = ordered.entries[own].T
        found.append(
            list(zip(ordered.values[own].tolist(), places.tolist(), (rows >> CLASS_BITS).tolist(), strict=True))
        )
    return found


def random_runs(dice: random.Random, count: int, first: int = 0) -> list[list[tuple[float, int, int]]]:
    runs, place = [], first
    for _ in range(count):
        run = []
        for _ in range(dice.randint(1, 9)):
            place += dice.randint(0, 3)
            run.append((float(dice.choice([-3, 0, 0, 1, 2, 5, 8, float("inf")])), place, place * 10 + len(run)))
        runs.append(run)
    return runs


@pytest.mark.parametrize("seed", range(20))
def test_two_runs_become_one_in_order_without_stale_rows(seed):
    dice = random.Random(seed)
    runs = random_runs(dice, 4)
    ordered, run, now = filled(runs), dice.randint(0, 2), dice.choice([0, 20, 60])
    keep = np.array([dice.choice([5, 30, 1 << 62])])
    merge(ordered, run, now, keep)
    both = [row for row in sorted([*runs[run], *runs[run + 1]]) if now - row[1] < keep[0]]
    assert [sorted(r) for r in listed(ordered)] == [sorted(r) for r in [*runs[:run], both, *runs[run + 2 :]]]
    assert all([row[0] for row in r] == sorted(row[0] for row in r) for r in listed(ordered))
    assert ordered.runs[run + 1, FIRST] == min(row[1] for row in runs[run])
    assert ordered.runs[run + 1, LAST] == max(row[1] for row in runs[run + 1])


@pytest.mark.parametrize("seed", range(10))
def test_runs_close_up_without_gaps_stale_rows_and_empty_runs(seed):
    dice = random.Random(seed)
    runs, now = random_runs(dice, 5), dice.choice([0, 30, 200])
    ordered, keep = filled(runs), np.array([dice.choice([10, 40])])
    left = [[row for row in sorted(run) if now - row[1] < keep[0]] for run in runs]
    assert close_up(ordered, now, keep) == sum(map(len, left))
    assert listed(ordered) == [run for run in left if run]
    starts, counts = ordered.runs[1 : 1 + ordered.runs[0, 0], :2].T
    assert (starts == np.cumsum(counts) - counts).all()


@pytest.mark.parametrize("seed", range(20))
def test_what_is_located_is_what_bisection_finds(seed):
    dice = random.Random(seed)
    ordered = filled(random_runs(dice, 4))
    low = np.array(sorted(dice.choice([-9.0, -3, 0, 0.5, 2, 8, 100, float("inf")]) for _ in range(12)))
    starts = np.zeros((12, 4), np.int64)
    locate(ordered.runs, ordered.values, low, np.arange(12), starts)
    for run in range(4):
        start, count = ordered.runs[run + 1, :2]
        found = start + np.searchsorted(ordered.values[start : start + count], low, side="left")
        assert (starts[:, run] == found).all()


def rows_of(dice: random.Random, count: int, first: int) -> Rows:
    side = np.array([dice.randint(0, 1) for _ in range(count)], np.uint8)
    ts = np.sort([first + dice.randint(0, 20) for _ in range(count)]).astype(np.int64)
    zero, numbers = np.zeros(count, np.int64), np.arange(count, dtype=np.int64) + 5000
    return Rows(side, ts, ts, ts, zero, zero, zero.astype(np.int32), numbers, np.ones(count, bool))


@pytest.mark.parametrize("seed", range(40))
def test_a_probe_finds_the_pairs_of_nested_loops_and_looks_at_no_more_than_lies_in_the_range(seed):
    """Also where the newest run has rows that come later, and where there is room for few pairs at a time."""
    dice = random.Random(seed)
    sides = [random_runs(dice, dice.randint(1, 4)) for _ in "LR"]
    last = max(row[1] for runs in sides for row in runs[-1])
    rows, window = rows_of(dice, 12, last), dice.choice([5, 30, 1000])
    values = [float(dice.choice([-3, 0, 1, 4, 7])) for _ in range(12)]
    own = [[(values[n], int(rows.ts[n]), int(rows.row[n]), n) for n in range(12) if rows.side[n] == s] for s in (0, 1)]
    fresh = [sorted(run) for run in own]
    ordered = [
        filled([*runs, *([[row[:3] for row in run]] if run else [])]) for runs, run in zip(sides, fresh, strict=True)
    ]
    since = tuple(np.array([row[3] for row in run], np.int64) for run in fresh)
    low, high = np.array(values) - 2, np.array(values) + dice.choice([-3, 0, 2, float("inf")])
    starts = np.zeros((12, 5), np.int64)
    for side in (0, 1):
        mine = np.flatnonzero(rows.side == side)
        mine = mine[np.argsort(low[mine])]
        locate(ordered[1 - side].runs, ordered[1 - side].values, low, mine, starts)
    wanted, pairs, looked = Wanted(low, high, starts, since), [], 0
    for n in range(12):
        other = 1 - int(rows.side[n])
        known = [(*row, -1) for run in sides[other] for row in run] + own[other]
        for value, place, row, number in known:
            if low[n] <= value <= high[n]:
                looked += 1
                if 0 <= rows.ts[n] - place < window and number < n:
                    pairs.append((int(rows.row[n]), row) if other else (row, int(rows.row[n])))
    found, cursor, counts, need = [], np.zeros(2, np.int64), np.zeros(COUNTS, np.int64), NEED_OUTPUT
    out = empty_pairs(3)
    while need != DONE:
        need = probe(*ordered, rows, wanted, one_slice(window), WHOLE, cursor, out, counts)
        found += list(zip(*out.rows[:, : cursor[1]].tolist(), out.ts[: cursor[1]].tolist(), strict=True))
        out = out if cursor[1] else empty_pairs(2 * len(out.ts))
        cursor[1] = 0
    assert sorted((a, b) for a, b, _ in found) == sorted(pairs)
    assert [ts for *_, ts in found] == sorted(ts for *_, ts in found)
    assert counts[COMPARISONS] <= looked
