"""Formats of dates and timestamps (`yyyy-MM-dd HH:mm:ss`): what each letter prints, and what it reads.

Both are made of one walk over the pattern. Letters that this table does not have are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from muntin.sql.translate import Translator

_PART = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|''|[^A-Za-z']")
_ERA = "(CASE WHEN year(a) > 0 THEN year(a) ELSE 1 - year(a) END)"
_HALF = "(1 + (hour(a) + 11) % 12)"
_MICROS = "(microsecond(a) % 1000000)"
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_OFFSET = r"Z|[+-]\d{2}:\d{2}"


def _padded(number: str, size: int) -> str:
    text = f"CAST({number} AS VARCHAR)"
    return f"lpad({text}, CAST(greatest({size}, length({text})) AS INTEGER), '0')" if size > 1 else text


def _year(size: int) -> str:
    return f"CASE WHEN {_ERA} >= {10**size} THEN '+' ELSE '' END || {_padded(_ERA, size)}"


def _printed(letters: str) -> str | None:
    """DuckDB's text of what letters print for a timestamp `a`; None for letters that are not known."""
    letter, size = letters[0], len(letters)
    numbers = {"M": "month(a)", "d": "day(a)", "H": "hour(a)", "h": _HALF, "m": "minute(a)", "s": "second(a)"}
    if letter in numbers and size <= 2:
        return _padded(numbers[letter], size)
    if letter == "D" and size <= 3:
        return _padded("dayofyear(a)", size)
    if letter == "S" and size <= 6:
        return f"substring({_padded(_MICROS, 6)}, 1, {size})"
    fixed = {
        "y": f"CAST({_ERA} AS VARCHAR)",
        "yy": _padded(f"({_ERA} % 100)", 2),
        "yyyy": _year(4),
        "MMM": "substring(monthname(a), 1, 3)",
        "MMMM": "monthname(a)",
        **{"E" * n: "substring(dayname(a), 1, 3)" for n in (1, 2, 3)},
        "EEEE": "dayname(a)",
        "a": "CASE WHEN hour(a) < 12 THEN 'AM' ELSE 'PM' END",
        "X": "'Z'",
        "XXX": "'Z'",
        "Q": "CAST(quarter(a) AS VARCHAR)",
    }
    return fixed.get(letters)


_READ = {
    "yyyy": ("year", r"\d{4}|\+\d{5,6}"),
    "yyy": ("year", r"\d{3,6}"),
    "y": ("year", r"\d{1,6}"),
    "yy": ("century", r"\d{2}"),
    "MMM": ("name", "|".join(_MONTHS)),
    "SSS": ("fraction", r"\d{1,3}"),
    "a": ("half", "AM|PM"),
    "XXX": ("zone", _OFFSET),
}
_TENS = {"H": "[01]", "m": "[0-5]", "s": "[0-5]"}
_READ_NUMBERS = {"M": "month", "d": "day", "H": "hour", "h": "twelve", "m": "minute", "s": "second"}


def _read(letters: str) -> tuple[str, str] | None:
    """The field that letters read, and its form; None for letters that are not known."""
    if letters[0] in _READ_NUMBERS and len(letters) <= 2:
        tens = _TENS.get(letters[0], r"\d")
        one = rf"{tens}\d" if len(letters) == 2 else rf"{tens}?\d"
        return _READ_NUMBERS[letters[0]], f"{one}|2[0-3]" if letters[0] == "H" else one
    if letters[0] == "S" and len(letters) <= 9:
        return "fraction", rf"\d{{1,{len(letters)}}}"
    return _READ.get(letters)


def _parts(t: Translator, node: exp.Expr, pattern: str) -> Iterator[tuple[str, str]]:
    """Letters, and the texts between them: ("letters", "yyyy"), ("text", "-")."""
    at = 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        if found is None:
            raise t.error("the format has a ' without an end", node, "write '' for a quotation mark")
        if found[1]:
            yield "letters", found[0]
        else:
            yield "text", "'" if found[0] == "''" else (found[0] if found[2] is None else found[2].replace("''", "'"))
        at = found.end()


