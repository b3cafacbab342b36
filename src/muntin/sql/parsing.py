"""From the text of a job to its statements as trees; whatever sqlglot raises becomes one message with a place."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token

from muntin.model import SqlError
from muntin.sql.dialect import Muntin, MuntinParser, UnknownStatement
from muntin.sql.foreign import foreign_window
from muntin.sql.marking import GrammarError
from muntin.sql.places import Span, SqlText
from muntin.sql.tree import CreateStream, EventTime

MAX_TEXT = 1_000_000
"""Bytes of a whole text."""
MAX_STATEMENT = 200_000
"""Bytes of one statement."""
STATEMENTS = "a job file has SET, CREATE STREAM, CREATE TABLE, CREATE QUERY and DROP QUERY"


def only_statement(sql: SqlText, message: str, hint: str) -> exp.Expr:
    """The one statement of a text; of several, the second is pointed at."""
    statements = statements_of(sql, hint)
    if len(statements) != 1:
        raise sql.error(message, statements[1] if statements else None, hint)
    return statements[0]


def statements_of(sql: SqlText, expected: str = STATEMENTS) -> list[exp.Expr]:
    """The statements of a text; whatever sqlglot raises becomes one message with a place.

    `expected` is the hint where what stands there is no statement at all.
    """
    if len(sql.text.encode(errors="replace")) > MAX_TEXT:
        raise sql.error(f"the text is longer than {MAX_TEXT:,} bytes", None, "split the job")
    dialect = Muntin()
    parser = dialect.parser()
    try:
        tokens = dialect.tokenize(sql.text)
        _check_sizes(sql, tokens)
        if (foreign := foreign_window(sql, tokens)) is not None:
            raise foreign
        found = parser.parse(tokens, sql.text)
    except SqlError:
        raise
    except TokenError as error:
        raise _token_error(sql, error) from error
    except UnknownStatement as error:
        raise sql.error(error.description, error.span, error.hint or expected) from error
    except GrammarError as error:
        hint = error.hint or _hint(sql, error.span)
        raise sql.error(_message(sql, error), error.span, hint) from error
    except ParseError as error:
        raise sql.error(str(error).splitlines()[0], None, expected) from error
    except RecursionError as error:
        raise too_deep(sql) from error
    except Exception as error:  # sqlglot stumbles over some malformed texts
        token = parser._curr or parser._prev
        span = Span(token.start, token.end + 1) if token else None
        raise sql.error("this cannot be read", span, expected) from error
    return [s for s in found if s is not None and not isinstance(s, exp.Semicolon)]


def too_deep(sql: SqlText) -> SqlError:
    return sql.error("the text is nested too deeply", None, "write it flatter, or as several queries")


def _check_sizes(sql: SqlText, tokens: list[Token]) -> None:
    ends = [token.end + 1 for n, token in enumerate(tokens, 1) if token.text == ";" or n == len(tokens)]
    starts = [0, *ends][: len(ends)]
    for start, end in zip(starts, ends, strict=True):
        if len(sql.text[start:end].encode(errors="replace")) > MAX_STATEMENT:
            first = next(token for token in tokens if token.start >= start)
            hint = "write shorter lists and fewer conditions, or several queries"
            at = Span(first.start, first.end + 1)
            raise sql.error(f"the statement is longer than {MAX_STATEMENT:,} bytes", at, hint)


def _message(sql: SqlText, error: GrammarError) -> str:
    if error.description.startswith("Invalid expression"):
        before = sql.text[: error.span.start].split()
        if before and before[-1].upper() == "WINDOW":
            return "something is missing before WINDOW"
        return f"unexpected {sql.slice(error.span)}"
    if error.description.startswith("Expecting"):
        return error.description.replace("Expecting", "expected").rstrip(".")
    if error.description.startswith("Required keyword"):
        return "something is missing here"
    return error.description.rstrip(".")


def _hint(sql: SqlText, span: Span) -> str:
    """What to do about an error of sqlglot's own, which has no hint."""
    word = sql.slice(span)
    if word.startswith('"'):
        return f"double quotes make a text; a name stands in backticks: `{word.strip(chr(34))}`"
    if not word:
        return "something is missing at the end"
    return f"look at and before {word!r}: a comma, bracket, quote or semicolon may be missing"


def _token_error(sql: SqlText, error: TokenError) -> SqlError:
    found = re.match(r"Missing (\S+) from \d+:(\d+)", str(error.__cause__ or error))
    if found is None:
        span = Span(max(sql.text.rfind("/*"), 0), len(sql.text))
        return sql.error("this comment does not end", span, "close it with */")
    start = min(int(found[2]), max(len(sql.text) - 1, 0))
    what = {"*/": "comment", "`": "quoted name"}.get(found[1], "string")
    line_end = sql.text.find("\n", start)
    span = Span(start, line_end if line_end > start else len(sql.text))
    return sql.error(f"this {what} does not end", span, f"close it with {found[1]}")


def event_time_of(sql: SqlText) -> EventTime:
    """An expression that gives the event time, alone."""
    found = only_statement(sql, "expected one expression", "write timestamp_millis(t), to_timestamp(s) or the like")
    return EventTime(this=found)


def promises_of(sql: SqlText, stream: str) -> CreateStream:
    """The promises of a stream alone, as they stand in its CREATE STREAM."""
    try:
        return MuntinParser(dialect=Muntin()).parse_promises(Muntin().tokenize(sql.text), sql.text, stream)
    except GrammarError as error:
        raise sql.error(_message(sql, error), error.span, error.hint or _hint(sql, error.span)) from error
    except TokenError as error:
        raise _token_error(sql, error) from error
