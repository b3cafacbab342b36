"""What job files have and SQL has not, as nodes of sqlglot's trees."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Duration(exp.Expression):
    """`us` microseconds; the sign is checked where the duration is used."""

    arg_types: ClassVar[dict[str, bool]] = {"us": True}


class RowCount(exp.Expression):
    """A window of the last `rows` rows."""

    arg_types: ClassVar[dict[str, bool]] = {"rows": True}


class Emit(exp.Expression):
    """When an aggregate sends rows: every `us` microseconds, once when a group is `final`; else at every change."""

    arg_types: ClassVar[dict[str, bool]] = {"us": False, "final": False}


class EventTime(exp.Expression):
    """The expression of TIMESTAMP BY, where it is more than a column."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Rate(exp.Expression):
    """Rows per second to expect of a stream."""

    arg_types: ClassVar[dict[str, bool]] = {"per_second": True}


class StreamRef(exp.Table):
    """A stream in FROM with its own window: `Stream [RANGE d] alias`, `Stream [ROWS n] alias`."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Table.arg_types, "range": True}


class SetOption(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class ColumnType(exp.Expression):
    """A column of CREATE STREAM; `metadata` is what its source calls it, where it does not come out of the value."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "type": True, "metadata": False}


class ValueFormatClause(exp.Expression):
    """`VALUE FORMAT this (expressions)`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class Option(exp.Expression):
    """`key = 'value'` of WITH: both as literals."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Unique(exp.Expression):
    """`UNIQUE (column, ...)` among the columns of CREATE STREAM."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class PunctuationClause(exp.Expression):
    """`PUNCTUATION WHEN this FOR columns`, with the values of a list or the ends of a range as `expressions`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "columns": False, "pattern": False, "expressions": False}


class Until(exp.Expression):
    """`WINDOW UNTIL expressions AT MOST at_most`."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "at_most": False}


class CreateStream(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "time": False,
        "lateness": False,
        "idle": False,
        "rate": False,
        "punctuation": False,
        "binding": False,
        "unique": False,
        "value": False,
        "options": False,
    }


class CreateTable(exp.Expression):
    """`CREATE TABLE this (expressions) WITH (options)`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True, "options": False}


class Into(exp.Expression):
    """`INTO kind 'place' WITH (options)`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "options": False}


class AskedPast(exp.Expression):
    """A query asks for what its streams have brought so far, from their beginning or, with `us`, from a time on."""

    arg_types: ClassVar[dict[str, bool]] = {"us": False}


class CreateQuery(exp.Expression):
    """A named SELECT; with `replace` it may take the place of a query of that name."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "replace": False,
        "into": False,
        "history": False,
    }


class DropQuery(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True}
