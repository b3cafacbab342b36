"""A Kafka cluster inside this process, librdkafka's own, at an address of this machine.

It speaks Kafka's protocol, transactions included, and keeps messages in memory: enough to try a job out, to measure and
to test, and nothing to keep data in. Topics have four partitions and are made when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class LocalKafka:
    def __init__(self) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
        (broker,) = self._producer.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def make(self, *topics: str) -> None:
        """Let there be topics."""
        for topic in topics:
            self._producer.list_topics(topic, timeout=10)

    def send(self, topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:
        """Send values to a partition, and wait until they are there."""
        for value in values:
            while True:
                try:
                    self._producer.produce(topic, value, partition=partition, **more)
                    break
                except BufferError:  # the client's queue is full
                    self._producer.poll(0.1)
        left = self._producer.flush(30)
        assert left == 0, f"{left} messages were not taken"
