"""EMIT FINAL over every kind of join: one row for each group, over all that the query writes without aggregates."""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from core.matches.test_promises import PromisedStory, streams
from match_worlds import KEYS, Asked, random_query
from muntin import oracle
from muntin.core.punctuations import compaction
from muntin.model import JoinKind, Query, Side, SqlError
from muntin.plan.explain import explain
from muntin.sql import parse_job
from muntin.testing import LocalJob

SEEDS = int(os.environ.get("MUNTIN_SEEDS", "16"))
CALLS = "COUNT(*) AS n, COUNT({0}.v) AS x, SUM({1}.v) AS y, MIN({0}.v) AS z, COUNT(DISTINCT {1}.g) AS w"


@pytest.fixture(autouse=True)
def rows_move(monkeypatch: pytest.MonkeyPatch):
    """Let chunks be rid of dead rows also where there are few."""
    monkeypatch.setattr(compaction, "SLACK", 0)


class Totals:
    """The query that adds up what another one writes."""

    def __init__(self, asked: Asked, by_g: bool):
        q, self.asked = asked.query, asked
        shown = "AB"[q.subject] if q.kind in (JoinKind.SEMI, JoinKind.ANTI) else ""
        self.first, self.second = shown * 2 or ("AB" if q.window.left % 2 else "BA")
        self.group = f"{self.first}.g" if by_g else ""
        key = "COALESCE(A.k, B.k)" if len(q.preserved) == 2 or not shown else f"{shown}.k"
        key = "AB"[q.preserved[0]] + ".k" if len(q.preserved) == 1 else key
        groups = ", ".join([key, *([self.group] if by_g else [])])
        text = (
            streams(["", ""], None)
            + f"CREATE QUERY t_{q.name} AS SELECT {key} AS k{f', {self.group} AS g' if by_g else ''}, "
            + CALLS.format(self.first, self.second)
            + f" FROM A, B WHERE A.k = B.k GROUP BY {groups} EMIT FINAL WINDOW 1 s;"
        )
        made = parse_job(text).queries[f"t_{q.name}"]
        self.query: Query = replace(q, name=made.name, select=made.select, aggregation=made.aggregation)

    def group_of(self, pair: oracle.Pair) -> tuple[Any, ...]:
        key = pair.right["k"] if pair.left["k"] is None else pair.left["k"]
        return (key, *([self._row(pair, self.first)["g"]] if self.group else []))

    def values(self, pairs: list[oracle.Pair]) -> tuple[Any, ...]:
        x = [v for p in pairs if (v := self._row(p, self.first)["v"]) is not None]
        y = [v for p in pairs if (v := self._row(p, self.second)["v"]) is not None]
        different = {g for p in pairs if (g := self._row(p, self.second)["g"]) is not None}
        return len(pairs), len(x), sum(y) if y else None, min(x, default=None), len(different)

    def _row(self, pair: oracle.Pair, stream: str) -> oracle.Row:
        return pair.side(Side("AB".index(stream)))

    @property
    def as_asked(self) -> Asked:
        return Asked(self.query, self.asked.keeps, self.asked.holds, self.asked.after, self.asked.untils)

    def answer(self, story: PromisedStory) -> list[tuple[Any, ...]]:
        return self.tell(story, self.asked.delivered(tuple(story.kept), tuple(story.promises)))

    def tell(self, story: PromisedStory, pairs: list[oracle.Pair], heard: int = -(1 << 60)) -> list[tuple[Any, ...]]:
        """What the oracle tells of what went out, by promises that are `heard` from a time on."""
        q, rows = self.query, tuple(story.kept)
        known = tuple([p for p in story.promises[side] if p.ts >= heard] for side in Side)

        def ends(pair: oracle.Pair) -> list[int]:
            key, keeps = (self.group_of(pair)[0],), tuple(self.asked.keeps)
            terms = {"kind": q.kind, "preserved": q.preserved, "untils": self.asked.untils}
            return oracle.ends(q.window, key, rows, KEYS, known, keeps, **terms)

        end = max((row["ts"] for side in story.rows for row in side), default=0)
        told = oracle.final(pairs, self.group_of, self.values, ends, end)
        return sorted(((*g, *values, at) for at, g, values in told), key=str)


