"""What an aggregate function is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import Bools
from muntin.model import Call, Expr
from muntin.plan.functions.kept import Kept, Numbers


@dataclass(frozen=True)
class Refusal:
    """Why a function cannot be applied: `why` goes on where the function's name ends."""

    why: str
    hint: str
    not_yet: bool
    """Whether SQL has it and we have not."""


class AggregateFunction(ABC):
    """A function of the values that an expression has over many pairs; one object each, in `AGGREGATES`."""

    name: ClassVar[str]
    """What calls of it say, in the model and in what is durable."""
    sql_names: ClassVar[tuple[str, ...]]
    """What it is called in SQL, the first as we show it; () where SQL has no name of its own for it."""
    distinct: ClassVar[str | None] = None
    """The function that it is with DISTINCT; None: DISTINCT does not go with it."""
    counts_pairs: ClassVar[bool] = False
    """Whether it may be of `*`."""

    def refusal(self, kind: str, final: bool) -> Refusal | None:
        """Why it cannot be of values of a type, with EMIT FINAL or without; None where it can."""
        return None

    @abstractmethod
    def result_type(self, kind: str) -> str:
        """The type of the result for arguments of a type."""

    @abstractmethod
    def kept(self, arg: Expr) -> tuple[Kept, ...]:
        """What is kept of each group."""

    @abstractmethod
    def result(self, call: Call, numbers: Numbers) -> tuple[pa.Array, Bools]:
        """The value for each group, and where it does not fit its type; from the numbers of all shards together."""


def always_fits(numbers: Numbers) -> Bools:
    return np.zeros(len(numbers), bool)
