"""Whole expressions: checked, translated, and made into the model's `Expr`."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from muntin.kernels.evaluate import type_of
from muntin.model import Comparison, Expr, Side
from muntin.model.types import nested_kind
from muntin.sql.comparisons import comparisons
from muntin.sql.places import SqlText
from muntin.sql.translate import NULL, Scope, Translator, Value, duckdb_type_node, written_call

MAX_SQL = 100_000
"""Length of the DuckDB text of one expression: some rules repeat their operands."""


class Expressions:
    """Makes expressions of one query; `columns` are the names and types that the evaluator will see."""

    def __init__(self, text: SqlText, scope: Scope, columns: list[tuple[str, str]]):
        self.text = text
        self._scope = scope
        self._translator = Translator(text, scope)
        self._columns = columns
        self._made: dict[str, tuple[Expr, exp.Expr]] = {}

    def expression(self, node: exp.Expr) -> Expr:
        """Any scalar expression, for SELECT and for join keys."""
        value = self._translator.value(node)
        if value.type == NULL:
            raise self.text.error("a column cannot be of type null", node, "write CAST(NULL AS type)")
        return self._expr(node, value)

    def comparable(self, node: exp.Expr, use: str) -> Expr:
        """An expression whose values are told apart or put in order."""
        made = self.expression(node)
        if nested_kind(made.type) is not None:
            hint = "name a field (s.f) or an element (a[0], m['key'])"
            raise self.text.error(f"{use} cannot be of {made.type}", node, hint)
        return made

    def value_sql(self, node: exp.Expr) -> str:
        """What an expression becomes, to compare it with others."""
        return self._translator.value(node).node.sql("duckdb", comments=False)

    def type_of(self, node: exp.Expr) -> str:
        """The type of what an expression becomes."""
        return self._translator.value(node).type

    def predicate(self, node: exp.Expr) -> Expr:
        """A condition of WHERE or ON."""
        value = self._translator.boolean(self._translator.value(node), "a condition")
        if value.type == NULL:
            value = Value(exp.Cast(this=value.node, to=duckdb_type_node("boolean")), "boolean", value.span)
        return self._expr(node, value)

    def selection(self, nodes: list[exp.Expr]) -> Expr | None:
        """All conditions on one side together, with their parts; None where there are none."""
        parts = [self.predicate(n) for n in nodes]
        whole = self._all(parts, nodes)
        return replace(whole, conjuncts=self._conjuncts(parts, nodes)) if whole else None

    def conjunction(self, nodes: list[exp.Expr]) -> Expr | None:
        """All conditions over both sides together, None where there are none."""
        return self._all([self.predicate(n) for n in nodes], nodes)

    def _conjuncts(self, parts: list[Expr], nodes: list[exp.Expr]) -> tuple[Comparison | Expr, ...]:
        found: list[Comparison | Expr] = []
        for part, node in zip(parts, nodes, strict=True):
            found += comparisons(self._scope, node) or (part,)
        return tuple(found)

    @staticmethod
    def _all(parts: list[Expr], nodes: list[exp.Expr]) -> Expr | None:
        if len(parts) < 2:
            return parts[0] if parts else None
        left, right = (tuple(dict.fromkeys(c for p in parts for c in p.columns(side))) for side in Side)
        sql = " AND ".join(f"({p.sql})" for p in parts)
        texts = (f"({p.text})" if isinstance(n, exp.Or) else p.text for p, n in zip(parts, nodes, strict=True))
        return Expr(sql, "boolean", " AND ".join(texts), left, right)

    def _expr(self, node: exp.Expr, value: Value) -> Expr:
        left, right = (self._used(value.node, side) for side in Side)
        sql = value.node.sql("duckdb", comments=False, copy=False)
        if len(sql) > MAX_SQL:
            raise self.text.error("the expression is too large", node, "split it, or select with fewer terms")
        made = Expr(sql, value.type, self._written(node), left, right)
        if not isinstance(value.node, exp.Column):
            self._made.setdefault(sql, (made, node))
        return made

    def _written(self, node: exp.Expr) -> str:
        """What the user wrote, on one line and without comments; for `A.*` the column it stands for."""
        written = str(node.meta.get("written") or self.text.slice(node))
        if "--" in written or "/*" in written:
            written = node.sql("spark", comments=False)
        return " ".join(written.split())

    def verify(self) -> None:
        """The rules should have seen to it that DuckDB types every expression; where they did not, say so here.

        All together, since DuckDB takes as long for one as for many; one by one where that fails, to find the place.
        """
        made = list(self._made.values())
        self._made = {}
        if len(made) > 1 and self._fault([e for e, _ in made]) is None:
            return
        for expr, node in made:
            if (error := self._fault([expr])) is not None:
                message = f"the evaluator does not take this: {str(error).splitlines()[0]}"
                raise self.text.error(message, node, "write it another way") from error

    def _fault(self, exprs: list[Expr]) -> Exception | None:
        """Why DuckDB does not type some expressions; None where it does."""
        sql = f"row({', '.join(e.sql for e in exprs)})"
        try:
            type_of(sql, [(n, t) for n, t in self._columns if f'"{n}"' in sql])
        except Exception as error:  # DuckDB's, which only the kernels import
            return error
        return None

    @staticmethod
    def _used(node: exp.Expr, side: Side) -> tuple[str, ...]:
        names = (c.name for c in node.find_all(exp.Column))
        return tuple(dict.fromkeys(sorted(n[len(side.prefix) :] for n in names if n.startswith(side.prefix))))


def written_name(text: SqlText, call: exp.AggFunc) -> str:
    """What the user calls an aggregate function: sqlglot has one class for all names of a function."""
    return (written_call(call) or call.sql_name()).lower()


def output_name(text: SqlText, node: exp.Expr) -> str:
    """What Spark calls an expression without alias: operators in parentheses, columns without their stream."""
    root = exp.Tuple(expressions=[node.copy()])
    for call in list(root.find_all(exp.AggFunc)):
        if (name := written_name(text, call)) != call.sql_name().lower():
            call.replace(exp.Anonymous(this=name, expressions=[call.this]))
    for count in root.find_all(exp.Count):
        if isinstance(count.this, exp.Star):
            count.set("this", exp.Literal.number(1))
    for paren in list(root.find_all(exp.Paren)):
        paren.replace(paren.this)
    for column in root.find_all(exp.Column):
        column.set("table", None)
    for operator in list(root.find_all(exp.Binary, exp.Not, exp.In, exp.Between)):
        if not isinstance(operator, exp.Like | exp.ILike | exp.Escape):
            paren = exp.Paren(this=exp.Null())
            operator.replace(paren)
            paren.set("this", operator)
    return root.expressions[0].sql("spark", normalize_functions="lower", comments=False)
