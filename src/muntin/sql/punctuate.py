"""The promises of a stream: PUNCTUATION WHEN ... FOR ..., UNIQUE (...)."""

from __future__ import annotations

from sqlglot import exp

from muntin.model import Pattern, Punctuation, Side, common_type
from muntin.model.types import Field, Schema
from muntin.sql.expressions import Expressions
from muntin.sql.nested import unfold_fields
from muntin.sql.places import SqlText, did_you_mean, listing


class StreamNames:
    """What column names mean in a clause of one stream (`translate.Scope`): a left side stands alone."""

    def __init__(self, text: SqlText, name: str, schema: Schema):
        self.text, self.name, self.schema = text, name, schema

    def resolve(self, column: exp.Column) -> tuple[Side, Field]:
        if column.args.get("table"):
            raise self.text.error("a column of the stream is named without a prefix", column, "write its name only")
        return Side.LEFT, self.field(column.this)

    def field(self, node: exp.Expr) -> Field:
        found = self.schema.find(node.name)
        if found is None:
            hint = did_you_mean(node.name, self.schema.names, f"columns are {listing(self.schema.names)}")
            raise self.text.error(f"{self.name} has no column {node.name}", node, hint)
        return found


def bind_punctuation(text: SqlText, name: str, schema: Schema, clause: exp.Expr | None) -> Punctuation | None:
    """The clause PUNCTUATION of a stream, None where it has none."""
    if clause is None:
        return None
    names = StreamNames(text, name, schema)
    unfold_fields(clause, (), schema.names)
    expressions = Expressions(text, names, [(Side.LEFT.prefix + f.name, f.type) for f in schema])
    when = expressions.predicate(clause.this)
    fields = _distinct(text, names, clause.args.get("columns") or [])
    pattern = Pattern(clause.args.get("pattern") or Pattern.OWN)
    values = tuple(expressions.expression(node) for node in clause.expressions)
    for node, value in zip(clause.expressions, values, strict=True):
        if common_type(value.type, fields[0].type) is None:
            hint = f"bring it to {fields[0].type} with CAST(... AS ...)"
            raise text.error(f"{fields[0].name} is {fields[0].type}, this is {value.type}", node, hint)
    expressions.verify()
    return Punctuation(when, tuple(f.name for f in fields), pattern, values)


def bind_unique(text: SqlText, name: str, schema: Schema, clause: exp.Expr | None) -> tuple[str, ...]:
    """The columns of UNIQUE, () where the stream has none."""
    if clause is None:
        return ()
    return tuple(f.name for f in _distinct(text, StreamNames(text, name, schema), clause.expressions))


def _distinct(text: SqlText, names: StreamNames, nodes: list[exp.Expr]) -> list[Field]:
    fields: list[Field] = []
    for node in nodes:
        field = names.field(node)
        if field in fields:
            raise text.error(f"{field.name} is named twice", node, "keep one of them")
        fields.append(field)
    return fields
