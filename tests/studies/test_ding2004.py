"""The planner's model of what promises leave, against counters; figures 7 to 12 are asserted with all claims."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.plan.promise_lags import AssumedLags, LagCounts, MeasuredLags
from muntin.studies.ding2004 import WINDOWS, run
from muntin.studies.ding2004_model import PATTERNS, by_lag

UNSEEN = 31
"""A seed that no run of the study has and that the model was not looked at with."""


def counted(expired: int, before_s: list[float], after_s: list[float]) -> LagCounts:
    counts = LagCounts(expired)
    counts.add(*((np.array(lags) * 1e6).astype(np.int64) for lags in (before_s, after_s)))
    return counts


def test_assumed_lags_worked_by_hand():
    lags = AssumedLags(waiting=0.5, lag_s=2.0)
    assert lags.rows(100, 1e9, 1e9) == pytest.approx(100 * 0.5 * 2), "without a window a row stays for its lag"
    assert lags.rows(100, 1e-6, 1e-6) == pytest.approx(0, abs=1e-3)
    assert AssumedLags(1.0, 1e9).rows(100, 5, 5) == pytest.approx(500), "without promises a row stays for its window"


def test_measured_lags_worked_by_hand():
    """Of ten rows four find a promise, four are freed after two seconds, two stay for the window of eight."""
    lags = MeasuredLags(counted(2, [0.5] * 4, [2.0] * 4), 8, 8)
    assert lags.rows(10, 8, 8) == pytest.approx(4 * 2 + 2 * 8, rel=0.05)
    assert lags.rows(10, 1, 8) == pytest.approx(6 * 1, rel=0.05), "nobody is freed within a second"
    assert lags.rows(10, 8, 0.1) == pytest.approx(4 * 8 + 4 * 2 + 2 * 8, rel=0.05), "promises that lapse at once"
    assert lags.rows(10, 16, 16) == pytest.approx(4 * 2 + 2 * 16, rel=0.05), "no promise came late, so none comes later"


def test_promises_beyond_the_window_are_taken_to_come_as_they_came_last():
    """One row in ten is freed each second up to five: the other half is, by ten."""
    lags = MeasuredLags(counted(50, [], np.linspace(0.05, 5, 50).tolist()), 5, 5)
    assert lags.arrived_after(np.array([2.5, 5.0, 7.5, 10.0, 99.0])) == pytest.approx([0.25, 0.5, 0.75, 1, 1], abs=0.03)


def test_counts_of_shards_and_since_a_time_add_up():
    one, two = counted(3, [1.0], [2.0, 4.0]), counted(4, [], [0.1])
    both = LagCounts.together([one, two])
    assert both.rows == one.rows + two.rows == 11 and both.since(one) == LagCounts(4, [0] * len(both.before),
                                                                                  both.since(one).after)  # fmt: skip
    assert sum(both.since(one).after) == 1


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_model_meets_the_state_of_other_windows_within_20_percent(pattern):
    """Learned at 5 s, asked for 1 s and 15 s, where what lies beyond the window is extrapolated; and 5 s from 15 s."""
    for window_s in WINDOWS:
        counted = run("pwjoin", window_s, pattern, pattern, UNSEEN).steady
        assert by_lag(pattern, window_s, UNSEEN) == pytest.approx(counted, rel=0.2), window_s
