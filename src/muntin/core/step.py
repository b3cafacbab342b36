"""What one micro-batch, or a change of queries, did to one shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from muntin.core.aggregates import GroupValues
from muntin.core.batch import Counters
from muntin.core.punctuations import NewPromises, RefusedRows
from muntin.core.results import FoundPairs


@dataclass(frozen=True)
class Step:
    """What one micro-batch did to one shard."""

    found: FoundPairs
    """The pairs that may leave, but for those that only aggregates want."""
    late: tuple[pa.Table, pa.Table]
    """Late rows: payload, the frontier they missed, whether it is that of the other stream."""
    ahead: tuple[pa.Table, pa.Table]
    """Rows too far ahead: payload and the latest event time that was believed."""
    puts: Mapping[str, pa.Table]
    """The chunks to write."""
    deletes: Sequence[str]
    """The names of chunks that nobody needs any more."""
    counters: Counters
    span: tuple[int, int] | None
    """Event times between which the results of *all* shards of this micro-batch lie, both ends included."""
    values: Sequence[GroupValues]
    """The values of groups, for queries with aggregates."""
    refused: RefusedRows
    """Punctuations that say nothing and rows that broke a promise, with the reason."""
    punctuations: Mapping[str, pa.Table]
    """For each query, the keys of which its output brings no more rows."""
    passed_on: Mapping[str, pa.Table]
    """The same for the joins that read it: the time, until when that is certain, and the key."""


@dataclass
class StepInProgress:
    """What a micro-batch has brought and done so far, before it is a `Step`."""

    before: int
    """The release point before it."""
    late: list[pa.Table] = field(default_factory=list)
    ahead: list[pa.Table] = field(default_factory=list)
    refused: RefusedRows = field(default_factory=list)
    new_promises: Sequence[NewPromises] = ()
    """Promises that have come into force."""


@dataclass(frozen=True)
class ChangeOutcome:
    """What a change of queries did to one shard."""

    applied_from: int
    """Results from this event time on follow the new queries."""
    complete_from: dict[str, int | None]
    """For each new query, the event time from which it gets all its rows; None where that cannot be foretold."""
    freed_rows: int
    freed_bytes: int
    """Their share of what the state took."""
