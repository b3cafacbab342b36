"""Kafka, by librdkafka. Options have the names that Spark's own connector has; those of the client stand after
`kafka.`, as `kafka.bootstrap.servers`, with librdkafka's names."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from muntin.model import UsageError
from muntin.spark.brokers.broker import Broker, BrokerError, Rows
from muntin.spark.brokers.offsets import Extent, MessageLog, Offsets
from muntin.spark.brokers.secrets import resolved, scrubbed

PREFIX = "kafka."
EARLIEST, LATEST = -2, -1
"""Kafka's numbers for both ends of a partition."""
ANSWER_S = 5.0
"""How long one question to a broker may take."""
FETCH, FETCH_S = 10_000, 0.1
"""Messages that are taken from the client at once, and how long it may wait for them."""
JAAS = re.compile(r'(username|password)\s*=\s*"([^"]*)"')
CLIENT = {
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "queued.max.messages.kbytes": "32768",
    "log.connection.close": "false",
    "log_level": "0",
    "socket.connection.setup.timeout.ms": "5000",
    "reconnect.backoff.max.ms": "1000",
}
"""What the client is told unless the options say otherwise."""
OF_CONSUMERS = ("enable.auto.commit", "enable.partition.eof", "queued.max.messages.kbytes")
"""Of these, settings that producers do not have."""
KEPT = 8
"""Consumers that a task's process keeps for the next micro-batch: to connect takes longer than to read."""


def client_config(options: Mapping[str, str], on_error: Callable[[Any], None] | None = None) -> dict[str, Any]:
    """librdkafka's settings out of options; secrets are looked up here."""
    given = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}
    config: dict[str, Any] = {**CLIENT, **resolved(given)}
    if (jaas := config.pop("sasl.jaas.config", None)) is not None:
        config |= {f"sasl.{name}": value for name, value in JAAS.findall(jaas)}
    if on_error is not None:
        config["error_cb"] = on_error
    return config


class Hearing:
    """What a client says of its connection: of a refusal its exceptions say only that time is up."""

    def __init__(self, options: Mapping[str, str]):
        self._options, self._said = options, ""

    def __call__(self, error: Any) -> None:
        self._said = error.str()

    def scrubbed(self, error: Exception) -> str:
        """An exception of the client in its words, without secrets."""
        found = error.args[0] if error.args else error
        text = found.str() if hasattr(found, "str") else str(found) or "no answer"
        return scrubbed(text, self._options)

    def refusal(self, client: Any, error: Exception, verb: str, hint: str) -> BrokerError:
        """What is wrong with a broker; `verb` and `hint` are said where it is not about who we are."""
        if client is not None:
            client.poll(0)  # it hands over what it has to say
        said = scrubbed(self._said, self._options) or self.scrubbed(error)
        self._said = ""
        if any(word in said.lower() for word in ("authenticat", "sasl", "authoriz", "ssl")):
            verb = "refuses"
            hint = "look at the user and at where its secret is: 'kafka.sasl.password' = 'env:VARIABLE' or 'file:PATH'"
        return BrokerError(f"Kafka at {self._options['kafka.bootstrap.servers']} {verb}: {said}", hint=hint)


