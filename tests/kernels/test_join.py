"""The index and the probe against a naive twin, and the work that each invalidation strategy does (kostowski 3.2,
4.2)."""

from __future__ import annotations

import random

import numpy as np
import pytest

from muntin.core.memory import Heap
from muntin.kernels.index import KEYS, LIVE, SLOTS, Index, clear_index, count_of, index_layout, locate, repack
from muntin.kernels.join import COUNTS, DONE, NEED_OUTPUT, STRATEGIES, Rows, Slicing, empty_pairs, expire, probe_insert


def new_index(slots: int, entries: int) -> Index:
    index = Index(*Heap().allocate("index", index_layout(slots, entries)))
    clear_index(index)
    return index


def rows_of(rows: list[tuple[int, int, int]]) -> Rows:
    """(side, time, key) in time order, numbered as they come."""
    side, ts, key = (np.array(c) for c in zip(*rows, strict=True))
    ts, key, zero = ts.astype(np.int64), key.astype(np.int64), np.zeros(len(rows), np.int64)
    numbers = np.arange(len(rows), dtype=np.int64)
    return Rows(side.astype(np.uint8), ts, ts, ts, key, zero, zero.astype(np.int32), numbers, np.ones(len(rows), bool))


def join(rows: Rows, window: int, strategy: str, index: Index | None = None):
    """All pairs, the counts, and the index afterwards; no sweep behind the strategy."""
    index = index or new_index(4, 8)
    bounds, ones = np.array([[window], [window]], np.int64), np.ones((2, 1, 1), np.uint64)
    reach, limits = np.full((2, 1), window, np.int64), np.array([window, window], np.int64)
    cursor, counts, slots = np.zeros(2, np.int64), np.zeros(COUNTS, np.int64), np.zeros(len(rows.ts), np.int32)
    pairs, out = set(), empty_pairs(4)
    while True:
        need = probe_insert(
            index,
            rows,
            Slicing(bounds, ones, ones),
            reach,
            limits,
            STRATEGIES[strategy],
            True,
            cursor,
            out,
            slots,
            counts,
        )
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


def random_rows(seed: int, count: int = 300, keys: int = 5, share: float = 0.5) -> list[tuple[int, int, int]]:
    rnd = random.Random(seed)
    times = sorted(rnd.randint(0, count) for _ in range(count))
    rows = [(int(rnd.random() > share), t, rnd.randint(1, keys)) for t in times]
    return sorted(rows, key=lambda r: (r[1], r[0]))


def naive(rows: list[tuple[int, int, int]], window: int) -> set[tuple[int, int]]:
    lefts = [(n, r) for n, r in enumerate(rows) if r[0] == 0]
    rights = [(n, r) for n, r in enumerate(rows) if r[0] == 1]
    return {(n, m) for n, a in lefts for m, b in rights if a[2] == b[2] and abs(a[1] - b[1]) < window}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(5))
def test_every_strategy_finds_the_pairs_of_the_naive_twin(strategy, seed):
    rows = random_rows(seed)
    found, _, _, _ = join(rows_of(rows), 20, strategy)
    assert found == naive(rows, 20) and found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_after_the_sweep_the_state_is_the_window_whatever_the_strategy(strategy):
    rows = random_rows(7)
    _, _, index, slots = join(rows_of(rows), 20, strategy)
    end = rows[-1][1]
    for side in (0, 1):
        chosen = np.array([r[0] == side for r in rows])
        at = np.array([r[1] for r in rows])[chosen]
        expire(index, side, at, slots[chosen], end - 20)
        assert index.control[LIVE + side] == (at > end - 20).sum()
    live_keys = {r[2] for r in rows if r[1] > end - 20}
    assert index.control[KEYS] == len(live_keys)
    total = sum(count_of(index.slots, s, side) for s in range(index.control[SLOTS]) for side in (0, 1))
    assert total == index.control[LIVE] + index.control[LIVE + 1]


def test_lazier_strategies_check_less_and_keep_more():
    rows = rows_of(random_rows(3, count=2000, keys=50, share=0.02))
    results = {name: join(rows, 100, name) for name in STRATEGIES}
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
    index, slots = new_index(64, 256), None
    for start in range(0, 5000, 50):
        part = rows_of(rows[start : start + 50])
        _, _, index, slots = join(part, 60, "probe-insert", index)
        for side in (0, 1):
            chosen = part.side == side
            expire(index, side, part.ts[chosen], slots[chosen], start + 25)
    live = {int(index.slots[s, 0]) for s in index.table if s >= 0}
    assert len(live) == index.control[KEYS]
    for key in live:
        assert index.table[locate(index.table, index.slots, np.int64(key), np.int64(0))] >= 0
