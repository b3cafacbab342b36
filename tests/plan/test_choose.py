"""Plans by settings, and by prediction where they say `auto`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muntin.model import UsageError
from muntin.plan.choose import Knowledge, choose, make_plan
from muntin.plan.strategies import STRATEGIES, share

THREE = ((1,), (2, "v > 10"), (30, "v > 20"))
MANY = tuple((n / 10, f"v > {n}") for n in range(1, 201))
APART = tuple((60, f"tag in {tag}", f"tag in {tag}") for tag in "abcd")
"""Queries that have no rows in common."""
DENSE = Knowledge(rates={"A": 20_000.0, "B": 20_000.0}, match=0.01)
QUARTERS = {f"q{n}": (0.25, 0.25) for n in range(1, 5)}


@pytest.mark.parametrize("strategy", STRATEGIES.names)
def test_a_strategy_that_is_set_is_used(job, strategy):
    spec = job(*THREE, strategy=strategy, chain="mem-opt")
    assert make_plan(spec) == share(spec, strategy) == choose(spec).plan
    assert choose(spec).prediction.strategy == strategy


def test_a_strategy_that_is_set_and_impossible_is_refused(job):
    spec = job(*((n, f"v > {n}", f"v > {n}") for n in range(1, 30)), strategy="push-down")
    for planned in (make_plan, choose):
        with pytest.raises(UsageError, match="would make") as raised:
            planned(spec)
        assert raised.value.hint


@pytest.mark.parametrize("chain", ["auto", "mem-opt", "cpu-opt"])
def test_only_state_slices_have_a_chain(job, chain):
    for strategy in STRATEGIES.names:
        plan = make_plan(job(*THREE, strategy=strategy, chain=chain))
        assert plan.chain == ("none" if strategy != "state-slice" else "cpu-opt" if chain == "cpu-opt" else "mem-opt")


def test_cpu_opt_cuts_each_side_where_it_costs_least(job):
    spec = job(
        ((1, 5), None, "v > 1"), ((1.01, 9), None, "v > 2"), ((30, 9.1),), strategy="state-slice", chain="cpu-opt"
    )
    (join,) = make_plan(spec, Knowledge(match=0.01)).joins
    assert join.cuts == ((1_010_000, 30_000_000), (5_000_000, 9_100_000))
    assert [len(s.windows) for s in join.slices(0)] == [2, 1]


@pytest.mark.slow
def test_few_windows_stay_apart_and_very_many_are_merged(job):
    few, many = (make_plan(job(*queries)) for queries in (THREE, MANY))
    assert (few.strategy, few.chain) == ("state-slice", "mem-opt")
    assert few == share(job(*THREE))
    fast = make_plan(job(*MANY), Knowledge(rates={"A": 1e5, "B": 1e5}, keys=1e7))
    assert (fast.strategy, fast.chain) == ("state-slice", "cpu-opt")
    assert len(fast.joins[0].cuts[0]) < 200 == len(many.joins[0].windows[0])


@pytest.mark.slow
def test_cpu_opt_is_not_taken_where_it_would_exceed_the_state_limit(job):
    knowledge = Knowledge(rates={"A": 1e5, "B": 1e5}, keys=1e7)
    for strategy in ("auto", "state-slice"):
        mem_opt, cpu_opt, *_ = choose(job(*MANY, strategy=strategy), knowledge).alternatives
        between = int((mem_opt.bytes + cpu_opt.bytes) / 2)
        for limit, chain in ((None, "cpu-opt"), (between, "mem-opt"), (int(2 * cpu_opt.bytes), "cpu-opt")):
            plan = make_plan(job(*MANY, strategy=strategy, state_limit_bytes=limit), knowledge)
            assert (plan.strategy, plan.chain) == ("state-slice", chain)
        assert make_plan(job(*MANY, strategy="state-slice", chain="cpu-opt", state_limit_bytes=1)).chain == "cpu-opt"


def test_without_selections_pull_up_is_a_tie_with_one_slice_and_state_slices_win_it(job):
    spec = job(*((n / 1000,) for n in range(1, 101)))
    choice = choose(spec, Knowledge(rates={"A": 1e5, "B": 1e5}, keys=1e4))
    _, cpu_opt, pull_up, *_ = choice.alternatives
    assert cpu_opt.cpu_ns == pytest.approx(pull_up.cpu_ns)
    assert choice.prediction is cpu_opt


def test_queries_without_common_rows_are_kept_apart_where_probing_is_what_costs(job):
    """Sharing would make each row look at the rows of all other queries."""
    spec = job(*APART)
    dense = choose(spec, replace(DENSE, selectivities=QUARTERS))
    assert dense.plan.strategy in ("push-down", "isolated")
    assert dense.plan == share(spec, dense.plan.strategy)
    assert choose(spec).plan.strategy == "state-slice", "at low rates an operator more costs more than it saves"


def test_within_a_few_percent_the_smaller_state_is_taken(job):
    choice = choose(job(*THREE), Knowledge(rates={"A": 10.0, "B": 10.0}))
    up = next(p for p in choice.alternatives if p.strategy == "pull-up")
    assert up.cpu_ns == pytest.approx(choice.prediction.cpu_ns, rel=0.05)
    assert choice.prediction.rows < up.rows


def test_a_strategy_beyond_the_state_limit_is_passed_over_as_long_as_one_fits(job):
    known = replace(DENSE, selectivities=QUARTERS)
    queries = (*APART, (1,))
    choice = choose(job(*queries), known)
    sliced = choice.alternatives[0]
    assert choice.plan.strategy == "isolated" and choice.prediction.bytes > sliced.bytes
    between = int((choice.prediction.bytes + sliced.bytes) / 2)
    for limit, strategy in ((between, "state-slice"), (1, "isolated")):
        assert make_plan(job(*queries, state_limit_bytes=limit), known).strategy == strategy


@pytest.mark.slow
def test_the_same_job_and_knowledge_give_the_same_plan(job):
    for queries in (THREE, MANY, APART):
        assert make_plan(job(*queries)) == make_plan(job(*queries)) == choose(job(*queries)).plan


def test_queries_that_can_have_no_rows_are_planned_away_by_every_way(job):
    spec = job((1,), (2, "v > 10 AND v < 5"))
    for strategy in ("auto", *STRATEGIES.names):
        plan = make_plan(job((1,), (2, "v > 10 AND v < 5"), strategy=strategy))
        assert [q.name for q in plan.never] == ["q2"]
    assert {p.rows > 0 for p in choose(spec).alternatives} == {True}


@pytest.mark.slow
def test_a_thousand_queries_are_planned(job):
    spec = job(*((n, f"v > {n}", f"v > {n}") for n in range(1, 1001)))
    plan = make_plan(spec)
    assert plan.strategy == "state-slice" and len(plan.joins[0].queries) == 1000
