"""Hot state is believed only with proof: whatever is wrong, stale, torn or missing is found out and built anew."""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin.core.operator import Operator
from muntin.core.operator_state import OperatorImage
from muntin.plan import share
from muntin.spark.shard import hot_state as hot_module
from muntin.spark.shard.hot_state import FORMAT, STAMP, HotState
from muntin.sql import parse_job
from worlds import STREAMS

QUERY = "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 3 microseconds;"
(JOIN,) = share(parse_job(STREAMS.format(late=0) + QUERY)).joins
SMALL = Operator(JOIN).meta
LAYOUT = [((3,), "int64"), ((2, 2), "int32")]


@pytest.fixture
def hot(tmp_path) -> HotState:
    state = HotState(tmp_path, 7)
    memory = state.begin()
    numbers, _ = memory.allocate(memory.name("index"), LAYOUT)
    numbers[:] = [1, 2, 3]
    memory.keep(memory.name("payload"), pa.table({"x": [1, 2]}))
    state.put_back(memory, "nonce", Operator(JOIN, memory).image)
    return state


def test_what_one_process_put_back_another_finds(hot, tmp_path):
    claimed = HotState(tmp_path, 7).claim("nonce", SMALL)
    assert claimed is not None
    memory, image = claimed
    assert isinstance(image, OperatorImage) and Operator(JOIN, memory, image=image).image == image
    assert memory.arrays("index-1", LAYOUT)[0].tolist() == [1, 2, 3]
    assert memory.table("payload-2")["x"].to_pylist() == [1, 2]
    assert memory.name("index") not in ("index-1", "payload-2")


def test_only_one_task_can_claim_it(hot, tmp_path):
    assert HotState(tmp_path, 7).claim("nonce", SMALL) is not None
    assert HotState(tmp_path, 7).claim("nonce", SMALL) is None


def test_another_nonce_is_another_state(hot, tmp_path):
    assert HotState(tmp_path, 7).claim("older", SMALL) is None
    assert HotState(tmp_path, 7).claim("nonce", SMALL) is None, "what cannot be believed is thrown away"


def damage_truncate(folder):
    with open(folder / "index-1", "rb+") as file:
        file.truncate(8)


def damage_remove(folder):
    (folder / "payload-2").unlink()


def damage_extra(folder):
    (folder / "index-9").write_bytes(b"x")


def damage_stamp(folder):
    text = (folder / STAMP).read_text()
    (folder / STAMP).write_text(text.replace('"filter_order": false', '"filter_order": true'))


def damage_format(folder):
    body = (folder / STAMP).read_text()[8:].replace(f'"format": {FORMAT}', '"format": 0')
    (folder / STAMP).write_text(f"{zlib.crc32(body.encode()):08x}{body}")


def damage_no_stamp(folder):
    (folder / STAMP).unlink()


def damage_empty(folder):
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "damage", [damage_truncate, damage_remove, damage_extra, damage_stamp, damage_format, damage_no_stamp, damage_empty]
)
def test_damage_is_detected(hot, tmp_path, damage):
    damage(tmp_path / "7")
    assert HotState(tmp_path, 7).claim("nonce", SMALL) is None


def test_a_task_that_died_leaves_nothing_that_is_taken_and_its_remains_are_swept(hot, tmp_path):
    dead = HotState(tmp_path, 7)
    memory, _ = dead.claim("nonce", SMALL)
    memory.arrays("index-1", LAYOUT)[0][:] = 9
    fresh = HotState(tmp_path, 7)
    assert fresh.claim("nonce", SMALL) is None
    fresh.begin()
    assert len(list(tmp_path.iterdir())) == 1


def test_arrays_begin_with_a_cache_line(tmp_path):
    memory = HotState(tmp_path, 1).begin()
    for array in memory.allocate("a", [((3,), "uint8"), ((5,), "int64"), ((1, 8), "int64")]):
        assert array.ctypes.data % 64 == 0
        assert not np.any(array)


def test_a_finished_job_leaves_nothing_and_takes_what_was_abandoned_long_ago(tmp_path, monkeypatch):
    monkeypatch.setattr(hot_module, "hot_root", lambda checkpoint_id, local: tmp_path / checkpoint_id)
    for name in ("mine", "other", "abandoned"):
        HotState(tmp_path / name, 1).begin()
    os.utime(tmp_path / "abandoned", (0, 0))
    hot_module.forget_hot("mine")
    assert [p.name for p in tmp_path.iterdir()] == ["other"]


def test_it_lies_beside_the_blocks_of_spark_for_the_driver_and_for_its_workers(tmp_path, monkeypatch):
    """A worker is told the folder of the blocks, and which of several is its first; the driver the folder above."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert hot_module.local_folder() == Path(tempfile.gettempdir())
    for told in (f"{tmp_path}/blockmgr-1", f"{tmp_path}/blockmgr-1,/elsewhere/blockmgr-2", str(tmp_path)):
        monkeypatch.setenv("SPARK_LOCAL_DIRS", told)
        assert hot_module.hot_root("job") == tmp_path / f"muntin-{os.getuid()}" / "job"
