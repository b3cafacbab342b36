"""Rules for CASE and scalar functions."""

from __future__ import annotations

from sqlglot import exp

from muntin.model.types import INTEGERS, MAX_PRECISION, decimal_parts
from muntin.sql.casts import beside_decimals, converted, unify
from muntin.sql.translate import (
    NULL,
    TIMES,
    Translator,
    Value,
    attempt,
    called,
    coerce,
    duckdb_type_node,
    fill,
    rule,
    wrap,
)

_STRINGS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Upper: ("CASE WHEN length(a) = strlen(a) THEN upper(a) ELSE unicode_upper(a) END", "string"),
    exp.Lower: ("CASE WHEN length(a) = strlen(a) THEN lower(a) ELSE unicode_lower(a) END", "string"),
    exp.StartsWith: ("starts_with(a, b)", "boolean"),
    exp.EndsWith: ("ends_with(a, b)", "boolean"),
    exp.Contains: ("contains(a, b)", "boolean"),
    exp.Replace: ("replace(a, b, c)", "string"),
}
"""Functions of strings. Letters that are not ASCII may become several (ß, İ), in DuckDB's own functions they do not."""

_DOUBLES: dict[type[exp.Expr], str] = {
    exp.Sqrt: "CASE WHEN a < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(a) END",
    exp.Exp: "exp(a)",
    exp.Ln: "ln(CASE WHEN a > 0 THEN a END)",
    exp.Sign: "CASE WHEN isnan(a) OR a = 0 THEN a ELSE CAST(sign(a) AS DOUBLE) END",
}
"""Functions of one double. Where DuckDB raises, the argument is kept out, so that only this value is NULL."""

