"""NATS JetStream, against a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.brokers.broker import BrokerError
from muntin.spark.brokers.nats import NatsBroker
from muntin.spark.brokers.offsets import Extent, MessageLog
from servers import Nats, running_nats


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with running_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


def broker(nats: Nats, stream: str, **options: str) -> NatsBroker:
    return NatsBroker({"nats.servers": nats.address, "stream": stream, "brokerTimeout": "5", **options})


def values(found: NatsBroker, start: int, end: int) -> list[Any]:
    place = MessageLog(found.option("stream"), 0)
    return [value for rows in found.read(place, start, end, ["value"]) for value in rows["value"]]


def made(nats: Nats, stream: str, **config: Any) -> None:
    nats.ask(lambda js: js.add_stream(name=stream, subjects=[f"{stream}.*"], **config))


def test_ranges_of_sequences_are_read_in_order_and_the_same_again(nats: Nats):
    made(nats, "ranges")
    nats.send("ranges.a", [b"%d" % n for n in range(1, 21)])
    with broker(nats, "ranges") as found:
        assert found.bounds() == {MessageLog("ranges", 0): Extent(1, 21)}
        for start, end in [(1, 11), (11, 21), (3, 5), (3, 5)]:
            assert values(found, start, end) == [b"%d" % n for n in range(start, end)]


def test_deleted_messages_and_other_subjects_do_not_keep_a_reader_waiting(nats: Nats):
    made(nats, "gaps")
    for n in range(1, 7):
        nats.send(f"gaps.{'ab'[n % 2]}", [b"%d" % n])
    nats.ask(lambda js: js.delete_msg("gaps", 6))
    assert values(broker(nats, "gaps"), 1, 7) == [b"1", b"2", b"3", b"4", b"5"]
    assert values(broker(nats, "gaps", subject="gaps.a"), 1, 7) == [b"2", b"4"]


def test_messages_have_subjects_sequences_times_and_headers(nats: Nats):
    made(nats, "wide")
    before = time.time()
    nats.send("wide.x", [b"v"], headers={"h": "1"})
    (rows,) = broker(nats, "wide").read(MessageLog("wide", 0), 1, 2, list(NatsBroker.columns))
    (sent,) = rows.pop("timestamp")
    assert before - 1 < sent.timestamp() < time.time() + 1
    assert rows == {
        "value": [b"v"],
        "subject": ["wide.x"],
        "sequence": [1],
        "headers": [[{"key": "h", "value": b"1"}]],
    }


def test_a_job_begins_where_its_options_say_and_what_a_stream_has_let_go_is_gone(nats: Nats):
    made(nats, "begin", max_msgs=3)
    nats.send("begin.x", [b"1", b"2", b"3", b"4"])
    time.sleep(0.05)
    later = int(time.time() * 1000)
    time.sleep(0.05)
    nats.send("begin.x", [b"5"])

    def at(**options: str) -> int:
        with broker(nats, "begin", **options) as found:
            return found.beginning(found.bounds())[MessageLog("begin", 0)]

    assert at(startingOffsets="earliest") == 3 and at() == 6 and at(startingOffsets="4") == 4
    assert at(startingTimestamp=str(later)) == 5 and at(startingTimestamp=str(later + 10_000_000)) == 6


def test_a_server_that_goes_away_and_comes_back(nats: Nats):
    made(nats, "back")
    nats.send("back.x", [b"1"])
    with broker(nats, "back") as found:
        before = found.bounds()
        nats.stop()
        with pytest.raises(BrokerError, match="does not answer"):
            found.bounds()
        nats.start()
        assert found.bounds() == before


def test_a_stream_that_there_is_not_and_a_secret_that_is_refused(
    nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with broker(nats, "nothing") as found, pytest.raises(BrokerError, match="has no stream nothing"):
        found.bounds()
    monkeypatch.setenv("WORD", "open-sesame")
    with running_nats(tmp_path, "--user", "u", "--pass", "right") as guarded:
        options = {"nats.user": "u", "nats.password": "env:WORD"}
        with broker(guarded, "s", **options) as found, pytest.raises(BrokerError, match="refuses") as refused:
            found.bounds()
        assert "open-sesame" not in str(refused.value)
