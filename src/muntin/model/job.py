"""What a job is: streams, queries over pairs of them, and settings.

Time is int64 microseconds everywhere inside; it is converted once at each door (SQL text, source, Parquet).
Left and right are values (`Side`), so that nothing is written twice for the two streams of a join. Which stream of a
query is left follows the order in which streams are declared, not the order in FROM: `A, B` and `B, A` share one join.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Literal

from muntin.model.comparison import Comparison
from muntin.model.copies import QueryCopy
from muntin.model.destination import Destination
from muntin.model.join_graph import JoinGraph
from muntin.model.lookup import DimensionTable, Lookup, united
from muntin.model.punctuation import Punctuation
from muntin.model.settings import DEFAULT_SETTINGS, Settings
from muntin.model.types import Schema
from muntin.model.values import ValueFormat


class Side(IntEnum):
    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> Side:
        return Side.LEFT if self else Side.RIGHT

    @property
    def prefix(self) -> str:
        """How an expression names a column of this side: `l.Value`, `r.Value` (one identifier, dot included)."""
        return "lr"[self] + "."


@dataclass(frozen=True)
class Stream:
    """An append-only sequence of rows with an event time; `options` go to Spark's readStream as they are."""

    name: str
    schema: Schema
    time: str
    """The column with the event time, or the text of the expression that gives it."""
    lateness_us: int = 0
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None
    """Rows per second to expect, where the job declares it."""
    idle_us: int | None = None
    """After so long without rows, in processing time, it no longer holds others back; None: it always does."""
    punctuation: Punctuation | None = None
    unique: tuple[str, ...] = ()
    """Columns whose values together come once."""
    binding_us: int | None = None
    """For how long a promise binds; None: for the longest window that the stream is joined with."""
    time_expr: Expr | None = None
    """What gives the event time, over the columns of a left side; None where a column has it."""
    value: ValueFormat | None = None
    """How its columns come out of the source's `value`; None where the source has them."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Columns that do not come out of the value, and what the source calls them."""
    derived: bool = False
    """Whether it is the output of a query of the job."""
    called: str = ""
    """What people call it, where nobody named the query: `A x B`."""
    lookups: tuple[Lookup, ...] = ()
    """What its rows look up in tables; `schema` has these columns after its own."""

    @property
    def own(self) -> Schema:
        """The columns that it declares."""
        return Schema(self.schema.fields[: len(self.schema) - sum(len(lookup.fields) for lookup in self.lookups)])

    @property
    def label(self) -> str:
        """Its name, or what is joined in it."""
        return f"({self.called})" if self.called else self.name

    def looking_up(self, lookups: Iterable[Lookup]) -> Stream:
        """The stream with all that is looked up for it, beside what it looks up already."""
        mine = united((*self.lookups, *(lookup for lookup in lookups if lookup.stream == self.name)))
        fields = (*self.own, *(column for lookup in mine for column in lookup.fields))
        return self if mine == self.lookups else replace(self, schema=Schema(fields), lookups=mine)


@dataclass(frozen=True)
class Expr:
    """A scalar expression over the columns of one or both sides of a join.

    `sql` is in the evaluator's dialect (DuckDB) over columns named `"l.Value"` and `"r.Value"`, and has passed the
    whitelist. `text` is what the user wrote, for EXPLAIN and messages. `left` and `right` are the columns used.
    `conjuncts` are the parts of a selection, all of which must be true; () where it was not taken apart.
    """

    sql: str
    type: str
    text: str
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    conjuncts: tuple[Comparison | Expr, ...] = ()

    def columns(self, side: Side) -> tuple[str, ...]:
        return (self.left, self.right)[side]

    @property
    def column(self) -> tuple[Side, str] | None:
        """Side and name where the expression is nothing but a column."""
        for side in Side:
            names = self.columns(side)
            if len(names) == 1 and self.sql == f'"{side.prefix}{names[0]}"':
                return side, names[0]
        return None


@dataclass(frozen=True)
class KeyPair:
    """One equality of the join key: `left = right`, both compared in `type`."""

    left: Expr
    right: Expr
    type: str

    def side(self, side: Side) -> Expr:
        return (self.left, self.right)[side]

    def is_either(self, value: Expr) -> bool:
        """Whether an expression is the one of both sides that is there: `COALESCE(left, right)`, in one type."""
        sides = [re.escape(side.sql) for side in (self.left, self.right)]
        left, right = (rf"(?:{sql}|CAST\({sql} AS [^()]+(?:\([^()]+\))?\))" for sql in sides)
        either = rf"COALESCE\((?:{left}, {right}|{right}, {left})\)"
        return value.type == self.type and re.fullmatch(either, value.sql) is not None


