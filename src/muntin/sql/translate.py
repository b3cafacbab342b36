"""From a Spark expression to a typed DuckDB expression, through a whitelist.

`Translator.value` walks a tree of sqlglot's Spark dialect from the leaves up. Each node type has a rule (`@rule`, in
`operators.py`, `functions.py`, `casts.py`) that checks the types of its operands and builds DuckDB's expression; a node
type without a rule, or with an argument that its rule does not name, is refused. So nothing reaches the evaluator that
was not thought about, and a type error is found at the smallest expression that has it.

Where the two engines differ, the rule decides; what was decided:

| expression | Spark, and therefore here |
|---|---|
| `a / b`, `a % b`, `a div b` | integers divide as doubles, `div` truncates; a zero divisor gives NULL |
| decimals | exact, rounded once, half up, to Spark's scale; too many digits give NULL |
| overflow | NULL in its place, as Spark's `try_add`: `COALESCE(v + 1, 0)` is 0 where `v + 1` overflows |
| float beside another number | both as double (Spark's ANSI rule) |
| CAST to integers | truncates; strings: only `[+-]digits`, blanks around allowed; what does not cast is NULL |
| CAST of doubles to string | refused: the engines print apart |
| decimal from double, ROUND(double, n) | rounds the shortest decimal text half up: `ROUND(2.675, 2)` is 2.68 |
| FLOOR, CEIL | bigint, or decimal without fraction |
| `ts - ts` | an interval: a number of microseconds in DuckDB, a duration in Arrow |
| LN, LOG10 of zero or less | NULL; SQRT of less than zero is NaN; POWER(0, -1) is Infinity |
| GREATEST, LEAST | skip NULLs; NaN is the greatest number; NaN = NaN |
| SUBSTRING | 1-based; 0 counts as 1; negative from the end; a window that starts before the text is cut |
| CONCAT, `||` | NULL if any part is; numbers (not doubles), dates and booleans become text |
| TRIM | blanks only, or the characters given |
| LIKE, ILIKE | backslash escapes unless ESCAPE says otherwise; a literal pattern that Spark rejects is refused |
| RLIKE, REGEXP_... | Java's patterns, translated to RE2 (`patterns.py`); what RE2 does not have is refused |
| UPPER, LOWER | by all of Unicode: `upper('ß')` is `SS` |
| YEAR ... SECOND, DATE_TRUNC | in UTC |
| a string beside a number | refused (Spark casts); a literal beside a date or timestamp is cast and checked |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Protocol

from sqlglot import exp, parse_one

from muntin.kernels.evaluate import duckdb_type
from muntin.model import SqlError, is_numeric
from muntin.model.types import INTEGERS, Field, decimal_parts
from muntin.sql.places import Span, SqlText, span_of

MAX_DEPTH = 120
"""How deep a translated tree may be: `a + b + c + ...` nests to the left."""

MAX_TERMS = 10_000
"""How many nodes an expression may have."""

MAX_NODES = 20_000
"""How many nodes DuckDB's expression may have: some rules repeat their operands, so nesting them doubles."""

NULL = "null"
"""The type of the literal NULL."""

_EXTRAS = {"field": "a value that is not in parentheses", "query": "a subquery", "is_global": "GLOBAL"}
"""What to call arguments of sqlglot's nodes that no rule takes."""

TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Value:
    """A translated expression: DuckDB's node, its Spark type and where it stands in the text."""

    node: exp.Expr
    type: str
    span: Span | None

    @property
    def is_text(self) -> bool:
        """Whether it is a string literal, which may stand for a date."""
        return isinstance(self.node, exp.Literal) and self.node.is_string

    @property
    def integer(self) -> int | None:
        """The value of an integer literal, with its sign."""
        node, sign = self.node, 1
        if isinstance(node, exp.Neg):
            node, sign = node.this, -1
        if isinstance(node, exp.Literal) and not node.is_string and self.type in INTEGERS:
            return sign * int(node.this)
        return None


