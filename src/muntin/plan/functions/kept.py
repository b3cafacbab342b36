"""What is kept of a group for an aggregate function: numbers of a few kinds, each under a name.

How a number follows the pairs, and how those of several shards become one, depends on its kind alone:

    kind                 a pair that comes       a pair that goes             two shards
    whole sum            adds                    subtracts                    add
    wide sum, 106 bits   adds                    subtracts; it is zero when   add
                                                 its count is
    extreme              enters the skyline      leaves it with its age       the greater key
    different values     one more of its value   one less of its value        the values of both, each once

Numbers have names, so that whoever receives them finds those that a query needs, and functions that keep the same
number of the same expression share it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import AnyArray, Bools, Floats, Int64s
from muntin.kernels.bits import number_bits
from muntin.kernels.evaluate import arrow_type
from muntin.model import Expr
from muntin.plan.functions.limbs import to_decimal

PAIRS = "n"
"""The whole sum that every group has: how many pairs there are."""
TEXTS = ("string", "binary")
SIGN = np.int64((1 << 63) - 1)


@dataclass(frozen=True)
class Kept(ABC):
    """Something that is kept of the values of one expression."""

    arg: Expr

    @property
    @abstractmethod
    def name(self) -> str:
        """What tells it from everything else that is kept of a group."""


@dataclass(frozen=True)
class WideSum:
    """A sum of doubles in two halves, of which the second holds what the first has no room for.

    `counted_by` is the whole sum that says how many values it is of.
    """

    high: str
    low: str
    counted_by: str


class KeptSums(Kept):
    """Sums to which each value adds, and from which it is subtracted when its pair goes."""

    @property
    @abstractmethod
    def whole(self) -> tuple[str, ...]:
        """The names of the whole sums."""

    @property
    def wide(self) -> tuple[WideSum, ...]:
        return ()

    @abstractmethod
    def added(self, values: pa.ChunkedArray) -> tuple[list[Int64s], list[Floats]]:
        """What each value adds to the whole and to the wide sums; NULL adds nothing."""


@dataclass(frozen=True)
class Extreme(Kept):
    """The least or the greatest value, as the greatest of keys that are in the order of the values or in its reverse.

    Texts have no keys that all shards know: where numbers of several shards meet, the value itself stands for them.
    """

    least: bool

    @property
    def name(self) -> str:
        return f"{'min' if self.least else 'max'} {self.arg.sql}"

    @property
    def is_text(self) -> bool:
        return self.arg.type in TEXTS

    def turned(self, keys: Int64s) -> Int64s:
        """Keys in the order in which the greatest is wanted, and back."""
        return ~keys if self.least else keys

    @staticmethod
    def ordered(values: pa.ChunkedArray) -> Int64s:
        """A number for each value that compares as the value does, whatever where it is NULL."""
        low, _ = number_bits(values.combine_chunks())
        return low ^ (low >> 63 & SIGN) if pa.types.is_floating(values.type) else low

    def values(self, numbers: Numbers) -> pa.Array:
        """The value of each group; NULL where it has none."""
        low, missing = self.turned(numbers[self.name]), ~numbers.present[self.name]
        if self.is_text:
            return numbers.texts[self.name].take(pa.array(low, mask=missing))
        kind = arrow_type(self.arg.type)
        if pa.types.is_floating(kind):
            return pa.array((low ^ (low >> 63 & SIGN)).view(np.float64), mask=missing).cast(kind)
        if pa.types.is_boolean(kind):
            return pa.array(low.astype(bool), mask=missing)
        if pa.types.is_decimal(kind):
            return to_decimal(np.stack([low, low >> 63], axis=1), kind, missing)
        if pa.types.is_date(kind):
            return pa.array(low.astype(np.int32), mask=missing).cast(kind)
        return pa.array(low, mask=missing).cast(kind)


@dataclass(frozen=True)
class DistinctValues(Kept):
    """How many different values there are; which they are is kept beside the groups."""

    @property
    def name(self) -> str:
        return f"distinct {self.arg.sql}"


@dataclass
class Numbers:
    """The numbers of some groups, a row each, by name; for each extreme, where there is one.

    `texts` are the texts that extremes have found, in order; their keys are places there.
    """

    columns: dict[str, AnyArray]
    present: Mapping[str, Bools]
    texts: Mapping[str, pa.Array]

    def __getitem__(self, name: str) -> AnyArray:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns[PAIRS])
