# ruff: noqa: E501  (tables of templates)
"""Functions of texts and times, patterns, JSON, arrays, maps and structs over edge values, to compare with Spark."""

from __future__ import annotations

from collections.abc import Iterator

from .expressions import Term, column, same

_TEXTS = ("s", "n", "dt")
_OF_TEXTS = (
    "INITCAP({})", "REVERSE({})", "UCASE({})", "LCASE({})", "LPAD({}, 5, 'xy')", "LPAD({}, 5)", "RPAD({}, 5, 'é')", "RPAD({}, 2, '')",
    "LPAD({}, -1, 'x')", "LEFT({}, 2)", "LEFT({}, -1)", "RIGHT({}, 2)", "RIGHT({}, 0)", "LEFT({}, t)", "RIGHT({}, t)", "REPEAT({}, 3)",
    "REPEAT({}, -1)", "REPEAT({}, 0)", "INSTR({}, 'a')", "INSTR({}, '')", "INSTR({}, s)", "LOCATE('a', {})", "LOCATE('', {})",
    "LOCATE('0', {}, 3)", "LOCATE('a', {}, 0)", "LOCATE('', {}, 3)", "LOCATE(s, {}, 1)", "POSITION('b' IN {})", "POSITION('a', {}, 2)",
    "SPLIT_PART({}, '-', 1)", "SPLIT_PART({}, '-', -1)", "SPLIT_PART({}, '-', 9)", "SPLIT_PART({}, '', 1)", "SPLIT_PART({}, '', 2)",
    "SUBSTRING_INDEX({}, '-', 1)", "SUBSTRING_INDEX({}, '-', 2)", "SUBSTRING_INDEX({}, '-', -1)", "SUBSTRING_INDEX({}, '-', -9)", "SUBSTRING_INDEX({}, '-', 0)",
    "CONCAT_WS(',', {}, s, i)", "CONCAT_WS({}, 'a', 'b')", "CONCAT_WS('-', {})", "CONCAT_WS('-', NULL, {}, ok)", "TRANSLATE({}, 'aé0', 'x')", "TRANSLATE({}, 'aab', 'xyz')",
    "TRANSLATE({}, '', 'x')", "ASCII({})", "OCTET_LENGTH({})", "BIT_LENGTH({})", "CHAR_LENGTH({})", "CHARACTER_LENGTH({})", "LEN({})", "HEX({})", "MD5({})", "SHA1({})",
    "SHA2({}, 256)", "BTRIM({})", "BTRIM({}, ' a')", "LTRIM('a ', {})", "RTRIM('1', {})", "NVL2({}, 1, 2)", "ISNULL({})", "ISNOTNULL({})",
    "IFNULL({}, 'x')", "CAST({} AS BINARY)", "SPACE(3) || {}",
)  # fmt: skip


def texts() -> Iterator[Term]:
    """Functions of strings and of small numbers."""
    for template in _OF_TEXTS:
        yield from (same("string", template.format(name)) for name in _TEXTS)
    for name in ("t", "sm", "i", "b", "b2"):
        yield from (
            same("integer", template.format(name))
            for template in ("HEX({})", "~ {}", "{} & 5", "{} | b", "{} ^ t", "ISNAN({})")
        )
        yield same("string", f"CHR(CASE WHEN {name} % 256 <> 0 THEN {name} END)")
    for left in ("t", "i", "b", "b2"):
        for right in ("7", "-7", "t"):
            yield Term("integer", f"PMOD({left}, {right})", f"CASE WHEN {right} <> 0 THEN PMOD({left}, {right}) END")
    yield same("string", "CAST(CASE WHEN LENGTH(bin) < 3 THEN bin END AS STRING)")
    yield from (same("float", f"NANVL({name}, 5)") for name in ("f", "v"))


