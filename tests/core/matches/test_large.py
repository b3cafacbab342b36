"""Twelve queries of every kind in one shared join over 2 x 200,000 rows, judged by DuckDB; and the work they share."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from muntin.sql import parse_job
from muntin.testing import LocalJob

ROWS, SPAN_US, KEYS, BATCHES = 200_000, 2_000_000_000, 20_000, 10
STREAM = (
    "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts WITH (format = 'x', path = 'x');"
)
WITHIN = "B.ts - A.ts < INTERVAL {0} SECOND AND A.ts - B.ts < INTERVAL {0} SECOND"
LATER = "greatest(A.ts, B.ts)"


def between(low: int, high: int) -> str:
    return f"B.ts BETWEEN A.ts + INTERVAL ({low}) SECOND AND A.ts + INTERVAL ({high}) SECOND"


def pairs(condition: str) -> str:
    return f"SELECT A.id AS a, B.id AS b, {LATER} AS t FROM A JOIN B ON A.k = B.k AND {condition}"


def outer(kind: str, condition: str, seconds: int, where: str = "TRUE") -> str:
    alone = f"coalesce(A.ts, B.ts) + INTERVAL {seconds} SECOND"
    return (
        f"SELECT A.id AS a, B.id AS b, CASE WHEN A.id IS NULL OR B.id IS NULL THEN {alone} ELSE {LATER} END AS t "
        f"FROM A {kind} JOIN B ON A.k = B.k AND {condition} AND {WITHIN.format(seconds)} WHERE {where}"
    )


def latest(left: bool, seconds: int) -> str:
    join = "LEFT JOIN" if left else "JOIN"
    back = f"B.ts <= A.ts AND A.ts - B.ts < INTERVAL {seconds} SECOND"
    return (
        "SELECT a, b, t FROM (SELECT A.id AS a, B.id AS b, A.ts AS t, row_number() OVER (PARTITION BY A.id "
        f"ORDER BY B.ts DESC, B.id DESC) AS n FROM A {join} B ON A.k = B.k AND {back}) WHERE n = 1"
    )


AB = "SELECT A.id AS a, B.id AS b FROM A"
QUERIES = {
    "short": (f"{AB}, B WHERE A.k = B.k WINDOW 10 s", pairs(WITHIN.format(10))),
    "long": (f"{AB}, B WHERE A.k = B.k AND A.v > 5 WINDOW 60 s", pairs(f"A.v > 5 AND {WITHIN.format(60)}")),
    "band": (
        f"{AB} JOIN B ON A.k = B.k AND B.ts BETWEEN A.ts - INTERVAL '10' SECOND AND A.ts + INTERVAL '5' SECOND",
        pairs(between(-10, 5)),
    ),
    "far_band": (
        f"{AB} JOIN B ON A.k = B.k AND B.ts BETWEEN A.ts + INTERVAL 20 SECONDS AND A.ts + INTERVAL 40 SECONDS",
        pairs(between(20, 40)),
    ),
    "back_band": (
        f"{AB} JOIN B ON A.k = B.k AND B.ts BETWEEN A.ts - INTERVAL 50 SECONDS AND A.ts - INTERVAL 30 SECONDS",
        pairs(between(-50, -30)),
    ),
    "left_outer": (
        f"{AB} LEFT JOIN B ON A.k = B.k AND B.v > 7 WHERE A.v > 2 WINDOW 20 s",
        outer("LEFT", "B.v > 7", 20, "A.v > 2"),
    ),
    "right_outer": (f"{AB} RIGHT JOIN B ON A.k = B.k AND A.v < B.v WINDOW 15 s", outer("RIGHT", "A.v < B.v", 15)),
    "full_outer": (f"{AB} FULL JOIN B ON A.k = B.k AND A.v = 3 WINDOW 30 s", outer("FULL", "A.v = 3", 30)),
    "anti": (
        "SELECT A.id AS a, CAST(NULL AS BIGINT) AS b FROM A LEFT ANTI JOIN B ON A.k = B.k WINDOW 60 s",
        f"SELECT A.id AS a, NULL AS b, A.ts + INTERVAL 60 SECOND AS t FROM A "
        f"WHERE NOT EXISTS (SELECT 1 FROM B WHERE A.k = B.k AND {WITHIN.format(60)})",
    ),
    "semi": (
        "SELECT A.id AS a, CAST(NULL AS BIGINT) AS b FROM A WHERE EXISTS "
        "(SELECT 1 FROM B WHERE B.k = A.k AND B.v > 5) WINDOW 30 s",
        f"SELECT A.id AS a, NULL AS b, min({LATER}) AS t FROM A JOIN B ON A.k = B.k AND B.v > 5 "
        f"AND {WITHIN.format(30)} GROUP BY A.id",
    ),
    "as_of": (f"{AB} ASOF JOIN B ON A.k = B.k AND A.ts >= B.ts WINDOW 30 s", latest(False, 30)),
    "as_of_left": (f"{AB} ASOF LEFT JOIN B ON A.k = B.k AND A.ts >= B.ts WINDOW 60 s", latest(True, 60)),
}


def stream(seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    ts = np.sort(draw.choice(SPAN_US, ROWS, replace=False))  # no ties: DuckDB does not know who came first
    keys = pa.array(draw.integers(0, KEYS, ROWS), mask=draw.random(ROWS) < 0.01)
    time = pa.array(ts, pa.timestamp("us", "UTC"))
    return pa.table({"ts": time, "id": np.arange(ROWS), "k": keys, "v": draw.integers(0, 10, ROWS)})


def fed(names: list[str], streams: dict[str, pa.Table]) -> tuple[LocalJob, dict[str, pa.Table]]:
    text = STREAM.format("A") + STREAM.format("B") + "".join(f"CREATE QUERY {n} AS {QUERIES[n][0]};" for n in names)
    job, size, found = LocalJob(parse_job(text), shards=2, checks=False), ROWS // BATCHES, {n: [] for n in names}
    for n in range(BATCHES + 1):
        batch = {name: table.slice(n * size, size) for name, table in streams.items()}
        for name, part in job.push(batch, ended=n == BATCHES).items():
            found[name].append(part)
    return job, {name: pa.concat_tables(parts) for name, parts in found.items()}


@pytest.mark.slow
def test_twelve_queries_of_every_kind_share_one_join_and_agree_with_duckdb():
    streams = {"A": stream(1), "B": stream(2)}
    job, found = fed(list(QUERIES), streams)
    assert len(job.plan.joins) == 1
    base = duckdb.connect()
    for name, table in streams.items():
        base.register(name, table)
    for name, (_, judge) in QUERIES.items():
        base.register("found", found[name])
        wanted, got = f"SELECT a, b, t FROM ({judge})", "SELECT a, b, _ts AS t FROM found"
        missing, extra = f"{wanted} EXCEPT ALL {got}", f"{got} EXCEPT ALL {wanted}"
        sizes = f"SELECT (SELECT count(*) FROM ({missing})), (SELECT count(*) FROM ({extra}))"
        differ = base.execute(sizes).fetchall()[0]
        assert differ == (0, 0) and found[name].num_rows, name
    few, _ = fed(["anti", "full_outer"], streams)  # the largest window, and rows without a key of both streams
    for shared, single in zip(job.counters(), few.counters(), strict=True):
        assert shared.comparisons == single.comparisons, "the pairs of the largest window are looked at once for all"
        assert (shared.probes, shared.inserted) == (single.probes, single.inserted)
