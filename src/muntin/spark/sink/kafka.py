"""Rows to topics of Kafka: `--output kafka:HOST:PORT/PREFIX`, a topic for each query, PREFIX and its name; or
`CREATE QUERY q INTO KAFKA 'HOST:PORT/TOPIC'`.

A micro-batch is one transaction. Within it the number of the micro-batch goes to a topic that has only such numbers of
this writer. So Kafka itself says after a crash whether it has a micro-batch, and readers that read committed messages
get each row once. With `delivery=at_least_once` there is no transaction: a micro-batch that was not committed comes
again.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from muntin.model import MuntinError, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.brokers import OF_CONSUMERS, BrokerError, Hearing, KafkaBroker, client_config
from muntin.spark.checkpoint import BatchOutcome
from muntin.spark.ingest import dead_letters
from muntin.spark.sink.message_sink import ANSWER_S, MessageSink
from muntin.spark.sink.messages_out import KIND, PUNCTUATION, Outgoing, outgoing
from muntin.spark.sink.sink import OutputRequest

TAIL = 64
"""Messages at the end of a topic in which the last number is looked for first."""
OPTIONS = {
    "format": "json or avro",
    "delivery": "exactly_once or at_least_once",
    "punctuations": "on or off",
    "partitions": "of topics that are made, 1 if not given",
    "config": "a JSON file with settings of the client, by librdkafka's names",
}
DELIVERIES = ("exactly_once", "at_least_once")


def batches_topic(prefix: str, writer: str, pipeline: int) -> str:
    """The topic with the numbers of the micro-batches that a writer has sent."""
    return f"{prefix}_batches.{writer}-{pipeline}"


def writer_id(job: str | None, folder: object) -> str:
    """Who writes: a job by the id of its checkpoint, or by the folder of one that nobody has claimed."""
    return job or f"{zlib.crc32(str(folder).encode()):08x}"


class KafkaTopics(MessageSink):
    name = "kafka"
    spelling = "kafka:HOST:PORT/PREFIX"
    scheme = "kafka:"
    into_word = "KAFKA"
    noun = "topics of Kafka"
    summary = "messages in the topic PREFIX<query>, a transaction for each micro-batch"
    exactly_once = True
    broker = "Kafka"
    options = OPTIONS

    _producer: Any = None
    _sent: int | None = None
    """The last micro-batch that Kafka has."""

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        self._refuse_other("delivery", DELIVERIES)
        if not self.target.options.get("partitions", "1").isdigit():
            raise UsageError("partitions is not a number", hint="write partitions=4")
        self._heard = Hearing(self._config())

    def _config(self) -> dict[str, str]:
        """Settings of the client: the address, and those of the file, whose values may refer to secrets."""
        file, given = self.target.options.get("config"), {}
        if file is not None:
            try:
                given = {str(name): str(value) for name, value in json.loads(Path(file).read_text()).items()}
            except OSError as error:
                raise UsageError(f"cannot read the settings {file}: {error.strerror}") from error
            except (ValueError, AttributeError):
                raise UsageError(f"{file} is not a JSON object of settings") from None
        return {"kafka.bootstrap.servers": self.target.servers} | {f"kafka.{k}": v for k, v in given.items()}

    @property
    def is_transactional(self) -> bool:
        return self.target.options.get("delivery", DELIVERIES[0]) == DELIVERIES[0]

    def _topic(self, query: str) -> str:
        return self.target.name(query)

    # -- connections --------------------------------------------------------------------------------------------------

    @property
    def _marks(self) -> str:
        writer = writer_id(self.publisher.job, self.publisher.log.folder)
        return batches_topic(self.target.prefix, writer, self.pipeline)

    def _settings(self) -> dict[str, Any]:
        config = client_config(self._config(), self._heard)
        return {name: value for name, value in config.items() if name not in OF_CONSUMERS}

    def begin(self) -> None:
        from confluent_kafka import KafkaException, Producer

        more = {"transactional.id": self._marks} if self.is_transactional else {}
        self._producer = Producer({"linger.ms": 20, "enable.idempotence": True, **self._settings(), **more})
        try:
            if self.is_transactional:
                self._make_topics({self._marks: 1}, {"cleanup.policy": "compact"})
                self._producer.init_transactions(ANSWER_S)  # whoever wrote before can write no more
                self._refuse_newer()
            else:
                self._producer.list_topics(timeout=ANSWER_S)
        except KafkaException as error:
            raise self._refusal(error, self._producer) from None

    def _refuse_newer(self) -> None:
        noted, last = self._last_noted(), self.publisher.last.batch
        self._sent = noted
        if noted > last + 1:
            raise MuntinError(
                f"Kafka at {self.target.servers} has rows up to micro-batch {noted}, but the checkpoint ends with "
                f"{last}: the checkpoint is older than its output, and rows would come twice",
                hint="restore the newest checkpoint, or begin anew with another checkpoint and another PREFIX",
            )

    def _last_noted(self) -> int:
        """The last micro-batch that Kafka has, -1 for none."""
        with KafkaBroker({**self._config(), "subscribe": self._marks}) as broker:
            ((log, extent), *_) = sorted(broker.bounds().items())
            tail = TAIL
            while extent.high > extent.low:
                start = max(extent.low, extent.high - tail)
                found = [value for rows in broker.read(log, start, extent.high, ["value"]) for value in rows["value"]]
                if found or start == extent.low:
                    return int(found[-1]) if found else -1
                tail *= 8
        return -1

    def _refusal(self, error: Exception, client: Any) -> BrokerError:
        hint = "what is committed stays; a run with the same checkpoint goes on when the broker is back"
        return self._heard.refusal(client, error, "takes no rows", hint)

    def prepare(self, plan: Plan, settings: Settings) -> None:
        """Make the topics that there are not, so that readers can begin."""
        super().prepare(plan, settings)
        count = int(self.target.options.get("partitions", "1"))
        beside = [dead_letters.NAME] if self.request.into is None else []
        self._make_topics(
            {self._topic(name): count for name in (*(query.name for query in self._mine(plan)), *beside)}, {}
        )

    def _make_topics(self, partitions: dict[str, int], config: dict[str, str]) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self._settings())
        try:
            there = admin.list_topics(timeout=ANSWER_S).topics
            new = [NewTopic(name, count, config=config) for name, count in partitions.items() if name not in there]
            for future in (admin.create_topics(new) if new else {}).values():
                future.result(ANSWER_S)
        except (KafkaException, TimeoutError) as error:
            if getattr(error.args[0] if error.args else None, "code", int)() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._refusal(error, admin) from None

    # -- micro-batches ------------------------------------------------------------------------------------------------

    def hand_over(self, done: BatchOutcome) -> None:
        from confluent_kafka import KafkaException

        try:
            if not self.is_transactional:
                self._send(done)
            elif self._sent is None or self._sent < done.batch:
                self._producer.begin_transaction()
                self._producer.produce(self._marks, str(done.batch), key="last", partition=0)
                self._send(done)
                self._producer.commit_transaction(ANSWER_S)
                self._sent = done.batch
        except KafkaException as error:
            raise self._refusal(error, self._producer) from None

    def _send(self, done: BatchOutcome) -> None:
        faults: list[Any] = []
        for message in outgoing(done):
            self._produce(message, lambda fault, _: faults.append(fault) if fault is not None else None)
        left = self._producer.flush(ANSWER_S)
        if faults or left:
            from confluent_kafka import KafkaException

            raise KafkaException(faults[0] if faults else f"{left} messages were not taken in {ANSWER_S:g} s")

    def _produce(self, message: Outgoing, done: Any) -> None:
        more: dict[str, Any] = {"headers": [(KIND, PUNCTUATION)]} if message.is_punctuation else {}
        if message.ts_ms is not None and message.ts_ms > 0:
            more["timestamp"] = message.ts_ms
        while True:
            try:
                self._producer.produce(self._topic(message.query), message.value, message.key, on_delivery=done, **more)
                self._producer.poll(0)
                return
            except BufferError:  # the client's queue is full
                self._producer.poll(0.1)

    def close(self) -> None:
        self._producer = None
