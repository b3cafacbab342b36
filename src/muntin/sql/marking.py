"""Spark's parser, with the extent of every expression in the text (`places.mark`), stricter where sqlglot is patient.

Faults are reported with their place and a hint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from muntin.sql.calls import CallParser
from muntin.sql.places import Span, mark

MAX_NESTING = 25
"""How deep expressions may nest: the parser takes about 18 Python frames for each level."""


E = TypeVar("E", bound=exp.Expr)


class GrammarError(ParseError):
    """A parse error that knows its extent and a hint; a ParseError, so that sqlglot's own backtracking still works."""

    def __init__(self, message: str, span: Span, hint: str | None = None):
        super().__init__(message)
        self.description = message
        self.span = span
        self.hint = hint


def marking(parse: Callable[[Any], tuple[str, Any]]) -> Callable[[Any], tuple[str, Any]]:
    """A query modifier's parser that marks the clause from its keyword on, so that a refusal points there."""

    def parse_and_mark(parser: Any) -> tuple[str, Any]:
        start = parser._curr.start
        key, node = parse(parser)
        for item in node if isinstance(node, list) else [node]:
            if isinstance(item, exp.Expr):
                mark(item, start, parser._prev.end + 1)
        return key, node

    return parse_and_mark


class MarkingParser(CallParser):
    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Any]] = {
        token: marking(parse) for token, parse in CallParser.QUERY_MODIFIER_PARSERS.items()
    }

    def reset(self) -> None:
        super().reset()
        self._nesting = 0

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        at = token or self._curr or self._prev
        span = Span(at.start, at.end + 1) if at else Span(0, 0)
        if not token and not self._curr:
            span = Span(span.end, span.end)  # something is missing after the last token
        message, hint = self.not_in_form() or (message, None)
        raise GrammarError(message, span, hint)

    def _warn_unsupported(self) -> None:
        """What sqlglot cannot parse is refused by name later; no warning on the way."""

    def _fail(self, message: str, hint: str, start: Token | None = None) -> NoReturn:
        first, last = start or self._curr or self._prev, self._curr or self._prev
        raise GrammarError(message, Span(first.start, last.end + 1), hint)

    def _is_word(self, *words: str) -> bool:
        return bool(self._curr) and self._curr.token_type != TokenType.STRING and self._curr.text.upper() in words

    def _fail_since(self, start: Token, message: str, hint: str | None) -> NoReturn:
        """Point from `start` to the last token that was read."""
        raise GrammarError(message, Span(start.start, self._prev.end + 1), hint)

    def _marked(self, start: Token, instance: E) -> E:
        node: E = self.expression(instance)
        mark(node, start.start, self._prev.end + 1)
        return node

    def _parse_statement(self) -> exp.Expr | None:
        start = self._curr
        statement = super()._parse_statement()
        if statement is not None and start:
            mark(statement, start.start, self._prev.end + 1)
        return statement

    # expressions

    def expression(self, instance: Any, token: Token | None = None, comments: list[str] | None = None) -> Any:
        node = super().expression(instance, token, comments)
        if isinstance(node, exp.Distinct) and self._prev:
            mark(node, self._prev.start, self._prev.end + 1)
        return node

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr
        node = super()._parse_select(*args, **kwargs)
        if node is not None and start and self._prev.end >= start.start:
            mark(node, start.start, self._prev.end + 1)
        return node

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr
        if self._is_word("ARRAY", "MAP", "STRUCT") and self._next and self._next.token_type == TokenType.L_PAREN:
            return None  # a function; sqlglot would take its arguments for parts of a type
        node = super()._parse_types(*args, **kwargs)
        if isinstance(node, exp.DataType) and start:
            mark(node, start.start, self._prev.end + 1)
        return node

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """sqlglot would take `ARRAY(1, 2)[0]` for `ARRAY[0]`."""
        node: exp.Expr | None = super()._parse_bracket(
            exp.Paren(this=this) if isinstance(this, exp.Anonymous) else this
        )
        return node.this if isinstance(node, exp.Paren) and node.this is this else node

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """As sqlglot's, without its patience for commas that separate nothing."""
        items: list[Any] = []
        while True:
            item = parse_method()
            if item is None and (items or (self._curr and self._curr.token_type == sep)):
                self._fail("something is missing beside the comma", "take the comma out, or add what is missing")
            if item is None:
                return items
            items.append(item)
            if not self._match(sep):
                return items

    def _parse_case(self) -> exp.Expr | None:
        start, index = self._prev, self._index
        node = super()._parse_case()
        words = [t.token_type for t in self._tokens[index : self._index]]
        if words.count(TokenType.WHEN) != words.count(TokenType.THEN):  # sqlglot does not insist on THEN
            self._fail("a WHEN without THEN", "write CASE WHEN condition THEN value ELSE value END", start)
        return node

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        node = super()._parse_alias(this, explicit)
        if node is this and self._prev.token_type == TokenType.ALIAS:
            self._fail("AS without a name", "write expression AS name", self._prev)
        return node

    def _parse_unary(self) -> exp.Expr | None:
        start = self._curr
        self._nesting += 1
        try:
            if self._nesting > MAX_NESTING:
                self._fail(f"nested more than {MAX_NESTING} levels deep", "write it flatter, or as several queries")
            node = super()._parse_unary()
        finally:
            self._nesting -= 1
        if node is not None and start and self._prev.end >= start.start:
            mark(node, start.start, self._prev.end + 1)
        return node

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = True) -> exp.Expr | None:
        start = self._curr
        node = super()._parse_range(this, parse_is)
        if node is not None and this is None and start and self._prev.end >= start.start:
            mark(node, start.start, self._prev.end + 1)
        return node
