"""What pairs add to the numbers of their groups (`plan.functions`), as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.core.results import OutputColumns
from muntin.kernels.arrays import Bools, Floats, Int64s
from muntin.model import Expr
from muntin.plan.functions import Measures

TextKeys = Callable[[Expr, pa.ChunkedArray], Int64s]
"""Makes of the texts of an expression numbers that compare as they do."""


class PairValues(NamedTuple):
    """What each pair adds: whole numbers, doubles; and the keys of extremes, with where there is a value."""

    ints: Int64s
    doubles: Floats
    keys: Int64s
    has: Bools

    @classmethod
    def zeros(cls, rows: int, measures: Measures) -> PairValues:
        extremes = rows, len(measures.extremes)
        ints, doubles = np.zeros((rows, len(measures.whole)), np.int64), np.zeros((rows, len(measures.wide)))
        return cls(ints, doubles, np.zeros(extremes, np.int64), np.zeros(extremes, bool))


def values_of_pairs(
    measures: Measures, columns: OutputColumns, places: tuple[pa.Array, pa.Array], text_keys: TextKeys | None = None
) -> PairValues:
    """The values of the pairs at these places; whoever keeps extremes of texts says what their keys are."""
    found = PairValues.zeros(len(places[0]), measures)
    values = {arg.sql: columns.values(arg, places) for arg in measures.args}
    found.ints[:, 0] = 1
    ints, doubles = 1, 0
    for kept in measures.sums:
        whole, wide = kept.added(values[kept.arg.sql])
        for column in whole:
            found.ints[:, ints] = column
            ints += 1
        for part in wide:
            found.doubles[:, doubles] = part
            doubles += 1
    for arg in {kept.arg.sql: kept.arg for kept in measures.extremes}.values():
        own = values[arg.sql]
        extremes = measures.extremes_of(arg.sql)
        is_text = extremes[0][1].is_text
        keys = text_keys(arg, own) if is_text and text_keys is not None else extremes[0][1].ordered(own)
        for n, extreme in extremes:
            found.keys[:, n] = extreme.turned(keys)
            found.has[:, n] = np.asarray(own.is_valid())
    return found
