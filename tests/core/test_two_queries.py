"""Queries over two other queries whose rows lie anywhere: against the definition, for any cut, shards, restarts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from core.test_trees import _batches, _rows, _run, _spec, _table
from muntin.model import Side, UsageError
from muntin.oracle import answer_of_many
from muntin.testing import LocalJob
from worlds import seeds

SEEDS = seeds(16, 4)
PAIRS = ("AB", "CD", "AC", "AB", "BA", "BD")
Rows = list[dict]


@dataclass(frozen=True)
class Pairs:
    """A query over two streams by one column, or over three, whose rows have a number, a key and another column."""

    name: str
    streams: str
    by: tuple[str, ...]
    size: int

    @property
    def statement(self) -> str:
        first, last = self.streams[0], self.streams[-1]
        links = [f"{a}.{c} = {b}.{c}" for a, b, c in zip(self.streams, self.streams[1:], self.by, strict=False)]
        select = f"{first}.id * 100 + {last}.id AS id, {first}.k AS k, {last}.j AS j, {first}.v AS v"
        froms = ", ".join(self.streams)
        return f"CREATE QUERY {self.name} AS SELECT {select} FROM {froms} WHERE {' AND '.join(links)} " \
               f"WINDOW {self.size} us;"  # fmt: skip

    def rows(self, given: dict[str, Rows]) -> Rows:
        def holds(*rows: dict) -> bool:
            links = zip(rows, rows[1:], self.by, strict=False)
            return all(a[c] is not None and a[c] == b[c] for a, b, c in links)

        found = answer_of_many((self.size,) * len(self.streams), [given[name] for name in self.streams], holds)
        return [
            {"ts": ts, "id": of[0]["id"] * 100 + of[-1]["id"], "k": of[0]["k"], "j": of[-1]["j"], "v": of[0]["v"]}
            for of, ts in found
        ]


def _pairs(rng: random.Random, name: str) -> Pairs:
    streams = rng.choice([*PAIRS, "ABC", "DCA"])
    return Pairs(name, streams, (rng.choice("kkj"), rng.choice("kj")), rng.choice([2, 3, 5]))


def _both(name: str, left: str, right: str, by: str, sizes: tuple[int, int], join: str = "JOIN") -> str:
    x, y = (f"{of} [RANGE {size} us]" for of, size in zip((left, right), sizes, strict=True))
    return f"CREATE QUERY {name} AS SELECT X.id AS x, Y.id AS y FROM {x} X {join} {y} Y ON X.{by} = Y.{by};"


def _expected(sizes: tuple[int, int], left: Rows, right: Rows, by: str) -> Counter:
    found = answer_of_many(sizes, [left, right], lambda x, y: x[by] is not None and x[by] == y[by])
    return Counter((x["id"], y["id"], ts) for (x, y), ts in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_query_over_two_queries_is_as_defined_wherever_their_rows_lie(seed):
    rng = random.Random(seed)
    one, two = _pairs(rng, "one"), _pairs(rng, "two")
    asked = [(f"q{n}", rng.choice("kkj"), (rng.choice([2, 4]), rng.choice([2, 4]))) for n in range(rng.choice([1, 2]))]
    text = one.statement + two.statement + "".join(_both(name, "one", "two", by, sizes) for name, by, sizes in asked)
    strategy = rng.choice(["state-slice", "state-slice", "pull-up", "isolated", "push-down", "auto"])
    spec = _spec([], strategy, more=text)
    rows = _rows(rng, 10)
    found = _run(rng, spec, _batches(rng, rows), rng.choice([1, 2, 3]))
    left, right = one.rows(rows), two.rows(rows)
    for name, by, sizes in asked:
        assert found[name] == _expected(sizes, left, right, by), (strategy, text)
    assert sum(found["one"].values()) == len(left), "the query itself has each of its rows once"
    assert sum(found["two"].values()) == len(right)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_query_over_two_running_queries_has_all_rows_from_where_it_is_said_to_be_complete(seed):
    rng = random.Random(500 + seed)
    one, two = _pairs(rng, "one"), _pairs(rng, "two")
    by, sizes = rng.choice("kkj"), (rng.choice([2, 4]), rng.choice([2, 4]))
    running = one.statement + two.statement
    rows = _rows(rng, 12)
    batches = _batches(rng, rows)
    job, got, complete = LocalJob(_spec([], more=running), rng.choice([1, 2]), checks=True), [], None
    for number, batch in enumerate(batches):
        tables = {name: _table(job.spec, name, mine) for name, mine in batch.items()}
        found = job.push(tables, ended=number == len(batches) - 1)
        got += [found["q"]] if "q" in found else []
        if number == 0:
            before = [join.index for join in job.plan.joins]
            complete = job.change(_spec([], more=running + _both("q", "one", "two", by, sizes)))["q"].complete_from["q"]
            assert [join.index for join in job.plan.joins][: len(before)] == before
        elif number == 1:
            joins = job.plan.joins
            job.change(_spec([], more=running + _both("q", "one", "two", by, sizes)))
            assert job.plan.joins == joins, "the same text is the same plan"
        if rng.random() < 0.3:
            job.restart()
    expected = _expected(sizes, one.rows(rows), two.rows(rows), by)
    told = Counter(
        row
        for t in got
        for row in zip(*(t[c].to_pylist() for c in "xy"), t["_ts"].cast("int64").to_pylist(), strict=True)
    )
    assert not told - expected
    assert complete is None or not [row for row in expected - told if row[-1] >= complete]


ONE, TWO = Pairs("one", "AB", ("k",), 5), Pairs("two", "CD", ("j",), 5)
SAME = Pairs("two", "CD", ("k",), 5)


def _plan(*statements: str):
    return LocalJob(_spec([], more="".join(statements)), 3).plan


def test_what_lies_by_the_same_key_comes_by_it_and_what_does_not_to_every_shard():
    by_k = _both("q", "one", "two", "k", (5, 5))
    joins = {join.queries[0].name: join for join in _plan(ONE.statement, SAME.statement, by_k).joins}
    assert [joins[name].everywhere for name in ("_two_by_one", "q")] == [(False, False)] * 2
    joins = {join.queries[0].name: join for join in _plan(ONE.statement, TWO.statement, by_k).joins}
    assert joins["_two_in_one"].whole and joins["q"].everywhere == (False, True)
    assert {joins[name].home for name in ("_two_in_one", "q", "one")} == {joins["one"].index}


def test_one_copy_is_enough_for_all_queries_over_the_same_two():
    more = [_both(f"q{n}", "one", "two", "k", (n, n)) for n in range(2, 12)]
    plan = _plan(ONE.statement, TWO.statement, *more)
    assert [query.name for query in plan.parts.values() if query.copy] == ["_two_in_one"]
    assert len(plan.joins) == 4


def test_rows_that_must_see_all_their_matches_stay_where_they_are_and_the_other_query_is_copied():
    left = _plan(ONE.statement, TWO.statement, _both("q", "one", "two", "k", (5, 5), "LEFT JOIN"))
    right = _plan(ONE.statement, TWO.statement, _both("q", "one", "two", "k", (5, 5), "RIGHT JOIN"))
    assert "_two_in_one" in left.parts and "_one_in_two" in right.parts
    with pytest.raises(UsageError, match=r"asks which rows of .* have a match, and these go to every shard"):
        _plan(ONE.statement, TWO.statement, _both("q", "one", "two", "k", (5, 5), "FULL JOIN"))
    assert _plan(ONE.statement, SAME.statement, _both("q", "one", "two", "k", (5, 5), "FULL JOIN")).joins


@pytest.mark.parametrize("join", ["LEFT JOIN", "RIGHT JOIN"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_without_a_match_are_told_once_for_any_number_of_shards(join, seed):
    rng = random.Random(seed)
    rows = _rows(rng, 10)
    text = ONE.statement + TWO.statement + _both("q", "one", "two", "k", (4, 4), join)
    found = _run(rng, _spec([], more=text), _batches(rng, rows), rng.choice([1, 3]))
    left, right = ONE.rows(rows), TWO.rows(rows)
    expected = _expected((4, 4), left, right, "k")
    side = Side.LEFT if join == "LEFT JOIN" else Side.RIGHT
    matched = Counter(row[side] for row in expected)
    for row in (left, right)[side]:
        if not matched[row["id"]]:
            expected[(row["id"], None, row["ts"] + 4) if side is Side.LEFT else (None, row["id"], row["ts"] + 4)] += 1
    assert found["q"] == expected


def test_a_query_over_three_queries_and_one_over_such_a_query():
    rng = random.Random(11)
    rows = _rows(rng, 24)
    three = Pairs("three", "AD", ("j",), 4)
    text = ONE.statement + TWO.statement + three.statement
    text += "CREATE QUERY all AS SELECT X.id AS x, Y.id AS y, Z.id AS z, X.k AS k, X.j AS j " \
            "FROM one X, two Y, three Z WHERE X.k = Y.k AND Y.j = Z.j WINDOW 4 us;"  # fmt: skip
    text += "CREATE QUERY over AS SELECT W.x AS x, V.id AS v FROM all W, three V WHERE W.j = V.j WINDOW 3 us;"
    text += "CREATE QUERY self AS SELECT W.x AS x, V.y AS v FROM all W, all V WHERE W.j = V.j WINDOW 3 us;"
    found = _run(rng, _spec([], more=text), _batches(rng, rows), 3)
    of = [pairs.rows(rows) for pairs in (ONE, TWO, three)]
    matching = answer_of_many((4, 4, 4), of, lambda x, y, z: None not in (x["k"], y["j"]) and x["k"] == y["k"]
                              and y["j"] == z["j"])  # fmt: skip
    whole = [{"ts": ts, "x": x["id"], "y": y["id"], "z": z["id"], "j": x["j"]} for (x, y, z), ts in matching]
    assert found["all"] == Counter((w["x"], w["y"], w["z"], x["k"], w["j"], ts)
                                   for w, ((x, _, _), ts) in zip(whole, matching, strict=True))  # fmt: skip
    over = answer_of_many((3, 3), [whole, of[2]], lambda w, v: w["j"] == v["j"])
    assert found["over"] == Counter((w["x"], v["id"], ts) for (w, v), ts in over)
    both = answer_of_many((3, 3), [whole, whole], lambda w, v: w["j"] == v["j"])
    assert found["self"] == Counter((w["x"], v["y"], ts) for (w, v), ts in both)
    assert len(whole) > 10


FINAL = """
CREATE STREAM E (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, v BIGINT, over BOOLEAN) TIMESTAMP BY ts LATENESS 2 us
  PUNCTUATION WHEN over WITH (format = 'json', path = '.');
