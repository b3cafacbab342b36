"""What a job may take and does not get: the words in which it stops name the query and the key that take most of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.core.policy import LimitError
from muntin.model import Side
from muntin.plan import SharedJoin

if TYPE_CHECKING:
    from muntin.core.operator import Operator

_AGAIN = "then run the job again: nothing is lost"


def check_state(operator: Operator) -> None:
    """Stop where the state takes more than its share of `state_limit`."""
    limit = operator.policy.state_bytes
    if limit is not None and operator.nbytes > limit:
        raise LimitError(
            f"{_title(operator.join)}: the state takes {operator.nbytes:,} bytes in one shard, its share of "
            f"state_limit is {limit:,}; {_dominant(operator)}",
            hint=f"shorten the largest window, select more narrowly, or raise SET state_limit; {_AGAIN}",
        )


def too_many_pairs(operator: Operator, error: LimitError) -> LimitError:
    """A limit of the join, with the query and the key that take most of it."""
    return LimitError(
        f"{_title(operator.join)}: {error.message}; {_dominant(operator)}",
        hint="narrow the window or the selections, read fewer rows per micro-batch, or raise SET fan_out_limit; "
        + _AGAIN,
    )


def too_much_held(operator: Operator, limit: int, reason: str | None) -> LimitError:
    """One stream is too far behind the other; `reason` says why nothing can leave out of order."""
    behind = operator.join.streams[operator.progress.behind].name
    words = f"{_title(operator.join)}: {operator.held_bytes:,} bytes are held in one shard because {behind} is behind, "
    words += f"its share of held_limit is {limit:,}"
    return LimitError(
        words + (f"; nothing can leave out of order, since the join {reason}" if reason else ""),
        hint="give the stream that is behind IDLE AFTER, mend it, raise SET held_limit, or choose "
        f"on_held_limit = 'release'; {_AGAIN}",
    )


def _title(join: SharedJoin) -> str:
    return f"join {join.index + 1} ({join.streams[0].name} x {join.streams[1].name})"


def _dominant(operator: Operator) -> str:
    """The query and the key that hold most of the state, in words."""
    join, state = operator.join, operator.state
    query = max(join.queries, key=lambda q: max(q.window.side(side) for side in Side))
    tops = [(top_key(operator, side), side) for side in Side if state.top(side)[0]]
    words = f"query {query.name} has the largest window"
    if tops:
        (rows, key), side = max(tops, key=lambda top: top[0][0])
        share = rows / max(1, state.rows(side))
        named = ", ".join(f"{name} = {value!r}" for name, value in key.items()) or "no key"
        words += f", the fullest key ({named}) has {rows:,} rows of {join.streams[side].name}, {share:.0%} of them"
    return words


def top_key(operator: Operator, side: Side) -> tuple[int, dict[str, Any]]:
    """How many rows the fullest key of a side has, and its values."""
    rows, number = operator.state.top(side)
    if number < 0:
        return 0, {}
    row = operator.payload[side].take(np.array([number], np.int64))
    columns = dict.fromkeys(c for pair in operator.join.keys for c in pair.side(side).columns(side))
    return rows, {name: row[name][0].as_py() for name in columns}
