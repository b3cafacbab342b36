"""Rows of a stream made ready for a shared join: event time, join key, shard."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.batch import ARRIVAL, H1, H2, KEPT, MARK, TS, Spans, row_schema
from muntin.kernels.arrays import Bools, Int32s, Int64s
from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.kernels.hashing import hash_keys, shard_of
from muntin.model import Pattern, Side, Stream
from muntin.model.event_time import EARLIEST_US, LATEST_US
from muntin.plan import SharedJoin
from muntin.plan.punctuation import pattern_of, promising

EVERYWHERE = (Pattern.RANGE, Pattern.EVERY)
"""Punctuations whose keys may be in any shard."""
MOST_SPANS = 256
"""Of one part of a stream; where there are more, the earliest ones count as one: the late end is what matters."""


def spans_of(times: Int64s, gap: int) -> Spans:
    """The stretches of some event times in which no two neighbours are more than `gap` apart."""
    if not len(times):
        return []
    ordered = np.sort(times)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered) > gap) + 1])
    starts = np.concatenate([[0], starts[-MOST_SPANS + 1 :]]) if len(starts) > MOST_SPANS else starts
    ends = np.append(starts[1:], len(ordered))
    return [(int(ordered[a]), int(ordered[b - 1]), int(b - a)) for a, b in zip(starts, ends, strict=True)]


def outside_calendar(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which event times lie outside of the years 1 to 9999: their rows are turned away."""
    return pc.or_(pc.less(times, EARLIEST_US), pc.greater(times, LATEST_US))


def _loses_digits(own: pa.DataType, shared: pa.DataType) -> bool:
    """Whether a decimal has fewer places in the shared type: the evaluator rounds there, Arrow would cut."""
    return pa.types.is_decimal(own) and pa.types.is_decimal(shared) and shared.scale < own.scale


def key_columns(join: SharedJoin, side: Side, rows: pa.Table) -> list[pa.ChunkedArray]:
    """The join key of each row, in the types in which both sides are compared."""
    columns: list[pa.ChunkedArray | None] = []
    computed: list[tuple[str, str]] = []
    for pair in join.keys:
        bare = pair.side(side).column
        if bare is None or _loses_digits(rows.schema.field(bare[1]).type, arrow_type(pair.type)):
            computed.append((pair.side(side).sql, pair.type))
            columns.append(None)
        else:
            columns.append(rows[bare[1]].cast(arrow_type(pair.type), safe=False))
    values = iter(evaluate(rows.rename_columns([side.prefix + n for n in rows.column_names]), computed))
    return [next(values) if column is None else column for column in columns]


def marked(stream: Stream, rows: pa.Table) -> pa.Table:
    """Rows of a stream with what says which of them are punctuations, where it has any."""
    if stream.punctuation is None:
        return rows
    named = rows.rename_columns([Side.LEFT.prefix + n for n in rows.column_names])
    (is_mark,) = evaluate(named, [(stream.punctuation.when.sql, "boolean")])
    return rows.append_column(MARK, is_mark.fill_null(False))


def data_of(rows: pa.Table) -> pa.Table:
    """Rows that are data, of those that may be punctuations."""
    return rows.filter(pc.invert(rows[MARK])).drop_columns([MARK]) if MARK in rows.column_names else rows


def shard_rows(join: SharedJoin, side: Side, rows: pa.Table, shards: int) -> list[pa.Table]:
    """The rows (with `_ts`, see `marked`) that each shard receives, data in their order.

    Punctuations go where the rows are that they are about; those about no value or the key of another join go nowhere.
    Where a side goes to every shard, each has all of it. What a join below has found in a shard stays there: that is
    one shard of one.
    """
    if join.everywhere[side] and shards > 1:
        return shard_rows(join, side, rows, 1) * shards
    data = _shard_data(join, side, data_of(rows), shards)
    promises = promising(join, side)
    if MARK not in rows.column_names or promises is None or not promises.marked:
        return data
    marks = _shard_marks(join, side, rows.filter(rows[MARK]), shards)
    return [pa.concat_tables(both) for both in zip(data, marks, strict=True)]


def _shard_marks(join: SharedJoin, side: Side, marks: pa.Table, shards: int) -> list[pa.Table]:
    """Punctuations by shard; one about a list goes there once for each value, with that value in its key columns.

    Values of a list that are NULL are nobody's key. One about its own key that has none is a fault, which shard 0
    reports. So it does with one about a list that is turned away: it gets a copy without a key, whose `_h2` is not
    NULL.
    """
    punctuation = join.streams[side].punctuation
    assert punctuation is not None
    if punctuation.pattern in EVERYWHERE:
        return _to_every_shard(join, side, marks, shards)
    is_list = punctuation.pattern is Pattern.LIST
    parts = [_about(join, side, marks, value.sql) for value in punctuation.values] if is_list else [marks]
    faulty = np.full(marks.num_rows, not is_list)
    found = []
    for part in parts:
        h1, h2, valid = hash_keys(key_columns(join, side, part))
        own = {H1: pa.array(h1), H2: pa.array(h2), MARK: part[MARK]}
        numbers = np.where(valid, shard_of(h1, h2, shards), shards).astype(np.int32)
        found.append(_split(_dressed(join, side, part, own), numbers, shards))
        faulty &= ~valid
    if join.reports[side]:
        copies = _without_key(join, side, marks, faulty)
        found[0][0] = pa.concat_tables([found[0][0], copies if is_list else copies.filter(faulty)])
    return [pa.concat_tables(of_shard) for of_shard in zip(*found, strict=True)]


