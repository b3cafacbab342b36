"""What the queries of a join require of the rows of each side, and of pairs: classes of rows, verdicts on pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from muntin.core.join.own_ends import Stays
from muntin.core.join.state import Judge
from muntin.core.selections import Classes, ClassTally, Selections, open_to_each_other, wanted_by
from muntin.core.storage import StoredRows, distinct
from muntin.kernels.arrays import Int64s, UInt64s
from muntin.kernels.join import Pairs, Rows
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.own_windows import open_column

EVERYBODY = ~np.zeros(1, np.uint64)
NO_TIMES = np.zeros((0, 0), np.int64)


class QueryRequirements:
    def __init__(
        self,
        join: SharedJoin,
        tallies: Sequence[Sequence[ClassTally]] = (),
        image: Sequence[Sequence[str]] = (),
    ):
        self._join = join
        self.selections = Selections(join, Side.LEFT), Selections(join, Side.RIGHT)
        self.verdicts = Classes(join.own_windows.conditions(join.queries), len(join.queries))
        for classes, known in zip((*self.selections, self.verdicts), image, strict=False):
            classes.remember(known)
        for selections, tally in zip(self.selections, tallies, strict=False):
            selections.recall(tally)

    @property
    def image(self) -> list[list[str]]:
        """The classes, in order of their numbers."""
        return [classes.image for classes in (*self.selections, self.verdicts)]

    @property
    def tallies(self) -> list[list[ClassTally]]:
        """How many rows of each side have arrived of the most frequent classes."""
        return [selections.tally for selections in self.selections]

    @property
    def judges(self) -> bool:
        """Whether some query has a predicate over both sides."""
        return bool(self.verdicts.predicates)

    def judge(self, payload: Sequence[StoredRows]) -> Judge | None:
        """What becomes of pairs of these rows; None where nobody requires anything of pairs."""
        return partial(self._judge, payload) if self.judges else None

    def _judge(self, payload: Sequence[StoredRows], pairs: Pairs) -> Pairs:
        """Evaluate the predicates over both sides; only pairs that some query wants go on."""
        table, classes, times = {"_": pa.nulls(len(pairs.ts))}, [], []  # a predicate may name no column
        for side in Side:
            rows, places = distinct(pairs.rows[side])
            classes.append(payload[side].known_of(rows)[0][places])
            times.append(payload[side].times_of(rows)[places] if self._join.own_windows else NO_TIMES)
            if names := self.verdicts.columns(side):
                found = payload[side].take(rows)
                table |= {side.prefix + name: found[name].take(pa.array(places)) for name in names}
        for n, is_open in enumerate(open_to_each_other(self._join, times) if self._join.own_windows else ()):
            table[open_column(n)] = pa.array(is_open)
        verdicts = self.verdicts.numbers(pa.table(table))
        kept = wanted_by(self._join, self.wants(), classes, pairs.tag, verdicts).any(axis=1)
        if kept.all():
            return Pairs(pairs.rows, pairs.ts, pairs.tag, verdicts)
        return Pairs(pairs.rows[:, kept], pairs.ts[kept], pairs.tag[kept], verdicts[kept])

    def stays(self, payload: Sequence[StoredRows]) -> Stays | None:
        """For how long rows stay; None where that follows from their classes."""
        return partial(self._stays, payload) if any(s.has_own_windows for s in self.selections) else None

    def _stays(self, payload: Sequence[StoredRows], rows: Rows) -> Int64s:
        found = np.zeros(len(rows.row), np.int64)
        for side in Side:
            mine = np.flatnonzero(rows.side == side)
            numbers, places = distinct(rows.row[mine])
            times = payload[side].times_of(numbers)[places]
            found[mine] = self.selections[side].stays(rows.cls[mine], times)
        return found

    def wants(self, queries: UInt64s = EVERYBODY) -> tuple[UInt64s, UInt64s, UInt64s]:
        """Which of some queries, given as bits, want each class of left rows, right rows and pairs, as bits."""
        left, right = self.selections
        return left.wants & queries, right.wants, self.verdicts.wants
