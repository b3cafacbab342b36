"""The formulas of hammad2003, section 3, for the operator that ships; the claims of section 5 are asserted with all."""

from __future__ import annotations

import pytest

from muntin.generate.windows import TABLE_1
from muntin.plan.response_times import alone
from muntin.plan.schedulers import SCHEDULERS
from muntin.studies.hammad2003_bursts import LAMBDA, M, burst, first_released, first_waits

pytestmark = pytest.mark.slow

lwo, swf, mqt = (SCHEDULERS[name].response for name in ("lwo", "swf", "mqt"))


@pytest.mark.parametrize("windows", TABLE_1.values(), ids=TABLE_1)
def test_equation_1_is_the_response_time_of_lwo(windows):
    sizes = [w * LAMBDA for w in windows]
    for i, response in enumerate(burst("lwo", windows).queries.values()):
        assert response.rows == M * sizes[i]
        assert response.mean_us == pytest.approx(lwo(sizes, i, M), rel=0.01)
    assert burst("lwo", windows[:3]).queries["w3"].mean_us == pytest.approx(alone(sizes[2], M), rel=0.01)


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


@pytest.mark.parametrize("windows", TABLE_1.values(), ids=TABLE_1)
def test_the_formula_for_mqt_is_its_response_time(windows):
    sizes = [w * LAMBDA for w in windows]
    for i, response in enumerate(burst("mqt", windows).queries.values()):
        assert response.mean_us == pytest.approx(mqt(sizes, i, M), rel=1e-6)
