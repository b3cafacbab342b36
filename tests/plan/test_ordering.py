"""The closed forms of hammad2005 against what they sum up, its two numerical examples, and what Adaptive decides."""

from __future__ import annotations

import pytest

from muntin.plan.orderings import FILTER_ORDER, MOST_GAIN, SYNC_FILTER, Monitor, Pace, gain

DAY = 86_400.0


def saved(pace: Pace) -> float:
    """Equation 6."""
    return 1 - FILTER_ORDER.response_s(pace) / SYNC_FILTER.response_s(pace)


@pytest.mark.parametrize("slow, fast, c", [(1, 10, 1e-4), (0.5, 4, 1e-3), (2, 2, 1e-5)])
def test_equations_2_and_4_sum_the_rows_that_wait_for_the_same_row(slow, fast, c):
    pace = Pace(c, 60, slow, fast)
    waits = [1 / slow - k / fast for k in range(round(pace.n))]
    busy = [(k + 1) * pace.seconds_per_row for k in range(round(pace.n))]
    assert FILTER_ORDER.total_s(pace) == pytest.approx(sum(waits))
    assert SYNC_FILTER.total_s(pace) == pytest.approx(sum(waits) + sum(busy))
    assert FILTER_ORDER.response_s(pace) == pytest.approx(sum(waits) / pace.n)


@pytest.mark.parametrize("slow", [0.0001, 0.01, 0.1, 1])
@pytest.mark.parametrize("c", [1e-8, 1e-6, 1e-5])
def test_equation_7_is_equation_6_and_its_bound_is_one_half(slow, c):
    pace = Pace(c, DAY, slow, 1)
    assert saved(pace) == pytest.approx(gain(pace.load))
    assert pace.keeps_up == (pace.load < 1) == (gain(pace.load) < MOST_GAIN)


def test_example_1_response_of_sync_filter_grows_with_the_cost_while_that_of_filter_order_stays():
    """Section 5.2, figure 5: a window of a day, 1 and 10 rows a second, c doubled from a hundredth of a microsecond."""
    paces = [Pace(1e-8 * 2**k, DAY, 1, 10) for k in range(7)]
    assert len({FILTER_ORDER.response_s(pace) for pace in paces}) == 1
    sync = [SYNC_FILTER.response_s(pace) for pace in paces]
    assert sync == sorted(sync) and paces[-1].keeps_up
    assert 0.3 < saved(paces[-1]) < MOST_GAIN
    assert not Pace(1e-8 * 2**7, DAY, 1, 10).keeps_up


def test_example_2_more_rows_of_the_slow_stream_make_the_gain_larger():
    """Figure 6: c of a tenth of a millisecond, both streams slow; from about 10 to about 5 seconds at 0.1 a second."""
    paces = [Pace(1e-4, DAY, slow, 1) for slow in (0.0001, 0.001, 0.01, 0.1)]
    gains = [saved(pace) for pace in paces]
    assert gains == sorted(gains)
    assert SYNC_FILTER.response_s(paces[-1]) == pytest.approx(10, rel=0.1)
    assert FILTER_ORDER.response_s(paces[-1]) == pytest.approx(5.5)


def test_which_stream_is_slow_does_not_depend_on_its_side():
    assert Pace.of(1e-4, (60, 30), (1, 10)) == Pace(1e-4, 60, 1, 10)
    assert Pace.of(1e-4, (60, 30), (10, 1)) == Pace(1e-4, 30, 1, 10)


def watched(seconds_per_row: float, rates: tuple[int, int], alpha: float = 0.3) -> Monitor:
    monitor = Monitor(alpha)
    for second in range(61):
        arrived = (rates[0] * second, rates[1] * second)
        monitor.note(second, arrived, sum(arrived), seconds_per_row * sum(arrived))
    return monitor


@pytest.mark.parametrize("c, chosen", [(1e-6, SYNC_FILTER), (0.49e-3, SYNC_FILTER), (0.51e-3, FILTER_ORDER)])
def test_adaptive_switches_where_the_load_reaches_alpha(c, chosen):
    """Section 7.2.1: 60 s, 1 and 10 rows a second, alpha 0.3: the point is c = 0.5 ms."""
    comparisons = 1 * 10 * (60 + 60)  # a second, by the 11 rows of both streams
    decision = watched(c * comparisons / 11, (1, 10)).decide()
    assert decision is not None and decision.ordering == chosen.name
    assert decision.rates == (1, 10) and decision.load == pytest.approx(Pace(c, 60, 1, 10).load)
    assert decision.gain == pytest.approx(saved(Pace(c, 60, 1, 10)))


def test_adaptive_follows_what_comes_now_and_decides_nothing_from_nothing():
    monitor = watched(0.1, (1, 10))
    assert Monitor(0.3).decide() is None
    before = monitor.decide()
    assert before is not None and before.ordering == FILTER_ORDER.name
    for second in range(61, 200):
        arrived = (60 + (second - 60), 600 + (second - 60))
        monitor.note(second, arrived, sum(arrived), 0.1 * sum(arrived))
    after = monitor.decide()
    assert after is not None and after.ordering == SYNC_FILTER.name and after.rates == (1, 1)
