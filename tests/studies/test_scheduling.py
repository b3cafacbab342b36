"""The claims of hammad2003, sections 3 and 5, for the operator that ships, on a virtual clock.

What "average" means in figures 5, 7 and 9 is taken to be the mean over the windows, each counting the same; the test on
means over output rows shows why it cannot be those.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from muntin.generate.windows import TABLE_1
from muntin.plan.response_times import alone as alone_response
from muntin.plan.schedulers import SCHEDULERS
from muntin.studies.scheduling import SECOND_US, Scenario, join_of, measure, rows_of, run
from muntin.studies.virtual_clock import Costs, Measured

lwo, swf, mqt = (SCHEDULERS[name].response for name in ("lwo", "swf", "mqt"))
M, LAMBDA = 50, 100
"""The parameters of 3.1.1, with a microsecond for a comparison."""


@cache
def burst(scheduler: str, windows: tuple[int, ...], m: int = M) -> Measured:
    """m rows at once on one stream, by nested loops, all rows matching."""
    join = join_of([w * SECOND_US for w in windows])
    state = windows[-1] * SECOND_US - np.arange(windows[-1] * LAMBDA)[::-1] * (SECOND_US // LAMBDA) - 5_000
    nothing = np.zeros(0, np.int64)
    history = rows_of([nothing, state], [nothing, np.zeros(len(state), np.int64)])
    now = np.full(m, windows[-1] * SECOND_US)
    return run(join, history, rows_of([now, nothing], [np.zeros(m, np.int64), nothing]), scheduler, Costs(1.0))


@pytest.mark.parametrize("windows", TABLE_1.values(), ids=TABLE_1)
def test_equation_1_is_the_response_time_of_lwo(windows):
    sizes = [w * LAMBDA for w in windows]
    for i, response in enumerate(burst("lwo", windows).queries.values()):
        assert response.rows == M * sizes[i]
        assert response.mean_us == pytest.approx(lwo(sizes, i, M), rel=0.01)
    alone = burst("lwo", windows[:3])
    assert alone.queries["w3"].mean_us == pytest.approx(alone_response(sizes[2], M), rel=0.01)


@pytest.mark.parametrize("name", TABLE_1)
def test_equation_2_is_the_response_time_of_swf(name):
    """But for the first row of the burst, of which figure 3(a) releases all at once (steps 2 and 6) and the equation
    nothing: a part of 1/m, which with 50 rows is more than 1% where the largest windows are close together."""
    windows = TABLE_1[name]
    sizes = [w * LAMBDA for w in windows]
    for i, response in enumerate(burst("swf", windows).queries.values()):
        found, printed = response.mean_us, swf(sizes, i, M)
        assert found == pytest.approx(printed, rel=0.01 if name in ("uniform", "mostly-small") else 0.013)
        assert found == pytest.approx(printed - (first_waits(sizes, i) - first_released(sizes, i)) / M, rel=1e-6)


def first_waits(sizes: list[int], i: int) -> float:
    """When equation 2 lets a query have the pairs of the first row."""
    before = sizes[i - 1] if i else 0
    return M * before + sizes[i] - before


def first_released(sizes: list[int], i: int) -> float:
    """When it has them on average if they are released at the end of each unit."""
    bounds = [0, *sizes[: i + 1]]
    return sum((b - a) * (M * a + b - a) for a, b in pairwise(bounds)) / sizes[i]


@pytest.mark.parametrize("windows", TABLE_1.values(), ids=TABLE_1)
def test_the_formula_for_mqt_is_its_response_time(windows):
    sizes = [w * LAMBDA for w in windows]
    for i, response in enumerate(burst("mqt", windows).queries.values()):
        assert response.mean_us == pytest.approx(mqt(sizes, i, M), rel=1e-6)


# -- section 5 -----------------------------------------------------------------------------------------------------


@cache
def figure_5(name: str) -> dict[str, Measured]:
    return {scheduler: measure(Scenario(TABLE_1[name], rows=1000), scheduler) for scheduler in SCHEDULERS.names}


def means(found: dict[str, Measured]) -> dict[str, float]:
    return {scheduler: measured.mean_of_queries_us for scheduler, measured in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE_1)
def test_mqt_has_the_lowest_average_and_lwo_the_second_but_for_mostly_small(name):
    """5.1, figure 5."""
    mean = means(figure_5(name))
    assert min(mean, key=mean.__getitem__) == "mqt"
    assert (mean["lwo"] < mean["swf"]) == (name != "mostly-small")


@pytest.mark.slow
def test_a_mean_over_output_rows_would_not_show_what_figure_5_shows():
    """Nearly all rows are those of the largest windows, for which nothing is better than one row after the other."""
    for name in ("uniform", "mostly-large"):
        found = figure_5(name)
        assert found["lwo"].mean_us < found["mqt"].mean_us < found["swf"].mean_us


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "mostly-small"])
def test_lwo_treats_all_windows_alike_and_the_others_favour_small_ones(name):
    """5.1, figure 6; SWF at the expense of the largest window, which MQT spares."""
    found = {s: [r.mean_us for r in m.queries.values()] for s, m in figure_5(name).items()}
    assert found["lwo"][-1] < 3 * found["lwo"][0]
    for scheduler in ("swf", "mqt"):
        assert all(b > 0.95 * a for a, b in pairwise(found[scheduler])), "the larger the window, the longer"
        assert found[scheduler][0] < found["lwo"][0] / 3
    assert found["mqt"][-1] < found["swf"][-1] and found["lwo"][-1] < found["swf"][-1]
    longest = {s: list(m.queries.values())[-1].max_us for s, m in figure_5(name).items()}
    assert longest["mqt"] <= longest["swf"]


@cache
def figure_7(size: float) -> dict[str, Measured]:
    return {s: measure(Scenario(TABLE_1["small-large"], rows=1500, burst=size), s) for s in SCHEDULERS.names}


@pytest.mark.slow
def test_bursts_make_scheduling_matter_and_mqt_gains_on_both():
    """5.2, figure 7. The paper has up to 60% over LWO and 30% over SWF with bursts of 3. Over LWO it is about 3/7 here:
    the four large windows cannot be served sooner than by LWO, and the three small ones take hardly any time."""
    mean = means(figure_7(3.0))
    assert 0.3 < 1 - mean["mqt"] / mean["lwo"] < 0.5
    assert 1 - mean["mqt"] / mean["swf"] > 0.3
    calm = means(figure_5("small-large"))
    assert all(mean[s] > 3 * calm[s] for s in SCHEDULERS.names), "as bursts grow, so do response times"


@pytest.mark.slow
def test_in_bursts_swf_delays_the_largest_window_most():
    """5.2, figure 8."""
    found = {s: [r.mean_us for r in m.queries.values()] for s, m in figure_7(3.0).items()}
    assert found["swf"][-1] > 2 * found["mqt"][-1]
    assert found["mqt"][-1] < 1.1 * found["lwo"][-1] and found["mqt"][0] < found["lwo"][0] / 20


@pytest.mark.slow
@pytest.mark.parametrize("most", range(7))
def test_mqt_has_the_lowest_average_wherever_most_queries_are(most):
    """5.3, figure 9: 24 of 30 queries on one window; SWF before LWO where it is small, behind it where it is large."""
    queries = [24 if n == most else 1 for n in range(7)]
    found = {s: measure(Scenario(TABLE_1["small-large"], queries, rows=400), s) for s in SCHEDULERS.names}
    mean = means(found)
    assert min(mean, key=mean.__getitem__) == "mqt"
    assert (mean["swf"] < mean["lwo"]) == (most <= 3)


@pytest.mark.slow
def test_the_buffers_are_small_beside_the_join_buffer():
    """5.4: below 20% and 3%. SWF exceeds the 3%, a little where windows are close together and much in bursts: it keeps
    all pairs of each row that waits, and with 120 partners a row some twenty that wait have 3% of the join buffer."""
    calm, bursty = [figure_5(name) for name in TABLE_1], figure_7(3.0)
    for found in (*calm, bursty):
        assert all(0 < m.input_buffer < 0.2 * m.join_buffer for m in found.values())
        assert found["mqt"].output_buffer < 0.03 * found["mqt"].join_buffer and found["lwo"].output_buffer == 0
    shares = {name: m["swf"].output_buffer / m["swf"].join_buffer for name, m in zip(TABLE_1, calm, strict=True)}
    assert shares["mostly-small"] < 0.03 < shares["mostly-large"] and max(shares.values()) < 0.05
    assert bursty["swf"].output_buffer > 0.05 * bursty["swf"].join_buffer