def output(story: PromisedStory, totals: Totals) -> list[tuple[Any, ...]]:
    """The rows of a query, which must be in order."""
    got = pa.concat_tables(story.found[totals.query.name])
    rows = list(zip(*(column.to_pylist() for column in got.set_column(
        got.num_columns - 1, "_ts", got["_ts"].cast(pa.int64())).columns), strict=True))  # fmt: skip
    assert [row[-1] for row in rows] == sorted(row[-1] for row in rows)
    return sorted(rows, key=str)


def preserving(draw: random.Random, name: str) -> Asked:
    """A random query, often one that preserves streams, perhaps both."""
    least = draw.choice([0, 1, 2])
    while len((asked := random_query(draw, name)).query.preserved) < least:
        pass
    return asked


def drawn(draw: random.Random, many: int, strategies: tuple[str, ...]) -> tuple[list[Totals], PromisedStory]:
    asked = [preserving(draw, f"q{n}") for n in range(draw.randint(1, many))]
    totals = [Totals(a, draw.random() < 0.3) for a in asked]
    beside = [a for a in asked if draw.random() < 0.5]
    while (story := PromisedStory(draw, [*(t.as_asked for t in totals), *beside], strategies)).how == "pjoin":
        pass
    return totals, story


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_totals_are_those_of_all_that_the_query_writes_whatever_the_cuts_shards_and_restarts(seed: int):
    totals, story = drawn(random.Random(seed), 3, ("state-slice", "pull-up", "push-down", "isolated"))
    for n in range(story.length + 1):
        story.step(n)
    for t in totals:
        assert output(story, t) == t.answer(story), (t.query, story.kinds, story.binding, story.rows)
    for n in range(len(story.job.plan.joins)):
        for shard, counters in zip(story.job.shards[n], story.job.counters(n), strict=True):
            assert counters.groups == 0 and not shard.log, "an ended job keeps nothing"


# -- by the clock -----------------------------------------------------------------------------------------------------


def asks(kinds: tuple[str, str], query: str) -> LocalJob:
    return LocalJob(parse_job(streams(list(kinds), None, late=0) + f"CREATE QUERY q AS {query};"), checks=True)


def rows(*of: tuple[Any, ...]) -> pa.Table:
    """(time, key) is a row, (time, key, True) a punctuation; `v` is the time."""
    made = [{"ts": r[0], "id": n, "k": r[1], "v": r[0], "closed": len(r) > 2} for n, r in enumerate(of)]
    return pa.Table.from_pylist(made, schema=PromisedStory.schema)


def found(table: pa.Table) -> list[tuple[Any, ...]]:
    *columns, times = table.columns
    return list(zip(*(c.to_pylist() for c in columns), times.cast(pa.int64()).to_pylist(), strict=True))


ORDERS = (
    "SELECT A.k, COUNT(*) AS n, COUNT(B.v) AS paid FROM A LEFT JOIN B ON A.k = B.k GROUP BY A.k EMIT FINAL "
    "WINDOW 10 microseconds"
)


def test_a_key_without_any_pair_has_a_row_when_its_last_row_would_be_out():
    local = asks(("marks", ""), ORDERS)
    a = rows((1, 7), (2, 8), (3, 7), (4, 7, True), (5, 8, True), (30, 9))
    assert found(local.push({"A": a, "B": rows((2, 7), (30, 1))})["q"]) == [(7, 2, 2, 14), (8, 1, 0, 15)]


def test_a_promise_of_the_other_stream_alone_ends_no_group_of_an_outer_join():
    local = asks(("", "marks"), ORDERS)
    got = local.push({"A": rows((1, 7), (30, 9)), "B": rows((2, 7), (3, 7, True), (30, 1))})
    assert not got["q"].num_rows, "7 may come again, and would go out alone"
    assert found(local.push({}, ended=True)["q"]) == [(7, 1, 1, 30), (9, 1, 0, 30)]


def test_rows_without_a_key_are_a_group_that_is_told_at_the_end():
    query = ORDERS.replace("LEFT", "FULL").replace("A.k,", "k,").replace("BY A.k", "BY k")
    query = query.replace("ON A.k = B.k", "USING (k)")
    local = asks(("marks", "marks"), query)
    local.push({"A": rows((1, None), (20, 5)), "B": rows((2, None), (2, None), (20, 6))})
    assert found(local.push({}, ended=True)["q"]) == [(5, 1, 0, 20), (6, 1, 1, 20), (None, 3, 2, 20)]


