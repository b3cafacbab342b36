"""Aggregates: GROUP BY, HAVING, DISTINCT, and what the SELECT list says of groups.

In an expression over groups each aggregate stands for one value (`"a.0"`, `"a.1"`, ...), and so does each expression
that is one of GROUP BY (`"g.0"`, ...). What is left over must be constant: a column that is neither grouped nor
aggregated has no one value. `SELECT DISTINCT` groups by the whole SELECT list.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from muntin.model import Aggregation, Call, Expr, Output
from muntin.model.types import Field
from muntin.plan.functions import AGGREGATES, AggregateFunction, function_named
from muntin.sql.expressions import Expressions, written_name
from muntin.sql.places import SqlText
from muntin.sql.top import bind_top, is_ranked
from muntin.sql.translate import called

_NAMED = [function for function in AGGREGATES if function.sql_names]
_FUNCTIONS: dict[type[exp.Expr], AggregateFunction] = {
    exp.FUNCTION_BY_NAME[name.upper()]: function for function in _NAMED for name in function.sql_names
}


def is_aggregate(select: exp.Select) -> bool:
    """Whether a SELECT speaks of groups of pairs instead of pairs."""
    if is_ranked(select) or any(select.args.get(clause) for clause in ("group", "having", "distinct", "emit")):
        return True
    return any(item.find(exp.AggFunc) is not None for item in select.expressions)


def is_final(select: exp.Select) -> bool:
    """Whether a SELECT speaks of groups once, when they are over."""
    emit = select.args.get("emit")
    return emit is not None and bool(emit.args.get("final"))


@dataclass(frozen=True)
class _Made:
    """The home of values that grouping makes; they are named in full."""

    prefix: str = ""


class _Values:
    """What names mean above the grouping (`translate.Scope`)."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}

    def resolve(self, column: exp.Column) -> tuple[_Made, Field]:
        return _Made(), Field(column.name, self.types[column.name])


