"""What becomes of joins when queries come and go: they keep their numbers, and under push-down the parts that they are
for."""

from __future__ import annotations

import pytest

from muntin.model import JobSpec, UsageError
from muntin.plan import Plan, covers, evolve, make_plan, reporting
from muntin.sql import parse_job

STREAMS = "".join(
    f"CREATE STREAM {s} (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts WITH (format = 'parquet', path = '{s}');"
    for s in "ABC"
)


def job(*queries: tuple[str, str, int], strategy: str = "push-down") -> JobSpec:
    """Queries by name, selection and window."""
    text = "".join(
        f"CREATE QUERY {name} AS SELECT A.v FROM A, B WHERE A.k = B.k {where} WINDOW {window} s;"
        for name, where, window in queries
    )
    return parse_job(f"SET strategy = '{strategy}';" + STREAMS + text)


def shape(plan: Plan) -> dict[int, tuple[str, ...]]:
    """The queries of each join; where none reads another one, each lives in shards of its own."""
    assert [join.home for join in plan.joins] == [join.index for join in plan.joins]
    return {join.index: tuple(query.name for query in join.queries) for join in plan.joins}


ALL, HOT = ("all", "", 5), ("hot", "AND A.v > 60", 9)


def test_under_push_down_a_known_selection_goes_to_the_joins_of_its_parts():
    before = make_plan(job(ALL, HOT))
    assert shape(before) == {0: ("all",), 1: ("all", "hot")}, "what is not hot, what is"
    again = job(ALL, HOT, ("hot2", "AND A.v > 60", 12))
    after = evolve(before, again)
    assert shape(after) == {0: ("all",), 1: ("all", "hot", "hot2")}
    assert [j.partitions for j in after.joins] == [j.partitions for j in before.joins]
    assert after.joins[1].cuts == ((12_000_000,),) * 2 and after.joins[0].cuts == before.joins[0].cuts
    assert not covers(before.joins[1], again.queries["hot2"])
    assert covers(before.joins[1], job(("short", "AND A.v > 60", 9)).queries["short"])


def test_rows_that_only_wait_to_be_joined_are_covered_where_somebody_keeps_them():
    """Where B comes after A, rows of B are wanted only until they are joined, but until then they are."""
    text = "CREATE QUERY {} AS SELECT A.v FROM A JOIN B ON A.k = B.k AND B.ts - A.ts BETWEEN {} {};"
    range_ = "INTERVAL 1 SECOND AND INTERVAL 9 SECONDS"
    hot = make_plan(parse_job(STREAMS + text.format("hot", range_, "AND B.v > 60")))
    assert hot.joins[0].queries[0].window.right == 0
    both = text.format("all", range_, "") + text.format("hotter", range_, "AND B.v > 60 AND B.v > 70")
    wanted = parse_job(STREAMS + both).queries
    assert not covers(hot.joins[0], wanted["all"]), "what it wants and nobody else has been turned away"
    assert covers(hot.joins[0], wanted["hotter"])


def test_under_push_down_parts_that_nobody_wanted_get_a_join_when_somebody_does():
    before = make_plan(job(HOT))
    assert shape(before) == {0: ("hot",)}
    after = evolve(before, job(HOT, ALL))
    assert shape(after) == {0: ("hot", "all"), 1: ("all",)}
    (hot, _), (cold, _) = (join.partitions for join in after.joins)
    assert hot.truths == (True,) and cold.truths == (False,) and hot.predicates == cold.predicates


def test_under_push_down_another_selection_divides_the_streams_once_more_beside():
    before = make_plan(job(ALL, HOT))
    after = evolve(before, job(ALL, HOT, ("cold", "AND A.v < 5", 3), ("cool", "AND A.v < 9", 3)))
    assert shape(after)[0] == ("all",) and shape(after)[1] == ("all", "hot")
    assert sorted(shape(after)[n] for n in shape(after) if n > 1) == [("cold", "cool"), ("cool",)]
    fewer = evolve(after, job(HOT, ("cool", "AND A.v < 9", 3)))
    assert sorted(shape(fewer).values()) == [("cool",), ("cool",), ("hot",)] and set(shape(fewer)) < set(shape(after))
    back = evolve(fewer, job(HOT, ("cool", "AND A.v < 9", 3), ALL))
    assert 1 in shape(back) and min(set(shape(back)) - set(shape(fewer))) >= after.next_join, "no number comes twice"


def test_under_push_down_queries_can_be_replaced_and_can_have_no_rows():
    before = make_plan(job(ALL, HOT))
    replaced = evolve(before, job(ALL, ("hot", "AND A.v > 60", 2)))
    assert shape(replaced) == {0: ("all",), 1: ("all", "hot")}
    never = evolve(before, job(ALL, ("hot", "AND A.v > 60 AND A.v < 5", 2)))
    assert [q.name for q in never.never] == ["hot"] and shape(never) == {0: ("all",), 1: ("all",)}


def test_under_push_down_there_is_a_limit():
    before = make_plan(job(ALL))
    names = [(f"q{n}", f"AND A.v > {n} AND B.v > {n}", 1) for n in range(20)]
    with pytest.raises(UsageError, match="joins"):
        evolve(before, job(ALL, *names))


@pytest.mark.parametrize("strategy", ["state-slice", "pull-up", "push-down", "isolated"])
def test_without_queries_there_are_no_joins(strategy):
    spec = job(ALL, HOT, strategy=strategy)
    plan = evolve(make_plan(spec), job(strategy=strategy))
    assert plan.joins == () and plan.queries == {} and plan.next_join >= 1


def test_late_rows_that_others_report_are_not_reported_again():
    plan = make_plan(job(ALL, HOT, strategy="isolated"))
    assert [join.reports for join in plan.joins] == [(True, True), (False, False)]
    without = reporting(plan, {"A"})
    assert [join.reports for join in without.joins] == [(False, True), (False, False)]
    assert reporting(without, ()) == plan
