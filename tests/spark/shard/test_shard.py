"""One shard over Spark's state calls, played by two dicts: hot or rebuilt, the results are the same."""

from __future__ import annotations

import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin.core.results import ResultBatch, route
from muntin.plan import share
from muntin.spark.checkpoint.durable import FileKind, to_line
from muntin.spark.control.control_stream import copies
from muntin.spark.exchange.frames import FrameError, FrameKind, decode, encode
from muntin.spark.exchange.topology import Topology
from muntin.spark.ingest.packing import pack
from muntin.spark.shard import engines, shard
from muntin.spark.sink.sink import Stager
from muntin.spark.sink.task import SinkTask
from muntin.sql import parse_job

SQL = """
CREATE STREAM A (ts TIMESTAMP, k STRING, v DOUBLE) TIMESTAMP BY ts LATENESS 1 s WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k STRING, v DOUBLE) TIMESTAMP BY ts LATENESS 1 s WITH (format = 'parquet', path = 'b');
CREATE QUERY q AS SELECT A.k, A.v AS av, B.v AS bv FROM A, B WHERE A.k = B.k WINDOW 4 s;
CREATE QUERY few AS SELECT A.v AS av, B.v AS bv FROM A, B WHERE A.k = B.k AND B.v > 50 WINDOW 9 s;
"""


@pytest.fixture(autouse=True)
def _hot_in_a_folder_of_the_test(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "hot_root", lambda checkpoint_id: tmp_path / checkpoint_id)


class Value:
    """Spark's value state: one value."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, newValue: tuple[Any, ...]) -> None:
        self.value = newValue


class Map(dict[tuple[Any, ...], tuple[Any, ...]]):
    """Spark's map state."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:
        self.pop(key)


class OneShard:
    def __init__(self, counting: bool = False) -> None:
        self.topology = Topology(share(parse_job(SQL)), 1, True, f"test-{secrets.token_hex(8)}", counting=counting)
        self.streams = {s.name: s for s in self.topology.plan.streams}
        (self.group,) = self.topology.groups([0])
        self.chunks, self.meta = Map(), Value()

    def lose_hot(self) -> None:
        """Everything but the state is gone."""
        shutil.rmtree(engines.hot_root(self.topology.checkpoint_id))

    def step(self, frames: list[bytes]) -> list[Any]:
        state = engines.ShardState(self.chunks, self.meta)
        out = shard.advance(self.topology, self.group, frames, state)
        return [decode(data, "output") for _, data in out]

    def push(self, batch: int) -> list[Any]:
        frames = [f for name in "AB" for _, f in pack(self.topology, self.streams[name], make(batch, name), batch, 0)]
        return self.step(frames[::-1])

    def end(self) -> list[Any]:
        message = {"sequence": 1, "type": "end", "streams": ["A", "B"]}
        line = to_line(FileKind.CONTROL, "0000000001", message, self.topology.checkpoint_id)
        return self.step([frame for _, frame in copies(self.topology, [line])])

    def rows(self, frames: list[Any]) -> list[tuple[Any, ...]]:
        join = self.topology.plan.joins[0]
        runs = [ResultBatch.from_bytes(join, bytes(f.payload)) for f in frames if f.kind == FrameKind.RESULTS]
        return [(q.name, *row.values()) for run in runs for q, t in route(join, run) for row in t.to_pylist()]


def make(batch: int, name: str) -> pa.Table:
    rng = np.random.default_rng([batch, ord(name)])
    us = np.sort(rng.integers(0, 3_000_000, 40)) + batch * 3_000_000
    keys = np.array(["x", "y", "", "ü"])[rng.integers(0, 4, 40)]
    return pa.table({"ts": pa.array(us, pa.timestamp("us", "UTC")), "k": keys, "v": rng.random(40) * 100})


def reports(frames: list[Any]) -> Iterator[Any]:
    return (f.header for f in frames if f.kind == FrameKind.REPORT)


@pytest.mark.parametrize("lost", [(), (1, 2, 3, 4, 5), (3,)])
def test_a_lost_hot_operator_changes_nothing(lost: tuple[int, ...]):
    kept, losing = OneShard(), OneShard()
    for batch in range(6):
        wanted = kept.push(batch) if batch < 5 else kept.end()
        if batch in lost:
            losing.lose_hot()
        got = losing.push(batch) if batch < 5 else losing.end()
        assert losing.rows(got) == kept.rows(wanted)
        assert [r["report"]["rebuilt"] for r in reports(got)] == [batch in lost]
        assert not next(reports(wanted))["report"]["rebuilt"]
        assert losing.chunks.keys() == kept.chunks.keys()
    assert not kept.chunks, "after the end nothing is kept"


def test_a_stale_hot_operator_is_not_used():
    """A second attempt, or another worker, has written since: the nonce in the state is another one."""
    one = OneShard()
    one.push(0)
    stored = one.meta.value
    one.push(1)
    one.meta.value = stored
    assert next(reports(one.push(1)))["report"]["rebuilt"]


def test_an_operator_that_failed_midway_is_dropped(monkeypatch: pytest.MonkeyPatch):
    one = OneShard()
    one.push(0)
    before = (dict(one.chunks), one.meta.value)
    with monkeypatch.context() as patch:
        patch.setattr(engines.ShardState, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.push(1)
    assert (dict(one.chunks), one.meta.value) == before
    assert next(reports(one.push(1)))["report"]["rebuilt"]


def test_damaged_or_missing_state_is_named():
    one = OneShard()
    one.push(0)
    one.lose_hot()
    name = next(iter(one.chunks))
    whole = one.chunks[name]
    one.chunks[name] = (whole[0][:-3] + b"xyz",)
    with pytest.raises(FrameError, match=f"the state chunk {name[0]} is damaged"):
        one.push(1)
    other = next(key for key in one.chunks if key != name)
    one.chunks[name] = one.chunks[other]
    with pytest.raises(FrameError, match=f"the state chunk {name[0]} is damaged: it is {other[0]}"):
        one.push(1)
    del one.chunks[name]
    with pytest.raises(Exception, match=f"chunk {name[0]} is missing"):
        one.push(1)
    one.chunks[name] = whole
    one.meta.value = (encode(FrameKind.META, {"format": 99}),)
    with pytest.raises(Exception, match="format 99"):
        one.push(1)


def test_the_order_in_which_frames_arrive_does_not_matter():
    one, other = OneShard(), OneShard()
    frames = [
        f for n in range(3) for name in "AB" for _, f in pack(one.topology, one.streams[name], make(n, name), n, 0)
    ]
    got = one.rows(one.step(frames))
    assert got
    assert other.rows(other.step(frames[::-1])) == got


def test_what_is_only_counted_leaves_no_more_than_numbers():
    """Also of dead letters: the second micro-batch here is late."""
    full, counting = OneShard(), OneShard(counting=True)
    found: list[Counter[str]] = [Counter(), Counter()]
    for batch in (2, 0, 3):
        for one, counted in zip((full, counting), found, strict=True):
            frames = one.push(batch)
            counted.update(q for q, *_ in one.rows(frames))
            counted.update({q: sum(n for _, n in times) for r in reports(frames) for q, times in r["arrivals"].items()})
            for message in SinkTask(one.topology, Stager()).messages(frames):
                counted.update(message.dead_letters)
            if one is counting:
                assert {f.kind for f in frames} <= {FrameKind.REPORT, FrameKind.DEAD_LETTERS} and not any(
                    f.payload for f in frames
                )
    assert found[0] == found[1]
    assert found[0]["late"] == 80 and found[0]["q"] and found[0]["few"]
