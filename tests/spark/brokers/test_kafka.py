"""Kafka, against the cluster inside librdkafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from muntin.model import UsageError
from muntin.spark.brokers.broker import BrokerError
from muntin.spark.brokers.kafka import KafkaBroker
from muntin.spark.brokers.offsets import Extent, MessageLog
from servers import MockKafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[MockKafka]:
    yield MockKafka()


def broker(kafka: MockKafka, topic: str, **options: str) -> KafkaBroker:
    return KafkaBroker({"kafka.bootstrap.servers": kafka.address, "subscribe": topic, **options})


def values(found: KafkaBroker, place: MessageLog, start: int, end: int) -> list[Any]:
    return [value for rows in found.read(place, start, end, ["value"]) for value in rows["value"]]


def test_ranges_of_messages_are_read_in_order_and_the_same_again(kafka: MockKafka):
    kafka.send("ranges", [b"%d" % n for n in range(25)], partition=1)
    found, place = broker(kafka, "ranges"), MessageLog("ranges", 1)
    assert found.bounds()[place] == Extent(0, 25)
    for start, end in [(0, 10), (10, 25), (3, 5), (3, 5), (24, 25)]:  # on, back, again
        assert values(found, place, start, end) == [b"%d" % n for n in range(start, end)]


def test_messages_have_keys_headers_times_and_places(kafka: MockKafka):
    kafka.send("wide", [b"v", None], 2, key=b"k", headers=[("h", b"1"), ("h", b"2")], timestamp=1_700_000_000_123)
    (rows,) = broker(kafka, "wide").read(MessageLog("wide", 2), 0, 2, list(KafkaBroker.columns))
    assert rows == {
        "key": [b"k"] * 2,
        "value": [b"v", None],
        "topic": ["wide"] * 2,
        "partition": [2, 2],
        "offset": [0, 1],
        "timestamp": [1_700_000_000_123_000] * 2,
        "headers": [[{"key": "h", "value": b"1"}, {"key": "h", "value": b"2"}]] * 2,
    }


def test_a_job_begins_where_its_options_say(kafka: MockKafka):
    for n in range(3):
        kafka.send("begin", [b"x"], timestamp=1000 * (n + 1))
    zero = MessageLog("begin", 0)

    def at(**options: str) -> int:
        found = broker(kafka, "begin", **options)
        return found.beginning(found.bounds())[zero]

    assert at() == at(startingOffsets="latest") == 3
    assert at(startingOffsets="earliest") == 0
    assert at(startingOffsets='{"begin": {"0": 2}}') == 2
    assert [at(startingOffsets=f'{{"begin": {{"0": {n}}}}}') for n in (-2, -1)] == [0, 3]
    for wrong, message in [("soon", "startingOffsets is soon"), ('{"other": {"0": 1}}', "no partition 0 of other")]:
        with pytest.raises(UsageError, match=message):
            at(startingOffsets=wrong)


def test_gaps_where_transactions_ended_do_not_keep_a_reader_waiting(kafka: MockKafka):
    writer = Producer({"bootstrap.servers": kafka.address, "transactional.id": "gaps", "log_level": 0})
    writer.init_transactions(10)
    for n in range(3):
        writer.begin_transaction()
        writer.produce("gaps", b"%d" % n, partition=0)
        writer.commit_transaction(10)
    found, place = broker(kafka, "gaps"), MessageLog("gaps", 0)
    end = found.bounds()[place].high
    assert end > 3, "markers take offsets"
    assert values(found, place, 0, end) == [b"0", b"1", b"2"]


def test_topics_by_pattern_and_topics_that_there_are_not(kafka: MockKafka):
    for topic in ("log-a", "log-b"):
        kafka.send(topic, [b"x"])
    options = {"kafka.bootstrap.servers": kafka.address, "subscribePattern": "log-."}
    assert {place.topic for place in KafkaBroker(options).bounds()} == {"log-a", "log-b"}
    with pytest.raises(BrokerError, match="has no topic nothing"):
        broker(kafka, "nothing").bounds()


def test_a_broker_that_does_not_answer_and_settings_that_there_are_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("muntin.spark.brokers.kafka.ANSWER_S", 0.5)
    with pytest.raises(BrokerError, match=r"Kafka at 127.0.0.1:1 does not answer: .*Connection refused"):
        KafkaBroker({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}).bounds()
    monkeypatch.setenv("WORD", "open-sesame")
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.sasl.password": "env:WORD"}
    with pytest.raises(UsageError, match=r"refuses its settings: .*no\.such") as refused:
        KafkaBroker({**options, "kafka.no.such": "env:WORD"}).bounds()
    assert "open-sesame" not in str(refused.value)
