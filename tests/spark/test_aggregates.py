"""Aggregate queries on Spark: in order, once, the same after restarts and changes as in one go without Spark."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.core.batch import stream_schema
from muntin.spark.checkpoint.identity import checkpoint_id
from muntin.spark.run import Job
from muntin.spark.shard.hot_state import forget_hot
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

FROM = "FROM A, B WHERE A.k = B.k"
AGGREGATES = {
    "per_key": f"SELECT A.k, COUNT(*) AS n, MAX(B.v) AS top, AVG(A.v) AS mean {FROM} GROUP BY A.k WINDOW 4 s",
    "longer": f"SELECT A.k, COUNT(*) AS n, MAX(B.v) AS top, AVG(A.v) AS mean {FROM} GROUP BY A.k WINDOW 9 s",
    "keys": f"SELECT COUNT(DISTINCT A.k) {FROM} AND A.v > 50 WINDOW 2 s",
    "over_keys": f"SELECT B.id % 3 AS g, COUNT(DISTINCT A.id) AS d, SUM(A.v + B.v) AS s, MIN(A.v) AS low {FROM} "
    "GROUP BY B.id % 3 HAVING COUNT(*) > 1 WINDOW 3 s",
    "regular": f"SELECT A.k, COUNT(*) AS n, SUM(B.id) AS s {FROM} GROUP BY A.k WINDOW 5 s EVERY 2 s",
    "seldom": f"SELECT COUNT(*) AS n, COUNT(DISTINCT B.id) AS ids {FROM} WINDOW 5 s EVERY 3 s",
    "too_large": f"SELECT SUM(A.id * 0 + 5000000000000000000) AS s {FROM} AND A.id < 20 WINDOW 1 s",
    "highest": f"SELECT A.k, A.v, B.id AS b {FROM} GROUP BY A.k ORDER BY A.v DESC LIMIT 2 WINDOW 4 s",
    "lowest": f"SELECT A.v + B.v AS s, A.id AS a, B.id AS b {FROM} ORDER BY s, A.id LIMIT 5 WINDOW 3 s",
    "now_and_then": f"SELECT B.id % 3 AS g, A.id AS a {FROM} GROUP BY 1 ORDER BY A.v LIMIT 3 WINDOW 5 s EVERY 2 s",
    "spread": f"SELECT A.k, VAR_POP(B.v) AS p, STDDEV_SAMP(A.v / 3) AS s {FROM} GROUP BY A.k WINDOW 3 s",
    "pairs": f"SELECT A.id AS a, B.id AS b {FROM} AND A.v > 90 WINDOW 1 s",
}

ADDED = ("per_key", "over_keys", "lowest")


def job(lab: Any, names: Any = AGGREGATES) -> str:
    return lab.sql({}) + "".join(f"CREATE QUERY {name} AS {AGGREGATES[name]};\n" for name in names)


def in_one_go(lab: Any) -> tuple[dict[str, pa.Table], LocalJob]:
    local = LocalJob(parse_job(job(lab)))
    return local.push({name: pa.concat_tables(parts) for name, parts in lab.tables.items()}, ended=True), local


def in_order(table: pa.Table) -> list[tuple]:
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return sorted(rows, key=lambda row: (row[-1], tuple(map(str, row))))


def run(lab: Any, mode: str) -> dict[str, Any]:
    started = Job(lab.spark, parse_job(job(lab))).start(output=lab.output, checkpoint=lab.checkpoint, mode=mode)
    assert started.await_termination(400)
    return started.status()


@pytest.mark.stand_in
def test_aggregates_come_in_order_and_once_whatever_the_restarts(lab: Any, rows: Any):
    lab.lateness_s, lab.per_trigger = 1, 1
    left, right = rows(31, 150, lateness_s=1), rows(32, 150, lateness_s=1)
    lab.add_files("A", left.slice(0, 90), 2)
    lab.add_files("B", right.slice(0, 80), 2)
    run(lab, "available-now")
    forget_hot(checkpoint_id(lab.checkpoint))
    lab.add_files("A", left.slice(90), 1)
    lab.add_files("B", right.slice(80), 2)
    status = run(lab, "bounded")
    wanted, local = in_one_go(lab)
    for name, table in wanted.items():
        got = pa.concat_tables([pq.read_table(f) for f in lab.files(name)])
        assert got.schema == table.schema and table.num_rows > 2
        assert in_order(got) == in_order(table), name
        times = got["_ts"].cast(pa.int64()).to_pylist()
        assert times == sorted(times) and status["queries"][name]["total_rows"] == len(times)
    faults = sum(table.num_rows for table in local.faults["too_large"])
    letters = [letter for letter in lab.letters() if letter["stream"] == "too_large"]
    assert faults == len(letters) == status["dead_letters"]["overflow"] > 0
    assert letters[0]["reason"].startswith("overflow: SUM(A.id * 0 + 5000000000000000000) does not fit into bigint")


@pytest.mark.spark
def test_an_aggregate_that_comes_while_the_job_runs_is_right_from_when_it_says(lab: Any, rows: Any):
    lab.per_trigger = 1
    left, right = rows(33, 160), rows(34, 160)
    for name, table in (("A", left), ("B", right)):
        lab.add_files(name, table.slice(0, 80), 1)
    names = ["longer", "pairs"]
    started = Job(lab.spark, parse_job(job(lab, names))).start(output=lab.output, checkpoint=lab.checkpoint)
    try:
        for _ in range(2400):
            if sum(started.status()["sources"].get(name, {}).get("total_rows", 0) for name in "AB") == 160:
                break
            time.sleep(0.05)
        added = [started.add(f"CREATE QUERY {name} AS {AGGREGATES[name]}") for name in ADDED]
        assert [a.complete_from for a in added] == [a.applied_from for a in added], "the longer window has the rows"
        assert started.drop("pairs").state == "in force"
    finally:
        started.stop()
    for name, table in (("A", left), ("B", right)):
        lab.add_files(name, table.slice(80), 1)
    names = ["longer", *ADDED]
    again = Job(lab.spark, parse_job(job(lab, names))).start(
        output=lab.output, checkpoint=lab.checkpoint, mode="bounded"
    )
    assert again.await_termination(400)
    wanted, _ = in_one_go(lab)
    for name, change in zip(ADDED, added, strict=True):
        since = change.complete_from
        got = pa.concat_tables([pq.read_table(f) for f in lab.files(name)])
        due, told = ([row for row in in_order(table) if row[-1] >= since] for table in (wanted[name], got))
        assert told == due and len(due) > 20
        assert len(due) < wanted[name].num_rows, "something came before"


VALUES: dict[str, list[list[Any]]] = {
    "bigint": [[None], [5], [1, None, 4], [2**62, -(2**62), 3], [10**15 + n for n in range(4)]],
    "decimal(20,4)": [[None], [Decimal("0.0001")], [Decimal("1.5"), Decimal("-2.25"), Decimal(10**15)]],
    "double": [
        [None],
        [0.1],
        [0.1, 0.1, 0.1],
        [1e-3, 2.5, -1e3],
        [math.nan, 1.0],
        [math.inf],
        [math.inf, 2.0],
        [1e300, 1.0],
    ],
    "float": [[1.5, -2.25, None], [math.inf, -math.inf]],
}
SPREADS = ["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"]


@pytest.mark.spark
@pytest.mark.parametrize("kind", VALUES)
def test_variances_are_those_of_spark_sql(spark: Any, kind: str):
    rows = [(k, value) for k, values in enumerate(VALUES[kind]) for value in values]
    calls = ", ".join(f"{call}(A.x) AS {call}" for call in SPREADS)
    frame = spark.createDataFrame(rows, f"k bigint, x {kind}")
    frame.createOrReplaceTempView("spread_of")
    asked = f"SELECT A.k, {calls} FROM spread_of A GROUP BY A.k"
    due = {row[0]: list(row[1:]) for row in spark.sql(asked).collect()}
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, x {kind}) TIMESTAMP BY ts WITH (format = 'json', path = 'x');"
        for s in "AB"
    )
    query = f"CREATE QUERY q AS SELECT A.k, {calls} FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 1 s;"
    local = LocalJob(parse_job(streams + query))
    schema = stream_schema(parse_job(streams + query).streams["A"])
    left = pa.Table.from_pylist([{"ts": 0, "k": k, "x": x} for k, x in rows], schema)
    right = pa.Table.from_pylist([{"ts": 0, "k": k, "x": None} for k in due], schema)
    found = local.push({"A": left, "B": right}, ended=True)["q"].drop_columns(["_ts"]).to_pylist()
    first = {row["k"]: list(row.values())[1:] for row in reversed(found)}
    assert set(first) == set(due)
    for k, values in due.items():
        near = [None if v is None else pytest.approx(v, rel=1e-12, nan_ok=True) for v in values]
        assert first[k] == near, VALUES[kind][k]
