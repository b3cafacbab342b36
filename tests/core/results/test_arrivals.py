"""When the pairs of a run were complete: one moment for each pair, however few rows there are to tell it of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.core.batch import CLASS, TS
from muntin.core.results import ResultBatch
from muntin.plan import share
from muntin.sql import parse_job

STREAM = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'x');"
(JOIN,) = share(
    parse_job(
        "".join(STREAM.format(name) for name in "AB")
        + "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;"
    )
).joins


def run(pairs: list[tuple[int, int]], left: list[int], right: list[int], rows: tuple[int, int]) -> ResultBatch:
    """A run of these pairs; `left` and `right` say when the rows came, or once when all of them did."""
    tables = [pa.table({TS: np.zeros(n, np.int64), CLASS: np.zeros(n, np.int32), "k": np.arange(n)}) for n in rows]
    wants, none = np.ones((1, 1), np.uint64), np.zeros(0, np.int32)
    lefts, rights = (np.array([p[side] for p in pairs], np.int32) for side in (0, 1))
    came = np.array(left), np.array(right)
    tags = np.zeros(len(pairs), np.int32)
    return ResultBatch(JOIN, (tables[0], tables[1]), (wants, wants, wants), (lefts, rights), tags, none, came)


def test_runs_of_one_pair_each_whose_rows_came_at_two_moments_are_merged():
    """The rows of A came before those of B, in both shards: each side has one moment, and there are two pairs."""
    merged = ResultBatch.merge([run([(0, 0)], [100], [200], (1, 1)) for _ in range(2)])
    assert merged.arrivals(np.array([0, 1])) == {200: 2}
    assert merged.moments(np.array([1, 0])).tolist() == [200, 200]


@pytest.mark.parametrize("left", [[100], [100, 300]])
@pytest.mark.parametrize("right", [[200], [200, 400, 50]])
def test_a_pair_is_complete_with_its_later_row_whether_moments_are_told_once_or_for_each_row(left, right):
    pairs = [(0, 0), (1, 1), (0, 2), (1, 0)]
    found = run(pairs, left, right, (2, 3))
    want = [max(left[a % len(left)], right[b % len(right)]) for a, b in pairs]
    assert found.moments(np.arange(4)).tolist() == want
    assert found.arrivals(np.array([1, 3])) == {at: want[1::2].count(at) for at in want[1::2]}
