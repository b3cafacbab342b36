"""EXPLAIN to the letter, and the jobs it explains run: golden/NAME.sql beside golden/NAME.txt.

To accept new texts: `for f in tests/plan/golden/*.sql; do muntin explain $f > ${f%.sql}.txt; done`, then read the diff.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import oracle
from muntin.kernels.evaluate import evaluate
from muntin.model import Expr, JobSpec, Query, Side
from muntin.plan import make_plan, share
from muntin.plan.cost import DEFAULT
from muntin.plan.explain import describe, explain, explain_json
from muntin.plan.joins import signature
from muntin.plan.promise_lags import LagCounts, MeasuredLags
from muntin.plan.strategies import STRATEGIES
from muntin.plan.traffic import Knowledge, assumed, measured
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

JOBS = sorted((Path(__file__).parent / "golden").glob("*.sql"))
ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("LocationId", pa.int64()), ("Value", pa.float64())]
)
SECOND = 1_000_000
every_job = pytest.mark.parametrize("path", JOBS, ids=lambda p: p.stem)


def described(*given: Any) -> dict[str, Any]:
    """What EXPLAIN has as JSON."""
    found: dict[str, Any] = json.loads(explain_json(*given))
    return found


def job(path: Path) -> JobSpec:
    return parse_job(path.read_text(), source=path.name)


def test_there_are_golden_jobs_and_each_has_its_text():
    assert len(JOBS) >= 12
    assert [p.with_suffix(".txt") for p in JOBS] == sorted(JOBS[0].parent.glob("*.txt"))


@every_job
def test_the_text_of_explain_is_to_the_letter(path):
    assert explain(job(path)) + "\n" == path.with_suffix(".txt").read_text()


@every_job
def test_the_json_says_what_the_text_says(path):
    spec = job(path)
    plan = json.loads(explain_json(spec))
    running = {q["name"] for j in plan["joins"] for q in j["queries"]}
    assert running | {q["name"] for q in plan["never"]} == set(spec.queries)
    for join in plan["joins"]:
        assert (join["algorithm"] == "hash") == (join["on"] != [])
        assert (join["algorithm"] == "ordered") == (join["in_order_of"] is not None)
        assert (join["algorithm"] == "nested loops") == (join["every_pair_since"] is not None)
        for side in Side:
            state, windows = join["state"][side], {q["name"]: q["window"][side] for q in join["queries"]}
            assert {w["axis"] for w in windows.values()} == {state["axis"]} <= {"time", "rows"}
            assert (state["sequencing_bytes_per_row_and_shard"] > 0) == (state["axis"] == "rows")
            assert [s["from"] for s in state["slices"]] == [0, *(s["to"] for s in state["slices"][:-1])]
            for name, window in windows.items():
                assert window["from"] == 0
                read = [s for s in state["slices"] if name in s["readers"]]
                assert [s for s in state["slices"] if s["from"] < window["to"]] == read
                assert window["to"] in read[-1]["windows"]


@every_job
def test_the_slices_of_the_plan_add_up_to_the_chosen_alternative(path):
    plan = described(job(path))
    (chosen,) = [way for way in plan["alternatives"] if way["chosen"]]
    assert (chosen["strategy"], chosen["chain"]) == (plan["settings"]["strategy"], plan["settings"]["chain"])
    assert chosen["joins"] == len(plan["joins"])
    slices = [s["predicted"] for join in plan["joins"] for state in join["state"] for s in state["slices"]]
    for what in ("rows", "bytes", "comparisons_per_second", "routed_by_age_per_second"):
        assert sum(s[what] for s in slices) == pytest.approx(chosen[what], abs=0.1)
        assert sum(join["predicted"][what] for join in plan["joins"]) == pytest.approx(chosen[what], abs=0.1)


@every_job
def test_a_slice_admits_what_its_readers_select(path):
    spec = job(path)
    for join in described(spec)["joins"]:
        for side in Side:
            for piece in join["state"][side]["slices"]:
                wheres = [spec.queries[name].where[side] for name in piece["readers"]]
                if join["parts"][side] or join["selections_checked_on"] == "pairs" or None in wheres:
                    assert piece["selection"] is None
                else:
                    assert piece["selection"] == list(dict.fromkeys(w.text for w in wheres))


ORDERED = """
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT) TIMESTAMP BY ts RATE 5000 PER SECOND
  WITH (format = 'json', path = '.');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT) TIMESTAMP BY ts RATE 10000 PER SECOND
  WITH (format = 'json', path = '.');
