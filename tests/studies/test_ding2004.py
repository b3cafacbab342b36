"""The planner's model of what promises leave, against counters; figures 8 to 12 are asserted with all claims."""

from __future__ import annotations

from math import exp

import pytest

from muntin.plan.punctuation import PromiseLag
from muntin.studies.ding2004 import ASC, SECONDS, run


def test_a_lag_worked_by_hand():
    lag = PromiseLag(open=0.5, lag_s=2.0)
    assert lag.rows(100, 1e9) == pytest.approx(100 * 0.5 * 2), "without a window a row stays for its lag"
    assert lag.rows(100, 1e-6) == pytest.approx(0, abs=1e-3)
    assert PromiseLag(1.0, 1e9).rows(100, 5) == pytest.approx(500), "without promises a row stays for its window"


@pytest.mark.parametrize("lag_s", [2.0, 4.0, 50.0])
@pytest.mark.parametrize("waiting", [0.3, 1.0])
def test_what_is_measured_is_what_was_there(lag_s, waiting):
    there = PromiseLag(0.8 * waiting, lag_s)
    found = PromiseLag.measured(100, 0.8, there.rows(100, 5), waiting * exp(-5 / lag_s), 5)
    assert (found.open, found.lag_s) == (pytest.approx(there.open, rel=1e-3), pytest.approx(lag_s, rel=1e-3))


@pytest.mark.slow
def test_the_model_meets_the_state_of_another_window_within_20_percent(seed=12):
    """punct-asc-100-40, the streams of figure 8: learned at 5 s, asked for 15 s."""
    learned, asked = run("pwjoin", 5, ASC, ASC, seed), run("pwjoin", 15, ASC, ASC, seed)
    rates = [arrived / SECONDS for arrived in learned.counters.arrived]
    predicted = sum(learned.lag(side, 5).rows(rates[side], 15) for side in (0, 1))
    assert predicted == pytest.approx(asked.steady, rel=0.2)
