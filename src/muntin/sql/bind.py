"""From a parsed SELECT to a `Query`: which streams, which sides, which windows, which conjunct goes where.

A conjunct of WHERE or ON that equates something of one stream with something of the other is part of the join key; one
on a single stream is a selection of that side; any other one over both is checked on each pair (`Query.residual`). A
query needs a key or such a condition. Everything else in the tree is refused by name: the arguments of every node are
walked, so that nothing is accepted and ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from muntin.model import Axis, Expr, JobSpec, KeyPair, Output, Query, Side, SqlError, Stream, Window, common_type
from muntin.model.types import Field
from muntin.sql.aggregates import Grouped, is_aggregate
from muntin.sql.dialect import WINDOW_HINT
from muntin.sql.expressions import Expressions, output_name
from muntin.sql.nested import unfold_fields
from muntin.sql.places import Span, SqlText, did_you_mean, listing, span_of
from muntin.sql.plain import plain_select
from muntin.sql.tree import Duration, RowCount, StreamRef

_MODIFIERS = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "laterals": "LATERAL VIEW",
    "hint": "a hint",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "kind": "SELECT AS",
}
_CLAUSES = {"from_", "joins", "where", "windows", "group", "having", "order", "limit", "emit"}
_HANDLED = {"expressions", "distinct", *_CLAUSES}
MAX_OUTPUTS = 1000
RESERVED = "_"


@dataclass(frozen=True)
class Source:
    """A stream as FROM names it."""

    alias: str
    stream: Stream
    range: Duration | RowCount | None
    node: exp.Expr


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


def bind_query(text: SqlText, spec: JobSpec, name: str, select: exp.Expr, statement: str) -> Query:
    """A `Query` from a parsed SELECT over the streams of `spec`."""
    return _Binder(text, spec).query(name, select, statement)


class _Binder:
    def __init__(self, text: SqlText, spec: JobSpec):
        self.text = text
        self.spec = spec

    def query(self, name: str, select: exp.Expr, statement: str) -> Query:
        tree = self._check_form(plain_select(self.text, self.spec, select))
        sources, conditions = self._sources(tree)
        sides = self._sides(sources)
        (left_size, left_axis), (right_size, right_axis) = (self._window(tree, sides[side]) for side in Side)
        window = Window(left_size, right_size, (left_axis, right_axis))
        names = Names(self.text, sides)
        unfold_fields(tree, [s.alias for s in sides], [f.name for s in sides for f in s.stream.schema])
        columns = [(s.prefix + f.name, f.type) for s in Side for f in sides[s].stream.schema]
        expressions = Expressions(self.text, names, columns)
        keys, where, residual = self._conditions(tree, conditions, names, expressions)
        items = self._items(tree, names)
        aggregation = None
        if is_aggregate(tree):
            self._check_aggregate(tree, keys, window)
            outputs, aggregation = Grouped(self.text, expressions).bind(tree, items)
        else:
            outputs = tuple(Output(name, expressions.expression(node)) for name, node in items)
        expressions.verify()
        left, right = (sides[side].stream.name for side in Side)
        return Query(name, left, right, keys, window, outputs, where, residual, statement, aggregation)

    # form

    def _check_form(self, select: exp.Expr) -> exp.Select:
        if isinstance(select, exp.SetOperation):
            raise self.text.refuse(select.key.upper(), select, "write one query for each SELECT")
        if not isinstance(select, exp.Select):
            raise self.text.error(
                "a query is a SELECT", select, "write SELECT ... FROM A, B WHERE A.k = B.k WINDOW 1 min"
            )
        for key, arg in select.args.items():
            if not arg or key in _HANDLED:
                continue
            node = next((a for a in (arg if isinstance(arg, list) else [arg]) if isinstance(a, exp.Expr)), select)
            own = span_of(node) if node is not select and key != "hint" else None  # a hint has positions of its own
            at = own or self._keyword(select)
            raise self.text.refuse(
                _MODIFIERS.get(key, key.replace("_", " ").strip().upper()), at, "leave it out for now"
            )
        if not select.args.get("from_"):
            raise self.text.error("the query has no FROM", self._keyword(select), "join two streams: FROM A, B")
        return select

    def _keyword(self, select: exp.Expr) -> Span:
        start = (span_of(select) or Span(0, 0)).start
        return Span(start, start + len("SELECT"))

    # streams

    def _sources(self, select: exp.Select) -> tuple[list[Source], list[exp.Expr]]:
        """The two streams in the order of FROM, and the conditions of ON."""
        joins = select.args.get("joins") or []
        first = self._source(select.args["from_"].this)
        if not joins:
            raise self.text.error(
                "a query joins two streams, this has one", first.node, "write FROM A, B or A JOIN B ON"
            )
        if len(joins) > 1:
            raise self.text.refuse("a join of more than two streams", joins[1], "join two streams in each query")
        for arg in ("side", "method", "kind"):
            if joins[0].args.get(arg) and joins[0].args[arg].upper() != "INNER":
                kind = " ".join(joins[0].args[a] for a in ("method", "side", "kind") if joins[0].args.get(a))
                raise self.text.refuse(f"{kind.upper()} JOIN", joins[0], "write FROM A, B or A JOIN B ON ...")
        for arg, value in joins[0].args.items():
            if value and arg not in ("this", "on", "kind"):
                raise self.text.refuse(f"JOIN with {arg.upper()}", joins[0], "write A JOIN B ON A.k = B.k")
        second = self._source(joins[0].this)
        if first.alias.lower() == second.alias.lower():
            hint = "give each its own alias: FROM S A, S B"
            raise self.text.error(f"both streams are called {second.alias}", second.node, hint)
        return [first, second], [joins[0].args["on"]] if joins[0].args.get("on") else []

    def _source(self, node: exp.Expr) -> Source:
        if not isinstance(node, exp.Table):
            what = "a subquery in FROM" if isinstance(node, exp.Subquery) else f"{type(node).__name__.upper()} in FROM"
            raise self.text.refuse(what, node, "FROM takes two declared streams")
        if not isinstance(node.this, exp.Identifier):
            raise self.text.refuse("a table function", node, "FROM takes two declared streams")
        for arg, value in node.args.items():
            if value and arg not in ("this", "alias", "range", "db", "catalog"):
                raise self.text.refuse(f"{arg.upper()} in FROM", node, "FROM takes two declared streams")
        stream = self._stream(node)
        alias = node.args.get("alias")
        if alias is not None and (alias.args.get("columns") or not alias.this):
            raise self.text.refuse("an alias with column names", alias, "rename columns in the SELECT list")
        window = node.args["range"] if isinstance(node, StreamRef) else None
        return Source(alias.name if alias is not None else stream.name, stream, window, node)

    def _stream(self, node: exp.Table) -> Stream:
        written = ".".join(p.name for p in node.parts)
        for name, stream in self.spec.streams.items():
            if name.lower() == written.lower():
                return stream
        otherwise = f"streams are {listing(self.spec.streams)}" if self.spec.streams else "CREATE STREAM comes first"
        hint = did_you_mean(written, self.spec.streams, otherwise)
        raise self.text.error(f"there is no stream {written}", node.this, hint)

    def _sides(self, sources: list[Source]) -> tuple[Source, Source]:
        """Left is the stream declared first; for a stream joined with itself the first in FROM."""
        order = list(self.spec.streams)
        first, second = sorted(sources, key=lambda s: order.index(s.stream.name))
        return first, second

    # windows

    def _window(self, select: exp.Select, source: Source) -> tuple[int, Axis]:
        """How long rows of a stream stay, and on which axis."""
        clauses = select.args.get("windows") or []
        shared = clauses[0] if clauses else None
        if shared is not None and (len(clauses) > 1 or not isinstance(shared, Duration | RowCount)):
            raise self.text.refuse("a named window", shared, f"the window of the join has no name: {WINDOW_HINT}")
        if shared is not None and source.range is not None:
            raise self.text.error(
                f"{source.alias} has a window of its own, and WINDOW sets both", source.range, "keep one of them"
            )
        given = source.range if source.range is not None else shared
        if given is None:
            own = f"{source.stream.name} [RANGE 1 min] {source.alias}"
            hint = f"end the query with WINDOW 1 min or WINDOW 100 ROWS, or write {own}"
            raise self.text.error(f"no window for {source.alias}", source.node, hint)
        if isinstance(given, RowCount):
            return int(given.args["rows"]), Axis.ROWS
        if given.args["us"] <= 0:
            raise self.text.error(
                "a window must be longer than zero", given, "write a positive duration, such as 1 min"
            )
        return int(given.args["us"]), Axis.TIME

    # conditions

    def _conditions(
        self, select: exp.Select, on: list[exp.Expr], names: Names, expressions: Expressions
    ) -> tuple[tuple[KeyPair, ...], tuple[Expr | None, Expr | None], Expr | None]:
        """The join key, the selections of each side, and what is left over both sides."""
        where = select.args.get("where")
        keys: list[KeyPair] = []
        selections: dict[Side, list[exp.Expr]] = {side: [] for side in Side}
        residual: list[exp.Expr] = []
        for conjunct in self._conjuncts([*on, *([where.this] if where else [])]):
            self._check_flat(conjunct)
            used = names.used(conjunct)
            if len(used) < 2:
                selections[next(iter(used), Side.LEFT)].append(conjunct)
                continue
            key = self._key(conjunct, names, expressions)
            if key is None:
                residual.append(conjunct)
            elif (key.left.sql, key.right.sql) not in [(k.left.sql, k.right.sql) for k in keys]:
                keys.append(key)
        if not keys and not residual:
            a, b = (s.alias for s in names.sides)
            raise self.text.error(
                f"a cross join is refused: no condition speaks of both {a} and {b}, so every row would meet all others",
                self._keyword(select),
                f"add an equality such as {a}.key = {b}.key to WHERE, or a comparison such as {a}.x < {b}.y",
            )
        left, right = (expressions.selection(selections[side]) for side in Side)
        return tuple(keys), (left, right), expressions.conjunction(residual)

    def _check_flat(self, conjunct: exp.Expr) -> None:
        """No SELECT inside: its names would be taken for those of the two streams."""
        if (inner := conjunct.find(exp.Query)) is not None:
            raise self.text.refuse("a subquery", inner, "join the two streams of FROM only")

    @staticmethod
    def _conjuncts(conditions: list[exp.Expr]) -> list[exp.Expr]:
        found: list[exp.Expr] = []
        stack = list(reversed(conditions))
        while stack:
            node = stack.pop()
            if isinstance(node, exp.And):
                stack += [node.expression, node.this]
            elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And | exp.Paren | exp.EQ):
                stack.append(node.this)
            else:
                found.append(node)
        return found

    def _key(self, conjunct: exp.Expr, names: Names, expressions: Expressions) -> KeyPair | None:
        """An equality of an expression of one side with one of the other; None for any other condition."""
        ends = (conjunct.this, conjunct.expression) if isinstance(conjunct, exp.EQ) else ()
        used = [names.used(end) for end in ends]
        if not ends or any(len(sides) != 1 for sides in used) or used[0] == used[1]:
            return None
        if used[0] == {Side.RIGHT}:
            ends = (ends[1], ends[0])
        left, right = (expressions.expression(end) for end in ends)
        kind = common_type(left.type, right.type)
        if kind is None:
            hint = "bring both to one type with CAST(... AS ...)"
            raise self.text.error(f"join keys of types {left.type} and {right.type} do not compare", conjunct, hint)
        return KeyPair(left, right, kind)

    def _check_aggregate(self, select: exp.Select, keys: tuple[KeyPair, ...], window: Window) -> None:
        """Live pairs are those of instants; and they must be found again from the rows that are kept."""
        if Axis.ROWS in window.axes:
            at = next(iter(select.args.get("windows") or []), self._keyword(select))
            raise self.text.refuse("an aggregate over a window of rows", at, "write a window of time: WINDOW 1 min")
        if not keys:
            hint = "add an equality such as A.key = B.key to WHERE"
            raise self.text.refuse("an aggregate over a join without an equality", self._keyword(select), hint)

    # SELECT list

    def _items(self, select: exp.Select, names: Names) -> list[tuple[str, exp.Expr]]:
        """Name and expression of each column of the output."""
        outputs: dict[str, tuple[str, exp.Expr]] = {}
        for item in select.expressions:
            name, node = self._item(item, names)
            if name.lower() in outputs:
                hint = f"give one of them another name: ... AS {names.sides[0].alias.lower()}_{name}"
                raise self.text.error(f"two columns are called {name}", item, hint)
            if name.startswith(RESERVED):
                hint = "columns that begin with _ are ours, such as _ts, the output timestamp; call it otherwise"
                raise self.text.error(f"the name {name.lower()} is reserved", item, hint)
            if len(outputs) >= MAX_OUTPUTS:
                raise self.text.error(f"more than {MAX_OUTPUTS} columns", item, "select fewer columns")
            outputs[name.lower()] = name, node
        if not outputs:
            raise self.text.error("the SELECT list is empty", self._keyword(select), "name columns, or write *")
        return list(outputs.values())

    def _item(self, item: exp.Expr, names: Names) -> tuple[str, exp.Expr]:
        """Name and expression of an item of the SELECT list."""
        if isinstance(item, exp.Alias):
            alias = item.args["alias"]
            named = isinstance(alias, exp.Identifier) and (alias.args.get("quoted") or alias.name.isidentifier())
            if not named or not item.alias:
                raise self.text.error("the alias is not a name", item, "write expression AS name")
            return item.alias, item.this
        if isinstance(item, exp.Column):
            return names.resolve(item)[1].name, item
        if isinstance(item, exp.Dot):
            return item.expression.name, item
        return output_name(self.text, item), item
