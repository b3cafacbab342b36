from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.records import to_json
from muntin.spark.sink.response_times import Latency

TIMES = st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 50)), min_size=1, max_size=30)


@given(TIMES, st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_mean_and_maximum_are_exact_and_percentiles_nearly(times, part):
    found = Latency()
    for us, rows in times:
        found.add(us, rows)
    every = np.sort(np.repeat([us for us, _ in times], [rows for _, rows in times]))
    assert found.count == len(every) and found.max_us == every[-1]
    assert found.total_us == every.sum()
    exact = every[max(0, int(np.ceil(part * len(every))) - 1)]
    assert found.percentile(part) == pytest.approx(exact, rel=0.05, abs=1)


@given(TIMES, TIMES)
def test_merging_is_adding(one, two):
    apart, together = [Latency(), Latency()], Latency()
    for times, part in ((one, apart[0]), (two, apart[1])):
        for us, rows in times:
            part.add(us, rows)
            together.add(us, rows)
    merged = Latency()
    merged.merge(apart)
    assert merged == together and merged.summary == together.summary


def test_rows_are_counted_from_their_arrival_and_a_clock_that_goes_back_does_no_harm():
    found = Latency()
    found.add_since({1_000_000: 3, 1_900_000: 1, 5_000_000: 1}, now_us=2_000_000)
    assert found.summary.rows == 5 and found.summary.max_s == 1.0
    assert to_json(Latency().summary) == {"rows": 0}
