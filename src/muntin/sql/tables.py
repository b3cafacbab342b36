"""CREATE TABLE: from its tree to the model."""

from __future__ import annotations

from muntin.model import DimensionTable
from muntin.sql.places import SqlText
from muntin.sql.streams import bind_schema, options_with_format
from muntin.sql.tree import CreateTable


def bind_table(sql: SqlText, name: str, statement: CreateTable) -> DimensionTable:
    """What CREATE TABLE says."""
    for column in statement.expressions:
        if column.args.get("metadata") is not None:
            raise sql.error("a table has no METADATA", column.args["metadata"], "name and type are all")
    options = options_with_format(sql, statement)
    form = next(options.pop(key) for key in list(options) if key.lower() == "format")
    return DimensionTable(name, bind_schema(sql, statement), form, options)
