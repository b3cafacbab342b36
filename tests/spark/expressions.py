# ruff: noqa: E501  (tables of values and templates)
"""Expressions over edge values of every type, written twice: as a user writes them, and for Spark with its `try_` forms.

A fault in one row is NULL in that row, so `a + b` is to be what Spark calls `try_add(a, b)`, `CAST` what it calls
`try_cast`. Where Spark has no such form, a CASE keeps the fault out.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

from muntin.kernels.evaluate import arrow_type

UTC = dt.UTC
ROWS = 60
"""Rows of the table: columns have values of different counts, which are repeated, so that they meet in many ways."""


def _integers(bits: int) -> list[int | None]:
    most = 2 ** (bits - 1) - 1
    return [most, 0, -most - 1, 1, None, -1, most - 1, 7, -most]


def _decimals(digits: int, scale: int) -> list[Decimal | None]:
    with localcontext(prec=80):
        least, most = Decimal(1).scaleb(-scale), Decimal(10**digits - 1).scaleb(-scale)
        return [most, Decimal(0), -most, None, Decimal("-0.5"), least, Decimal("0.5"), -15 * least]


_FLOATS = [0.0, math.nan, 1.5, -0.0, math.inf, None, -2.5, -math.inf, 0.1, 16777217.0]
_DOUBLES = [-0.0, 1e300, None, math.inf, 0.0, -2.5, math.nan, 2.675, -math.inf, 5e-324, 9.2e18, -1e300, 0.5]
_TEXTS = ["", "a", None, "Straße", " a b ", "ÀÉ", "İI", "50%_off", "a\\b", "😀x", "ΑΣ", "A", "ǆ", "zzz", "ab", "ﬁ", "é"]
_NUMBERS = ["1", " 42 ", "-0", "4.5", "x", "", None, "1e3", "NaN", "-Infinity", "99999999999999999999", "+7", "128",
            "0.000000000000000001", "1e400", "true", "1d", "0x10", ".5", "5.", "-9223372036854775808", "\t3\n"]  # fmt: skip
_DATES_AS_TEXT = ["2024-02-29", "2024-01-31 12:30:45.5", "2024-2-9", None, "2024", "2024-07", "2023-02-29", " 2024-01-01 ",
                  "0001-01-01", "2024-01-01T", "2024-01-01 x", "9999-12-31 23:59:59.999999", "2024-01-01 01:02:03+01:00",
                  "1969-12-31T23:59:59.9999999", "2024-01-01 1:2", "2024-01-01 25:00:00", "yes", "2024-01-01 00:00:00Z",
                  "-0001-01-01", "12024-01-01", "2024-01-01 01:02:03 UTC", "2024-01-01 01:02:03 +01:00", "2024-01-01 01",
                  "2024-01-01 01:02:03.", "2024-01-01 01:02:03-1:30", "2024-01-01 01:02:60", "2024-1-1T1:2:3GMT"]  # fmt: skip
_JSON = ['{"a":1,"b":"x","c":{"d":[1, 2,{"e":null}]}}', '{"a":"1","b":5,"c":[]}', '{"a":-1.5,"b":{"k":[true]},"c":{}}', '{"a":1', "", None,
         "null", "[1,2]", '[{"a":1}]', "5", '{"A":1}', '{"a":99999999999,"b":null}', '{"a":true,"b":false}', '{"a":"2024-01-01T01:02:03Z"}',
         '{"a":"NaN","b":"\\u00e9\\"\\n"}', '{"a b":7,"c":{"d":3}}', '{"a":{"d":{"x":1}},"b":2}', '"a"', " {} ", '{"a":1e2,"b":12}', '{"a":"2024-01-31"}']  # fmt: skip
_DAYS = [dt.date(1970, 1, 1), dt.date(2024, 2, 29), None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 4),
         dt.date(1969, 12, 31)]  # fmt: skip
_TIMES = [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 13, 45, 7, 900_000), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
          None, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.datetime(1582, 10, 4, 1, 2, 3, 4),
          dt.datetime(2000, 1, 1), dt.datetime(2023, 12, 31, 23, 0, 0, 1)]  # fmt: skip

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "ok": ("boolean", [True, None, False]),
    "t": ("tinyint", _integers(8)),
    "sm": ("smallint", _integers(16)),
    "i": ("int", _integers(32)),
    "b": ("bigint", _integers(64)),
    "b2": ("bigint", [None, 2, -1, 2**62, -(2**63), 0, 10]),
    "f": ("float", _FLOATS),
    "v": ("double", _DOUBLES),
    "m": ("decimal(9,2)", _decimals(9, 2)),
    "d": ("decimal(12,4)", _decimals(12, 4)),
    "e": ("decimal(18,0)", _decimals(18, 0)),
    "w": ("decimal(38,18)", _decimals(38, 18)),
    "w2": (
        "decimal(38,10)",
        [Decimal(x) for x in ("2.5", "-9999999999999999999999999999", "0.0000000001", "1e20", "0")],
    ),
    "x": ("decimal(38,0)", [*_decimals(38, 0), Decimal(3)]),
    "y": ("decimal(38,38)", [Decimal("0.98765432109876543210987654321098765432"), *_decimals(38, 38)[3:]]),
    "s": ("string", _TEXTS),
    "n": ("string", _NUMBERS),
    "dt": ("string", _DATES_AS_TEXT),
    "day": ("date", _DAYS),
    "ts": ("timestamp", [x and x.replace(tzinfo=UTC) for x in _TIMES]),
    "ntz": ("timestamp_ntz", _TIMES[::-1]),
    "bin": ("binary", [b"", b"ab\xff", None, b"a"]),
    "js": ("string", _JSON),
    "ar": ("array<int>", [[1, 2, 3], None, [], [None, 2], [-1]]),
    "al": ("array<string>", [["a", None, "b"], [""], None, [], ["é", "a"]]),
    "mp": ("map<string,bigint>", [[("a", 1), ("b", None)], None, [], [("", 5)]]),
    "st": (
        "struct<a:int,b:string,c:struct<d:double>>",
        [{"a": 1, "b": "x", "c": {"d": 0.5}}, None, {"a": None, "b": "", "c": None}],
    ),
}


def rows() -> pa.Table:
    """The edge values as one table."""
    wide = {n: [values[r % len(values)] for r in range(ROWS)] for n, (_, values) in COLUMNS.items()}
    columns = {n: pa.array(_fitting(values, COLUMNS[n][0]), arrow_type(COLUMNS[n][0])) for n, values in wide.items()}
    return pa.table(columns)


def _fitting(values: list[Any], kind: str) -> list[Any]:
    """Decimals with as many places as their type."""
    if not kind.startswith("decimal"):
        return values
    with localcontext(prec=80):
        step = Decimal(1).scaleb(-int(kind[8:-1].split(",")[1]))
        return [v if v is None else v.quantize(step) for v in values]


@dataclass(frozen=True)
class Term:
    """An expression: its family (integer, decimal, float, string, boolean, time, binary), and both texts."""

    family: str
    text: str
    spark: str


def family_of(kind: str) -> str:
    families = {"float": "float", "double": "float", "date": "time", "timestamp": "time", "timestamp_ntz": "time"}
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return "integer"
    return "decimal" if kind.startswith("decimal") else families.get(kind, kind)


def column(name: str) -> Term:
    return Term(family_of(COLUMNS[name][0]), name, name)


def same(family: str, text: str) -> Term:
    """What both write alike."""
    return Term(family, text, text)


_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def arithmetic(op: str, a: Term, b: Term) -> Term:
    families = {a.family, b.family}
    family = "float" if "float" in families else "decimal" if "decimal" in families else "integer"
    if op == "/" and family == "integer":
        family = "float"
    return Term(family, f"({a.text} {op} {b.text})", f"{_TRY[op]}({a.spark}, {b.spark})")


def whole_division(a: Term, b: Term) -> Term:
    fits = f"{b.spark} <> 0 AND NOT ({b.spark} = -1 AND {a.spark} = -9223372036854775808)"
    return Term("integer", f"({a.text} div {b.text})", f"CASE WHEN {fits} THEN {a.spark} div {b.spark} END")


def _minus(a: Term) -> str:
    return f"try_subtract(try_subtract({a.spark}, {a.spark}), {a.spark})" if a.family == "integer" else f"(- {a.spark})"


def minus(a: Term) -> Term:
    return Term(a.family, f"(- {a.text})", _minus(a))


def absolute(a: Term) -> Term:
    guarded = f"CASE WHEN {a.spark} >= 0 THEN {a.spark} ELSE {_minus(a)} END"
    return Term(a.family, f"ABS({a.text})", guarded if a.family == "integer" else f"abs({a.spark})")


def whole(name: str, a: Term) -> Term:
    plain = f"{name}({a.spark})"
    guarded = f"CASE WHEN abs({a.spark}) < 9.22e18 THEN {plain} END"
    family = "decimal" if a.family == "decimal" else "integer"
    return Term(family, f"{name}({a.text})", guarded if a.family == "float" else plain)


def cast(a: Term, kind: str) -> Term:
    return Term(family_of(kind), f"CAST({a.text} AS {kind})", f"try_cast({a.spark} AS {kind})")


def call(family: str, template: str, *terms: Term) -> Term:
    """A text with `{}` for each term, which both write alike."""
    return Term(family, template.format(*(t.text for t in terms)), template.format(*(t.spark for t in terms)))


INTEGERS = ("t", "sm", "i", "b", "b2")
DECIMALS = ("m", "d", "e", "w", "w2", "x", "y")
NARROW_DECIMALS = ("m", "d", "e")
"""Spark loses digits, or fails, where it negates a decimal of more than 34."""

FLOATS = ("f", "v")
NUMBERS = (*INTEGERS, *DECIMALS, *FLOATS)
TIMES = ("day", "ts", "ntz")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
NUMBER_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(18,6)",
                "decimal(38,0)", "decimal(38,20)")  # fmt: skip


def casts() -> Iterator[Term]:
    """Each column as each type that it can be cast to."""
    for name in (*NUMBERS, "ok", "n"):
        for kind in NUMBER_TYPES:
            yield cast(column(name), kind)
        yield cast(column(name), "boolean")
    for name in (*INTEGERS, *DECIMALS, "ok", *TIMES):
        yield cast(column(name), "string")
    for name in (*TIMES, "dt"):
        for kind in ("date", "timestamp", "timestamp_ntz"):
            yield cast(column(name), kind)


def operators() -> Iterator[Term]:
    """Each operator between each two columns of numbers, and each comparison in all forms."""
    for left in NUMBERS:
        for right in NUMBERS:
            for op in _TRY:
                if (op, right) != ("%", "y"):  # Spark fails where the quotient has more than 38 digits
                    yield arithmetic(op, column(left), column(right))
            yield call("boolean", "({} < {})", column(left), column(right))
            yield call("boolean", "({} = {})", column(left), column(right))
    for left in INTEGERS:
        yield from (whole_division(column(left), column(right)) for right in INTEGERS)
    for left in TIMES:
        yield from (call("boolean", f"({{}} {op} {{}})", column(left), column(r)) for r in TIMES for op in COMPARISONS)
    for name in ("ok", "s", "bin", *NUMBERS):
        yield from (call("boolean", f"({{}} {op} {{}})", column(name), column(name)) for op in COMPARISONS)


_OF_NUMBERS = ("ROUND({})", "ROUND({}, 1)", "ROUND({}, 3)", "ROUND({}, 18)", "SIGN({})", "SQRT({})",
               "COALESCE({}, 1)", "NULLIF({}, 0)", "GREATEST({}, 1)", "LEAST({}, 1.5)", "IF(ok, {}, 1)")  # fmt: skip
_APPROXIMATE = ("EXP({})", "LN({})", "LOG10({})", "POWER({}, 2)", "POWER(2, {})", "POWER({}, 0.5)",
                "LOG({})", "LOG(2, {})", "LOG2({})", "CBRT({})", "DEGREES({})", "RADIANS({})", "SIN({})", "COS({})", "TAN({})", "ASIN({})",
                "ACOS({})", "ATAN({})", "ATAN2({}, 2)")  # fmt: skip
_OF_STRINGS = (
    ("string", ("UPPER({})", "LOWER({})", "TRIM({})", "LTRIM({})", "RTRIM({})", "TRIM(BOTH 'a' FROM {})", "CONCAT({}, '-', i)",
                "{} || s", "REPLACE({}, 'a', 'xy')", "REPLACE({}, '')", "SUBSTRING({}, 2)", "SUBSTRING({}, -2)",
                "SUBSTRING({}, -4, 3)", "SUBSTRING({}, 0, 2)", "SUBSTRING({}, t, 2)", "SUBSTRING({}, 1, t)", "SUBSTRING({}, t, i)",
                "SUBSTRING({}, i, t)", "SUBSTRING({}, 2, -1)", "NULLIF({}, 'a')", "COALESCE({}, 'x')", "GREATEST({}, 'a', 'é')",
                "LEAST({}, s, n)", "CASE {} WHEN 'a' THEN 'x' ELSE s END")),
    ("boolean", ("STARTSWITH({}, 'a')", "ENDSWITH({}, 'a')", "CONTAINS({}, '')", "{} LIKE '%a%'", "{} LIKE '_'", r"{} LIKE '50\\%%'",
                 "{} ILIKE 'STRA%'", "{} ILIKE '%À%'", "{} NOT LIKE 'a'", "{} LIKE n", "{} IN ('a', '', NULL)", "{} < 'a'", "{} IS NULL",
                 "{} BETWEEN '' AND 'b'", "{} LIKE '%!%%' ESCAPE '!'", "{} IS DISTINCT FROM s")),
    ("integer", ("LENGTH({})",)),
)  # fmt: skip
_OF_TIMES = (
    ("integer", tuple(f"{p}({{}})" for p in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "DAYOFMONTH"))),
    ("time", tuple(f"DATE_TRUNC('{u}', {{}})" for u in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND",
                                                          "MILLISECOND", "MICROSECOND"))),
    ("boolean", ("{} > '2024-01-01'", "{} = DATE '1970-01-01'", "{} >= TIMESTAMP '1970-01-01 00:00:00'", "{} IS NOT NULL",
                 "{} IN ('2024-02-29', '0001-01-01')", "{} BETWEEN '1582-10-04' AND '2024-02-29'")),
    ("time", ("COALESCE({}, day)", "GREATEST({}, ts)", "LEAST({}, day)", "NULLIF({}, DATE '1970-01-01')", "IF(ok, {}, ntz)")),
)  # fmt: skip


def functions() -> Iterator[Term]:
    """Each function of each column that it takes."""
    for name in NUMBERS:
        for template in _OF_NUMBERS:
            yield call("decimal", template, column(name))
        yield from (whole("FLOOR", column(name)), whole("CEIL", column(name)))
    for name in (*INTEGERS, *NARROW_DECIMALS, *FLOATS):
        yield from (minus(column(name)), absolute(column(name)))
    for name in ("t", "sm", "i", "b"):
        kind = COLUMNS[name][0]
        for digits in (1, 2, 18):
            spark = f"try_cast(round(CAST({name} AS DECIMAL(38,0)), -{digits}) AS {kind})"
            yield Term("integer", f"ROUND({name}, -{digits})", spark)
    for groups, names in ((_OF_STRINGS, ("s", "n", "dt")), (_OF_TIMES, TIMES)):
        for family, templates in groups:
            yield from (call(family, template, column(name)) for template in templates for name in names)
    for name in ("ts", "ntz"):
        for amount in ("5 SECONDS", "-1 DAY", "1 MICROSECOND", "3000 DAYS"):
            for op in "+-":
                yield arithmetic(op, column(name), same("interval", f"INTERVAL {amount}"))
    yield from (same("integer", f"LENGTH({name})") for name in ("bin",))
    yield from (same("boolean", f"ok {test}") for test in ("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NULL", "<=> NULL"))


def approximate() -> Iterator[Term]:
    """Functions of doubles whose last digit is the library's."""
    for name in NUMBERS:
        yield from (call("float", template, column(name)) for template in _APPROXIMATE)


