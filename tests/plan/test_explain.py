"""EXPLAIN to the letter, and the jobs it explains run: golden/NAME.sql beside golden/NAME.txt.

To accept new texts: `for f in tests/plan/golden/*.sql; do muntin explain $f > ${f%.sql}.txt; done`, then read the diff.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin import oracle
from muntin.core.local import LocalJob
from muntin.kernels.evaluate import evaluate
from muntin.model import Expr, JobSpec, Query, Side
from muntin.plan.explain import explain, explain_json
from muntin.sql import parse_job

JOBS = sorted((Path(__file__).parent / "golden").glob("*.sql"))
ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("LocationId", pa.int64()), ("Value", pa.float64())]
)
SECOND = 1_000_000
every_job = pytest.mark.parametrize("path", JOBS, ids=lambda p: p.stem)


def job(path: Path) -> JobSpec:
    return parse_job(path.read_text(), source=path.name)


def test_there_are_golden_jobs_and_each_has_its_text():
    assert len(JOBS) >= 6
    assert [p.with_suffix(".txt") for p in JOBS] == sorted(JOBS[0].parent.glob("*.txt"))


@every_job
def test_the_text_of_explain_is_to_the_letter(path):
    assert explain(job(path)) + "\n" == path.with_suffix(".txt").read_text()


@every_job
def test_the_json_says_what_the_text_says(path):
    spec = job(path)
    plan = json.loads(explain_json(spec))
    assert sorted(q["name"] for j in plan["joins"] for q in j["queries"]) == sorted(spec.queries)
    for join in plan["joins"]:
        assert (join["algorithm"] == "nested loops") == (join["on"] == [])
        for side in Side:
            state, windows = join["state"][side], {q["name"]: q["window"][side] for q in join["queries"]}
            assert {w["axis"] for w in windows.values()} == {state["axis"]} <= {"time", "rows"}
            assert (state["sequencing_bytes_per_row_and_shard"] > 0) == (state["axis"] == "rows")
            assert [s["from"] for s in state["slices"]] == [0, *(s["to"] for s in state["slices"][:-1])]
            for name, window in windows.items():
                assert window["from"] == 0
                assert window["to"] == max(s["to"] for s in state["slices"] if name in s["readers"])


def test_names_beyond_a_handful_are_counted():
    text = JOBS[0].parent.joinpath("one_query.sql").read_text()
    streams, query = text.split("CREATE QUERY all_pairs AS ")
    spec = parse_job(streams + "\n".join(f"CREATE QUERY q{n} AS {query}" for n in range(9)))
    assert "-> q0, q1, q2, q3, q4, q5 and 3 more" in explain(spec)


# -- the same jobs, executed -----------------------------------------------------------------------------------------


def stream_rows(seed: int) -> list[dict[str, Any]]:
    """Forty rows over a minute: few locations, ties, NULL keys and NULL values."""
    pick = random.Random(seed)
    times = sorted(pick.randrange(60) * SECOND for _ in range(40))
    return [
        {
            "ts": ts,
            "id": n,
            "LocationId": pick.choice([1, 2, 3, None]),
            "Value": pick.choice([None, *(float(v) for v in range(0, 100, 7))]),
        }
        for n, ts in enumerate(times)
    ]


def values(expr: Expr, table: pa.Table) -> list[Any]:
    return evaluate(table, [(expr.sql, expr.type)])[0].to_pylist()


def side_table(rows: list[dict[str, Any]], side: Side) -> pa.Table:
    return pa.Table.from_pylist(rows, ROW).rename_columns([side.prefix + name for name in ROW.names])


def of_row(expr: Expr, rows: list[dict[str, Any]], side: Side) -> Callable[[oracle.Row], Any]:
    found = dict(zip((r["id"] for r in rows), values(expr, side_table(rows, side)), strict=True))
    return lambda row: found[row["id"]]


def of_pair(expr: Expr, rows: tuple[list[dict[str, Any]], ...]) -> oracle.Condition:
    """A condition evaluated on the whole cross product, so that the oracle can look up any pair."""
    lefts, rights = ([a for a in rows[0] for _ in rows[1]], [b for _ in rows[0] for b in rows[1]])
    tables = [side_table(lefts, Side.LEFT), side_table(rights, Side.RIGHT)]
    both = pa.table({name: t[name] for t in tables for name in t.column_names})
    pairs = [(a["id"], b["id"]) for a, b in zip(lefts, rights, strict=True)]
    found = dict(zip(pairs, values(expr, both), strict=True))
    return lambda a, b: found[a["id"], b["id"]]


def wanted(query: Query, streams: dict[str, list[dict[str, Any]]]) -> list[tuple[int, int, int]]:
    rows = tuple(streams[query.stream(side)] for side in Side)
    keys = [[of_row(k.side(side), rows[side], side) for k in query.keys] for side in Side]
    whole = [lambda row, parts=parts: tuple(part(row) for part in parts) for parts in keys]
    keeps = [None if (w := query.where[side]) is None else of_row(w, rows[side], side) for side in Side]
    holds = None if query.residual is None else of_pair(query.residual, rows)
    pairs = oracle.answer(
        query.window, *rows, (whole[0], whole[1]) if query.keys else None, (keeps[0], keeps[1]), holds=holds
    )
    return [(p.left["id"], p.right["id"], p.ts) for p in pairs]


@every_job
@pytest.mark.parametrize("shards", [1, 3])
def test_each_explained_job_gives_the_oracles_answers(path, shards):
    spec = job(path)
    used = {query.stream(side) for query in spec.queries.values() for side in Side}
    streams = {name: stream_rows(seed) for seed, name in enumerate(spec.streams) if name in used}
    local, got = LocalJob(spec, shards), {name: [] for name in spec.queries}
    for start in (0, 15, 30, None):
        cut = {} if start is None else {n: r[start : start + 15] for n, r in streams.items()}
        batch = {name: pa.Table.from_pylist(rows, ROW) for name, rows in cut.items()}
        for name, table in local.push(batch, ended=start is None).items():
            got[name] += zip(*(table[c].cast(pa.int64()).to_pylist() for c in ("a", "b", "_ts")), strict=True)
    for name, query in spec.queries.items():
        expected = wanted(query, streams)
        assert expected, "a job that finds nothing shows nothing"
        assert sorted(got[name]) == sorted(expected)
        assert [ts for *_, ts in got[name]] == sorted(ts for *_, ts in got[name])
