"""Which expressions of a query are the event time of one of its streams, or the number that it is made of.

A stream whose TIMESTAMP BY is an expression has no column for its event time: a query writes the expression again, with
the alias of the stream. Two expressions are the same where they are translated to the same.
"""

from __future__ import annotations

from sqlglot import exp

from muntin.model import Side, SqlError, Stream
from muntin.model.types import INTEGERS
from muntin.sql.expressions import Expressions
from muntin.sql.places import SqlText
from muntin.sql.punctuate import StreamNames
from muntin.sql.sources import Names

EPOCHS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}
"""Functions of a number that give a time, and the microseconds that the number counts."""


class EventTimes:
    """The event times of the two streams of one query."""

    def __init__(self, text: SqlText, names: Names):
        self.text = text
        self.names = names
        self._written = any(source.stream.time_expr is not None for source in names.sides)

    @property
    def units_us(self) -> tuple[int | None, ...]:
        """What sums can count: times and intervals (None), or numbers of so many microseconds."""
        return (None, *EPOCHS.values()) if self._written else (None,)

    def side_of(self, node: exp.Expr) -> Side | None:
        """The side whose event time an expression is; None where it is none."""
        is_column = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier)
        used = self.names.used(node) if self._written or is_column else set()
        if len(used) != 1:
            return None
        side = next(iter(used))
        stream = self.names.sides[side].stream
        if stream.time_expr is not None:
            return side if self._translated(stream, node) == stream.time_expr.sql else None
        return side if isinstance(node, exp.Column) and self.names.resolve(node)[1].name == stream.time else None

    def counted(self, column: exp.Column) -> tuple[Side, int] | None:
        """The side whose event time is made of a column with a whole number, and the microseconds that it counts."""
        if not isinstance(column.this, exp.Identifier) or self.names.resolve(column)[1].type not in INTEGERS:
            return None
        for function, us in EPOCHS.items():
            side = self.side_of(exp.Anonymous(this=function, expressions=[column.copy()]))
            if side is not None:
                return side, us
        return None

    def _translated(self, stream: Stream, node: exp.Expr) -> str | None:
        """What an expression over one stream becomes in its CREATE STREAM, None where it is none there."""
        alone = exp.Paren(this=node.copy())
        for column in alone.find_all(exp.Column):
            column.set("table", None)
        columns = [(Side.LEFT.prefix + f.name, f.type) for f in stream.schema]
        try:
            return Expressions(self.text, StreamNames(self.text, stream.name, stream.schema), columns).value_sql(alone)
        except SqlError:
            return None
