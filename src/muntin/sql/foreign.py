"""Windows as other systems write them, answered with what to write here.

Flink's and RisingWave's `TUMBLE`, `HOP` and `SESSION`, Spark's `window` and `session_window`, and ksqlDB's `WITHIN` and
`WINDOW TUMBLING (...)` are recognised by their words, wherever they stand.
"""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

from muntin.model import SqlError, UsageError
from muntin.sql.duration import parse_duration_us
from muntin.sql.places import Span, SqlText

_STARTS = ("TUMBLE_START", "TUMBLE_END", "HOP_START", "HOP_END")
_CUT = {"TUMBLE", "TUMBLING", "HOP", "HOPPING", "CUMULATE", "WINDOW", *_STARTS}
_SESSIONS = {"SESSION", "SESSION_WINDOW", "SESSION_START", "SESSION_END"}
_WITHIN = (TokenType.NUMBER, TokenType.STRING, TokenType.L_PAREN, TokenType.INTERVAL)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)['\"]?\s*([A-Za-z]+)")


def foreign_window(sql: SqlText, tokens: list[Token]) -> SqlError | None:
    """The error for the first window of another system, None where there is none."""
    for n, token in enumerate(tokens[:-1]):
        word, following = token.text.upper(), tokens[n + 1]
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or (n and tokens[n - 1].text == "."):
            continue
        if word == "WITHIN" and following.token_type in _WITHIN:
            return _within(sql, _span(tokens, n, 2))
        named = n and tokens[n - 1].text.upper() in ("STREAM", "QUERY")
        if following.token_type == TokenType.L_PAREN and not named and word in _CUT | _SESSIONS:
            return _cut(sql, word, _span(tokens, n, 1))
    return None


def _span(tokens: list[Token], first: int, words: int) -> Span:
    """From a word to the end of what follows it: a pair of parentheses, or as many words."""
    depth, last = 0, min(first + words, len(tokens) - 1)
    if tokens[first + 1].token_type == TokenType.L_PAREN:
        for last in range(first + 1, len(tokens)):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[last].token_type, 0)
            if not depth:
                break
    return Span(tokens[first].start, tokens[last].end + 1)


def _cut(sql: SqlText, word: str, span: Span) -> SqlError:
    if word in _SESSIONS:
        hint = "WINDOW 5 min at the end of the query lets each row wait for five minutes, however many others come"
        return sql.error(f"{word}: there are no windows of sessions", span, hint)
    sizes = _durations(sql.slice(span)) or ["5 min"]
    hint = f"end the query with WINDOW {sizes[-1]} EVERY {sizes[0]}: every {sizes[0]}, what lies within {sizes[-1]}"
    return sql.error(f"{word}(...) is not how a window is written here", span, hint)


def _within(sql: SqlText, span: Span) -> SqlError:
    sizes = _durations(sql.slice(span)) or ["5 min"]
    hint = f"end the query with WINDOW {sizes[-1]}"
    if len(sizes) > 1:
        hint = "give each stream a window: FROM A [RANGE 5 min] JOIN B [RANGE 1 min] ON A.k = B.k"
    return sql.error("WITHIN is not how a window is written here", span, hint)


def _durations(text: str) -> list[str]:
    """The durations in a text, as they are written, the shortest first."""
    found: dict[str, int] = {}
    for number, unit in _DURATION.findall(text):
        try:
            found[f"{number} {unit.lower()}"] = parse_duration_us(f"{number} {unit}")
        except UsageError:
            continue
    return sorted(found, key=found.__getitem__)
