"""Queries come and go while data flows: every query gets the oracle's rows for the time it was there (semantics,
section 4), whatever happens beside it, and the state is what the present queries need."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.model import JobSpec
from muntin.plan.strategies import STRATEGIES
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, ROW, STREAMS, order_of, orders, queries, rows, summed

BEGINNING, END = -(10**9), 10**9


@dataclass
class Asked:
    """A query as long as it was there: results from `since` on, complete from `complete`, none from `until` on."""

    terms: dict
    since: int = BEGINNING
    complete: int | None = BEGINNING
    until: int = END
    got: list = field(default_factory=list)


@st.composite
def stories(draw: st.DrawFn) -> dict:
    """Micro-batches, and between them what happens to the queries: names to drop, queries to add or to replace."""
    steps = draw(st.integers(1, 5))
    order = draw(orders(steps))
    story = {
        **order,
        "lateness": draw(st.sampled_from([0, 2, 20])),
        "shards": draw(st.sampled_from([1, 2])),
        "strategy": draw(st.sampled_from(STRATEGIES.names)),
        "first": [draw(queries(f"q{n}", alike=True)) for n in range(draw(st.integers(1, 3)))],
        "steps": [],
    }
    for n in range(steps):
        names = [f"q{i}" for i in range(4)]
        story["steps"].append(
            {
                "rows": (draw(rows(2 * n)), draw(rows(2 * n + order["lead"]))),
                "rule": order["rules"][n],
                "drop": draw(st.lists(st.sampled_from(names), max_size=2, unique=True)),
                "add": [
                    draw(queries(name, alike=True))
                    for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
                ],
                "restart": draw(st.booleans()),
            }
        )
    return story


def spec_of(story: dict, present: dict[str, Asked], keep: dict) -> JobSpec:
    settings = f"SET strategy = '{story['strategy']}'; SET ordering = '{story['ordering']}';"
    text = settings + STREAMS.format(late=story["lateness"]) + keep["sql"]
    return parse_job(text + "\n".join(a.terms["sql"] for a in present.values()))


def play(story: dict) -> tuple[list[Asked], LocalJob]:
    """Everything that was ever asked, with what it got. One query stays from beginning to end."""
    keep = {**story["first"][0], "name": "always", "sql": story["first"][0]["sql"].replace("QUERY q0", "QUERY always")}
    always = Asked(keep)
    present = {q["name"]: Asked(q) for q in story["first"]}
    told = [always, *present.values()]
    local = LocalJob(spec_of(story, present, keep), story["shards"])
    for step in [*story["steps"], None]:
        batch = (
            {} if step is None else {s: pa.Table.from_pylist(r, ROW) for s, r in zip("AB", step["rows"], strict=True)}
        )
        if step and step["rule"] is not None:
            local.follow(step["rule"])
        for name, table in local.push(batch, ended=step is None).items():
            times = table["_ts"].cast(pa.int64()).to_pylist()
            found = zip(table["a"].to_pylist(), table["b"].to_pylist(), table["s"].to_pylist(), times, strict=True)
            (always if name == "always" else present[name]).got += found
        if step is None:
            break
        release = {q.name: shards[0].operator.release for shards in local.shards for q in shards[0].join.queries}
        adds = [q for q in step["add"] if q["name"] not in present or present[q["name"]].terms["sql"] != q["sql"]]
        same = {q["name"] for q in step["add"]} - {q["name"] for q in adds}
        for name in ({*step["drop"], *(q["name"] for q in adds)} & set(present)) - same:
            present.pop(name).until = release.get(name, BEGINNING) + 1
        added = {q["name"]: Asked(q) for q in adds}
        present |= added
        told += added.values()
        for name, changed in local.change(spec_of(story, present, keep)).items():
            added[name].since, added[name].complete = changed.applied_from, changed.complete_from[name]
        check_state(story, local, [keep, *(a.terms for a in present.values())])
        if step["restart"]:
            local.restart()
    return told, local


def check_state(story: dict, local: LocalJob, terms: list[dict]) -> None:
    """No row is kept that no present query can want."""
    for shards in local.shards:
        for shard in shards:
            operator = shard.operator
            mine = [q for q in terms if q["name"] in {q.name for q in shard.join.queries}]
            for side in (0, 1):
                stays = {c: int(k) for c, k in enumerate(operator.selections[side].retention)}
                longest = max(q["window"].side(side) for q in mine)
                assert all(stay <= longest for stay in stays.values())
                assert operator.state.rows(side) <= sum(operator.slice_rows(side)) + 0


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(stories())
def test_every_query_gets_its_rows_for_the_time_it_was_there(story):
    told, local = play(story)
    sides = [[step["rows"][side] for step in story["steps"]] for side in (0, 1)]
    admitted = [oracle.admit(side, story["lateness"])[0] for side in sides]
    for asked in told:
        q = asked.terms
        keys = (oracle.columns(*q["key"]), oracle.columns(*q["key"])) if q["key"] else None
        pairs = oracle.answer(q["window"], *admitted, keys, tuple(q["keeps"]), holds=q["pairs"], untils=q["untils"])
        every = [(p.left["id"], p.right["id"], summed(p.left["v"], p.right["v"]), p.ts) for p in pairs]
        # Of the rows at the very release point of a change, some came before it and some after.
        want = [row for row in every if asked.since - 1 <= row[-1] < asked.until]
        complete = END if asked.complete is None else asked.complete
        sure = [row for row in want if max(asked.since, complete) <= row[-1] and row[-1] + 1 < asked.until]
        got = sorted(asked.got, key=order_of)
        assert [row[-1] for row in asked.got] == sorted(row[-1] for row in asked.got)
        rest = sorted(want, key=order_of)
        for row in got:
            assert row in rest, "a row that the oracle does not have, or once too often"
            rest.remove(row)
        assert not [row for row in rest if row in sure], "a row is missing from where it is complete"
    for n in range(len(local.plan.joins)):
        for shard, counters in zip(local.shards[n], local.counters(n), strict=True):
            assert counters.state_rows == counters.held_rows == [0, 0] and not shard.log
            assert counters.held_pairs == 0


LATER = """SET strategy = 'isolated';
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, g STRING, v BIGINT) TIMESTAMP BY ts LATENESS {late} microseconds
  WITH (format = 'x', path = 'a');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, g STRING, v BIGINT) TIMESTAMP BY ts LATENESS {late} microseconds
  WITH (format = 'x', path = 'b');
