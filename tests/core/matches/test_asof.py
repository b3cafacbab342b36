"""As-of joins look at their partners from the newest back, and no further than some query has to."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from match_worlds import Story, random_query
from muntin.model import JoinKind
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import ROW, STREAMS, seeds


@pytest.mark.parametrize("seed", seeds(20, 5))
def test_as_of_joins_among_themselves_give_what_the_oracle_says(seed: int):
    draw = random.Random(9000 + seed)
    asked = []
    while len(asked) < 3:
        one = random_query(draw, f"q{len(asked)}")
        asked += [one] * (one.query.kind is JoinKind.ASOF)
    story = Story(draw, asked)
    for n in range(story.length + 1):
        story.step(n)
    for a in asked:
        assert story.output(a.query.name) == a.answer(story.rows), (a.query, story.rows)


def compared(*queries: str) -> tuple[int, list[int]]:
    """Partners looked at for one row of A after a hundred of B, and how many rows each query gets."""
    texts = "".join(f"CREATE QUERY q{n} AS {q};" for n, q in enumerate(queries))
    local = LocalJob(parse_job(STREAMS.format(late=0) + texts), checks=True)
    rows = [{"ts": n, "id": n, "k": 1, "g": "xy"[n % 2], "v": n} for n in range(100)]
    b = pa.Table.from_pylist(rows, schema=ROW)
    a = pa.Table.from_pylist([{"ts": 100, "id": 0, "k": 1, "g": "x", "v": 0}], schema=ROW)
    got = local.push({"A": a, "B": b}, ended=True)
    return local.counters()[0].comparisons, [got[f"q{n}"].num_rows for n in range(len(queries))]


def as_of(window: int, also: str = "", kind: str = "ASOF JOIN") -> str:
    on = f"ON A.k = B.k AND A.ts >= B.ts {also}"
    return f"SELECT A.id AS a, B.id AS b FROM A {kind} B {on} WINDOW {window} microseconds"


def test_the_newest_partner_is_found_in_one_step_for_all_windows():
    assert compared(as_of(50)) == (1, [1])
    assert compared(as_of(50), as_of(1000), as_of(20, kind="ASOF LEFT JOIN")) == (1, [1, 1, 1])
    assert compared(as_of(50), as_of(50, "AND B.v < 90")) == (11, [1, 1]), "up to the first that the second one selects"


def test_conditions_over_both_rows_and_other_joins_have_all_partners_looked_at():
    assert compared(as_of(50, "AND A.v + 95 > B.v"))[0] >= 49
    left = "SELECT A.id AS a, B.id AS b FROM A LEFT JOIN B ON A.k = B.k WINDOW 50 microseconds"
    count, rows = compared(as_of(50), left)
    assert count >= 49 and rows == [1, 49]
