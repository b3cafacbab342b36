"""Rows as messages: keys, values, punctuations, and targets that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from muntin.core.results import OUTPUT_TS
from muntin.formats import FORMATS
from muntin.model import Destination, UsageError
from muntin.spark.checkpoint import BatchOutcome
from muntin.spark.sink.messages_out import StageMessages, outgoing
from muntin.spark.sink.record_keys import key_columns
from muntin.spark.sink.registry import open_into, open_sink
from muntin.spark.sink.sink import OutputRequest
from muntin.sql import parse_job

STREAMS = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'json', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'json', path = 'b');
"""


@pytest.mark.parametrize(
    ("select", "keys"),
    [
        ("SELECT A.s AS x, B.k FROM A, B WHERE A.k = B.k WINDOW 1 s", ("k",)),
        ("SELECT A.s, B.k AS n FROM A, B WHERE A.k = B.k AND A.s = B.s WINDOW 1 s", ("n", "s")),
        ("SELECT A.s FROM A, B WHERE A.k = B.k WINDOW 1 s", ()),
        ("SELECT A.k, COUNT(*) AS c FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 1 s", ("k",)),
        ("SELECT A.s FROM A, B WHERE A.k < B.k WINDOW 1 s", ()),
    ],
)
def test_the_key_of_a_message_is_the_join_key_where_it_is_selected(select: str, keys: tuple[str, ...]):
    query = parse_job(f"{STREAMS} CREATE QUERY q AS {select};").queries["q"]
    assert key_columns(query) == keys


def rows(count: int) -> pa.Table:
    times = pa.array([n * 1_000_000 for n in range(count)], OUTPUT_TS.type)
    return pa.table({"k": [None, *range(1, count)], "s": ['a"b'] * count, OUTPUT_TS.name: times})


def sent(stager: StageMessages, *staged: tuple[str, int, pa.Table]) -> list[tuple[str, int, bytes | None, bytes, bool]]:
    kept = [one for name, part, table in staged if (one := stager.stage(name, part, table)) is not None]
    found = list(outgoing(BatchOutcome(0, staged=kept)))
    return [(m.query, m.number, m.key, m.value, m.is_punctuation) for m in found]


def test_messages_of_a_query_go_out_in_output_order_with_numbers_that_follow_from_it():
    stager = StageMessages("json", {"q": ("k",), "r": ("k", "s")})
    found = sent(stager, ("q", 1, rows(1)), ("r", 0, rows(2)), ("q", 0, rows(3)))
    assert [(query, number) for query, number, *_ in found] == [
        ("q", 0),
        ("q", 1),
        ("q", 2),
        ("q", 3),
        ("r", 0),
        ("r", 1),
    ]
    assert [key for _, _, key, *_ in found] == [None, b"1", b"2", None, b'[null, "a\\"b"]', b'[1, "a\\"b"]']
    assert json.loads(found[2][3]) == {"k": 2, "s": 'a"b', "_ts": "1970-01-01T00:00:02.000000Z"}


def test_avro_messages_come_back_by_their_columns():
    ((_, _, _, value, _), *_) = sent(StageMessages("avro"), ("q", 0, rows(2).slice(1)))
    found = FORMATS["avro"]({}).decode(rows(2).schema, [value])
    assert found.rows.to_pylist() == rows(2).slice(1).to_pylist()


def test_punctuations_are_sent_where_they_are_asked_for_and_told_apart():
    both = ("q", 0, rows(1)), ("q/_punctuations", 0, rows(1))
    assert [is_punctuation for *_, is_punctuation in sent(StageMessages("json"), *both)] == [False]
    asked = sent(StageMessages("json", punctuations=True), *both)
    assert [(query, is_punctuation) for query, *_, is_punctuation in asked] == [("q", False), ("q", True)]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("kafka:localhost", "write kafka:HOST:PORT/PREFIX"),
        ("kafka:h:1/p?colour=red", "no option colour"),
        ("kafka:h:1/p?format=csv", "rows cannot be written as csv"),
        ("kafka:h:1/p?delivery=maybe", "delivery is maybe"),
        ("kafka:h:1/p?partitions=some", "partitions is not a number"),
        ("kafka:h:1/p?config=none.json", "cannot read the settings none.json"),
        ("nats:h:1/p", "does not end with a dot"),
        ("nats:u:open-sesame@h:1/p.", "where others can read it"),
        ("nats:h:1/p.?password=open-sesame", "where others can read it"),
    ],
)
def test_targets_that_cannot_be_are_refused_before_anything_runs(output: str, message: str):
    with pytest.raises(UsageError, match=message) as refused:
        open_sink(OutputRequest(output))
    assert "open-sesame" not in str(refused.value)


def test_a_query_may_name_a_topic_or_subject_of_its_own():
    for kind, place in [("KAFKA", "h:1/alerts"), ("NATS", "h:1/alerts")]:
        sink = open_into(OutputRequest(into=Destination(kind, place, (("format", "avro"),))))
        assert sink.target.name("any") == "alerts" and sink.target.options == {"format": "avro"}  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match=f"write INTO {kind} 'HOST:PORT/NAME'"):
            open_into(OutputRequest(into=Destination(kind, "h:1", ())))


def test_rows_to_a_broker_need_a_checkpoint_and_settings_may_be_in_a_file(tmp_path: Path):
    (tmp_path / "c.json").write_text('{"sasl.username": "u"}')
    (tmp_path / "d.json").write_text("[]")
    with pytest.raises(UsageError, match="is not a JSON object"):
        open_sink(OutputRequest(f"kafka:h:1/p?config={tmp_path}/d.json"))
    for output in (f"kafka:h:1/p?config={tmp_path}/c.json", "nats:h:1/p."):
        with pytest.raises(UsageError, match="needs a checkpoint"):
            open_sink(OutputRequest(output)).default_checkpoint()
