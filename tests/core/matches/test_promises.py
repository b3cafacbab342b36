"""Promises and joins that are not inner: the same answers, fewer rows, and outputs that are over when they say so."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from match_worlds import KEYS, STRATEGIES, Asked, Story, job_of, random_query, random_rows
from muntin import oracle
from muntin.core.punctuations import compaction
from muntin.model import JoinKind, Query, Side
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import ROW

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("MUNTIN_SEEDS", "40"))
MARKED = ROW.append(pa.field("closed", pa.bool_()))
MARKS = {
    "": "",
    "marks": " PUNCTUATION WHEN closed",
    "unique": "",
    "both": " PUNCTUATION WHEN closed",
    "range": " PUNCTUATION WHEN closed FOR k BETWEEN v AND v + 1",
}
NEVER = 1 << 60


def streams(kinds: list[str], binding: int | None, how: str = "pwjoin", late: int = 3) -> str:
    text = f"SET punctuations = '{how}';"
    for name, kind in zip("AB", kinds, strict=True):
        unique = ", UNIQUE (k)" if kind in ("unique", "both") else ""
        bound = f" BINDING {binding} microseconds" if kind and binding else ""
        text += (
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, g STRING, v BIGINT, closed BOOLEAN{unique}) "
            f"TIMESTAMP BY ts LATENESS {late} microseconds{MARKS[kind]}{bound} "
            f"WITH (format = 'parquet', path = '{name}');"
        )
    return text


class PromisedStory(Story):
    """A random job whose streams promise in some way, and now and then break their word."""

    schema = MARKED

    def __init__(self, draw: random.Random, asked: list[Asked], strategies: tuple[str, ...] = STRATEGIES):
        self.kinds = [draw.choice(list(MARKS)) for _ in "AB"]
        self.strategy = draw.choice(strategies)
        shared = self.strategy in ("state-slice", "pull-up")
        self.binding = draw.choice([None, 40]) if shared else 40  # longer than the streams
        self.how = draw.choice(["pwjoin", "pwjoin", "pjoin"]) if all(self.kinds) else "pwjoin"
        super().__init__(draw, asked)
        windows = [a.query.window.side(side) for a in asked for side in Side]
        binding = NEVER if self.how == "pjoin" else max(1, self.binding or 0, *windows)
        self.kept: Any = []
        self.broken: Any = []
        self.promises: Any = []
        for side in Side:
            data = [r for r in self.rows[side] if not self._is_mark(side, r)]
            marks = [m for r in self.rows[side] if self._is_mark(side, r) for m in self._meant(side, r)]
            unique = self.kinds[side] in ("unique", "both")
            kept, broken, promises = oracle.promised(data, marks, KEYS[side], binding, unique)
            self.kept.append(kept)
            self.broken.append(broken)
            self.promises.append(promises)

    def _job(self, queries: list[Query]) -> LocalJob:
        return job_of(queries, self.strategy, self.draw.randint(1, 3), streams(self.kinds, self.binding, self.how))

    def _rows(self, stream: str) -> list[dict[str, Any]]:
        rows = random_rows(self.draw, stream, self.draw.randint(0, 14))
        return [{**row, "closed": self.draw.choice([None, False, False, True])} for row in rows]

    def _is_mark(self, side: Side, row: dict[str, Any]) -> bool:
        return bool(MARKS[self.kinds[side]]) and row["closed"] is True

    def _meant(self, side: Side, row: dict[str, Any]) -> list[dict[str, Any]]:
        """Punctuations of single keys that stand for one of a range."""
        if self.kinds[side] != "range":
            return [row]
        return [] if row["v"] is None else [{**row, "k": value} for value in (row["v"], row["v"] + 1)]

    def told(self, name: str) -> list[tuple[int, int]]:
        """Keys and times of the punctuations of an output."""
        found = []
        for part in self.job.punctuations.get(name, []):
            found += zip(part["k"].to_pylist(), part["_ts"].cast(pa.int64()).to_pylist(), strict=True)
        return sorted(found)


@pytest.fixture(autouse=True)
def rows_move(monkeypatch: pytest.MonkeyPatch):
    """Let chunks be rid of dead rows also where there are few."""
    monkeypatch.setattr(compaction, "SLACK", 0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_promises_change_no_answer_of_any_kind_of_join(seed: int):
    draw = random.Random(seed)
    asked = [random_query(draw, f"q{n}") for n in range(draw.randint(1, 4))]
    story = PromisedStory(draw, asked)
    for n in range(story.length + 1):
        story.step(n)
    for a in asked:
        assert story.output(a.query.name) == a.answer(tuple(story.kept), tuple(story.promises)), (a.query, story.rows)
    for n, join in enumerate(story.job.plan.joins):
        broken = [sum(c.broken[side] for c in story.job.counters(n)) for side in Side]
        whole = all(partition is None for partition in join.partitions)
        assert not whole or broken == [len(rows) for rows in story.broken]
        for shard, counters in zip(story.job.shards[n], story.job.counters(n), strict=True):
            assert counters.state_rows == counters.held_rows == [0, 0] and not shard.log, "an ended job keeps nothing"


def ends_of(story: PromisedStory, a: Asked) -> list[tuple[int, int]]:
    """When the output of a query is over for each key."""
    found, q, promises = [], a.query, tuple(story.promises)
    for key in {tuple(p.key) for side in Side for p in story.promises[side]}:
        ends = oracle.ends(q.window, key, tuple(story.kept), KEYS, promises, kind=q.kind, preserved=q.preserved)
        found += [(key[0], end) for end in ends]
    return sorted(found)


@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_an_output_is_over_for_a_key_when_its_last_row_is_out(seed: int):
    draw = random.Random(5000 + seed)
    asked = [random_query(draw, f"q{n}") for n in range(draw.randint(1, 3))]
    while (story := PromisedStory(draw, asked, ("state-slice",))).how == "pjoin" or "range" in story.kinds:
        pass
    for n in range(story.length + 1):
        story.step(n)
    for a in asked:
        if not a.query.preserved:
            continue
        told = story.told(a.query.name)
        assert told == ends_of(story, a), (a.query, story.rows)
        over = defaultdict(list)
        for key, at in told:
            over[key].append(at)
        by_id = {row["id"]: row["k"] for rows in story.kept for row in rows}
        promised = [(next(iter(p.key)), p.until) for side in a.query.preserved for p in story.promises[side]]
        for left, right, ts in story.output(a.query.name):
            key = by_id[left if left is not None else right]
            lapsed = any(k == key and until < ts for k, until in promised)
            assert lapsed or all(ts <= at for at in over[key]), "a row after the output was over"


# -- what is freed ----------------------------------------------------------------------------------------------------


def rows(*of: tuple[Any, ...]) -> pa.Table:
    """(time, key) is a row, (time, key, True) a punctuation."""
    return pa.Table.from_pylist(
        [{"ts": r[0], "id": n, "k": r[1], "closed": len(r) > 2} for n, r in enumerate(of)], schema=MARKED
    )


def asks(join: str, kinds: tuple[str, str], select: str = "A.id AS a, B.id AS b") -> LocalJob:
    query = f"CREATE QUERY q AS SELECT {select} FROM A {join} B ON A.k = B.k WINDOW 100 microseconds;"
    return LocalJob(parse_job(streams(list(kinds), None, late=0) + query), checks=True)


def found(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(table[c].to_pylist() for c in "ab"), table["_ts"].cast(pa.int64()).to_pylist(), strict=True))


def test_a_promise_of_the_other_stream_frees_rows_that_are_still_told():
    local = asks("LEFT JOIN", ("", "marks"))
    got = local.push({"A": rows((1, 7), (2, 8), (30, 9)), "B": rows((1, 7), (3, 7, True), (4, 8, True), (30, 9))})
    counters = local.counters()[0]
    assert counters.purged == [2, 0] and counters.state_rows == [1, 2], "7 and 8 of A wait for nobody"
    local.restart()
    more = local.push({"A": rows((40, 8), (41, 7), (50, 9)), "B": rows((50, 9))})
    counters = local.counters()[0]
    assert counters.dropped == [2, 0] and counters.state_rows == [2, 3], "nor do those that come later"
    last = local.push({}, ended=True)
    assert found(got["q"]) == [(0, 0, 1), (2, 3, 30)] and found(more["q"])[0] == (1, 0, 41)
    assert found(last["q"]) == [(1, None, 102), (0, None, 140)]


def test_a_promise_of_the_preserved_stream_frees_the_rows_that_it_would_meet():
    local = asks("LEFT JOIN", ("unique", ""))
    local.push({"A": rows((5, 7), (30, 9)), "B": rows((1, 7), (2, 7), (6, 7), (7, 7), (30, 9))})
    counters = local.counters()[0]
    assert counters.purged[1] + counters.dropped[1] == 5 and counters.state_rows == [2, 0]


def test_freed_rows_give_their_room_back_and_those_without_a_match_are_told_after_a_restart():
    local = asks("LEFT ANTI JOIN", ("", "marks"), "A.id AS a, CAST(NULL AS BIGINT) AS b")
    a = rows(*((n % 50, n % 10) for n in range(1000)), (60, 99))
    local.push({"A": a, "B": rows(*((3, k) for k in range(8)), *((55, k, True) for k in range(10)), (60, 98))})
    operator = local.shards[0][0].operator
    assert local.counters()[0].purged == [1000, 0] and operator.state.rows(Side.LEFT) == 1
    assert len(operator.payload[Side.LEFT]) <= 200 + 1, "those that have met a row need not be told"
    local.restart()
    got = local.push({}, ended=True)["q"]
    assert got.num_rows == 201 and {n % 10 for n in got["a"].to_pylist() if n < 1000} == {8, 9}


@pytest.mark.parametrize("kinds", [("unique", ""), ("both", "unique"), ("range", ""), ("marks", "range")])
def test_rows_without_a_key_make_no_promise_and_break_none(kinds):
    local = asks("FULL JOIN", kinds)
    got = local.push({"A": rows((1, None), (2, None), (2, 5)), "B": rows((1, None), (2, None))}, ended=True)["q"]
    assert got.num_rows == 5 and local.counters()[0].broken == [0, 0]


def test_a_row_that_broke_a_promise_is_not_told_after_a_restart():
    local = asks("LEFT JOIN", ("marks", ""))
    local.push({"A": rows((1, 7, True), (2, 7), (9, 9)), "B": rows((9, 9))})
    assert local.counters()[0].broken == [1, 0]
    local.restart()
    assert found(local.push({}, ended=True)["q"]) == []


def test_kinds_of_joins_are_all_there():
    draw = random.Random(0)
    kinds = {(q.kind, q.preserved) for n in range(200) for q in [random_query(draw, "q").query]}
    assert len(kinds) == 2 + 2 + 2 * 2 + 1 + 1 and {k for k, _ in kinds} == set(JoinKind)
