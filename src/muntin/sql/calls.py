"""Calls of functions: read under the names that users write, whatever sqlglot would make of them.

sqlglot has classes for hundreds of functions, under names of its own, and checks their arguments. Here only
aggregates, and what has a rule for its class, become such nodes; all others stay calls by name, which the table of
functions (sql/catalog.py) answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser

from muntin.sql.function_table import FORMS, FUNCTIONS
from muntin.sql.translate import RULES

_GRAMMAR = ("CAST", "EXTRACT", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")
"""Functions with words between their arguments."""


def _has_node(name: str) -> bool:
    kind = exp.FUNCTION_BY_NAME.get(name)
    return kind is not None and name.lower() not in FUNCTIONS and (kind in RULES or issubclass(kind, exp.AggFunc))


def _unit_first(name: str, days: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """A function whose first argument is a word, which would be read as a column. Without three it is `days`."""

    def build(args: list[exp.Expr]) -> exp.Expr:
        if len(args) != 3:
            return exp.Anonymous(this=days, expressions=args)
        word = exp.Var(this=args[0].name) if isinstance(args[0], exp.Column) else args[0]
        return exp.Anonymous(this=name, expressions=[word, *args[1:]])

    return build


_UNIT_FIRST = {
    "TIMESTAMPDIFF": ("timestampdiff", "timestampdiff"),
    "DATEDIFF": ("timestampdiff", "datediff"),
    "DATE_DIFF": ("timestampdiff", "date_diff"),
    "TIMESTAMPADD": ("timestampadd", "timestampadd"),
    "DATEADD": ("timestampadd", "dateadd"),
    "DATE_ADD": ("timestampadd", "date_add"),
}
"""Names of functions of a unit and two others, what they mean, and what they mean without a unit."""


class CallParser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **{n: parse for n, parse in SparkParser.FUNCTIONS.items() if _has_node(n)},
        **{name: _unit_first(*meant) for name, meant in _UNIT_FIRST.items()},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse
        for name, parse in SparkParser.FUNCTION_PARSERS.items()
        if name in _GRAMMAR or name.lower() not in FUNCTIONS
    }

    def reset(self) -> None:
        super().reset()
        self._forms: list[str] = []
        """The functions with a grammar of their own that are being read."""

    def not_in_form(self) -> tuple[str, str] | None:
        """Message and hint for a fault inside a function with a grammar of its own."""
        if not self._forms:
            return None
        name = self._forms[-1].upper()
        if name not in _GRAMMAR:
            return f"the function {name} is not supported yet", "docs/sql.md lists the functions"
        form = next((form for form in FORMS if form.startswith(f"{name.lower()}(")), f"{name.lower()}(value AS type)")
        return f"{name} is not written like this", f"write {form}"

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """A call, with the name that was written for messages."""
        token = self._curr
        grammar = bool(token) and token.text.upper() in self.FUNCTION_PARSERS and self._next.text == "("
        if grammar:
            self._forms.append(token.text)
        node = super()._parse_function_call(*args, **kwargs)
        if grammar:
            if node is not None and not isinstance(node, exp.Window) and self._prev.text != ")":
                self.raise_error("Expecting )")
            self._forms.pop()
        if node is None or not token:
            return node
        inner = node.find(exp.Anonymous) if isinstance(node, exp.Window | exp.Filter) else node
        if isinstance(inner, exp.Anonymous) and not inner.this:
            inner.set("this", token.text)
        node.meta.setdefault("called", token.text.upper())
        return node

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        """A call with a wrong number of arguments stays one by name, to be refused as such."""
        if args is not None and isinstance(expression, exp.Func) and expression.error_messages(args):
            return exp.Anonymous(this="", expressions=args)
        return super().validate_expression(expression, args)
