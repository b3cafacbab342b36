"""A broker of Kafka, started on this machine's Java: what librdkafka's cluster cannot show. `make kafka` runs these."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import BinaryType, StructField, StructType

from muntin.formats import json_rows
from muntin.spark.brokers.broker import BrokerError
from muntin.spark.brokers.kafka import KafkaBroker
from muntin.spark.brokers.offsets import MessageLog
from muntin.spark.brokers.reader import BrokerReader
from muntin.spark.checkpoint import last_manifest
from muntin.spark.run import Job
from muntin.sql import parse_job
from servers import RealKafka, running_kafka

pytestmark = pytest.mark.kafka
COLUMNS = "ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    if RealKafka.home() is None:
        pytest.skip("make kafka")
    with running_kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


def options(kafka: RealKafka, topic: str, **more: str) -> dict[str, str]:
    told = {f"kafka.{name}": value for name, value in kafka.OLD.items()}
    return {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, **told, **more}


def test_a_topic_is_read_as_kafka_python_reads_it(kafka: RealKafka):
    kafka.make("both")
    for partition in (0, 1):
        kafka.send("both", [b"%d" % (10 * n + partition) for n in range(500)], partition)
    with KafkaBroker(options(kafka, "both")) as broker:
        spans = sorted((log, *extent) for log, extent in broker.bounds().items())
        rows = [rows for span in spans for rows in broker.read(*span, ["partition", "offset", "value"])]
    names = ("partition", "offset", "value")
    found = [row for some in rows for row in zip(*(some[name] for name in names), strict=True)]
    assert found == [tuple(getattr(message, name) for name in names) for message in kafka.read("both")]
    assert len(found) == 1000


def test_messages_that_the_broker_has_let_go_stop_a_job_unless_it_is_told_to_go_on(kafka: RealKafka):
    kafka.make("short")
    log = MessageLog("short", 0)
    kafka.send("short", [b"%08d" % n + os.urandom(1000) for n in range(3000)])
    with KafkaBroker(options(kafka, "short")) as broker:
        while broker.bounds()[log].low == 0:  # the broker looks half a minute after its start, then often
            time.sleep(0.5)
        low = broker.bounds()[log].low
    schema, start = StructType([StructField("value", BinaryType())]), {"short": {"0": 0, "1": 0}}
    with pytest.raises(BrokerError, match=r"messages 0 to \d+ of partition 0 of short have expired"):
        BrokerReader(KafkaBroker, options(kafka, "short"), schema).latestOffset(start, ReadMaxRows(100))
    told = BrokerReader(KafkaBroker, options(kafka, "short", failondataloss="false"), schema)
    end = told.latestOffset(start, ReadMaxRows(100))
    assert end["short"]["0"] >= low + 100
    values = [v for span in told.partitions(start, end) for b in told.read(span) for v in b["value"].to_pylist()]
    told.stop()
    numbers = [int(value[:8]) for value in values]
    assert numbers and numbers[0] >= low and numbers == list(range(numbers[0], end["short"]["0"]))


@pytest.mark.spark
def test_a_job_goes_on_when_its_broker_is_back(kafka: RealKafka, lab: Any, rows: Any, spark: Any, tmp_path: Path):
    kafka.make("A", "B", "pairs")
    (tmp_path / "client.json").write_text(json.dumps({**kafka.OLD, "enable.idempotence": "false"}))
    queries = lab.sql()[lab.sql().index("CREATE QUERY") :]
    into = f"INTO KAFKA '{kafka.address}/pairs' WITH (delivery = 'at_least_once', config = '{tmp_path}/client.json')"
    pairs = f"CREATE QUERY pairs {into} AS SELECT A.k, A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 1 s;"
    spec = parse_job("".join(kafka.stream(name, COLUMNS, name) for name in "AB") + queries + pairs)
    run = Job(spark, spec).start(output=lab.output, checkpoint=lab.checkpoint)
    for half in (0, 1):
        before = last_manifest(lab.checkpoint).batch
        for seed, name in enumerate("AB"):
            found = rows(seed + 10 * half, 300)
            moved = pa.compute.add(found["ts"], pa.scalar(40_000_000 * half, pa.duration("us")))
            lab.tables[name].append(found.set_column(0, "ts", moved))
            kafka.send(name, json_rows(lab.tables[name][-1]))
        while last_manifest(lab.checkpoint).batch == before:
            assert not run.await_termination(0.1), "the job ended"
        if half == 0:
            kafka.stop()
            assert not run.await_termination(8), "it waits for its broker"
            kafka.start()
    run.stop()
    assert Job(spark, spec).start(output=lab.output, checkpoint=lab.checkpoint, mode="bounded").await_termination(180)
    lab.per_trigger = 1
    lab.check()
    assert lab.letters() == []
    messages = [json.loads(message.value) for message in kafka.read("pairs")]
    once = {(row["a"], row["b"], row["_ts"]) for row in messages}
    assert len(once) == len(lab.got("short")) == len(messages) > 100
    assert {int(message.key) for message in kafka.read("pairs")} == {row["k"] for row in messages}
