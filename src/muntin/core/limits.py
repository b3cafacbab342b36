"""The words in which a job stops that takes more than it may: they name the query and the key that take most of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.core.join import JoinState
from muntin.core.policy import LimitError
from muntin.core.storage import StoredRows
from muntin.model import Side
from muntin.plan import SharedJoin

_AGAIN = "then run the job again: nothing is lost"


@dataclass(frozen=True)
class FullestKey:
    """The key with the most rows of a side in the state."""

    side: Side
    rows: int
    share: float
    """Of all rows of the side."""
    values: dict[str, Any]


def fullest_key(join: SharedJoin, side: Side, state: JoinState, payload: Sequence[StoredRows]) -> FullestKey | None:
    """The fullest key of a side; None where it has no rows."""
    rows, number = state.top(side)
    if number < 0:
        return None
    return FullestKey(side, rows, rows / max(1, state.rows(side)), key_values(join, side, payload, number))


def key_values(join: SharedJoin, side: Side, payload: Sequence[StoredRows], number: int) -> dict[str, Any]:
    """The columns of the key of a stored row."""
    row = payload[side].take(np.array([number], np.int64))
    columns = dict.fromkeys(c for pair in join.keys for c in pair.side(side).columns(side))
    return {name: row[name][0].as_py() for name in columns}


def state_too_large(join: SharedJoin, nbytes: int, limit: int, fullest: Sequence[FullestKey]) -> LimitError:
    """The state takes more than its share of `state_limit`."""
    return LimitError(
        f"{_title(join)}: the state takes {nbytes:,} bytes in one shard, its share of "
        f"state_limit is {limit:,}; {_dominant(join, fullest)}",
        hint=f"shorten the largest window, select more narrowly, or raise SET state_limit; {_AGAIN}",
    )


def too_many_pairs(join: SharedJoin, error: LimitError, fullest: Sequence[FullestKey]) -> LimitError:
    """A limit of the join, with the query and the key that take most of it."""
    return LimitError(
        f"{_title(join)}: {error.message}; {_dominant(join, fullest)}",
        hint="narrow the window or the selections, read fewer rows per micro-batch, or raise SET fan_out_limit; "
        + _AGAIN,
    )


def too_much_held(join: SharedJoin, held: int, limit: int, behind: Side, reason: str | None) -> LimitError:
    """The stream of one side is too far behind the other; `reason` says why nothing can leave out of order."""
    words = f"{_title(join)}: {held:,} bytes are held in one shard because {join.streams[behind].name} is behind, "
    words += f"its share of held_limit is {limit:,}"
    return LimitError(
        words + (f"; nothing can leave out of order, since the join {reason}" if reason else ""),
        hint="give the stream that is behind IDLE AFTER, mend it, raise SET held_limit, or choose "
        f"on_held_limit = 'release'; {_AGAIN}",
    )


def _title(join: SharedJoin) -> str:
    streams = " x ".join(stream.label for stream in join.streams)
    if any(query.hidden for query in join.queries):
        return f"the sub-join {streams} (join {join.index + 1})"
    return f"join {join.index + 1} ({streams})"


def _dominant(join: SharedJoin, fullest: Sequence[FullestKey]) -> str:
    """The query and the key that hold most of the state, in words."""
    query = max(join.queries, key=lambda q: max(q.window.side(side) for side in Side))
    words = f"{'what others read of it' if query.hidden else f'query {query.name}'} has the largest window"
    if fullest:
        key = max(fullest, key=lambda key: key.rows)
        named = ", ".join(f"{name} = {value!r}" for name, value in key.values.items()) or "no key"
        stream = join.streams[key.side].label
        words += f", the fullest key ({named}) has {key.rows:,} rows of {stream}, {key.share:.0%} of them"
    return words
