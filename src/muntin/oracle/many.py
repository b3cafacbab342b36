"""Section 8: which rows of n streams belong to the answer of one query together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from muntin.oracle.join import Row

Together = Callable[..., bool | None]
"""A condition on one row of each stream."""


def answer_of_many(
    windows: Sequence[int], streams: Sequence[Sequence[Row]], holds: Together, times: Sequence[str] | None = None
) -> list[tuple[tuple[Row, ...], int]]:
    """The rows, one of each stream, that belong together, with their output timestamp, in its order.

    Each is still inside of its own stream's window when the last of them comes.
    """
    names = times or ["ts"] * len(streams)
    found = []
    for rows in product(*streams):
        each = [row[name] for row, name in zip(rows, names, strict=True)]
        last = max(each)
        if all(last - ts < window for ts, window in zip(each, windows, strict=True)) and holds(*rows) is True:
            found.append((rows, last))
    return sorted(found, key=lambda together: together[1])