class KafkaBroker(Broker):
    name = "kafka"
    package = "confluent_kafka"
    jar = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
    columns: ClassVar[dict[str, str]] = {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "headers": "array<struct<key:string,value:binary>>",
    }
    options: ClassVar[dict[str, str]] = {
        name.lower(): name
        for name in (
            "subscribe",
            "subscribePattern",
            "startingOffsets",
            "startingTimestamp",
            "maxOffsetsPerTrigger",
            "failOnDataLoss",
            "includeHeaders",
            "brokerTimeout",
        )
    }
    prefix = PREFIX
    required = (("kafka.bootstrap.servers",), ("subscribe", "subscribePattern"))
    example = "format = 'kafka', 'kafka.bootstrap.servers' = 'localhost:9092', subscribe = 'bids'"

    def __init__(self, options: Mapping[str, str]):
        super().__init__(options)
        self._consumer: Any = None
        self._heard = Hearing(self.given)

    def say(self) -> str:
        topics = self.option("subscribe") or f"topics like {self.option('subscribePattern')}"
        return f"{topics} at {self.option('kafka.bootstrap.servers')}"

    # -- a connection -------------------------------------------------------------------------------------------------

    def _client(self) -> Any:
        if self._consumer is None:
            self._consumer = self._open({"group.id": "muntin"})
        return self._consumer

    def _open(self, more: Mapping[str, str]) -> Any:
        from confluent_kafka import Consumer, KafkaException

        config = client_config(self.given, self._heard)
        try:
            return Consumer({**more, **config})
        except KafkaException as error:  # a setting that there is not, or that does not go
            raise UsageError(
                f"Kafka's client refuses its settings: {self._heard.scrubbed(error)}",
                hint="settings after kafka. have the names of librdkafka",
            ) from None

    def _refusal(self, error: Exception) -> BrokerError:
        """What is wrong with a broker, in the client's words, without secrets."""
        hint = "is it running, and is this its address? brokerTimeout says for how many seconds it may be away"
        return self._heard.refusal(self._consumer, error, "does not answer", hint)

    # -- where messages lie -------------------------------------------------------------------------------------------

    def _places(self) -> list[MessageLog]:
        from confluent_kafka import KafkaException

        try:
            found = self._client().list_topics(timeout=ANSWER_S).topics
        except KafkaException as error:
            raise self._refusal(error) from None
        pattern, named = self.option("subscribePattern"), self.option("subscribe")
        wanted = [topic.strip() for topic in named.split(",") if topic.strip()]
        wanted += [topic for topic in sorted(found) if pattern and re.fullmatch(pattern, topic)]
        for topic in wanted:
            if topic not in found or found[topic].error is not None:
                others = [name for name in sorted(found) if not name.startswith("_")]
                raise BrokerError(
                    f"Kafka at {self.option('kafka.bootstrap.servers')} has no topic {topic}",
                    hint=f"topics are {', '.join(others[:6]) or 'none yet'}",
                )
        return [MessageLog(topic, number) for topic in wanted for number in found[topic].partitions]

    def bounds(self) -> dict[MessageLog, Extent]:
        places = self._places()
        lows, highs = (self._offsets(places, when) for when in (EARLIEST, LATEST))
        return {place: Extent(lows[place], max(lows[place], highs[place])) for place in places}

    def _offsets(self, places: Sequence[MessageLog], when: int) -> Offsets:
        """The first message at a time in milliseconds, or one of `EARLIEST` and `LATEST`, which is the one after the
        last that is committed; -1 where there is none."""
        from confluent_kafka import KafkaException, TopicPartition

        asked = [TopicPartition(*place, when) for place in places]
        try:
            answers = self._client().offsets_for_times(asked, timeout=ANSWER_S) if asked else []
            for found in answers:
                if found.error is not None:
                    raise KafkaException(found.error)
        except KafkaException as error:
            raise self._refusal(error) from None
        return {MessageLog(found.topic, found.partition): found.offset for found in answers}

    def beginning(self, bounds: Mapping[MessageLog, Extent]) -> Offsets:
        lows = {place: found.low for place, found in bounds.items()}
        highs = {place: found.high for place, found in bounds.items()}
        if since := self.option("startingTimestamp"):
            found = self._offsets(list(bounds), int(since))
            return {place: at if at >= 0 else highs[place] for place, at in found.items()}
        asked = self.option("startingOffsets", "latest").strip()
        if asked.lower() in ("earliest", "latest"):
            return lows if asked.lower() == "earliest" else highs
        try:
            given = {MessageLog(t, int(p)): int(at) for t, each in json.loads(asked).items() for p, at in each.items()}
        except (ValueError, AttributeError, TypeError):
            raise UsageError(
                f"startingOffsets is {asked}", hint="""write 'earliest', 'latest' or '{"topic": {"0": 23, "1": -2}}'"""
            ) from None
        for place in given:
            if place not in bounds:
                raise UsageError(f"startingOffsets: there is no {place}")
        named = {EARLIEST: lows, LATEST: highs}
        return lows | {place: named[at][place] if at in named else at for place, at in given.items()}

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    # -- messages -----------------------------------------------------------------------------------------------------

    def read(self, place: MessageLog, start: int, end: int, columns: Sequence[str]) -> Iterator[Rows]:
        consumer = self._positioned(place, start)
        at, heard = start, time.monotonic()
        while at < end:
            messages = consumer.consume(min(FETCH, end - at), FETCH_S)
            rows, reached = self._sorted_out(messages, end)
            if rows:
                heard = time.monotonic()
                yield {name: [_OF_MESSAGE[name](message) for message in rows] for name in columns}
            elif time.monotonic() - heard > self.timeout_s:
                raise self._refusal(TimeoutError(f"no message {at} of {place} in {self.timeout_s:g} s"))
            at = max(at, reached)
        _KEPT[self._kept_key(place)] = consumer, end

    def _sorted_out(self, messages: Sequence[Any], end: int) -> tuple[list[Any], int]:
        """Messages before the end, and which comes next: there are gaps where a transaction ended or a topic was
        compacted."""
        from confluent_kafka import KafkaError

        rows, reached = [], 0
        for message in messages:
            fault = message.error()
            if fault is None:
                if message.offset() < end:
                    rows.append(message)
                reached = message.offset() + 1
            elif fault.code() == KafkaError._PARTITION_EOF:
                reached = max(reached, message.offset())
            elif fault.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise BrokerError(
                    f"messages of partition {message.partition()} of {message.topic()} have expired before they were "
                    f"read: {fault.str()}",
                    hint="failOnDataLoss = 'false' goes on with what is there",
                )
            elif not fault.retriable() and fault.fatal():
                raise self._refusal(RuntimeError(fault.str()))
        return rows, reached

    def _kept_key(self, place: MessageLog) -> tuple[Any, ...]:
        return (*sorted(self.given.items()), place)

    def _positioned(self, place: MessageLog, start: int) -> Any:
        """A consumer that reads a place from a message on; one that is there already goes on, if it can."""
        from confluent_kafka import TopicPartition

        consumer, at = _KEPT.pop(self._kept_key(place), (None, -1))
        if consumer is not None and at == start:
            return consumer
        if consumer is None:
            while len(_KEPT) >= KEPT:
                _KEPT.pop(next(iter(_KEPT)))[0].close()
            reset = "error" if self.fails_on_loss else "earliest"
            consumer = self._open({"group.id": "muntin", "auto.offset.reset": reset})
        consumer.assign([TopicPartition(place.topic, place.partition, start)])
        return consumer


_KEPT: dict[tuple[Any, ...], tuple[Any, int]] = {}
"""Consumers of this process by options and place, and where they are."""
_OF_MESSAGE: dict[str, Callable[[Any], Any]] = {
    "key": lambda m: m.key(),
    "value": lambda m: m.value(),
    "topic": lambda m: m.topic(),
    "partition": lambda m: m.partition(),
    "offset": lambda m: m.offset(),
    "timestamp": lambda m: m.timestamp()[1] * 1000,
    "headers": lambda m: [{"key": name, "value": value} for name, value in m.headers() or ()],
}