def _unknown(t: Translator, node: exp.Expr, letters: str, known: str) -> Exception:
    return t.text.refuse(f"{letters} in the format of a time", node, f"letters are {known}")


def format_template(t: Translator, node: exp.Expr, pattern: str) -> str:
    """DuckDB's text of the timestamp `a` as a pattern prints it."""
    parts = []
    for kind, part in _parts(t, node, pattern):
        if kind == "text" and part in "[]{}#":
            raise _unknown(t, node, part, "printed always: no brackets")
        printed = _printed(part) if kind == "letters" else "'" + part.replace("'", "''") + "'"
        if printed is None:
            raise _unknown(
                t, node, part, "yyyy yy M MM MMM MMMM d dd D DDD H HH h hh m mm s ss S-SSSSSS a E EEEE X XXX Q"
            )
        parts.append(f"({printed})")
    return f"CASE WHEN a IS NOT NULL THEN {' || '.join(parts) or repr('')} END"


def parse_templates(t: Translator, node: exp.Expr, pattern: str) -> tuple[str, str]:
    """DuckDB's texts of the fields that a pattern finds in a text `a`, and of the timestamp that such fields `a` are.

    That is NULL where the text does not have the pattern's form.
    """
    form = ""
    groups: dict[str, int] = {}
    for kind, part in _parts(t, node, pattern):
        read = _read(part) if kind == "letters" else None
        if read is not None and read[0] not in groups:
            groups[read[0]] = len(groups) + 1
            form += f"({read[1]})"
        elif kind == "letters":
            known = "yyyy yy M MM MMM d dd H HH h hh m mm s ss S-SSSSSSSSS a XXX, each once"
            raise _unknown(t, node, part, known)
        elif part in "[]":
            form += "(?:" if part == "[" else ")?"
        else:
            form += "".join(c if c.isalnum() or c == " " else f"\\x{{{ord(c):x}}}" for c in part)
    names = ", ".join(f"'{name}'" for name in ("_all", *groups))
    return f"regexp_extract(a, '(?i)^({form})$', [{names}])", _moment(groups)


def _moment(groups: dict[str, int]) -> str:
    def text(field: str) -> str:
        return f"nullif(struct_extract(a, '{field}'), '')"

    def number(field: str, missing: str) -> str:
        return f"coalesce(CAST({text(field)} AS INTEGER), {missing})" if field in groups else missing

    year = f"2000 + {number('century', '-30')}" if "century" in groups else number("year", "1970")
    month = number("month", "1")
    if "name" in groups:
        month = f"(position(lower({text('name')}) IN '{''.join(_MONTHS).lower()}') + 2) // 3"
    hour = number("hour", "0")
    if "twelve" in groups:
        twelve = number("twelve", "0")
        late = f"CASE WHEN upper({text('half')}) = 'PM' THEN 12 ELSE 0 END" if "half" in groups else "0"
        hour = f"CASE WHEN {twelve} BETWEEN 1 AND 12 THEN {twelve} % 12 + {late} END"
    clock = f"{hour}, {number('minute', '0')}, {number('second', '0')}"
    moment = f"make_timestamp({year}, {month}, {number('day', '1')}, {clock})"
    if "fraction" in groups:
        moment += f" + to_microseconds(coalesce(CAST(substring(rpad({text('fraction')}, 6, '0'), 1, 6) AS INTEGER), 0))"
    if "zone" in groups:
        moment += _zone(text("zone"))
    return f"CASE WHEN struct_extract(a, '_all') <> '' THEN TRY({moment}) END"


def _zone(text: str) -> str:
    """What an offset such as +01:00 takes away; none where it is Z."""
    sign = f"CASE WHEN {text}[1] = '-' THEN 1 ELSE -1 END"
    seconds = f"coalesce(TRY_CAST({text}[2:3] AS INTEGER) * 3600 + TRY_CAST({text}[5:6] AS INTEGER) * 60, 0)"
    return f" + to_seconds({sign} * {seconds})"
