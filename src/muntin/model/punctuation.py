"""What a stream promises about its future (semantics, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muntin.model.job import Expr


class Pattern(StrEnum):
    """Which values a punctuation is about: those of the row itself, of a list, of a range with both ends, or every one.

    A list or range may have no value in it: it then says nothing, and tells only how far its stream has come.
    """

    OWN = "own"
    LIST = "list"
    RANGE = "range"
    EVERY = "every"


@dataclass(frozen=True)
class Punctuation:
    """A row for which `when` is true is no data: it says that rows with certain values come no more.

    `columns` are those that it is about, () for the join key, whatever that is. A list or range is about one column;
    `values` are the list, or the two ends of the range. All expressions name columns as those of a left side.
    A punctuation about every value is about the join key.
    """

    when: Expr
    columns: tuple[str, ...] = ()
    pattern: Pattern = Pattern.OWN
    values: tuple[Expr, ...] = ()
