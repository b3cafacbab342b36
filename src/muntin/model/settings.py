"""The settings of a job, `SET name = value`."""

from __future__ import annotations

from dataclasses import dataclass

AUTO = "auto"
"""The value of a setting that leaves the choice to the planner."""
NO_CHAIN = "none"
"""The chain of a plan whose strategy does not cut states into slices."""


@dataclass(frozen=True)
class Settings:
    """`SET name = value`; None where the default depends on the machine, and for a limit that is not set.

    The values of each setting and what they mean are in sql/settings.py; those that are names of policies are in the
    registries of the plan layer.
    """

    strategy: str = AUTO
    chain: str = AUTO
    output_order: str = "global"
    shards: int | str | None = None
    invalidation: str = AUTO
    state_limit_bytes: int | None = None
    batch_limit_bytes: int | None = None
    fan_out_limit: int | None = None
    adapt: bool = True
    scheduler: str = AUTO
    delivery: str = "batch"
    ordering: str = "adaptive"
    alpha: float = 0.3
    max_ahead_us: int | None = None
    held_limit_bytes: int | None = None
    on_held_limit: str = "fail"
    punctuations: str = "pwjoin"
    work_per_batch_us: int = 1_000_000
    longest_wait_us: int = 10_000_000
    min_file_size_bytes: int | None = None
    roll_after_us: int | None = None
    durability: str = "process"
    output_layout: str = "queries"
    hot_keys: str = "off"

    @property
    def fixed_shards(self) -> int | None:
        """How many shards the job wants, whatever it runs on; None where it leaves that open."""
        return self.shards if isinstance(self.shards, int) else None

    @property
    def follows_cores(self) -> bool:
        """Whether a start goes over to as many shards as there are cores."""
        return self.shards == AUTO

    @property
    def survives_power_cuts(self) -> bool:
        """Whether what is committed is synced before, Spark's files and those of rows included."""
        return self.durability == "power"

    @property
    def eager(self) -> bool:
        """Whether results are delivered as they are found."""
        return self.delivery == "eager"

    @property
    def in_global_order(self) -> bool:
        """Whether a query's rows are in order over all keys, and not only for each key."""
        return self.output_order == "global"

    @property
    def releases_at_held_limit(self) -> bool:
        """Whether what is held beyond the limit leaves out of order instead of stopping the job."""
        return self.on_held_limit == "release"


DEFAULT_SETTINGS = Settings()
