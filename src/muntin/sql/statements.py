"""The statements of a job file, in the order of the text, and the three doors of the front end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from muntin.model import Change, Field, JobSpec, Query, Schema, Settings, SqlError, Stream, UsageError
from muntin.sql.amounts import BYTES_HINT, parse_bytes
from muntin.sql.bind import bind_query
from muntin.sql.casts import type_name
from muntin.sql.dialect import Muntin, MuntinParser, UnknownStatement
from muntin.sql.duration import parse_duration_us
from muntin.sql.marking import GrammarError
from muntin.sql.places import Span, SqlText, did_you_mean, listing, span_of
from muntin.sql.punctuate import bind_punctuation, bind_unique
from muntin.sql.tree import CreateQuery, CreateStream, DropQuery, SetOption

MAX_TEXT = 1_000_000
MAX_NAME = 100
MAX_SHARDS = 1024
MAX_FAN_OUT = 10**15
MOST_LISTED = 6
"""How many queries a hint names; a job may have hundreds."""

_STATEMENTS = "a job file has SET, CREATE STREAM, CREATE QUERY and DROP QUERY"
_NEW = "write one CREATE QUERY name AS SELECT ..."
_CHANGES = "write CREATE QUERY name AS SELECT ..., CREATE OR REPLACE QUERY name AS SELECT ... or DROP QUERY name"

_VALUES: Mapping[str, tuple[str, ...]] = {
    "strategy": ("auto", "state-slice", "pull-up", "push-down", "isolated"),
    "chain": ("auto", "mem-opt", "cpu-opt"),
    "output_order": ("key", "global"),
    "invalidation": ("auto", "probe", "probe-insert", "probe-all", "all"),
    "adapt": ("on", "off"),
    "scheduler": ("auto", "lwo", "swf", "mqt"),
    "delivery": ("batch", "eager"),
    "ordering": ("sync-filter", "filter-order", "adaptive"),
    "on_held_limit": ("fail", "release"),
    "punctuations": ("pwjoin", "pjoin", "off"),
}
"""For each setting that is a choice, its values."""

_CHAINED = ("auto", "state-slice")
"""Strategies that may cut a join into a chain of slices; of the others `chain` would say nothing."""

_MOST = {"shards": MAX_SHARDS, "fan_out_limit": MAX_FAN_OUT}
"""Settings that are whole numbers from 1 on, with the largest value."""

_LIMITS = {"state_limit": "state_limit_bytes", "held_limit": "held_limit_bytes"}
"""Settings that are sizes in bytes, and their names in the model."""

_SETTINGS = (*_VALUES, *_MOST, *_LIMITS, "alpha", "max_ahead")


def parse_job(text: str, source: str | None = None) -> JobSpec:
    """A whole job file."""
    return _Job(SqlText(text, source)).spec()


def parse_query(text: str, spec: JobSpec, source: str | None = None, name: str | None = None) -> Query:
    """One new query: `CREATE QUERY name AS SELECT ...`, or a bare SELECT where `name` is given, over `spec`."""
    sql = SqlText(text, source)
    statement = _only(sql, "expected one query", _NEW)
    if not isinstance(statement, CreateQuery):
        if name is None or not isinstance(statement, exp.Query):
            raise sql.error("expected CREATE QUERY", statement, "write CREATE QUERY name AS SELECT ...")
        statement = CreateQuery(this=exp.to_identifier(name), expression=statement)
    if _find(spec.queries, statement.name):
        hint = "choose another name, or DROP QUERY first"
        raise sql.error(f"there is already a query {statement.name}", statement.this, hint)
    query = _query(sql, spec, statement)
    _check_groups(sql, spec, query, statement.this)
    return query


def parse_promises(text: str, stream: Stream) -> Stream:
    """A stream with what a text says that it promises: `UNIQUE (k)`, `PUNCTUATION WHEN closed BINDING 1 hour`."""
    sql = SqlText(text)
    try:
        statement = MuntinParser(dialect=Muntin()).parse_promises(Muntin().tokenize(text), text, stream.name)
    except GrammarError as error:
        raise sql.error(_message(sql, error), error.span, error.hint or _hint(sql, error.span)) from error
    except TokenError as error:
        raise _token_error(sql, error) from error
    return replace(
        stream,
        punctuation=bind_punctuation(sql, stream.name, stream.schema, statement.args.get("punctuation")),
        unique=bind_unique(sql, stream.name, stream.schema, statement.args.get("unique")),
        binding_us=_binding_us(sql, statement),
    )


def parse_change(text: str, spec: JobSpec, source: str | None = None) -> Change:
    """One statement that changes the queries of a running job: CREATE [OR REPLACE] QUERY or DROP QUERY."""
    sql = SqlText(text, source)
    statement = _only(sql, "expected CREATE QUERY or DROP QUERY, and one only", _CHANGES)
    if isinstance(statement, DropQuery):
        return Change("drop", _known(sql, spec.queries, statement.this))
    if not isinstance(statement, CreateQuery):
        raise sql.error("expected CREATE QUERY or DROP QUERY", statement, _CHANGES)
    old = _find(spec.queries, statement.name)
    if old is not None and not statement.args.get("replace"):
        hint = f"write CREATE OR REPLACE QUERY {old} to put this in its place, or DROP QUERY {old} first"
        raise sql.error(f"there is already a query {old}", statement.this, hint)
    query = _query(sql, spec, statement, old)
    _check_groups(sql, spec, query, statement.this)
    return Change("add" if old is None else "replace", query.name, query)


def _only(sql: SqlText, message: str, hint: str) -> exp.Expr:
    """The one statement of a text; of several, the second is pointed at."""
    statements = _parse(sql, hint)
    if len(statements) != 1:
        raise sql.error(message, statements[1] if statements else None, hint)
    return statements[0]


def _parse(sql: SqlText, expected: str = _STATEMENTS) -> list[exp.Expr]:
    """The statements of a text; whatever sqlglot raises becomes one message with a place.

    `expected` is the hint where what stands there is no statement at all.
    """
    if len(sql.text) > MAX_TEXT:
        raise sql.error(f"the text is longer than {MAX_TEXT} characters", None, "split the job")
    dialect = Muntin()
    parser = dialect.parser()
    try:
        tokens = dialect.tokenize(sql.text)
        found = parser.parse(tokens, sql.text)
    except TokenError as error:
        raise _token_error(sql, error) from error
    except UnknownStatement as error:
        raise sql.error(error.description, error.span, expected) from error
    except GrammarError as error:
        hint = error.hint or _hint(sql, error.span)
        raise sql.error(_message(sql, error), error.span, hint) from error
    except ParseError as error:
        raise sql.error(str(error).splitlines()[0], None, expected) from error
    except RecursionError as error:
        raise sql.error("the text is nested too deeply", None, "write it flatter, or as several queries") from error
    except Exception as error:  # sqlglot stumbles over some malformed texts
        token = parser._curr or parser._prev
        span = Span(token.start, token.end + 1) if token else None
        raise sql.error("this cannot be read", span, expected) from error
    return [s for s in found if s is not None and not isinstance(s, exp.Semicolon)]


def _message(sql: SqlText, error: GrammarError) -> str:
    if error.description.startswith("Invalid expression"):
        return f"unexpected {sql.slice(error.span)}"
    if error.description.startswith("Required keyword"):
        return "something is missing here"
    return error.description.rstrip(".")


def _hint(sql: SqlText, span: Span) -> str:
    """What to do about an error of sqlglot's own, which has no hint."""
    word = sql.slice(span)
    if not word:
        return "something is missing at the end"
    return f"look at and before {word!r}: a comma, bracket, quote or semicolon may be missing"


