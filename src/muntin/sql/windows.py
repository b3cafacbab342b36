"""The window of a query: what WINDOW and the ranges of streams give, what intervals of event times leave of it, and the
times of their own until when rows wait."""

from __future__ import annotations

from sqlglot import exp

from muntin.model import Axis, Expr, Side, Window
from muntin.model.types import INTEGERS
from muntin.sql.dialect import WINDOW_HINT
from muntin.sql.duration import LIMIT_US
from muntin.sql.expressions import Expressions
from muntin.sql.joins import Joined
from muntin.sql.places import SqlText
from muntin.sql.sources import Names, Source
from muntin.sql.time_bounds import Bounds
from muntin.sql.tree import Duration, RowCount, Until

Given = tuple[Duration | RowCount | None, Duration | RowCount | None]
"""What is written for the rows of each side."""
NUMBERS = (*INTEGERS, "float", "double")


def given_windows(text: SqlText, joined: Joined) -> Given:
    """The windows of both sides as they are written; None where only intervals can make one."""
    shared = joined.windows[0] if joined.windows else None
    if isinstance(shared, Until):
        shared = shared.args.get("at_most")
    if shared is not None and not isinstance(shared, Duration | RowCount):
        raise text.refuse("a named window", shared, f"the window of the join has no name: {WINDOW_HINT}")
    if len(joined.windows) > 1:
        raise text.error("WINDOW is given twice", joined.windows[1], "keep one of them")
    left, right = (_given(text, shared, source) for source in joined.sides)
    return left, right


def _given(text: SqlText, shared: Duration | RowCount | None, source: Source) -> Duration | RowCount | None:
    if shared is not None and source.range is not None:
        message = f"{source.alias} has a window of its own, and WINDOW sets both"
        raise text.error(message, source.range, "keep one of them")
    given = source.range if source.range is not None else shared
    if isinstance(given, Duration) and given.args["us"] <= 0:
        raise text.error("a window must be longer than zero", given, "write a positive duration, such as 1 min")
    return given


def own_times(
    text: SqlText, joined: Joined, given: Given, names: Names, expressions: Expressions
) -> tuple[Expr | None, Expr | None]:
    """The times of UNTIL, each with the side whose rows wait until then."""
    found: dict[Side, Expr] = {}
    clause = joined.windows[0] if joined.windows else None
    for node in clause.expressions if isinstance(clause, Until) else ():
        used = names.used(node)
        aliases = " or ".join(source.alias for source in joined.sides)
        if len(used) != 1:
            what = "both streams" if used else "no stream"
            hint = f"name a time of {aliases}, and both with a comma between them: UNTIL A.x, B.y"
            raise text.error(f"a row waits until a time of its own, and this speaks of {what}", node, hint)
        (side,) = used
        source = joined.sides[side]
        if side in found:
            raise text.error(f"UNTIL names two times of {source.alias}", node, "keep one, or write least(x, y)")
        if isinstance(given[side], RowCount):
            message = f"rows of {source.alias} wait for a number of rows, which is no time"
            hint = f"write {source.stream.name} [RANGE 1 hour] {source.alias}, or leave UNTIL out"
            raise text.error(message, node, hint)
        found[side] = _time(text, expressions.expression(node), node)
    return found.get(Side.LEFT), found.get(Side.RIGHT)


def _time(text: SqlText, until: Expr, node: exp.Expr) -> Expr:
    if until.type in ("timestamp", "timestamp_ntz"):
        return until
    hint = f"write CAST({until.text} AS TIMESTAMP)"
    if until.type in NUMBERS:
        hint = f"if it counts from 1970 on, write timestamp_millis({until.text}) or timestamp_seconds({until.text})"
    raise text.error(f"{until.text} is {until.type}, not a timestamp", node, hint)


def counts_rows(given: Given) -> bool:
    return any(isinstance(window, RowCount) for window in given)


def whole_window(text: SqlText, joined: Joined, given: Given, intervals: Bounds, others: bool) -> Window:
    """The window that is left; `others` says whether there are conditions over both streams that make none."""
    if counts_rows(given):
        return _with_rows(text, joined, given)
    left, right = (None if window is None else int(window.args["us"]) for window in given)
    written = Bounds(None if right is None else 1 - right, None if left is None else left - 1)
    allowed = written & intervals
    ends = allowed.high, allowed.low
    for side in Side:
        if ends[side] is None:
            raise _no_window(text, joined, side, intervals != Bounds(), others)
    low, high = allowed.low, allowed.high
    assert low is not None and high is not None
    if allowed.is_empty:
        if joined.is_inner:
            return Window(0, 0)
        message = "no two event times are as far apart as the conditions and the window ask, so nothing can match"
        raise text.error(message, joined.node, "make the lower bound less than the upper one")
    if max(abs(low), abs(high)) >= LIMIT_US:
        message = f"the event times {joined.sides[0].time} and {joined.sides[1].time} may be too far apart"
        raise text.error(message, joined.node, "the longest duration is 36525 days (a century)")
    return Window(max(0, high + 1), max(0, 1 - low), starts=(max(0, low), max(0, -high)))


def _with_rows(text: SqlText, joined: Joined, given: Given) -> Window:
    """A window of which at least one side counts rows: conditions on event times do not change it."""
    sizes, axes = [], []
    for side in Side:
        window = given[side]
        if window is None:
            raise _no_window(text, joined, side, False, False)
        counts = isinstance(window, RowCount)
        sizes.append(int(window.args["rows" if counts else "us"]))
        axes.append(Axis.ROWS if counts else Axis.TIME)
    return Window(sizes[0], sizes[1], (axes[0], axes[1]))


def _no_window(text: SqlText, joined: Joined, side: Side, half: bool, others: bool) -> Exception:
    """Nothing says how long the rows of a side wait for a later row of the other one."""
    source, other = joined.sides[side], joined.sides[side.other]
    if joined.windows and isinstance(joined.windows[0], Until):
        message = f"UNTIL has no AT MOST, and nothing else says how long rows of {source.alias} wait at most"
        own = f"{source.stream.name} [RANGE 12 hours] {source.alias}"
        hint = f"add AT MOST 12 hours, which holds for both streams, or write {own}"
        return text.error(message, joined.windows[0], hint)
    message = f"no window for {source.alias}"
    bound = f"{other.time} <= {source.time} + INTERVAL 1 HOUR"
    if half:
        message += f": {other.time} may be as much later than {source.time} as it likes"
        message += "; only constant offsets make a window" if others else ""
        return text.error(message, source.node, f"add {bound}, or end the query with WINDOW 1 hour")
    own = f"{source.stream.name} [RANGE 1 min] {source.alias}"
    rows = " or WINDOW 100 ROWS" if joined.is_inner else ""
    hint = f"end the query with WINDOW 1 min{rows}, or write {own}"
    if others:
        message += f": only the event times {source.time} and {other.time}, compared with constant offsets, make one"
    return text.error(message, source.node, f"{hint}, or conditions such as {bound}")
