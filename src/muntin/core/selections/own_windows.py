"""Rows that wait until a time of their own: what follows from these times for rows and for pairs.

Beside each row lie its *times*: its event time, and the times until when queries let it wait (`plan.own_windows`), in
the order of their numbers. They follow from the columns of the row, so nothing of it is durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from muntin.core.selections.classes import named
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.evaluate import evaluate
from muntin.model import Expr, Side
from muntin.plan import SharedJoin

FOREVER = np.int64(1 << 62)
"""Later than any time until when a row may wait."""
LEAST_US = 1
"""For how long a row stays at least: it waits for those of its own time in any case."""


def own_times(join: SharedJoin, side: Side, rows: pa.Table, ts: str) -> Int64s:
    """The times of rows with the columns of a side and their event time in `ts`; none where no query asks for them."""
    untils = join.own_windows.untils[side]
    if not join.own_windows:
        return np.zeros((rows.num_rows, 0), np.int64)
    columns = [rows[ts].to_numpy(), *(until_us(until, side, rows) for until in untils)]
    return np.stack(columns, axis=1)


def until_us(until: Expr, side: Side, rows: pa.Table) -> Int64s:
    """Until when rows wait, in microseconds; for ever where that is NULL."""
    table = named(rows, list(until.columns(side)), side.prefix)
    (values,) = evaluate(table, [(until.sql, until.type)])
    return microseconds(values)


def microseconds(values: pa.ChunkedArray) -> Int64s:
    """Timestamps until when rows wait as numbers; for ever where there is none."""
    us = values.cast(pa.timestamp("us", getattr(values.type, "tz", None))).cast(pa.int64())
    return np.clip(us.fill_null(int(FOREVER)).to_numpy(), -FOREVER, FOREVER)


def own_windows(windows: Int64s | int, times: Int64s, number: int) -> Int64s:
    """For how long rows wait at most for a window, and until the time of a number: ages, given the times of the rows.

    Rows whose window is 0 do not wait at all.
    """
    return np.minimum(windows, np.maximum(times[:, 1 + number] - times[:, 0], LEAST_US))


def times_width(join: SharedJoin, side: Side) -> int:
    """How many times lie beside each row of a side."""
    return 1 + len(join.own_windows.untils[side]) if join.own_windows else 0


def open_to_each_other(join: SharedJoin, times: Sequence[Int64s]) -> Iterator[Bools]:
    """Which pairs are open by each of `OwnWindows.opens`, given the times of both rows of each pair."""
    left, right = times[0][:, 0], times[1][:, 0]
    for numbers in join.own_windows.opens:
        ends = [
            times[side][:, 1 + number] if number >= 0 else np.broadcast_to(FOREVER, len(left))
            for side, number in zip(Side, numbers, strict=True)
        ]
        yield ((left <= right) & (right < ends[0])) | ((right <= left) & (left < ends[1]))
