"""How an operator works, by name: nothing here changes an answer."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import DEFAULT_SETTINGS, MuntinError, Settings
from muntin.plan.cost import AUTO, resolve

FAN_OUT = 50_000_000
"""Pairs that a shard may find in one micro-batch where the job sets no limit of its own."""


class LimitError(MuntinError):
    """A job stops before it takes more than it was given; what it has committed stays, and it can be run again."""


@dataclass(frozen=True)
class Policy:
    invalidation: str = AUTO
    state_bytes: int | None = None
    """What the state of one shard may take in memory."""
    fan_out: int = FAN_OUT
    punctuations: str = DEFAULT_SETTINGS.punctuations

    @classmethod
    def of(cls, settings: Settings, operators: int) -> Policy:
        """The policy of each of `operators` operators (joins times shards) that share the job's limits."""
        return cls(
            resolve(settings.invalidation),
            settings.state_limit_bytes and settings.state_limit_bytes // operators,
            settings.fan_out_limit or FAN_OUT,
            settings.punctuations,
        )


DEFAULT_POLICY = Policy()
