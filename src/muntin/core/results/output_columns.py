"""The columns of the rows that queries receive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.batch import TS
from muntin.core.results.result_batch import ResultBatch
from muntin.kernels.arrays import Int64s
from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.model import Expr, Query, Side

OUTPUT_TS = pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False)


def output_schema(query: Query) -> pa.Schema:
    """The columns of a query's output: its SELECT list and the output timestamp."""
    return pa.schema([*(pa.field(o.name, arrow_type(o.expr.type)) for o in query.select), OUTPUT_TS])


def unite(query: Query, tables: Sequence[pa.Table]) -> pa.Table:
    """One query's rows from several joins in timestamp order (wang2006 3.2: the union above a divided stream).

    The joins read the same streams, so their release points agree: none of them can bring an earlier row later.
    """
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables([output_schema(query).empty_table(), *tables])
    order = np.argsort(table[OUTPUT_TS.name].cast(pa.int64()).to_numpy(), kind="stable")
    return table.take(pa.array(order))


class OutputColumns:
    """Output columns of a batch's pairs; what concerns one side is computed once per row, not once per pair."""

    def __init__(self, batch: ResultBatch):
        self.batch = batch
        self.output_ts = batch.output_ts
        self._values: dict[tuple[Side, str], pa.ChunkedArray] = {}

    def output(self, query: Query, chosen: Int64s) -> pa.Table:
        places = self.places(chosen)
        arrays = [self.values(o.expr, places) for o in query.select]
        arrays.append(pa.array(self.output_ts[chosen]).cast(OUTPUT_TS.type))
        return pa.Table.from_arrays(arrays, schema=output_schema(query))

    def places(self, chosen: Int64s) -> tuple[pa.Array, pa.Array]:
        """The rows of the pairs chosen, on both sides."""
        return pa.array(self.batch.pairs[0][chosen]), pa.array(self.batch.pairs[1][chosen])

    def values(self, expr: Expr, places: tuple[pa.Array, pa.Array]) -> pa.ChunkedArray:
        """An expression of pairs of rows."""
        if expr.left and expr.right:
            names = [(side, c) for side in Side for c in expr.columns(side)]
            table = pa.table({s.prefix + c: self.batch.rows[s][c].take(places[s]) for s, c in names})
            return evaluate(table, [(expr.sql, expr.type)])[0]
        side = Side.RIGHT if expr.right else Side.LEFT
        return pc.take(self.per_row(expr, side), places[side], boundscheck=False)

    def per_row(self, expr: Expr, side: Side) -> pa.ChunkedArray:
        """An expression of the rows of one side."""
        if (side, expr.sql) not in self._values:
            rows = self.batch.rows[side]
            if expr.column is not None:
                value = rows[expr.column[1]]
            else:
                names = expr.columns(side)
                table = rows.select([*names, TS]).rename_columns([*(side.prefix + n for n in names), TS])
                value = evaluate(table, [(expr.sql, expr.type)])[0]
            self._values[side, expr.sql] = value
        return self._values[side, expr.sql]
