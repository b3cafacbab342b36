"""The formulas of wang2006 against each other: equation 4 from equations 1 to 3, and what section 4.3 says of them."""

from __future__ import annotations

from itertools import product

import pytest

from muntin.studies.two_queries import TwoQueries, isolated, merge_gain, pull_up, push_down, savings, state_slice

RHOS = SIGMAS = (0.05, 0.25, 0.5, 0.75, 0.95)
JOINS = (0.025, 0.1, 0.4, 1.0)
GRID = list(product(RHOS, SIGMAS, JOINS))
FAST = 1e12
"""A rate at which nothing is left of the terms that grow with the rate alone."""


def fast(rho: float, s_sigma: float, s_join: float) -> TwoQueries:
    return TwoQueries(FAST, 60 * rho, 60, s_sigma, s_join, m_t=0.1)


def less(mine: float, other: float) -> float:
    return (other - mine) / other


@pytest.mark.parametrize("rho, s_sigma, s_join", GRID)
def test_equation_4_is_what_equations_1_to_3_come_to(rho, s_sigma, s_join):
    setting = fast(rho, s_sigma, s_join)
    sliced, up, down = state_slice(setting), pull_up(setting), push_down(setting)
    assert savings(rho, s_sigma, s_join) == pytest.approx(
        (
            less(sliced.memory, up.memory),
            less(sliced.memory, down.memory),
            less(sliced.comparisons, up.comparisons),
            less(sliced.comparisons, down.comparisons),
        ),
        rel=1e-6,
    )


def test_all_savings_are_positive():
    assert all(min(savings(*point)) > 0 for point in GRID)


@pytest.mark.parametrize("rho", RHOS)
def test_without_a_selection_no_memory_is_saved_over_pull_up_and_processor_by_join_selectivity(rho):
    for s_join in JOINS:
        found = savings(rho, 1.0, s_join)
        assert found.memory_of_pull_up == 0
        assert found.processor_of_pull_up == pytest.approx((2 - rho) * s_join / (1 + 2 * s_join))
    assert savings(rho, 1.0, 1e-9).processor_of_pull_up == pytest.approx(0, abs=1e-8)


def test_the_extremes_of_section_4_3():
    """About half of the memory, and nearly all of the processor."""
    few = savings(0.001, 0.001, 0.025)
    assert few.memory_of_pull_up == pytest.approx(0.5, abs=0.01)
    assert few.processor_of_pull_up == pytest.approx(1, abs=0.01)


def test_the_equations_worked_by_hand():
    setting = TwoQueries(lam=10, w1=2, w2=5, s_sigma=0.5, s_join=0.1, m_t=3)
    assert pull_up(setting).memory == 2 * 10 * 5 * 3
    assert pull_up(setting).comparisons == pytest.approx(1000 + 20 + 100 + 100)
    assert push_down(setting).memory == pytest.approx((1.5 * 2 + 1.5 * 5) * 10 * 3)
    assert push_down(setting).comparisons == pytest.approx(10 + 200 + 500 + 30 + 50 + 40)
    assert state_slice(setting).memory == pytest.approx((40 + 1.5 * 10 * 3) * 3)
    assert state_slice(setting).comparisons == pytest.approx(400 + 10 + 300 + 40 + 20 + 40)


@pytest.mark.parametrize("rho, s_sigma, s_join", GRID)
def test_a_join_per_query_keeps_and_probes_more_than_state_slices(rho, s_sigma, s_join):
    setting = TwoQueries(50, 60 * rho, 60, s_sigma, s_join)
    alone, sliced = isolated(setting), state_slice(setting)
    assert alone.memory - sliced.memory == pytest.approx((1 + s_sigma) * 50 * setting.w1)
    assert alone.probing - sliced.probing == pytest.approx(2 * s_sigma * 50**2 * setting.w1)


def test_merging_gains_purges_and_operators_and_loses_routing():
    windows = (1.0, 2.0, 4.0)
    assert merge_gain(windows, 2, 3, lambda_a=10, lambda_b=20, s_join=0.1, c_sys=2) == pytest.approx(
        30 * 1 - 2 * 10 * 20 * (4 - 1) * 0.1 * 1 + 2 * 2 * 30
    )
    assert merge_gain(windows, 1, 3, 10, 20, 0.1, 2) == pytest.approx(30 * 2 - 2 * 200 * 4 * 0.1 * 2 + 2 * 3 * 30)


def test_merging_pays_for_windows_close_together_and_not_for_windows_far_apart():
    gains = [merge_gain((1.0, 1.0 + gap), 1, 2, 40, 40, 0.025, 1) for gap in (0.1, 1, 10, 100)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0 > gains[-1]
