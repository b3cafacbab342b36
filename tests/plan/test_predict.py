"""Predictions against wang2006's equations where those apply, and against each other where they do not."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.model import Axis, Field, Schema, Side
from muntin.plan.cost import DEFAULT
from muntin.plan.predict import (
    ARRIVAL_NS,
    INDEX_BYTES,
    JOIN_NS,
    OWN_BYTES,
    alternatives,
    match_seen,
    predict,
    predict_join,
    row_bytes,
    traffics_of,
)
from muntin.plan.strategies import MOST_JOINS, STRATEGIES, share
from muntin.plan.traffic import Knowledge
from muntin.studies import two_queries as sharing

DISTRIBUTIONS = {"mostly small": (5, 10, 30), "uniform": (10, 20, 30), "mostly large": (20, 25, 30)}
TABLE_3 = list(product(DISTRIBUTIONS.values(), (0.2, 0.5, 0.8), (20.0, 80.0)))
EQUATIONS = {"pull-up": sharing.pull_up, "push-down": sharing.push_down, "state-slice": sharing.state_slice}
ORDER = [("state-slice", "mem-opt"), ("state-slice", "cpu-opt"), ("pull-up", "none"), ("push-down", "none"),
         ("isolated", "none")]  # fmt: skip


def section_7_2(job, windows, s_sigma: float, rate: float):
    """Three queries, the second and third with one selection on A, by nested loops (every pair matches)."""
    w1, w2, w3 = windows
    spec = job((w1,), (w2, "v > 10"), (w3, "v > 10"), rate=rate)
    return spec, Knowledge(match=1.0, selectivities={"q2": (s_sigma, None), "q3": (s_sigma, None)})


def by_strategy(spec, knowledge=None):
    every = alternatives(spec, knowledge or Knowledge())
    assert [(p.strategy, p.chain) for p in every] == ORDER
    return {p.strategy: p for p in reversed(every)}


# -- the paper's equations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows, s_sigma, rate", TABLE_3)
def test_rows_and_rows_looked_at_are_those_of_equations_1_to_3_for_all_of_table_3(job, windows, s_sigma, rate):
    """The middle window changes neither: the equations hold with the first and the last."""
    found = by_strategy(*section_7_2(job, windows, s_sigma, rate))
    setting = sharing.TwoQueries(rate, windows[0], windows[-1], s_sigma, s_join=1.0)
    for name, equation in EQUATIONS.items():
        assert found[name].rows == pytest.approx(equation(setting).memory), name
        assert found[name].comparisons == pytest.approx(equation(setting).probing), name


@pytest.mark.parametrize("s_sigma", [0.2, 0.5, 0.8])
def test_queries_alone_hold_and_look_at_what_the_same_argument_says(job, s_sigma):
    spec = job((10,), (30, "v > 10"), rate=20.0)
    found = by_strategy(spec, Knowledge(match=1.0, selectivities={"q2": (s_sigma, None)}))["isolated"]
    expected = sharing.isolated(sharing.TwoQueries(20, 10, 30, s_sigma, 1.0))
    assert (found.rows, found.comparisons) == pytest.approx((expected.memory, expected.probing))


def test_pairs_are_routed_by_age_unless_each_window_is_a_cut(job):
    found = by_strategy(*section_7_2(job, (10, 20, 30), 0.5, 20.0))
    assert found["state-slice"].routed == found["isolated"].routed == 0
    assert found["pull-up"].routed == pytest.approx(2 * 20**2 * (30 - 10))
    assert found["push-down"].routed == pytest.approx(0.5 * 2 * 20**2 * (30 - 10))


# -- random workloads ------------------------------------------------------------------------------------------------

SELECTIONS = st.sampled_from([None, "v > 10", "v > 20", "v < 10", "tag in a", "v > 10 AND tag in b", "opaque"])
QUERIES = st.lists(
    st.tuples(st.tuples(st.integers(1, 9), st.integers(1, 9)), SELECTIONS, SELECTIONS), min_size=1, max_size=7
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(queries=QUERIES, fractions=st.lists(st.floats(0, 1), min_size=14, max_size=14))
def test_state_slices_never_hold_more_rows_than_any_other_way(job, queries, fractions):
    declared = {f"q{n + 1}": (fractions[2 * n], fractions[2 * n + 1]) for n in range(0, len(queries), 2)}
    sliced, *others = alternatives(job(*queries), Knowledge(selectivities=declared))
    assert all(p.rows >= sliced.rows * (1 - 1e-9) for p in others if not p.why_not)


@settings(max_examples=40, deadline=None)
@given(queries=QUERIES)
def test_cpu_opt_is_never_dearer_than_mem_opt_and_pull_up_never_probes_less(job, queries):
    sliced, recut, up, *_ = alternatives(job(*queries), Knowledge(match=0.01))
    assert recut.cpu_ns <= sliced.cpu_ns * (1 + 1e-9)
    assert up.comparisons >= max(sliced.comparisons, recut.comparisons) * (1 - 1e-9)
    assert up.rows >= recut.rows * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(queries=QUERIES)
def test_the_alternatives_are_the_plans_that_share_makes(job, queries):
    spec = job(*queries)
    traffics = traffics_of(share(spec).joins)
    for found in alternatives(spec):
        if found.chain == "cpu-opt":
            continue
        planned = predict(spec, share(spec, found.strategy), traffics, DEFAULT)
        assert len(planned.joins) == len(found.joins)
        for name in ("rows", "bytes", "comparisons", "routed", "cpu_ns"):
            assert getattr(planned, name) == pytest.approx(getattr(found, name))


# -- parts and sums --------------------------------------------------------------------------------------------------


def test_slices_add_up_to_states_states_to_joins_and_joins_to_jobs(job):
    spec = job((1,), (2, "v > 10"), ((5, 9), "v > 20", "v > 10"), rate=100.0)
    for found in alternatives(spec):
        for name in ("rows", "comparisons", "routed", "bytes"):
            slices = [s for j in found.joins for state in j.states for s in state.slices]
            assert sum(getattr(s, name) for s in slices) == pytest.approx(getattr(found, name))
        beside = sum(j.cleaning_ns + j.standing_ns for j in found.joins)
        assert found.cpu_ns == pytest.approx(sum(s.cpu_ns for s in slices) + beside)


def test_slices_are_those_of_the_plan(job):
    sliced, recut, *_ = alternatives(job((1,), (2, "v > 10"), (9, "v > 20")))
    for found in (sliced, recut):
        (load,) = found.joins
        for side in Side:
            expected = [(s.lo, s.hi) for s in load.join.slices(side)]
            assert [(s.lo, s.hi) for s in load.states[side].slices] == expected
            assert load.states[side].stream == "AB"[side]


def test_a_window_of_rows_holds_its_rows_at_any_rate(job):
    for rate in (10.0, 500.0):
        spec = job((100,), (300,), axes=(Axis.ROWS, Axis.ROWS), rate=rate)
        assert by_strategy(spec)["state-slice"].rows == pytest.approx(600)


def test_a_row_takes_its_columns_and_its_share_of_the_index():
    types = ("boolean", "tinyint", "int", "double", "timestamp", "string", "decimal(10,2)")
    schema = Schema(tuple(Field(f"c{n}", t) for n, t in enumerate(types)))
    assert row_bytes(schema) == INDEX_BYTES + OWN_BYTES + 1 / 8 + 1 + 4 + 8 + 8 + 16 + 16


def test_joins_of_their_own_are_predicted_with_their_own_traffic(job):
    """Queries over windows of time and of rows share no join."""
    spec, by_rows = job((1,), (2, "v > 10")), job((50,), axes=(Axis.ROWS, Axis.ROWS))
    both = replace(spec, queries={**spec.queries, "r1": replace(by_rows.queries["q1"], name="r1")})
    parts = [by_strategy(one) for one in (spec, by_rows)]
    for name, found in by_strategy(both).items():
        assert found.rows == pytest.approx(sum(part[name].rows for part in parts))
        assert found.cpu_ns == pytest.approx(sum(part[name].cpu_ns for part in parts))


# -- push-down -------------------------------------------------------------------------------------------------------


def test_push_down_that_cannot_be_says_why_before_its_joins_are_made(job, monkeypatch):
    many = job(*((n, f"v > {n}", f"v > {n}") for n in range(1, MOST_JOINS + 3)))
    made, push_down = [], type(STRATEGIES["push-down"])
    plan = push_down.plan
    monkeypatch.setattr(push_down, "plan", lambda self, groups: made.append(self.name) or plan(self, groups))
    found = by_strategy(many)["push-down"]
    assert made == []
    assert found.joins == () and "the limit is 256" in found.why_not
    columns = job(*((n, f"v > {n} AND n > {n}") for n in range(1, 90)))
    assert "the limit is 4,096" in by_strategy(columns)["push-down"].why_not


def test_the_joins_of_push_down_are_counted_as_they_are_made(job):
    """Twenty selections on each side: parts are few, but most of them meet."""
    found = by_strategy(job(*((n, f"v > {n}", f"v > {n}") for n in range(1, 21))))["push-down"]
    assert "would make at least 400 joins" in found.why_not
    fits = by_strategy(job(*((n, f"v > {n}", f"v > {n}") for n in range(1, 17))))["push-down"]
    assert len(fits.joins) == 256


# -- what a running job shows ----------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(queries=QUERIES, match=st.floats(1e-6, 1))
def test_the_chance_of_a_match_follows_from_the_rows_looked_at(job, queries, match):
    join = share(job(*queries)).joins[0]
    (traffic,) = traffics_of(share(job(*queries)).joins, Knowledge(match=match)).values()
    looked_at = predict_join(join, traffic, DEFAULT).comparisons
    assert match_seen(join, traffic, looked_at) == pytest.approx(match)


def test_costs_follow_the_constants(job):
    spec = job((1,), (2, "v > 10"))
    known = Knowledge(constants=replace(DEFAULT, insert_ns=DEFAULT.insert_ns + 1))
    (before, *_), (after, *_) = alternatives(spec), alternatives(spec, known)
    assert after.cpu_ns - before.cpu_ns == pytest.approx(2000)


def test_every_join_costs_something_for_each_row_that_it_is_sent_wanted_or_not(job):
    spec = job((1, "v > 10"), (1, "v > 20"), rate=50.0)
    for found in alternatives(spec, Knowledge(selectivities={"q1": (0.0, None)})):
        assert {j.standing_ns for j in found.joins} == {100 * ARRIVAL_NS + JOIN_NS}


def test_greedy_invalidation_costs_a_visit_of_every_bucket(job):
    lazy, greedy = (by_strategy(job((1,), invalidation=name))["state-slice"] for name in ("probe-insert", "all"))
    assert greedy.joins[0].cleaning_ns > 100 * lazy.joins[0].cleaning_ns
    assert lazy.joins[0].cleaning_ns == pytest.approx(3 * 2000 * DEFAULT.check_ns)


@pytest.mark.slow
def test_a_thousand_queries_are_predicted_one_by_one_for_the_isolated_strategy_only(job):
    spec = job(*((n, f"v > {n}") for n in range(1, 1001)))
    assert [len(p.joins) for p in alternatives(spec)] == [1, 1, 1, 0, 1000]
    assert np.isfinite([p.cpu_ns for p in alternatives(spec)]).all()