class Home(Protocol):
    """Where a column is from."""

    @property
    def prefix(self) -> str:
        """How an expression names its columns."""


class Scope(Protocol):
    """What names mean: implemented by the binder."""

    def resolve(self, column: exp.Column) -> tuple[Home, Field]: ...


Rule = Callable[["Translator", exp.Expr], Value]
RULES: dict[type[exp.Expr], tuple[Rule, frozenset[str]]] = {}


def rule(*kinds: type[exp.Expr], args: str = "this expression") -> Callable[[Rule], Rule]:
    """Register a rule for node types; `args` are the node's arguments that it knows, any other one set is refused."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            RULES[kind] = (function, frozenset(args.split()))
        return function

    return register


class Translator:
    def __init__(self, text: SqlText, scope: Scope):
        self.text = text
        self.scope = scope
        self._depth = 0
        self._terms = 0

    def value(self, node: exp.Expr) -> Value:
        """Translate a node and all below it."""
        self._depth += 1
        self._terms += 1
        try:
            if self._depth > MAX_DEPTH or self._terms > MAX_TERMS:
                raise self.text.error("the expression is too large", node, "split it, or select with fewer terms")
            found = RULES.get(type(node))
            if found is None:
                raise self.refusal(node)
            function, known = found
            extra = next((name for name, arg in node.args.items() if arg and name not in known), None)
            if extra is not None:
                raise self.text.refuse(f"{called(node)} with {_EXTRAS.get(extra, extra)}", node, "leave it out")
            value = function(self, node)
            if next(islice(value.node.walk(), MAX_NODES, None), None) is not None:
                raise self.text.error("the expression is too large", node, "nest fewer functions")
            return value
        finally:
            self._depth -= 1
            if not self._depth:
                self._terms = 0

    def optional(self, node: exp.Expr, arg: str) -> Value | None:
        given = node.args.get(arg)
        return self.value(given) if given is not None else None

    def made(self, source: exp.Expr, node: exp.Expr, kind: str) -> Value:
        return Value(node, kind, span_of(source))

    def error(self, message: str, at: exp.Expr | Value, hint: str) -> SqlError:
        return self.text.error(message, at.span if isinstance(at, Value) else at, hint)

    def refusal(self, node: exp.Expr) -> SqlError:
        hint = "supported are comparisons, AND/OR/NOT, IN, BETWEEN, LIKE, CASE, CAST, arithmetic, scalar functions"
        if isinstance(node, exp.AggFunc):
            hint = "aggregates stand in SELECT and HAVING, each over a plain expression of the two streams"
            return self.text.error(f"the aggregate {called(node)} cannot stand here", node, hint)
        return self.text.refuse(called(node), node, hint)

    # types

    def expect(self, value: Value, kinds: Iterable[str] | Callable[[str], bool], what: str, wanted: str) -> Value:
        """`value`, which must be of one of `kinds` (or NULL): else an error that names both types."""
        fits = kinds(value.type) if callable(kinds) else value.type in kinds
        if fits or value.type == NULL:
            return value
        raise self.error(f"{what} needs {wanted}, this is {value.type}", value, self._cast_hint(value, wanted))

    def boolean(self, value: Value, what: str) -> Value:
        return self.expect(value, ("boolean",), what, "boolean")

    def number(self, value: Value, what: str) -> Value:
        return self.expect(value, is_numeric, what, "a number")

    def string(self, value: Value, what: str) -> Value:
        return self.expect(value, ("string",), what, "string")

    def _cast_hint(self, value: Value, wanted: str) -> str:
        if wanted == "boolean":
            return "write a comparison, such as ... > 0 or ... = 'x'"
        if value.type == "boolean":
            return "write CASE WHEN ... THEN 1 ELSE 0 END"
        return {"a number": "write CAST(... AS DOUBLE)", "string": "write CAST(... AS STRING)"}.get(
            wanted, f"write an expression that is {wanted}"
        )


def coerce(value: Value, kind: str) -> exp.Expr:
    """The node of a value in a wider type; integer literals stay as they are, DuckDB fits them."""
    if value.type in (kind, NULL) or (value.integer is not None and kind in INTEGERS):
        return value.node
    return exp.Cast(this=value.node.copy(), to=duckdb_type_node(kind))


@cache
def _type_node(kind: str) -> exp.DataType:
    names = {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "string": "VARCHAR", "binary": "BLOB"}
    return exp.DataType.build(names.get(kind) or duckdb_type(kind), dialect="duckdb")


def duckdb_type_node(kind: str) -> exp.DataType:
    return _type_node(kind).copy()


@cache
def _template(sql: str) -> exp.Expr:
    return parse_one(sql, read="duckdb")


def fill(sql: str, **values: exp.Expr) -> exp.Expr:
    """A DuckDB expression in which the names given stand for other expressions: `fill("abs(a)", a=node)`."""
    tree = _template(sql).copy()
    for column in list(tree.find_all(exp.Column)):
        if not column.table and column.name in values:
            column.replace(wrap(values[column.name].copy()))
    return tree


def fill_once(sql: str, a: exp.Expr) -> exp.Expr:
    """As `fill`, for a text that names `a` many times: what is more than a column is computed once."""
    if isinstance(a, exp.Column):
        return fill(sql, a=a)
    return fill("list_extract(list_transform(list_value(v), l), 1)", v=a, l=_lambda(sql))


def _lambda(sql: str) -> exp.Expr:
    return exp.Lambda(this=fill(sql, a=exp.column("it")), expressions=[exp.to_identifier("it")])


def wrap(node: exp.Expr) -> exp.Expr:
    """Operators in parentheses, so that the place they are put in cannot regroup them."""
    loose = (exp.Binary, exp.Unary, exp.Between, exp.In)
    return exp.Paren(this=node) if isinstance(node, loose) and not isinstance(node, exp.Paren) else node


def attempt(node: exp.Expr) -> exp.Expr:
    """An operation that can fail for a row, and then is NULL in this place of the expression."""
    return exp.Anonymous(this="TRY", expressions=[node])


def called(node: exp.Expr) -> str:
    """What a user calls a node."""
    names: dict[type[exp.Expr], str] = {
        exp.Subquery: "a subquery",
        exp.Select: "a subquery",
        exp.Exists: "a subquery",
        exp.Window: "a window function",
        exp.Placeholder: "a parameter",
        exp.Parameter: "a parameter",
        exp.Star: "* inside an expression",
        exp.HexString: "a hexadecimal string",
        exp.Tuple: "a tuple",
        exp.Distinct: "DISTINCT",
        exp.Any: "ANY",
        exp.AtTimeZone: "AT TIME ZONE",
        exp.Lambda: "a function with ->",
        exp.All: "ALL",
    }
    if type(node) in names:
        return names[type(node)]
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name.upper()}"
    if isinstance(node, exp.Func):
        return written_call(node) or node.sql_name()
    return type(node).__name__.upper()


def written_call(node: exp.Expr | None) -> str | None:
    """The name under which a function was called; sqlglot makes several nodes of some calls."""
    while node is not None and "called" not in node.meta:
        node = node.parent
    return str(node.meta["called"]) if node is not None else None


def decimal_parts_of(value: Value) -> tuple[int, int]:
    """Precision and scale under which Spark takes a number into decimal arithmetic."""
    digits = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
    integer = value.integer
    if integer is not None:
        return max(1, len(str(abs(integer)))), 0
    return decimal_parts(value.type) or (digits[value.type], 0)


def at(value: Value, source: exp.Expr) -> Value:
    """The same value, standing where `source` stands (for parentheses)."""
    return replace(value, span=span_of(source))