def range_ends(join: SharedJoin, side: Side, marks: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The least and the greatest key that each punctuation is about."""
    punctuation = join.streams[side].punctuation
    assert punctuation is not None
    named = marks.rename_columns([Side.LEFT.prefix + n for n in marks.column_names])
    low, high = evaluate(named, [(value.sql, join.keys[0].type) for value in punctuation.values])
    return low, high


def _to_every_shard(join: SharedJoin, side: Side, marks: pa.Table, shards: int) -> list[pa.Table]:
    """Punctuations whose keys may be in any shard. A range whose end comes before its beginning is about no key and
    says nothing; one without an end is a fault."""
    said, faulty = np.ones(marks.num_rows, bool), np.zeros(marks.num_rows, bool)
    if pattern_of(join, side) is Pattern.RANGE:
        low, high = range_ends(join, side, marks)
        said = _is_true(pc.less_equal(low, high))
        faulty = ~said & ~_is_true(pc.greater(low, high))
    copies = []
    for shard in range(shards):
        number = pa.array(np.full(int(said.sum()), shard))
        own = {H1: number, H2: number, MARK: marks[MARK].filter(said)}
        copies.append(_dressed(join, side, marks.filter(said), own))
    if join.reports[side]:
        copies[0] = pa.concat_tables([copies[0], _without_key(join, side, marks, faulty).filter(~said)])
    return copies


def _is_true(condition: pa.ChunkedArray) -> Bools:
    return np.asarray(condition.fill_null(False)).astype(bool)


def _without_key(join: SharedJoin, side: Side, marks: pa.Table, faulty: Bools) -> pa.Table:
    """Copies of punctuations that are there to be reported: the `faulty` ones in any case, the others if they are
    turned away."""
    silent = pa.array(np.zeros(marks.num_rows, np.int64), mask=faulty)
    return _dressed(join, side, marks, {H1: pa.nulls(marks.num_rows, pa.int64()), H2: silent, MARK: marks[MARK]})


def reported_once(join: SharedJoin, side: Side, rows: pa.Table) -> pa.Table:
    """Of rows that are turned away, those that this shard reports: some are in all of them, a list in several."""
    punctuation = join.streams[side].punctuation
    if punctuation is None or punctuation.pattern is Pattern.OWN:
        return rows
    everywhere = punctuation.pattern in EVERYWHERE
    chosen = pc.equal(rows[H1].fill_null(0), 0) if everywhere else pc.is_null(rows[H1])
    return rows.filter(pc.or_(pc.invert(rows[MARK]), chosen))


def without_copies(marks: pa.Table) -> pa.Table:
    """Punctuations without the copies that would have been reported, had they been turned away."""
    return marks.filter(pc.or_(pc.is_valid(marks[H1]), pc.is_null(marks[H2])))


def _about(join: SharedJoin, side: Side, marks: pa.Table, sql: str) -> pa.Table:
    """Punctuations with the value of an expression in the column that they are about."""
    punctuation = join.streams[side].punctuation
    assert punctuation is not None
    column = punctuation.columns[0]
    at, field = marks.column_names.index(column), join.streams[side].schema.find(column)
    assert field is not None
    named = marks.rename_columns([Side.LEFT.prefix + n for n in marks.column_names])
    (values,) = evaluate(named, [(sql, field.type)])
    return marks.set_column(at, column, values)


def _shard_data(join: SharedJoin, side: Side, rows: pa.Table, shards: int) -> list[pa.Table]:
    """Data by shard, in its order.

    Rows without a key match nothing; they go to shard 0, which reports late ones and emits those without a match. A
    join without an equality sends every row to every shard to probe there, and one of them, chosen by the row's
    contents, keeps it: so each pair is found once, where the earlier row is kept, and neither work nor state is in one
    place.
    """
    if not join.keys:
        return _everywhere(join, side, rows, shards)
    h1, h2, valid = hash_keys(key_columns(join, side, rows))
    numbers, absent = shard_of(h1, h2, shards), None
    if not valid.all():
        numbers, absent = np.where(valid, numbers, 0), ~valid
    own = {H1: pa.array(h1, mask=absent), H2: pa.array(h2, mask=absent)}
    return _split(_dressed(join, side, rows, own), numbers, shards)


def content_homes(join: SharedJoin, side: Side, rows: pa.Table, shards: int) -> Int32s:
    """The shard that the contents of each row choose."""
    columns = [rows[f.name] for f in join.streams[side].schema]
    contents = [c for c in columns if not pa.types.is_nested(c.type)]
    return shard_of(*hash_keys([rows[TS], *contents])[:2], shards)


def _everywhere(join: SharedJoin, side: Side, rows: pa.Table, shards: int) -> list[pa.Table]:
    homes = content_homes(join, side, rows, shards)
    zero = pa.array(np.zeros(rows.num_rows, np.int64))
    return [_dressed(join, side, rows, {H1: zero, H2: zero, KEPT: pa.array(homes == n)}) for n in range(shards)]


def _dressed(join: SharedJoin, side: Side, rows: pa.Table, own: dict[str, pa.Array]) -> pa.Table:
    """Rows with the columns that they carry beside their payload, those given and their place in the order of
    arrival."""
    own = {ARRIVAL: pa.array(np.arange(rows.num_rows)), MARK: pa.array(np.zeros(rows.num_rows, bool)), **own}
    schema = row_schema(join, side)
    return pa.table([own[f.name] if f.name in own else rows[f.name] for f in schema], names=schema.names).cast(schema)


def _split(rows: pa.Table, numbers: Int32s, shards: int) -> list[pa.Table]:
    """The rows of each shard; those numbered `shards` go nowhere."""
    if not numbers.any():
        return [rows, *(rows.slice(0, 0) for _ in range(shards - 1))]
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(shards + 1))
    ordered = rows.take(pa.array(order))
    return [ordered.slice(low, high - low) for low, high in pairwise(bounds)]
