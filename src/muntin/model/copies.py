"""Queries that are done once more elsewhere, where another query wants their rows (`plan/copies.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QueryCopy:
    """A hidden query that does once more what another one does, in the shards of a third.

    `of` is the query whose rows it has, `beside` the one in whose shards it has them. With `whole` every shard has all
    of them, else each lies in one shard, by its key.
    """

    of: str
    beside: str
    whole: bool
