"""The page docs/sql.md, made of the tables that the SQL itself reads: grammar, functions, settings and limits.

python -m muntin.sql.reference > docs/sql.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from muntin.formats import FORMATS
from muntin.model.types import TYPES
from muntin.plan.functions import AGGREGATES, AggregateFunction
from muntin.sql import dialect
from muntin.sql.bind import MAX_OUTPUTS
from muntin.sql.function_table import FORMS, FUNCTIONS, SqlFunction
from muntin.sql.marking import MAX_NESTING
from muntin.sql.names import MAX_NAME
from muntin.sql.parsing import MAX_STATEMENT, MAX_TEXT
from muntin.sql.relations import MAX_DERIVED
from muntin.sql.settings import GROUPS, SETTINGS, Setting
from muntin.sql.top import MAX_LIMIT

COMMAND = "python -m muntin.sql.reference > docs/sql.md"
_INTRODUCTION = f"""\
# SQL reference

This page is made of the code: `{COMMAND}`.
[guide.md](guide.md) explains by example, [semantics.md](semantics.md) says what a correct
answer is, and [expressions.md](expressions.md) where expressions differ from Spark's."""
_CONDITIONS = """\
FROM has one item where WHERE has an `exists`, else two, or more, up to 8. A query of the job is an
item, too; its event time is `_ts`. Of more than two items, windows are of time, and only the last
join may be another than an inner one. A `range` compares the two event times, in
ON or, of an inner join, in WHERE; with both ends it takes the place of WINDOW. An as-of join takes
no USING, and its ON has to say `A.ts >= B.ts` or `A.ts > B.ts`. AND joins several of them.

A table is joined to one stream by equalities with its columns, in ON or, without LEFT, in WHERE;
each of its keys has one row ([guide.md](guide.md)).

UNTIL takes a timestamp of one stream, or of each: rows wait until that time of their own. AT MOST
is the window of both streams. It may be left out where the stream has a RANGE, or a `range` bounds
it.

Where TIMESTAMP BY is an expression, queries write it with the alias: `timestamp_millis(B.t) <
timestamp_millis(A.t) + INTERVAL 1 HOUR`. Of `timestamp_seconds`, `timestamp_millis` and
`timestamp_micros` of a column of whole numbers, the numbers do, too: `B.t < A.t + 3600000`."""
_VALUES = """\
Values of messages, for `VALUE FORMAT`. A column with `METADATA` does not come out of the value: it
is what the source itself calls so, as `key`, `timestamp`, `offset` or `headers.NAME`
([sources.md](sources.md))."""
_SHOWN = ("bigint", "double", "decimal(10,2)", "string", "timestamp", "boolean")
"""The types for which the results of aggregates are shown."""
_FAMILIES = {
    "Structs, arrays and maps": {"array", "map", "struct"},
    "Times": {"date", "time", "timestamp", "timestamp_ntz", "unit"},
    "Texts and bytes": {"string", "text", "binary", "bytes"},
    "Numbers": {"number", "double", "integer", "int", "bigint"},
}
"""What a function is about: the first of these that one of its parameters or its result is."""
_OTHERS = "Choices and others"


def reference() -> str:
    """The whole page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from (_INTRODUCTION, "", "## Statements", "", "```", *_grammar(), "```", "", _CONDITIONS, "")
    yield from ("Durations are `5 s`, `250 milliseconds`, `1 min`, `12 hours`, `1 day`. Types of columns:", "")
    yield from ("```", *_wrapped([*TYPES, "decimal(p,s)", "array<t>", "map<k,v>", "struct<f:t>"]), "```", "")
    yield from (_VALUES, "", *_table(("format", "options", "is written, too"), _formats()), "")
    yield from ("## Functions", "", "`= x` is what stands for an argument that is left out, `...` repeats one.", "")
    for family in (*_FAMILIES, _OTHERS):
        yield from (f"### {family}", "", *_table(("function", "result"), _functions(family)), "")
    yield from ("### With a grammar of their own", "", *_table(("function", "result"), _forms()), "")
    yield from ("## Aggregates", "", *_table(("aggregate", "of what, and the result"), _aggregates()), "")
    yield from ("## Settings", "", "`SET name = value;`")
    for group, title in GROUPS.items():
        header = ("setting", "values", "default", "what it does")
        yield from ("", f"### {title[0].upper()}{title[1:]}", "", *_table(header, _settings(group)))
    yield from ("", "## Limits", "", *_table(("of", "at most"), _limits()), "")


def _grammar() -> list[str]:
    """The indented part of what the grammar says of itself."""
    block = re.search(r"^    .*?(?=^\w)", dialect.__doc__ or "", re.DOTALL | re.MULTILINE)
    assert block is not None
    return [line[4:] for line in block[0].rstrip().splitlines()]


def _wrapped(words: Iterable[str]) -> list[str]:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 90:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _functions(family: str) -> list[tuple[str, ...]]:
    found = [f for f in FUNCTIONS.values() if _family(f) == family]
    return [(f"`{f.signature}`", f.result) for f in sorted(found, key=lambda f: f.name)]


def _family(function: SqlFunction) -> str:
    words = {re.split(r"\W", kind)[0] for kind in (*(p.kind for p in function.parameters), function.result)}
    return next((family for family, kinds in _FAMILIES.items() if kinds & words), _OTHERS)


def _forms() -> list[tuple[str, ...]]:
    return [(f"`{form}`", result) for form, result in sorted({"cast(value AS type)": "the type", **FORMS}.items())]


def _aggregates() -> list[tuple[str, ...]]:
    return [(", ".join(f"`{n}`" for n in f.sql_names), _results(f)) for f in AGGREGATES if f.sql_names]


def _results(function: AggregateFunction) -> str:
    """`bigint: bigint, double: double`, for the types that it takes."""
    taken = [kind for kind in _SHOWN if function.refusal(kind, final=False) is None]
    results = {kind: function.result_type(kind) for kind in taken}
    if set(taken) == set(_SHOWN) and len(set(results.values())) == 1:
        return f"anything: {next(iter(results.values()))}"
    return ", ".join(f"{kind}: {result}" for kind, result in results.items())


def _settings(group: str) -> list[tuple[str, ...]]:
    chosen = [setting for setting in SETTINGS if setting.group == group]
    return [(f"`{s.name}`", s.kind.form, _default(s), s.description) for s in chosen]


def _default(setting: Setting) -> str:
    if isinstance(setting.default, bool):
        return "on" if setting.default else "off"
    return "none" if setting.default is None else str(setting.default)


def _formats() -> list[tuple[str, ...]]:
    return [
        (
            f"`{name.upper()}`",
            "; ".join(f"`{option}`: {said}" for option, said in kind.options.items()) or "none",
            "yes" if kind.writes else "no",
        )
        for name, kind in FORMATS.items()
    ]


def _limits() -> list[tuple[str, ...]]:
    return [
        ("a whole text", f"{MAX_TEXT:,} bytes"),
        ("a statement", f"{MAX_STATEMENT:,} bytes"),
        ("nested parentheses, calls and subqueries", f"{MAX_NESTING} levels"),
        ("subqueries of FROM and common table expressions", f"{MAX_DERIVED} in a query"),
        ("columns of a SELECT list", f"{MAX_OUTPUTS:,}"),
        ("`LIMIT`", f"{MAX_LIMIT:,}"),
        ("a name", f"{MAX_NAME} characters"),
    ]


if __name__ == "__main__":
    print(reference(), end="")
