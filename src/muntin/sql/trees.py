"""Queries over more than two streams: a SELECT over n of them becomes a tree of SELECTs over two (semantics, 8).

    SELECT ... FROM A, B, C WHERE A.k = B.k AND B.j = C.j WINDOW w

    _1     SELECT what is needed of A and B FROM A [RANGE w], B [RANGE w] WHERE A.k = B.k
           SELECT ... FROM _1 [RANGE w], C [RANGE w] WHERE _1.r_j = C.j, while A and B are in their windows

Columns of `_1` are called after its sides: `l_id` is `id` of what is left in it. A pair of the tree lives until the
first of its rows leaves its own window. Each part is bound as any query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.model import OUTPUT_TIME, Expr, JobSpec, JoinGraph, JoinItem, Query, Side
from muntin.sql.expressions import output_name
from muntin.sql.joins import conjuncts, exists_of
from muntin.sql.places import SqlText
from muntin.sql.sources import Source, position, read_source
from muntin.sql.tree import Duration, StreamRef, Until
from muntin.sql.tree_text import TreeText


@dataclass(frozen=True)
class TreePart:
    """A SELECT over two streams in plain form, with what the part below it selects, said of its left side."""

    select: exp.Select
    guard: tuple[exp.Expr, ...] = ()


_ONE_FORM = {"tinyint", "smallint", "int", "bigint", "string", "boolean", "date"}
"""Types of which equal values are the same value; 0.0 and -0.0 are not."""
_LATER_FIRST: dict[type[exp.Expr], int] = {exp.GTE: 1, exp.GT: 1, exp.LTE: -1, exp.LT: -1}
"""Comparisons, and whether the later of both sides stands first."""
Bind = Callable[[JobSpec, str, TreePart], Query]


def has_more_than_two(select: exp.Select) -> bool:
    """Whether FROM and EXISTS name more than two streams."""
    where = conjuncts([select.args["where"].this] if select.args.get("where") else [])
    asked = sum(exists_of(node) is not None for node in where)
    return len(select.args.get("joins") or []) + min(asked, 1) > 1


def bind_tree(
    text: SqlText, spec: JobSpec, select: exp.Select, name: str, bind: Bind, order: Sequence[str] = ()
) -> Query:
    """A query over more than two streams, with its inputs; it joins them in the `order` of their aliases, or as they
    are written."""
    return _Tree(text, spec, select, bind).query(name, order)


class _Tree(TreeText):
    def __init__(self, text: SqlText, spec: JobSpec, select: exp.Select, bind: Bind):
        super().__init__(text, spec, select)
        self._bind = bind
        self.inputs: list[Query] = []
        self._guard: list[exp.Expr] = []
        self._below: list[Source] = []
        """The streams that the tree has so far."""
        self._places: dict[tuple[str, str], str] = {}
        """What a column of one of these is called in what the tree is so far."""
        self._same: dict[tuple[str, str], tuple[str, str]] = {}
        """Of a column that a condition below makes equal to one before it: that one."""
        self._is = ""
        """The alias of what the tree is so far."""
        self._wheres: dict[str, Expr | None] = {}
        """What is selected of the rows of each stream."""

    # -- the tree -------------------------------------------------------------------------------------------------

    def query(self, name: str, given: Sequence[str] = ()) -> Query:
        by_alias = {source.alias: source for source in self.sources}
        order = [by_alias[alias] for alias in given] or self._order()
        whole = self.top is not None and not isinstance(self.top, exp.Join)
        joined = order if whole else order[:-1]
        links = self.links()  # before the conditions go to their places
        self._begin(order[0])
        for source in joined[1:]:
            self._add(source)
        query = self._bind(self._spec(), name, self._top(None if whole else order[-1]))
        if not whole:
            self._wheres[order[-1].alias] = query.where[Side.RIGHT]
        items = tuple(
            JoinItem(s.alias, s.stream.name, self._window(s), self._wheres.get(s.alias)) for s in self.sources
        )
        final = query.final and not whole  # its times follow from the promises of the stream at the top
        last = order[-1].alias if isinstance(self.top, exp.Join) or final else None
        graph = JoinGraph(items, links, tuple(source.alias for source in order), last)
        return replace(query, inputs=tuple(self.inputs), graph=graph)

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
        self._learn(c.node for c in mine)
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
        self._wheres[source.alias] = part.where[Side.RIGHT if left_first else Side.LEFT]
        if first:
            self._wheres[self._below[0].alias] = part.where[Side.LEFT if left_first else Side.RIGHT]
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
            own = [c.node for c in self.conditions if c.of_top] + self._looking_back(join, last)
            join.set("on", exp.and_(*own, copy=False) if own else None)
        tables = self._reference(), [] if last is None else [join]
        untils = self._untils(self._inner if last is None else last)
        select.set("from_", exp.From(this=tables[0]))
        select.set("joins", tables[1])
        select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        select.set("windows", untils)
        for column, source in self._columns(select):
            if self._first(source.alias, column.name) in self._places and source is not last:
                column.replace(self._column(source.alias, column.name, column))
        return TreePart(select, guard)

    def _looking_back(self, join: exp.Expr, last: Source) -> list[exp.Expr]:
        """That an as-of join at the top looks back from what the tree has found: that is as late as the last of its
        rows, so a row that is not later than one of them is not later than it."""
        if str(join.args.get("method") or "").upper() != "ASOF":
            return []
        for node in (c.node for c in self.conditions if c.of_top and type(c.node) in _LATER_FIRST):
            later, earlier = (node.this, node.expression)[:: _LATER_FIRST[type(node)]]
            if self._is_time(later, self._below) and self._is_time(earlier, [last]):
                found = exp.Column(this=exp.to_identifier(OUTPUT_TIME, quoted=True), table=exp.to_identifier(self._is))
                return [exp.GTE(this=found, expression=earlier.copy())]
        first = self._below[0]
        message = f"ASOF JOIN looks back: ON does not say that {last.time} is not later than a row before it"
        raise self.text.error(message, join, f"add {first.time} >= {last.time} to ON")

    def _is_time(self, node: exp.Expr, sources: Iterable[Source]) -> bool:
        """Whether it is the event time of one of some streams."""
        if not isinstance(node, exp.Column):
            return False
        own = [s for s in sources if s.alias.lower() == node.table.lower() and s.stream.time_expr is None]
        return any(source.stream.time.lower() == node.name.lower() for source in own)

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
            self._first(s.alias, c.name)
            for tree in trees
            for c, s in self._columns(exp.Tuple(expressions=[tree.copy()]))
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
        return self._is, self._places[self._first(alias, column)]

    def _learn(self, conditions: Iterable[exp.Expr]) -> None:
        """Note which columns are the same in all rows from here on, so that one of them stands for both.

        So the key of a tree stays its key, whichever of its streams a condition or a group names.
        """
        joined = [*(source.alias for source in self._below), ""]
        for node in conditions:
            columns = dict(self._columns(exp.Tuple(expressions=[node.copy()])))
            sides = [c for c in columns if c.parent is not None and isinstance(c.parent, exp.EQ)]
            if not isinstance(node, exp.EQ) or len(sides) != 2 or len(columns) != 2:
                continue
            fields = [columns[c].stream.schema.find(c.name) for c in sides]
            kinds = {f.type for f in fields if f is not None}
            if len(kinds) == 1 and kinds <= _ONE_FORM:
                pair = [self._first(columns[c].alias, c.name) for c in sides]
                first, other = sorted(pair, key=lambda one: joined.index(one[0] if one[0] in joined else ""))
                self._same |= {column: first for column in (*self._same, other) if self._first(*column) == other}

    def _first(self, alias: str, column: str) -> tuple[str, str]:
        """The column that stands for one."""
        return self._same.get((alias, column.lower()), (alias, column.lower()))

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

    def _untils(self, source: Source) -> list[exp.Expr]:
        """Until when rows of the tree so far, and of one more stream, wait: to the end of their first window."""
        ends: list[exp.Expr] = []
        for below in self._below if len(self._below) > 1 else ():
            us = exp.Interval(this=exp.Literal.number(self._window(below)), unit=exp.Var(this="microseconds"))
            ends.append(exp.Add(this=self._moved(self._time(below), None), expression=us))
        ends += [self._moved(node, None) for below in self._below for node in self._own_times(below)]
        left = exp.Anonymous(this="least", expressions=ends) if len(ends) > 1 else ends[0] if ends else None
        if left is not None and len(self._below) > 1:
            left.meta["written"] = (
                f"the end of the first window of {' and '.join(below.alias for below in self._below)}"
            )
        times = [*([left] if left is not None else []), *self._own_times(source)]
        return [Until(expressions=times)] if times else []
