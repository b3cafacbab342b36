"""Outer, semi, anti and as-of joins and bands, in one shared join, against the oracle."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from match_worlds import Story, random_query
from worlds import seeds

SEEDS = int(os.environ.get("MUNTIN_SEEDS", "60"))


@pytest.mark.parametrize("seed", seeds(SEEDS, 12))
def test_every_kind_of_join_gives_what_the_oracle_says(seed: int):
    draw = random.Random(seed)
    asked = [random_query(draw, f"q{n}") for n in range(draw.randint(1, 4))]
    story = Story(draw, asked)
    for n in range(story.length + 1):
        story.step(n)
    assert not sum(t.num_rows for late in story.job.late.values() for t in late)
    for a in asked:
        assert story.output(a.query.name) == a.answer(story.rows), (a.query, story.rows)


@pytest.mark.parametrize("seed", seeds(SEEDS // 2, 6))
def test_a_query_that_comes_later_is_right_from_when_it_says(seed: int):
    draw = random.Random(1000 + seed)
    asked = [random_query(draw, f"q{n}") for n in range(draw.randint(1, 3))]
    new, gone = random_query(draw, "new"), draw.choice([None, asked[-1]])
    story = Story(draw, asked)
    joins_at, complete = draw.randint(0, story.length), 0
    for n in range(story.length + 1):
        if n == joins_at:
            queries = {a.query.name: a.query for a in (*asked, new) if a is not gone}
            changed = story.job.change(replace(story.job.spec, queries=queries))
            complete = changed["new"].complete_from["new"]
        story.step(n)
    for a in asked:
        if a is not gone:
            assert story.output(a.query.name) == a.answer(story.rows), (a.query, story.rows)
    got, wanted = story.output("new"), new.answer(story.rows)
    assert [row for row in got if row[2] >= complete] == [row for row in wanted if row[2] >= complete], new.query
    assert not set(got) - set(wanted), new.query
