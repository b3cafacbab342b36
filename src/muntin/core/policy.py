"""How an operator works; nothing here changes an answer."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import AUTO, DEFAULT_SETTINGS, MuntinError, Settings
from muntin.plan.cost import DEFAULT, Constants
from muntin.plan.invalidations import BEST_INVALIDATION, Invalidation, invalidation_of
from muntin.plan.orderings import ORDERINGS, SYNC_FILTER, Ordering

FAN_OUT = 50_000_000
"""Pairs that a shard may find in one micro-batch where the job sets no limit of its own."""

EVERY_ROWS = 5_000_000
"""Rows that `EVERY d` may tell in one micro-batch and shard where the job sets no limit: one takes ten times the memory
of a pair."""


class LimitError(MuntinError):
    """A job stops before it takes more than it was given; what it has committed stays, and it can be run again."""


@dataclass(frozen=True)
class Policy:
    invalidation: Invalidation = BEST_INVALIDATION
    state_bytes: int | None = None
    """What the state of one shard may take in memory."""
    batch_bytes: int | None = None
    """What a micro-batch may bring to one shard; None for what the machine bears."""
    fan_out: int = FAN_OUT
    every_rows: int = EVERY_ROWS
    eager: bool = False
    """Whether results are delivered while a micro-batch is still at work, in the order of the scheduler."""
    scheduler: str = AUTO
    constants: Constants = DEFAULT
    """What pieces of work cost: how finely it is cut follows from that."""
    ordering: Ordering = SYNC_FILTER
    max_ahead_us: int | None = None
    held_bytes: int | None = None
    """What may be held in one shard."""
    releases: bool = False
    """Whether more than that leaves out of order instead of stopping the job."""
    punctuations: str = DEFAULT_SETTINGS.punctuations
    hot_keys: bool = False
    """Whether keys with very many rows are looked for."""

    @classmethod
    def of(cls, settings: Settings, operators: int, constants: Constants = DEFAULT) -> Policy:
        """The policy of each of `operators` operators (joins times shards) that share the job's limits."""
        return cls(
            invalidation=invalidation_of(settings.invalidation),
            state_bytes=settings.state_limit_bytes and settings.state_limit_bytes // operators,
            batch_bytes=settings.batch_limit_bytes and settings.batch_limit_bytes // operators,
            fan_out=settings.fan_out_limit or FAN_OUT,
            every_rows=settings.fan_out_limit or EVERY_ROWS,
            eager=settings.eager,
            scheduler=settings.scheduler,
            constants=constants,
            ordering=ORDERINGS[settings.ordering],
            max_ahead_us=settings.max_ahead_us,
            held_bytes=settings.held_limit_bytes and settings.held_limit_bytes // operators,
            releases=settings.releases_at_held_limit,
            punctuations=settings.punctuations,
            hot_keys=settings.hot_keys == AUTO,
        )


DEFAULT_POLICY = Policy()