@dataclass(frozen=True)
class ValueRange:
    """What a condition over both streams says of two values, one of each: `right - left` lies in `[low, high]`.

    The values are numbers, or times in microseconds. Where a condition is true, this holds up to rounding, so that rows
    in order of their values need not all be looked at; None where there is no end. `rounding` is the part of a value
    by which it may be off.
    """

    left: Expr
    right: Expr
    low: float | None
    high: float | None
    rounding: float

    def side(self, side: Side) -> Expr:
        return (self.left, self.right)[side]

    @property
    def axis(self) -> tuple[str, str]:
        """What is put in order on each side."""
        return self.left.sql, self.right.sql


class Axis(StrEnum):
    """What the age of a row is measured in: microseconds of event time, or rows of its stream that came after it."""

    TIME = "time"
    ROWS = "rows"


@dataclass(frozen=True)
class Window:
    """The ages at which the earlier row of a pair is still met: `[start, end)` on the axis of its stream.

    `left` and `right` are the ends, 0 where a row of that stream can only be the later one. A row of the left stream
    counts as the earlier one of two rows with equal times.
    """

    left: int
    right: int
    axes: tuple[Axis, Axis] = (Axis.TIME, Axis.TIME)
    starts: tuple[int, int] = (0, 0)

    def side(self, side: Side) -> int:
        return (self.left, self.right)[side]

    @property
    def spans_zero(self) -> bool:
        """Whether rows with equal event times can meet."""
        return self.starts == (0, 0) and self.left > 0 and self.right > 0


class JoinKind(StrEnum):
    """What a query makes of the matches of a row.

    `pairs`: each match is a row. `semi`: a row of the `subject` goes out once, at its first match. `anti`: no match
    goes out. `asof`: of the matches of a row of the `subject` that are not later, the latest one goes out.
    """

    PAIRS = "pairs"
    SEMI = "semi"
    ANTI = "anti"
    ASOF = "asof"


@dataclass(frozen=True)
class Call:
    """One aggregate: a function over an expression of the pairs; without one (`COUNT(*)`) over the pairs themselves.

    `function` is its name among the functions that there are (`plan.functions`).
    """

    function: str
    arg: Expr | None
    type: str
    text: str


@dataclass(frozen=True)
class Order:
    """One part of ORDER BY."""

    expr: Expr
    descending: bool
    nulls_first: bool

    @property
    def text(self) -> str:
        usual = self.nulls_first != self.descending
        return self.expr.text + " DESC" * self.descending + ("" if usual else f" NULLS {self._nulls}")

    @property
    def _nulls(self) -> str:
        return "FIRST" if self.nulls_first else "LAST"


RANK = "_rank"
"""The place of a pair among the first of its group."""


@dataclass(frozen=True)
class Top:
    """The `limit` first of a group's live pairs by `order`, then by `columns`, the SELECT list over the pair.

    The query's own SELECT list has them as `"t.0"`, `"t.1"`, ..., and `"_rank"`.
    """

    limit: int
    order: tuple[Order, ...]
    columns: tuple[Expr, ...]


@dataclass(frozen=True)
class Aggregation:
    """What a query makes of its live pairs, or of all its rows (semantics, section 7).

    The SELECT list and `having` are expressions over `"g.0"`, `"g.1"`, ... (the groups) and `"a.0"`, ... (the calls).
    `every_us` None: a row at every change; else one per group at each multiple of it. `final`: one per group in all,
    over all that the query would write without an aggregation, when there can be no more of it.
    """

    groups: tuple[Expr, ...]
    calls: tuple[Call, ...]
    having: Expr | None = None
    every_us: int | None = None
    final: bool = False
    top: Top | None = None

    @property
    def emits_changes(self) -> bool:
        """Whether a row goes out where it differs from the one before."""
        return self.every_us is None and not self.final