class Grouped:
    """Binds the clauses of one aggregate query; `pairs` makes expressions below the grouping."""

    def __init__(self, text: SqlText, pairs: Expressions):
        self.text = text
        self._pairs = pairs
        self._groups: list[Expr] = []
        self._group_kinds: set[type[exp.Expr]] = set()
        self._calls: dict[tuple[str, str | None], Call] = {}
        self._values = _Values()
        self._final = False

    def bind(self, select: exp.Select, items: list[tuple[str, exp.Expr]]) -> tuple[tuple[Output, ...], Aggregation]:
        self._check(select)
        for node in self._grouping(select, items):
            group = self._pairs.comparable(node, "a group")
            self._group_kinds.add(type(node.unnest()))
            if group.sql not in [g.sql for g in self._groups]:
                self._name(f"g.{len(self._groups)}", group.type)
                self._groups.append(group)
        emit = select.args.get("emit")
        every, final = emit.args.get("us") if emit else None, is_final(select)
        if is_ranked(select):
            outputs, top = bind_top(self.text, self._pairs, select, items)
            return outputs, Aggregation(tuple(self._groups), (), None, every, top=top)
        self._final = final
        having = select.args.get("having")
        nodes = [self._above(node) for _, node in items]
        condition = self._above(having.this) if having else None
        above = Expressions(self.text, self._values, list(self._values.types.items()))
        outputs = tuple(Output(name, above.expression(node)) for (name, _), node in zip(items, nodes, strict=True))
        kept = above.predicate(condition) if condition is not None else None
        above.verify()
        return outputs, Aggregation(tuple(self._groups), tuple(self._calls.values()), kept, every, final)

    def _check(self, select: exp.Select) -> None:
        group, distinct = select.args.get("group"), select.args.get("distinct")
        for arg, value in (group.args if group else {}).items():
            if value and arg != "expressions":
                what = arg.upper().replace("_", " ")
                raise self.text.refuse(f"GROUP BY with {what}", group, "name the groups: GROUP BY A.x, B.y")
        if distinct is not None and distinct.args.get("on"):
            raise self.text.refuse("DISTINCT ON", distinct, "write SELECT DISTINCT")
        aggregated = any(item.find(exp.AggFunc) is not None for item in select.expressions)
        if distinct is not None and (group or aggregated):
            raise self.text.refuse("DISTINCT beside GROUP BY or aggregates", distinct, "leave DISTINCT out")
        emit = select.args.get("emit")
        if emit is not None and not (group or aggregated or distinct or select.args.get("having") or is_ranked(select)):
            hint = "leave it out: each pair is sent once, when it is found"
            raise self.text.error("EMIT and EVERY go with aggregates, this query has none", emit, hint)

    def _grouping(self, select: exp.Select, items: list[tuple[str, exp.Expr]]) -> list[exp.Expr]:
        """The expressions to group by."""
        if select.args.get("distinct") is not None:
            return [node for _, node in items]
        found: list[exp.Expr] = (select.args.get("group") or exp.Group()).expressions
        for node in found:
            if (inner := node.find(exp.AggFunc)) is not None:
                hint = "group by columns and plain expressions"
                raise self.text.error(f"GROUP BY cannot have the aggregate {called(inner)}", node, hint)
        return found

    def _name(self, name: str, kind: str) -> None:
        self._values.types[name] = kind

    def _above(self, node: exp.Expr) -> exp.Expr:
        """The same expression over groups: aggregates and groups replaced by what stands for them."""
        root = exp.Tuple(expressions=[node.copy()])
        stack = [root.expressions[0]]
        while stack:
            at = stack.pop()
            name = self._stands_for(at)
            if name is not None:
                value = exp.Column(this=exp.to_identifier(name, quoted=True))
                value.meta.update({**at.meta, "written": self.text.slice(at) or at.meta.get("written")})
                at.replace(value)
            elif isinstance(at, exp.Column):
                hint = f"add {self.text.slice(at)} to GROUP BY, or aggregate it: MAX({self.text.slice(at)})"
                raise self.text.error(f"{self.text.slice(at)} is neither grouped nor aggregated", at, hint)
            elif not isinstance(at, exp.Window | exp.Filter | exp.Query):  # refused by name when translated
                stack += reversed(list(at.iter_expressions()))
        return root.expressions[0].pop()

    def _stands_for(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.AggFunc):
            return self._call(node)
        if type(node) not in self._group_kinds:  # whole conditions are many, and hardly ever groups
            return None
        if node.find(exp.Column) is not None and node.find(exp.AggFunc, exp.Query) is None:
            sql = self._pairs.value_sql(node)
            for n, group in enumerate(self._groups):
                if group.sql == sql:
                    return f"g.{n}"
        return None

    def _call(self, node: exp.AggFunc) -> str:
        """The value of an aggregate; equal ones are computed once."""
        function, arg = self._function(node)
        expr = self._pairs.comparable(arg, "an aggregate") if arg is not None else None
        key = function.name, expr.sql if expr is not None else None
        if key not in self._calls:
            kind = self._type(function, expr, node)
            self._name(f"a.{len(self._calls)}", kind)
            self._calls[key] = Call(function.name, expr, kind, self.text.slice(node))
        return f"a.{list(self._calls).index(key)}"

    def _function(self, node: exp.AggFunc) -> tuple[AggregateFunction, exp.Expr | None]:
        function, arg, name = _FUNCTIONS.get(type(node)), node.this, written_name(self.text, node).upper()
        if function is None or node.args.get("count"):
            *names, last = (f.sql_names[0].upper() for f in _NAMED)
            hint = f"there are {', '.join(names)} and {last}"
            raise self.text.refuse(f"the aggregate {name}", node, hint)
        if node.args.get("expressions") or arg is None:
            raise self.text.refuse(f"{name} of several values", node, f"write {name} of one expression")
        if isinstance(arg, exp.Star) and function.counts_pairs:
            return function, None
        distinct = isinstance(arg, exp.Distinct)
        if distinct:
            if len(arg.expressions) != 1:
                raise self.text.refuse("DISTINCT of several values", node, "write COUNT(DISTINCT one_expression)")
            arg = arg.expressions[0]
        if (inner := arg.find(exp.AggFunc)) is not None:
            hint = "aggregate once; a query cannot read the output of another yet"
            raise self.text.error("an aggregate of an aggregate has no meaning", inner, hint)
        if not distinct:
            return function, arg
        if function.distinct is None:
            raise self.text.refuse(f"{name}(DISTINCT ...)", node, "DISTINCT goes with COUNT")
        return function_named(function.distinct), arg

    def _type(self, function: AggregateFunction, arg: Expr | None, node: exp.AggFunc) -> str:
        if arg is None:
            return "bigint"
        refusal = function.refusal(arg.type, self._final)
        if refusal is not None:
            raised = self.text.refuse if refusal.not_yet else self.text.error
            raise raised(written_name(self.text, node).upper() + refusal.why, node, refusal.hint)
        return function.result_type(arg.type)
