"""EMIT FINAL over every kind of join: one row for each group, over all that the query writes without aggregates."""

from __future__ import annotations

import os
import random
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

SEEDS = int(os.environ.get("MUNTIN_SEEDS", "40"))
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
        return Asked(self.query, self.asked.keeps, self.asked.holds, self.asked.after)

    def answer(self, story: PromisedStory) -> list[tuple[Any, ...]]:
        return self.tell(story, self.asked.delivered(tuple(story.kept), tuple(story.promises)))

    def tell(self, story: PromisedStory, pairs: list[oracle.Pair], heard: int = -(1 << 60)) -> list[tuple[Any, ...]]:
        """What the oracle tells of what went out, by promises that are `heard` from a time on."""
        q, rows = self.query, tuple(story.kept)
        known = tuple([p for p in story.promises[side] if p.ts >= heard] for side in Side)

        def ends(pair: oracle.Pair) -> list[int]:
            key, keeps = (self.group_of(pair)[0],), tuple(self.asked.keeps)
            return oracle.ends(q.window, key, rows, KEYS, known, keeps, kind=q.kind, preserved=q.preserved)

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


def drawn(draw: random.Random, many: int, strategies: tuple[str, ...]) -> tuple[list[Totals], PromisedStory]:
    asked = [random_query(draw, f"q{n}") for n in range(draw.randint(1, many))]
    totals = [Totals(a, draw.random() < 0.3) for a in asked]
    beside = [a for a in asked if draw.random() < 0.5]
    while (story := PromisedStory(draw, [*(t.as_asked for t in totals), *beside], strategies)).how == "pjoin":
        pass
    return totals, story


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
