"""VALUE FORMAT and METADATA of CREATE STREAM: how columns come out of what a source brings."""

from __future__ import annotations

from muntin.formats import FORMATS
from muntin.model import ValueFormat
from muntin.sql.places import SqlText, did_you_mean, listing
from muntin.sql.tree import CreateStream


def value_format(sql: SqlText, statement: CreateStream) -> ValueFormat | None:
    """The format of the values, with options that it has."""
    clause = statement.args.get("value")
    if clause is None:
        return None
    kind = FORMATS.get(clause.name.lower())
    if kind is None:
        names = [name.upper() for name in FORMATS]
        raise sql.error(
            f"there is no format {clause.name}",
            clause.this,
            did_you_mean(clause.name, names, f"formats of values are {listing(names)}"),
        )
    options: dict[str, str] = {}
    for option in clause.expressions:
        key = option.this.name.lower()
        if key not in kind.options:
            known = f"its options are {listing(kind.options)}" if kind.options else "it has no options"
            hint = did_you_mean(key, kind.options, known)
            raise sql.error(f"{kind.name.upper()} has no option {key}", option.this, hint)
        if key in options:
            raise sql.error(f"the option {key} is given twice", option.this, "keep one of them")
        options[key] = option.expression.name
    for key in kind.required:
        if key not in options:
            written = ", ".join(f"{name} = '...'" for name in kind.required)
            hint = f"write VALUE FORMAT {kind.name.upper()} ({written})"
            raise sql.error(f"{kind.name.upper()} needs its option {key}: {kind.options[key]}", clause, hint)
    return ValueFormat(kind.name, options)


def metadata_of(sql: SqlText, statement: CreateStream) -> dict[str, str]:
    """The columns that do not come out of the value, and what the source calls them."""
    found = {c.this.name: c.args["metadata"] for c in statement.expressions if c.args.get("metadata") is not None}
    if found and statement.args.get("value") is None:
        first = next(iter(found.values()))
        hint = "leave METADATA out: without VALUE FORMAT all columns are those of the source"
        raise sql.error("METADATA stands beside values that are decoded", first, hint)
    return {name: node.name for name, node in found.items()}
