"""Comparisons of a column with constants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Op(StrEnum):
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NOT_IN = "not in"


@dataclass(frozen=True)
class Comparison:
    """A column against constants of its own type: what an index over the column can answer for many queries at once.

    An inequality has one value; `=` and `<>` are `in` and `not in` of one value. NULL satisfies none of them. Values
    are int, float (never NaN) or str.
    """

    column: str
    op: Op
    values: tuple[int | float | str, ...]