LITERALS = {
    "integer": ("0", "1", "-1", "127", "2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808", "5L"),
    "decimal": ("0.5", "1.50", "-0.05", "9223372036854775808", "12345678901234567890.123456789", "0.0"),
    "float": ("1e3", "1.5D", "-0e0", "1e308", "0.1D"),
    "string": ("''", "'a'", "'Straße'", "'%'"),
    "boolean": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
    "time": ("DATE '2024-02-29'", "TIMESTAMP '1969-12-31 23:59:59.9'"),
}  # fmt: skip
_NAMES = {
    "integer": INTEGERS, "decimal": DECIMALS, "float": FLOATS, "string": ("s", "n", "dt"), "boolean": ("ok",), "time": TIMES,
}  # fmt: skip


class Generator:
    """Random expressions, nested up to a depth."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def any(self, depth: int) -> Term:
        return self._random.choice([self.number, self.number, self.string, self.boolean, self.boolean, self.time])(
            depth
        )

    def leaf(self, family: str) -> Term:
        texts = LITERALS[family] if self._random.random() < 0.25 else _NAMES[family]
        return same(family, self._random.choice(texts))

    def number(self, depth: int) -> Term:
        family = self._random.choice(("integer", "integer", "decimal", "float"))
        if depth <= 0:
            return self.leaf(family)
        pick, a = self._random.random(), self.number(depth - 1)
        if pick < 0.5:
            op, b = self._random.choice("+-*/%"), self.number(depth - 1)
            if op == "%" and "decimal" in (a.family, b.family):
                a, b = self.leaf("integer"), same("decimal", self._random.choice(NARROW_DECIMALS))
            return arithmetic(op, a, b)
        if pick < 0.6:
            narrow = a if a.family != "decimal" else same("decimal", self._random.choice(NARROW_DECIMALS))
            return self._random.choice((minus, absolute))(narrow)
        if pick < 0.7:
            return cast(a, self._random.choice(NUMBER_TYPES))
        if pick < 0.8:
            return self._chosen(a, self.number(depth - 1), depth)
        if pick < 0.9:
            return call("integer", "LENGTH({})", self.string(depth - 1))
        return call("integer", self._random.choice(("YEAR({})", "SECOND({})", "MONTH({})")), self.time(depth - 1))

    def string(self, depth: int) -> Term:
        if depth <= 0:
            return self.leaf("string")
        pick, a = self._random.random(), self.string(depth - 1)
        if pick < 0.4:
            template = self._random.choice([t for t in _OF_STRINGS[0][1] if "{}" in t])
            return call("string", f"({template})" if "||" in template else template, a)
        if pick < 0.6:
            return call("string", "CONCAT({}, {})", a, self.string(depth - 1))
        if pick < 0.8:
            number = self.number(depth - 1)
            return cast(number, "string") if number.family != "float" else self._chosen(a, self.leaf("string"), depth)
        return self._chosen(a, self.string(depth - 1), depth)

    def time(self, depth: int) -> Term:
        if depth <= 0:
            return self.leaf("time")
        a = self.time(depth - 1)
        pick = self._random.random()
        if pick < 0.4:
            return cast(a, self._random.choice(("date", "timestamp", "timestamp_ntz")))
        if pick < 0.7:
            return call("time", f"DATE_TRUNC('{self._random.choice(('MONTH', 'HOUR', 'WEEK'))}', {{}})", a)
        return self._chosen(a, self.time(depth - 1), depth)

    def boolean(self, depth: int) -> Term:
        if depth <= 0:
            return self.leaf("boolean")
        pick, of = self._random.random(), self._random.choice((self.number, self.number, self.string, self.time))
        if pick < 0.5:
            op = self._random.choice(COMPARISONS)
            return call("boolean", f"({{}} {op} {{}})", of(depth - 1), of(depth - 1))
        if pick < 0.6:
            return call("boolean", "({} BETWEEN {} AND {})", of(depth - 1), of(depth - 1), of(depth - 1))
        if pick < 0.7:
            return call("boolean", "({} IN ({}, {}))", of(depth - 1), of(depth - 1), of(depth - 1))
        if pick < 0.8:
            return call("boolean", "({} IS NULL)", of(depth - 1))
        if pick < 0.9:
            return call("boolean", "(NOT {})", self.boolean(depth - 1))
        return call(
            "boolean",
            f"({{}} {self._random.choice(('AND', 'OR'))} {{}})",
            self.boolean(depth - 1),
            self.boolean(depth - 1),
        )

    def _chosen(self, a: Term, b: Term, depth: int) -> Term:
        families = {a.family, b.family}
        family = next(f for f in ("float", "decimal", a.family) if f in families)
        form = self._random.choice(("COALESCE({1}, {2})", "CASE WHEN {0} THEN {1} ELSE {2} END", "IF({0}, {1}, {2})",
                                    "NULLIF({1}, {2})", "GREATEST({1}, {2})", "LEAST({1}, {2})"))  # fmt: skip
        if form.startswith("NULLIF"):
            family = a.family
        return call(family, form, self.boolean(depth - 1), a, b)
