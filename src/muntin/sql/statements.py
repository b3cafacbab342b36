"""The doors of the front end: a whole job file, one new query, one change of a running job, the promises of a stream.

A job file is read statement by statement, in the order of the text; what holds between statements is checked at its
end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from muntin.model import (
    Change,
    Destination,
    DimensionTable,
    JobSpec,
    KeyPair,
    Query,
    Settings,
    Side,
    SqlError,
    Stream,
    read_queries,
    readers,
)
from muntin.plan.traffic import NOTHING, Knowledge
from muntin.sql.bind import bind_query
from muntin.sql.join_orders import ordered_job, ordered_query
from muntin.sql.names import check_name, find, known_query
from muntin.sql.null_notes import null_notes
from muntin.sql.parsing import STATEMENTS, event_time_of, only_statement, promises_of, statements_of, too_deep
from muntin.sql.places import SqlText, listing, span_of
from muntin.sql.settings import check_value, conflicts, setting_named
from muntin.sql.streams import bind_stream, event_time, named_options, with_promises
from muntin.sql.tables import bind_table
from muntin.sql.tree import CreateQuery, CreateStream, CreateTable, DropQuery, Into, SetOption

_NEW = "write one CREATE QUERY name AS SELECT ..."
_CHANGES = "write CREATE QUERY name AS SELECT ..., CREATE OR REPLACE QUERY name AS SELECT ... or DROP QUERY name"


def parse_job(text: str, source: str | None = None) -> JobSpec:
    """A whole job file."""
    return _Job(SqlText(text, source)).spec()


def parse_query(
    text: str, spec: JobSpec, source: str | None = None, name: str | None = None, knowledge: Knowledge = NOTHING
) -> Query:
    """One new query: `CREATE QUERY name AS SELECT ...`, or a bare SELECT where `name` is given, over `spec`."""
    sql = SqlText(text, source)
    statement = only_statement(sql, "expected one query", _NEW)
    if not isinstance(statement, CreateQuery):
        if name is None or not isinstance(statement, exp.Query):
            raise sql.error("expected CREATE QUERY", statement, "write CREATE QUERY name AS SELECT ...")
        statement = CreateQuery(this=exp.to_identifier(name), expression=statement)
    if find(spec.queries, statement.name):
        hint = "choose another name, or DROP QUERY first"
        raise sql.error(f"there is already a query {statement.name}", statement.this, hint)
    query = _ordered(spec, _query(sql, spec, statement), knowledge)
    _check_groups(sql, spec, query, statement.this)
    return query


def order_joins(spec: JobSpec, knowledge: Knowledge = NOTHING) -> JobSpec:
    """A job whose queries over more than two streams join them in the orders that are predicted to cost least."""
    return ordered_job(spec, knowledge, _bound_again, _fits)


def _ordered(spec: JobSpec, query: Query, knowledge: Knowledge) -> Query:
    """A new query that joins in the best order beside the queries that are there."""
    others = replace(spec, queries={name: q for name, q in spec.queries.items() if name != query.name})
    return ordered_query(others, query, knowledge, _bound_again, _fits)


def _bound_again(spec: JobSpec, query: Query, order: Sequence[str]) -> Query:
    """A query that was accepted, in another order of joins."""
    sql = SqlText(query.text)
    statement = only_statement(sql, "expected one query", _NEW)
    assert isinstance(statement, CreateQuery)
    return _query(sql, spec, statement, query.name, order)


def _fits(spec: JobSpec, query: Query) -> None:
    """Refuse a query that does not go with its order of joins."""
    _check_groups(SqlText(query.text), spec, query, exp.to_identifier(query.name))


def parse_notes(text: str) -> list[str]:
    """What is worth noting of a query that was accepted: conditions that can never be true."""
    sql = SqlText(text)
    statement = only_statement(sql, "expected one query", _NEW)
    return null_notes(sql, statement.expression) if isinstance(statement, CreateQuery) else []


def parse_promises(text: str, stream: Stream) -> Stream:
    """A stream with what a text says that it promises: `UNIQUE (k)`, `PUNCTUATION WHEN closed BINDING 1 hour`."""
    sql = SqlText(text)
    return with_promises(sql, stream, promises_of(sql, stream.name))


def parse_event_time(text: str, stream: Stream) -> Stream:
    """A stream whose event time an expression over its columns gives: `timestamp_millis(t)`."""
    sql = SqlText(text)
    time, time_expr = event_time(sql, stream.name, stream.schema, event_time_of(sql))
    return replace(stream, time=time, time_expr=time_expr)


def parse_change(text: str, spec: JobSpec, source: str | None = None, knowledge: Knowledge = NOTHING) -> Change:
    """One statement that changes the queries of a running job: CREATE [OR REPLACE] QUERY or DROP QUERY.

    `knowledge` of the job says in which order more than two streams are best joined.
    """
    sql = SqlText(text, source)
    statement = only_statement(sql, "expected CREATE QUERY or DROP QUERY, and one only", _CHANGES)
    if isinstance(statement, DropQuery):
        name = known_query(sql, spec.queries, statement.this)
        _check_readers(sql, spec, name, statement.this, "dropped")
        return Change("drop", name)
    if not isinstance(statement, CreateQuery):
        raise sql.error("expected CREATE QUERY or DROP QUERY", statement, _CHANGES)
    old = find(spec.queries, statement.name)
    if old is not None and not statement.args.get("replace"):
        hint = f"write CREATE OR REPLACE QUERY {old} to put this in its place, or DROP QUERY {old} first"
        raise sql.error(f"there is already a query {old}", statement.this, hint)
    if old is not None:
        _check_readers(sql, spec, old, statement.this, "replaced")
    query = _ordered(spec, _query(sql, spec, statement, old), knowledge)
    _check_groups(sql, spec, query, statement.this)
    return Change("add" if old is None else "replace", query.name, query)


def _check_readers(sql: SqlText, spec: JobSpec, name: str, at: exp.Expr, done: str) -> None:
    """Refuse to take away what other queries read."""
    others = readers(name, spec.queries, spec.streams)
    if others:
        read = "reads it" if len(others) == 1 else "read it"
        message = f"{name} cannot be {done}: {listing(others)} {read}"
        raise sql.error(message, at, f"DROP QUERY {others[-1]} first")


def _check_groups(sql: SqlText, spec: JobSpec, query: Query, at: exp.Expr) -> None:
    """Refuse what reads results where they are delivered as they are found, and groups where shards do not hear of each
    other."""
    below = [*query.inputs, *read_queries(query, spec.queries, spec.streams)]
    if spec.settings.eager and below:
        why = "what it reads is complete only up to the release point, at the end of a micro-batch"
        message = f"{query.name} joins what a join has found, which does not go with delivery = 'eager': {why}"
        raise sql.error(message, at, "SET delivery = 'batch', or run it as a job of its own")
    if spec.settings.eager and not query.is_inner:
        message = f"{query.name} asks for rows by their matches, which does not go with delivery = 'eager'"
        raise sql.error(message, at, "SET delivery = 'batch', or run it as a job of its own")
    if not spec.settings.in_global_order and query.aggregation is not None and not query.grouped_by_key:
        message = f"{query.name} has groups over several keys, which do not go with output_order = 'key'"
        raise sql.error(message, at, "SET output_order = 'global', or group by the columns of the join key")
    if query.final and not query.grouped_by_key:
        wanted = ", ".join(_key_text(query, pair) for pair in query.keys)
        hint = f"GROUP BY {wanted}" + (", or write EMIT CHANGES" if query.is_inner else "")
        raise sql.error("EMIT FINAL goes with GROUP BY the join key: only a key can be over", at, hint)


def _key_text(query: Query, pair: KeyPair) -> str:
    """What to group by for a part of the key: it must be there in all rows that go out."""
    if len(query.preserved) == len(Side):
        return f"COALESCE({pair.left.text}, {pair.right.text})"
    return pair.side(query.preserved[0] if query.preserved else query.subject or Side.LEFT).text


def _query(
    sql: SqlText, spec: JobSpec, statement: CreateQuery, old: str | None = None, order: Sequence[str] = ()
) -> Query:
    """The query of a statement; one that takes the place of `old` keeps that spelling of its name. Of more than two
    streams, it joins them in an `order`, or as they are written."""
    name = old or check_name(sql, "query", statement.this)
    select, into = statement.expression, _destination(sql, statement.args.get("into"))
    history = statement.args.get("history")
    where = (f"{into.text} " if into is not None else "") + (f"{sql.slice(history)} " if history else "")
    try:
        others = replace(spec, queries={n: q for n, q in spec.queries.items() if n != old})
        whole = f"CREATE QUERY {name} {where}AS {sql.slice(select)}"
        query = bind_query(sql, others, name, select, whole, order)
    except RecursionError as error:
        raise too_deep(sql) from error
    since = None if history is None else history.args.get("us")
    return replace(query, into=into, from_beginning=history is not None, since_us=since)


def _destination(sql: SqlText, node: Into | None) -> Destination | None:
    """What INTO says; the sinks say whether there is such a kind."""
    if node is None:
        return None
    if not node.expression.name.strip():
        raise sql.error("the place after INTO is empty", node, "write INTO DELTA 'file:///data/lake'")
    options = named_options(sql, node.args.get("options") or [])
    return Destination(node.this.name.upper(), node.expression.name, tuple(options.items()))


class _Job:
    """Collects what the statements say, with the places of names for messages about the second one."""

    def __init__(self, sql: SqlText):
        self.sql = sql
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, DimensionTable] = {}
        self.queries: dict[str, Query] = {}
        self.settings: dict[str, str | int | float | bool] = {}
        self.notes: list[str] = []
        self._first: dict[tuple[str, str], exp.Expr] = {}

    def spec(self) -> JobSpec:
        for statement in statements_of(self.sql):
            if isinstance(statement, SetOption):
                self._set(statement)
            elif isinstance(statement, CreateStream):
                self._create_stream(statement)
            elif isinstance(statement, CreateTable):
                self._create_table(statement)
            elif isinstance(statement, CreateQuery):
                self._create_query(statement)
            elif isinstance(statement, DropQuery):
                self._drop_query(statement)
            else:
                raise self._stray(statement)
        spec = self._so_far()
        given = {name for what, name in self._first if what == "setting"}
        for conflict in conflicts(spec.settings, given):
            raise self.sql.error(conflict.message, self._first["setting", conflict.setting].parent, conflict.hint)
        spec = order_joins(spec)
        for query in spec.queries.values():
            _check_groups(self.sql, spec, query, self._first["query", query.name.lower()])
        return spec

    def _so_far(self) -> JobSpec:
        settings = Settings(**self.settings)  # type: ignore[arg-type]
        return JobSpec(self.streams, self.queries, settings, tuple(self.notes), self.tables)

    def _stray(self, statement: exp.Expr) -> SqlError:
        if isinstance(statement, exp.Query):
            return self.sql.error("a SELECT needs a name here", statement, "write CREATE QUERY name AS SELECT ...")
        word = (self.sql.slice(statement).split() or [""])[0]
        at = span_of(statement)
        return self.sql.error(f"{word} does not begin a statement of a job file", at, STATEMENTS)

    def _once(self, what: str, node: exp.Expr, name: str | None = None) -> None:
        """Refuse a second use of a name, saying where the first one is; `name` where the node has an older one."""
        first = self._first.setdefault((what, name or node.name.lower()), node)
        if first is not node:
            span = span_of(first)
            where = f" in line {self.sql.place(span).line}" if span else ""
            hint = "keep one of them" if what == "setting" else "choose another name"
            raise self.sql.error(f"the {what} {node.name} is already there{where}", node, hint)

    def _set(self, statement: SetOption) -> None:
        node = statement.this
        setting = setting_named(self.sql, node)
        self._once("setting", node, setting.name)
        self.settings[setting.field] = check_value(self.sql, setting, node.name.lower(), statement.expression)
        if node.name.lower() != setting.name:
            self.notes.append(self._renamed(node, setting.name))

    def _renamed(self, node: exp.Expr, name: str) -> str:
        said = f"the setting {node.name} is now called {name}; the old name is still understood"
        return f"{self.sql.where(node)}: {said}"

    def _create_stream(self, statement: CreateStream) -> None:
        name = check_name(self.sql, "stream", statement.this)
        self._once_in_from("stream", statement.this, name)
        self.streams[name] = bind_stream(self.sql, name, statement)

    def _create_table(self, statement: CreateTable) -> None:
        name = check_name(self.sql, "table", statement.this)
        self._once_in_from("table", statement.this, name)
        self.tables[name] = bind_table(self.sql, name, statement)

    def _once_in_from(self, what: str, node: exp.Expr, name: str) -> None:
        """Refuse a second use of a name among all that FROM may name."""
        other = "table" if what == "stream" else "stream"
        if (other, name.lower()) in self._first:
            raise self.sql.error(f"there is already a {other} {name}", node, "choose another name")
        self._once(what, node, name.lower())

    def _create_query(self, statement: CreateQuery) -> None:
        name = check_name(self.sql, "query", statement.this)
        old = find(self.queries, name)
        if old is not None and statement.args.get("replace"):
            _check_readers(self.sql, self._so_far(), old, statement.this, "replaced")
        if statement.args.get("replace"):
            self._first.pop(("query", name.lower()), None)
        self._once("query", statement.this, name.lower())
        query = _query(self.sql, self._so_far(), statement, find(self.queries, name))
        self.queries[query.name] = query
        self.notes += null_notes(self.sql, statement.expression)

    def _drop_query(self, statement: DropQuery) -> None:
        name = known_query(self.sql, self.queries, statement.this)
        _check_readers(self.sql, self._so_far(), name, statement.this, "dropped")
        del self.queries[name]
        del self._first[("query", name.lower())]
