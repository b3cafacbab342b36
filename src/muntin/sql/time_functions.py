"""Functions of dates and timestamps, all in UTC."""

from __future__ import annotations

from sqlglot import exp

from muntin.sql.casts import converted, time_literal
from muntin.sql.catalog import accepted, form, function, simple
from muntin.sql.time_formats import format_template, parse_templates
from muntin.sql.translate import (
    TIMES,
    Translator,
    Value,
    attempt,
    coerce,
    duckdb_type_node,
    fill,
    fill_once,
    rule,
    written_call,
)

_PARTS = {
    **{
        name: name
        for name in ("year", "quarter", "month", "day", "hour", "minute", "second", "dayofyear", "weekofyear")
    },
    "dayofmonth": "day",
    "dayofweek": "1 + dayofweek",
    "weekday": "-1 + isodow",
}
"""Functions of one part of a time, by the function of DuckDB; in Spark a week begins with Sunday, which is 1."""

_FIELDS = {
    "year": ("YEAR", "YEARS", "YR", "YRS", "Y"),
    "quarter": ("QUARTER", "QTR"),
    "month": ("MONTH", "MON", "MONS", "MONTHS"),
    "weekofyear": ("WEEK", "WEEKS", "W"),
    "day": ("DAY", "D", "DAYS"),
    "1 + dayofweek": ("DAYOFWEEK", "DOW"),
    "isodow": ("DAYOFWEEK_ISO", "DOW_ISO"),
    "dayofyear": ("DOY",),
    "hour": ("HOUR", "H", "HOURS", "HR", "HRS"),
    "minute": ("MINUTE", "M", "MIN", "MINS", "MINUTES"),
    "second": ("SECOND", "S", "SEC", "SECONDS", "SECS"),
    "isoyear": ("YEAROFWEEK",),
}
_FIELD_OF = {name: part for part, names in _FIELDS.items() for name in names}
_TRUNC_UNITS = {
    **{u: "year" for u in ("YEAR", "YYYY", "YY")},
    **{u: "month" for u in ("MONTH", "MON", "MM")},
    **{u: "day" for u in ("DAY", "DD")},
    **{u: u.lower() for u in ("QUARTER", "WEEK", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}
_UNIT_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 7 * 86_400_000_000,
}
_UNIT_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MICROS = "epoch_us(a)"
_FLOOR = "(CASE WHEN {0} % {1} < 0 THEN {0} // {1} - 1 ELSE {0} // {1} END)"

for _name, _part in _PARTS.items():
    simple(f"{_name}(time) -> int", f"{_part}(a)")
_SIMPLE = {
    "unix_micros(timestamp) -> bigint": _MICROS,
    "unix_millis(timestamp) -> bigint": _FLOOR.format(_MICROS, 1000),
    "unix_seconds(timestamp) -> bigint": _FLOOR.format(_MICROS, 1_000_000),
    "unix_date(date) -> int": "a - DATE '1970-01-01'",
    "datediff(date, date) -> int": "a - b",
    "date_diff(date, date) -> int": "a - b",
    "date_add(date, integer) -> date": "a + CAST(b AS INTEGER)",
    "dateadd(date, integer) -> date": "a + CAST(b AS INTEGER)",
    "date_sub(date, integer) -> date": "a - CAST(b AS INTEGER)",
    "add_months(date, integer) -> date": "CAST(a + to_months(CAST(b AS INTEGER)) AS DATE)",
    "last_day(date) -> date": "last_day(a)",
    "make_date(integer, integer, integer) -> date": "make_date(a, b, c)",
    "dayname(date) -> string": "substring(dayname(a), 1, 3)",
    "monthname(date) -> string": "substring(monthname(a), 1, 3)",
}
_FAILING = ("date_add", "dateadd", "date_sub", "add_months", "make_date", "last_day")
for _signature, _template in _SIMPLE.items():
    simple(_signature, _template, fails=_signature.startswith(_FAILING))


def _instant(us: exp.Expr) -> exp.Expr:
    """A timestamp from a number of microseconds, NULL where it is outside of what int64 and DuckDB hold."""
    whole = exp.TryCast(this=us, to=duckdb_type_node("bigint"))
    return attempt(fill("CAST(make_timestamp(a) AS TIMESTAMPTZ)", a=whole))


@function("timestamp_millis(integer) -> timestamp", "timestamp_micros(integer) -> timestamp")
def from_integer(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    a = accepted(t, "integer", arguments[0], node.name)
    factor = 1000 if node.name.lower() == "timestamp_millis" else 1
    return t.made(node, _instant(fill(f"CAST(a AS HUGEINT) * {factor}", a=a)), "timestamp")


@function("timestamp_seconds(number) -> timestamp")
def from_seconds(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    value = t.number(t.value(arguments[0]), "TIMESTAMP_SECONDS")
    return converted(t, value, "timestamp", node)


@function("date_trunc(string, time) -> timestamp", "trunc(date, string) -> date")
def truncated(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name, result = node.name.upper(), "timestamp" if node.name.lower() == "date_trunc" else "date"
    place, what = arguments if result == "timestamp" else reversed(arguments)
    written = t.value(place)
    unit = _TRUNC_UNITS.get(written.node.name.upper()) if written.is_text else None
    if unit is None or (result == "date" and unit not in ("year", "quarter", "month", "week")):
        known = [
            u for u in _TRUNC_UNITS if result == "timestamp" or _TRUNC_UNITS[u] in ("year", "quarter", "month", "week")
        ]
        raise t.error(f"{name} does not know the unit {t.text.slice(place)}", place, f"units are {', '.join(known)}")
    value = t.value(what)
    value = time_literal(t, value, "timestamp", what) if value.is_text else value
    value = t.expect(value, TIMES, name, "a timestamp")
    call = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), coerce(value, "timestamp")])
    return t.made(node, call if result == "timestamp" else exp.Cast(this=call, to=duckdb_type_node("date")), result)


form("extract(field FROM time) -> int; decimal(8,6) for SECOND")


@rule(exp.Extract)
def extract(t: Translator, node: exp.Expr) -> Value:
    return _field(t, node, node.this, node.this.name, node.expression)


@function("date_part(string, time) -> int", "datepart(string, time) -> int")
def date_part(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    place = arguments[0]
    return _field(t, node, place, place.name if isinstance(place, exp.Literal) else "", arguments[1])


def _field(t: Translator, node: exp.Expr, place: exp.Expr, field: str, argument: exp.Expr) -> Value:
    """EXTRACT: whole numbers, but seconds with their fraction."""
    part = _FIELD_OF.get(field.upper())
    if part is None:
        known = ", ".join(names[0] for names in _FIELDS.values())
        message = f"{written_call(node)} does not know the field {field.upper() or t.text.slice(place)}"
        raise t.error(message, node, f"fields are {known}")
    if part == "second":
        a = accepted(t, "time", argument, "extract")
        text = fill("CAST(m // 1000000 AS VARCHAR) || '.' || lpad(CAST(m % 1000000 AS VARCHAR), 6, '0')",
                    m=fill("microsecond(a)", a=a))  # fmt: skip
        return t.made(node, exp.Cast(this=text, to=duckdb_type_node("decimal(8,6)")), "decimal(8,6)")
    a = accepted(t, "time", argument, "extract")
    return t.made(node, fill(f"CAST({part}(a) AS INTEGER)", a=a), "int")


@function(
    "timestampdiff(unit, time, time) -> bigint",
    "timestampadd(unit, integer, time) -> timestamp",
)
def by_unit(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    unit = arguments[0].name.upper() if isinstance(arguments[0], exp.Var) else ""
    if unit not in _UNIT_US and unit not in _UNIT_MONTHS:
        known = ", ".join((*_UNIT_US, *_UNIT_MONTHS))
        raise t.error(
            f"{written_call(node) or node.name.upper()} does not know the unit {unit or t.text.slice(arguments[0])}",
            node,
            f"units are {known}",
        )
    return (
        _difference(t, node, unit, arguments)
        if node.name.lower() == "timestampdiff"
        else _moved(t, node, unit, arguments)
    )


def _difference(t: Translator, node: exp.Expr, unit: str, arguments: list[exp.Expr]) -> Value:
    """Whole units between two times, cut towards zero."""
    a, b = (accepted(t, "time", n, "timestampdiff") for n in arguments[1:])
    if unit in _UNIT_US:
        return t.made(node, fill(f"(epoch_us(b) - epoch_us(a)) // {_UNIT_US[unit]}", a=a, b=b), "bigint")
    return t.made(node, fill(f"({_MONTHS}) // {_UNIT_MONTHS[unit]}", a=a, b=b), "bigint")


_EARLY = "CAST(b AS DATE) > CAST(a AS DATE) AND CAST(b AS TIME) < CAST(a AS TIME)"
_LATE = "CAST(b AS DATE) < CAST(a AS DATE) AND CAST(b AS TIME) > CAST(a AS TIME)"
_END = f"(CAST(b AS DATE) - CASE WHEN {_EARLY} THEN 1 WHEN {_LATE} THEN -1 ELSE 0 END)"
_DAYS = " - ".join(f"(year({x}) * 384 + month({x}) * 32 + day({x}))" for x in (_END, "a"))
_MONTHS = f"({_DAYS}) // 32"
"""Whole months from a to b: a last day that is not over does not count, nor a month whose day has not come."""


def _moved(t: Translator, node: exp.Expr, unit: str, arguments: list[exp.Expr]) -> Value:
    value = t.value(arguments[2])
    kind = "timestamp_ntz" if value.type == "timestamp_ntz" else "timestamp"
    n, a = accepted(t, "integer", arguments[1], "timestampadd"), accepted(t, "time", arguments[2], "timestampadd")
    if unit in _UNIT_US:
        by = fill(f"to_microseconds(CAST(n AS BIGINT) * {_UNIT_US[unit]})", n=n)
    else:
        by = fill(f"to_months(CAST(n * {_UNIT_MONTHS[unit]} AS INTEGER))", n=n)
    return t.made(node, attempt(exp.Cast(this=fill("a + b", a=a, b=by), to=duckdb_type_node(kind))), kind)


def _pattern(t: Translator, name: str, node: exp.Expr) -> str:
    value = t.value(node)
    if not value.is_text:
        raise t.error(f"{name} needs its format in quotes", node, "write a literal, such as 'yyyy-MM-dd HH:mm:ss'")
    return str(value.node.name)


def _read(t: Translator, name: str, form: exp.Expr, text: Value) -> exp.Expr:
    """The timestamp that a text is by a format."""
    fields, moment = parse_templates(t, form, _pattern(t, name, form))
    return fill_once(moment, fill(fields, a=text.node))


@function("date_format(time, format) -> string")
def date_format(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    template = format_template(t, arguments[1], _pattern(t, "DATE_FORMAT", arguments[1]))
    return t.made(node, fill_once(template, accepted(t, "time", arguments[0], "date_format")), "string")


@function("from_unixtime(integer, format = 'yyyy-MM-dd HH:mm:ss') -> string")
def from_unixtime(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    template = format_template(t, arguments[1], _pattern(t, "FROM_UNIXTIME", arguments[1]))
    a = accepted(t, "integer", arguments[0], "from_unixtime")
    moment = attempt(fill("make_timestamp(CAST(a AS BIGINT) * 1000000)", a=a))
    return t.made(node, fill_once(template, moment), "string")


@function(
    "to_timestamp(any, format...) -> timestamp",
    "try_to_timestamp(any, format...) -> timestamp",
    "to_date(any, format...) -> date",
    "try_to_date(any, format...) -> date",
)
def to_time(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """Text, or another time, as a date or timestamp; with a format as that says."""
    name = node.name.upper()
    kind = "date" if name.endswith("DATE") else "timestamp"
    value = t.value(arguments[0])
    if len(arguments) == 1:
        return converted(t, t.expect(value, ("string", *TIMES), name, "string"), kind, node)
    text = t.string(value, name)
    moment = _read(t, name, arguments[1], text)
    return t.made(node, exp.Cast(this=moment, to=duckdb_type_node(kind)), kind)


@function(
    "unix_timestamp(any, format = 'yyyy-MM-dd HH:mm:ss') -> bigint",
    "to_unix_timestamp(any, format = 'yyyy-MM-dd HH:mm:ss') -> bigint",
)
def unix_timestamp(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """Seconds since 1970, cut towards zero."""
    name = node.name.upper()
    value = t.expect(t.value(arguments[0]), ("string", *TIMES), name, "a timestamp or string")
    if value.type == "string":
        moment = _read(t, name, arguments[1], value)
    else:
        moment = exp.Cast(this=value.node, to=duckdb_type_node("timestamp_ntz"))
    return t.made(node, fill("epoch_us(a) // 1000000", a=moment), "bigint")
