"""Kostowski's formulas against what the operator counts, on Poisson streams in a steady state.

Each run is compared at the rates it really had, so that what is left of chance are a few percent. Where the paper's
model does not describe the operator, or any operator, the test's name says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import expm1

import numpy as np
import pytest

from muntin.core.batch import Counters
from muntin.model import Side
from muntin.plan import cost
from muntin.plan.cost import Constants, Load
from muntin.plan.invalidations import INVALIDATIONS, invalidation_of
from muntin.testing.steady import SteadyJoin

EVEN = Load(lambda_a=300, lambda_b=300, t_a=10, t_b=10, n=100)
UNEVEN = Load(lambda_a=50, lambda_b=500, t_a=20, t_b=5, n=40)
LOOPS = Load(lambda_a=60, lambda_b=90, t_a=8, t_b=4, n=1)
LOADS = {"even": EVEN, "uneven": UNEVEN, "nested loops": LOOPS}
CLOSE = 0.04

each_load = pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
each_strategy = pytest.mark.parametrize("strategy", INVALIDATIONS.names)


def effective_buckets(shares_a: Iterable[float], shares_b: Iterable[float]) -> float:
    """The `n` of keys with these shares of the rows of A and of B: one over the chance that two rows have one key.

    For N equal shares it is N. The paper assumes those; with skew the scan costs what that many even buckets would.
    """
    return 1 / sum(a * b for a, b in zip(shares_a, shares_b, strict=True))


def wnl_half_cost(load: Load, c: Constants) -> float:
    """Section 3.1, C(WNL)_half: nanoseconds per second for the rows of A, by nested loops."""
    return whj_half_cost(Load(load.lambda_a, load.lambda_b, load.t_a, load.t_b), c)


def wnl_cost(load: Load, c: Constants) -> float:
    """Equation 1, C(WNL)_total: nanoseconds per second, by nested loops."""
    return load.arrivals * (c.invalidate_ns + c.insert_ns) + (
        load.lambda_a * load.lambda_b * (load.t_a + load.t_b) * c.scan_ns
    )


def whj_half_cost(load: Load, c: Constants) -> float:
    """Section 3.1, C(WHJ)_half: nanoseconds per second for the rows of A, by hashing.

    Each of them takes out `lambda_b / lambda_a` rows of B on average, whenever that is, scans its bucket and is stored.
    """
    per_row = (
        load.lambda_b / load.lambda_a * c.invalidate_ns + load.t_b * load.lambda_b / load.n * c.scan_ns + c.insert_ns
    )
    return load.lambda_a * per_row


def stale_rows(load: Load, invalidation: str, sweep_s: float | None = None) -> float:
    """Stale rows of B held at an average moment, in all buckets; figure 8 shows them on top of the window's rows.

    With a sweep of everything each `sweep_s` seconds, stale rows have gathered in a bucket for the shorter of two
    times, since its last own cleaning and since the sweep. With Poisson cleanings at rate m the mean of that is
    `1 / m - (1 - exp(-m * sweep_s)) / (m * m * sweep_s)`, at most half of `sweep_s` however small m is: a key that
    nobody touches again does not keep its rows for long. The paper has no sweep.
    """
    rate = INVALIDATIONS[invalidation].cleanings(load)
    unclean_s = 1 / rate if sweep_s is None else 1 / rate + expm1(-rate * sweep_s) / (rate * rate * sweep_s)
    return load.lambda_b * unclean_s


def steady(load: Load, strategy: str, **more) -> SteadyJoin:
    """A join whose windows are full and whose buckets have been cleaned a few times."""
    join = SteadyJoin(load, strategy, seed=7, **more)
    join.advance(1.5 * max(load.t_a, load.t_b))
    return join


def measure(load: Load, strategy: str, seconds: float = 60, **more) -> tuple[Load, Counters, float]:
    """The rates that really came, and the work per second."""
    done = steady(load, strategy, **more).advance(seconds)
    a, b = (rows / seconds for rows in done.inserted)
    return Load(a, b, load.t_a, load.t_b, load.n), done, seconds


# -- section 3.1 -----------------------------------------------------------------------------------------------------


@each_load
@each_strategy
def test_rows_scanned_are_those_of_equations_1_and_2_whatever_the_strategy(load, strategy):
    real, done, seconds = measure(load, strategy)
    assert done.comparisons / seconds == pytest.approx(cost.scanned(real), rel=CLOSE)
    assert done.pairs == done.comparisons, "a bucket is a key, so every row scanned is a pair"


@each_load
@each_strategy
def test_as_many_rows_are_invalidated_as_come_so_only_the_moment_differs(load, strategy):
    """Section 3.2: in the steady state the rate out is the rate in."""
    _, done, _ = measure(load, strategy)
    assert done.expired == pytest.approx(done.inserted, rel=2 * CLOSE)


@each_load
def test_the_total_cost_is_the_sum_of_the_two_halves(load):
    c = Constants(invalidate_ns=3, scan_ns=5, insert_ns=7)
    halves = (load, load.swapped)
    assert wnl_cost(load, c) == pytest.approx(sum(wnl_half_cost(half, c) for half in halves))
    assert cost.whj_cost(load, c) == pytest.approx(sum(whj_half_cost(half, c) for half in halves))


def test_twice_the_half_cost_is_the_total_only_for_symmetric_streams_unlike_the_papers_first_formula():
    c = Constants(invalidate_ns=3, scan_ns=5, insert_ns=7)
    assert 2 * wnl_half_cost(EVEN, c) == pytest.approx(wnl_cost(EVEN, c))
    assert 2 * wnl_half_cost(UNEVEN, c) != pytest.approx(wnl_cost(UNEVEN, c), rel=0.1)


def test_equation_1_and_2_worked_by_hand():
    c = Constants(invalidate_ns=1, scan_ns=10, insert_ns=100)
    load = Load(lambda_a=2, lambda_b=3, t_a=4, t_b=5, n=10)
    assert wnl_cost(load, c) == 5 * 101 + 2 * 3 * 9 * 10
    assert cost.whj_cost(load, c) == pytest.approx(5 * 101 + 2 * 3 * 9)


def test_a_hash_join_with_one_bucket_costs_what_nested_loops_cost():
    c = Constants(invalidate_ns=3, scan_ns=5, insert_ns=7)
    assert cost.whj_cost(LOOPS, c) == wnl_cost(LOOPS, c)


def test_with_one_input_rate_fixed_the_cost_is_linear_in_the_other():
    """Section 3.1, against the quadratic growth that the paper found reported elsewhere (section 5)."""
    c = Constants(invalidate_ns=3, scan_ns=5, insert_ns=7)
    costs = [cost.whj_cost(Load(rate, 300, 10, 10, 100), c) for rate in (100, 200, 300)]
    assert costs[1] - costs[0] == pytest.approx(costs[2] - costs[1])


@pytest.mark.slow
def test_skewed_keys_scan_more_than_equation_2_says_and_effective_buckets_put_it_right():
    """The paper divides by the number of buckets, which needs keys of equal frequency."""
    shares = 1 / np.arange(1, 101) ** 1.1
    shares /= shares.sum()
    real, done, seconds = measure(EVEN, "probe", keys=lambda rng, rows: rng.choice(100, rows, p=shares))
    assert done.comparisons / seconds > 4 * cost.scanned(real)
    skewed = Load(real.lambda_a, real.lambda_b, real.t_a, real.t_b, effective_buckets(shares, shares))
    assert done.comparisons / seconds == pytest.approx(cost.scanned(skewed), rel=CLOSE)
    assert effective_buckets([0.01] * 100, [0.01] * 100) == pytest.approx(100)


# -- section 3.2 -----------------------------------------------------------------------------------------------------


@each_load
@each_strategy
def test_checks_are_one_per_bucket_and_one_per_stale_row(load, strategy):
    real, done, seconds = measure(load, strategy)
    assert done.stale_checks / seconds == pytest.approx(INVALIDATIONS[strategy].checks(real), rel=CLOSE)


def test_equation_2_cannot_tell_the_strategies_apart_but_the_checks_can():
    """Figure 7: the two strategies that clean every bucket cost far more; the equations charge them all the same."""
    c = Constants(invalidate_ns=3, scan_ns=5, insert_ns=7, check_ns=1, visit_ns=1)
    costs = {strategy: INVALIDATIONS[strategy].cost(EVEN, c) for strategy in INVALIDATIONS.names}
    assert costs["probe"] < costs["probe-insert"] < costs["probe-all"] < costs["all"]
    assert costs["probe-insert"] - costs["probe"] < 0.1 * (costs["probe-all"] - costs["probe"])


def test_with_more_keys_than_rows_cleaning_all_checks_the_buckets_in_use_not_the_papers_n():
    """A bucket that has become empty is given back, so those in use are bounded by the rows."""
    sparse = Load(lambda_a=20, lambda_b=20, t_a=5, t_b=5, n=10_000)
    real, done, seconds = measure(sparse, "all")
    assert done.stale_checks / seconds < 0.1 * INVALIDATIONS["all"].checks(real)


def average_stale(join: SteadyJoin, step_s: float, steps: int, sweep_each: int | None = None) -> float:
    """Stale rows of B, over moments that know nothing of the arrivals."""
    seen = []
    for n in range(steps):
        join.advance(step_s)
        seen.append(join.stale(Side.RIGHT))
        if sweep_each and (n + 1) % sweep_each == 0:
            join.sweep()
    return float(np.mean(seen))


@pytest.mark.parametrize("load", [Load(200, 200, 5, 5, 20), Load(20, 200, 5, 5, 20)], ids=["even", "uneven"])
@each_strategy
def test_stale_rows_held_are_those_of_section_3_2(load, strategy):
    got = average_stale(steady(load, strategy), 0.25, 1200)
    assert got == pytest.approx(stale_rows(load, strategy), rel=0.1)


def test_a_hundredfold_rate_fills_the_probed_side_with_stale_rows_for_probe_only():
    """Figure 8: rate ratio 100, window 30 s, 100 buckets; all but `probe` hold about the window."""
    load = Load(lambda_a=1, lambda_b=100, t_a=30, t_b=30, n=100)
    window = load.lambda_b * load.t_b
    assert INVALIDATIONS["probe"].stale_in_bucket(load) == 100
    assert stale_rows(load, "probe") > 3 * window
    for strategy in ("probe-insert", "probe-all", "all"):
        assert stale_rows(load, strategy) < 0.04 * window


def test_figure_8_shows_less_for_probe_than_the_formula_since_60_seconds_are_no_steady_state():
    """A bucket is probed every 100 s on average: within the paper's minute stale rows only grow, up to all of 30 s."""
    load = Load(lambda_a=1, lambda_b=100, t_a=30, t_b=30, n=100)
    join = SteadyJoin(load, "probe", seed=7)
    join.advance(60)
    gathered = load.lambda_b * 30
    assert 0.7 * gathered < join.stale(Side.RIGHT) < gathered < stale_rows(load, "probe")


