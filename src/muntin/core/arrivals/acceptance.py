"""Which of the rows that arrive are accepted, and what is said of those that are turned away.

A row is late if it is older than the frontier of its stream, and ahead if it is later than what is believed of the
stream (core/arrivals/frontiers.py). A row without a key is on time and can have no partner.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals.frontiers import FOREVER, Frontiers
from muntin.core.arrivals.sharding import reported_once, without_copies
from muntin.core.batch import CAME, H1, H2, KEPT, MARK, TS, Counters, own_columns
from muntin.model import Side
from muntin.plan import Plan, SharedJoin

FRONTIER, IDLE, LIMIT = "_frontier", "_idle", "_limit"
"""Beside rows that are turned away: the frontier that a late one missed, whether only because its stream was idle; the
latest event time that was believed when one came that is ahead."""


@dataclass(frozen=True)
class AcceptedRows:
    """The rows of one side that a micro-batch brought, told apart."""

    rows: pa.Table
    """Data that can be joined."""
    marks: pa.Table | None
    """Punctuations; None where the stream has none."""
    late: pa.Table
    ahead: pa.Table


def sort_out(
    join: SharedJoin,
    side: Side,
    rows: pa.Table,
    streams: Frontiers,
    limit: int,
    counters: Counters,
    keyless: bool = False,
) -> AcceptedRows:
    """Tell apart the rows of a side; `limit` is the latest event time that is believed.

    `keyless`: rows without a key are wanted too; they get one that no row of the other side has.
    """
    frontier, marks = streams.frontier(side), None
    late, on_time = _divided(rows, pc.less(rows[TS], frontier))
    ahead, on_time = _divided(on_time, pc.greater(on_time[TS], limit))
    if MARK in rows.column_names:
        marks, on_time = _divided(on_time, on_time[MARK])
        marks = without_copies(marks)
        rows = rows.filter(pc.invert(rows[MARK]))
        late, ahead = (reported_once(join, side, table) for table in (late, ahead))
    counters.arrived[side] += pc.sum(rows[KEPT]).as_py() or 0 if KEPT in rows.column_names else rows.num_rows
    if KEPT in rows.column_names:  # the shard that keeps a row reports it
        late, ahead = late.filter(late[KEPT]), ahead.filter(ahead[KEPT])
    counters.null_key[side] += on_time[H1].null_count
    keyed = on_time
    if on_time[H1].null_count:
        keyed = _with_own_key(on_time, side) if keyless else on_time.filter(pc.is_valid(on_time[H1]))
    counters.late[side] += late.num_rows
    counters.ahead[side] += ahead.num_rows
    idle = pc.greater_equal(late[TS], FOREVER if streams.ended[side] else streams.own_frontier(side))
    of_all = {KEPT, CAME, *(f.name for f in own_columns(join, side))}
    own = [name for name in rows.column_names if name in of_all]
    late = late.drop_columns(own).append_column(FRONTIER, _repeated(frontier, late)).append_column(IDLE, idle)
    return AcceptedRows(keyed, marks, late, ahead.drop_columns(own).append_column(LIMIT, _repeated(limit, ahead)))


def to_report(plan: Plan, join: SharedJoin, side: Side, late: pa.Table) -> pa.Table:
    """Of the late rows of a join those that it reports. Another join that reads the stream may report them, but for
    what is late in this one alone: the other streams of a stream are not equally far."""
    if join.reports[side]:
        return late
    return late.filter(late[IDLE]) if plan.reports_idle(join, side) else late.slice(0, 0)


def _with_own_key(rows: pa.Table, side: Side) -> pa.Table:
    """Rows of which those without a key have one that is the side's own."""
    for name in (H1, H2):
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].fill_null(int(side) + 1))
    return rows


def _divided(rows: pa.Table, chosen: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """The chosen rows, usually none, and the others."""
    found = rows.filter(chosen)
    return found, rows.filter(pc.invert(chosen)) if found.num_rows else rows


def _repeated(number: int, rows: pa.Table) -> pa.Array:
    return pa.array([number] * rows.num_rows, pa.int64())
