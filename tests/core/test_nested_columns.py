"""Structs, arrays, maps and intervals go the whole way through the operator: kept, restored, joined and grouped."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from muntin.kernels.evaluate import arrow_type
from muntin.model import SqlError
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

STREAMS = """
CREATE STREAM L (t BIGINT, k BIGINT, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DOUBLE>)
  TIMESTAMP BY timestamp_millis(t) WITH (format = 'parquet', path = 'l');
CREATE STREAM R (ts TIMESTAMP, k BIGINT, tags ARRAY<STRUCT<name: STRING>>)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'r');
"""
LEFT = {
    "t": [1_000, 2_000, 3_000],
    "k": [1, 2, 1],
    "s": [{"a": 1, "b": ["x", None]}, None, {"a": None, "b": []}],
    "m": [[("p", 0.5)], [], None],
}
RIGHT = {
    "ts": [1_500_000, 2_500_000, 4_000_000],
    "k": [1, 2, 1],
    "tags": [[{"name": "n"}], None, [{"name": "o"}, {"name": None}]],
}


def run(query: str, restart: bool = False) -> list[dict[str, Any]]:
    spec = parse_job(f"{STREAMS} CREATE QUERY q AS {query};")
    job = LocalJob(spec, shards=2)
    halves = []
    for stream, rows in (("L", LEFT), ("R", RIGHT)):
        table = pa.table({f.name: pa.array(rows[f.name], arrow_type(f.type)) for f in spec.streams[stream].schema})
        halves.append((table.slice(0, 1), table.slice(1)))
    found = [job.push(dict(zip("LR", (half[0] for half in halves), strict=True)))["q"]]
    if restart:
        job.restart()
    found.append(job.push(dict(zip("LR", (half[1] for half in halves), strict=True)), ended=True)["q"])
    return pa.concat_tables(found).drop_columns(["_ts"]).to_pylist(maps_as_pydicts="strict")


@pytest.mark.parametrize("restart", [False, True])
def test_nested_columns_come_out_as_they_went_in(restart: bool) -> None:
    found = run("SELECT A.t, A.s, A.m, B.tags FROM L A, R B WHERE A.k = B.k WINDOW 10 s", restart)
    first = {"t": 1_000, "s": LEFT["s"][0], "m": {"p": 0.5}}
    assert first | {"tags": RIGHT["tags"][0]} in found
    assert first | {"tags": RIGHT["tags"][2]} in found
    assert {"t": 2_000, "s": None, "m": {}, "tags": None} in found
    assert {"t": 3_000, "s": LEFT["s"][2], "m": None, "tags": RIGHT["tags"][2]} in found
    assert {"t": 3_000, "s": LEFT["s"][2], "m": None, "tags": RIGHT["tags"][0]} in found
    assert len(found) == 5


JOINED = "FROM L A, R B WHERE A.k = B.k"


def test_fields_and_elements_select_join_and_appear() -> None:
    query = f"SELECT s.b[0] AS x, m['p'] AS p, B.tags[0].name {JOINED} AND A.s.a = 1 AND SIZE(tags) = 1 WINDOW 10 s"
    assert run(query) == [{"x": "x", "p": 0.5, "name": "n"}]


GAP = "B.ts - timestamp_millis(A.t)"
SECONDS = dt.timedelta(seconds=3)


def test_a_difference_of_times_is_a_column_and_a_condition() -> None:
    query = f"SELECT A.t, {GAP} AS gap {JOINED} AND {GAP} > INTERVAL '1' SECOND WINDOW 10 s"
    assert run(query) == [{"t": 1_000, "gap": SECONDS}]


def test_differences_of_times_are_aggregated_grouped_and_ordered() -> None:
    final = (
        f"SELECT A.k, MAX({GAP}) AS longest, COUNT(DISTINCT {GAP}) AS n {JOINED} GROUP BY A.k WINDOW 10 s EMIT FINAL"
    )
    assert {"k": 1, "longest": SECONDS, "n": 4} in run(final)
    grouped = run(f"SELECT {GAP} AS gap, COUNT(*) AS n {JOINED} GROUP BY {GAP} WINDOW 10 s")
    assert {row["gap"] for row in grouped} >= {dt.timedelta(milliseconds=500), SECONDS}
    first = run(f"SELECT A.t, {GAP} AS gap {JOINED} ORDER BY gap DESC LIMIT 1 WINDOW 10 s")
    assert {"t": 1_000, "gap": SECONDS, "_rank": 1} in first


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT A.s, COUNT(*) AS n {JOINED} GROUP BY A.s WINDOW 10 s",
        f"SELECT COUNT(DISTINCT A.m) AS n {JOINED} WINDOW 10 s",
        f"SELECT DISTINCT A.s {JOINED} WINDOW 10 s",
        f"SELECT A.t {JOINED} ORDER BY A.m LIMIT 1 WINDOW 10 s",
        f"SELECT A.t, B.tags {JOINED} ORDER BY A.t LIMIT 1 WINDOW 10 s",
        "SELECT A.t FROM L A, R B WHERE A.s.b = B.tags WINDOW 10 s",
    ],
)
def test_what_would_have_to_compare_nested_values_is_refused(query: str) -> None:
    with pytest.raises(SqlError):
        run(query)
