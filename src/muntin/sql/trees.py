"""Queries over more than two streams: a SELECT over n of them becomes a tree of SELECTs over two (semantics, 8).

    SELECT ... FROM A, B, C WHERE A.k = B.k AND B.j = C.j WINDOW w

    _1     SELECT what is needed of A and B FROM A [RANGE w], B [RANGE w] WHERE A.k = B.k
           SELECT ... FROM _1 [RANGE w], C [RANGE w] WHERE _1.r_j = C.j, while A and B are in their windows

Columns of `_1` are called after its sides: `l_id` is `id` of what is left in it. A pair of the tree lives until the
first of its rows leaves its own window. Each part is bound as any query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.model import JobSpec, JoinKind, Query
from muntin.sql.expressions import output_name
from muntin.sql.joins import conjuncts, exists_of, join_form
from muntin.sql.nested import unfold_fields
from muntin.sql.parsing import event_time_of
from muntin.sql.places import SqlText, listing
from muntin.sql.sources import Source, position, read_source
from muntin.sql.tree import Duration, RowCount, StreamRef, Until

MAX_STREAMS = 8
"""How many streams a query may join."""


@dataclass(frozen=True)
class TreePart:
    """A SELECT over two streams in plain form, with what the part below it selects, said of its left side."""

    select: exp.Select
    guard: tuple[exp.Expr, ...] = ()


Bind = Callable[[JobSpec, str, TreePart], Query]


def has_more_than_two(select: exp.Select) -> bool:
    """Whether FROM and EXISTS name more than two streams."""
    where = conjuncts([select.args["where"].this] if select.args.get("where") else [])
    asked = sum(exists_of(node) is not None for node in where)
    return len(select.args.get("joins") or []) + min(asked, 1) > 1


def bind_tree(text: SqlText, spec: JobSpec, select: exp.Select, name: str, bind: Bind) -> Query:
    """A query over more than two streams, with its inputs."""
    return _Tree(text, spec, select, bind).query(name)


@dataclass
class _Condition:
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


class _Tree:
    def __init__(self, text: SqlText, spec: JobSpec, select: exp.Select, bind: Bind):
        self.text = text
        self.spec = spec
        self.select = select
        self._bind = bind
        joins = select.args.get("joins") or []
        self.sources = [read_source(text, spec, item.this) for item in (select.args["from_"], *joins)]
        self._check_sources()
        aliases = [source.alias for source in self.sources]
        unfold_fields(select, aliases, [f.name for s in self.sources for f in s.stream.schema])
        self._qualify()
        self.top, self.conditions = self._read(joins)
        self._clause = self._read_clause()
        """What stands after WINDOW."""
        self.inputs: list[Query] = []
        self._guard: list[exp.Expr] = []
        self._below: list[Source] = []
        """The streams that the tree has so far."""
        self._places: dict[tuple[str, str], str] = {}
        """What a column of one of these is called in what the tree is so far."""
        self._is = ""
        """The alias of what the tree is so far."""

    # -- what the text says ---------------------------------------------------------------------------------------

    def _check_sources(self) -> None:
        if len(self.sources) > MAX_STREAMS:
            message = f"{len(self.sources)} streams in one query"
            raise self.text.error(
                message, self.sources[MAX_STREAMS].node, f"at most {MAX_STREAMS}: join in two queries"
            )
        seen: set[str] = set()
        for source in self.sources:
            if source.alias.lower() in seen:
                hint = "give each its own alias: FROM S A, S B, S C"
                raise self.text.error(f"two streams are called {source.alias}", source.node, hint)
            seen.add(source.alias.lower())

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

    def _read(self, joins: list[exp.Expr]) -> tuple[exp.Expr | None, list[_Condition]]:
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

    def _condition(self, node: exp.Expr, sinks: bool, of_top: bool = False) -> _Condition:
        root = exp.Tuple(expressions=[node.copy()])
        return _Condition(node, frozenset(source.alias for _, source in self._columns(root)), sinks, of_top)

    # -- in which order -------------------------------------------------------------------------------------------

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

    def _links(self, names: set[str], source: Source, by_equality: bool) -> bool:
        return any(
            c.sinks and source.alias in c.uses and len(c.uses) > 1 and c.uses <= names | {source.alias}
            for c in self.conditions
            if c.is_equality or not by_equality
        )

    # -- the tree -------------------------------------------------------------------------------------------------

    def query(self, name: str) -> Query:
        order = self._order()
        whole = self.top is not None and not isinstance(self.top, exp.Join)
        joined = order if whole else order[:-1]
        self._begin(order[0])
        for source in joined[1:]:
            self._add(source)
        query = self._bind(self._spec(), name, self._top(None if whole else order[-1]))
        return replace(query, inputs=tuple(self.inputs))

    def _spec(self) -> JobSpec:
        """The job with the parts so far, which come first."""
        return replace(self.spec, queries={**{part.name: part for part in self.inputs}, **self.spec.queries})

    def _begin(self, source: Source) -> None:
        self._below, self._is = [source], source.alias
        self._places = {(source.alias, f.name.lower()): f.name for f in source.stream.schema}

    def _add(self, source: Source) -> None:
        """One more stream below the top."""
        spec, first = self._spec(), len(self._below) == 1
        left_first = not first or position(spec, self._below[0]) <= position(spec, source)
        prefix, own = ("l_", "r_") if left_first else ("r_", "l_")
        covered = {source.alias, *(s.alias for s in self._below)}
        mine = [c for c in self.conditions if c.sinks and not c.placed and c.uses <= covered and c.uses]
        for condition in mine:
            condition.placed = True
        alone = [c.node for c in mine if len(c.uses) == 1]
        wanted = self._wanted(covered, alone)
        items, places = [], {}
        for alias, column in wanted:
            is_new = alias == source.alias
            node = self._at(alias, column, source)
            places[alias, column.lower()] = (own if is_new else prefix) + node.name
            items.append(exp.Alias(this=node, alias=exp.to_identifier(places[alias, column.lower()], quoted=True)))
        conditions = [self._moved(c.node, source) for c in mine]
        guard = tuple(self._moved(node, None) for node in self._guard)
        select = exp.Select(expressions=items)
        select.set("from_", exp.From(this=self._reference()))
        select.set("joins", [exp.Join(this=self._table(source))])
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
        select.set("windows", self._untils(source))
        select.meta.update(self.select.meta)
        local = f"_{len(self.inputs) + 1}"
        part = self._bind(spec, local, TreePart(select, guard))
        self.inputs.append(replace(part, hidden=True, text=""))
        self._guard += alone
        self._below.append(source)
        self._places, self._is = places, local

    def _top(self, last: Source | None) -> TreePart:
        """The SELECT over the tree so far and the last stream, or the one of EXISTS."""
        select = self.select
        guard = tuple(self._moved(node, None) for node in self._guard)
        self._name_items()
        rest = [c.node for c in self.conditions if not c.placed and not c.of_top]
        if last is None:
            self._bind_exists()
        else:
            join = self.top if isinstance(self.top, exp.Join) else exp.Join()
            join.set("this", self._table(last))
            own = [c.node for c in self.conditions if c.of_top]
            join.set("on", exp.and_(*own, copy=False) if own else None)
        tables = self._reference(), [] if last is None else [join]
        untils = self._untils(self._inner if last is None else last)
        select.set("from_", exp.From(this=tables[0]))
        select.set("joins", tables[1])
        select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        select.set("windows", untils)
        for column, source in self._columns(select):
            if (source.alias, column.name.lower()) in self._places and source is not last:
                column.replace(self._column(source.alias, column.name, column))
        return TreePart(select, guard)

    @property
    def _inner(self) -> Source:
        """The stream of EXISTS."""
        exists = exists_of(self.top) if self.top is not None else None
        assert exists is not None and isinstance(exists.this, exp.Select)
        return read_source(self.text, self.spec, exists.this.args["from_"].this)

    def _bind_exists(self) -> None:
        """Give the stream of EXISTS its window."""
        exists = exists_of(self.top) if self.top is not None else None
        assert exists is not None
        exists.this.args["from_"].set("this", self._table(self._inner))
        exists.this.set("windows", None)

    # -- columns, tables, times -----------------------------------------------------------------------------------

    def _wanted(self, covered: set[str], alone: Iterable[exp.Expr]) -> list[tuple[str, str]]:
        """The columns of some streams that what is still to come needs, and their event times, in a fixed order."""
        trees = [*self.select.expressions, *alone, *self._guard, *(c.node for c in self.conditions if not c.placed)]
        trees += [self.select.args[a] for a in ("group", "having", "order") if self.select.args.get(a) is not None]
        trees += [self._time(source) for source in self.sources]
        trees += [self._clause] if isinstance(self._clause, Until) else []
        found = {
            (s.alias, c.name.lower()) for tree in trees for c, s in self._columns(exp.Tuple(expressions=[tree.copy()]))
        }
        return [
            (source.alias, f.name)
            for source in self.sources
            if source.alias in covered
            for f in source.stream.schema
            if (source.alias, f.name.lower()) in found
        ]

    def _at(self, alias: str, column: str, new: Source | None) -> exp.Column:
        """A column where it is now: of the stream that is new, or of the tree so far."""
        table, name = (alias, column) if new is not None and alias == new.alias else self._place(alias, column)
        return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))

    def _place(self, alias: str, column: str) -> tuple[str, str]:
        return self._is, self._places[alias, column.lower()]

    def _column(self, alias: str, name: str, written: exp.Column, new: Source | None = None) -> exp.Column:
        made = self._at(alias, name, new)
        made.meta.update({k: v for k, v in written.meta.items() if k in ("start", "end", "written")})
        return made

    def _moved(self, node: exp.Expr, new: Source | None) -> exp.Expr:
        """A condition, said of the tree so far and the stream that is new."""
        root = exp.Tuple(expressions=[node.copy()])
        for column, source in self._columns(root):
            column.replace(self._column(source.alias, column.name, column, new))
        found: exp.Expr = root.expressions[0]
        return found

    def _name_items(self) -> None:
        """Let each item of the SELECT list keep the name that it would have over the streams themselves."""
        for item in self.select.expressions:
            if isinstance(item, exp.Alias):
                continue
            name = item.name if isinstance(item, exp.Column) else ""
            name = name or (item.expression.name if isinstance(item, exp.Dot) else output_name(self.text, item))
            named = exp.Alias(this=item.copy(), alias=exp.to_identifier(name, quoted=True))
            named.meta.update(item.meta)
            item.replace(named)

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

    def _table(self, source: Source) -> StreamRef:
        made = StreamRef(
            this=exp.to_identifier(source.stream.name, quoted=True),
            alias=exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True)),
            range=Duration(us=self._window(source)),
        )
        made.meta.update({k: v for k, v in source.node.meta.items() if k in ("start", "end")})
        return made

    def _reference(self) -> StreamRef:
        """The tree so far, as a FROM names it: it lives as long as the shortest window at most."""
        if len(self._below) == 1:
            return self._table(self._below[0])
        made = StreamRef(
            this=exp.to_identifier(self._is, quoted=True),
            range=Duration(us=min(map(self._window, self._below))),
        )
        made.meta.update({k: v for k, v in self._below[0].node.meta.items() if k in ("start", "end")})
        return made

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

    def _untils(self, source: Source) -> list[exp.Expr]:
        """Until when rows of the tree so far, and of one more stream, wait: to the end of the first window of theirs."""
        ends = []
        for below in self._below if len(self._below) > 1 else ():
            us = exp.Interval(this=exp.Literal.number(self._window(below)), unit=exp.Var(this="microseconds"))
            ends.append(exp.Add(this=self._moved(self._time(below), None), expression=us))
        ends += [self._moved(node, None) for below in self._below for node in self._own_times(below)]
        left = exp.Anonymous(this="least", expressions=ends) if len(ends) > 1 else ends[0] if ends else None
        if left is not None and len(self._below) > 1:
            left.meta["written"] = f"the end of the first window of {' and '.join(below.alias for below in self._below)}"
        times = [*([left] if left is not None else []), *self._own_times(source)]
        return [Until(expressions=times)] if times else []

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