@pytest.mark.parametrize("strategy", ["probe", "probe-insert"])
def test_a_sweep_bounds_the_stale_rows(strategy):
    load = Load(lambda_a=5, lambda_b=400, t_a=5, t_b=5, n=200)
    got = average_stale(steady(load, strategy), 0.125, 1600, sweep_each=16)
    expected = stale_rows(load, strategy, sweep_s=2)
    # Moments are taken up to just before the sweep and never just after: half a step later than the average.
    assert got == pytest.approx(expected, rel=0.1)
    assert expected < load.lambda_b * 2 / 2
    assert expected < stale_rows(load, strategy)


def test_evenly_spaced_arrivals_hold_half_of_what_the_paper_says():
    """Section 3.2 counts what has gathered when the cleaning comes; without Poisson the average moment has half of
    it."""
    load = Load(lambda_a=10, lambda_b=400, t_a=2, t_b=2, n=1)

    due: dict[float, int] = {}

    def regular(rng: np.random.Generator, rate: float, duration_us: int) -> np.ndarray:
        times = np.arange(due.get(rate, 0), duration_us, round(1_000_000 / rate))
        due[rate] = due.get(rate, 0) + len(times) * round(1_000_000 / rate) - duration_us
        return times

    got = average_stale(steady(load, "probe", clock=regular), 0.01, 100)
    assert got == pytest.approx(stale_rows(load, "probe") / 2, rel=0.15)


def test_a_setting_of_auto_is_the_papers_choice():
    assert invalidation_of("auto").name == "probe-insert"
    assert all(invalidation_of(strategy).name == strategy for strategy in INVALIDATIONS.names)
