"""When rows have come to their source: told by files and messages, never before the run and never after now."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from muntin.spark.ingest.arrival import ARRIVED, MOST_PIECES, NEAR_US, by_arrival

NOW = time.time_ns() // 1000
SECOND = 1_000_000


def came(*ago_us: int | None) -> pa.Table:
    moments = pa.array([None if ago is None else NOW - ago for ago in ago_us], pa.timestamp("us", "UTC"))
    return pa.table({"id": np.arange(len(ago_us)), ARRIVED: moments})


def cut(table: pa.Table, began_us: int = 0) -> list[tuple[list[int], int]]:
    return [(piece["id"].to_pylist(), NOW - moment) for piece, moment in by_arrival(table, began_us)]


def test_rows_of_two_files_count_from_when_each_was_written():
    assert cut(came(5 * SECOND, 5 * SECOND, SECOND)) == [([0, 1], 5 * SECOND), ([2], SECOND)]


def test_rows_that_came_nearly_together_count_with_their_mean():
    assert cut(came(3 * SECOND, 3 * SECOND - NEAR_US // 2)) == [([0, 1], 3 * SECOND - NEAR_US // 4)]


def test_what_was_there_before_the_run_came_with_its_start():
    assert cut(came(3600 * SECOND, SECOND), NOW - 2 * SECOND) == [([0], 2 * SECOND), ([1], SECOND)]


@pytest.mark.parametrize("jump", [SECOND, 3600 * SECOND])
def test_a_clock_that_was_ahead_says_no_more_than_now(jump: int):
    """The clock of whoever wrote was ahead, or this one has gone back since."""
    ((rows, ago),) = cut(came(-jump, -2 * jump), NOW + 10 * jump)
    assert rows == [0, 1] and ago <= 0, "neither in the future, nor at the start of a run that is itself ahead"
    assert NOW - ago <= time.time_ns() // 1000


def test_a_row_whose_source_says_nothing_came_now():
    assert [rows for rows, _ in cut(came(None, 9 * SECOND))] == [[0], [1]]
    ((table, moment),) = by_arrival(pa.table({"id": [1]}), 0)
    assert table.num_rows == 1 and moment >= NOW


@pytest.mark.parametrize("shuffled", [False, True])
def test_many_messages_are_few_pieces_in_their_order(shuffled: bool):
    ago = np.linspace(10 * SECOND, 0, 1000).astype(int)
    order = np.random.default_rng(1).permutation(1000) if shuffled else np.arange(1000)
    found = cut(came(*ago[order].tolist()))
    assert len(found) <= MOST_PIECES and [row for rows, _ in found for row in rows] == list(range(1000))
    mean = sum(len(rows) * moment for rows, moment in found) / 1000
    assert mean == pytest.approx(5 * SECOND, rel=0.01), "what is added up over all rows is right in any case"