@dataclass(frozen=True)
class Output:
    """One column of a SELECT list."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Query:
    """A window join of two streams (semantics, section 2).

    `where[side]` is the conjunction of the selections on that side alone, `residual` that of the other conditions that
    are not equalities of the key; None where there is none. Two rows match where all of these hold. With an
    `aggregation` the answer is made of groups of them, else it is the pairs.

    A row of a side in `preserved` for which `where` holds and that has no match goes out once with NULLs for the
    other side. `after` is a condition on what would go out: a match, or such a row with its NULLs.
    """

    name: str
    left: str
    right: str
    keys: tuple[KeyPair, ...]
    window: Window
    select: tuple[Output, ...]
    where: tuple[Expr | None, Expr | None] = (None, None)
    residual: Expr | None = None
    text: str = ""
    aggregation: Aggregation | None = None
    kind: JoinKind = JoinKind.PAIRS
    subject: Side | None = None
    """The side that a semi, anti or as-of join is about."""
    preserved: tuple[Side, ...] = ()
    after: Expr | None = None
    into: Destination | None = None
    """Where its rows go; None for the output of the job."""
    from_beginning: bool = False
    """Whether it has rows of all that its streams have brought, also where it comes while a job runs."""
    since_us: int | None = None
    """The least output timestamp that it asks for; None for all."""
    lookups: tuple[Lookup, ...] = ()
    """What it wants of tables."""
    ranges: tuple[ValueRange, ...] = ()
    """Of a join without an equality: what `residual` says of two values, in the order of the text."""
    until: tuple[Expr | None, Expr | None] = (None, None)
    """For each side a time of each of its rows, until when the row waits; at most for the window. NULL: for that."""
    inputs: tuple[Query, ...] = ()
    """The joins below, where it is one of more than two streams: each reads the one before it (`model/derived.py`)."""
    guard: Expr | None = None
    """What the inputs select, said of a row of the left side: for an input that selects less, since others share it."""
    hidden: bool = False
    """Whether nobody named it: it is the input of others, and none of its rows goes out. `text` is then its streams."""
    graph: JoinGraph | None = None
    """Of a query over more than two streams: these, what links them, and the order in which they are joined."""
    as_written: Query | None = None
    """The same query joined in the order of the text, where that is another one: it says what the query means."""
    copy: QueryCopy | None = None

    def stream(self, side: Side) -> str:
        return (self.left, self.right)[side]

    def fixes_key(self, values: Iterable[Expr]) -> bool:
        """Whether equal values mean the same join key, so that they come together in one shard only."""
        given = list(values)
        return bool(self.keys) and all(any(self.is_key(pair, value) for value in given) for pair in self.keys)

    def is_key(self, pair: KeyPair, value: Expr) -> bool:
        """Whether an expression is a part of the key in all rows that go out, also in those without a match."""
        always = [pair.side(side).sql for side in Side if side.other not in self.preserved]
        return value.sql in always or pair.is_either(value)

    @property
    def is_inner(self) -> bool:
        """Whether its matches are its answer."""
        return self.kind is JoinKind.PAIRS and not self.preserved and self.after is None

    @property
    def needs_all_matches(self) -> bool:
        """Whether its rows follow from all matches of a row or of a group, so that these must come together."""
        return self.final or not self.is_inner

    def emitted_after(self, side: Side) -> int:
        """How long after its own time a row of a preserved side goes out that has no match."""
        return 0 if self.kind is JoinKind.ASOF else self.window.side(side)

    def emitted_at_own_end(self, side: Side) -> bool:
        """Whether a row of a preserved side that has no match goes out at the end of a window of its own."""
        return side in self.preserved and self.until[side] is not None and self.emitted_after(side) > 0

    @property
    def emitted_at_its_time(self) -> bool:
        """Whether a row may be answered at its own time, with rows of the same time or with their absence."""
        return self.kind is JoinKind.ASOF or any(self.emitted_after(side) == 0 for side in self.preserved)

    @property
    def final(self) -> bool:
        return self.aggregation is not None and self.aggregation.final

    @property
    def looks_at_live_pairs(self) -> bool:
        return self.aggregation is not None and not self.aggregation.final

    @property
    def grouped_by_key(self) -> bool:
        return self.aggregation is not None and self.fixes_key(self.aggregation.groups)


@dataclass(frozen=True)
class JobSpec:
    """A whole job file after parsing and checking, in the order of the text."""

    streams: Mapping[str, Stream] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    settings: Settings = DEFAULT_SETTINGS
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What the reader of the text should be told, though nothing is wrong."""
    tables: Mapping[str, DimensionTable] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What one statement does to the queries of a running job; `query` is the new one, None where one is dropped."""

    kind: Literal["add", "replace", "drop"]
    name: str
    query: Query | None = None
