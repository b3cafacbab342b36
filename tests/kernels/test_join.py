"""The index and the probe against a naive twin, and the work that each invalidation strategy does (kostowski 3.2,
4.2)."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from muntin.core.storage.memory import Heap
from muntin.kernels.hash_table import find_place
from muntin.kernels.index import KEYS, LIVE, MATCHES, SLOTS, Index, clear_index, count_of, index_layout, repack
from muntin.kernels.join import (
    COUNTS,
    DONE,
    INVALIDATION_CODES,
    LATE,
    NEED_OUTPUT,
    WHOLE,
    Routes,
    Rows,
    Scan,
    Slicing,
    empty_pairs,
    expire,
    probe_insert,
)
from muntin.kernels.times import Times, append_listed, clear_times, times_layout
from muntin.plan.invalidations import INVALIDATIONS

CODES = {i.name: INVALIDATION_CODES[i.all_buckets, i.both_sides] for i in INVALIDATIONS}


def new_index(slots: int, entries: int) -> Index:
    index = Index(*Heap().allocate("index", index_layout(slots, entries)))
    clear_index(index)
    return index


def new_times(lanes: int, blocks: int = 200) -> Times:
    times = Times(*Heap().allocate("times", times_layout(lanes, blocks)))
    clear_times(times)
    return times


def rows_of(rows: list[tuple[int, int, int]], classes: list[int] | None = None) -> Rows:
    """(side, time, key) in time order, numbered as they come."""
    side, ts, key = (np.array(c) for c in zip(*rows, strict=True))
    ts, key, zero = ts.astype(np.int64), key.astype(np.int64), np.zeros(len(rows), np.int64)
    cls = np.array(classes or zero, np.int32)
    numbers = np.arange(len(rows), dtype=np.int64)
    return Rows(side.astype(np.uint8), ts, ts, ts, key, zero, cls, numbers, np.ones(len(rows), bool))


def one_slice(window: int) -> Slicing:
    """One query with one window on both sides."""
    ends, ones = np.array([[window], [window]], np.int64), np.ones((2, 1, 1), np.uint64)
    return slicing_of(ends, np.full((2, 1, 1), window), Routes(ones, ones))


def slicing_of(ends: np.ndarray, horizon: np.ndarray, routes: Routes) -> Slicing:
    """A slice for each window and a class for each slice; all ages in one bucket."""
    windows = ends.shape[1]
    first, guess = np.array([range(windows + 1)] * 2), np.ones(2, np.int32)
    begin, newest = np.zeros_like(ends), np.zeros(ends.shape, bool)
    return Slicing(ends, first, ends, guess, np.array([62, 62]), begin, ends, ends, horizon, routes, newest)


def join(
    rows: Rows,
    window: int,
    strategy: str,
    index: Index | None = None,
    slicing: Slicing | None = None,
    scan: Scan = WHOLE,
):
    """All pairs, the counts, and the index afterwards; no sweep behind the strategy."""
    index = index or new_index(4, 8)
    cursor, counts, slots = np.zeros(2, np.int64), np.zeros(COUNTS, np.int64), np.zeros(len(rows.ts), np.int32)
    pairs, out, cuts = set(), empty_pairs(4), slicing or one_slice(window)
    while True:
        need = probe_insert(
            index, rows, cuts, scan, CODES[strategy], True, len(rows.ts), cursor, out, slots, counts
        )  # fmt: skip
        if need in (DONE, NEED_OUTPUT):
            pairs |= {(int(a), int(b)) for a, b in out.rows[:, : cursor[1]].T}
            cursor[1] = 0
            out = empty_pairs(2 * len(out.ts))
        if need == DONE:
            return pairs, counts, index, slots
        if need != NEED_OUTPUT:
            grown, moved = (
                new_index(2 * len(index.slots) + 4, 2 * len(index.slab) + 8),
                np.zeros(len(index.slots), np.int32),
            )
            repack(index, grown, moved)
            index, done = grown, slots[: cursor[0]]
            done[:] = moved[done]


def sweep(index: Index, times: Times, now: int, window: int) -> None:
    """Take out what is stale in a join of one window."""
    ends = np.array([window], np.int64)
    for side in (0, 1):
        expire(index, times, side, side, side + 1, now, ends, np.full((2, 1), window), window, False)


def listed(times: Times, rows: Rows, slots: np.ndarray) -> None:
    append_listed(times, rows.side.astype(np.int64), rows.at, slots)


def random_rows(seed: int, count: int = 300, keys: int = 5, share: float = 0.5) -> list[tuple[int, int, int]]:
    rnd = random.Random(seed)
    times = sorted(rnd.randint(0, count) for _ in range(count))
    rows = [(int(rnd.random() > share), t, rnd.randint(1, keys)) for t in times]
    return sorted(rows, key=lambda r: (r[1], r[0]))


def naive(rows: list[tuple[int, int, int]], window: int) -> set[tuple[int, int]]:
    lefts = [(n, r) for n, r in enumerate(rows) if r[0] == 0]
    rights = [(n, r) for n, r in enumerate(rows) if r[0] == 1]
    return {(n, m) for n, a in lefts for m, b in rights if a[2] == b[2] and abs(a[1] - b[1]) < window}


@pytest.mark.parametrize("strategy", CODES)
@pytest.mark.parametrize("seed", range(5))
def test_every_strategy_finds_the_pairs_of_the_naive_twin(strategy, seed):
    rows = random_rows(seed)
    found, _, _, _ = join(rows_of(rows), 20, strategy)
    assert found == naive(rows, 20) and found


@pytest.mark.parametrize("strategy", CODES)
def test_after_the_sweep_the_state_is_the_window_whatever_the_strategy(strategy):
    rows = random_rows(7)
    _, _, index, slots = join(rows_of(rows), 20, strategy)
    end = rows[-1][1]
    times = new_times(2)
    listed(times, rows_of(rows), slots)
    sweep(index, times, end, 20)
    for side in (0, 1):
        assert index.control[LIVE + side] == sum(r[0] == side and r[1] > end - 20 for r in rows)
    live_keys = {r[2] for r in rows if r[1] > end - 20}
    assert index.control[KEYS] == len(live_keys)
    total = sum(count_of(index.slots, s, side) for s in range(index.control[SLOTS]) for side in (0, 1))
    assert total == index.control[LIVE] + index.control[LIVE + 1]


def test_lazier_strategies_check_less_and_keep_more():
    rows = rows_of(random_rows(3, count=2000, keys=50, share=0.02))
    results = {name: join(rows, 100, name) for name in CODES}
    checks = {name: int(r[1][2]) for name, r in results.items()}
    kept = {name: int(r[2].control[LIVE] + r[2].control[LIVE + 1]) for name, r in results.items()}
    assert checks["probe"] < checks["probe-insert"] < checks["probe-all"] < checks["all"]
    assert kept["probe"] > max(kept["probe-insert"], kept["probe-all"])
    assert min(kept["probe-insert"], kept["probe-all"]) >= kept["all"]


def test_a_probe_looks_at_its_matches_and_one_row_more_at_most():
    rows = random_rows(1, count=2000)
    found, counts, _, _ = join(rows_of(rows), 20, "probe")
    assert counts[1] == len(found), "stale rows are taken out before they are looked at"


def test_keys_that_leave_make_room_without_breaking_the_chains_of_others():
    rnd = random.Random(0)
    rows = [(n % 2, n, rnd.randint(0, 10_000)) for n in range(5000)]
    index, times = new_index(64, 256), new_times(2)
    for start in range(0, 5000, 50):
        part = rows_of(rows[start : start + 50])
        _, _, index, slots = join(part, 60, "probe-insert", index)
        listed(times, part, slots)
        sweep(index, times, start + 49, 60)
    live = {int(index.slots[s, 0]) for s in index.table if s >= 0}
    assert len(live) == index.control[KEYS]
    for key in live:
        assert index.table[find_place(index.table, index.slots, np.int64(key), np.int64(0))] >= 0


KEEP = [5, 40, 100]
"""Ages at which rows of classes 0, 1 and 2 leave."""


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_stay_for_different_times_leave_each_at_its_own_age(seed):
    rnd = random.Random(seed)
    rows = random_rows(seed, count=400, keys=4)
    classes = [rnd.randrange(3) for _ in rows]
    keep = np.array([KEEP, KEEP], np.int64)
    horizon = np.minimum(*np.meshgrid(KEEP, KEEP))
    bits = np.ones((2, 3, 1), np.uint64)
    slicing = slicing_of(keep, np.stack([horizon, horizon]), Routes(bits, bits))
    index, times, lanes = new_index(64, 2048), new_times(6), np.array([[0, 1, 2], [3, 4, 5]])
    part = rows_of(rows, classes)
    found, _, index, slots = join(part, 0, "probe-insert", index, slicing)
    want = {
        (n, m)
        for n, a in enumerate(rows)
        for m, b in enumerate(rows)
        if (a[0], b[0]) == (0, 1) and a[2] == b[2] and abs(a[1] - b[1]) < min(KEEP[classes[n]], KEEP[classes[m]])
    }
    assert found == want
    append_listed(times, lanes[part.side, part.cls], part.at, slots)
    ends = np.array(KEEP, np.int64)
    for now in range(rows[-1][1], rows[-1][1] + 120, 7):
        for side in (0, 1):
            expire(index, times, side, 3 * side, 3 * side + 3, now, ends, keep, KEEP[0], True)
            live = [(r, c) for r, c in zip(rows, classes, strict=True) if r[0] == side and now - r[1] < KEEP[c]]
            assert index.control[LIVE + side] == len(live)
            assert times.lanes[3 * side : 3 * side + 3, 4].sum() == len(live)
        counts = [[count_of(index.slots, s, side) for s in index.table if s >= 0] for side in (0, 1)]
        assert index.control[MATCHES] == sum(a * b for a, b in zip(*counts, strict=True))
    assert index.control[KEYS] == 0


def ranges(window: int, cuts: list[int]) -> list[np.ndarray]:
    """The ages from cut to cut, the same on both sides."""
    return [np.array([[low, high]] * 2) for low, high in pairwise([0, *cuts, window])]


@pytest.mark.parametrize("seed", range(5))
def test_a_probe_in_pieces_finds_each_pair_once_whatever_is_stored_in_between(seed):
    rows, end = random_rows(seed), np.array([LATE, LATE])
    parts = [rows_of(rows[n : n + 10]) for n in range(0, len(rows), 10)]
    for n, part in enumerate(parts):
        parts[n] = part._replace(row=part.row + 10 * n)
    first, *others = ranges(20, [3, 4, 11])
    index, found, looked, pieces = new_index(4, 8), set(), 0, 0
    waiting = end * 0  # nothing may leave while rows wait for their further ages
    for part in parts:
        some, counts, index, _ = join(part, 20, "all", index, scan=Scan(first, False, True, waiting))
        found, looked, pieces = found | some, looked + counts[1], pieces + len(some)
    for ages in others:
        for part in parts:
            some, counts, index, slots = join(part, 20, "all", index, scan=Scan(ages, False, False, waiting))
            found, looked, pieces = found | some, looked + counts[1], pieces + len(some)
            assert (slots == -1).all()
    assert found == naive(rows, 20) and pieces == len(found)
    assert looked <= len(found) + len(rows) * 4, "each piece looks at its own ages and one row more at most"


@pytest.mark.parametrize("strategy", CODES)
@pytest.mark.parametrize("seed", range(5))
def test_partners_that_are_later_are_met_where_one_stream_is_ahead(strategy, seed):
    rows, rnd = random_rows(seed), random.Random(seed)
    sides = [[n for n, r in enumerate(rows) if r[0] == side] for side in (0, 1)]
    order, reached = [], [-LATE, -LATE]
    index, found, pieces = new_index(4, 8), set(), 0
    while any(sides):
        side = rnd.randrange(2) if all(sides) else int(not sides[0])
        taken, sides[side] = sides[side][:7], sides[side][7:]
        order += taken
        reached[side] = rows[taken[-1]][1]
        part = rows_of([rows[n] for n in taken])._replace(row=np.array(taken))
        scan = WHOLE._replace(early=True, stale=np.array([reached[1], reached[0]]))
        some, _, index, _ = join(part, 20, strategy, index, scan=scan)
        found, pieces = found | some, pieces + len(some)
    assert sorted(order) == list(range(len(rows))) and order != sorted(order)
    assert found == naive(rows, 20) and pieces == len(found)
