"""`Operator.check` holds after every step of every other test; here it is shown that it notices damage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from muntin.core.invariants import InvariantError
from muntin.core.operator import Operator
from muntin.core.storage import ChunkKind
from muntin.kernels.index import CLASS_BITS, FILL, KEYS, LIVE
from muntin.model import Side
from muntin.sql import parse_job
from muntin.testing import LocalJob

JOB = """
SET ordering = '{ordering}';
CREATE STREAM A (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 microseconds
  WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 microseconds
  WITH (format = 'parquet', path = 'b');
CREATE QUERY narrow AS SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k AND A.v > 3 WINDOW 5 microseconds;
CREATE QUERY wide AS SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k AND A.v > 5 WINDOW 20 microseconds;
"""


def rows(low: int, high: int) -> pa.Table:
    times = list(range(low, high))
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table({"ts": stamps, "k": [t % 3 for t in times], "v": [t % 9 for t in times]})


def running(ordering: str = "filter-order") -> Operator:
    """An operator in the middle of two streams, one of which is ahead: it has joined rows, held rows and held pairs."""
    local = LocalJob(parse_job(JOB.format(ordering=ordering)))
    local.push({"A": rows(0, 20), "B": rows(0, 14)})
    local.push({"A": rows(20, 45), "B": rows(14, 30)})
    operator = local.shards[0][0].operator
    assert min(operator.counters.state_rows) > 5 and min(operator.counters.held_rows) > 0
    assert operator.counters.held_pairs > 3 or ordering != "filter-order"
    return operator


def newest(operator: Operator, side: Side) -> int:
    """Where in the slab the newest row of a side lies."""
    at, _ = operator.state.entries(side)
    return int(at[np.argmax(operator.state.index.slab[at, 0])])


def a_row_leaves_the_index(operator: Operator) -> None:
    slot = int(operator.state.index.table.max())
    operator.state.index.slots[slot, FILL] -= 1 << 6
    operator.state.index.control[LIVE] -= 1


def a_stale_row_stays(operator: Operator) -> None:
    at = newest(operator, Side.RIGHT)
    operator.state.index.slab[at, 0] -= 1000


def a_row_gets_the_number_of_another(operator: Operator) -> None:
    at, _ = operator.state.entries(Side.LEFT)
    operator.state.index.slab[at[0], 1] = operator.state.index.slab[at[1], 1]


def a_row_gets_a_number_that_nobody_has(operator: Operator) -> None:
    operator.state.index.slab[newest(operator, Side.LEFT), 1] += 10_000 << CLASS_BITS


def a_row_gets_another_class(operator: Operator) -> None:
    operator.state.index.slab[newest(operator, Side.LEFT), 1] ^= 1


def a_key_is_counted_twice(operator: Operator) -> None:
    operator.state.index.control[KEYS] += 1


def a_key_changes(operator: Operator) -> None:
    operator.state.index.slots[operator.state.index.table.max(), 0] ^= 1


def an_expiry_list_forgets_a_row(operator: Operator) -> None:
    times = operator.state.expiry.times
    lane = int(np.argmax(times.lanes[:, 4]))
    times.lanes[lane, 1] += 1


def an_expiry_list_has_a_row_for_another_slice(operator: Operator) -> None:
    times = operator.state.expiry.times
    times.lanes[[0, 1]] = times.lanes[[1, 0]]


def a_chunk_is_lost(operator: Operator) -> None:
    name = next(name for kind, _, _, name in operator.chunks if kind is ChunkKind.ROWS)
    del operator.chunks.live[name]


def a_chunk_says_that_it_can_go_early(operator: Operator) -> None:
    name, chunk = next(iter(operator.chunks.live.items()))
    operator.chunks.live[name] = chunk._replace(last_ts=chunk.last_ts - 1)


def stored_rows_are_lost(operator: Operator) -> None:
    operator.payload[0].forget({})


def a_held_row_is_behind(operator: Operator) -> None:
    operator.progress.joined[Side.LEFT] = operator.progress.streams.frontier(Side.LEFT)
    operator.intake._waiting[Side.LEFT][-1].put_back()


def a_held_pair_is_forgotten(operator: Operator) -> None:
    operator.held_pairs._queues.pop()


def a_held_pair_is_late(operator: Operator) -> None:
    operator.held_pairs._queues[-1].arrays[0][0] = operator.release


def the_release_point_runs_ahead(operator: Operator) -> None:
    operator.progress.release = operator.progress.streams.frontier(Side.LEFT) + 1


def a_frontier_goes_back(operator: Operator) -> None:
    operator.progress.streams.max_ts[Side.LEFT] -= 1
    operator.progress.joined[Side.LEFT] -= 1


def a_counter_is_off(operator: Operator) -> None:
    operator.counters.state_rows[Side.RIGHT] += 1


DAMAGE: dict[Callable[[Operator], None], str] = {
    a_row_leaves_the_index: "are not in the index",
    a_stale_row_stays: "no query can want any more",
    a_row_gets_the_number_of_another: "twice in the index",
    a_row_gets_a_number_that_nobody_has: "rows of the index are not stored",
    a_row_gets_another_class: "stored with another class",
    a_key_is_counted_twice: "the index counts",
    a_key_changes: "under another key",
    an_expiry_list_forgets_a_row: "in no expiry list",
    an_expiry_list_has_a_row_for_another_slice: "in a wrong one",
    a_chunk_is_lost: "in no chunk",
    a_chunk_says_that_it_can_go_early: "its last time is",
    stored_rows_are_lost: "are not stored",
    a_held_row_is_behind: "is not beyond",
    a_held_pair_is_forgotten: "held pairs and",
    a_held_pair_is_late: "a pair is held that the release point",
    the_release_point_runs_ahead: "beyond the frontiers",
    a_frontier_goes_back: "went backwards",
    a_counter_is_off: "are counted in the state",
}


@pytest.mark.parametrize("ordering", ["sync-filter", "filter-order"])
def test_what_is_whole_passes(ordering):
    running(ordering).check()


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_named(damage):
    operator = running()
    operator.check()
    damage(operator)
    with pytest.raises(InvariantError, match=DAMAGE[damage]):
        operator.check()


def test_tests_check_every_step_and_a_job_can_do_without():
    spec = parse_job(JOB.format(ordering="sync-filter"))
    with pytest.raises(InvariantError):
        local = LocalJob(spec)
        local.shards[0][0].operator.counters.inserted[0] += 1
        local.push({"A": rows(0, 9), "B": rows(0, 9)})
    local = LocalJob(spec, checks=False)
    local.shards[0][0].operator.counters.inserted[0] += 1
    local.push({"A": rows(0, 9), "B": rows(0, 9)})
