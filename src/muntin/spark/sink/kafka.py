"""Rows to topics of Kafka: `--output kafka:HOST:PORT/PREFIX`, a topic for each query, PREFIX and its name.

A micro-batch is one transaction. Within it the number of the micro-batch is committed as an offset of a consumer group
that bears the checkpoint's id. So Kafka itself says after a crash whether it has a micro-batch, and readers that
read committed messages get each row once. With `delivery=at_least_once` there is no transaction: a micro-batch that was
not committed comes again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muntin.core.results import output_schema
from muntin.model import MuntinError, Query, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.brokers import BrokerError, client_config, missing_package, scrubbed
from muntin.spark.checkpoint import BatchOutcome, Manifest
from muntin.spark.ingest import dead_letters
from muntin.spark.sink.messages_out import (
    KIND,
    PUNCTUATION,
    Address,
    Outgoing,
    StageMessages,
    check_columns,
    keys_of,
    outgoing,
)
from muntin.spark.sink.sink import OutputRequest, Sink, Stager

ANSWER_S = 30.0
BATCHES = "_batches"
"""The topic, without messages, whose offset in the writer's group is the number of the next micro-batch."""
OPTIONS = {
    "format": "json or avro",
    "delivery": "exactly_once or at_least_once",
    "punctuations": "on or off",
    "partitions": "of topics that are made, 1 if not given",
    "config": "a JSON file with settings of the client, by librdkafka's names",
}
DELIVERIES = ("exactly_once", "at_least_once")


