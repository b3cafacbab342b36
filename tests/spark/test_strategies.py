"""Strategies and chains on Spark: the same rows for all of them, and chains that may change from run to run."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from muntin.model import Window
from muntin.oracle import answer, columns
from muntin.spark.run import Job
from muntin.sql import parse_job

from .conftest import make_rows

US = 1_000_000
WINDOWS = (1, 2.5, 4, 7, 10, 20)
LIMITS = ((None, None), (60, None), (None, 30), (80, 50))
"""Selections A.v > left and B.v > right of four queries per window."""
QUERIES = {
    f"q{n}_{m}": (Window(round(w * US), round(w * US)), limits)
    for n, w in enumerate(WINDOWS)
    for m, limits in enumerate(LIMITS)
}
SETTINGS = {
    "isolated": "SET strategy = 'isolated';",
    "pull-up": "SET strategy = 'pull-up';",
    "push-down": "SET strategy = 'push-down';",
    "mem-opt": "SET strategy = 'state-slice'; SET chain = 'mem-opt';",
    "cpu-opt": "SET strategy = 'state-slice'; SET chain = 'cpu-opt';",
}
ON_SPARK = ("push-down", "mem-opt")
"""Several joins, and several slices: for Spark the others are as one of them."""
SELECT = "SELECT A.id AS a, B.id AS b, B.v AS bv FROM A, B WHERE A.k = B.k"


def sql(lab: Any, settings: str) -> str:
    text = settings + lab.sql({})
    for name, (window, limits) in QUERIES.items():
        conditions = [f" AND {s}.v > {limit}" for s, limit in zip("AB", limits, strict=True) if limit is not None]
        text += f"CREATE QUERY {name} AS {SELECT}{''.join(conditions)} WINDOW {window.left // 1000} milliseconds;\n"
    return text


def run(lab: Any, text: str, mode: str = "bounded") -> dict[str, Any]:
    started = Job(lab.spark, parse_job(text)).start(output=lab.output, checkpoint=lab.checkpoint, mode=mode)
    assert started.await_termination(300)
    return dict(started.status())


Wanted = dict[str, list[tuple[Any, ...]]]


def wanted(left: list[pa.Table], right: list[pa.Table]) -> Wanted:
    """The oracle's rows of every query over the files of both streams."""
    lefts, rights = (
        [r for t in tables for r in t.set_column(0, "ts", t["ts"].cast("int64")).to_pylist()]
        for tables in (left, right)
    )
    found = {}
    for name, (window, limits) in QUERIES.items():
        keeps = tuple(None if limit is None else (lambda r, at=limit: r["v"] > at) for limit in limits)
        pairs = answer(window, lefts, rights, (columns("k"), columns("k")), keeps)
        found[name] = sorted((p.left["id"], p.right["id"], p.right["v"], p.ts) for p in pairs)
    return found


@cache
def wanted_by_all() -> Wanted:
    """Worked out once for all strategies, which get the same rows."""
    return wanted([make_rows(41, 240)], [make_rows(42, 240)])


def check(lab: Any, wanted: Wanted) -> None:
    """Every query has these rows, in order."""
    for name, rows in wanted.items():
        got = lab.got(name)
        assert sorted(got) == rows, name
        assert got and [row[-1] for row in got] == sorted(row[-1] for row in got)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.spark if name in ON_SPARK else pytest.mark.stand_in) for name in SETTINGS],
)
def test_24_queries_get_the_oracles_rows_by_every_strategy_and_chain(lab: Any, rows: Any, name: str):
    lab.add_files("A", rows(41, 240), 3)
    lab.add_files("B", rows(42, 240), 3)
    status = run(lab, sql(lab, SETTINGS[name]))
    check(lab, wanted_by_all())
    joins = {"isolated": 24, "pull-up": 1, "push-down": 9, "mem-opt": 1, "cpu-opt": 1}
    assert len(status["joins"]) == joins[name]
    slices = [len(s) for join in status["joins"] for s in join["slices"]]
    assert set(slices) == ({6} if name == "mem-opt" else {1}) or name == "cpu-opt"


@pytest.mark.stand_in
def test_the_chain_may_change_from_run_to_run_and_the_joins_may_not(lab: Any, rows: Any):
    lab.per_trigger = 1
    lab.add_files("A", rows(43, 120), 2)
    lab.add_files("B", rows(44, 120), 2)
    first = run(lab, sql(lab, SETTINGS["mem-opt"]), "available-now")
    with pytest.raises(Exception, match="strategy: was state-slice, is isolated; the rows that are kept would have"):
        run(lab, sql(lab, SETTINGS["isolated"]), "available-now")
    tail = [rows(seed, 240).slice(120) for seed in (43, 44)]
    for stream, table in zip("AB", tail, strict=True):
        lab.add_files(stream, table, 2)
    second = run(lab, sql(lab, "SET chain = 'cpu-opt';"))
    check(lab, wanted(lab.tables["A"], lab.tables["B"]))
    assert (first["chain"], second["chain"]) == ("mem-opt", "cpu-opt")
    assert first["strategy"] == second["strategy"] == "state-slice", "auto stays with what the checkpoint began with"


@pytest.mark.stand_in
def test_a_query_that_is_never_true_is_planned_away_and_says_so(lab: Any, rows: Any):
    lab.add_files("A", rows(45, 60), 1)
    lab.add_files("B", rows(46, 60), 1)
    text = lab.sql() + f"CREATE QUERY nothing AS {SELECT} AND A.v > 5 AND A.v < 3 WINDOW 1 hour;"
    status = run(lab, text)
    assert status["never"] == ["nothing"] and status["queries"]["nothing"]["total_rows"] == 0
    assert "nothing" not in status["joins"][0]["queries"]
    assert max(s["hi"] for side in status["joins"][0]["slices"] for s in side) == 20 * US, "no state for its hour"
    assert lab.got("nothing") == []
    lab.check()


@pytest.mark.stand_in
def test_status_predicts_what_it_measures(lab: Any, rows: Any):
    """Over a stream that has run for several windows, the steady state is near what is kept."""
    lab.per_trigger = 1
    lab.add_files("A", rows(47, 2000), 5)
    lab.add_files("B", rows(48, 2000), 5)
    (join,) = run(lab, lab.sql(), "available-now")["joins"]
    for side in join["slices"]:
        for piece in side:
            assert piece["rows"] == pytest.approx(piece["predicted_rows"], rel=0.3, abs=8), piece
    rates = join["comparisons_per_second"]
    assert rates["measured"] == pytest.approx(rates["predicted"], rel=0.3)
    assert join["predicted_bytes"] > 0