def test_totals_of_several_windows_have_rows_without_a_match_of_their_own():
    """7 has a match in the larger window only; pairs of inner joins are still added up once for both."""
    outer = "".join(f"CREATE QUERY o{n} AS {ORDERS.replace('10 micro', f'{n} micro')};" for n in (3, 9))
    inner = outer.replace("LEFT JOIN", "JOIN").replace("QUERY o", "QUERY i")
    local = LocalJob(parse_job(streams(["marks", "marks"], None, late=0) + outer + inner), checks=True)
    got = local.push({"A": rows((1, 7), (2, 7, True), (30, 9)), "B": rows((6, 7), (7, 7, True), (30, 8))})
    assert [found(got[name]) for name in ("o3", "o9", "i3", "i9")] == [
        [(7, 1, 0, 5)], [(7, 1, 1, 11)], [], [(7, 1, 1, 7)]]  # fmt: skip
    families = [sorted(q.name for q in state.family.queries) for state in local.shards[0][0].operator.finals.states]
    assert sorted(families) == [["i3", "i9"], ["o3"], ["o9"]]


def test_an_interval_that_begins_later_is_added_up_without_what_comes_before():
    query = (
        "SELECT A.k, COUNT(*) AS n, MIN(B.v) AS first FROM A JOIN B ON A.k = B.k AND B.ts BETWEEN "
        "A.ts + INTERVAL 2 MICROSECONDS AND A.ts + INTERVAL 5 MICROSECONDS GROUP BY A.k EMIT FINAL"
    )
    local = asks(("unique", ""), query)
    got = local.push({"A": rows((10, 7), (40, 8)), "B": rows((11, 7), (12, 7), (15, 7), (16, 7), (40, 1))})
    assert found(got["q"]) == [(7, 2, 12, 15)]


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("SELECT A.k, COUNT(*) AS n FROM A LEFT JOIN B ON A.k = B.k GROUP BY A.k", "other than EMIT FINAL", "FINAL"),
        ("SELECT DISTINCT A.k FROM A LEFT SEMI JOIN B ON A.k = B.k", "other than EMIT FINAL", "EMIT FINAL"),
        ("SELECT COUNT(*) AS n FROM A LEFT JOIN B ON A.k = B.k EMIT FINAL", "GROUP BY the join key", "GROUP BY A.k$"),
        ("SELECT B.k, COUNT(*) AS n FROM A LEFT JOIN B ON A.k = B.k GROUP BY B.k EMIT FINAL", "GROUP BY", "BY A.k$"),
        ("SELECT A.k, COUNT(*) AS n FROM A RIGHT JOIN B ON A.k = B.k GROUP BY A.k EMIT FINAL", "GROUP BY", "BY B.k$"),
        (
            "SELECT A.k, COUNT(*) AS n FROM A FULL JOIN B ON A.k = B.k GROUP BY A.k EMIT FINAL",
            "GROUP BY", r"BY COALESCE\(A.k, B.k\)$",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_told_once_says_what_to_write(query: str, message: str, hint: str):
    with pytest.raises(SqlError, match=message) as error:
        parse_job(streams(["", ""], None) + f"CREATE QUERY q AS {query} WINDOW 1 s;")
    assert error.value.hint is not None and re.search(hint, error.value.hint)


def test_explain_says_whose_promises_end_a_group():
    def shown(join: str, key: str, kinds: tuple[str, str] = ("marks", "marks")) -> str:
        query = f"CREATE QUERY q AS SELECT {key} AS k, COUNT(*) AS n FROM A {join} B ON A.k = B.k GROUP BY {key} "
        return explain(parse_job(streams(list(kinds), None) + query + "EMIT FINAL WINDOW 1 s;"))

    assert "told once, when A says that the key is over" in shown("LEFT JOIN", "A.k")
    assert "told once, when B says that the key is over" in shown("RIGHT JOIN", "B.k")
    assert "told once, when A and B say that the key is over" in shown("FULL JOIN", "COALESCE(A.k, B.k)")
    assert "told once, when A or B says that the key is over" in shown("LEFT SEMI JOIN", "A.k")
    assert "told when the streams end: no promise says before" in shown("LEFT JOIN", "A.k", ("", "marks"))
    assert "told when the streams end" in shown("FULL JOIN", "COALESCE(A.k, B.k)", ("marks", ""))
