"""A fault in one row is NULL in one row, however the expressions of many queries share their parts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from muntin.kernels.evaluate import evaluate, type_of

TABLE = pa.table({"l.i": pa.array([-(2**31), 5, None], pa.int32()), "l.b": pa.array([2**62, 1, None])})


def test_parts_that_two_expressions_have_in_common_fail_for_their_row_only():
    found = evaluate(TABLE, [('ABS("l.i") > 2', "boolean"), ('ABS("l.i") > 7', "boolean")])
    assert [column.to_pylist() for column in found] == [[None, True, None], [None, False, None]]


def test_a_part_that_occurs_twice_in_one_expression_fails_for_its_row_only():
    assert evaluate(TABLE, [('("l.b" * 4) + ("l.b" * 4)', "bigint")])[0].to_pylist() == [None, 8, None]


@pytest.mark.slow
def test_a_row_on_which_duckdb_breaks_down_is_null_and_the_others_are_not():
    times = pa.array([0, -(2**63), 5, None, -(2**63), 7], pa.timestamp("us"))
    table = pa.table({"when": times, "n": list(range(6))})
    for _ in range(2):  # the connection is another one afterwards
        text, twice = evaluate(table, [('CAST("when" AS VARCHAR)', "string"), ("n * 2", "bigint")])
        assert [value is None for value in text.to_pylist()] == [False, True, False, True, True, False]
        assert twice.to_pylist() == [0, None, 4, 6, None, 10]
    assert evaluate(table, [("n + 1", "bigint")])[0].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_threads_of_a_driver_wait_for_each_other():
    table = pa.table({"n": np.arange(20_000)})

    def work(number: int) -> bool:
        assert type_of(f"n + {number}", [("n", "bigint")]) == "bigint"
        (found,) = evaluate(table, [(f"n + {number}", "bigint")])
        return found[-1].as_py() == 19_999 + number

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(200)))