def _token_error(sql: SqlText, error: TokenError) -> SqlError:
    found = re.match(r"Missing (\S+) from \d+:(\d+)", str(error.__cause__ or error))
    if found is None:
        span = Span(max(sql.text.rfind("/*"), 0), len(sql.text))
        return sql.error("this comment does not end", span, "close it with */")
    start = min(int(found[2]), max(len(sql.text) - 1, 0))
    what = {"*/": "comment", "`": "quoted name"}.get(found[1], "string")
    line_end = sql.text.find("\n", start)
    span = Span(start, line_end if line_end > start else len(sql.text))
    return sql.error(f"this {what} does not end", span, f"close it with {found[1]}")


def _check_name(sql: SqlText, what: str, node: exp.Expr) -> str:
    """Names of streams and queries: they become names of directories and columns."""
    name = node.name
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is None:
        raise sql.error(f"{name!r} cannot name a {what}", node, "a name is a letter, then letters, digits and _")
    if len(name) > MAX_NAME:
        raise sql.error(f"the name of the {what} has {len(name)} characters", node, f"at most {MAX_NAME} are allowed")
    return name


def _find(known: Mapping[str, Any], name: str) -> str | None:
    return next((k for k in known if k.lower() == name.lower()), None)


def _known(sql: SqlText, queries: Mapping[str, Query], node: exp.Expr) -> str:
    """The name of a query that there is, as it was first spelled."""
    name = _find(queries, node.name)
    if name is None:
        names = [*queries][:MOST_LISTED]
        more = f" and {len(queries) - len(names)} more" if len(queries) > len(names) else ""
        hint = f"{did_you_mean(node.name, queries, '')} queries are {listing(names)}{more}".strip()
        raise sql.error(f"there is no query {node.name}", node, hint)
    return name


