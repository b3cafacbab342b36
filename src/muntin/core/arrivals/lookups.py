"""What the rows of a stream find in tables by their keys, before they are joined.

A key of which a part is NULL finds nothing. A key that several rows of a table have would make several rows of one,
for queries that never asked for the table as well: such a table is refused (`repeated_keys`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.model import Lookup, Side, Stream

Columns = Sequence[pa.ChunkedArray]


@dataclass(frozen=True)
class RepeatedKeys:
    """How many keys several rows of a table have, and one of them."""

    count: int
    example: str


def look_up(stream: Stream, rows: pa.Table, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Rows with what they find; NULLs, and no word on whether there is a row, in a table that is not there."""
    for lookup in stream.lookups:
        table = tables.get(lookup.table)
        found: list[pa.Array | pa.ChunkedArray]
        if table is None:
            found = [pa.nulls(rows.num_rows, arrow_type(column.type)) for column in lookup.fields]
        else:
            places = _places(_keys_of_rows(lookup, rows), _keys_of_table(lookup, table))
            found = [pc.is_valid(places), *(table[column.name].take(places) for column in lookup.columns)]
        for column, values in zip(lookup.fields, found, strict=True):
            rows = rows.append_column(pa.field(column.name, arrow_type(column.type)), values)
    return rows


def repeated_keys(lookup: Lookup, table: pa.Table) -> RepeatedKeys | None:
    """The keys of a table that stand for several rows; None where there are none."""
    codes = _codes(_keys_of_table(lookup, table)).drop_null()
    counts = pc.value_counts(codes)
    several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if not len(several):
        return None
    place = pc.index(_codes(_keys_of_table(lookup, table)), several[0]).as_py()
    named = [f"{key.column} = {table[key.column][place].as_py()}" for key in lookup.keys]
    return RepeatedKeys(len(several), ", ".join(named))


def _keys_of_rows(lookup: Lookup, rows: pa.Table) -> Columns:
    named = rows.rename_columns([Side.LEFT.prefix + name for name in rows.column_names])
    values = evaluate(named, [(key.expr.sql, key.expr.type) for key in lookup.keys])
    return [_chunked(value).cast(arrow_type(key.type)) for value, key in zip(values, lookup.keys, strict=True)]


def _keys_of_table(lookup: Lookup, table: pa.Table) -> Columns:
    return [table[key.column].cast(arrow_type(key.type)) for key in lookup.keys]


def _chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def _places(wanted: Columns, there: Columns) -> pa.Array:
    """For each key the place among those that are there; NULL where it is not."""
    wanted_code, there_code = _code(wanted[0], there[0]), _code(there[0], there[0])
    for value, known in zip(wanted[1:], there[1:], strict=True):
        size = len(known) + 1
        pair = pc.add(pc.multiply(there_code, size), _code(known, known))
        asked = pc.add(pc.multiply(wanted_code, size), _code(value, known))
        wanted_code, there_code = _code(asked, pair), _code(pair, pair)
    return wanted_code


def _codes(keys: Columns) -> pa.Array:
    """A number for each key, the same for equal ones: the place of the first."""
    return _places(keys, keys)


def _code(values: pa.ChunkedArray | pa.Array, among: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Places of values among others as 64 bits; NULL for NULL and for what is not there."""
    known = among.combine_chunks() if isinstance(among, pa.ChunkedArray) else among
    found = pc.index_in(values, value_set=known, skip_nulls=True).cast(pa.int64())
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
