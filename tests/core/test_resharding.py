"""Which shards can be put together in another way; what comes of it, `tests/whole_way` compares with both judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from muntin.core.arrivals import ProgressMeta
from muntin.core.operator_state import OperatorMeta
from muntin.core.order import EarlyRelease
from muntin.core.resharding import OldJoin, refuse_unfit, split
from muntin.kernels.hashing import shard_of
from muntin.model import MuntinError, UsageError

FIT = OperatorMeta(progress=ProgressMeta(release=5, joined=[5, 5]))


def test_shards_of_one_moment_with_nothing_left_to_do_are_fit():
    refuse_unfit([FIT, FIT])
    with pytest.raises(MuntinError, match="not of one moment"):
        refuse_unfit([FIT, replace(FIT, progress=ProgressMeta(release=6))])
    with pytest.raises(UsageError, match="work of a micro-batch is left to later ones"):
        refuse_unfit([FIT, replace(FIT, progress=replace(FIT.progress, settled=4))])
    with pytest.raises(UsageError, match="results have left before their time"):
        refuse_unfit([FIT, replace(FIT, early_release=EarlyRelease([5, 5], [[0], [0]]))])


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_every_row_of_a_chunk_goes_to_the_shard_of_its_key_and_those_without_one_to_the_first(shards: int):
    rng = np.random.default_rng(shards)
    h1, h2 = rng.integers(-(1 << 62), 1 << 62, (2, 100))
    h1[:5] = h2[:5] = 1
    table = pa.table({"_ts": np.arange(100), "_h1": h1, "_h2": h2})
    parts = dict(split("l0000000000000042", table, 0, OldJoin(True, 50), shards))
    assert sum(part.num_rows for part in parts.values()) == 100
    for shard, part in parts.items():
        numbers = part["_was"].to_numpy() - 42
        homes = np.where(numbers < 5, 0, shard_of(h1[numbers], h2[numbers], shards))
        assert (homes == shard).all()
        assert (np.diff(numbers) > 0).all(), "in the order in which they were"


def test_without_an_equality_one_shard_keeps_a_row_and_the_others_get_what_is_still_to_probe():
    table = pa.table({"_ts": np.arange(10), "_h1": np.zeros(10, int), "_h2": np.zeros(10, int)})
    parts = dict(split("l0000000000000000", table, 1, OldJoin(False, 6), 3))
    kept = [number for part in parts.values() for number in part.filter(part["_home"])["_was"].to_pylist()]
    assert sorted(kept) == list(range(10))
    assert all(set(part["_was"].to_pylist()) >= {7, 8, 9} for part in parts.values())
    assert dict(split("lv0000000000000000", table, 1, OldJoin(False, 6), 3)) == {}


def test_what_every_shard_has_is_taken_from_the_first_and_what_was_found_below_goes_by_its_own_key():
    h1, h2 = np.random.default_rng(5).integers(-(1 << 62), 1 << 62, (2, 40))
    table, join = pa.table({"_ts": np.arange(40), "_h1": h1, "_h2": h2}), OldJoin(True, 50, (False, True))
    copies = dict(split("r0000000000000007", table, 0, join, 3))
    assert [copies[n]["_was"].to_pylist() for n in range(3)] == [list(range(7, 47))] * 3
    assert not dict(split("r0000000000000007", table, 1, join, 3)), "the other shards have the same rows"
    parts = dict(split("l0000000000000000", table, 1, join, 3))
    assert sorted(n for part in parts.values() for n in part["_was"].to_pylist()) == list(range(40))
    whole = OldJoin(True, 50, (True, True))
    assert len(dict(split("l0000000000000000", table, 0, whole, 3))) == 3
    assert not dict(split("l0000000000000000", table, 2, whole, 3))
