"""Joins of three streams and queries over queries on Spark, against DuckDB: one job of twelve queries, stopped and
started again, with queries that come and go while it runs. `MUNTIN_TREE_ROWS=200000` makes the streams longer."""

from __future__ import annotations

import os
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
ROWS = int(os.environ.get("MUNTIN_TREE_ROWS", "3000"))
"""Of each stream."""
SCALE = max(1, ROWS // 3_000)
PER_SECOND = 50 * max(1, SCALE // 4)
FILES = max(3, ROWS // 20_000)
"""Of each stream in each of the two runs."""
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
    inside = " AND ".join(
        f"{t}.ts - {s}.ts < INTERVAL {w} SECOND"
        for s, w in zip(streams, windows, strict=True)
        for t in streams
        if t != s
    )
    return f"SELECT {select}, {last} AS _ts FROM {items} WHERE {where} AND {inside}"


def make(rng: np.random.Generator, count: int, seconds: int) -> pa.Table:
    us = np.sort(rng.integers(0, seconds * US, count)) + EPOCH_US
    order = np.argsort(us + rng.integers(0, US, count), kind="stable")
    return pa.table(
        {
            "ts": pa.array(us[order], pa.timestamp("us", "UTC")),
            "id": np.arange(count),
            "k": pa.array(rng.integers(0, 60 * SCALE, count), mask=rng.random(count) < 0.02),
            "j": rng.integers(0, 80 * SCALE, count),
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
    tables = {name: make(rng, ROWS, ROWS // PER_SECOND) for name in "ABC"}
    kept: dict[tuple[str, str], int] = {}

    def watch(status: dict[str, Any]) -> None:
        for join in status["joins"]:
            left, right = join["streams"]
            kept[left, right] = max(kept.get((left, right), 0), join["counters"]["state_rows"][0])

    head = "".join(STREAM.format(name, tmp_path / name) for name in "ABC")
    spec = parse_job(head + "".join(map(statement, QUERIES)) + OVER)
    for name, table in tables.items():
        write(tmp_path / name, table.slice(0, ROWS // 2), FILES)
    place = {"output": tmp_path / "out", "checkpoint": tmp_path / "ckpt"}
    run = Job(spark, spec).start(**place, mode="available-now", progress=watch)
    assert run.await_termination(3600)
    for name, table in tables.items():
        write(tmp_path / name, table.slice(ROWS // 2), FILES, FILES)
    faster = head.replace("LATENESS 2 s", "LATENESS 2 s RATE 100000 PER SECOND", 2)
    others = parse_job(faster + "".join(map(statement, QUERIES)) + OVER)
    before, now = (s.queries["by_j"].graph.order for s in (spec, others))
    assert before != now, "a job that began now would join in another order"
    run = Job(spark, others).start(**place, mode="bounded", progress=watch)
    assert run._router.spec.queries["by_j"].graph.order == before
    assert run.await_termination(3600)
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
    assert joins["A", "B"]["counters"]["arrived"] == [ROWS, ROWS], "the join of A and B is done once"
    everywhere = next(join for streams, join in joins.items() if streams[1] == "C" and streams[0] == "_A_B")
    assert everywhere["counters"]["arrived"][1] == ROWS, "a row that goes to every shard counts once"
    base.execute("""CREATE TABLE pairs AS SELECT greatest(A.ts, B.ts) AS came,
        least(A.ts, B.ts) + INTERVAL 5 SECOND AS left_ FROM A, B WHERE A.k = B.k
        AND greatest(A.ts, B.ts) - least(A.ts, B.ts) < INTERVAL 5 SECOND""")
    base.execute("CREATE TABLE steps AS SELECT came AS t, 1 AS step FROM pairs UNION ALL SELECT left_, -1 FROM pairs")
    ((alive,),) = base.execute(
        "SELECT max(n) FROM (SELECT sum(step) OVER (ORDER BY t, step) AS n FROM steps)"
    ).fetchall()
    ((found,),) = base.execute("SELECT count(*) FROM pairs").fetchall()
    between = {streams: rows for streams, rows in kept.items() if streams[0] == "_A_B"}
    assert len(between) > 1
    for streams, rows in between.items():
        assert 0 < rows <= alive < found / 3, f"{streams}: pairs leave with the first of their windows"
