"""Functions that the evaluator adds to DuckDB's own: exact wide decimals, and letters by all of Unicode.

An expression names what it needs, and the evaluator declares it to DuckDB when it first meets the name:

    exact_divide_4_2_29_17(a, b)    a with 4 places by b with 2, rounded half up to a DECIMAL(29, 17)
    unicode_upper(a)                'Straße' becomes 'STRASSE', in DuckDB's own upper 'STRAẞE'

Python computes these, at about a microsecond a row; the front end asks for them only where DuckDB's own would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

WIDE = 38
"""Digits of the widest decimal."""

_NAMED = re.compile(
    r"\b(?:unicode_(?:upper|lower|initcap|reverse)|exact_(?:add|subtract|multiply|divide|remainder)(?:_\d{1,2}){4})\b",
    re.IGNORECASE,
)
_DIGITS = Context(prec=160, rounding=ROUND_DOWN)
"""More digits than any result of two decimals has, so that what is rounded half up afterwards is rounded once."""

_OPERATIONS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "add": _DIGITS.add,
    "subtract": _DIGITS.subtract,
    "multiply": _DIGITS.multiply,
    "divide": _DIGITS.divide,
    "remainder": _DIGITS.remainder,
}


def _initcap(text: str) -> str:
    """Each word, between blanks, with its first letter as in a title; ß becomes Ss."""
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in text.split(" "))


_LETTERS: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "lower": str.lower,
    "initcap": _initcap,
    "reverse": lambda text: text[::-1],
}


@dataclass(frozen=True)
class Function:
    """A function as DuckDB is told of it: types are DuckDB's, `compute` takes and gives Arrow arrays."""

    name: str
    parameters: list[str]
    result: str
    compute: Callable[..., pa.Array]


def exact_name(operation: str, scales: tuple[int, int], precision: int, scale: int) -> str:
    """The name of exact arithmetic between decimals of these scales, with a result of this precision and scale."""
    return f"exact_{operation}_{scales[0]}_{scales[1]}_{precision}_{scale}"


def named_in(sql: str) -> Iterable[str]:
    """The names in a text that may be functions of this module; a string literal may hold one by chance."""
    return (name.lower() for name in _NAMED.findall(sql))


def function(name: str) -> Function | None:
    """The function of a name; None where no such decimal exists."""
    kind, operation, *numbers = name.split("_")
    if kind == "unicode":
        return Function(name, ["VARCHAR"], "VARCHAR", _letters(_LETTERS[operation]))
    left, right, precision, scale = map(int, numbers)
    if not 0 < precision <= WIDE or not max(left, right) <= WIDE or not scale <= precision:
        return None
    parameters = [f"DECIMAL({WIDE}, {s})" for s in (left, right)]
    return Function(name, parameters, f"DECIMAL({precision}, {scale})", _exact(operation, precision, scale))


def _exact(operation: str, precision: int, scale: int) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Rounded half up, as Spark rounds; NULL where the result has too many digits, or the divisor is zero."""
    operate, step = _OPERATIONS[operation], Decimal(1).scaleb(-scale)
    divides, limit = operation in ("divide", "remainder"), Decimal(10) ** (precision - scale)

    def one(a: Decimal | None, b: Decimal | None) -> Decimal | None:
        if a is None or b is None or (divides and not b):
            return None
        result = operate(a, b).quantize(step, ROUND_HALF_UP, _DIGITS)
        return result if result.copy_abs() < limit else None

    def many(left: pa.Array, right: pa.Array) -> pa.Array:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([one(a, b) for a, b in pairs], pa.decimal128(precision, scale))

    return many


def _letters(convert: Callable[[str], str]) -> Callable[[pa.Array], pa.Array]:
    def many(texts: pa.Array) -> pa.Array:
        return pa.array([None if text is None else convert(text) for text in texts.to_pylist()], pa.string())

    return many
