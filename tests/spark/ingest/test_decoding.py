"""Messages become rows where they are packed; those that are no records become dead letters with their bytes."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest

from muntin.model import UsageError
from muntin.spark.ingest import dead_letters
from muntin.spark.ingest.decoding import source_columns
from muntin.spark.ingest.packing import CLOCK, admit
from muntin.spark.ingest.sources import check_source
from muntin.sql import parse_job

SQL = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT, who STRING METADATA FROM 'key') TIMESTAMP BY ts VALUE FORMAT JSON
  WITH (format = 'kafka', subscribe = 'a');
"""
(STREAM,) = parse_job(SQL).streams.values()


def messages(values: list[bytes | None]) -> pa.Table:
    """What Spark hands to the task that packs rows."""
    return pa.table(
        {
            "_value": pa.array(values, pa.binary()),
            "who": pa.array([f"w{n}" for n in range(len(values))]),
            "_topic": ["a"] * len(values),
            "_partition": pa.array([3] * len(values), pa.int32()),
            "_offset": pa.array(range(70, 70 + len(values)), pa.int64()),
            CLOCK: pa.array([0] * len(values), pa.timestamp("us", "UTC")),
        }
    )


def test_rows_keep_their_metadata_and_poison_becomes_dead_letters_with_place_and_bytes():
    good, none = b'{"ts": "2024-01-01T00:00:00Z", "k": 1}', b'{"k": 2}'
    rows, letters = admit(STREAM, messages([b"\xff\x00", good, b"{", None, none]))
    assert rows.select(["k", "who"]).to_pylist() == [{"k": 1, "who": "w1"}]
    found = {letter["reason"]: json.loads(letter["row"]) for letter in letters.to_pylist()}
    place = {"topic": "a", "partition": 3}
    poison = {reason: row for reason, row in found.items() if reason.startswith("malformed")}
    assert poison["malformed: not UTF-8"] == {
        "who": "w0",
        **place,
        "offset": 70,
        "value_base64": base64.b64encode(b"\xff\x00").decode(),
    }
    assert poison["malformed: the value is NULL"] == {"who": "w3", **place, "offset": 73, "value": None}
    assert {row.get("value") for row in poison.values()} == {None, "{"}
    assert dead_letters.by_class(letters) == {"malformed": 3, "null_time": 1}


def test_only_the_columns_of_the_source_that_are_needed_are_asked_for():
    assert source_columns(STREAM) == ["value", "topic", "subject", "partition", "offset", "sequence", "key"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ts TIMESTAMP METADATA FROM 'timestamp') TIMESTAMP BY ts VALUE FORMAT JSON", "no column comes out"),
        ("ts TIMESTAMP, a ARRAY<INT>) TIMESTAMP BY ts VALUE FORMAT CSV", "stream S: column a is .* of CSV cannot"),
        ("ts TIMESTAMP) TIMESTAMP BY ts VALUE FORMAT AVRO (schema = 'none.avsc')", "stream S: cannot read the Avro"),
    ],
)
def test_a_stream_whose_values_cannot_be_decoded_is_refused_before_anything_runs(sql: str, message: str):
    (stream,) = parse_job(f"CREATE STREAM S ({sql} WITH (format = 'socket', host = 'h', port = '1');").streams.values()
    with pytest.raises(UsageError, match=message):
        check_source(stream)
