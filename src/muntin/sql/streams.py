"""CREATE STREAM: from its tree to the model, with what a stream promises about its keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from muntin.model import Expr, Field, Schema, Side, Stream
from muntin.model.types import column_name_fault
from muntin.sql.casts import type_name
from muntin.sql.expressions import Expressions
from muntin.sql.names import find
from muntin.sql.nested import unfold_fields
from muntin.sql.places import SqlText, did_you_mean, listing
from muntin.sql.punctuate import StreamNames, bind_punctuation, bind_unique
from muntin.sql.tree import CreateStream, CreateTable, EventTime, Option
from muntin.sql.value_formats import metadata_of, value_format

_TIME_HINT = "the event time is a TIMESTAMP or TIMESTAMP_NTZ; write timestamp_millis(t), to_timestamp(s) or the like"


def bind_stream(sql: SqlText, name: str, statement: CreateStream) -> Stream:
    """What CREATE STREAM says."""
    schema = bind_schema(sql, statement)
    time, time_expr = _time(sql, statement, schema)
    options = options_with_format(sql, statement)
    form = next(options.pop(k) for k in list(options) if k.lower() == "format")
    return Stream(
        name=name,
        schema=schema,
        time=time,
        lateness_us=_lateness_us(sql, statement),
        format=form,
        options=options,
        rate=_rate(statement),
        idle_us=_idle_us(sql, statement),
        punctuation=bind_punctuation(sql, name, schema, statement.args.get("punctuation")),
        unique=bind_unique(sql, name, schema, statement.args.get("unique")),
        binding_us=_binding_us(sql, statement),
        time_expr=time_expr,
        value=value_format(sql, statement),
        metadata=metadata_of(sql, statement),
    )


def bind_schema(sql: SqlText, statement: CreateStream | CreateTable) -> Schema:
    """The columns of a stream or a table."""
    fields: dict[str, Field] = {}
    for column in statement.expressions:
        name = column.this.name
        if (fault := column_name_fault(name, fields)) is not None:
            raise sql.error(fault[0], column.this, fault[1])
        fields[name.lower()] = Field(name, type_name(sql, column.args["type"]))
    return Schema(tuple(fields.values()))


def _time(sql: SqlText, statement: CreateStream, schema: Schema) -> tuple[str, Expr | None]:
    """The column of TIMESTAMP BY, or the text of its expression and what it means."""
    node = statement.args.get("time")
    if node is None:
        hint = "add TIMESTAMP BY and the column with the event time"
        raise sql.error(f"{statement.name} has no TIMESTAMP BY", statement.this, hint)
    if isinstance(node, EventTime):
        return event_time(sql, statement.name, schema, node)
    field = schema.find(node.name)
    if field is None:
        hint = did_you_mean(node.name, schema.names, f"columns are {listing(schema.names)}")
        raise sql.error(f"{statement.name} has no column {node.name}", node, hint)
    if field.type not in ("timestamp", "timestamp_ntz"):
        raise sql.error(f"{field.name} is {field.type}, not a timestamp", node, _TIME_HINT)
    return field.name, None


def event_time(sql: SqlText, name: str, schema: Schema, node: EventTime) -> tuple[str, Expr]:
    """The text of an expression that gives the event time, and what it means."""
    unfold_fields(node, (), schema.names)
    columns = [(Side.LEFT.prefix + f.name, f.type) for f in schema]
    expressions = Expressions(sql, StreamNames(sql, name, schema), columns)
    expr = expressions.expression(node.this)
    if expr.type not in ("timestamp", "timestamp_ntz"):
        raise sql.error(f"{expr.text} is {expr.type}, not a timestamp", node, _TIME_HINT)
    expressions.verify()
    return expr.text, expr


def _lateness_us(sql: SqlText, statement: CreateStream) -> int:
    node = statement.args.get("lateness")
    if node is None:
        return 0
    if node.args["us"] < 0:
        raise sql.error("LATENESS cannot be negative", node, "write LATENESS 5 seconds, or leave it out")
    return int(node.args["us"])


def _idle_us(sql: SqlText, statement: CreateStream) -> int | None:
    node = statement.args.get("idle")
    if node is not None and node.args["us"] <= 0:
        raise sql.error("IDLE AFTER must be more than zero", node, "write IDLE AFTER 30 seconds")
    return None if node is None else int(node.args["us"])


def _rate(statement: CreateStream) -> float | None:
    node = statement.args.get("rate")
    return None if node is None else float(node.args["per_second"])


def options_with_format(sql: SqlText, statement: CreateStream | CreateTable) -> dict[str, str]:
    """The options of WITH, of which the format is one."""
    options = named_options(sql, statement.args.get("options") or [])
    form = find(options, "format")
    if form is None or not options[form]:
        hint = "add WITH (format = 'parquet', path = '...')"
        raise sql.error(f"{statement.name} has no format", statement.this, hint)
    return options


def named_options(sql: SqlText, nodes: Iterable[Option]) -> dict[str, str]:
    """The options of a WITH by name, each given once."""
    options: dict[str, str] = {}
    for option in nodes:
        key = option.this.name
        if find(options, key):
            raise sql.error(f"the option {key} is given twice", option.this, "keep one of them")
        options[key] = option.expression.name
    return options


def _binding_us(sql: SqlText, statement: CreateStream) -> int | None:
    node = statement.args.get("binding")
    if node is None:
        return None
    if not (statement.args.get("punctuation") or statement.args.get("unique")):
        hint = "add PUNCTUATION WHEN condition or UNIQUE (column), or leave BINDING out"
        raise sql.error(f"{statement.name} promises nothing that could bind", node, hint)
    if node.args["us"] <= 0:
        raise sql.error("BINDING must be longer than zero", node, "write BINDING 1 hour, or leave it out")
    return int(node.args["us"])


def with_promises(sql: SqlText, stream: Stream, statement: CreateStream) -> Stream:
    """The stream with what a statement says that it promises, and nothing else of it."""
    return replace(
        stream,
        punctuation=bind_punctuation(sql, stream.name, stream.schema, statement.args.get("punctuation")),
        unique=bind_unique(sql, stream.name, stream.schema, statement.args.get("unique")),
        binding_us=_binding_us(sql, statement),
    )
