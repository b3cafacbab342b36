"""The stored rows themselves, by row number: what the index points at.

Rows of a side are numbered in the order of their arrival. They lie in immutable Arrow tables, one per micro-batch at
first; neighbours of similar size are merged (each row is copied O(log n) times at most), so that fetching costs the
same whether the rows came in large or in tiny micro-batches.
"""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MERGED_ROWS = 1 << 18
"""Tables of this size are not merged any further, so that old rows are given back in pieces."""


class Payload:
    def __init__(self, schema: pa.Schema):
        self.schema = schema
        self._bases: list[int] = []
        self._tables: list[pa.Table] = []

    def __len__(self) -> int:
        return sum(t.num_rows for t in self._tables)

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self._tables)

    def add(self, base: int, table: pa.Table) -> None:
        """Append rows numbered from `base`."""
        if table.num_rows == 0:
            return
        self._bases.append(base)
        self._tables.append(table)
        while self._last_two_belong_together():
            last = self._tables.pop()
            self._bases.pop()
            self._tables[-1] = pa.concat_tables([self._tables[-1], last]).combine_chunks()

    def _last_two_belong_together(self) -> bool:
        if len(self._tables) < 2:
            return False
        one, two = (t.num_rows for t in self._tables[-2:])
        return self._bases[-2] + one == self._bases[-1] and one < 2 * two and one + two <= MERGED_ROWS

    def forget(self, before: int) -> None:
        """Give back the tables whose rows all have numbers below `before`."""
        while self._tables and self._bases[0] + self._tables[0].num_rows <= before:
            self._bases.pop(0)
            self._tables.pop(0)

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """The rows of these ascending numbers."""
        if len(rows) == 0:
            return self.schema.empty_table()
        first = bisect.bisect_right(self._bases, int(rows[0])) - 1
        last = bisect.bisect_right(self._bases, int(rows[-1])) - 1
        cuts = np.searchsorted(rows, self._bases[first + 1 : last + 1])
        parts = [
            self._tables[n].take(pa.array(part - self._bases[n]))
            for n, part in zip(range(first, last + 1), np.split(rows, cuts), strict=True)
            if len(part)
        ]
        return pa.concat_tables(parts).combine_chunks()
