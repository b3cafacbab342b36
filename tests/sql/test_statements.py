"""SET, CREATE STREAM, CREATE QUERY, DROP QUERY: what a job file becomes."""

from __future__ import annotations

from dataclasses import fields

import pytest

from muntin.model import Axis, Field, JobSpec, Settings, Side, SqlError, Window
from muntin.sql import expressions, parse_job, parse_query
from muntin.sql.settings import SETTINGS, settings_help

from .conftest import STREAMS

QUERY = "SELECT A.ts FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId WINDOW 1 min"


def test_an_empty_job_has_nothing() -> None:
    for text in ("", " \n", "-- nothing\n", ";;", "/* a /* nested */ one */"):
        job = parse_job(text)
        assert (job.streams, job.queries) == ({}, {})


def test_settings_are_read_without_regard_to_case_and_order() -> None:
    job = parse_job(
        f"set Shards = 8; {STREAMS} SET OUTPUT_ORDER = 'key'; SET strategy = 'state-slice'; SET chain = 'mem-opt'"
    )
    assert (job.settings.shards, job.settings.output_order) == (8, "key")
    assert (job.settings.strategy, job.settings.chain) == ("state-slice", "mem-opt")
    assert parse_job("").settings.shards is None


def test_the_old_name_of_a_setting_is_understood_and_noted() -> None:
    new, old = parse_job("SET output_order = 'key'"), parse_job("\nSET Order = 'key'", source="job.sql")
    assert new == old and new.notes == ()
    assert old.notes == ("job.sql:2: the setting Order is now called output_order; the old name is still understood",)


def test_every_setting_is_a_field_of_the_model_and_has_its_default_there() -> None:
    names = [f.name for f in fields(Settings)]
    assert sorted(s.field for s in SETTINGS) == sorted(names)
    for setting in SETTINGS:
        if isinstance(setting.default, str):
            assert setting.kind.parse(setting.name, setting.default) == setting.default
        assert setting.description in settings_help() and setting.name in settings_help()


@pytest.mark.parametrize("written, adapts", [("on", True), ("OFF", False)])
def test_a_switch_is_on_or_off(written: str, adapts: bool) -> None:
    assert parse_job(f"SET adapt = '{written}'").settings.adapt is adapts


@pytest.mark.parametrize("chain", ["auto", "mem-opt", "cpu-opt"])
@pytest.mark.parametrize("strategy", ["auto", "state-slice", "pull-up", "push-down", "isolated"])
def test_the_chain_is_a_choice_where_the_strategy_may_have_one(strategy: str, chain: str) -> None:
    texts = [f"SET strategy = '{strategy}'", f"SET chain = '{chain}'"]
    for text in ("; ".join(texts), "; ".join(reversed(texts))):
        if chain == "auto" or strategy in ("auto", "state-slice"):
            given = parse_job(text).settings
            assert (given.strategy, given.chain) == (strategy, chain)
        else:
            with pytest.raises(SqlError, match=f"'{chain}' does not go with strategy = '{strategy}'"):
                parse_job(text)
    assert parse_job(texts[0]).settings.strategy == strategy


@pytest.mark.parametrize("value", ["auto", "probe", "probe-insert", "probe-all", "all"])
def test_the_invalidation_strategy_is_a_setting(value: str) -> None:
    assert parse_job(f"SET invalidation = '{value}'").settings.invalidation == value


def test_limits_are_settings_and_absent_unless_set() -> None:
    default = parse_job("").settings
    assert (default.invalidation, default.state_limit_bytes, default.fan_out_limit) == ("auto", None, None)
    given = parse_job("SET state_limit = '8 GB'; SET fan_out_limit = 5000000").settings
    assert (given.state_limit_bytes, given.fan_out_limit) == (8_000_000_000, 5_000_000)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("'1 B'", 1), ("'1 KB'", 1000), ("'1kb'", 1000), ("'2 MB'", 2_000_000), ("'1.5 GB'", 1_500_000_000),
        ("'1 TB'", 10**12), ("'1 KiB'", 1024), ("'512 MiB'", 512 << 20), ("'8GiB'", 8 << 30), ("'1 TiB'", 1 << 40),
        ("8GB", 8_000_000_000), ("' 8 GB '", 8_000_000_000),
    ],
)  # fmt: skip
def test_sizes_count_by_1000_or_with_an_i_by_1024(written: str, size: int) -> None:
    assert parse_job(f"SET state_limit = {written}").settings.state_limit_bytes == size


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
    ("clauses", "rate", "lateness_us"),
    [
        ("", None, 0),
        ("RATE 100 PER SECOND", 100.0, 0),
        ("rate 2.5 per second", 2.5, 0),
        ("RATE .5 PER SECOND", 0.5, 0),
        ("RATE +5. PER SECOND", 5.0, 0),
        ("RATE 90 PER MINUTE", 1.5, 0),
        ("RATE 9 PER HOUR", 0.0025, 0),
        ("LATENESS 5 s RATE 7 PER SECOND", 7.0, 5_000_000),
        ("RATE 7 PER SECOND LATENESS 5 s", 7.0, 5_000_000),
    ],
)
def test_a_stream_may_declare_how_many_rows_to_expect(clauses: str, rate: float | None, lateness_us: int) -> None:
    stream = parse_job(f"CREATE STREAM S (ts TIMESTAMP) TIMESTAMP BY ts {clauses} WITH (format = 'x')").streams["S"]
    assert (stream.rate, stream.lateness_us) == (rate, lateness_us)


