"""Hundreds of queries over one join: indexed selections, equal windows, windows a microsecond apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.core.selections import classes, slice_tables
from muntin.plan import share
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

pytestmark = pytest.mark.slow

STREAMS = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT, v BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT, v BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
"""
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])


def table(seed: int, rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, 2000, rows)), pa.timestamp("us", "UTC")),
            "k": rng.integers(0, 10, rows),
            "v": pa.array(rng.integers(0, 600, rows), mask=rng.random(rows) < 0.05),
            "s": pa.array(rng.choice([f"n{i}" for i in range(40)], rows)),
        },
        SCHEMA,
    )


def answers(queries: list[str], **more) -> tuple[dict[str, pa.Table], LocalJob]:
    text = "".join(
        f"CREATE QUERY q{n} AS SELECT A.ts AS a, B.ts AS b, A.v AS v FROM A, B WHERE A.k = B.k{q};\n"
        for n, q in enumerate(queries)
    )
    local = LocalJob(parse_job(STREAMS + text), **more)
    return local.push({"A": table(1), "B": table(2)}, ended=True), local


def test_a_thousand_queries_with_the_same_window_cost_the_join_of_one():
    one, alone = answers([" WINDOW 100 microseconds"])
    many, local = answers([" WINDOW 100 microseconds"] * 1000)
    assert one["q0"].num_rows > 1000
    assert all(found == one["q0"] for found in many.values())
    work = local.counters()[0]
    assert work == alone.counters()[0], "probes, comparisons, pairs, rows kept: all the same"
    assert len(local.plan.joins[0].slices(0)) == 1


def test_windows_that_differ_by_a_microsecond_are_windows_of_their_own():
    found, local = answers([f" WINDOW {100 + n} microseconds" for n in range(200)])
    widest = found["q199"]
    ages = np.abs(widest["a"].cast(pa.int64()).to_numpy() - widest["b"].cast(pa.int64()).to_numpy())
    assert [t.num_rows for t in found.values()] == [int((ages < 100 + n).sum()) for n in range(200)]
    assert len(set(t.num_rows for t in found.values())) > 100
    assert len(local.plan.joins[0].windows[0]) == 200


@pytest.mark.parametrize("tabled", [True, False])
def test_five_hundred_selections_are_answered_by_an_index(monkeypatch, tabled):
    """No predicate is evaluated for itself: thresholds, equalities and their conjunctions all come from the regions."""
    monkeypatch.setattr(classes, "evaluate", None)
    if not tabled:
        monkeypatch.setattr(slice_tables, "HORIZONS", 0)
        monkeypatch.setattr(classes, "DENSE", 0)
    limits = [n for n in range(500)]
    queries = [
        f" AND A.v > {n}" + (f" AND A.s = 'n{n % 50}'" if n % 3 == 0 else "") + " WINDOW 50 microseconds"
        for n in limits
    ]
    found, local = answers(queries)
    every, _ = answers([" WINDOW 50 microseconds"])
    v, s = (np.array(table(1)[c].to_pylist(), object) for c in ("v", "s"))
    name_of = dict(zip(table(1)["ts"].cast(pa.int64()).to_pylist(), zip(v, s, strict=True), strict=True))
    rows = every["q0"].to_pylist()
    assert len(name_of) < 400, "times repeat, so only unique ones are compared"
    unique = {t for t in name_of if table(1)["ts"].cast(pa.int64()).to_pylist().count(t) == 1}
    times = every["q0"]["a"].cast(pa.int64()).to_pylist()
    for n in (0, 3, 100, 299, 300, 499):
        want = [
            t
            for t, row in zip(times, rows, strict=True)
            if t in unique and row["v"] is not None and row["v"] > n and (n % 3 or name_of[t][1] == f"n{n % 50}")
        ]
        got = [t for t in found[f"q{n}"]["a"].cast(pa.int64()).to_pylist() if t in unique]
        assert sorted(got) == sorted(want), n
    assert len(share(local.spec).joins) == 1


def test_equal_selections_are_evaluated_once(monkeypatch):
    asked = []
    evaluate = classes.evaluate
    monkeypatch.setattr(classes, "evaluate", lambda t, e: asked.append([sql for sql, _ in e]) or evaluate(t, e))
    answers([f" AND A.v % 2 = 1 WINDOW {n + 1} microseconds" for n in range(300)])
    assert [len(sqls) for sqls in asked] == [1], "one expression over one micro-batch, for 300 queries"
