"""Functions of numbers."""

from __future__ import annotations

from sqlglot import exp

from muntin.model.types import INTEGERS, INTERVAL, MAX_PRECISION, decimal_parts
from muntin.sql.catalog import accepted, function, simple
from muntin.sql.translate import NULL, Translator, Value, attempt, coerce, duckdb_type_node, fill, rule

_DOUBLES = {
    "sqrt": "CASE WHEN a < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(a) END",
    "cbrt": "cbrt(a)",
    "exp": "exp(a)",
    "ln": "ln(CASE WHEN a > 0 THEN a END)",
    "log10": "log10(CASE WHEN a > 0 THEN a END)",
    "log2": "log2(CASE WHEN a > 0 THEN a END)",
    "sign": "CASE WHEN isnan(a) OR a = 0 THEN a ELSE CAST(sign(a) AS DOUBLE) END",
    "signum": "CASE WHEN isnan(a) OR a = 0 THEN a ELSE CAST(sign(a) AS DOUBLE) END",
    "degrees": "degrees(a)",
    "radians": "radians(a)",
    **{name: f"CASE WHEN isfinite(a) THEN {name}(a) ELSE CAST('NaN' AS DOUBLE) END" for name in ("sin", "cos", "tan")},
    **{name: f"CASE WHEN abs(a) <= 1 THEN {name}(a) ELSE CAST('NaN' AS DOUBLE) END" for name in ("asin", "acos")},
    "atan": "atan(a)",
}
"""Functions of one double. Where DuckDB raises, the argument is kept out, so that only this value is NULL."""

for _name, _template in _DOUBLES.items():
    simple(f"{_name}(double) -> double", f"CASE WHEN a IS NOT NULL THEN {_template} END")
_POWER = "CASE WHEN a = 0 AND b < 0 THEN CAST('Infinity' AS DOUBLE) ELSE power(a, b) END"
simple("power(double, double) -> double", _POWER)
simple("pow(double, double) -> double", _POWER)
simple("atan2(double, double) -> double", "atan2(a + 0.0, b + 0.0)")
simple("pi() -> double", "pi()")
simple("isnan(double) -> boolean", "coalesce(isnan(a), FALSE)")
simple("nanvl(double, double) -> double", "CASE WHEN isnan(a) THEN b ELSE a END")

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_BITWISE: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "a & b",
    exp.BitwiseOr: "a | b",
    exp.BitwiseXor: "xor(a, b)",
}


@rule(*_BITWISE)
def bitwise(t: Translator, node: exp.Expr) -> Value:
    left, right = (
        t.expect(t.value(n), INTEGERS, "a bitwise operator", "an integer") for n in (node.this, node.expression)
    )
    kind = max({left.type, right.type} - {NULL} or {"int"}, key=INTEGERS.index)
    a, b = (exp.Cast(this=v.node, to=duckdb_type_node(kind)) for v in (left, right))
    return t.made(node, fill(_BITWISE[type(node)], a=a, b=b), kind)


@rule(exp.BitwiseNot, args="this")
def bitwise_not(t: Translator, node: exp.Expr) -> Value:
    value = t.expect(t.value(node.this), INTEGERS, "the operator ~", "an integer")
    kind = "int" if value.type == NULL else value.type
    return t.made(node, fill("-1 - a", a=exp.Cast(this=value.node, to=duckdb_type_node(kind))), kind)


@function("log(double, double...) -> double")
def logarithm(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """LOG(x) is the natural logarithm, LOG(base, x) the one to a base."""
    a, *more = (accepted(t, "double", n, "log") for n in arguments)
    if not more:
        return t.made(node, fill("ln(CASE WHEN a > 0 THEN a END)", a=a), "double")
    template = "ln(CASE WHEN b > 0 THEN b END) / nullif(ln(CASE WHEN a > 0 THEN a END), 0)"
    return t.made(node, fill(template, a=a, b=more[0]), "double")


@function("abs(number) -> the same")
def absolute(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    value = t.value(arguments[0])
    if value.type != INTERVAL:
        t.number(value, "ABS")
    call = fill("abs(a)", a=value.node)
    return t.made(node, attempt(call) if value.type in (*INTEGERS, INTERVAL) else call, value.type)


@function(
    "floor(number) -> bigint or decimal", "ceil(number) -> bigint or decimal", "ceiling(number) -> bigint or decimal"
)
def whole(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    value = t.number(t.value(arguments[0]), node.name.upper())
    name = "floor" if node.name.lower() == "floor" else "ceil"
    precision, scale = decimal_parts(value.type) or (0, 0)
    kind = f"decimal({precision - scale + 1 if scale else precision},0)" if precision else "bigint"
    inner = value.node if value.type in (*INTEGERS, NULL) else fill(f"{name}(a)", a=value.node)
    return t.made(node, exp.TryCast(this=inner, to=duckdb_type_node(kind)), kind)


@function("mod(number, number) -> the wider")
def modulo(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    return t.value(exp.Mod(this=arguments[0], expression=arguments[1]))


@function("pmod(integer, integer) -> the wider")
def positive_modulo(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """The remainder that is not negative, for a positive divisor."""
    left, right = (t.expect(t.value(n), INTEGERS, "PMOD", "an integer") for n in arguments)
    kind = max({left.type, right.type} - {NULL} or {"int"}, key=INTEGERS.index)
    a, b = (exp.Cast(this=v.node, to=duckdb_type_node("HUGEINT")) for v in (left, right))
    remainder = fill("a % nullif(b, 0)", a=a, b=b)
    positive = fill("CASE WHEN r < 0 THEN (r + b) % nullif(b, 0) ELSE r END", r=remainder, b=b)
    return t.made(node, exp.TryCast(this=positive, to=duckdb_type_node(kind)), kind)


@function("round(number, integer = 0) -> the same, or decimal")
def rounded(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """Half away from zero, on the decimal text of a double as Java's BigDecimal does."""
    value = t.number(t.value(arguments[0]), "ROUND")
    places = t.value(arguments[1])
    digits = places.integer
    if digits is None or not -18 <= digits <= 18 or (digits < 0 and value.type in ("float", "double")):
        raise t.error(
            "ROUND needs a literal number of places, 0 to 18",
            places if len(node.expressions) > 1 else node,
            "write ROUND(x, 2)",
        )
    if value.type in (*INTEGERS, NULL):
        whole_node = value.node if digits >= 0 else attempt(fill(f"round(a, -{-digits})", a=value.node))
        return t.made(node, whole_node, value.type)
    parts = decimal_parts(value.type)
    if parts is not None:
        return _round_decimal(t, node, value, parts, digits)
    text = f"coalesce(CAST(TRY_CAST(CAST(a AS VARCHAR) AS DECIMAL(38, {digits})) AS DOUBLE), a)"
    result = fill(text, a=coerce(value, "double"))
    return t.made(node, exp.Cast(this=result, to=duckdb_type_node(value.type)), value.type)


def _round_decimal(t: Translator, node: exp.Expr, value: Value, parts: tuple[int, int], digits: int) -> Value:
    if digits < 0:
        raise t.error("ROUND of a decimal needs 0 or more places", node, "write ROUND(x, 2)")
    precision, scale = parts
    kept = min(digits, scale)
    kind = f"decimal({min(precision - scale + kept + 1, MAX_PRECISION)},{kept})"
    return t.made(node, exp.TryCast(this=value.node, to=duckdb_type_node(kind)), kind)
