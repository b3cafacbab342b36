"""From a parsed SELECT to a `Query`: its form, its join, its aggregates and its SELECT list.

`joins` reads which streams are joined and how, `conditions` puts each condition in its place, `windows` says how long
rows wait. Everything else in the tree is refused by name: the arguments of every node are walked, so that nothing is
accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from muntin.model import Axis, JobSpec, JoinKind, Output, Query, Side, Window
from muntin.sql.aggregates import Grouped, is_aggregate, is_final
from muntin.sql.conditions import Placed, place_conditions
from muntin.sql.expressions import Expressions, output_name
from muntin.sql.joins import Joined, read_join
from muntin.sql.lookups import Attached, take_tables
from muntin.sql.nested import unfold_fields
from muntin.sql.places import Span, SqlText, span_of
from muntin.sql.plain import plain_select
from muntin.sql.ranges import ValueRanges
from muntin.sql.sources import Names
from muntin.sql.trees import TreePart, bind_tree, has_more_than_two
from muntin.sql.windows import counts_rows, given_windows, own_times, whole_window

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


def bind_query(
    text: SqlText, spec: JobSpec, name: str, select: exp.Expr, statement: str, order: Sequence[str] = ()
) -> Query:
    """A `Query` from a parsed SELECT over the streams of `spec`; of more than two, joined in an `order` of aliases."""
    return _Binder(text, spec).query(name, select, statement, order)


class _Binder:
    def __init__(self, text: SqlText, spec: JobSpec):
        self.text = text
        self.spec = spec

    def query(self, name: str, select: exp.Expr, statement: str, order: Sequence[str] = ()) -> Query:
        plain = self._check_form(plain_select(self.text, self.spec, select))
        attached = take_tables(self.text, self.spec, plain)
        if has_more_than_two(attached.select):
            return replace(self._tree(name, attached, order), text=statement)
        query = _Binder(self.text, attached.spec).bound(name, TreePart(attached.select))
        return replace(query, text=statement, lookups=attached.lookups)

    def _tree(self, name: str, attached: Attached, order: Sequence[str]) -> Query:
        """A query over more than two streams."""
        if attached.lookups:
            hint = "look it up in a query of two of the streams, and write this one over that query"
            raise self.text.refuse("a table beside more than two streams", attached.select, hint)
        return bind_tree(
            self.text,
            self.spec,
            attached.select,
            name,
            lambda spec, *part: _Binder(self.text, spec).bound(*part),
            order,
        )

    def bound(self, name: str, part: TreePart) -> Query:
        """A query over two streams, or over the output of a query and a stream, in plain form."""
        tree, spec = part.select, self.spec
        sides = read_join(self.text, spec, tree).sides
        unfold_fields(tree, [s.alias for s in sides], [f.name for s in sides for f in s.stream.schema])
        joined = read_join(self.text, spec, tree)
        given = given_windows(self.text, joined)
        self._check_kind(tree, joined, counts_rows(given))
        names = Names(self.text, joined.sides)
        columns = [(s.prefix + f.name, f.type) for s in Side for f in joined.sides[s].stream.schema]
        expressions = Expressions(self.text, names, columns)
        keyword = self._keyword(tree)
        placed = place_conditions(self.text, joined, names, expressions, not counts_rows(given), keyword)
        where, residual = placed.selections(expressions), expressions.conjunction(placed.residual)
        after = expressions.conjunction(placed.after)
        ranges = () if placed.keys else ValueRanges(self.text, names, expressions).read(placed.residual)
        self._check_as_of(joined, placed)
        window = whole_window(self.text, joined, given, placed.bounds, bool(placed.residual))
        until = own_times(self.text, joined, given, names, expressions)
        items = self._items(tree, names)
        aggregation = None
        if is_aggregate(tree):
            self._check_aggregate(tree, bool(placed.keys), window)
            outputs, aggregation = Grouped(self.text, expressions).bind(tree, items)
        else:
            outputs = tuple(Output(name, expressions.expression(node)) for name, node in items)
        guard = expressions.selection(list(part.guard))
        expressions.verify()
        left, right = (source.stream.name for source in joined.sides)
        return Query(
            name, left, right, tuple(placed.keys), window, outputs, where, residual, "", aggregation,
            placed.kind, placed.subject, joined.preserved, after, until=until, ranges=ranges, guard=guard,
        )  # fmt: skip

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

    # what does not go together

    def _check_kind(self, select: exp.Select, joined: Joined, counts: bool) -> None:
        derived = next((source for source in joined.sides if source.stream.derived), None)
        if derived is not None and counts:
            hint = "write a window of time: WINDOW 1 min"
            raise self.text.refuse("a window of rows over the output of a query", derived.node, hint)
        if joined.is_inner:
            return
        if counts:
            hint = "write a window of time: WINDOW 1 min"
            raise self.text.refuse(f"{joined.called} with a window of rows", joined.node, hint)
        if is_aggregate(select) and not is_final(select):
            what = f"{joined.called} with aggregates or DISTINCT other than EMIT FINAL"
            raise self.text.refuse(what, joined.node, _instead_of_live(joined))

    def _check_as_of(self, joined: Joined, placed: Placed) -> None:
        """An as-of join says itself that it looks back."""
        if joined.kind is not JoinKind.ASOF or joined.subject is None:
            return
        of, at = joined.sides[joined.subject], joined.sides[joined.subject.other]
        last = placed.bounds.high if joined.subject is Side.LEFT else placed.bounds.low
        if last is None or (last > 0 if joined.subject is Side.LEFT else last < 0):
            message = f"{joined.called} looks back from {of.time}: ON does not say that {at.time} is not later"
            raise self.text.error(message, joined.node, f"add {of.time} >= {at.time} to ON")

    def _check_aggregate(self, select: exp.Select, keyed: bool, window: Window) -> None:
        """Live pairs are those of instants; and they must be found again from the rows that are kept."""
        if Axis.ROWS in window.axes:
            at = next(iter(select.args.get("windows") or []), self._keyword(select))
            raise self.text.refuse("an aggregate over a window of rows", at, "write a window of time: WINDOW 1 min")
        if not keyed:
            hint = "add an equality such as A.key = B.key to WHERE"
            raise self.text.refuse("an aggregate over a join without an equality", self._keyword(select), hint)
        if not is_final(select) and window != Window(0, 0) and not window.spans_zero:
            hint = "let the interval of event times contain 0, or write EMIT FINAL with GROUP BY the join key"
            what = "an aggregate over pairs of which one row has left when the other comes"
            raise self.text.refuse(what, self._keyword(select), hint)

    # SELECT list

    def _items(self, select: exp.Select, names: Names) -> list[tuple[str, exp.Expr]]:
        """Name and expression of each column of the output."""
        outputs: dict[str, tuple[str, exp.Expr]] = {}
        for item in select.expressions:
            name, node = self._item(item, names)
            if name.lower() in outputs:
                hint = f"give one of them another name: ... AS {names.sides[0].alias.lower()}_{name}"
                if "written" in item.meta:  # a column of *
                    hint = f"leave one out: * EXCEPT ({self._twice(names)}), or name the columns"
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

    @staticmethod
    def _twice(names: Names) -> str:
        """The columns of the second stream whose names the first one has, too."""
        first, second = names.sides
        return ", ".join(f"{second.alias}.{f.name}" for f in second.stream.schema if first.stream.schema.find(f.name))

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


def _instead_of_live(joined: Joined) -> str:
    """What to write instead of an aggregate of what a join that is not inner has at an instant."""
    once = "one row for each key when it is over: GROUP BY the join key ... EMIT FINAL"
    if not joined.preserved:
        return f"write {once}; or let this query write its rows, and aggregate them where you read them"
    why = "a row without a match goes out when its window has passed, so it is never live"
    own = "write the rows without a match with LEFT ANTI JOIN, as a query of their own"
    return f"{why}. Write {once}; or aggregate the inner join, and {own}"