_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_TRUNC_UNITS = {
    **{u: "year" for u in ("YEAR", "YYYY", "YY")},
    **{u: "month" for u in ("MONTH", "MON", "MM")},
    **{u: "day" for u in ("DAY", "DD")},
    **{u: u.lower() for u in ("QUARTER", "WEEK", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}


@rule(*_STRINGS, args="this expression replacement")
def string_function(t: Translator, node: exp.Expr) -> Value:
    template, kind = _STRINGS[type(node)]
    names = ("this", "expression", "replacement")
    given = {k: node.args[n] for k, n in zip("abc", names, strict=True) if node.args.get(n) is not None}
    values = {k: t.string(t.value(n), called(node)).node for k, n in given.items()}
    if isinstance(node, exp.Replace):
        values.setdefault("c", exp.Literal.string(""))
    return t.made(node, fill(template, **values), kind)


@rule(*_DOUBLES, args="this")
def double_function(t: Translator, node: exp.Expr) -> Value:
    a = _double(t, node, node.this)
    return t.made(node, fill(_DOUBLES[type(node)], a=a), "double")


@rule(exp.Log)
def logarithm(t: Translator, node: exp.Expr) -> Value:
    """LOG10(x), which sqlglot reads as LOG(10, x); other bases are not offered."""
    if not (isinstance(node.this, exp.Literal) and node.this.name == "10" and node.expression):
        raise t.text.refuse("LOG with a base", node, "use LN, LOG10, or LN(x) / LN(base)")
    a = _double(t, node, node.expression)
    return t.made(node, fill("log10(CASE WHEN a > 0 THEN a END)", a=a), "double")


@rule(exp.Pow)
def power(t: Translator, node: exp.Expr) -> Value:
    a, b = (_double(t, node, n) for n in (node.this, node.expression))
    guarded = "CASE WHEN a = 0 AND b < 0 THEN CAST('Infinity' AS DOUBLE) ELSE power(a, b) END"
    return t.made(node, fill(guarded, a=a, b=b), "double")


def _double(t: Translator, node: exp.Expr, argument: exp.Expr) -> exp.Expr:
    value = t.number(t.value(argument), called(node))
    return exp.Cast(this=value.node, to=duckdb_type_node("double")) if value.type != "double" else value.node


@rule(exp.Abs, args="this")
def absolute(t: Translator, node: exp.Expr) -> Value:
    value = t.number(t.value(node.this), "ABS")
    call = fill("abs(a)", a=value.node)
    return t.made(node, attempt(call) if value.type in INTEGERS else call, value.type)


@rule(exp.Floor, exp.Ceil, args="this")
def whole(t: Translator, node: exp.Expr) -> Value:
    value = t.number(t.value(node.this), called(node))
    name = "floor" if isinstance(node, exp.Floor) else "ceil"
    precision, scale = decimal_parts(value.type) or (0, 0)
    kind = f"decimal({precision - scale + 1 if scale else precision},0)" if precision else "bigint"
    inner = value.node if value.type in (*INTEGERS, NULL) else fill(f"{name}(a)", a=value.node)
    return t.made(node, exp.TryCast(this=inner, to=duckdb_type_node(kind)), kind)


@rule(exp.Round, args="this decimals casts_non_integer_decimals")
def rounded(t: Translator, node: exp.Expr) -> Value:
    """Half away from zero, on the decimal text of a double as Java's BigDecimal does."""
    value = t.number(t.value(node.this), "ROUND")
    places = t.optional(node, "decimals")
    digits = 0 if places is None else places.integer
    if digits is None or not -18 <= digits <= 18 or (digits < 0 and value.type in ("float", "double")):
        raise t.error("ROUND needs a literal number of places, 0 to 18", places or node, "write ROUND(x, 2)")
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


@rule(exp.Greatest, exp.Least, args="this expressions ignore_nulls")
def extreme(t: Translator, node: exp.Expr) -> Value:
    values = [t.value(n) for n in (node.this, *node.expressions)]
    if len(values) < 2:
        raise t.error(f"{called(node)} needs two values or more", node, f"write {called(node)}(a, b)")
    kind, nodes = unify(t, values, node, "compare")
    return t.made(node, exp.Anonymous(this=called(node).lower(), expressions=nodes), kind)


@rule(exp.Coalesce, args="this expressions is_nvl is_null")
def coalesce(t: Translator, node: exp.Expr) -> Value:
    values = [t.value(n) for n in (node.this, *node.expressions)]
    kind, nodes = unify(t, values, node, "choose between")
    return t.made(node, exp.Coalesce(this=nodes[0], expressions=nodes[1:]), kind)


@rule(exp.Nullif)
def nullif(t: Translator, node: exp.Expr) -> Value:
    values = [t.value(node.this), t.value(node.expression)]
    _, (left, right) = unify(t, beside_decimals(values), node, "compare")
    whole_node = fill("CASE WHEN a = b THEN NULL ELSE c END", a=left, b=right, c=values[0].node)
    return t.made(node, whole_node, values[0].type)


@rule(exp.If, args="this true false")
def if_(t: Translator, node: exp.Expr) -> Value:
    condition = t.boolean(t.value(node.this), "IF")
    branches = [t.value(node.args["true"])]
    if (otherwise := t.optional(node, "false")) is not None:
        branches.append(otherwise)
    kind, nodes = unify(t, branches, node, "choose between")
    case = exp.Case(ifs=[exp.If(this=condition.node, true=nodes[0])], default=nodes[1] if len(nodes) > 1 else None)
    return t.made(node, case, kind)


@rule(exp.Case, args="this ifs default")
def case(t: Translator, node: exp.Expr) -> Value:
    ifs = node.args["ifs"]
    branches = [t.value(i.args["true"]) for i in ifs]
    if (default := t.optional(node, "default")) is not None:
        branches.append(default)
    kind, results = unify(t, branches, node, "choose between")
    operand, conditions = _conditions(t, node, ifs)
    built = [exp.If(this=c, true=r) for c, r in zip(conditions, results[: len(ifs)], strict=True)]
    return t.made(node, exp.Case(this=operand, ifs=built, default=results[-1] if default else None), kind)


def _conditions(t: Translator, node: exp.Expr, ifs: list[exp.Expr]) -> tuple[exp.Expr | None, list[exp.Expr]]:
    operand = t.optional(node, "this")
    values = [t.value(i.this) for i in ifs]
    if operand is None:
        return None, [t.boolean(v, "WHEN").node for v in values]
    _, (first, *rest) = unify(t, [operand, *values], node, "compare")
    return wrap(first), rest


@rule(exp.Length, args="this")
def length(t: Translator, node: exp.Expr) -> Value:
    value = t.expect(t.value(node.this), ("string", "binary"), "LENGTH", "string")
    function = "octet_length(a)" if value.type == "binary" else "length(a)"
    return t.made(node, fill(f"CAST({function} AS INTEGER)", a=value.node), "int")


@rule(exp.Trim, args="this expression position")
def trim(t: Translator, node: exp.Expr) -> Value:
    value = t.string(t.value(node.this), "TRIM")
    chars = t.optional(node, "expression")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    what = t.string(chars, "TRIM").node if chars else exp.Literal.string(" ")
    return t.made(node, exp.Anonymous(this=name, expressions=[value.node, what]), "string")


@rule(exp.Substring, args="this start length zero_start")
def substring(t: Translator, node: exp.Expr) -> Value:
    text = t.string(t.value(node.this), "SUBSTRING")
    start, size = t.optional(node, "start"), t.optional(node, "length")
    if start is None:
        raise t.error("SUBSTRING needs a start", node, "write SUBSTRING(text, 1, 3)")
    for value in (start, size):
        if value is not None:
            t.expect(value, INTEGERS, "SUBSTRING", "an integer")
    # `from`: how many characters stand before the window, negative where it starts before the text
    first, known = start.integer, size.integer if size else None
    if first is not None and first >= 0 and (size is None or (known is not None and known >= 0)):
        call = "substring(s, p)" if size is None else "substring(s, p, n)"
        values = {"s": text.node, "p": exp.Literal.number(max(first, 1))} | ({"n": size.node} if size else {})
        return t.made(node, fill(call, **values), "string")
    before = fill("CASE WHEN p > 0 THEN p - 1 WHEN p = 0 THEN 0 ELSE length(s) + p END", p=start.node, s=text.node)
    if size is None:
        return t.made(
            node, fill("substring(s, CASE WHEN f < 0 THEN 1 ELSE f + 1 END)", s=text.node, f=before), "string"
        )
    end = fill("f + n", f=before, n=exp.Cast(this=size.node, to=duckdb_type_node("bigint")))
    cut = fill(
        "CASE WHEN e <= 0 OR n <= 0 THEN '' WHEN f < 0 THEN substring(s, 1, e) ELSE substring(s, f + 1, n) END",
        s=text.node, f=before, e=end, n=size.node,
    )  # fmt: skip
    known_all = fill(
        "CASE WHEN f + n IS NOT NULL AND s IS NOT NULL THEN c END", f=before, n=size.node, s=text.node, c=cut
    )
    return t.made(node, known_all, "string")


@rule(exp.Concat, exp.DPipe, args="this expression expressions safe coalesce")
def concat(t: Translator, node: exp.Expr) -> Value:
    parts = node.expressions or [node.this, node.expression]
    joined: exp.Expr | None = None
    for part in parts:
        value = t.value(part)
        text = value.node if value.type in ("string", NULL) else converted(t, value, "string", part).node
        joined = wrap(text) if joined is None else exp.DPipe(this=joined, expression=wrap(text), safe=True)
    assert joined is not None
    return t.made(node, joined, "string")


@rule(*_PARTS, args="this")
def part(t: Translator, node: exp.Expr) -> Value:
    argument = node.this
    if isinstance(argument, exp.TsOrDsToDate):  # sqlglot's wrapper around YEAR's argument
        argument = argument.this
    value = t.expect(t.value(argument), TIMES, called(node), "a date or timestamp")
    return t.made(node, fill(f"CAST({_PARTS[type(node)]}(CAST(a AS TIMESTAMP)) AS INTEGER)", a=value.node), "int")


@rule(exp.TimestampTrunc, args="this unit")
def truncated(t: Translator, node: exp.Expr) -> Value:
    written = node.args["unit"].name.upper()
    unit = _TRUNC_UNITS.get(written)
    if unit is None:
        raise t.error(f"DATE_TRUNC does not know the unit {written}", node, f"units are {', '.join(_TRUNC_UNITS)}")
    value = t.expect(t.value(node.this), TIMES, "DATE_TRUNC", "a timestamp")
    call = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), coerce(value, "timestamp")])
    return t.made(node, call, "timestamp")
