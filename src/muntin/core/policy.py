"""How an operator works; nothing here changes an answer."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import DEFAULT_SETTINGS, MuntinError, Settings
from muntin.plan.cost import AUTO, resolve
from muntin.plan.ordering import SYNC_FILTER

FAN_OUT = 50_000_000
"""Pairs that a shard may find in one micro-batch where the job sets no limit of its own."""

EVERY_ROWS = 5_000_000
"""Rows that `EVERY d` may tell in one micro-batch and shard where the job sets no limit: one takes ten times the memory
of a pair."""


class LimitError(MuntinError):
    """A job stops before it takes more than it was given; what it has committed stays, and it can be run again."""


@dataclass(frozen=True)
class Policy:
    invalidation: str = AUTO
    state_bytes: int | None = None
    """What the state of one shard may take in memory."""
    fan_out: int = FAN_OUT
    every_rows: int = EVERY_ROWS
    eager: bool = False
    """Whether results are delivered while a micro-batch is still at work, in the order of the scheduler."""
    scheduler: str = "auto"
    ordering: str = SYNC_FILTER
    max_ahead_us: int | None = None
    held_bytes: int | None = None
    """What may be held in one shard."""
    releases: bool = False
    """Whether more than that leaves out of order instead of stopping the job."""
    punctuations: str = DEFAULT_SETTINGS.punctuations

    @classmethod
    def of(cls, settings: Settings, operators: int) -> Policy:
        """The policy of each of `operators` operators (joins times shards) that share the job's limits."""
        return cls(
            invalidation=resolve(settings.invalidation),
            state_bytes=settings.state_limit_bytes and settings.state_limit_bytes // operators,
            fan_out=settings.fan_out_limit or FAN_OUT,
            every_rows=settings.fan_out_limit or EVERY_ROWS,
            eager=settings.delivery == "eager",
            scheduler=settings.scheduler,
            ordering=settings.ordering,
            max_ahead_us=settings.max_ahead_us,
            held_bytes=settings.held_limit_bytes and settings.held_limit_bytes // operators,
            releases=settings.on_held_limit == "release",
            punctuations=settings.punctuations,
        )


DEFAULT_POLICY = Policy()
