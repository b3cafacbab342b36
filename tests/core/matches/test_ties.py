"""Rows of one time that come in two micro-batches: a row that is answered at its own time has seen all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from muntin.core.batch import Arrivals
from muntin.core.operator import Operator
from muntin.core.results import counted
from muntin.core.step import Step
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import ROW, STREAMS


def rows(*given: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"ts": ts, "id": id, "k": 1, "g": "x", "v": 0} for ts, id in given], ROW)


def job(*queries: str, **settings: str) -> LocalJob:
    given = "".join(f"SET {name} = '{value}';" for name, value in settings.items())
    texts = "".join(f"CREATE QUERY q{n} AS SELECT {query};" for n, query in enumerate(queries))
    return LocalJob(parse_job(given + STREAMS.format(late=0) + texts))


def told(found: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[:-1] for row in found["q0"].to_pylist()]


ASOF = "A.id AS a, B.id AS b FROM A ASOF LEFT JOIN B ON A.k = B.k AND A.ts >= B.ts WINDOW 5 microseconds"
PAST = "A.id AS a FROM A LEFT ANTI JOIN B ON A.k = B.k AND B.ts = A.ts - INTERVAL 4 MICROSECONDS"


def test_an_as_of_join_waits_for_the_last_partner_of_the_same_time():
    local = job(ASOF)
    assert told(local.push({"A": rows((3, 1)), "B": rows((3, 10))})) == []
    assert told(local.push({"B": rows((3, 11), (4, 12)), "A": rows((4, 2))})) == [(1, 11)]
    assert told(local.push({}, ended=True)) == [(2, 12)]


@pytest.mark.parametrize("query", [ASOF, PAST])
def test_a_row_of_the_last_time_that_comes_later_is_told_too(query):
    local = job(query)
    local.push({"A": rows((3, 1)), "B": rows((9, 10))})
    first = [row[0] for row in told(local.push({"A": rows((3, 2), (5, 3))}))]
    assert first == [1, 2]
    assert [row[0] for row in told(local.push({}, ended=True))] == [3]


def test_a_query_that_waits_for_ties_holds_results_back_and_never_takes_the_release_point_back():
    local = job("A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 5 microseconds")
    local.push({"A": rows((3, 1)), "B": rows((3, 10))})
    before = local.shards[0][0].operator.release
    local.change(parse_job(STREAMS.format(late=0) + "".join(
        f"CREATE QUERY q{n} AS SELECT {q};" for n, q in enumerate(
            ["A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 5 microseconds", ASOF]
        )
    )))  # fmt: skip
    local.push({})
    assert local.shards[0][0].operator.release == before == 3
    assert told(local.push({"A": rows((3, 2)), "B": rows((4, 11))})) == [(2, 10)]


def test_rows_without_a_match_are_counted_beside_those_that_met_somebody_now(monkeypatch):
    counts: list[dict[str, dict[int, int]]] = []
    advance = Operator.advance

    def timed(operator: Operator, arrivals: Arrivals) -> Step:
        step = advance(operator, replace(arrivals, moment=len(counts) + 1))
        counts.append(counted(step.found))
        return step

    monkeypatch.setattr(Operator, "advance", timed)
    local = job("A.id AS a, B.id AS b FROM A LEFT JOIN B ON A.k = B.k AND B.id > 10 WINDOW 2 microseconds")
    local.push({"A": rows((1, 1), (2, 2)), "B": rows((1, 10))})
    local.push({"A": rows((3, 3), (9, 4)), "B": rows((3, 11), (9, 12))})
    assert counts == [{}, {"q0": {2: 4}}], "two pairs, and two rows of which it is certain only now"


def test_what_is_late_because_its_stream_was_idle_is_reported_once_for_two_joins_of_the_same_streams():
    query = "A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW {} microseconds"
    local = job(query.format(3), query.format(5), strategy="isolated")
    assert len(local.plan.joins) == 2
    local.push({"A": rows((3, 1)), "B": rows((9, 10))})
    local.push({}, idle=["A"])
    local.push({"A": rows((5, 2), (9, 3))})
    assert [t.num_rows for t in local.late["A"] if t.num_rows] == [1]


def test_rows_that_only_look_for_earlier_ones_wait_for_them_under_filter_order_too():
    """Such rows are not kept: joined ahead of the other stream, they would miss what it brings later."""
    within = "B.ts BETWEEN A.ts + INTERVAL 3 MICROSECONDS AND A.ts + INTERVAL 5 MICROSECONDS"
    local = job(f"A.id AS a, B.id AS b FROM A JOIN B ON A.k = B.k AND {within}", ordering="filter-order")
    local.push({"B": rows((10, 10), (11, 11))})
    local.push({"A": rows((6, 1), (7, 2))})
    assert sorted(told(local.push({}, ended=True))) == [(1, 10), (1, 11), (2, 10), (2, 11)]
