"""The two streams of a query as FROM names them, and what column names mean."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from sqlglot import exp

from muntin.model import OUTPUT_TIME, JobSpec, Side, SqlError, Stream, relation
from muntin.model.types import Field
from muntin.sql.names import find
from muntin.sql.parsing import event_time_of
from muntin.sql.places import Span, SqlText, did_you_mean, listing, span_of
from muntin.sql.tree import Duration, RowCount, StreamRef

_TWO = "FROM takes two declared streams"


@dataclass(frozen=True)
class Source:
    """A stream as FROM names it."""

    alias: str
    stream: Stream
    range: Duration | RowCount | None
    node: exp.Expr

    @property
    def time(self) -> str:
        """What the query calls its event time."""
        if self.stream.time_expr is None:
            return f"{self.alias}.{'_ts' if self.stream.time == OUTPUT_TIME else self.stream.time}"
        text = SqlText(self.stream.time)
        columns = [span for c in event_time_of(text).find_all(exp.Column) if (span := span_of(c)) is not None]
        ends = [0, *sorted(span.start for span in columns), len(text.text)]
        return f"{self.alias}.".join(text.slice(Span(*piece)) for piece in itertools.pairwise(ends))


class Names:
    """What column names mean in one query (`translate.Scope`)."""

    def __init__(self, text: SqlText, sides: tuple[Source, Source]):
        self.text = text
        self.sides = sides

    def side_of(self, table: exp.Expr) -> Side:
        for side in Side:
            if self.sides[side].alias.lower() == table.name.lower():
                return side
        aliases = [s.alias for s in self.sides]
        hint = did_you_mean(table.name, aliases, f"FROM has {listing(aliases)}")
        raise self.text.error(f"FROM has no {table.name}", table, hint)

    def resolve(self, column: exp.Column) -> tuple[Side, Field]:
        if column.args.get("db") or column.args.get("catalog"):
            raise self.text.error("a column is named by its stream's alias and its name only", column, "write A.name")
        if not isinstance(column.this, exp.Identifier):
            raise self.text.refuse("* inside an expression", column, "name the columns")
        table = column.args.get("table")
        sides = [self.side_of(table)] if table else list(Side)
        found = [(side, f) for side in sides if (f := self.sides[side].stream.schema.find(column.name))]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(f"{self.sides[side].alias}.{f.name}" for side, f in found)
            raise self.text.error(f"{column.name} is in both streams", column, f"write {choices}")
        raise self._unknown(column, sides)

    def _unknown(self, column: exp.Column, sides: list[Side]) -> SqlError:
        known = [name for side in sides for name in self.sides[side].stream.schema.names]
        where = " or ".join(dict.fromkeys(self.sides[side].stream.name for side in sides))
        hint = did_you_mean(column.name, known, f"columns are {listing(dict.fromkeys(known))}")
        return self.text.error(f"{where} has no column {column.name}", column.this, hint)

    def used(self, node: exp.Expr) -> set[Side]:
        return {self.resolve(c)[0] for c in node.find_all(exp.Column) if isinstance(c.this, exp.Identifier)}


def read_source(text: SqlText, spec: JobSpec, node: exp.Expr) -> Source:
    """One item of FROM."""
    if not isinstance(node, exp.Table):
        what = "a subquery in FROM" if isinstance(node, exp.Subquery) else f"{type(node).__name__.upper()} in FROM"
        raise text.refuse(what, node, _TWO)
    if not isinstance(node.this, exp.Identifier):
        raise text.refuse("a table function", node, _TWO)
    if (version := node.args.get("version")) is not None:
        hint = "write A ASOF JOIN B ON A.k = B.k AND A.ts >= B.ts and end the query with WINDOW 1 hour"
        raise text.refuse("FOR ... AS OF", version, hint)
    for arg, value in node.args.items():
        if value and arg not in ("this", "alias", "range", "db", "catalog"):
            raise text.refuse(f"{arg.upper()} in FROM", node, _TWO)
    stream = _stream(text, spec, node)
    alias = node.args.get("alias")
    if alias is not None and (alias.args.get("columns") or not alias.this):
        raise text.refuse("an alias with column names", alias, "rename columns in the SELECT list")
    window = node.args["range"] if isinstance(node, StreamRef) else None
    return Source(alias.name if alias is not None else stream.name, stream, window, node)


def _stream(text: SqlText, spec: JobSpec, node: exp.Table) -> Stream:
    written = ".".join(p.name for p in node.parts)
    for name in (*spec.streams, *spec.queries):
        if name.lower() == written.lower():
            query = spec.queries.get(name) if name not in spec.streams else None
            if query is not None and query.looks_at_live_pairs:
                hint = "read a query without aggregates and aggregate here, or let it end with EMIT FINAL"
                raise text.refuse(f"reading the groups of {name}, which change", node, hint)
            return relation(spec, name)
    if find(spec.tables, written):
        hint = "a table stands beside two streams in FROM: FROM A JOIN B ON A.k = B.k JOIN Places P ON A.place = P.id"
        raise text.error(f"{written} is a table, not a stream", node.this, hint)
    otherwise = f"streams are {listing(spec.streams)}" if spec.streams else "CREATE STREAM comes first"
    hint = did_you_mean(written, [*spec.streams, *spec.queries], otherwise)
    raise text.error(f"there is no stream {written}", node.this, hint)


def position(spec: JobSpec, source: Source) -> int:
    """Where a source comes among all: outputs of queries first, then streams, in the order of the text."""
    return {name: n for n, name in enumerate([*spec.queries, *spec.streams])}[source.stream.name]


def qualify(nodes: list[exp.Expr], source: Source) -> None:
    """Let names without a stream mean the columns of a source, where it has them."""
    for node in nodes:
        for column in node.find_all(exp.Column):
            if not column.args.get("table") and source.stream.schema.find(column.name):
                column.set("table", exp.to_identifier(source.alias, quoted=True))
