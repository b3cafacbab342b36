"""The grammar of names, plain values and amounts: what the statements and clauses of a job file are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from muntin.model import UsageError
from muntin.sql.amounts import RATE_HINT, RATE_SECONDS, is_row_count, parse_rate
from muntin.sql.duration import DURATION_HINT, parse_duration_us
from muntin.sql.marking import MarkingParser
from muntin.sql.places import mark
from muntin.sql.tree import Duration, Into, Option, Rate

_T = TypeVar("_T")


class ValueParser(MarkingParser):
    def _parse_name(self, what: str) -> exp.Identifier:
        """Any word may be a name where nothing else can stand, keywords too: `CREATE QUERY all AS`."""
        token = self._curr
        hint = "write a name: letters, digits and _"
        if not token:
            self._fail(f"expected {what}", hint)
        quoted = token.token_type == TokenType.IDENTIFIER
        if not quoted and (
            token.token_type == TokenType.STRING or not (token.text[:1].isalpha() or token.text[:1] == "_")
        ):
            self._fail(f"expected {what}, found {token.text}", hint)
        self._advance()
        name = exp.Identifier(this=token.text, quoted=quoted)
        mark(name, token.start, token.end + 1)
        return name

    def _parse_plain_value(self) -> exp.Literal:
        """A string, number or word; its text as it stands, with `is_string` for what was quoted."""
        start = self._curr
        sign = "-" if self._match(TokenType.DASH) else ""
        if not self._curr or self._curr.token_type in (TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA):
            self._fail("expected a value", "write a string in quotes, a number, TRUE or FALSE", start)
        quoted = self._curr.token_type == TokenType.STRING
        text = self._curr.text
        self._advance()
        value = exp.Literal(this=sign + text, is_string=quoted)
        mark(value, start.start, self._prev.end + 1)
        return value

    def _parse_duration(self) -> Duration:
        start = self._curr
        text = self._parse_amount("a duration", DURATION_HINT)
        if is_row_count(text):
            self._fail_since(start, "rows are no duration", DURATION_HINT)
        return self._marked(start, Duration(us=self._read(start, parse_duration_us, text)))

    def _parse_amount(self, what: str, hint: str) -> str:
        """The text of `[INTERVAL] [-] number unit`; the tokens only bound it."""
        start = self._curr
        if not start:
            self._fail(f"expected {what}", hint)
        self._match(TokenType.INTERVAL)
        _ = self._match(TokenType.DASH) or self._match(TokenType.PLUS)
        glued = self._curr and self._curr.token_type == TokenType.VAR and self._curr.text[:1].isdigit()  # 1min
        if not glued and not (self._curr and self._curr.token_type in (TokenType.NUMBER, TokenType.STRING)):
            self._fail(f"expected {what}{', found ' + self._curr.text if self._curr else ''}", hint, start)
        amount = self._curr
        self._advance()
        if self._curr and self._curr.token_type == TokenType.DCOLON and self._curr.start == amount.start:  # 5s, 5d
            self._advance(2)
        elif not glued and not (amount.token_type == TokenType.STRING and any(c.isalpha() for c in amount.text)):
            if not self._curr or self._curr.token_type in (TokenType.R_BRACKET, TokenType.STRING, TokenType.NUMBER):
                self._fail(f"{what.replace('a ', 'the ', 1)} has no unit", hint, start)
            self._advance()
        return self.sql[start.start : self._prev.end + 1]

    def _read(self, start: Token, parse: Callable[[str], _T], text: str) -> _T:
        """The value of a text that ends here, its faults reported with its place."""
        try:
            return parse(text)
        except UsageError as error:
            self._fail_since(start, error.message, error.hint)

    def _parse_rate(self) -> Rate:
        """`n PER unit` after RATE."""
        start = self._curr
        _ = self._match(TokenType.DASH) or self._match(TokenType.PLUS)
        self._match(TokenType.DOT)  # .5 is two tokens
        if not self._match(TokenType.NUMBER):
            self._fail("expected a number of rows after RATE", RATE_HINT, start)
        rows = self._read(start, parse_rate, self.sql[start.start : self._prev.end + 1])
        if not self._match_text_seq("PER"):
            self._fail("expected PER after the number of rows", RATE_HINT)
        if not self._is_word(*RATE_SECONDS):
            what = f"{self._curr.text} is not a unit of a rate" if self._curr else "the rate has no unit"
            self._fail(what, RATE_HINT)
        seconds = RATE_SECONDS[self._curr.text.upper()]
        self._advance()
        return self._marked(start, Rate(per_second=rows / seconds))

    def _parse_option(self) -> Option:
        start = self._curr
        if self._match(TokenType.STRING):
            key = self._prev.text
        else:
            key = self._parse_name("an option's name").name
            while self._match(TokenType.DOT):
                key += "." + self._parse_name("an option's name").name
        node = exp.Literal.string(key)
        mark(node, start.start, self._prev.end + 1)
        if not self._match(TokenType.EQ):
            self._fail("expected = after the option's name", f"write {key} = 'value'")
        option: Option = self.expression(Option(this=node, expression=self._parse_plain_value()))
        return option

    def _parse_destination(self) -> Into:
        """The kind of a destination and its place, after INTO."""
        start, hint = self._prev, "write INTO DELTA 'file:///data/lake' before AS"
        kind = self._parse_name("a kind of destination after INTO")
        if not self._curr or self._curr.token_type != TokenType.STRING:
            self._fail(f"expected the place in quotes after {kind.name}", hint)
        place = self._parse_plain_value()
        options = self._parse_wrapped_csv(self._parse_option) if self._match(TokenType.WITH) else None
        return self._marked(start, Into(this=kind, expression=place, options=options))