def _check_groups(sql: SqlText, spec: JobSpec, query: Query, at: exp.Expr) -> None:
    """Refuse aggregates where results are delivered before they are final, or shards do not hear of each other."""
    if spec.settings.delivery == "eager" and query.aggregation is not None:
        message = f"{query.name} has aggregates, which do not go with delivery = 'eager'"
        raise sql.error(message, at, "SET delivery = 'batch', or run it as a job of its own")
    if spec.settings.output_order == "key" and query.aggregation is not None and not query.grouped_by_key:
        hint = "SET order = 'global', or group by the columns of the join key"
        raise sql.error(f"{query.name} has groups over several keys, which do not go with order = 'key'", at, hint)
    if query.final and not query.grouped_by_key:
        wanted = ", ".join(pair.left.text for pair in query.keys)
        hint = f"GROUP BY {wanted}, or write EMIT CHANGES" if wanted else "write EMIT CHANGES or EVERY 10 seconds"
        raise sql.error("EMIT FINAL goes with GROUP BY the join key: only a key can be over", at, hint)


def _query(sql: SqlText, spec: JobSpec, statement: CreateQuery, old: str | None = None) -> Query:
    """The query of a statement; one that takes the place of `old` keeps that spelling of its name."""
    name = old or _check_name(sql, "query", statement.this)
    select = statement.expression
    return bind_query(sql, spec, name, select, f"CREATE QUERY {name} AS {sql.slice(select)}")


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


