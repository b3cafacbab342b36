"""Dimension tables, and what the rows of a stream find in them before they are joined.

A stream that looks something up has columns beside its own: one that says whether a row of the table was found, and
those columns of that row which some query wants. To all that comes after, they are columns as others are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from muntin.model.types import Field, Schema

if TYPE_CHECKING:
    from muntin.model.job import Expr


@dataclass(frozen=True)
class DimensionTable:
    """A table that is read whole, and again when it has changed; `options` go to Spark's read as they are."""

    name: str
    schema: Schema
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LookupKey:
    """One equality: an expression over the columns of the stream, as those of a left side, and a column of the table.
    Both are compared in `type`."""

    expr: Expr
    column: str
    type: str

    @property
    def name(self) -> str:
        """What tells it from others, without quotes and dots."""
        named = self.expr.column
        return f"{self.column} = {named[1] if named else f'{zlib.crc32(self.expr.sql.encode()):08x}'}"


@dataclass(frozen=True)
class Lookup:
    """The row of a table that has a key of a stream's row, and which columns of it are wanted."""

    stream: str
    table: str
    keys: tuple[LookupKey, ...]
    columns: tuple[Field, ...] = ()

    @property
    def name(self) -> str:
        """The column that says whether there is a row: NULL where nobody has looked."""
        return f"{self.table} ({', '.join(key.name for key in self.keys)})"

    def named(self, column: str) -> str:
        """What the stream calls a column of the table."""
        return f"{column} of {self.name}"

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that the stream has by it."""
        found = Field(self.name, "boolean")
        return (found, *(Field(self.named(column.name), column.type) for column in self.columns))

    @property
    def text(self) -> str:
        """How it is written: `LocationId = Places.id`."""
        return " AND ".join(f"{key.expr.text} = {self.table}.{key.column}" for key in self.keys)


def united(lookups: Iterable[Lookup]) -> tuple[Lookup, ...]:
    """Lookups in which each key of a table comes once, with all columns that are wanted of it."""
    found: dict[tuple[str, str], Lookup] = {}
    for lookup in lookups:
        before = found.get((lookup.stream, lookup.name), lookup)
        columns = tuple(dict.fromkeys((*before.columns, *lookup.columns)))
        found[lookup.stream, lookup.name] = replace(before, columns=columns)
    return tuple(found.values())
