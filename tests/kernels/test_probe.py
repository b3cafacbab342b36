"""The parts of a probe, each against a naive twin: a list of partners and a look at every one of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from muntin.kernels.index import CLASS_BITS
from muntin.kernels.join import LATE, Routes, Scan, Slicing, empty_pairs
from muntin.kernels.probe import Partners, Prober, find_partners, first_of_age, is_wanted, window_of

WINDOWS = [3, 4, 9, 16, 30]
CUTS = [4, 30]
"""The first slice is merged of two windows, the second of three."""
CLASSES = 3
SHIFT = 1
RANGES = [(0, LATE, False), (0, 4, False), (4, 9, False), (9, LATE, False), (0, LATE, True)]
"""Ages that a pass looks at, and whether partners may be later than the row."""


def slicing_of(rnd: random.Random, tabled: bool) -> Slicing:
    """Five queries, each with a window of its own, that want some classes of either side."""
    ages = range(0, WINDOWS[-1] + 2, 1 << SHIFT)
    first = [int(np.searchsorted(WINDOWS, age, side="right")) for age in ages]
    inside = [any(age < w < age + (1 << SHIFT) for w in WINDOWS) for age in ages]
    guess = np.array([2 * w + unsure for w, unsure in zip(first, inside, strict=True)] * 2, np.int32)
    wants = np.array([[[rnd.randrange(1, 1 << len(WINDOWS))] for _ in range(CLASSES)] for _ in range(2)], np.uint64)
    readers = np.array([[[sum(1 << q for q in range(w, len(WINDOWS)))] for w in range(len(WINDOWS))]] * 2, np.uint64)
    both = wants[0, :, None, 0] & wants[1, None, :, 0]
    horizon = np.array([[WINDOWS[int(b).bit_length() - 1] if b else 0 for b in row] for row in both])
    reach = np.stack([horizon.max(axis=1), horizon.max(axis=0)])
    return Slicing(
        np.array([[*CUTS, LATE]] * 2), np.array([[0, 2, 5]] * 2), np.array([[*WINDOWS, LATE]] * 2), guess,
        np.array([SHIFT, SHIFT]), np.zeros_like(reach), reach, reach,
        np.stack([horizon] * 2) if tabled else np.zeros((2, 0, 0), np.int64),
        Routes(readers, wants), np.zeros(reach.shape, bool),
    )  # fmt: skip


def buffer_of(rnd: random.Random, rows: int) -> tuple[list[tuple[int, int, int]], np.ndarray, Partners]:
    """Rows as (place, number, class) from oldest to newest, and the same in a circular buffer in a slab."""
    places = sorted(rnd.randrange(60) for _ in range(rows))
    entries = [(place, 100 + n, rnd.randrange(CLASSES)) for n, place in enumerate(places)]
    off, capacity, head = 5, 32, rnd.randrange(32)
    slab = np.full((off + capacity, 2), -LATE)
    for n, (place, number, cls) in enumerate(entries):
        slab[off + (head + n) % capacity] = place, number << CLASS_BITS | cls
    return entries, slab, Partners(*(np.int64(n) for n in (off, capacity - 1, head + rows - 1, rows)))


def naive_window(age: int) -> int:
    return next(n for n, window in enumerate(WINDOWS) if age < window)


def naive_partners(entries, prober: Prober, low: int, high: int, early: bool, slicing: Slicing):
    """(left row, right row, timestamp, tag) of all pairs that some query wants, the newest partner first."""
    side, wants = int(prober.side), slicing.routes.wants
    for place, number, cls in reversed(entries):
        age, earlier = abs(prober.reached - place), 1 - side if place <= prober.reached else side
        if (earlier == side and not early) or (not early and not low <= age < high) or age >= WINDOWS[-1]:
            continue
        window = naive_window(age)
        both = int(wants[side, prober.cls, 0] & wants[1 - side, cls, 0])
        if both >> window:
            rows = (prober.row, number) if side == 0 else (number, prober.row)
            yield *rows, max(prober.ts, place), 2 * window + earlier


@pytest.mark.parametrize("age", range(WINDOWS[-1]))
def test_the_window_of_an_age_is_the_first_that_holds_it(age):
    assert window_of(slicing_of(random.Random(0), True), 1, age) == naive_window(age)


@pytest.mark.parametrize("low", range(-3, 64, 3))
def test_the_first_partner_of_an_age_is_found_by_bisection(low):
    entries, slab, partners = buffer_of(random.Random(low), 20)
    ages = [50 - place for place, *_ in reversed(entries)]
    assert first_of_age(slab, partners, 50, low) == sum(age < low for age in ages)


def test_a_pair_is_wanted_where_a_query_wants_both_classes_and_reads_that_far():
    wants = np.zeros((2, 2, 2), np.uint64)
    wants[0, 1, 1], wants[1, 0, 1] = 6, 12
    readers = np.zeros((2, 3, 2), np.uint64)
    readers[1, 2, 1], readers[1, 1, 1] = 4, 11
    assert is_wanted(Routes(readers, wants), 1, 0, 1, 0, 2)
    assert not is_wanted(Routes(readers, wants), 1, 0, 1, 0, 1)
    assert not is_wanted(Routes(readers, wants), 0, 0, 1, 0, 2)
    assert not is_wanted(Routes(readers, wants), 1, 0, 0, 0, 2)


@pytest.mark.parametrize("tabled", [True, False])
@pytest.mark.parametrize("low, high, early", RANGES)
@pytest.mark.parametrize("seed", range(6))
def test_a_row_finds_the_partners_of_the_naive_twin(seed, low, high, early, tabled):
    rnd = random.Random(seed)
    slicing, side = slicing_of(rnd, tabled), rnd.randrange(2)
    entries, slab, partners = buffer_of(rnd, 25)
    reached = rnd.randrange(60) if early else entries[-1][0] + rnd.randrange(4)
    prober = Prober(*(np.int64(n) for n in (side, rnd.randrange(CLASSES), 7, reached, reached)))
    scan = Scan(np.array([[low, high]] * 2), early, True, np.array([LATE, LATE]))
    out = empty_pairs(40)
    found, compared, crossed, routed = find_partners(slab, partners, prober, scan, slicing, out, np.int64(0))
    pairs = list(zip(*out.rows[:, :found].tolist(), out.ts[:found].tolist(), out.tag[:found].tolist(), strict=True))
    assert pairs == list(naive_partners(entries, prober, low, high, early, slicing))
    assert found <= compared <= partners.rows and routed <= compared and crossed <= len(CUTS)


def test_the_cases_above_find_pairs_in_every_window_and_leave_some_out():
    tags, partners = [], 0
    for seed in range(6):
        rnd = random.Random(seed)
        slicing = slicing_of(rnd, True)
        entries, _, _ = buffer_of(rnd, 25)
        prober = Prober(*(np.int64(n) for n in (0, seed % CLASSES, 7, 30, 30)))
        tags += [tag for *_, tag in naive_partners(entries, prober, 0, LATE, True, slicing)]
        partners += len(entries)
    assert set(tags) == set(range(2 * len(WINDOWS))) and len(tags) < partners
