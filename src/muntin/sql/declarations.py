"""The grammar of CREATE STREAM and CREATE TABLE."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from muntin.sql.casts import TYPES_HINT
from muntin.sql.tree import (
    ColumnType,
    CreateStream,
    CreateTable,
    EventTime,
    PunctuationClause,
    Unique,
    ValueFormatClause,
)
from muntin.sql.values import ValueParser


class DeclarationParser(ValueParser):
    def _parse_create_stream(self) -> CreateStream:
        name = self._parse_name("the stream's name")
        if not self._match(TokenType.L_PAREN):
            self._fail("expected ( and the stream's columns", f"write CREATE STREAM {name.name} (ts TIMESTAMP, ...)")
        clauses: dict[str, Any] = {}
        columns = [self._parse_column_type()]
        while self._match(TokenType.COMMA):
            if self._is_word("UNIQUE") and self._next and self._next.token_type == TokenType.L_PAREN:
                if "unique" in clauses:
                    self._fail("UNIQUE is given twice", "keep one of them")
                clauses["unique"] = self._parse_unique_columns()
            else:
                columns.append(self._parse_column_type())
        if not self._match(TokenType.R_PAREN):
            self._fail("expected , or ) after the column's type", "a column is a name and a type, nothing else")
        while self._curr:
            start = self._curr
            key, clause = self._parse_stream_clause()
            if key in clauses:
                self._fail_since(start, f"{start.text.upper()} is given twice", "keep one of them")
            clauses[key] = clause
        node: CreateStream = self.expression(CreateStream(this=name, expressions=columns, **clauses))
        return node

    def _parse_create_table(self) -> CreateTable:
        name = self._parse_name("the table's name")
        if not self._match(TokenType.L_PAREN):
            self._fail("expected ( and the table's columns", f"write CREATE TABLE {name.name} (id BIGINT, ...)")
        columns = [self._parse_column_type()]
        while self._match(TokenType.COMMA):
            columns.append(self._parse_column_type())
        if not self._match(TokenType.R_PAREN):
            self._fail("expected , or ) after the column's type", "a column is a name and a type, nothing else")
        options = self._parse_wrapped_csv(self._parse_option) if self._match(TokenType.WITH) else []
        if self._curr and self._curr.token_type != TokenType.SEMICOLON:
            self._fail(f"unexpected {self._curr.text}", "after the columns of a table comes WITH (...)")
        node: CreateTable = self.expression(CreateTable(this=name, expressions=columns, options=options))
        return node

    def _parse_column_type(self) -> ColumnType:
        name = self._parse_name("a column's name")
        kind = self._parse_types(allow_identifiers=False)
        if kind is None:
            hint = "write the column's name and type, such as v DOUBLE"
            if self._curr and self._curr.token_type == TokenType.VAR:
                self._fail(f"the type {self._curr.text} is not known", TYPES_HINT)
            self._fail(f"expected the type of column {name.name}", hint)
        metadata = self._parse_metadata(name) if self._match_text_seq("METADATA") else None
        node: ColumnType = self.expression(ColumnType(this=name, type=kind, metadata=metadata))
        return node

    def _parse_metadata(self, name: exp.Identifier) -> exp.Expr:
        """What the source calls a column that does not come out of the value."""
        if not self._match(TokenType.FROM):
            return name.copy()
        if not self._curr or self._curr.token_type != TokenType.STRING:
            self._fail("expected a name in quotes after FROM", f"write {name.name} STRING METADATA FROM 'key'")
        return self._parse_plain_value()

    def _parse_unique_columns(self) -> Unique:
        start = self._curr
        self._advance()
        return self._marked(start, Unique(expressions=self._parse_wrapped_csv(lambda: self._parse_name("a column"))))

    def _parse_punctuation(self) -> PunctuationClause:
        """The condition after PUNCTUATION WHEN, and what such a row is about."""
        start, when = self._prev, self._parse_disjunction()
        if when is None:
            self._fail("expected a condition after WHEN", "write PUNCTUATION WHEN closed")
        if not self._match_text_seq("FOR"):
            return self._marked(start, PunctuationClause(this=when))
        if self._match(TokenType.STAR):
            return self._marked(start, PunctuationClause(this=when, pattern="every"))
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            columns = self._parse_wrapped_csv(lambda: self._parse_name("a column"))
            return self._marked(start, PunctuationClause(this=when, columns=columns))
        columns, pattern, values = [self._parse_name("a column after FOR")], "own", []
        if self._match(TokenType.BETWEEN):
            low, joined, high = self._parse_bitwise(), self._match(TokenType.AND), self._parse_bitwise()
            if low is None or high is None or not joined:
                self._fail("the range has no two ends", "write FOR column BETWEEN low AND high")
            pattern, values = "range", [low, high]
        elif self._match(TokenType.IN):
            pattern, values = "list", self._parse_wrapped_csv(self._parse_bitwise)
        clause = PunctuationClause(this=when, columns=columns, pattern=pattern, expressions=values)
        return self._marked(start, clause)

    def _parse_stream_clause(self) -> tuple[str, Any]:
        if self._match_text_seq("TIMESTAMP", "BY"):
            return "time", self._parse_event_time()
        if self._match_text_seq("LATENESS"):
            return "lateness", self._parse_duration()
        if self._match_text_seq("IDLE"):
            if not self._match_text_seq("AFTER"):
                self._fail("expected AFTER and a duration after IDLE", "write IDLE AFTER 30 seconds")
            return "idle", self._parse_duration()
        if self._match_text_seq("RATE"):
            return "rate", self._parse_rate()
        if self._match_text_seq("PUNCTUATION"):
            if not self._match(TokenType.WHEN):
                self._fail("expected WHEN after PUNCTUATION", "write PUNCTUATION WHEN closed")
            return "punctuation", self._parse_punctuation()
        if self._match_text_seq("BINDING"):
            return "binding", self._parse_duration()
        if self._match_text_seq("VALUE", "FORMAT"):
            return "value", self._parse_value_format()
        if self._match(TokenType.WITH):
            return "options", self._parse_wrapped_csv(self._parse_option)
        hint = (
            "after the columns come TIMESTAMP BY column, LATENESS d, IDLE AFTER d, RATE n PER SECOND, PUNCTUATION WHEN "
            "condition, BINDING d, VALUE FORMAT name and WITH (...)"
        )
        self._fail(f"unexpected {self._curr.text}", hint)

    def _parse_event_time(self) -> exp.Expr:
        """A column, or an expression: the next clause begins with a word, which does not continue an expression."""
        following = self._next.text[:1] if self._next else ";"
        if (following.isalpha() or following in ";_") and not self._is_word("(", "CASE"):
            return self._parse_name("the event time's column")
        start, node = self._curr, self._parse_disjunction()
        if node is None:
            self._fail("expected the event time's column", "write TIMESTAMP BY ts, or TIMESTAMP BY timestamp_millis(t)")
        return self._marked(start, EventTime(this=node))

    def _parse_value_format(self) -> ValueFormatClause:
        start = self._prev
        if not self._curr or self._curr.token_type == TokenType.WITH:
            self._fail("expected a format after VALUE FORMAT", "write VALUE FORMAT JSON")
        name = self._parse_name("a format after VALUE FORMAT")
        has_options = self._curr and self._curr.token_type == TokenType.L_PAREN
        options = self._parse_wrapped_csv(self._parse_option) if has_options else []
        return self._marked(start, ValueFormatClause(this=name, expressions=options))
