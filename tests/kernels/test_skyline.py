"""A skyline against a naive twin: all steps that came, and the largest key among those with a later anchor."""

from __future__ import annotations

import random

import numpy as np
import pytest

from muntin.kernels.skyline import HEAD, OFF, ROOM, STEPS, add_step, first_after, repack_skylines, reserve
from muntin.kernels.slots import CONTROLS, SKYLINES_END, USED


def largest(spot: np.ndarray, slab: np.ndarray, after: int) -> int | None:
    at = int(first_after(spot, slab, after))
    return int(slab[at, 1]) if at < spot[OFF] + spot[HEAD] + spot[STEPS] else None


@pytest.mark.parametrize("seed", range(8))
def test_a_skyline_knows_the_largest_key_after_any_anchor(seed):
    rnd, slab = random.Random(seed), np.zeros((64, 2), np.int64)
    spots, control = np.zeros((1, 1, 4), np.int64), np.zeros(CONTROLS, np.int64)
    control[USED] = 1
    came: list[tuple[int, int]] = []
    fewer = False
    for now in range(60):
        assert reserve(spots, slab, control, np.zeros(1, np.int64), np.ones(1, np.int64))
        anchor, key, dead = now + rnd.randrange(-5, 6), rnd.randrange(30), now - 12
        came.append((anchor, key))
        add_step(spots[0, 0], slab, anchor, key, dead)
        for after in range(dead, now + 8):
            assert largest(spots[0, 0], slab, after) == max((k for a, k in came if a > after), default=None)
        fewer |= bool(spots[0, 0, STEPS] < sum(a > dead for a, _ in came))
        if control[SKYLINES_END] > 32:
            packed = np.zeros_like(slab)
            repack_skylines(spots, slab, packed, control)
            slab = packed
            assert control[SKYLINES_END] == spots[0, 0, STEPS] == spots[0, 0, ROOM]
    assert fewer


def test_no_room_is_said_before_anything_moves():
    spots, control, slab = np.zeros((2, 1, 4), np.int64), np.zeros(CONTROLS, np.int64), np.zeros((3, 2), np.int64)
    assert not reserve(spots, slab, control, np.arange(2), np.ones(2, np.int64))
    assert not spots.any() and not control.any()
