"""What the promises of streams mean for a join, and what they save (ding2004 3.1 and 5).

A promise is about a join key. A stream's `UNIQUE` speaks of a join if its columns are among those of the key; its
punctuations do if they are about exactly the columns of the key, or if they name none: then they are about the key of
whichever join reads the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import Axis, Pattern, Punctuation, Side, Stream
from muntin.model.types import INTEGERS
from muntin.plan.joins import Plan, SharedJoin

FOR_GOOD = 1 << 61
"""A binding time that never ends."""
WITHOUT_WINDOW_US = 86_400_000_000
"""How long a promise binds where only rows are counted and the stream says nothing."""


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


def leave_at_own_ends(join: SharedJoin, side: Side) -> bool:
    """Whether rows that wait until times of their own leave the state then.

    Not where the stream sends punctuations: one asks for the last row before it that the longest window still holds,
    whichever rows have come to an end of their own meanwhile.
    """
    said = promising(join, side)
    return bool(join.own_windows.untils[side]) and not (said and said.marked)


def has_promises(join: SharedJoin) -> bool:
    """Whether some stream of a join promises something about its key, or what it reads may be over for one."""
    return any(join.hears) or any(promising(join, side) for side in Side)


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
    if punctuation is None or not join.keys or _says_nothing(punctuation):
        return False
    if not punctuation.columns:
        return True
    columns = _columns(join, side)
    return columns is not None and set(punctuation.columns) == set(columns)


def _says_nothing(punctuation: Punctuation) -> bool:
    """Whether punctuations only tell how far their stream has come: those about a list without values."""
    return punctuation.pattern is Pattern.LIST and not punctuation.values


def _is_unique(join: SharedJoin, side: Side) -> bool:
    """Whether no two rows of a side have the same key: where different values stay different when compared."""
    stream = join.streams[side]
    columns = _columns(join, side) if stream.unique else None
    if columns is None or not set(stream.unique) <= set(columns):
        return False
    own = {f.name: f.type for f in stream.schema}
    return all(columns[c] == own[c] or {columns[c], own[c]} <= set(INTEGERS) for c in stream.unique)


def punctuates_no_key(plan: Plan, stream: Stream) -> bool:
    """Whether a stream has punctuations that are about no join's key."""
    readers = [(join, side) for join in plan.joins for side in Side if join.streams[side].name == stream.name]
    if stream.punctuation is None or _says_nothing(stream.punctuation):
        return False
    return bool(readers) and not any(_marks(*reader) for reader in readers)


def speakers(plan: Plan) -> dict[str, tuple[int, bool]]:
    """For each query, the join that tells when its output is over for a key, and whether that join is all of it.

    Where push-down feeds a query from several joins, all of them hear the same promises, but each sees only some rows.
    Where the rows of a key may be in any shard, none of them can tell.
    """
    found: dict[str, tuple[int, bool]] = {}
    for join in plan.joins:
        for query in () if any(join.everywhere) else join.queries:
            if query.hidden:
                continue
            found[query.name] = (found[query.name][0], False) if query.name in found else (join.index, True)
    return found


def is_without_windows(join: SharedJoin) -> bool:
    """Whether rows stay until a promise frees them: nobody can predict how many that will be."""
    return any(cuts[-1] == FOR_GOOD for cuts in join.cuts)


def pattern_of(join: SharedJoin, side: Side) -> Pattern | None:
    """Which keys the punctuations of a side are about; None where it has none about the key of the join."""
    punctuation = join.streams[side].punctuation
    return punctuation.pattern if punctuation is not None and _marks(join, side) else None


def rows_after(rate: float, window_s: float, promises_rate: float, seconds: float, values: float) -> float:
    """Equation 1 of ding2004: rows of one stream in the state after `seconds`.

    `rate` rows a second come and stay for `window_s`; the other stream makes `promises_rate` promises a second, and
    `values` different keys have occurred in this one so far.
    """
    return rate * window_s * (1 - min(1.0, promises_rate * seconds / values)) if values else 0.0
