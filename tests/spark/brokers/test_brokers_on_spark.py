"""Streams of Kafka, NATS and lines of text through Spark: the oracle's rows, poison as dead letters, once after a
restart."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin.formats import json_lines, json_rows
from muntin.model import UsageError
from muntin.spark.ingest.sources import read_stream
from muntin.spark.run import Job
from muntin.sql import parse_job
from servers import MockKafka, running_nats

pytestmark = pytest.mark.spark
COLUMNS = "ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE"


def lines_of_csv(rows: pa.Table) -> list[bytes]:
    out: list[bytes] = []
    for row in json_rows(rows):
        line = io.StringIO()
        csv.writer(line).writerow(json.loads(row).values())
        out.append(line.getvalue().rstrip("\r\n").encode())
    return out


def test_kafka_and_nats_and_lines_of_text_bring_the_oracles_rows_once(lab: Any, rows: Any, spark: Any, tmp_path: Path):
    kafka = MockKafka()
    with running_nats(tmp_path / "nats") as nats:
        nats.ask(lambda js: js.add_stream(name="b", subjects=["b"]))
        halves = {name: [rows(seed, 300), rows(seed + 10, 200)] for seed, name in enumerate("AB")}
        lines = tmp_path / "lines"
        lines.mkdir()
        streams = (
            kafka.stream("A", f"{COLUMNS}, part INT METADATA FROM 'partition', who STRING METADATA FROM 'key'", "a")
            + f"CREATE STREAM B ({COLUMNS}) TIMESTAMP BY ts VALUE FORMAT CSV WITH (format = 'nats', 'nats.servers' = "
            f"'{nats.address}', stream = 'b', startingOffsets = 'earliest', maxOffsetsPerTrigger = '1000');"
            f"CREATE STREAM C ({COLUMNS}) TIMESTAMP BY ts VALUE FORMAT JSON WITH (format = 'text', path = '{lines}');"
        )
        queries = lab.sql()[lab.sql().index("CREATE QUERY") :]
        metadata = "CREATE QUERY lines AS SELECT A.part, A.who, C.id FROM A, C WHERE A.id = C.id WINDOW 1 s;"
        spec = parse_job(streams + queries + metadata)
        (lines / "0.txt").write_bytes(json_lines(halves["A"][0].slice(0, 50)) + b"not a line of ours\n")
        for n, mode in enumerate(("available-now", "bounded")):
            shift = pa.scalar(40_000_000 * n, pa.duration("us"))
            for name in "AB":
                moved = halves[name][n].set_column(0, "ts", pa.compute.add(halves[name][n]["ts"], shift))
                lab.tables[name].append(moved)
            sent = json_rows(lab.tables["A"][n])
            for partition in (0, 3):
                kafka.send("a", sent[partition % 2 :: 2], partition, key=f"w{partition}".encode())
            kafka.send("a", [b"\xff\xfe", b'{"ts": "late"}', None], key=b"poison")
            nats.send("b", lines_of_csv(lab.tables["B"][n]))
            run = Job(spark, spec).start(output=lab.output, checkpoint=lab.checkpoint, mode=mode)
            assert run.await_termination(180)
        lab.per_trigger = 1
        lab.check()
        letters = lab.letters()
        raw = [json.loads(letter["row"]) for letter in letters if letter["reason"].startswith("malformed")]
        assert len(raw) == len(letters) == 7, "three of each run, and the line"
        poison = [row for row in raw if row.get("value_base64") == base64.b64encode(b"\xff\xfe").decode()]
        assert {(row["topic"], row["partition"], row["who"]) for row in poison} == {("a", 0, "poison")}
        assert len({row["offset"] for row in poison}) == 2
        found = {row[2]: row[:2] for row in lab.got("lines")}
        assert found == {n: ((0, "w0") if n % 2 == 0 else (3, "w3")) for n in range(50)}


def test_a_source_that_cannot_be_read_is_refused_before_a_checkpoint_is_begun(spark: Any, tmp_path: Path):
    kafka = MockKafka()
    for columns, clauses, topic, message in [
        ("ts TIMESTAMP", "VALUE FORMAT JSON", "nothing", "has no topic nothing"),
        ("ts TIMESTAMP, x STRING METADATA FROM 'colour'", "VALUE FORMAT JSON", "here", "has no metadata colour"),
        ("ts TIMESTAMP, x INT METADATA FROM 'key'", "VALUE FORMAT JSON", "here", "key of the source kafka is binary"),
        ("ts TIMESTAMP, colour STRING", "", "here", "none is ts"),
    ]:
        kafka.send("here", [b"{}"])
        stream = parse_job(kafka.stream("S", columns, topic, clauses)).streams["S"]
        with pytest.raises(Exception, match=message) as refused:
            read_stream(spark, stream)
        assert topic == "nothing" or isinstance(refused.value, UsageError)
