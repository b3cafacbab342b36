"""The stored rows themselves, by row number: what the index points at.

Rows of a side are numbered in the order of their arrival. They lie in immutable Arrow tables, one per micro-batch at
first; neighbours of similar size are merged (each row is copied O(log n) times at most), so that fetching costs the
same whether the rows came in large or in tiny micro-batches.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.core.memory import Memory
from muntin.kernels.route import renumber, spans

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
RANGE_BITS, RANGES = 39, 16
"""Rows that stay for different times are numbered in ranges of their own, so that those that have left lie together."""
MERGED_ROWS = 1 << 18
"""Tables of this size are not merged any further, so that old rows are given back in pieces."""


class Payload:
    def __init__(self, schema: pa.Schema, memory: Memory, image: Sequence[tuple[int, str]] = ()):
        self.schema = schema
        self._memory = memory
        self._bases = [base for base, _ in image]
        self._names = [name for _, name in image]
        self._tables = [memory.table(name) for name in self._names]

    @property
    def image(self) -> list[tuple[int, str]]:
        """What another process needs to go on with these rows, beside the memory."""
        return list(zip(self._bases, self._names, strict=True))

    def __len__(self) -> int:
        return sum(t.num_rows for t in self._tables)

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self._tables)

    def add(self, base: int, table: pa.Table) -> None:
        """Take in rows numbered from `base`."""
        if table.num_rows == 0:
            return
        at = bisect.bisect(self._bases, base)
        together = [table]
        while at > 0 and self._joins_up(at - 1, base, sum(t.num_rows for t in together)):
            at -= 1
            base = self._bases[at]
            together.insert(0, self._remove(at))
        name = self._memory.name("payload")
        merged = pa.concat_tables(together).combine_chunks() if len(together) > 1 else table
        self._bases.insert(at, base)
        self._names.insert(at, name)
        self._tables.insert(at, self._memory.keep(name, merged))

    def _joins_up(self, at: int, base: int, rows: int) -> bool:
        """Whether a table is adjacent to `rows` rows from `base` and of their size or smaller."""
        last = self._tables[at].num_rows
        return self._bases[at] + last == base and last < 2 * rows and last + rows <= MERGED_ROWS

    def _remove(self, at: int) -> pa.Table:
        self._memory.discard(self._names.pop(at))
        self._bases.pop(at)
        return self._tables.pop(at)

    def forget(self, needed: Mapping[int, int]) -> None:
        """Give back the tables of which nothing is needed: `needed` is the first number needed in each range."""
        for at in reversed(range(len(self._bases))):
            end = self._bases[at] + self._tables[at].num_rows
            if end <= needed.get(self._bases[at] >> RANGE_BITS, end):
                self._remove(at)

    def fetch(self, numbers: Int64s) -> tuple[pa.Table, Int32s]:
        """Each of these rows once, and the place of every number among them."""
        distinct, places = _distinct(numbers)
        return self.take(distinct), places

    def take(self, rows: Int64s) -> pa.Table:
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


def _distinct(numbers: Int64s) -> tuple[Int64s, Int32s]:
    """Distinct values ascending and the place of each among them; by marking where the range is dense, else by
    sorting."""
    if len(numbers) == 0:
        return numbers, np.zeros(0, np.int32)
    lows, highs = np.full(RANGES, np.iinfo(np.int64).max), np.full(RANGES, -1)
    spans(numbers, RANGE_BITS, lows, highs)
    widths = np.maximum(highs - lows, -1) + 1
    if widths.sum() < 16 * len(numbers):
        return renumber(numbers, RANGE_BITS, lows, np.cumsum(widths) - widths, int(widths.sum()))
    distinct, places = np.unique(numbers, return_inverse=True)
    return distinct, places.astype(np.int32)
