"""Streams whose columns are nested and whose event time is an expression, as a whole job on Spark."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.sql import parse_job

pytestmark = pytest.mark.spark


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Lines of JSON, as a message bus has them."""
    rows = [
        {"t": 1_000, "k": 1, "s": {"a": 1, "b": ["x", None]}, "m": {"p": 0.5}},
        {"t": None, "k": 2, "s": {"a": 7, "b": []}, "m": {}},
        {"t": 3_000, "k": 1, "s": None, "m": None},
    ]
    (tmp_path / "l").mkdir()
    (tmp_path / "l" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "l"


@pytest.fixture
def right(tmp_path: Path) -> Path:
    kind = pa.list_(pa.struct([("name", pa.string())]))
    (tmp_path / "r").mkdir()
    columns = {"at": ["1970-01-01 00:00:02.5"], "k": [1], "tags": pa.array([[{"name": "n"}]], kind)}
    pq.write_table(pa.table(columns), tmp_path / "r" / "rows.parquet")
    return tmp_path / "r"


def sql(left: Path, right: Path) -> str:
    return f"""
        CREATE STREAM L (t BIGINT, k BIGINT, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DOUBLE>)
          TIMESTAMP BY timestamp_millis(t) WITH (format = 'json', path = '{left}');
        CREATE STREAM R (at STRING, k BIGINT, tags ARRAY<STRUCT<name: STRING>>)
          TIMESTAMP BY to_timestamp(at) WITH (format = 'parquet', path = '{right}');
        CREATE QUERY q AS SELECT A.s, A.m, B.tags, A.s.b[0] AS x, to_timestamp(B.at) - timestamp_millis(A.t) AS gap
          FROM L A, R B WHERE A.k = B.k WINDOW 10 s;"""


def test_nested_columns_reach_parquet_and_dead_letters(spark: Any, left: Path, right: Path, tmp_path: Path) -> None:
    from muntin.spark.run import Job

    run = Job(spark, parse_job(sql(left, right))).start(
        output=tmp_path / "out", checkpoint=tmp_path / "c", mode="bounded"
    )
    assert run.await_termination(120)
    rows = [row for f in sorted((tmp_path / "out" / "q").glob("*.parquet")) for row in pq.read_table(f).to_pylist()]
    by_gap = {row.pop("gap"): row for row in rows}
    first, second = by_gap[dt.timedelta(seconds=1.5)], by_gap[dt.timedelta(seconds=-0.5)]
    assert first["s"] == {"a": 1, "b": ["x", None]} and first["m"] == [("p", 0.5)] and first["x"] == "x"
    assert first["tags"] == [{"name": "n"}]
    assert second["s"] is None and second["m"] is None and second["tags"] == [{"name": "n"}]
    assert first["_ts"] == dt.datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=dt.UTC)
    (letter,) = [
        row for f in (tmp_path / "out" / "_dead_letters").glob("*.parquet") for row in pq.read_table(f).to_pylist()
    ]
    assert letter["reason"] == "null_time: timestamp_millis(t) is NULL"
    assert json.loads(letter["row"]) == {"t": None, "k": 2, "s": {"a": 7, "b": []}, "m": {}}
    shown = spark.read.parquet(str(tmp_path / "out" / "q")).orderBy("_ts").collect()
    assert shown[0]["s"]["b"] == ["x", None] and shown[0]["m"] == {"p": 0.5}


def test_a_stream_of_python_has_them_too(spark: Any, left: Path, right: Path, tmp_path: Path) -> None:
    from muntin.spark.run import Job

    schema = "t BIGINT, k BIGINT, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DOUBLE>"
    job = Job(spark)
    job.stream("L", spark.readStream.schema(schema).json(str(left)), time="timestamp_millis(t)")
    tagged = "at STRING, k BIGINT, tags ARRAY<STRUCT<name: STRING>>"
    job.stream("R", spark.readStream.schema(tagged).parquet(str(right)), time="to_timestamp(at)")
    job.query("q", "SELECT A.s.a, B.tags[0].name FROM L A, R B WHERE A.k = B.k WINDOW 10 s")
    found: list[dict[str, Any]] = []

    def keep(name: str, table: pa.Table, _: int) -> None:
        found.extend(table.to_pylist() if name == "q" else [])

    run = job.start(checkpoint=tmp_path / "c", sink=keep, mode="bounded")
    assert run.await_termination(120)
    assert sorted((row["a"] or 0, row["name"]) for row in found) == [(0, "n"), (1, "n")]
