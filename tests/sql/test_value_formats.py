"""VALUE FORMAT and METADATA: what a job file may say of values, and what is refused."""

from __future__ import annotations

import pytest

from muntin.model import SqlError, Stream, ValueFormat
from muntin.spark.checkpoint.identity import StreamIdentity
from muntin.sql import parse_job

KAFKA = "WITH (format = 'kafka', subscribe = 'bids')"


def stream(columns: str, clauses: str, time: str = "ts") -> Stream:
    (found,) = parse_job(f"CREATE STREAM B ({columns}) TIMESTAMP BY {time} {clauses} {KAFKA};").streams.values()
    return found


def test_a_stream_says_how_its_columns_come_out_of_a_value():
    plain = stream("ts TIMESTAMP, k BIGINT", "")
    assert plain.value is None and plain.metadata == {}
    found = stream("t BIGINT", "LATENESS 5 s VALUE FORMAT csv (Delimiter = ';')", "timestamp_millis(t)")
    assert found.value == ValueFormat("csv", {"delimiter": ";"}) and found.lateness_us == 5_000_000
    assert found.value.text == "CSV (delimiter = ';')"


def test_metadata_is_named_by_the_source_and_can_be_the_event_time():
    columns = "sent TIMESTAMP METADATA FROM 'timestamp', offset BIGINT METADATA, trace STRING METADATA FROM 'headers.t'"
    found = stream(f"{columns}, k BIGINT", "VALUE FORMAT JSON", "sent")
    assert found.metadata == {"sent": "timestamp", "offset": "offset", "trace": "headers.t"}
    assert found.time == "sent" and found.schema.names == ("sent", "offset", "trace", "k")


@pytest.mark.parametrize(
    ("columns", "clauses", "message"),
    [
        ("ts TIMESTAMP", "VALUE FORMAT JSN", "did you mean JSON"),
        ("ts TIMESTAMP", "VALUE FORMAT XYZ", "formats of values are JSON, CSV, AVRO"),
        ("ts TIMESTAMP", "VALUE FORMAT JSON (a = 'b')", "it has no options"),
        ("ts TIMESTAMP", "VALUE FORMAT CSV (delimiter = ';', DELIMITER = ',')", "given twice"),
        ("ts TIMESTAMP", "VALUE FORMAT PROTOBUF (message = 'B')", "needs its option descriptor"),
        ("ts TIMESTAMP", "VALUE FORMAT", "a format after VALUE FORMAT"),
        ("ts TIMESTAMP", "VALUE FORMAT JSON VALUE FORMAT CSV", "given twice"),
        ("ts TIMESTAMP METADATA", "", "leave METADATA out"),
        ("ts TIMESTAMP METADATA FROM key", "VALUE FORMAT JSON", "a name in quotes after FROM"),
    ],
)
def test_what_there_is_not_is_refused_with_a_hint(columns: str, clauses: str, message: str):
    with pytest.raises(SqlError, match=message):
        stream(columns, clauses)


def test_a_checkpoint_is_bound_to_the_format_and_to_where_columns_come_from():
    found = [
        StreamIdentity.of(stream(columns, clauses))
        for columns in ("ts TIMESTAMP, k STRING", "ts TIMESTAMP, k STRING METADATA FROM 'key'")
        for clauses in ("VALUE FORMAT JSON", "VALUE FORMAT CSV", "VALUE FORMAT CSV (delimiter = ';')")
    ]
    assert len({str(identity) for identity in found}) == len(found)
