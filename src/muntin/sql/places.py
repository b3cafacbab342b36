"""Where things stand in a SQL text, and errors that point there.

Positions are the character offsets that sqlglot's tokens carry; the dialect (`dialect.py`) writes the extent of every
expression into the node's `meta`, where sqlglot itself keeps only that of names and literals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp

from muntin.model import Place, SqlError


@dataclass(frozen=True)
class Span:
    """Characters `[start, end)` of a text."""

    start: int
    end: int


@dataclass(frozen=True)
class SqlText:
    """A text with the name of the file it came from: every error of the front end is made here."""

    text: str
    source: str | None = None

    def place(self, span: Span) -> Place:
        """Lines are counted as `str.splitlines` does, because that is how an error is shown."""
        before = (self.text[: span.start] + "x").splitlines()
        return Place(len(before), len(before[-1]), max(1, span.end - span.start))

    def error(self, message: str, at: Span | exp.Expr | None, hint: str) -> SqlError:
        span = at if isinstance(at, Span) else span_of(at) if at is not None else None
        place = self.place(span or Span(0, 0))
        return SqlError(message, text=self.text, place=place, source=self.source, hint=hint)

    def refuse(self, what: str, at: Span | exp.Expr | None, hint: str) -> SqlError:
        """For what the language has but this version does not."""
        return self.error(f"{what} is not supported yet", at, hint)

    def where(self, at: exp.Expr) -> str:
        """The file and line of something, for a sentence about it."""
        line = self.place(span_of(at) or Span(0, 0)).line
        return f"{self.source}:{line}" if self.source else f"line {line}"

    def slice(self, at: Span | exp.Expr) -> str:
        span = at if isinstance(at, Span) else span_of(at)
        return self.text[span.start : span.end] if span else ""


def mark(node: exp.Expr, start: int, end: int) -> None:
    """Write the extent `[start, end)` of a node into it; sqlglot's own `end` is inclusive."""
    node.meta["start"] = start
    node.meta["end"] = end - 1


def span_of(node: exp.Expr) -> Span | None:
    """The extent of a node: its own, or else that of all below it."""
    if "start" in node.meta:
        return Span(node.meta["start"], node.meta["end"] + 1)
    found = [(n.meta["start"], n.meta["end"]) for n in node.walk() if "start" in n.meta]
    return Span(min(s for s, _ in found), max(e for _, e in found) + 1) if found else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str, cutoff: float = 0.6) -> str:
    """A hint that names the closest known name, or `otherwise`."""
    by_lower = {k.lower(): k for k in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return f"did you mean {by_lower[close[0]]}?" if close else otherwise


def listing(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
