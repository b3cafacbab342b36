"""Orders of joins: every order gives the rows of the definition, and a query keeps the one that it began with."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from core.test_trees import NAMES, SEEDS, Asked, _asked, _batches, _expected, _rows, _run, _spec, _table
from muntin.core.policy import LimitError
from muntin.model import JobSpec, SqlError
from muntin.oracle import answer_of_many
from muntin.plan.join_orders import JoinOrders
from muntin.sql import order_joins
from muntin.testing import LocalJob


@pytest.fixture
def in_any_order(monkeypatch):
    """Let queries be joined in the n-th of all orders first."""
    best = JoinOrders.best

    def set_first(seed: int) -> None:
        def shuffled(self):
            orders = sorted(best(self), key=lambda order: order.aliases)
            return orders[seed % len(orders) :] + orders[: seed % len(orders)]

        monkeypatch.setattr(JoinOrders, "best", shuffled)

    return set_first


def _orders(spec: JobSpec) -> list[tuple[str, ...]]:
    return [query.graph.order for query in spec.queries.values() if query.graph is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_order_of_joins_gives_the_rows_of_the_definition(seed, in_any_order):
    rng = random.Random(5000 + seed)
    asked = [_asked(rng, f"q{n}", rng.choice(["ABC", "ABCD", "AAB", "BCA", "AB"])) for n in range(3)]
    rows = _rows(rng, 9)
    batches = _batches(rng, rows)
    expected = {query.name: _expected(query, rows) for query in asked}
    tried = set()
    for order in range(3):
        in_any_order(order)
        spec = _spec(asked, rng.choice(["state-slice", "pull-up"]))
        tried.update(_orders(spec))
        found = _run(rng, spec, batches, rng.choice([1, 2, 3]))
        assert found == expected, [query.statement for query in asked]
    assert len(tried) > 1


TOP = """CREATE QUERY kept AS SELECT A.id AS a, B.id AS b, C.id AS c, D.id AS d
  FROM A JOIN B ON A.k = B.k JOIN C ON B.j = C.j {} JOIN D ON B.k = D.k WINDOW 5 us;"""


@pytest.mark.parametrize("seed", range(3))
def test_an_outer_join_stays_at_the_top_of_every_order(seed, in_any_order):
    rng = random.Random(seed)
    rows = _rows(rng, 9)

    def holds(a, b, c):
        return a["k"] is not None and a["k"] == b["k"] and b["j"] == c["j"]

    expected: Counter = Counter()
    for (a, b, c), ts in answer_of_many((5, 5, 5), [rows[n] for n in "ABC"], holds):
        until = min(row["ts"] for row in (a, b, c)) + 5
        mine = [
            (d["id"], max(ts, d["ts"])) for d in rows["D"] if d["k"] == b["k"] and d["ts"] < until and ts - d["ts"] < 5
        ]
        expected.update((a["id"], b["id"], c["id"], *row) for row in mine or [(None, until)])
    tried = set()
    for order in range(4):
        in_any_order(order)
        spec = _spec([], more=TOP.format("LEFT"))
        tried.update(_orders(spec))
        assert spec.queries["kept"].graph.order[-1] == "D"
        assert _run(rng, spec, _batches(rng, rows), 2)["kept"] == expected
    assert len(tried) > 1


def test_an_order_that_cannot_have_the_outer_join_is_passed_over(in_any_order):
    """Rows of D go to every shard where pairs lie by j: no shard sees all matches of one."""
    for seed in range(4):
        in_any_order(seed)
        order = _spec([], more=TOP.format("RIGHT")).queries["kept"].graph.order
        assert set(order[:2]) == {"A", "B"}


THREE = "SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.j = C.j WINDOW 8 us"


def _with_rates(spec_of, rates: dict[str, int]) -> JobSpec:
    spec = spec_of()
    streams = {name: replace(stream, rate=rates.get(name)) for name, stream in spec.streams.items()}
    return order_joins(replace(spec, streams=streams))


def test_the_order_follows_declared_rates_and_sub_joins_that_are_there():
    one = Asked("q", THREE.replace("8 us", "10 seconds"), "ABC", (), None)
    two = Asked("ab", "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 10 seconds", "AB", (), None)
    rare_c = {"A": 10_000, "B": 10_000, "C": 10}
    rare_a = {"A": 10, "B": 10_000, "C": 10_000}
    assert _with_rates(lambda: _spec([one]), rare_c).queries["q"].graph.order == ("B", "C", "A")
    assert _with_rates(lambda: _spec([one]), rare_a).queries["q"].graph.order == ("A", "B", "C")
    some = {"A": 1_500, "B": 10_000, "C": 1_000}
    assert _with_rates(lambda: _spec([one]), some).queries["q"].graph.order == ("B", "C", "A")
    for asked in ([one, two], [two, one]):
        assert _with_rates(lambda asked=asked: _spec(asked), some).queries["q"].graph.order == ("A", "B", "C")


def test_a_query_keeps_its_order_when_rates_are_others_and_takes_up_its_state():
    one = Asked("q", THREE, "ABC", (8, 8, 8), None)
    rows = _rows(random.Random(3), 16)
    early, late = ({n: [r for r in rows[n] if (r["ts"] < 20) is first] for n in rows} for first in (True, False))
    first = _with_rates(lambda: _spec([one]), {"A": 1_000_000, "B": 1_000_000, "C": 10})
    other = _with_rates(lambda: _spec([one]), {"A": 10, "B": 1_000_000, "C": 1_000_000})
    assert first.queries["q"].graph.order != other.queries["q"].graph.order
    job = LocalJob(first, 2, checks=True)
    tables = [job.push({name: _table(job.spec, name, mine) for name, mine in early.items()})["q"]]
    joins = [(join.index, join.queries) for join in job.plan.joins]
    assert not job.change(other)
    assert [(join.index, join.queries) for join in job.plan.joins] == joins
    tables.append(job.push({name: _table(job.spec, name, mine) for name, mine in late.items()}, ended=True)["q"])
    together = pa.concat_tables(tables)

    def holds(a, b, c):
        return a["k"] is not None and a["k"] == b["k"] and b["j"] == c["j"]

    assert together.num_rows == len(answer_of_many((8, 8, 8), [rows[n] for n in "ABC"], holds))


def test_orders_of_very_many_streams_are_found_step_by_step():
    streams = [NAMES[n % 4] + str(n) for n in range(8)]
    items = ", ".join(f"{alias[0]} {alias}" for alias in streams)
    links = " AND ".join(f"{a}.k = {b}.k" for a, b in itertools.pairwise(streams))
    text = f"SELECT {streams[0]}.id AS x, {streams[7]}.id AS y FROM {items} WHERE {links} WINDOW 3 us"
    order = _spec([Asked("q", text, "", (), None)]).queries["q"].graph.order
    assert sorted(order) == sorted(streams)
    for n in range(1, 8):
        assert any(abs(streams.index(order[n]) - streams.index(before)) == 1 for before in order[:n])


# -- what is refused, by name ------------------------------------------------------------------------------------------

FOUR = "SELECT A.id AS a, B.id AS b, C.id AS c, D.id AS d FROM A, B, C, D"
TWO = "SELECT A.id AS a FROM A JOIN B ON A.k = B.k"
FAULTS = {
    f"{FOUR} WHERE A.k = B.k AND B.k = C.k WINDOW 5 us": "no condition speaks of both A and B and C and D",
    f"{FOUR} WHERE A.k = B.k AND C.k = D.k WINDOW 5 us": "no condition speaks of both A and B and C",
    f"{FOUR} WHERE A.k = B.k AND C.v > 1 AND D.k = A.k WINDOW 5 us": "no condition speaks of both A and B and D and C",
    f"{TWO} LEFT JOIN C ON TRUE WINDOW 5 us": "LEFT JOIN without an equality",
    f"{TWO} WHERE EXISTS (SELECT 1 FROM C WHERE C.v > 1) WINDOW 5 us": "EXISTS without an equality",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_cross_product_hidden_in_a_tree_is_refused_by_name(text):
    with pytest.raises(SqlError) as raised:
        _spec([Asked("q", text, "", (), None)])
    assert FAULTS[text] in raised.value.message
    assert ("cross join is refused" in raised.value.message) == ("no condition" in FAULTS[text])


@pytest.mark.parametrize(("keys", "said"), [("k k", "the sub-join A x B (join 1)"), ("id k", "join 2 ((A x B) x C)")])
def test_pairs_that_explode_are_named_by_the_streams_of_their_sub_join(keys, said):
    first, second = keys.split()
    text = f"SELECT A.id AS a, C.id AS c FROM A, B, C WHERE A.{first} = B.{first} AND B.{second} = C.{second}"
    pairs = f"CREATE QUERY ab AS SELECT A.id FROM A, B WHERE A.{first} = B.{first} WINDOW 5 us;"
    spec = _spec([Asked("q", f"{text} WINDOW 5 us", "", (), None)], more=f"SET fan_out_limit = 30; {pairs}")
    rows = [{"ts": 1, "id": n, "k": 7, "j": 1, "v": 1} for n in range(12)]
    job = LocalJob(spec, 1)
    with pytest.raises(LimitError) as raised:
        job.push({name: _table(spec, name, rows) for name in "ABC"}, ended=True)
    assert raised.value.message.startswith(f"{said}: more than 30 pairs in one micro-batch")
