"""Joins of three streams and queries over queries on Spark, against DuckDB: one job of twelve queries, stopped and
started again, with queries that come and go while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.spark.run import Job
from muntin.sql import parse_job

from . import duck

pytestmark = pytest.mark.spark

US = 1_000_000
EPOCH_US = 1_700_000_000 * US
STREAM = (
    "CREATE STREAM {0} (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, v DOUBLE) TIMESTAMP BY ts LATENESS 2 s "
    "WITH (format = 'parquet', path = '{1}', maxFilesPerTrigger = '1');\n"
)
ABC = "A.id AS a, B.id AS b, C.id AS c"
QUERIES = {
    "ab": ("A.id AS a, B.id AS b", "AB", "A.k = B.k", (5, 5)),
    "ab_hot": ("A.id AS a, B.id AS b", "AB", "A.k = B.k AND A.v > 50", (2, 2)),
    "by_k": (ABC, "ABC", "A.k = B.k AND B.k = C.k", (3, 3, 3)),
    "by_k_hot": (ABC, "ABC", "A.k = B.k AND B.k = C.k AND A.v > 50", (4, 4, 4)),
    "by_k_few": (ABC, "ABC", "A.k = B.k AND A.k = C.k AND A.v > 80 AND C.v < 30", (2, 4, 6)),
    "by_j": (ABC, "ABC", "A.k = B.k AND B.j = C.j", (3, 3, 3)),
    "by_j_hot": (ABC, "ABC", "A.k = B.k AND B.j = C.j AND A.v + B.v > C.v + 50", (5, 2, 4)),
    "bc": ("B.id AS b, C.id AS c", "BC", "B.j = C.j", (4, 4)),
    "round": (ABC, "ABC", "A.k = B.k AND B.j = C.j AND A.v < C.v", (4, 4, 1)),
    "again": ("A.id AS a, B.id AS b, X.id AS x", "ABX", "A.k = B.k AND X.k = A.k AND X.v > A.v", (3, 3, 3)),
}
OVER = (
    "CREATE QUERY over AS SELECT H.a, H.b, C.id AS c FROM ab_hot H JOIN C ON H.a = C.id AND C.v > 10 WINDOW 4 s;\n"
    "CREATE QUERY counts AS SELECT H.a, COUNT(*) AS n FROM ab_hot H JOIN C ON H.b = C.id GROUP BY H.a WINDOW 4 s;\n"
)


def statement(name: str) -> str:
    select, streams, where, windows = QUERIES[name]
    items = [f"{'A' if s == 'X' else s} [RANGE {w} s] {s}" for s, w in zip(streams, windows, strict=True)]
    return f"CREATE QUERY {name} AS SELECT {select} FROM {', '.join(items)} WHERE {where};\n"


def wanted(name: str) -> str:
    select, streams, where, windows = QUERIES[name]
    items = ", ".join(f"{'A' if s == 'X' else s} {s}" for s in streams)
    last = f"greatest({', '.join(f'{s}.ts' for s in streams)})"
    inside = " AND ".join(f"{last} - {s}.ts < INTERVAL {w} SECOND" for s, w in zip(streams, windows, strict=True))
    return f"SELECT {select}, {last} AS _ts FROM {items} WHERE {where} AND {inside}"


def make(rng: np.random.Generator, count: int, seconds: int) -> pa.Table:
    us = np.sort(rng.integers(0, seconds * US, count)) + EPOCH_US
    order = np.argsort(us + rng.integers(0, US, count), kind="stable")
    return pa.table(
        {
            "ts": pa.array(us[order], pa.timestamp("us", "UTC")),
            "id": np.arange(count),
            "k": pa.array(rng.integers(0, 60, count), mask=rng.random(count) < 0.02),
            "j": rng.integers(0, 80, count),
            "v": np.round(rng.random(count) * 100, 2),
        }
    )


def write(folder: Path, table: pa.Table, files: int, first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    ends = np.linspace(0, table.num_rows, files + 1).astype(int)
    for n in range(files):
        pq.write_table(table.slice(ends[n], ends[n + 1] - ends[n]), folder / f"{first + n:03d}.parquet")
        time.sleep(0.01)


def test_twelve_queries_of_two_and_three_streams_give_duckdbs_rows_over_restarts(spark: Any, tmp_path: Path):
    rng = np.random.default_rng(5)
    tables = {name: make(rng, 3_000, 60) for name in "ABC"}
    head = "".join(STREAM.format(name, tmp_path / name) for name in "ABC")
    spec = parse_job(head + "".join(map(statement, QUERIES)) + OVER)
    for name, table in tables.items():
        write(tmp_path / name, table.slice(0, 1_500), 3)
    run = Job(spark, spec).start(output=tmp_path / "out", checkpoint=tmp_path / "ckpt", mode="available-now")
    assert run.await_termination(300)
    for name, table in tables.items():
        write(tmp_path / name, table.slice(1_500), 3, 3)
    faster = head.replace("LATENESS 2 s", "LATENESS 2 s RATE 100000 PER SECOND", 2)
    others = parse_job(faster + "".join(map(statement, QUERIES)) + OVER)
    before, now = (s.queries["by_j"].graph.order for s in (spec, others))
    assert before != now, "a job that began now would join in another order"
    run = Job(spark, others).start(output=tmp_path / "out", checkpoint=tmp_path / "ckpt", mode="bounded")
    assert run._router.spec.queries["by_j"].graph.order == before
    assert run.await_termination(300)
    base = duck.connect({name: tmp_path / name for name in "ABC"})
    for name in QUERIES:
        rows, missing, extra = duck.difference(base, wanted(name), tmp_path / "out" / name)
        assert rows > 20 and (missing, extra) == (0, 0), (name, rows, missing, extra)
        assert duck.is_ordered(tmp_path / "out" / name)
    base.execute(f"CREATE TABLE hot AS {wanted('ab_hot')}")
    over = (
        "SELECT H.a, H.b, C.id AS c, greatest(H._ts, C.ts) AS _ts FROM hot H, C WHERE H.a = C.id AND C.v > 10 "
        "AND abs(epoch_us(H._ts) - epoch_us(C.ts)) < 4000000"
    )
    assert duck.difference(base, over, tmp_path / "out" / "over")[1:] == (0, 0)
    assert not list((tmp_path / "out").glob("_A*")), "what nobody named is not written"
    status = run.status()
    joins = {tuple(join["streams"]): join for join in status["joins"]}
    assert set(status["queries"]) == {*QUERIES, "over", "counts"}
    assert joins["A", "B"]["counters"]["arrived"] == [3_000, 3_000], "the join of A and B is done once"
    everywhere = next(join for streams, join in joins.items() if streams[1] == "C" and streams[0] == "_A_B")
    assert everywhere["counters"]["arrived"][1] == 3_000, "a row that goes to every shard counts once"
