"""Pieces of similar size are merged: few pieces, and each row moved seldom."""

from __future__ import annotations

import math
import random

import pytest

from muntin.core.storage.merging import first_to_merge


@pytest.mark.parametrize("seed", range(5))
def test_there_are_few_pieces_and_each_row_is_moved_seldom(seed):
    rnd, sizes, moved, total = random.Random(seed), [], 0, 0
    for _ in range(2000):
        rows = rnd.choice([1, 1, 1, 5, 40])
        first = first_to_merge(sizes, rows)
        moved, total = moved + sum(sizes[first:]), total + rows
        sizes[first:] = [sum(sizes[first:]) + rows]
    assert sum(sizes) == total
    assert len(sizes) <= math.log2(total) and moved <= total * math.log2(total)


def test_nothing_larger_than_the_limit_is_made():
    assert first_to_merge([30, 30, 30], 40, limit=100) == 1
    assert first_to_merge([30, 30, 30], 40) == 0
    assert first_to_merge([100], 40) == 1 and first_to_merge([], 40) == 0