class _Job:
    """Collects what the statements say, with the places of names for messages about the second one."""

    def __init__(self, sql: SqlText):
        self.sql = sql
        self.streams: dict[str, Stream] = {}
        self.queries: dict[str, Query] = {}
        self.settings: dict[str, str | int | float] = {}
        self._first: dict[tuple[str, str], exp.Expr] = {}

    def spec(self) -> JobSpec:
        for statement in _parse(self.sql):
            if isinstance(statement, SetOption):
                self._set(statement)
            elif isinstance(statement, CreateStream):
                self._create_stream(statement)
            elif isinstance(statement, CreateQuery):
                self._create_query(statement)
            elif isinstance(statement, DropQuery):
                self._drop_query(statement)
            else:
                raise self._stray(statement)
        self._check_chain()
        self._check_order()
        spec = self._so_far()
        for query in spec.queries.values():
            _check_groups(self.sql, spec, query, self._first["query", query.name.lower()])
        return spec

    def _so_far(self) -> JobSpec:
        return JobSpec(self.streams, self.queries, Settings(**self.settings))  # type: ignore[arg-type]

    def _stray(self, statement: exp.Expr) -> SqlError:
        if isinstance(statement, exp.Query):
            return self.sql.error("a SELECT needs a name here", statement, "write CREATE QUERY name AS SELECT ...")
        word = (self.sql.slice(statement).split() or [""])[0]
        at = span_of(statement)
        return self.sql.error(f"{word} does not begin a statement of a job file", at, _STATEMENTS)

    def _once(self, what: str, node: exp.Expr) -> None:
        """Refuse a second use of a name, saying where the first one is."""
        first = self._first.setdefault((what, node.name.lower()), node)
        if first is not node:
            span = span_of(first)
            where = f" in line {self.sql.place(span).line}" if span else ""
            hint = "keep one of them" if what == "setting" else "choose another name"
            raise self.sql.error(f"the {what} {node.name} is already there{where}", node, hint)

    # SET

    def _set(self, statement: SetOption) -> None:
        node, value = statement.this, statement.expression
        name = node.name.lower()
        if name not in _SETTINGS:
            hint = did_you_mean(name, _SETTINGS, f"settings are {listing(_SETTINGS)}")
            raise self.sql.error(f"there is no setting {node.name}", node, hint)
        self._once("setting", node)
        if name in _LIMITS:
            self.settings[_LIMITS[name]] = self._bytes(name, value)
        elif name == "alpha":
            self.settings[name] = self._alpha(value)
        elif name == "max_ahead":
            self.settings["max_ahead_us"] = self._max_ahead(value)
        elif name in _MOST:
            self.settings[name] = self._number(name, value)
        else:
            self.settings[name] = self._choice(name, value)

    def _number(self, name: str, value: exp.Expr) -> int:
        text, most = value.name, _MOST[name]
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
            raise self.sql.error(f"{name} cannot be {text}", value, f"write a whole number from 1 to {most}")
        return int(text)

    def _bytes(self, name: str, value: exp.Expr) -> int:
        try:
            return parse_bytes(value.name)
        except UsageError as error:
            raise self.sql.error(f"{name}: {error.message}", value, error.hint or BYTES_HINT) from error

    def _alpha(self, value: exp.Expr) -> float:
        text = value.name
        if re.fullmatch(r"\d*\.?\d+", text) is None or not 0 <= float(text) < 1:
            raise self.sql.error(f"alpha cannot be {text}", value, "write a number from 0 to below 1, such as 0.3")
        return float(text)

    def _max_ahead(self, value: exp.Expr) -> int:
        try:
            ahead = parse_duration_us(value.name)
        except UsageError as error:
            raise self.sql.error(f"max_ahead: {error.message}", value, "write SET max_ahead = '1 hour'") from error
        if ahead <= 0:
            raise self.sql.error("max_ahead must be more than zero", value, "write SET max_ahead = '1 hour'")
        return ahead

    def _choice(self, name: str, value: exp.Expr) -> str:
        values, chosen = _VALUES[name], value.name.lower()
        if chosen not in values:
            hint = did_you_mean(chosen, values, "values are " + listing(f"'{v}'" for v in values))
            raise self.sql.error(f"{name} cannot be '{value.name}'", value, hint)
        return chosen

    def _check_chain(self) -> None:
        """Refuse a choice of chain beside a strategy that has none."""
        strategy, chain = self.settings.get("strategy", "auto"), self.settings.get("chain", "auto")
        if chain != "auto" and strategy not in _CHAINED:
            message = f"chain = '{chain}' does not go with strategy = '{strategy}', which has no chain"
            hint = "set chain = 'auto', or strategy = 'state-slice'"
            raise self.sql.error(message, self._first["setting", "chain"].parent, hint)

    def _check_order(self) -> None:
        """Refuse settings that would say nothing beside the others."""
        ordering = self.settings.get("ordering", "adaptive")
        if "alpha" in self.settings and ordering != "adaptive":
            message = f"alpha does not go with ordering = '{ordering}', which never changes"
            raise self.sql.error(message, self._first["setting", "alpha"].parent, "set ordering = 'adaptive'")
        if "on_held_limit" in self.settings and "held_limit_bytes" not in self.settings:
            message, hint = "on_held_limit without a limit", "add SET held_limit = '1 GB'"
            raise self.sql.error(message, self._first["setting", "on_held_limit"].parent, hint)
        if self.settings.get("delivery") == "eager":
            for name, value in (("ordering", "filter-order"), ("on_held_limit", "release")):
                if self.settings.get(name) == value:
                    message = f"{name} = '{value}' does not go with delivery = 'eager', which joins rows in order"
                    raise self.sql.error(message, self._first["setting", name].parent, "set delivery = 'batch'")

    # streams

    def _create_stream(self, statement: CreateStream) -> None:
        name = _check_name(self.sql, "stream", statement.this)
        self._once("stream", statement.this)
        schema = self._schema(statement)
        options = self._options(statement)
        form = next(options.pop(k) for k in list(options) if k.lower() == "format")
        time, lateness_us = self._time(statement, schema), self._lateness_us(statement)
        self.streams[name] = Stream(
            name,
            schema,
            time,
            lateness_us,
            form,
            options,
            self._rate(statement),
            self._idle_us(statement),
            bind_punctuation(self.sql, name, schema, statement.args.get("punctuation")),
            bind_unique(self.sql, name, schema, statement.args.get("unique")),
            _binding_us(self.sql, statement),
        )

    def _schema(self, statement: CreateStream) -> Schema:
        fields: dict[str, Field] = {}
        for column in statement.expressions:
            name = column.this.name
            if name.startswith("_"):
                raise self.sql.error(f"the name {name} is reserved", column.this, "a column cannot begin with _")
            if not name or len(name) > 255 or re.search(r'["`.\x00-\x1f]', name):
                raise self.sql.error(f"{name!r} cannot name a column", column.this, "leave out quotes and dots")
            if name.lower() in fields:
                raise self.sql.error(
                    f"the column {name} is already there", column.this, "names differ by more than case"
                )
            fields[name.lower()] = Field(name, type_name(self.sql, column.args["type"]))
        return Schema(tuple(fields.values()))

    def _time(self, statement: CreateStream, schema: Schema) -> str:
        node = statement.args.get("time")
        if node is None:
            hint = "add TIMESTAMP BY and the column with the event time"
            raise self.sql.error(f"{statement.name} has no TIMESTAMP BY", statement.this, hint)
        field = schema.find(node.name)
        if field is None:
            hint = did_you_mean(node.name, schema.names, f"columns are {listing(schema.names)}")
            raise self.sql.error(f"{statement.name} has no column {node.name}", node, hint)
        if field.type not in ("timestamp", "timestamp_ntz"):
            hint = "the event time is a TIMESTAMP or TIMESTAMP_NTZ"
            raise self.sql.error(f"{field.name} is {field.type}, not a timestamp", node, hint)
        return field.name

    def _lateness_us(self, statement: CreateStream) -> int:
        node = statement.args.get("lateness")
        if node is None:
            return 0
        if node.args["us"] < 0:
            raise self.sql.error("LATENESS cannot be negative", node, "write LATENESS 5 seconds, or leave it out")
        return int(node.args["us"])

    def _idle_us(self, statement: CreateStream) -> int | None:
        node = statement.args.get("idle")
        if node is not None and node.args["us"] <= 0:
            raise self.sql.error("IDLE AFTER must be more than zero", node, "write IDLE AFTER 30 seconds")
        return None if node is None else int(node.args["us"])

    @staticmethod
    def _rate(statement: CreateStream) -> float | None:
        node = statement.args.get("rate")
        return None if node is None else float(node.args["per_second"])

    def _options(self, statement: CreateStream) -> dict[str, str]:
        options: dict[str, str] = {}
        for option in statement.args.get("options") or []:
            key = option.this.name
            if _find(options, key):
                raise self.sql.error(f"the option {key} is given twice", option.this, "keep one of them")
            options[key] = option.expression.name
        form = _find(options, "format")
        if form is None or not options[form]:
            hint = "add WITH (format = 'parquet', path = '...')"
            raise self.sql.error(f"{statement.name} has no format", statement.this, hint)
        return options

    # queries

    def _create_query(self, statement: CreateQuery) -> None:
        name = _check_name(self.sql, "query", statement.this)
        if statement.args.get("replace"):
            self._first.pop(("query", name.lower()), None)
        self._once("query", statement.this)
        query = _query(self.sql, self._so_far(), statement, _find(self.queries, name))
        self.queries[query.name] = query

    def _drop_query(self, statement: DropQuery) -> None:
        name = _known(self.sql, self.queries, statement.this)
        del self.queries[name]
        del self._first[("query", name.lower())]
