"""The grammar: Spark's dialect of sqlglot plus the statements and clauses of a job file.

    SET name = value
    CREATE STREAM name (column type [METADATA [FROM 'name']], ..., [UNIQUE (column, ...)])
      TIMESTAMP BY column | expression [LATENESS d] [IDLE AFTER d] [RATE n PER SECOND]
      [PUNCTUATION WHEN condition [FOR * | FOR column [BETWEEN x AND y | IN ([x, ...])]]] [BINDING d]
      [VALUE FORMAT name [(option = 'value', ...)]] WITH (option = 'value', ...)
    CREATE TABLE name (column type, ...) WITH (option = 'value', ...)
    CREATE [OR REPLACE] QUERY name [INTO kind 'place' [WITH (option = 'value', ...)]]
      [FROM BEGINNING | SINCE 'time'] AS
      [WITH name AS (subquery), ...]
      SELECT [DISTINCT] expression [AS name], * [EXCEPT (column, ...)], ...
      FROM item, item, ... | item join item ON condition [join item ON condition ...]
           | item join item USING (column, ...) | item
      [, Table [alias] | [LEFT] JOIN Table [alias] ON item.column = Table.column ...]
      [WHERE condition | exists | range] [GROUP BY expression | name | position, ...] [HAVING condition]
      [WINDOW d | WINDOW n ROWS | WINDOW UNTIL expression, ... [AT MOST d]] [ORDER BY expression [DESC], ... LIMIT n]
      [EMIT CHANGES | EMIT FINAL | EVERY d]
    DROP QUERY name

    item:     Stream or query ['['RANGE d']' | '['ROWS n']' | '['NOW']'] [alias] | (subquery) alias
    subquery: SELECT column [AS name], ... | * [EXCEPT (column, ...)] FROM item [WHERE condition]
    join:     [INNER] JOIN | LEFT [OUTER] JOIN | RIGHT [OUTER] JOIN | FULL [OUTER] JOIN
              | [LEFT] SEMI JOIN | [LEFT] ANTI JOIN | ASOF [LEFT] JOIN
    exists:   [NOT] EXISTS (SELECT * FROM item [WHERE condition] [WINDOW d])
    range:    B.ts BETWEEN A.ts - interval AND A.ts + interval | B.ts < A.ts + interval
              | B.ts - A.ts <= interval | B.ts >= timestampadd(HOUR, n, A.ts)
    interval: INTERVAL 5 MINUTES | INTERVAL '5' MINUTE | INTERVAL '1 day 2 hours'
              | INTERVAL '0 00:10:00' DAY TO SECOND | make_dt_interval(0, 1, 30, 0)

Here is only form. What the language has but this version does not (`IF EXISTS`, ...) is recognised here when no tree
could hold it, and refused by name. Expressions are those of Spark (sql/marking.py), CREATE STREAM and
CREATE TABLE are read by sql/declarations.py, names, values and amounts are read
by sql/values.py, and the nodes for what is ours are in sql/tree.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from muntin.sql.amounts import is_row_count, parse_rows
from muntin.sql.declarations import DeclarationParser
from muntin.sql.duration import parse_duration_us
from muntin.sql.instant import SINCE_HINT, parse_instant_us
from muntin.sql.marking import GrammarError, marking
from muntin.sql.places import Span, did_you_mean, mark
from muntin.sql.tree import (
    AskedPast,
    CreateQuery,
    CreateStream,
    DropQuery,
    Duration,
    Emit,
    RowCount,
    SetOption,
    StreamRef,
    Until,
)
from muntin.sql.values import ValueParser

_STATEMENTS = ("SELECT", "WITH", "CREATE", "DROP", "SET")
_LATER = "leave it out for now"
WINDOW_HINT = "write WINDOW 1 min or WINDOW 100 ROWS"
UNTIL_HINT = "write WINDOW UNTIL A.expires AT MOST 12 hours"


class UnknownStatement(GrammarError):
    """A statement that there is not; what could stand in its place, the reader of the text knows."""


class MuntinParser(DeclarationParser):
    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {  # after a condition, FOR says what a punctuation is about
        token: parse for token, parse in ValueParser.RANGE_PARSERS.items() if token != TokenType.FOR
    }
    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **ValueParser.QUERY_MODIFIER_PARSERS,
        TokenType.WINDOW: marking(lambda self: ("windows", self._parse_window_clause())),
    }

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        statements = super().parse(raw_tokens, sql)
        if self._index < self._tokens_size:  # sqlglot stops at a statement that starts with ELSE
            self.raise_error("Unexpected token")
        return statements

    def parse_promises(self, raw_tokens: list[Token], sql: str, name: str) -> CreateStream:
        """The promises of a stream alone, as they stand in its CREATE STREAM."""

        def parse(parser: Any) -> CreateStream:
            clauses: dict[str, Any] = {}
            while parser._curr:
                start = parser._curr
                if parser._is_word("UNIQUE"):
                    key, clause = "unique", parser._parse_unique_columns()
                else:
                    key, clause = parser._parse_stream_clause()
                if key in clauses or key not in ("unique", "punctuation", "binding"):
                    parser._fail_since(start, f"unexpected {start.text}", "promises are UNIQUE, PUNCTUATION, BINDING")
                clauses[key] = clause
            return CreateStream(this=exp.to_identifier(name), expressions=[], **clauses)

        (found,) = self._parse(parse, raw_tokens, sql)
        assert isinstance(found, CreateStream)
        return found

    def _refuse(self, what: str, hint: str = _LATER, start: Token | None = None) -> NoReturn:
        self._fail(f"{what} is not supported yet", hint, start)

    # statements

    def _parse_statement(self) -> exp.Expr | None:
        start = self._curr
        if start and start.token_type == TokenType.VAR and self._next and self._next.token_type == TokenType.VAR:
            hint = did_you_mean(start.text, _STATEMENTS, "")
            raise UnknownStatement(f"{start.text} does not begin a statement", Span(start.start, start.end + 1), hint)
        return super()._parse_statement()

    def _parse_set(self, unset: bool = False, tag: bool = False) -> Any:
        name = self._parse_name("a setting after SET")
        if not self._match(TokenType.EQ):
            self._fail("expected = after the setting's name", f"write SET {name.name} = value")
        return self.expression(SetOption(this=name, expression=self._parse_plain_value()))

    def _parse_create(self) -> Any:
        if self._match_text_seq("STREAM"):
            return self._parse_create_stream()
        if self._match_text_seq("QUERY"):
            return self._parse_create_query()
        if self._match_text_seq("TABLE"):
            return self._parse_create_table()
        if self._match_text_seq("OR", "REPLACE"):
            if self._match_text_seq("QUERY"):
                return self._parse_create_query(replace=True)
            self._fail("only queries can be replaced", "write CREATE OR REPLACE QUERY name AS SELECT ...")
        what = f"CREATE {self._curr.text.upper()}" if self._curr else "CREATE"
        at = self._curr or self._prev
        raise UnknownStatement(f"{what} is not a statement here", Span(at.start, at.end + 1))

    def _parse_drop(self, exists: bool = False, kind: str | None = None) -> Any:
        if self._match_text_seq("QUERY"):
            if self._is_word("IF") and self._next and self._next.text.upper() == "EXISTS":
                self._refuse("DROP QUERY IF EXISTS", "name a query that exists")
            return self.expression(DropQuery(this=self._parse_name("the query's name")))
        self._fail("only queries can be dropped", "write DROP QUERY name")

    def _parse_create_query(self, replace: bool = False) -> CreateQuery:
        if self._is_word("IF") and self._next and self._next.text.upper() == "NOT":
            self._refuse("IF NOT EXISTS")
        name = self._parse_name("the query's name")
        into = self._parse_destination() if self._match(TokenType.INTO) else None
        history = self._parse_history(name.name)
        if not self._match(TokenType.ALIAS):
            self._fail("expected AS after the query's name", f"write CREATE QUERY {name.name} AS SELECT ...")
        start = self._curr
        select = self._parse_ddl_select()
        if select is None:
            self._fail("expected SELECT", f"write CREATE QUERY {name.name} AS SELECT ...")
        mark(select, start.start, self._prev.end + 1)
        clauses = {"replace": replace, "into": into, "history": history}
        node: CreateQuery = self.expression(CreateQuery(this=name, expression=select, **clauses))
        return node

    def _parse_history(self, name: str) -> AskedPast | None:
        """What of the streams' past a query asks for."""
        start = self._curr
        if self._match(TokenType.FROM):
            if not self._match_text_seq("BEGINNING"):
                self._fail("expected BEGINNING after FROM", f"write CREATE QUERY {name} FROM BEGINNING AS SELECT ...")
            return self._marked(start, AskedPast())
        if not self._match_text_seq("SINCE"):
            return None
        if not self._curr or self._curr.token_type != TokenType.STRING:
            self._fail("expected a time in quotes after SINCE", SINCE_HINT)
        at = self._curr
        self._advance()
        return self._marked(start, AskedPast(us=self._read(at, parse_instant_us, at.text)))

    # aggregates

    def _parse_query_modifiers(self, this: Any) -> Any:
        """sqlglot's own in any order, then when to send rows."""
        this = super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select) and self._is_word("EMIT", "EVERY"):
            this.set("emit", self._parse_emit())
        return this

    def _parse_emit(self) -> Emit:
        start = self._curr
        if self._match_text_seq("EMIT"):
            if self._match_text_seq("CHANGES"):
                return self._marked(start, Emit())
            if self._match_text_seq("FINAL"):
                return self._marked(start, Emit(final=True))
        if not self._match_text_seq("EVERY"):
            hint = "write EMIT CHANGES, EMIT FINAL or EVERY 10 seconds"
            self._fail("expected CHANGES, FINAL or EVERY after EMIT", hint)
        duration = self._parse_duration()
        if duration.args["us"] <= 0:
            self._fail_since(start, "EVERY must be longer than zero", "write a positive duration, such as 10 seconds")
        return self._marked(start, Emit(us=duration.args["us"]))

    # windows

    def _parse_window_clause(self) -> list[exp.Expr] | None:
        """`WINDOW d`, `WINDOW n ROWS`, `WINDOW UNTIL x`; `WINDOW w AS (...)` stays sqlglot's and is refused when the
        query is bound."""
        if self._next and self._next.text.upper() == "UNTIL":
            return [self._parse_until()]
        named = self._next and self._next.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        if named and not self._next.text[:1].isdigit():
            return super()._parse_window_clause()
        self._match(TokenType.WINDOW)
        start = self._curr
        text = self._parse_amount("a window", WINDOW_HINT)
        if is_row_count(text):
            return [self._marked(start, RowCount(rows=self._read(start, parse_rows, text)))]
        return [self._marked(start, Duration(us=self._read(start, parse_duration_us, text)))]

    def _parse_until(self) -> Until:
        """The times until when rows wait, and how long that is at most."""
        self._advance()
        start = self._curr
        self._advance()
        nothing = self._is_word("AT") and self._next and self._next.text.upper() == "MOST"
        times = [] if nothing else self._parse_csv(self._parse_disjunction)
        if not times:
            self._fail("expected a time after UNTIL", UNTIL_HINT)
        at_most = None
        if self._match_text_seq("AT"):
            if not self._match_text_seq("MOST"):
                self._fail("expected MOST after AT", UNTIL_HINT)
            at_most = self._parse_duration()
        return self._marked(start, Until(expressions=times, at_most=at_most))

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        """sqlglot reads a comma as CROSS JOIN, and swallows errors after it."""
        start = self._curr
        if self._match(TokenType.COMMA):
            join: exp.Join | None = self.expression(exp.Join(this=self._parse_table(alias_tokens=alias_tokens)))
        else:
            join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
        if join is not None:
            mark(join, start.start, self._prev.end + 1)
        return join

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if not (self._next and self._next.token_type == TokenType.L_BRACKET):
            plain: exp.Expr | None = super()._parse_table(*args, **kwargs)
            return plain
        name = self._parse_name("a stream's name")
        start = self._curr
        self._advance()
        window = self._parse_stream_window()
        if not self._match(TokenType.R_BRACKET):
            self._fail("expected ] after the window", "write Stream [RANGE 12 HOURS] alias")
        mark(window, start.start, self._prev.end + 1)
        table: StreamRef = self.expression(StreamRef(this=name, range=window))
        if not self._is_word("EMIT", "EVERY"):
            table.set("alias", self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS))
        return table

    def _parse_stream_window(self) -> Duration | RowCount:
        start = self._curr
        if self._match_text_seq("NOW"):
            return self._marked(start, Duration(us=1))
        if self._match_text_seq("RANGE"):
            return self._parse_duration()
        if self._match_text_seq("ROWS"):
            return self._parse_stream_rows()
        if self._is_word("PARTITION BY"):
            self._refuse("a window of PARTITION BY", "write [RANGE d], [ROWS n] or [NOW]")
        self._fail("expected RANGE, ROWS or NOW", "write Stream [RANGE 12 HOURS] alias or Stream [ROWS 100] alias")

    def _parse_stream_rows(self) -> RowCount:
        """The number after `[ROWS`."""
        start = self._curr
        _ = self._match(TokenType.DASH) or self._match(TokenType.PLUS)
        if not self._match(TokenType.NUMBER):
            self._fail("expected a number of rows", "write Stream [ROWS 100] alias", start)
        text = self.sql[start.start : self._prev.end + 1]
        return self._marked(start, RowCount(rows=self._read(start, parse_rows, f"{text} ROWS")))


class Muntin(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']  # Spark 4: a doubled quote is a quote

    Parser = MuntinParser