CREATE QUERY two AS SELECT D.k AS k, COUNT(*) AS id FROM D, E WHERE D.k = E.k WINDOW 50 us GROUP BY D.k EMIT FINAL;
"""


@pytest.mark.parametrize("by", ["k", "j"])
def test_the_totals_of_a_query_can_be_joined_with_another_query(by):
    """A group is whole in every shard to which all of its streams go."""
    rng = random.Random(5)
    rows = _rows(rng, 12)
    rows["E"] = [{**row, "over": False} for row in rows["C"]]
    one = Pairs("one", "AB", (by,), 5)
    text = one.statement + FINAL + _both("q", "one", "two", "k", (50, 50))
    spec = _spec([], more=text)
    results = []
    for shards in (1, 3):
        job = LocalJob(spec, shards, checks=True)
        table = _table(spec, "E", [{**row, "over": None} for row in rows["E"]])
        table = table.set_column(table.schema.get_field_index("over"), "over", [[False] * table.num_rows])
        tables = {name: _table(spec, name, rows[name]) for name in "ABCD"} | {"E": table}
        results.append(job.push(tables, ended=True)["q"])
        copied = [query.name for query in job.plan.parts.values() if query.copy]
        assert copied == (["_two_by_one"] if by == "k" else ["_two_in_one"])
    assert results[0].num_rows and Counter(map(str, results[0].to_pylist())) == Counter(
        map(str, results[1].to_pylist())
    )
