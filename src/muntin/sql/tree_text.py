"""What the text of a query over more than two streams says: its streams, conditions and windows, and in which order the
streams can be joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from muntin.model import JobSpec, JoinKind, JoinLink, Side
from muntin.sql.joins import conjuncts, exists_of, join_form
from muntin.sql.nested import unfold_fields
from muntin.sql.parsing import event_time_of
from muntin.sql.places import SqlText, listing
from muntin.sql.sources import Source, read_source
from muntin.sql.tree import Duration, RowCount, Until

MAX_STREAMS = 8
"""How many streams a query may join."""


@dataclass
class Condition:
    """A condition over some of the streams, and whether it may be asked of a pair below the top."""

    node: exp.Expr
    uses: frozenset[str]
    sinks: bool
    of_top: bool = False
    """Whether it stands in ON of a join that has to be the last one."""
    placed: bool = False

    @property
    def is_equality(self) -> bool:
        return isinstance(self.node, exp.EQ)


class TreeText:
    def __init__(self, text: SqlText, spec: JobSpec, select: exp.Select):
        self.text = text
        self.spec = spec
        self.select = select
        joins = select.args.get("joins") or []
        self.sources = [read_source(text, spec, item.this) for item in (select.args["from_"], *joins)]
        self._check_sources()
        aliases = [source.alias for source in self.sources] + self._inner_aliases()
        unfold_fields(select, aliases, [f.name for s in self.sources for f in s.stream.schema])
        self._qualify()
        self.top, self.conditions = self._read(joins)
        """The join that has to be the last one, or the EXISTS; and the conditions of all ONs and of WHERE."""
        self._clause = self._read_clause()
        """What stands after WINDOW."""

    def _check_sources(self) -> None:
        if len(self.sources) > MAX_STREAMS:
            message = f"{len(self.sources)} streams in one query"
            hint = f"at most {MAX_STREAMS}: join some of them in a query of their own"
            raise self.text.error(message, self.sources[MAX_STREAMS].node, hint)
        seen: set[str] = set()
        for source in self.sources:
            if source.alias.lower() in seen:
                hint = "give each its own alias: FROM S A, S B, S C"
                raise self.text.error(f"two streams are called {source.alias}", source.node, hint)
            seen.add(source.alias.lower())

    def _inner_aliases(self) -> list[str]:
        """What an EXISTS calls its stream."""
        inner = [found.this.args["from_"].this for found in self.select.find_all(exp.Exists)
                 if isinstance(found.this, exp.Select) and found.this.args.get("from_")]  # fmt: skip
        return [read_source(self.text, self.spec, node).alias for node in inner]

    def _source(self, alias: str) -> Source | None:
        return next((source for source in self.sources if source.alias.lower() == alias.lower()), None)

    def _columns(self, tree: exp.Expr) -> Iterator[tuple[exp.Column, Source]]:
        """The columns of streams of FROM below a node, each with its stream."""
        for column in list(tree.find_all(exp.Column)):
            source = self._source(column.table) if column.args.get("table") else None
            if source is not None and isinstance(column.this, exp.Identifier):
                yield column, source

    def _qualify(self) -> None:
        """Give each column its stream; inside EXISTS a name is first one of the stream there."""
        for column in list(self.select.find_all(exp.Column)):
            if column.args.get("table") or not isinstance(column.this, exp.Identifier):
                continue
            if self._is_inside(column):
                continue
            found = [s for s in self.sources if s.stream.schema.find(column.name)]
            if len(found) > 1:
                choices = " or ".join(f"{s.alias}.{column.name}" for s in found)
                raise self.text.error(f"{column.name} is in several streams", column, f"write {choices}")
            if not found:
                where = listing(s.alias for s in self.sources)
                raise self.text.error(f"none of {where} has a column {column.name}", column, "look at its name")
            column.set("table", exp.to_identifier(found[0].alias, quoted=True))
        for column, source in self._columns(self.select):
            if source.stream.schema.find(column.name) is None:
                hint = f"columns are {listing(source.stream.schema.names)}"
                raise self.text.error(f"{source.stream.name} has no column {column.name}", column.this, hint)

    def _is_inside(self, column: exp.Column) -> bool:
        """Whether a column is one of the stream of the EXISTS around it."""
        inner = column.find_ancestor(exp.Exists)
        if inner is None or not isinstance(inner.this, exp.Select) or not inner.this.args.get("from_"):
            return False
        source = read_source(self.text, self.spec, inner.this.args["from_"].this)
        return source.stream.schema.find(column.name) is not None

    def _read(self, joins: list[exp.Expr]) -> tuple[exp.Expr | None, list[Condition]]:
        """The join at the top where it has to be the last one, and the conditions of all ONs and of WHERE."""
        where = conjuncts([self.select.args["where"].this] if self.select.args.get("where") else [])
        asked = [node for node in where if exists_of(node) is not None]
        top: exp.Expr | None = asked[0] if asked else None
        found = []
        sinks = True
        for join in joins:
            form, called = join_form(self.text, join)
            inner = form.kind is JoinKind.PAIRS and not form.preserved
            if not inner and (asked or join is not joins[-1]):
                hint = f"let the {called} be a query, and write this one over that query: FROM name N JOIN ..."
                raise self.text.refuse(f"{called} below another join", join, hint)
            if not inner:
                top, sinks = join, 1 not in form.preserved
            on = conjuncts([join.args["on"]] if join.args.get("on") else [])
            found += [self._condition(node, inner, not inner) for node in on]
        found += [self._condition(node, sinks and exists_of(node) is None) for node in where]
        return top, found

    def _condition(self, node: exp.Expr, sinks: bool, of_top: bool = False) -> Condition:
        root = exp.Tuple(expressions=[node.copy()])
        return Condition(node, frozenset(source.alias for _, source in self._columns(root)), sinks, of_top)

    def _read_clause(self) -> exp.Expr | None:
        exists = exists_of(self.top) if self.top is not None and not isinstance(self.top, exp.Join) else None
        trees = [self.select, *([exists.this] if exists is not None else [])]
        found = [window for tree in trees for window in tree.args.get("windows") or []]
        if len(found) > 1:
            raise self.text.error("WINDOW is given twice", found[1], "keep one of them")
        return found[0].copy() if found else None

    def _window(self, source: Source) -> int:
        """How long the rows of a stream wait."""
        shared = self._clause
        if isinstance(shared, Until):
            shared = shared.args.get("at_most")
        if shared is not None and source.range is not None:
            message = f"{source.alias} has a window of its own, and WINDOW sets all"
            raise self.text.error(message, source.range, "keep one of them")
        given = source.range if source.range is not None else shared
        if isinstance(given, RowCount):
            hint = "write a window of time: WINDOW 1 min"
            raise self.text.refuse("a window of rows in a join of more than two streams", given, hint)
        if not isinstance(given, Duration):
            hint = f"end the query with WINDOW 1 min, or write {source.stream.name} [RANGE 1 min] {source.alias}"
            raise self.text.error(f"no window for {source.alias}", source.node, hint)
        if given.args["us"] <= 0:
            raise self.text.error(
                "a window must be longer than zero", given, "write a positive duration, such as 1 min"
            )
        return int(given.args["us"])

    def _time(self, source: Source) -> exp.Expr:
        """The event time of a stream, over its own columns."""
        stream = source.stream
        if stream.time_expr is None:
            column = exp.Column(this=exp.to_identifier(stream.time, quoted=True))
        else:
            column = event_time_of(SqlText(stream.time)).this.copy()
        root = exp.Tuple(expressions=[column])
        for node in root.find_all(exp.Expression):
            node.meta.pop("start", None)
            node.meta.pop("end", None)
            if isinstance(node, exp.Column):
                node.set("table", exp.to_identifier(source.alias, quoted=True))
        made: exp.Expr = root.expressions[0]
        return exp.Cast(this=made, to=exp.DataType.build("TIMESTAMPTZ"))

    def _own_times(self, source: Source) -> list[exp.Expr]:
        """What WINDOW UNTIL says of a stream."""
        clause = self._clause
        found = []
        for node in clause.expressions if isinstance(clause, Until) else ():
            uses = {of.alias for _, of in self._columns(exp.Tuple(expressions=[node.copy()]))}
            if len(uses) != 1:
                hint = "name a time of one stream, and those of others with commas between them: UNTIL A.x, B.y"
                raise self.text.error("a row waits until a time of its own, and this is none", node, hint)
            found += [node] if uses == {source.alias} else []
        return found

    def _order(self) -> list[Source]:
        """The streams as they are joined: as written, but each has a condition with those before it."""
        last = [self.sources[-1]] if isinstance(self.top, exp.Join) else []
        rest = [source for source in self.sources if source not in last]
        order = [rest.pop(0)]
        while rest:
            names = {source.alias for source in order}
            linked = [s for s in rest if self._links(names, s, True)] or [
                s for s in rest if self._links(names, s, False)
            ]
            if not linked:
                before = " and ".join(source.alias for source in order)
                message = f"a cross join is refused: no condition speaks of both {before} and {rest[0].alias}"
                hint = f"add an equality such as {order[0].alias}.key = {rest[0].alias}.key"
                raise self.text.error(f"{message}, so all their rows would meet", rest[0].node, hint)
            order.append(linked[0])
            rest.remove(linked[0])
        return [*order, *last]

    def links(self) -> tuple[JoinLink, ...]:
        """The conditions over several streams that may link them."""
        last = self.sources[-1].alias if isinstance(self.top, exp.Join) else None
        able = [c for c in self.conditions if len(c.uses) > 1 and (c.sinks or (c.of_top and last in c.uses))]
        return tuple(self._link(condition) for condition in able)

    def _link(self, condition: Condition) -> JoinLink:
        sides = [condition.node.this, condition.node.expression] if condition.is_equality else []
        uses = [{source.alias for _, source in self._columns(exp.Tuple(expressions=[side.copy()]))} for side in sides]
        if len(condition.uses) == len(uses) == len(Side) and all(len(of) == 1 for of in uses):
            key = tuple(self._said(side, "") for side in sides)
            return JoinLink(self._said(condition.node), tuple(of.pop() for of in uses), key)
        return JoinLink(self._said(condition.node), tuple(sorted(condition.uses)))

    def _said(self, node: exp.Expr, stream: str | None = None) -> str:
        """An expression with its columns as they are declared, and their streams by alias or by another name."""
        root = exp.Tuple(expressions=[node.copy()])
        for column, source in self._columns(root):
            field = source.stream.schema.find(column.name)
            name, table = field.name if field else column.name, source.alias if stream is None else stream
            said = exp.Column(this=exp.to_identifier(name, quoted=True))
            if table:
                said.set("table", exp.to_identifier(table, quoted=True))
            column.replace(said)
        found: exp.Expr = root.expressions[0]
        return found.sql("duckdb", comments=False)

    def _links(self, names: set[str], source: Source, by_equality: bool) -> bool:
        return any(
            c.sinks and source.alias in c.uses and len(c.uses) > 1 and c.uses <= names | {source.alias}
            for c in self.conditions
            if c.is_equality or not by_equality
        )