def test_words_of_clauses_may_name_columns() -> None:
    job = parse_job("CREATE STREAM rate (per TIMESTAMP, rate INT) TIMESTAMP BY per WITH (format = 'x')")
    assert job.streams["rate"].schema.names == ("per", "rate")


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


def test_a_replaced_query_keeps_its_position_and_the_spelling_of_its_name() -> None:
    short = QUERY.replace("1 min", "1 s")
    text = f"{STREAMS} CREATE QUERY Hot AS {QUERY}; CREATE QUERY b AS {QUERY}; create or replace query hot AS {short};"
    job = parse_job(text)
    assert [(name, q.name, q.window.left) for name, q in job.queries.items()] == [
        ("Hot", "Hot", 1_000_000),
        ("b", "b", 60_000_000),
    ]
    assert job.queries["Hot"].text == f"CREATE QUERY Hot AS {short}"


def test_or_replace_creates_a_query_that_there_is_not() -> None:
    job = parse_job(
        f"{STREAMS} CREATE OR REPLACE QUERY a AS {QUERY}; DROP QUERY a; CREATE OR REPLACE QUERY A AS {QUERY}"
    )
    assert job.queries == parse_job(f"{STREAMS} CREATE QUERY A AS {QUERY}").queries


def test_a_query_after_its_replacement_says_where_that_is() -> None:
    first = f"{STREAMS}CREATE QUERY q AS {QUERY};\nCREATE OR REPLACE QUERY Q AS {QUERY};\n"
    with pytest.raises(SqlError, match="query q is already there in line 7"):
        parse_job(f"{first}CREATE QUERY q AS {QUERY};")
    assert list(parse_job(f"{first}DROP QUERY q; CREATE QUERY Q AS {QUERY}").queries) == ["Q"]


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


@pytest.mark.parametrize("written", ["100 ROWS", "100 rows", "100ROWS", "+100 ROWS", "100\n ROW"])
def test_a_window_of_rows_is_on_the_axis_of_rows(spec: JobSpec, written: str) -> None:
    query = parse_query(QUERY.replace("1 min", written), spec, name="q")
    assert query.window == Window(100, 100, (Axis.ROWS, Axis.ROWS))
    assert parse_query(query.text, spec) == query


def test_each_stream_may_count_its_window_on_an_axis_of_its_own(spec: JobSpec) -> None:
    for windows, wanted in {
        ("ROWS 5", "RANGE 1 s"): Window(5, 1_000_000, (Axis.ROWS, Axis.TIME)),
        ("NOW", "rows 1"): Window(1, 1, (Axis.TIME, Axis.ROWS)),
        ("ROWS 1000000000000", "ROWS 2"): Window(10**12, 2, (Axis.ROWS, Axis.ROWS)),
    }.items():
        text = f"SELECT A.ts FROM Humidity [{windows[1]}] B, Temperature [{windows[0]}] A WHERE A.tag = B.tag"
        assert parse_query(text, spec, name="q").window == wanted