class KafkaTopics(Sink):
    name = "kafka"
    spelling = "kafka:HOST:PORT/PREFIX"
    scheme = "kafka:"
    noun = "topics of Kafka"
    summary = "messages in the topic PREFIX<query>, a transaction for each micro-batch"
    exactly_once = True
    takes_eager = False

    _producer: Any = None

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        self._keys: dict[str, tuple[str, ...]] = {}
        """The columns of each query's rows that are its key."""
        self.address = Address.parse(request.output or "", self.scheme, self.spelling, OPTIONS)
        missing_package("kafka", "a run whose rows go to Kafka")
        self.address.check_format()
        self._refuse_other("delivery", DELIVERIES)
        self._refuse_other("punctuations", ("off", "on"))
        if not self.address.options.get("partitions", "1").isdigit():
            raise UsageError("partitions is not a number", hint="write partitions=4")
        self._config()

    def _refuse_other(self, name: str, known: tuple[str, ...]) -> None:
        if self.address.options.get(name, known[0]) not in known:
            raise UsageError(
                f"{name} is {self.address.options[name]}", hint=f"write {name}={f' or {name}='.join(known)}"
            )

    def _config(self) -> dict[str, str]:
        """Settings of the client: the address, and those of the file, whose values may refer to secrets."""
        file, given = self.address.options.get("config"), {}
        if file is not None:
            try:
                given = {str(name): str(value) for name, value in json.loads(Path(file).read_text()).items()}
            except OSError as error:
                raise UsageError(f"cannot read the settings {file}: {error.strerror}") from error
            except (ValueError, AttributeError):
                raise UsageError(f"{file} is not a JSON object of settings") from None
        return {"kafka.bootstrap.servers": self.address.servers} | {f"kafka.{k}": v for k, v in given.items()}

    @property
    def is_transactional(self) -> bool:
        return self.address.options.get("delivery", DELIVERIES[0]) == DELIVERIES[0]

    def default_checkpoint(self) -> Path | None:
        raise UsageError("a run whose rows go to Kafka needs a checkpoint", hint="name one with `checkpoint=`")

    def check(self, query: Query) -> None:
        check_columns(query, output_schema(query), self._format)

    @property
    def _format(self) -> str:
        return self.address.options.get("format", "json")

    def _topic(self, query: str) -> str:
        return self.address.prefix + query

    # -- connections --------------------------------------------------------------------------------------------------

    @property
    def _writer_id(self) -> str:
        """Who writes: the job by its checkpoint, and the pipeline."""
        return f"muntin-{self.publisher.job or self.publisher.folder}-{self.pipeline}"

    def _settings(self, *consumers: str) -> dict[str, Any]:
        config = client_config(self._config())
        for name in ("enable.auto.commit", "enable.partition.eof", "queued.max.messages.kbytes"):
            if not consumers:
                config.pop(name, None)
        return config

    def recover(self) -> None:
        super().recover()
        from confluent_kafka import KafkaException, Producer

        more = {"transactional.id": self._writer_id} if self.is_transactional else {"enable.idempotence": True}
        self._producer = Producer({"linger.ms": 20, **self._settings(), **more})
        try:
            if self.is_transactional:
                self._producer.init_transactions(ANSWER_S)  # whoever wrote before can write no more
                self._refuse_newer()
            else:
                self._producer.list_topics(timeout=ANSWER_S)
        except KafkaException as error:
            raise self._refusal(error) from None

    def _refuse_newer(self) -> None:
        noted, last = self._last_noted(), self.publisher.last.batch
        if noted > last + 1:
            raise MuntinError(
                f"Kafka at {self.address.servers} has rows up to micro-batch {noted}, but the checkpoint ends with "
                f"{last}: the checkpoint is older than its output, and rows would come twice",
                hint="restore the newest checkpoint, or begin anew with another checkpoint and another PREFIX",
            )

    def _last_noted(self) -> int:
        """The last micro-batch that Kafka has, -1 for none."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self._settings("consumer"), "group.id": self._writer_id})
        try:
            (found,) = consumer.committed([TopicPartition(self._topic(BATCHES), 0)], timeout=ANSWER_S)
        finally:
            consumer.close()
        return int(found.offset) - 1 if found.offset >= 0 else -1

    def _refusal(self, error: Exception) -> BrokerError:
        found = error.args[0] if error.args else error
        said = scrubbed(found.str() if hasattr(found, "str") else str(found) or "no answer", self._config())
        return BrokerError(
            f"Kafka at {self.address.servers} takes no rows: {said}",
            hint="what is committed stays; a run with the same checkpoint goes on when the broker is back",
        )

    def prepare(self, plan: Plan, settings: Settings) -> None:
        """Make the topics that there are not, so that readers can begin."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        self._keys = self._keys | keys_of(plan)
        admin = AdminClient(self._settings())
        count = int(self.address.options.get("partitions", "1"))
        try:
            there = admin.list_topics(timeout=ANSWER_S).topics
            wanted = [self._topic(name) for name in (*plan.queries, dead_letters.NAME, BATCHES)]
            missing = [topic for topic in wanted if topic not in there]
            made = admin.create_topics([NewTopic(topic, count) for topic in missing]) if missing else {}
            for future in made.values():
                future.result(ANSWER_S)
        except (KafkaException, TimeoutError) as error:
            if getattr(error.args[0] if error.args else None, "code", int)() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._refusal(error) from None

    # -- micro-batches ------------------------------------------------------------------------------------------------

    def stager(self, batch: int) -> Stager:
        return StageMessages(self._format, self._keys, self.address.options.get("punctuations") == "on")

    def commit(self, done: BatchOutcome) -> Manifest:
        from confluent_kafka import KafkaException

        if not self.publisher.is_committed(done.batch):
            try:
                if not self.is_transactional:
                    self._send(done)
                elif self._last_noted() < done.batch:
                    self._transact(done)
            except KafkaException as error:
                raise self._refusal(error) from None
        return super().commit(done)

    def _transact(self, done: BatchOutcome) -> None:
        """Rows and the number of their micro-batch, all of it or nothing."""
        from confluent_kafka import Consumer, TopicPartition

        self._producer.begin_transaction()
        self._send(done)
        reader = Consumer({**self._settings("consumer"), "group.id": self._writer_id})
        try:
            noted = TopicPartition(self._topic(BATCHES), 0, done.batch + 1)
            self._producer.send_offsets_to_transaction([noted], reader.consumer_group_metadata(), ANSWER_S)
        finally:
            reader.close()
        self._producer.commit_transaction(ANSWER_S)

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
