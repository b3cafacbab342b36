"""What the queries of a join require of the rows of each side, and of pairs: classes of rows, verdicts on pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from muntin.core.batch import CLASS
from muntin.core.join.state import Judge
from muntin.core.selections import Classes, ClassTally, Selections, wanted_by
from muntin.core.storage import StoredRows
from muntin.kernels.arrays import UInt64s
from muntin.kernels.join import Pairs
from muntin.model import Side
from muntin.plan import SharedJoin

EVERYBODY = ~np.zeros(1, np.uint64)


class QueryRequirements:
    def __init__(
        self,
        join: SharedJoin,
        tallies: Sequence[Sequence[ClassTally]] = (),
        image: Sequence[Sequence[str]] = (),
    ):
        self._join = join
        self.selections = Selections(join, Side.LEFT), Selections(join, Side.RIGHT)
        self.verdicts = Classes([q.residual for q in join.queries], len(join.queries))
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
        table, classes = {"_": pa.nulls(len(pairs.ts))}, []  # a predicate may name no column
        for side in Side:
            rows, places = payload[side].fetch(pairs.rows[side])
            classes.append(rows[CLASS].to_numpy()[places])
            for name in self.verdicts.columns(side):
                table[side.prefix + name] = rows[name].take(pa.array(places))
        verdicts = self.verdicts.numbers(pa.table(table))
        kept = wanted_by(self._join, self.wants(), classes, pairs.tag, verdicts).any(axis=1)
        if kept.all():
            return Pairs(pairs.rows, pairs.ts, pairs.tag, verdicts)
        return Pairs(pairs.rows[:, kept], pairs.ts[kept], pairs.tag[kept], verdicts[kept])

    def wants(self, queries: UInt64s = EVERYBODY) -> tuple[UInt64s, UInt64s, UInt64s]:
        """Which of some queries, given as bits, want each class of left rows, right rows and pairs, as bits."""
        left, right = self.selections
        return left.wants & queries, right.wants, self.verdicts.wants
