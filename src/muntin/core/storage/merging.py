"""When pieces that follow each other are merged: those of similar size, so that each row is copied O(log n) times."""

from __future__ import annotations

from collections.abc import Sequence


def first_to_merge(sizes: Sequence[int], rows: int, limit: int | None = None) -> int:
    """The first of the pieces of these sizes that is merged with a new one of `rows` rows, and all after it with it.

    Nothing larger than `limit` is made. Where none is to be merged, the place of the new one.
    """
    first = len(sizes)
    while first and sizes[first - 1] < 2 * rows and (limit is None or sizes[first - 1] + rows <= limit):
        first -= 1
        rows += sizes[first]
    return first