CREATE STREAM C (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT) TIMESTAMP BY ts RATE 1000 PER SECOND
  WITH (format = 'json', path = '.');
CREATE QUERY q AS SELECT A.id AS a, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.j = C.j WINDOW 10 seconds;
"""


def test_orders_of_joins_stand_beside_each_other_with_their_costs_and_why_one_was_taken():
    said = explain(parse_job(ORDERED)).split("orders of joins\n")[1].split("\n\n")[0].splitlines()
    assert said == [
        "  query q: the least work",
        "    order      pairs between/s  rows kept  CPU ms/s",
        "    B x C x A           20,000    410,000      32.4  (A in every shard)  <- taken",
        "    A x B x C          100,000    690,000      92.9  (C in every shard)",
    ]
    pairs = "CREATE QUERY ab AS SELECT A.id FROM A, B WHERE A.k = B.k WINDOW 10 seconds;"
    assert "query q: A x B is there for ab" not in explain(parse_job(ORDERED + pairs)), "it would be twice the work"
    by_k = ORDERED.replace("B.j = C.j", "B.k = C.k").replace("RATE 1000 ", "RATE 4000 ")
    assert "query q: A x B is there for ab, and no other has less" in explain(parse_job(by_k + pairs))
    (orders,) = json.loads(explain_json(parse_job(by_k + pairs)))["join_orders"]
    assert [order["order"] for order in orders["orders"]] == [["A", "B", "C"], ["B", "C", "A"]]
    assert orders["orders"][0]["shares"] == ["ab", None]


def test_the_head_counts_the_queries_that_somebody_named():
    streams = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
        for name in "ABC"
    )
    spec = parse_job(streams + "CREATE QUERY q AS SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 min;")
    assert explain(spec).startswith("1 query in 2 shared joins")
    shown = {q["name"]: q["hidden"] for join in described(spec)["joins"] for q in join["queries"]}
    assert sorted(shown.values()) == [False, True] and not shown["q"]


# -- many ------------------------------------------------------------------------------------------------------------


def many(ask: Callable[[int], str], queries: int = 1000, **settings: str) -> JobSpec:
    """A job of many queries, each with what `ask` gives for its number after the equality."""
    text = "".join(f"SET {name} = '{value}';" for name, value in settings.items()) + STREAMS
    for n in range(queries):
        text += f"CREATE QUERY q{n} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k {ask(n)};"
    return parse_job(text)


STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts "
    f"WITH (format = 'parquet', path = '{name}');"
    for name in "AB"
)
CROWDS: dict[str, tuple[Callable[[int], str], dict[str, str]]] = {
    "the same window": (lambda n: "WINDOW 10 s", {}),
    "the same window, selections": (lambda n: f"AND A.v > {n} WINDOW 10 s", {}),
    "windows": (lambda n: f"WINDOW {n + 1} s", {"strategy": "state-slice", "chain": "mem-opt"}),
    "windows, merged": (lambda n: f"AND A.v > {n} WINDOW {n + 1} s", {"chain": "cpu-opt"}),
    "joins": (lambda n: f"AND A.v > {n} WINDOW {n + 1} s", {"strategy": "isolated"}),
    "parts": (lambda n: f"AND A.v > {n % 50} WINDOW {n + 1} s", {"strategy": "push-down"}),
}


@cache
def crowd(name: str) -> JobSpec:
    ask, settings = CROWDS[name]
    return many(ask, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", CROWDS)
def test_what_there_is_a_thousand_of_is_counted_in_the_text_and_listed_in_the_json(name):
    spec = crowd(name)
    text, plan = explain(spec), json.loads(explain_json(spec))
    assert len(text.splitlines()) < 100
    assert max(map(len, text.splitlines())) < 250
    assert "more" in text
    assert {q["name"] for j in plan["joins"] for q in j["queries"]} == set(spec.queries)
    readers = {r for j in plan["joins"] for s in j["state"][0]["slices"] for r in s["readers"]}
    assert readers == set(spec.queries)


@pytest.mark.slow
def test_a_thousand_queries_with_one_window_are_one_slice_and_a_handful_of_lines():
    text = explain(crowd("the same window"))
    assert text.startswith("1,000 queries in 1 shared join, one Spark job\n")
    assert "  query q9  window 10 s\n  and 990 more queries, which --json lists\n" in text
    assert "  state of A: the last 10 s; about 10,000 rows, 1.01 MB\n" in text
    assert len(text.splitlines()) < 50


@pytest.mark.slow
def test_many_slices_are_shown_from_both_ends():
    text = explain(crowd("windows"))
    assert "q0, q1, q2, q3, q4, q5 and 994 more" in text
    assert "    and 988 more slices, which --json lists\n    [998 s, 999 s)" in text


@pytest.mark.slow
def test_a_way_that_cannot_be_says_why():
    text = explain(crowd("the same window, selections"))
    assert "push-down             impossible: it would make at least 1,000 joins of one; the limit is 256\n" in text
    ways = described(crowd("the same window, selections"))["alternatives"]
    assert [way["strategy"] for way in ways if "impossible" in way] == ["push-down"]


# -- what predictions rest on ----------------------------------------------------------------------------------------


def test_what_is_assumed_declared_and_measured_is_told_apart():
    spec = many(lambda n: f"AND A.v > {n} WINDOW 10 s", 2)
    assert "assumed: A 1,000 rows/s, B 1,000 rows/s, 10,000 equally frequent keys, selectivities\n" in explain(spec)
    some = Knowledge(rates={"A": 2.5}, keys=7, selectivities={"q0": (0.5, None)})
    text = explain(spec, some)
    assert "declared: A 2.5 rows/s, 7 equally frequent keys; assumed: B 1,000 rows/s; partly declared: sel" in text
    assert "query q0  window 10 s, where A.v > 0 (50% of A)\n" in text
    join = share(spec).joins[0]
    wants = np.array([[True, True], [True, False], [False, False]])
    seen = measured(join, 10.0, (wants, wants[:1]), (np.array([20, 30, 50]), np.array([40])), 0.01)
    text = explain(spec, Knowledge(measured={signature(join.queries[0]): seen}))
    assert "measured: A 10 rows/s, B 4 rows/s, matches like 100 equally frequent keys, selectivities\n" in text
    assert "where A.v > 1 (20% of A)" in text
    assert "what is assumed" not in text


def test_a_rate_of_the_job_file_is_a_declared_one():
    spec = parse_job(STREAMS.replace("BY ts", "BY ts RATE 30 PER MINUTE") + GOOD)
    assert "declared: A 0.5 rows/s, B 0.5 rows/s; assumed: 10,000 equally frequent keys\n" in explain(spec)


def test_measured_constants_are_named_as_such():
    spec = parse_job(STREAMS + GOOD)
    assert "CPU by default constants" in explain(spec)
    slow = Knowledge(constants=replace(DEFAULT, scan_ns=1000.0))
    assert "CPU by the constants that muntin calibrate measured" in explain(spec, slow)
    assert described(spec, slow)["constants"]["scan_ns"] == 1000.0


GOOD = "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 10 s;"


# -- who decided -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, begun_with, strategy, chain",
    [
        ("", None, "state-slice, chosen by auto", "mem-opt, chosen by auto"),
        ("SET chain = 'cpu-opt';", None, "state-slice, chosen by auto", "cpu-opt, as set"),
        ("SET strategy = 'isolated';", None, "isolated, as set", "none"),
        ("", "pull-up", "pull-up, with which the checkpoint was begun", "none"),
        ("", "state-slice", "state-slice, with which the checkpoint was begun", "mem-opt, chosen by auto"),
        ("SET strategy = 'pull-up';", "pull-up", "pull-up, as set", "none"),
    ],
)
def test_who_decided_on_strategy_and_chain(settings, begun_with, strategy, chain):
    lines = explain(parse_job(settings + STREAMS + GOOD), begun_with=begun_with).splitlines()
    assert f"strategy     {strategy}" in lines
    assert f"chain        {chain}" in lines


# -- queries without rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["auto", *STRATEGIES.names])
def test_where_no_query_can_have_rows_they_run_and_keep_nothing(strategy):
    settings = f"SET strategy = '{strategy}';"
    spec = parse_job(settings + STREAMS + GOOD.replace("WINDOW", "AND B.v > 2 AND B.v < 1 WINDOW"))
    text = explain(spec)
    assert text.startswith("1 query in 1 ")
    assert "B.v > 2 AND B.v < 1 (0% of B); no row can satisfy this, the output stays empty\n" in text
    assert "planned away" not in text
    assert described(spec)["never"] == [{"name": "q", "selection": "B.v > 2 AND B.v < 1", "planned_away": False}]


def test_a_job_without_queries_is_explained_too():
    assert explain(parse_job(STREAMS)).startswith("0 queries in 0 shared joins, one Spark job\n")


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
        assert expected or query in local.plan.never, "a job that finds nothing shows nothing"
        assert sorted(got[name]) == sorted(expected)
        assert [ts for *_, ts in got[name]] == sorted(ts for *_, ts in got[name])


# -- aggregates ------------------------------------------------------------------------------------------------------


def test_explain_says_where_groups_are_put_together():
    asked = {
        "tops": "SELECT A.k, MAX(A.v) AS a, MAX(B.v) AS b FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 1 hour",
        "keys": "SELECT COUNT(DISTINCT A.k) FROM A, B WHERE A.k = B.k AND A.v > 30 WINDOW 1 min",
        "ids": "SELECT COUNT(DISTINCT A.id), COUNT(*) FROM A, B WHERE A.k = B.k GROUP BY B.v WINDOW 1 min EVERY 10 s",
    }
    spec = parse_job(STREAMS + "".join(f"CREATE QUERY {name} AS {text};" for name, text in asked.items()))
    lines = {line.split()[1]: line.split("; ")[1] for line in explain(spec).splitlines() if line.startswith("  query ")}
    over_all = "added up in each shard, then over all of them in a second exchange"
    assert lines == {
        "tops": "MAX(A.v), MAX(B.v) by A.k at every change, each group in one shard",
        "keys": f"COUNT(DISTINCT A.k) at every change, {over_all}",
        "ids": f"COUNT(DISTINCT A.id), COUNT(*) by B.v every 10 s, {over_all}, with the different values of A.id",
    }
    plan = json.loads(explain_json(spec))
    assert all(q["aggregates"]["top"] is None for q in plan["joins"][0]["queries"])
    told = {q["name"]: q["aggregates"]["values_told"] for q in plan["joins"][0]["queries"]}
    assert told == {"tops": [], "keys": [], "ids": ["A.id"]}


def test_explain_says_what_is_kept_for_the_first_of_groups():
    asked = {
        "here": "SELECT A.id FROM A, B WHERE A.k = B.k GROUP BY A.k ORDER BY B.v DESC, A.id LIMIT 3 WINDOW 1 min",
        "anywhere": "SELECT A.id FROM A, B WHERE A.k = B.k ORDER BY B.v NULLS LAST LIMIT 1 WINDOW 1 min EVERY 10 s",
    }
    spec = parse_job(STREAMS + "".join(f"CREATE QUERY {name} AS {text};" for name, text in asked.items()))
    lines = {line.split()[1]: line.split("; ")[1] for line in explain(spec).splitlines() if line.startswith("  query ")}
    assert lines == {
        "here": "the 3 first by B.v DESC, A.id of each A.k at every change, each group in one shard, "
        "of pairs with fewer than 3 others before them for as long as they stay",
        "anywhere": "the first by B.v NULLS LAST every 10 s, those of each shard merged in a second exchange, "
        "of pairs with no other before them for as long as they stay",
    }
    found = {q["name"]: q["aggregates"]["top"] for q in json.loads(explain_json(spec))["joins"][0]["queries"]}
    assert found["here"] == {"limit": 3, "order": ["B.v DESC", "A.id"]}


def test_what_promises_leave_is_predicted_from_the_lags_that_were_measured():
    """Of ten rows of B nine are freed after a tenth of a second: 100 rows a second keep 9 + 100 of ten seconds."""
    text = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts RATE 100 PER SECOND {clause} "
        "WITH (format = 'x', path = 'y');"
        for s, clause in (("A", "PUNCTUATION WHEN closed"), ("B", ""))
    )
    spec = parse_job(text + "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 10 seconds;")
    (join,) = make_plan(spec).joins
    counts = LagCounts(expired=10)
    counts.add(after_us=np.full(90, 100_000))
    seen = replace(assumed(join), lags=(None, MeasuredLags(counts, 10, 10)))
    assert describe(spec).joins[0].promises[0].rows_left is None, "nobody knows how many punctuations come"
    (use,) = describe(spec, Knowledge(measured={signature(join.queries[0]): seen})).joins[0].promises
    assert use.lags_known == "measured" and use.rows_left == pytest.approx(109, rel=0.02)
