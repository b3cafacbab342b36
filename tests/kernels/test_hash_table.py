"""Open addressing against a dict."""

from __future__ import annotations

import random

import numpy as np
import pytest

from muntin.kernels.hash_table import close_gap, find_entry, find_place, home_of, table_size

FREE = -1


@pytest.mark.parametrize("keys, size", [(0, 2), (1, 2), (2, 4), (3, 8), (4, 8), (5, 16), (1024, 2048), (1025, 4096)])
def test_at_most_half_of_a_table_is_used(keys, size):
    assert table_size(keys) == size >= 2 * keys


@pytest.mark.parametrize("seed", range(10))
def test_a_table_has_the_keys_of_a_dict_whoever_comes_and_goes(seed):
    rnd, room = random.Random(seed), 16
    table, keys = np.full(table_size(room), -1, np.int32), np.zeros((room, 2), np.int64)
    twin: dict[tuple[int, int], int] = {}
    collided = False
    for _ in range(400):
        key = rnd.randrange(12), rnd.randrange(3)
        at = find_place(table, keys, *key)
        assert table[at] == twin.get(key, -1)
        if key in twin:
            close_gap(table, keys, at)
            del twin[key]
        elif len(twin) < room:
            number = next(n for n in range(room) if n not in twin.values())
            keys[number], table[at], twin[key] = key, number, number
            collided |= bool(home_of(table, *key) != at)
    assert twin and collided
    assert sorted(table[table >= 0]) == sorted(twin.values())
    for key, number in twin.items():
        assert table[find_place(table, keys, *key)] == number


@pytest.mark.parametrize("seed", range(5))
def test_a_table_of_entries_has_the_keys_of_a_dict(seed):
    rnd = random.Random(seed)
    keys, info = np.zeros((table_size(20), 2), np.int64), np.full((table_size(20), 1), FREE, np.int64)
    twin: dict[tuple[int, int], int] = {}
    for n in range(60):
        key = rnd.randrange(5), rnd.randrange(4)
        at = find_entry(keys, info, FREE, *key)
        assert info[at, 0] == twin.get(key, FREE)
        keys[at], info[at, 0], twin[key] = key, n, n
    assert len(twin) == np.count_nonzero(info != FREE)
