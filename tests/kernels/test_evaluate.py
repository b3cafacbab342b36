"""A fault in one row is NULL in one row, however the expressions of many queries share their parts."""

from __future__ import annotations

import pyarrow as pa

from muntin.kernels.evaluate import evaluate

TABLE = pa.table({"l.i": pa.array([-(2**31), 5, None], pa.int32()), "l.b": pa.array([2**62, 1, None])})


def test_parts_that_two_expressions_have_in_common_fail_for_their_row_only():
    found = evaluate(TABLE, [('ABS("l.i") > 2', "boolean"), ('ABS("l.i") > 7', "boolean")])
    assert [column.to_pylist() for column in found] == [[None, True, None], [None, False, None]]


def test_a_part_that_occurs_twice_in_one_expression_fails_for_its_row_only():
    assert evaluate(TABLE, [('("l.b" * 4) + ("l.b" * 4)', "bigint")])[0].to_pylist() == [None, 8, None]