@pytest.mark.parametrize(
    ("condition", "left", "right"),
    [
        ("A.Value > B.Value", ("Value",), ("Value",)),
        ("(A.ok OR B.wet)", ("ok",), ("wet",)),
        ("ABS(A.Value - B.Value) < 5", ("Value",), ("Value",)),
        ("A.Value BETWEEN B.Value - 5 AND B.Value + 5", ("Value",), ("Value",)),
        ("CONCAT(A.tag, B.tag) LIKE 'x%'", ("tag",), ("tag",)),
        ("A.tag <> B.tag", ("tag",), ("tag",)),
        ("A.Value + B.Value = 5", ("Value",), ("Value",)),
        ("NOT A.LocationId = B.LocationId", ("LocationId",), ("LocationId",)),
        ("(A.LocationId = B.LocationId OR A.Value / B.Value > 2)", ("LocationId", "Value"), ("LocationId", "Value")),
        ("A.LocationId IN (B.LocationId, 7)", ("LocationId",), ("LocationId",)),
        ("CASE WHEN A.ok THEN B.wet ELSE A.Value > B.d END", ("Value", "ok"), ("d", "wet")),
        ("COALESCE(A.Value, B.Value) > 3 AND GREATEST(A.t, B.d) < 9", ("Value", "t"), ("Value", "d")),
        ("A.ts <> B.ts - INTERVAL 5 SECONDS", ("ts",), ("ts",)),
    ],
)
@pytest.mark.parametrize("key", ["", "A.tag = B.tag AND "])
def test_conditions_over_both_streams_are_taken_with_and_without_an_equality(
    spec: JobSpec, key: str, condition: str, left: tuple[str, ...], right: tuple[str, ...]
) -> None:
    text = f"SELECT A.ts FROM Temperature A, Humidity B WHERE {key}{condition} AND A.t > 1 WINDOW 1 min"
    query = parse_query(text, spec, name="q")
    assert len(query.keys) == bool(key)
    assert query.residual is not None and query.residual.type == "boolean"
    assert (query.residual.left, query.residual.right) == (left, right)
    assert [w and w.text for w in query.where] == ["A.t > 1", None]


def test_a_join_without_an_equality_may_stand_in_on(spec: JobSpec) -> None:
    text = "SELECT A.ts FROM Temperature A JOIN Humidity B ON A.Value < B.Value WHERE A.t < B.d WINDOW 10 ROWS"
    query = parse_query(text, spec, name="q")
    assert query.keys == ()
    assert query.residual is not None and query.residual.text == "A.Value < B.Value AND A.t < B.d"


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
    for create in ("CREATE", "CREATE OR REPLACE"):
        with pytest.raises(SqlError, match="already a query Q"):
            parse_query(f"{create} QUERY Q AS {QUERY}", job)


def test_the_evaluator_is_asked_at_most_once_for_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(expressions, "type_of", lambda sql, columns: asked.append(sql))
    conditions = "A.LocationId = B.LocationId AND A.Value > 5 AND B.Value < 9 AND (A.ok OR A.t > 1)"
    outputs = "A.ts, A.Value * 2 AS x, UPPER(B.tag) AS y"
    parse_job(
        f"{STREAMS} CREATE QUERY q AS SELECT {outputs} FROM Temperature A, Humidity B WHERE {conditions} WINDOW 1 s"
    )
    assert len(asked) == 1
    asked.clear()
    parse_job(f"{STREAMS} CREATE QUERY q AS {QUERY}")
    assert asked == []


def test_an_expression_that_the_evaluator_does_not_take_is_pointed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(sql: str, columns: list[tuple[str, str]]) -> str:
        if "upper" in sql.lower():
            raise ValueError("no such thing\nmore")
        return "ok"

    monkeypatch.setattr(expressions, "type_of", refuse)
    text = "SELECT A.Value * 2 AS x, UPPER(B.tag) AS y FROM Temperature A, Humidity B WHERE A.tag = B.tag WINDOW 1 s"
    with pytest.raises(SqlError, match="the evaluator does not take this: no such thing") as error:
        parse_query(text, parse_job(STREAMS), name="q")
    assert error.value.place is not None and error.value.place.column == text.index("UPPER") + 1


def test_what_orders_results_is_set_by_name():
    given = parse_job(
        "SET ordering = 'adaptive'; SET alpha = 0.05; SET max_ahead = '1 hour'; SET held_limit = '2 MB'; "
        "SET on_held_limit = 'release'"
    ).settings
    assert (given.ordering, given.alpha, given.max_ahead_us) == ("adaptive", 0.05, 3_600_000_000)
    assert (given.held_limit_bytes, given.on_held_limit) == (2_000_000, "release")
    default = parse_job("").settings
    assert (default.ordering, default.alpha, default.max_ahead_us) == ("adaptive", 0.3, None)
    assert (default.held_limit_bytes, default.on_held_limit) == (None, "fail")


def test_idle_after_is_a_duration_of_a_stream():
    text = "CREATE STREAM S (ts TIMESTAMP) TIMESTAMP BY ts LATENESS 5 s IDLE AFTER 30 seconds WITH (format = 'json')"
    assert parse_job(text).streams["S"].idle_us == 30_000_000
    assert parse_job(text.replace("IDLE AFTER 30 seconds", "")).streams["S"].idle_us is None
