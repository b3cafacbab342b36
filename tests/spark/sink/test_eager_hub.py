"""Results on their way while a micro-batch runs: merged in order, once, whoever dies and tries again."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.results import OUTPUT_TS
from muntin.core.storage import table_bytes
from muntin.formats import json_lines
from muntin.model import MuntinError
from muntin.plan import share
from muntin.spark.shard.eager_sender import ARRIVED, Attempt, EagerSender
from muntin.spark.sink.eager_hub import EagerHub, Merge, Refused
from muntin.spark.sink.held_results import HeldResults
from muntin.spark.sink.hub_place import HubPlace
from muntin.sql import parse_job

BOUND = 32 << 20
"""What may be on its way to a sink that takes nothing: buffers of the system, and one message."""
PLAN = share(
    parse_job(
        "CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'a');"
        "CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'b');"
        "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;"
        "CREATE QUERY r AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 9 s;"
    )
)


def results(times: list[int], shard: int = 0) -> pa.Table:
    ids = [1000 * shard + n for n in range(len(times))]
    return pa.table({"k": ids, OUTPUT_TS.name: pa.array(times, OUTPUT_TS.type), ARRIVED: [7] * len(times)})


def ids(tables: list[tuple[str, pa.Table]], query: str) -> list[int]:
    return [k for name, table in tables if name == query for k in table["k"].to_pylist()]


def times(tables: list[tuple[str, pa.Table]], query: str) -> list[int]:
    return [t for name, table in tables if name == query for t in table["_ts"].cast(pa.int64()).to_pylist()]


TIMES = st.lists(st.integers(0, 9), max_size=8).map(sorted)


@st.composite
def messages(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple[int, int, bool]]]:
    """The rows of three shards, and steps: a shard sends so many more rows, or starts again before it does."""
    shards = [draw(TIMES) for _ in range(3)]
    step = st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from([False, False, False, True]))
    return shards, draw(st.lists(step, max_size=25))


@settings(max_examples=100, deadline=None)
@given(messages(), st.booleans())
def test_a_query_gets_every_row_once_and_in_order_whoever_starts_again(world, in_order):
    shards, steps = world
    merge, out = Merge(0, in_order, len(shards)), []
    sent, tries, over = [0] * len(shards), [0] * len(shards), [False] * len(shards)
    for shard in range(len(shards)):
        merge.hello((0, shard), 0, PLAN)
    steps = [*steps, *((shard, len(rows), False) for shard, rows in enumerate(shards))]
    for shard, count, again in steps:
        rows = shards[shard]
        if again and not over[shard]:
            tries[shard] += 1
            merge.hello((0, shard), tries[shard], PLAN)
            sent[shard] = 0
        part = results(rows, shard).slice(sent[shard], count)
        sent[shard] = min(len(rows), sent[shard] + count)
        passed = {"q": rows[sent[shard] - 1]} if sent[shard] else {}
        out += merge.take((0, shard), tries[shard], {"q": part} if part.num_rows else {}, passed)
        if sent[shard] == len(rows) and not over[shard]:
            out += merge.done((0, shard), tries[shard])
            over[shard] = True
    assert not any(merge.held.values()) and all(over)
    assert sorted(ids(out, "q")) == sorted(1000 * s + n for s, rows in enumerate(shards) for n in range(len(rows)))
    if in_order:
        assert times(out, "q") == sorted(times(out, "q"))


def test_a_row_is_handed_over_when_all_shards_have_come_to_it_and_not_before():
    merge = Merge(0, True, 2)
    merge.hello((0, 0), 0, PLAN)
    assert merge.take((0, 0), 0, {"q": results([1, 5]), "r": results([1])}, {"q": 5, "r": 1}) == []
    merge.hello((0, 1), 0, PLAN)
    assert times(merge.take((0, 1), 0, {}, {"q": 3}), "q") == [1]
    assert times(merge.take((0, 1), 0, {}, {"q": 5}), "q") == [5]
    assert times(merge.done((0, 1), 0), "r") == [1]


def test_an_attempt_that_was_given_up_is_refused():
    merge = Merge(0, True, 1)
    merge.hello((0, 0), 0, PLAN)
    merge.hello((0, 0), 1, PLAN)
    with pytest.raises(Refused):
        merge.take((0, 0), 0, {"q": results([1])}, {})
    with pytest.raises(Refused):
        merge.hello((0, 0), 1, PLAN)
    merge.hello((0, 0), 2, PLAN)


class Listening:
    """A hub on a real socket with what it handed over."""

    def __init__(self) -> None:
        self.got: list[tuple[str, pa.Table]] = []
        self.fail = False
        kept = HeldResults(Path("/nowhere"))
        self.hub = EagerHub(HubPlace(), True, 1, self.take, lambda epoch: PLAN, kept)

    def take(self, name: str, table: pa.Table, batch: int) -> None:
        if self.fail:
            raise ValueError("no room")
        self.got.append((name, table))

    def sender(self, batch: int = 3, attempt: int = 0) -> EagerSender:
        return EagerSender(self.hub.address, Attempt(join=0, shard=0, epochs=[0], batch=batch, attempt=attempt))


def test_shards_deliver_over_a_socket_and_only_with_the_secret():
    listening = Listening()
    listening.hub.begin(3, muted=False)
    with listening.sender() as sender:
        sender.send({"q": results([1, 2])}, {"q": 2})
        sender.done()
    listening.hub.finish([(0, 0)])
    assert times(listening.got, "q") == [1, 2] and listening.hub.rows == {"q": 2}
    assert [t.column_names for _, t in listening.got] == [["k", "_ts"]]
    assert listening.hub.latency["q"].count == 2
    with pytest.raises(MuntinError, match="this micro-batch is over"):
        listening.sender()
    stranger = replace(listening.hub.address, token="0" * 64)
    with pytest.raises(MuntinError, match="not a shard of this run"):
        EagerSender(stranger, Attempt(join=0, shard=0, epochs=[0], batch=3, attempt=0))
    listening.hub.close()


def test_a_second_attempt_takes_over_and_the_first_fails():
    listening = Listening()
    listening.hub.begin(3, muted=False)
    first = listening.sender()
    first.send({"q": results([1, 2])}, {"q": 2})
    with listening.sender(attempt=1) as second:
        second.send({"q": results([1, 2, 3])}, {"q": 3})
        with pytest.raises(MuntinError, match=r"refused|any more"):
            first.done()
        second.done()
    assert ids(listening.got, "q") == [0, 1, 2]
    with pytest.raises(MuntinError, match="have not delivered"):
        listening.hub.finish([(0, 0), (0, 1)])
    listening.hub.close()


def test_a_sink_that_fails_fails_the_tasks_and_a_committed_micro_batch_is_not_handed_over_again():
    listening = Listening()
    listening.hub.begin(3, muted=True)
    with listening.sender() as sender:
        sender.send({"q": results([1])}, {})
        sender.done()
    listening.hub.finish([(0, 0)])
    assert not listening.got and listening.hub.rows == {"q": 1}
    listening.fail = True
    listening.hub.begin(4, muted=False)
    with listening.sender(4) as sender, pytest.raises(MuntinError, match="refused"):
        sender.send({"q": results([1])}, {})
        sender.done()
    with pytest.raises(MuntinError, match="no room"):
        listening.sender(4, attempt=1)
    with pytest.raises(ValueError, match="no room"):
        listening.hub.finish([(0, 0)])
    listening.hub.close()


def test_any_value_is_valid_json():
    table = pa.table(
        {
            'a "%s"': pa.array([1.5, float("nan"), None]),
            "b": pa.array(["x\ny", '"', None]),
            "c": pa.array([True, None, False]),
            "d": pa.array([2**60, None, -1]),
        }
    )
    lines = [json.loads(line) for line in json_lines(table, {"_query": "a%b"}).decode().splitlines()]
    assert lines[0] == {"_query": "a%b", 'a "%s"': 1.5, "b": "x\ny", "c": True, "d": 2**60}
    assert lines[1]['a "%s"'] == "nan" and lines[2]["b"] is None and lines[2]["c"] is False


def test_a_sink_that_is_slower_than_the_work_holds_the_work_up_and_nothing_is_lost():
    """What is on its way is no more than what sockets and one message hold; the shard waits for the rest."""
    listening, go, sent = Listening(), threading.Event(), list[int]()
    taken = listening.take

    def slow(name: str, table: pa.Table, batch: int) -> None:
        assert go.wait(120)
        taken(name, table, batch)

    listening.hub._deliver = slow  # type: ignore[assignment]
    listening.hub.begin(3, muted=False)
    rows, messages = 100_000, 60

    def work() -> None:
        with listening.sender() as sender:
            for n in range(messages):
                sender.send({"q": results([n] * rows)}, {"q": n})
                sent.append(n)
            sender.done()

    shard = threading.Thread(target=work, daemon=True)
    shard.start()
    waited = -1
    while waited != len(sent):  # until it gets no further
        waited = len(sent)
        time.sleep(0.5)
    size = table_bytes(results([0] * rows))
    assert waited * len(size) < BOUND, f"{waited} messages of {len(size):,} bytes were sent to a sink that took none"
    assert shard.is_alive() and not listening.got
    go.set()
    shard.join(120)
    listening.hub.finish([(0, 0)])
    assert times(listening.got, "q") == [n for n in range(messages) for _ in range(rows)]
    assert listening.hub.rows == {"q": rows * messages}
    listening.hub.close()