CREATE QUERY first AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;"""


def _at(*times: int) -> pa.Table:
    return pa.Table.from_pylist([{"ts": ts, "id": ts, "k": 1, "g": "x", "v": 0} for ts in times], ROW)


def test_rows_that_an_idle_stream_brought_too_late_are_late_for_a_join_that_begins_then():
    text = LATER.format(late=0)
    local = LocalJob(parse_job(text))
    local.push({"A": _at(1), "B": _at(20)})
    local.push({}, idle=["A"])
    added = "CREATE QUERY later AS SELECT A.id AS a FROM A, B WHERE A.k = B.k WINDOW 30 microseconds;"
    local.change(parse_job(text + added))
    found = local.push({"A": _at(7, 21), "B": _at(22)}, ended=True)
    assert [t["id"].to_pylist() for t in local.late["A"] if len(t)] == [[7]]
    assert found["later"]["a"].to_pylist() == [21]


def test_a_join_that_begins_later_takes_no_row_for_one_of_the_last_few_that_may_not_be():
    """Rows 6 and 7 of B have come before: row 5, which comes after, is none of the last two at 8."""
    text = LATER.format(late=10)
    local = LocalJob(parse_job(text))
    local.push({"A": _at(1), "B": _at(6, 7)})
    added = "CREATE QUERY later AS SELECT B.id AS b FROM A [RANGE 9 microseconds] A, B [ROWS 2] B WHERE A.k = B.k;"
    local.change(parse_job(text + added))
    found = local.push({"A": _at(9), "B": _at(5, 8, 12)}, ended=True)
    assert found["later"]["b"].to_pylist() == [8, 12]
