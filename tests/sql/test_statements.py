"""SET, CREATE STREAM, CREATE QUERY, DROP QUERY: what a job file becomes."""

from __future__ import annotations

import pytest

from muntin.model import Field, JobSpec, Side, SqlError
from muntin.sql import parse_job, parse_query

from .conftest import STREAMS

QUERY = "SELECT A.ts FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId WINDOW 1 min"


def test_an_empty_job_has_nothing() -> None:
    for text in ("", " \n", "-- nothing\n", ";;", "/* a /* nested */ one */"):
        job = parse_job(text)
        assert (job.streams, job.queries) == ({}, {})


def test_settings_are_read_without_regard_to_case_and_order() -> None:
    job = parse_job(f"set Shards = 8; {STREAMS} SET ORDER = 'key'; SET strategy = 'state-slice'; SET chain = 'mem-opt'")
    assert (job.settings.shards, job.settings.order) == (8, "key")
    assert (job.settings.strategy, job.settings.chain) == ("state-slice", "mem-opt")
    assert parse_job("").settings.shards is None


def test_a_stream_keeps_names_options_and_time_as_declared() -> None:
    stream = parse_job(STREAMS).streams["Temperature"]
    assert stream.schema.fields[:3] == (
        Field("ts", "timestamp"),
        Field("LocationId", "bigint"),
        Field("Value", "double"),
    )
    assert (stream.time, stream.lateness_us, stream.format) == ("ts", 5_000_000, "parquet")
    assert stream.options == {"path": "data/temperature", "maxFilesPerTrigger": "1"}


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("BYTE", "tinyint"), ("SHORT", "smallint"), ("INTEGER", "int"), ("LONG", "bigint"), ("REAL", "float"),
        ("VARCHAR(5)", "string"), ("CHAR(3)", "string"), ("DECIMAL", "decimal(10,0)"), ("DEC(4)", "decimal(4,0)"),
        ("NUMERIC(5, 2)", "decimal(5,2)"), ("TIMESTAMP_LTZ", "timestamp"), ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("BINARY", "binary"), ("boolean", "boolean"), ("Date", "date"), ("STRING", "string"), ("FLOAT", "float"),
    ],
)  # fmt: skip
def test_column_types_have_sparks_names(written: str, kind: str) -> None:
    job = parse_job(f"CREATE STREAM S (ts TIMESTAMP, x {written}) TIMESTAMP BY TS WITH (format = 'rate')")
    assert job.streams["S"].schema.find("x") == Field("x", kind)
    assert job.streams["S"].time == "ts"


def test_options_may_be_dotted_quoted_numbers_or_words() -> None:
    options = "FORMAT = 'kafka', kafka.bootstrap.servers = 'h:1', 'a-b' = TRUE, `c d` = 5"
    stream = parse_job(f"CREATE STREAM S (ts TIMESTAMP) TIMESTAMP BY ts WITH ({options})").streams["S"]
    assert stream.format == "kafka"
    assert stream.options == {"kafka.bootstrap.servers": "h:1", "a-b": "TRUE", "c d": "5"}


def test_comments_and_keyword_case_do_not_matter(spec: JobSpec) -> None:
    text = QUERY.replace("FROM", "-- c ; '\n from /* ' */").replace("WHERE", "where").replace("WINDOW", "Window")
    query = parse_query(text, spec, name="q")
    assert query.keys == parse_query(QUERY, spec, name="q").keys
    assert query.window == parse_query(QUERY, spec, name="q").window


def test_a_dropped_query_is_gone_and_its_name_is_free() -> None:
    job = parse_job(f"{STREAMS} CREATE QUERY a AS {QUERY}; CREATE QUERY b AS {QUERY}; DROP QUERY A;")
    assert list(job.queries) == ["b"]
    again = parse_job(f"{STREAMS} CREATE QUERY a AS {QUERY}; DROP QUERY a; CREATE QUERY A AS {QUERY}")
    assert list(again.queries) == ["A"]


def test_keywords_may_name_queries_and_columns(spec: JobSpec) -> None:
    for name in ("all", "both", "like", "order", "select"):
        query = parse_query(f"CREATE QUERY {name} AS {QUERY}", spec)
        assert parse_query(query.text, spec).name == name
    job = parse_job("CREATE STREAM order (timestamp TIMESTAMP, key INT) TIMESTAMP BY timestamp WITH (format = 'x')")
    assert job.streams["order"].schema.names == ("timestamp", "key")


