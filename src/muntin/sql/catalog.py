"""The table of functions: names, parameters and results, and how a call becomes DuckDB's expression.

    simple("left(string, integer) -> string", "...")       DuckDB's text over the arguments a, b, c, ...
    @function("round(number, integer = 0) -> the same")     a rule of its own

A parameter is one of the kinds in `KINDS`; `= literal` makes it optional, `...` repeats it. What is not in the table is
refused. `FUNCTIONS` can be listed: the documentation is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp, parse_one

from muntin.model import is_numeric
from muntin.model.types import INTEGERS, nested_kind
from muntin.sql.casts import converted, time_literal
from muntin.sql.translate import NULL, TIMES, Translator, Value, attempt, duckdb_type_node, fill, rule
from muntin.sql.unknown import arguments, unknown_function

_SIGNATURE = re.compile(r"(\w+)\((.*)\) -> (.+)")
_INSTANTS = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class ArgumentKind:
    """What a parameter takes: which types, how a message calls them, and the DuckDB type that it is brought to."""

    fits: Callable[[str], bool]
    wanted: str
    to: str | None = None


KINDS = {
    "any": ArgumentKind(lambda kind: True, "a value"),
    "string": ArgumentKind(lambda kind: kind == "string", "string"),
    "binary": ArgumentKind(lambda kind: kind == "binary", "binary"),
    "bytes": ArgumentKind(lambda kind: kind in ("string", "binary"), "string or binary"),
    "text": ArgumentKind(lambda kind: kind == "string" or not nested_kind(kind), "a value that can be printed"),
    "boolean": ArgumentKind(lambda kind: kind == "boolean", "boolean"),
    "integer": ArgumentKind(lambda kind: kind in INTEGERS, "an integer"),
    "number": ArgumentKind(is_numeric, "a number"),
    "double": ArgumentKind(is_numeric, "a number", "double"),
    "date": ArgumentKind(lambda kind: kind in TIMES, "a date or timestamp", "date"),
    "time": ArgumentKind(lambda kind: kind in TIMES, "a date or timestamp", "timestamp_ntz"),
    "timestamp": ArgumentKind(lambda kind: kind in _INSTANTS, "a timestamp", "timestamp_ntz"),
    "array": ArgumentKind(lambda kind: nested_kind(kind) == "array", "an array"),
    "map": ArgumentKind(lambda kind: nested_kind(kind) == "map", "a map"),
}


@dataclass(frozen=True)
class Parameter:
    kind: str
    default: str | None = None
    repeated: bool = False

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        return f"{self.kind}{default}{'...' * self.repeated}"


Maker = Callable[[Translator, exp.Expr, list[exp.Expr]], Value]


@dataclass(frozen=True)
class SqlFunction:
    """A function as users call it; `result` is a type, or words where it depends on the arguments."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str
    make: Maker

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"


FUNCTIONS: dict[str, SqlFunction] = {}


def _declared(signature: str, make: Maker) -> None:
    found = _SIGNATURE.fullmatch(signature)
    assert found is not None, signature
    name, inside, result = found.groups()
    parameters = tuple(_parameter(p) for p in re.split(r", (?![^']*'\s*(?:,|$))", inside) if p)
    FUNCTIONS[name] = SqlFunction(name, parameters, result, make)


def _parameter(text: str) -> Parameter:
    kind, _, default = text.removesuffix("...").partition(" = ")
    return Parameter(kind, default or None, text.endswith("..."))


def function(*signatures: str) -> Callable[[Maker], Maker]:
    """Register a function that builds its own expression, perhaps under several names."""

    def register(make: Maker) -> Maker:
        for signature in signatures:
            _declared(signature, make)
        return make

    return register


def simple(signature: str, template: str, *, fails: bool = False) -> None:
    """Register a function that is DuckDB's `template` over its arguments a, b, ...; `fails`: NULL where that fails."""

    def make(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
        declared = FUNCTIONS[node.name.lower()]
        nodes = [accepted(t, p.kind, a, declared.name) for p, a in zip(declared.parameters, arguments, strict=True)]
        built = fill(template, **{letter: n for letter, n in zip("abcdefg", nodes, strict=False)})
        built = built if declared.result != "int" else exp.Cast(this=built, to=duckdb_type_node("int"))
        return t.made(node, attempt(built) if fails else built, declared.result)

    _declared(signature, make)


def accepted(t: Translator, kind: str, argument: exp.Expr, name: str) -> exp.Expr:
    """An argument as a function takes it."""
    wanted = KINDS[kind]
    value = t.value(argument)
    if value.is_text and kind in ("date", "time", "timestamp"):
        value = time_literal(t, value, "timestamp" if kind != "date" else "date", argument)
    t.expect(value, wanted.fits, name.upper(), wanted.wanted)
    if kind == "text" and value.type not in ("string", NULL):
        return converted(t, value, "string", argument).node
    if wanted.to is None or value.type == wanted.to:
        return value.node
    return exp.Cast(this=value.node, to=duckdb_type_node(wanted.to))


@rule(exp.Anonymous, args="this expressions")
def call(t: Translator, node: exp.Expr) -> Value:
    """A function by its name."""
    found = FUNCTIONS.get(node.name.lower())
    if found is None:
        raise unknown_function(t.text, node, FUNCTIONS)
    return found.make(t, node, _complete(t, node, found))


def _complete(t: Translator, node: exp.Expr, found: SqlFunction) -> list[exp.Expr]:
    """The arguments of a call, with the defaults of those that are missing."""
    given, parameters = list(node.expressions), found.parameters
    most = None if parameters and parameters[-1].repeated else len(parameters)
    least = sum(p.default is None and not p.repeated for p in parameters)
    if len(given) < least or (most is not None and len(given) > most):
        message = f"{found.name.upper()} does not take {arguments(len(given))}"
        raise t.error(message, node, f"write {found.signature}")
    missing = [p.default for p in parameters[len(given) :] if p.default is not None]
    return given + [parse_one(default, read="spark") for default in missing]


FORMS: dict[str, str] = {}
"""Functions with a grammar of their own, which have rules for sqlglot's nodes: how they are written, their result."""


def form(signature: str) -> None:
    """List a function that the grammar reads."""
    written, _, result = signature.rpartition(" -> ")
    FORMS[written] = result