_TIMES = ("day", "ts", "ntz")
_FORMATS = (
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd''T''HH:mm:ss.SSS",
    "d/M/yy h:m:s a",
    "EEE, dd MMM yyyy",
    "EEEE MMMM D DDD",
    "HH:mm:ss.SSSSSSXXX",
    "y Q hh S X",
)
_FIELDS = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DAYOFWEEK",
    "DOW_ISO",
    "DOY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "YEAROFWEEK",
)
_OF_TIMES = (
    *(f"{name}({{}})" for name in ("QUARTER", "DAYOFWEEK", "WEEKDAY", "DAYOFYEAR", "WEEKOFYEAR", "LAST_DAY", "DAYNAME", "MONTHNAME", "TO_DATE")),
    *(f"EXTRACT({field} FROM {{}})" for field in _FIELDS), *(f"DATE_PART('{field}', {{}})" for field in _FIELDS),
    *(f"DATE_FORMAT({{}}, '{form}')" for form in _FORMATS),
    *(f"TRUNC({{}}, '{unit}')" for unit in ("YEAR", "QUARTER", "MM", "WEEK")),
    *(f"TIMESTAMPDIFF({unit}, {{}}, {other})" for unit in ("MICROSECOND", "SECOND", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR") for other in _TIMES),
    *(f"DATEDIFF({{}}, {other})" for other in _TIMES), "DATEDIFF({}, '2024-02-29')", "DATE_DIFF('2024-02-29', {})", "UNIX_TIMESTAMP({})", "TO_TIMESTAMP({})",
    *(f"{{}} - {other}" for other in ("ts", "ntz")), "{} - ts > INTERVAL 5 DAYS", "({} - ts) * 2", "({} - ts) / 7", "- ({} - ts)", "ABS({} - ts)",
    "({} - ts) + INTERVAL '1 02:03:04.5' DAY TO SECOND", "{} - ts BETWEEN INTERVAL '-1' HOUR AND INTERVAL 100 DAYS", "COALESCE({} - ts, ts - ntz)",
    "CAST({} - ts AS STRING)", "ts + ({} - TIMESTAMP '2000-01-01 00:00:00')",
)  # fmt: skip
_READ = {
    "yyyy-MM-dd": "'2024-02-29' '2024-2-9' '2023-02-29' ' 2024-02-20' '2024-02-20x' '+12024-01-01' '0000-01-01'",
    "yyyyMMdd": "'20240131' '2024013' '202401311'",
    "yyyy-MM-dd HH:mm:ss": "'2024-02-29 01:02:03' '2024-02-29 24:00:00' '2024-02-29 1:02:03'",
    "yyyy-MM-dd HH:mm:ss.SSS": "'2024-02-29 01:02:03.5' '2024-02-29 01:02:03.5678' '2024-02-29 01:02:03.'",
    "yyyy-MM-dd''T''HH:mm:ssXXX": "'2024-02-29T01:02:03Z' '2024-02-29T01:02:03+01:30' '2024-02-29T01:02:03-02:00' '2024-02-29T01:02:03+0100' '2024-02-29t01:02:03z'",
    "d/M/yyyy H:m": "'9/2/2024 1:2' '09/02/2024 01:02' '31/12/2024 23:59'",
    "dd/MMM/yyyy": "'31/Jan/2024' '01/DEC/2024' '31/Foo/2024'",
    "yy-MM-dd hh:mm a": "'24-02-29 11:02 PM' '24-02-29 12:02 am' '24-02-29 13:02 am' '99-01-01 12:00 pm'",
    "HH:mm": "'12:30' '2:30'",
    "yyyy-MM-dd[ HH:mm]": "'2024-02-29' '2024-02-29 01:02' '2024-02-29 01'",
}


def times() -> Iterator[Term]:
    """Functions of dates and timestamps, and of numbers and texts that become some."""
    for template in _OF_TIMES:
        yield from (same("time", template.format(name)) for name in _TIMES)
    for name in ("ts", "ntz"):
        yield from (same("integer", f"{f}({name})") for f in ("UNIX_MICROS", "UNIX_MILLIS", "UNIX_SECONDS"))
        for unit in ("MICROSECOND", "SECOND", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"):
            yield same("time", f"TIMESTAMPADD({unit}, -1, TIMESTAMP '2024-03-31 01:02:03')")
            yield same("time", f"TIMESTAMPADD({unit}, 13, CASE WHEN {name} < '9000-01-01' THEN {name} END)")
    for kind in ("bigint", "double", "decimal(20,6)", "int", "float", "decimal(12,2)", "smallint"):
        yield Term("integer", f"CAST(ts AS {kind})", f"try_cast(ts AS {kind})")
    for name in ("t", "sm", "i", "m", "d"):
        yield Term("time", f"CAST({name} AS TIMESTAMP)", f"CAST({name} AS TIMESTAMP)")
        yield same("time", f"TIMESTAMP_SECONDS({name})")
    yield from (same("time", f"TIMESTAMP_{unit}({name})") for unit in ("MILLIS", "MICROS") for name in ("t", "i"))
    yield from (
        same("time", f"CAST({x} AS TIMESTAMP)") for x in ("-1.5D", "1.9999999D", "1e9", "0.1D", "1700000000.123456D")
    )
    yield from (same("string", f"FROM_UNIXTIME({x})") for x in ("t", "i", "sm"))
    yield same("string", "FROM_UNIXTIME(i, 'dd.MM.yyyy')")
    yield from (Term("time", f"TO_{kind}(dt)", f"try_to_{kind}(dt)") for kind in ("DATE", "TIMESTAMP"))
    yield from (same("time", f"{name} {op} 5") for name in ("day",) for op in "+-")
    yield from (
        Term("time", f"DATE_{f}(day, {n})", f"DATE_{f}(day, {n})") for f in ("ADD", "SUB") for n in ("1", "-1", "t")
    )
    yield from (same("time", f"ADD_MONTHS({name}, {n})") for name in _TIMES for n in ("1", "-1", "12"))
    yield from (same("time", x) for x in ("MAKE_DATE(2024, 2, 29)", "day + INTERVAL 5 HOURS", "UNIX_DATE(day)"))
    for form, values in _READ.items():
        for text in values.split("' '"):
            literal = "'" + text.strip("'") + "'"
            yield Term("time", f"TO_TIMESTAMP({literal}, '{form}')", f"try_to_timestamp({literal}, '{form}')")
            if "X" not in form:
                yield Term("time", f"TO_DATE({literal}, '{form}')", f"try_to_date({literal}, '{form}')")
                yield Term(
                    "integer",
                    f"UNIX_TIMESTAMP({literal}, '{form}')",
                    f"unix_timestamp(try_to_timestamp({literal}, '{form}'))",
                )
    yield column("ts")


_PATTERNS = ("a", "^a", "a$", "[a-c]+", "(?i)A", "(?i)[a-m]{2}", "[^0-9]+", r"\\d+", r"\\s", r"\\S+", r"\\w+", ".", "(?s).", "(a|b)c?", "a|é", r"\\.", r"[\\s-]", "(?:0|1)+?", r"\\p{Lu}",
             r"\\u00e9", "^$", "é{1,2}", r"[\\w.]+-", "ß", "x*")  # fmt: skip
_NOT_EMPTY = tuple(p for p in _PATTERNS if p not in ("^$", "x*"))
_PATHS = ("$.a", "$.b", "$.c.d", "$.c.d[1]", "$.c.d[2].e", "$['a b']", "$[0]", "$[0].a", "$.x.y", "$.b.k")
_SCHEMAS = (
    "a INT, b STRING",
    "a STRING, c STRUCT<d: STRING>",
    "a DOUBLE",
    "a BOOLEAN, b BOOLEAN",
    "b BIGINT",
    "c STRUCT<d: INT>",
    "a STRING",
)


def others() -> Iterator[Term]:
    """Patterns, JSON, arrays, maps and structs."""
    for name in _TEXTS:
        yield from (same("boolean", f"{name} RLIKE '{p}'") for p in _PATTERNS)
        yield from (same("boolean", f"REGEXP_LIKE({name}, '{p}')") for p in _PATTERNS[:3])
        yield from (same("string", f"REGEXP_EXTRACT({name}, '{p}', 0)") for p in _NOT_EMPTY if not p.endswith("$"))
        yield from (same("string", f"REGEXP_REPLACE({name}, '{p}', '<$0>')") for p in _NOT_EMPTY)
        yield from (same("integer", f"REGEXP_COUNT({name}, '{p}')") for p in _NOT_EMPTY)
        yield from (same("string", f"REGEXP_SUBSTR({name}, '{p}')") for p in _NOT_EMPTY)
        yield from (same("array", f"SPLIT({name}, '{p}')") for p in _NOT_EMPTY)
        yield same("string", f"REGEXP_EXTRACT({name}, '([0-9]+)-([0-9]+)?', 2)")
        yield same("string", f"REGEXP_REPLACE({name}, '([0-9])([0-9])', r'$2\\$$1\\\\')")
        yield same("array", f"REGEXP_EXTRACT_ALL({name}, '([0-9])(.)', 2)")
    yield from (same("string", f'GET_JSON_OBJECT(js, "{path}")') for path in _PATHS)
    yield from (same("struct", f"FROM_JSON(js, '{schema}')") for schema in _SCHEMAS)
    yield from (same("integer", f"FROM_JSON(js, 'a INT, c STRUCT<d: INT>').{f}") for f in ("a", "c", "c.d"))
    for array in ("ar", "al"):
        yield from (same("any", f"{f}({array})") for f in ("SIZE", "CARDINALITY", "ARRAY_MAX", "ARRAY_MIN"))
        yield from (Term("any", f"{array}[{n}]", f"get({array}, {n})") for n in ("0", "1", "5", "t"))
        yield from (
            Term("any", f"ELEMENT_AT({array}, {n})", f"try_element_at({array}, {n})") for n in ("1", "-1", "-2", "9")
        )
        yield column(array)
    for item in ("2", "7", "t", "i"):
        yield from (same("any", f"{f}(ar, {item})") for f in ("ARRAY_CONTAINS", "ARRAY_POSITION"))
    yield from (
        same("any", x)
        for x in (
            "ARRAY_CONTAINS(al, s)",
            "ARRAY_JOIN(al, '-')",
            "ARRAY(i, t, 2.5)",
            "ARRAY(s, 'x')[0]",
            "SIZE(mp)",
            "MAP_KEYS(mp)",
            "MAP_VALUES(mp)",
        )
    )
    yield from (
        same("any", x)
        for x in (
            "mp['a']",
            "mp['z']",
            "mp[s]",
            "mp",
            "st",
            "st.a",
            "st.c.d",
            "st.b || 'x'",
            "st.c",
            "NAMED_STRUCT('x', i, 'y', st.c)",
            "st.c.d IS NULL",
            "ar IS NULL",
        )
    )