def test_the_text_of_a_query_can_be_parsed_again(spec: JobSpec) -> None:
    bare = parse_query(f"  {QUERY} ;", spec, name="q")
    assert bare.text == f"CREATE QUERY q AS {QUERY}"
    again = parse_query(bare.text, spec)
    assert again == bare


def test_left_is_the_stream_declared_first(spec: JobSpec) -> None:
    swapped = parse_query(QUERY.replace("Temperature A, Humidity B", "Humidity B, Temperature A"), spec, name="q")
    assert (swapped.left, swapped.right) == ("Temperature", "Humidity")
    assert swapped.keys == parse_query(QUERY, spec, name="q").keys


def test_a_stream_joined_with_itself_keeps_the_order_of_from(spec: JobSpec) -> None:
    text = "SELECT B.t FROM Temperature B, Temperature A WHERE A.t = B.t AND A.ok WINDOW 1 s"
    query = parse_query(text, spec, name="q")
    assert query.select[0].expr.column == (Side.LEFT, "t")
    assert query.where[Side.LEFT] is None and query.where[Side.RIGHT] is not None


def test_windows_are_of_both_streams_or_of_each(spec: JobSpec) -> None:
    own = "SELECT A.ts FROM Humidity [range 12 HOURS] A JOIN Temperature [NOW] AS B ON A.LocationId = B.LocationId"
    query = parse_query(own, spec, name="q")
    assert (query.window.left, query.window.right) == (1, 12 * 3600 * 1_000_000)
    both = parse_query(QUERY, spec, name="q")
    assert (both.window.left, both.window.right) == (60_000_000, 60_000_000)
    for written in ("60s", "60 seconds", "1min", "'60 s'", "INTERVAL '60' SECOND"):
        assert parse_query(QUERY.replace("1 min", written), spec, name="q").window == both.window


def test_conjuncts_of_on_and_where_are_pooled(spec: JobSpec) -> None:
    text = (
        "SELECT A.ts FROM Temperature A INNER JOIN Humidity B ON A.LocationId = B.LocationId AND (A.tag = B.tag) "
        "AND B.wet WHERE (A.Value > 30 AND TRUE) AND (A.ok OR A.t = 1) AND 80 < B.Value AND 1 = 1 WINDOW 1 min"
    )
    query = parse_query(text, spec, name="q")
    assert [(k.left.sql, k.right.sql) for k in query.keys] == [
        ('"l.LocationId"', '"r.LocationId"'),
        ('"l.tag"', '"r.tag"'),
    ]
    left, right = query.where
    assert left is not None and left.text == "A.Value > 30 AND TRUE AND (A.ok OR A.t = 1) AND 1 = 1"
    assert right is not None and right.text == "B.wet AND 80 < B.Value"
    assert left.left == ("Value", "ok", "t") and left.right == ()


def test_key_sides_are_expressions_compared_in_their_common_type(spec: JobSpec) -> None:
    text = "SELECT A.ts FROM Temperature A, Humidity B WHERE B.d = A.t + 1 AND UPPER(A.tag) = B.tag WINDOW 1 s"
    first, second = parse_query(text, spec, name="q").keys
    assert (first.left.type, first.right.type, first.type) == ("int", "decimal(10,2)", "decimal(12,2)")
    assert second.left.column is None and second.right.column == (Side.RIGHT, "tag")


def test_stars_expand_in_the_order_of_from_and_names_keep_their_case(spec: JobSpec) -> None:
    text = "SELECT a.*, B.VALUE AS hum, wet FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId WINDOW 1 s"
    names = [o.name for o in parse_query(text, spec, name="q").select]
    assert names == ["ts", "LocationId", "Value", "tag", "t", "ok", "day", "hum", "wet"]


def test_a_bare_star_takes_both_streams() -> None:
    job = parse_job(
        "CREATE STREAM A (ts TIMESTAMP, a INT) TIMESTAMP BY ts WITH (format = 'x');"
        "CREATE STREAM B (bts TIMESTAMP, b INT) TIMESTAMP BY bts WITH (format = 'x');"
        "CREATE QUERY q AS SELECT * FROM B, A WHERE a = b WINDOW 1 s"
    )
    select = job.queries["q"].select
    assert [o.name for o in select] == ["bts", "b", "ts", "a"]
    assert [o.expr.text for o in select] == ["B.bts", "B.b", "A.ts", "A.a"]


def test_an_added_query_may_not_take_a_name_that_is_there() -> None:
    job = parse_job(f"{STREAMS} CREATE QUERY q AS {QUERY}")
    with pytest.raises(SqlError, match="already a query Q"):
        parse_query(f"CREATE QUERY Q AS {QUERY}", job)
