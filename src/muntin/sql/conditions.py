"""Which condition of ON and WHERE goes where.

A condition decides what is a *match* if it stands in ON, or in WHERE of an inner join. There, an equality of something
of one stream with something of the other is part of the join key; a comparison of the event times with a constant
offset is a window; one on a single stream is a selection of that stream, unless the stream is preserved: then a row
that fails it has no match, but goes out. Any other one is checked on each pair (`Query.residual`).

In WHERE of the other joins a condition on the stream that the join is about is a selection, too. Any other one is
asked of what would go out, with its NULLs (`Query.after`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from muntin.model import Expr, JoinKind, KeyPair, Side, common_type
from muntin.sql.event_times import EventTimes
from muntin.sql.expressions import Expressions
from muntin.sql.joins import Joined
from muntin.sql.places import Span, SqlText
from muntin.sql.sources import Names
from muntin.sql.time_bounds import Bounds, TimeBounds


@dataclass
class Placed:
    """The conditions of a query, each in its place."""

    keys: list[KeyPair] = field(default_factory=list)
    bounds: Bounds = field(default_factory=Bounds)
    where: dict[Side, list[exp.Expr]] = field(default_factory=lambda: {side: [] for side in Side})
    residual: list[exp.Expr] = field(default_factory=list)
    after: list[exp.Expr] = field(default_factory=list)
    kind: JoinKind = JoinKind.PAIRS
    subject: Side | None = None

    def selections(self, expressions: Expressions) -> tuple[Expr | None, Expr | None]:
        return expressions.selection(self.where[Side.LEFT]), expressions.selection(self.where[Side.RIGHT])


def place_conditions(
    text: SqlText, joined: Joined, names: Names, expressions: Expressions, makes_windows: bool, keyword: Span
) -> Placed:
    """All conditions in their places; comparisons of event times are windows where nothing counts rows."""
    placed = Placed(kind=joined.kind, subject=joined.subject)
    event_times = EventTimes(text, names)
    intervals = TimeBounds(text, event_times) if makes_windows else None
    times: list[exp.Expr] = []
    for conjunct in (*joined.on, *joined.where) if joined.is_inner else joined.on:
        used = names.used(conjunct)
        if len(used) < 2:
            _place_selection(placed, joined, conjunct, used)
            continue
        bounds, rest = intervals.split(conjunct) if intervals else (None, [conjunct])
        if bounds is not None:
            placed.bounds &= bounds
            times.append(conjunct)
        for part in rest:
            _place_match(text, placed, part, names, expressions)
    if not placed.keys:  # times that are equal are better looked up than compared
        for conjunct in times:
            _place_match(text, placed, conjunct, names, expressions, keys_only=True)
    if not placed.keys and not placed.residual:
        placed.residual = times
    _check_both(text, joined, placed, keyword)
    for conjunct in () if joined.is_inner else joined.where:
        _place_afterwards(placed, joined, conjunct, event_times)
    return placed


def _place_selection(placed: Placed, joined: Joined, conjunct: exp.Expr, used: set[Side]) -> None:
    if not joined.preserved:
        placed.where[next(iter(used), Side.LEFT)].append(conjunct)
    elif used and not used & {*joined.preserved}:
        placed.where[next(iter(used))].append(conjunct)
    else:
        placed.residual.append(conjunct)


def _place_match(
    text: SqlText, placed: Placed, conjunct: exp.Expr, names: Names, expressions: Expressions, keys_only: bool = False
) -> None:
    key = _key(text, conjunct, names, expressions)
    if key is None and not keys_only:
        placed.residual.append(conjunct)
    elif key is not None and (key.left.sql, key.right.sql) not in [(k.left.sql, k.right.sql) for k in placed.keys]:
        placed.keys.append(key)


def _place_afterwards(placed: Placed, joined: Joined, conjunct: exp.Expr, event_times: EventTimes) -> None:
    """A condition of WHERE of a join that is not an inner one."""
    home = joined.subject_of_where
    used = event_times.names.used(conjunct)
    if home is not None and used <= {home}:
        placed.where[home].append(conjunct)
    elif home is not None and _is_missing(placed, joined, conjunct, event_times, home.other):
        placed.kind, placed.subject = JoinKind.ANTI, home
    else:
        placed.after.append(conjunct)


def _is_missing(placed: Placed, joined: Joined, conjunct: exp.Expr, event_times: EventTimes, side: Side) -> bool:
    """Whether a condition says that the row of a side is not there: what is not NULL in any match is NULL."""
    node = conjunct.unnest()
    if joined.kind is not JoinKind.PAIRS:
        return False
    if not isinstance(node, exp.Is) or not isinstance(node.expression, exp.Null) or node.args.get("negate"):
        return False
    what = node.this.unnest()
    if event_times.side_of(what) is side:
        return True
    keys = [found[1] for key in placed.keys if (found := key.side(side).column) is not None]
    return isinstance(what, exp.Column) and event_times.names.resolve(what)[1].name in keys


def _key(text: SqlText, conjunct: exp.Expr, names: Names, expressions: Expressions) -> KeyPair | None:
    """An equality of an expression of one side with one of the other; None for any other condition."""
    ends = (conjunct.this, conjunct.expression) if isinstance(conjunct, exp.EQ) else ()
    used = [names.used(end) for end in ends]
    if not ends or any(len(sides) != 1 for sides in used) or used[0] == used[1]:
        return None
    if used[0] == {Side.RIGHT}:
        ends = (ends[1], ends[0])
    left, right = (expressions.expression(end) for end in ends)
    kind = common_type(left.type, right.type)
    if kind is None:
        hint = "bring both to one type with CAST(... AS ...)"
        raise text.error(f"join keys of types {left.type} and {right.type} do not compare", conjunct, hint)
    return KeyPair(left, right, kind)


def _check_both(text: SqlText, joined: Joined, placed: Placed, keyword: Span) -> None:
    """An inner join needs a condition over both streams; any other one needs an equality."""
    a, b = (s.alias for s in joined.sides)
    equality = f"add an equality such as {a}.key = {b}.key"
    if not joined.is_inner and not placed.keys:
        where = "the conditions inside" if "EXISTS" in joined.called else "ON"
        raise text.refuse(f"{joined.called} without an equality", joined.node, f"{equality} to {where}")
    if not placed.keys and not placed.residual:
        message = f"a cross join is refused: no condition speaks of both {a} and {b}, so all rows would meet"
        raise text.error(message, keyword, f"{equality} to WHERE, or a comparison such as {a}.x < {b}.y")
