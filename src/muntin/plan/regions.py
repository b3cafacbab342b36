"""The selections of one side, indexed: each column once, however many queries compare it.

The constants that selections compare a column with divide its values into *regions*; all values of a region satisfy the
same comparisons. A row is placed in one region of each column (a binary search, or a hash where there are equalities
only), and the regions say which predicates hold:

    thresholds 10, 20     regions  x < 10 | x = 10 | 10 < x < 20 | x = 20 | x > 20 | NULL
    equalities 'a', 'b'   regions  'a' | 'b' | anything else | NULL

What cannot be indexed (functions, OR, several columns) is a dimension of its own with two regions: not true, true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import AnyArray, Bools, Int64s
from muntin.kernels.evaluate import evaluate
from muntin.model import Comparison, Expr, Op, Schema
from muntin.model.types import INTEGERS

MOST_COMBINATIONS = 4096
"""Combinations of regions that are looked at one by one."""
INEQUALITIES = (Op.LT, Op.LE, Op.GT, Op.GE)


@dataclass(frozen=True)
class Regions:
    """The regions of one column. `ordered`: points and the gaps between them in turn, else the points and the rest."""

    column: str
    type: str
    points: tuple[int | float | str, ...]
    ordered: bool

    @property
    def size(self) -> int:
        return (2 * len(self.points) + 1 if self.ordered else len(self.points) + 1) + 1

    @cached_property
    def _place(self) -> dict[int | float | str, int]:
        return {point: 2 * n + 1 if self.ordered else n for n, point in enumerate(self.points)}

    def holds(self, comparison: Comparison) -> Bools:
        """For each region, whether its values satisfy the comparison; NULL, the last region, never does."""
        places = [self._place[value] for value in comparison.values]
        regions = np.arange(self.size)
        holds = {
            Op.LT: regions < places[0],
            Op.LE: regions <= places[0],
            Op.GT: regions > places[0],
            Op.GE: regions >= places[0],
            Op.IN: np.isin(regions, places),
            Op.NOT_IN: ~np.isin(regions, places),
        }[comparison.op]
        holds[-1] = False
        return holds

    @cached_property
    def possible(self) -> Bools:
        """Regions that some value can lie in: between neighbouring integers there is none."""
        possible = np.ones(self.size, bool)
        if self.ordered and self.type in INTEGERS:
            gaps = np.diff(np.array(self.points, object))
            possible[2 : 2 * len(self.points) : 2] = gaps > 1
        return possible


class Predicates:
    """Distinct predicates of one side, and which of them hold where."""

    def __init__(self, predicates: Sequence[Expr], schema: Schema):
        self.predicates = tuple(predicates)
        parts = [p.conjuncts or (p,) for p in self.predicates]
        self.columns = _columns([c for part in parts for c in part if isinstance(c, Comparison)], schema)
        opaque = {c.sql: c for part in parts for c in part if isinstance(c, Expr)}
        self.opaque = tuple(opaque.values())
        self.sizes = tuple([r.size for r in self.columns] + [2] * len(self.opaque))
        """Regions of each dimension: indexed columns, then the predicates that are not indexed."""
        self._tables = [np.ones((size, len(parts)), bool) for size in self.sizes]
        dimension = {r.column: n for n, r in enumerate(self.columns)}
        dimension_of = {sql: len(self.columns) + n for n, sql in enumerate(opaque)}
        for n, part in enumerate(parts):
            for conjunct in part:
                if isinstance(conjunct, Comparison):
                    at = dimension[conjunct.column]
                    self._tables[at][:, n] &= self.columns[at].holds(conjunct)
                else:
                    self._tables[dimension_of[conjunct.sql]][0, n] = False

    def holds(self, codes: Sequence[AnyArray]) -> Bools:
        """For rows given by their region in each dimension, which predicates hold."""
        rows = len(codes[0]) if codes else 1
        holds = np.ones((rows, len(self.predicates)), bool)
        for table, code in zip(self._tables, codes, strict=True):
            holds &= table[code]
        return holds

    @cached_property
    def possible(self) -> list[Int64s]:
        """The regions of each dimension that a row can be in."""
        indexed = [np.flatnonzero(r.possible) for r in self.columns]
        return indexed + [_outcomes(expr) for expr in self.opaque]

    @property
    def combinations(self) -> int:
        """How many combinations of possible regions there are."""
        count = 1
        for regions in self.possible:
            count *= len(regions)
        return count

    def enumerate(self) -> Bools:
        """The predicates that hold, for each combination of possible regions."""
        grid = np.array(list(product(*self.possible)), np.int64).reshape(self.combinations, len(self.sizes))
        return self.holds(list(grid.T))

    def never(self) -> Iterator[Expr]:
        """The predicates that no row can satisfy."""
        holds = np.ones(len(self.predicates), bool)
        for table, regions in zip(self._tables, self.possible, strict=True):
            holds &= table[regions].any(axis=0)
        return (p for p, possible in zip(self.predicates, holds, strict=True) if not possible)


def _columns(comparisons: list[Comparison], schema: Schema) -> tuple[Regions, ...]:
    types = {f.name: f.type for f in schema}
    columns = []
    for name in dict.fromkeys(c.column for c in comparisons):
        mine = [c for c in comparisons if c.column == name]
        points = tuple(sorted({v for c in mine for v in c.values}))
        columns.append(Regions(name, types[name], points, any(c.op in INEQUALITIES for c in mine)))
    return tuple(columns)


def _outcomes(expr: Expr) -> Int64s:
    """What a predicate that is not indexed can come to: both, or the one that a constant has."""
    if expr.left or expr.right:
        return np.array([0, 1])
    return np.array([int(_constant(expr.sql))])


@lru_cache(maxsize=1024)
def _constant(sql: str) -> bool:
    """Whether a predicate without columns is true; a plan asks it of the same few again and again."""
    return evaluate(pa.table({"_": pa.nulls(1)}), [(sql, "boolean")])[0][0].as_py() is True
