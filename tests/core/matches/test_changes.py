"""Queries of every kind of join come and go while promises are in force."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from core.matches.test_finals import Totals, output, preserving
from core.matches.test_promises import PromisedStory
from match_worlds import STRATEGIES, Asked, random_query
from muntin import oracle
from muntin.core.punctuations import compaction
from muntin.model import Query
from worlds import seeds

SEEDS = int(os.environ.get("MUNTIN_SEEDS", "16"))
BEGINNING, END = -(1 << 60), 1 << 60


@pytest.fixture(autouse=True)
def rows_move(monkeypatch: pytest.MonkeyPatch):
    """Let chunks be rid of dead rows also where there are few."""
    monkeypatch.setattr(compaction, "SLACK", 0)


@dataclass
class Visit:
    """A query, and when it is there: between two steps, and so in output from a time on, all of it from another on."""

    asked: Asked
    first: int
    last: int
    since: int = BEGINNING
    complete: int | None = BEGINNING
    until: int = END

    @property
    def name(self) -> str:
        return self.asked.query.name


class ChangingStory(PromisedStory):
    """A job whose queries come and go; those that share a join know its promises, which bind to the end."""

    def __init__(self, draw: random.Random, visits: list[Visit], strategies: tuple[str, ...]):
        self.visits = visits
        first = [visit.asked for visit in visits if not visit.first]
        while True:
            super().__init__(draw, [visit.asked for visit in visits], strategies)
            if self.binding is not None and self.how == "pwjoin":
                break
        self.job = self._job([asked.query for asked in first])

    def step(self, n: int) -> None:
        present = [visit for visit in self.visits if visit.first <= n < visit.last]
        if {visit.name for visit in present} != set(self.job.spec.queries):
            self._change(present)
        super().step(n)

    def _change(self, present: list[Visit]) -> None:
        releases = {
            query.name: shards[0].operator.release for shards in self.job.shards for query in shards[0].join.queries
        }
        for visit in self.visits:
            if visit.name in releases and visit not in present:
                visit.until = releases[visit.name] + 1
        queries: dict[str, Query] = {visit.name: visit.asked.query for visit in present}
        for name, changed in self.job.change(replace(self.job.spec, queries=queries)).items():
            (visit,) = (visit for visit in self.visits if visit.name == name)
            visit.since, visit.complete = changed.applied_from, changed.complete_from[name]


def visits_of(draw: random.Random, asked: list[Asked]) -> list[Visit]:
    """The first query stays; the others come or go, or do both, after some step."""
    found = [Visit(asked[0], 0, END)]
    for a in asked[1:]:
        first = draw.choice([0, 1, 1, 2, 3])
        found.append(Visit(a, first, draw.choice([END, END, first + 1, first + 2])))
    return found


def check(story: ChangingStory, visit: Visit) -> None:
    """All rows are the oracle's, none comes twice, and none is missing from when on it is complete."""
    if visit.name not in story.found:
        return
    wanted, got = visit.asked.answer(tuple(story.kept), tuple(story.promises)), story.output(visit.name)
    there = [row for row in wanted if visit.since - 1 <= row[2] < visit.until]
    assert not Counter(got) - Counter(there), (visit, story.kinds, story.rows)
    assert visit.complete is not None
    sure = [row for row in there if max(visit.since, visit.complete) <= row[2] < visit.until - 1]
    assert not Counter(sure) - Counter(got), (visit, story.kinds, story.rows)
    over = story.told(visit.name)
    by_id = {row["id"]: row["k"] for rows in story.kept for row in rows}
    for left, right, ts in got:
        key = by_id[left if left is not None else right]
        assert all(ts <= at for k, at in over if k == key), "a row after the output was over"


@pytest.mark.parametrize("seed", seeds(SEEDS, 5))
def test_queries_of_every_kind_come_and_go_while_promises_are_in_force(seed: int):
    draw = random.Random(seed)
    asked = [random_query(draw, f"q{n}") for n in range(draw.randint(2, 4))]
    story = ChangingStory(draw, visits_of(draw, asked), STRATEGIES)
    for n in range(story.length + 1):
        story.step(n)
    knows = story.strategy in ("state-slice", "pull-up")  # a join that begins later knows no promises from before
    for visit in story.visits if knows else story.visits[:1]:
        check(story, visit)
    for shards in story.job.shards:
        for shard in shards:
            counters = shard.operator.counters
            assert counters.state_rows == counters.held_rows == [0, 0] and not shard.log, "an ended job keeps nothing"


def written(story: ChangingStory, visit: Visit) -> list[oracle.Pair]:
    """What a query wrote, as the oracle has it."""
    by_id = {row["id"]: row for rows in story.kept for row in rows} | {None: oracle.NULLS}
    return [oracle.Pair(by_id[left], by_id[right], ts) for left, right, ts in story.output(visit.name)]


def heard_from(visit: Visit) -> int:
    """The time from which a query that came later knows who has a match, and hears of promises."""
    query = visit.asked.query
    if visit.since == BEGINNING or not query.preserved:
        return BEGINNING
    assert visit.complete is not None
    return visit.complete - max(query.emitted_after(side) for side in query.preserved)


@pytest.mark.parametrize("seed", seeds(SEEDS // 2, 3))
def test_totals_that_come_later_are_those_of_what_the_query_writes_from_then_on(seed: int):
    draw = random.Random(7000 + seed)
    asked = [preserving(draw, f"q{n}") for n in range(draw.randint(2, 3))]
    plain = visits_of(draw, asked)
    totals = [Totals(visit.asked, draw.random() < 0.3) for visit in plain]
    story = ChangingStory(
        draw,
        [*plain, *(Visit(t.as_asked, visit.first, visit.last) for t, visit in zip(totals, plain, strict=True))],
        ("state-slice", "pull-up"),
    )
    for n in range(story.length + 1):
        story.step(n)
    for visit, t in zip(plain, totals, strict=True):
        check(story, visit)
        if visit.last == END and visit.first <= story.length:
            told = t.tell(story, written(story, visit), heard_from(visit))
            assert output(story, t) == told, (t.query, visit, story.kinds, story.rows)
