"""What the promises of streams mean for a join, and what they save (ding2004 3.1 and 5).

A promise is about a join key. A stream's `UNIQUE` speaks of a join if its columns are among those of the key; its
punctuations do if they are about exactly the columns of the key, or if they name none: then they are about the key of
whichever join reads the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from muntin.model import Axis, Pattern, Side, Stream, UsageError
from muntin.model.types import INTEGERS
from muntin.plan.share import Plan, SharedJoin

FOR_GOOD = 1 << 61
"""A binding time that never ends."""
WITHOUT_WINDOW_US = 86_400_000_000
"""How long a promise binds where only rows are counted and the stream says nothing."""


TOLD = "is told by promises which keys are over, in one order over both streams"
"""Why the rows of a join wait for both streams, whatever is set (see plan/ordering.py)."""


@dataclass(frozen=True)
class Promising:
    """How one stream of a join promises: by rows of their own (`marked`), by each row for its own key (`unique`), and
    for how long a promise binds."""

    marked: bool
    unique: bool
    binding_us: int


def promising(join: SharedJoin, side: Side) -> Promising | None:
    """What a stream promises about the key of a join; None where it says nothing of it."""
    marked, unique = _marks(join, side), _is_unique(join, side)
    if not marked and not unique:
        return None
    return Promising(marked, unique, max(join.streams[side].binding_us or 0, _longest(join)))


def are_used(join: SharedJoin, how: str) -> bool:
    """Whether a join has promises to look after."""
    return how != "off" and any(promising(join, side) for side in Side)


def _longest(join: SharedJoin) -> int:
    times = [join.reach(side) for side in Side if join.axes[side] is Axis.TIME]
    return max(times, default=WITHOUT_WINDOW_US)


def _columns(join: SharedJoin, side: Side) -> dict[str, str] | None:
    """The columns of a side that make up the key, with the types they are compared in; None if more than columns."""
    found = {}
    for pair in join.keys:
        bare = pair.side(side).column
        if bare is None:
            return None
        found[bare[1]] = pair.type
    return found


def _marks(join: SharedJoin, side: Side) -> bool:
    punctuation = join.streams[side].punctuation
    if punctuation is None or not join.keys:
        return False
    if not punctuation.columns:
        return True
    columns = _columns(join, side)
    return columns is not None and set(punctuation.columns) == set(columns)


def _is_unique(join: SharedJoin, side: Side) -> bool:
    """Whether no two rows of a side have the same key: where different values stay different when compared."""
    stream, columns = join.streams[side], _columns(join, side)
    if not stream.unique or columns is None or not set(stream.unique) <= set(columns):
        return False
    own = {f.name: f.type for f in stream.schema}
    return all(columns[c] == own[c] or {columns[c], own[c]} <= set(INTEGERS) for c in stream.unique)


def unheard(plan: Plan, stream: Stream) -> bool:
    """Whether a stream has punctuations that are about no join's key."""
    readers = [(join, side) for join in plan.joins for side in Side if join.streams[side].name == stream.name]
    return stream.punctuation is not None and bool(readers) and not any(_marks(*reader) for reader in readers)


def speakers(plan: Plan) -> dict[str, tuple[int, bool]]:
    """For each query, the join that tells when its output is over for a key, and whether that join is all of it.

    Where push-down feeds a query from several joins, all of them hear the same promises, but each sees only some rows.
    """
    found: dict[str, tuple[int, bool]] = {}
    for join in plan.joins:
        for query in join.queries:
            found[query.name] = (found[query.name][0], False) if query.name in found else (join.index, True)
    return found


def check_promises(plan: Plan) -> None:
    """Refuse a job whose state would grow for ever: without windows, only promises of both sides bound it."""
    for join in plan.joins:
        for side in Side:
            if promising(join, side) is None:
                stream, query = join.streams[side].name, join.queries[0].name
                raise UsageError(
                    f"punctuations = 'pjoin' keeps rows until a promise frees them, and {stream} promises nothing "
                    f"about the key of query {query}",
                    hint=f"declare PUNCTUATION WHEN or UNIQUE for {stream}, or use 'pwjoin', which has windows as well",
                )


def without_windows(plan: Plan) -> Plan:
    """The same joins with rows that stay until a promise frees them: the pairs are the same, the state is PJoin's."""
    return replace(plan, joins=tuple(replace(j, cuts=((FOR_GOOD,), (FOR_GOOD,))) for j in plan.joins))


def is_without_windows(join: SharedJoin) -> bool:
    """Whether rows stay until a promise frees them: nobody can foretell how many that will be."""
    return any(cuts[-1] == FOR_GOOD for cuts in join.cuts)


def is_range(join: SharedJoin, side: Side) -> bool:
    punctuation = join.streams[side].punctuation
    return punctuation is not None and punctuation.pattern is Pattern.RANGE and _marks(join, side)


def rows_after(rate: float, window_s: float, promises_rate: float, seconds: float, values: float) -> float:
    """Equation 1 of ding2004: rows of one stream in the state after `seconds`.

    `rate` rows a second come and stay for `window_s`; the other stream makes `promises_rate` promises a second, and
    `values` different keys have occurred in this one so far.
    """
    return rate * window_s * (1 - min(1.0, promises_rate * seconds / values)) if values else 0.0
