"""What a shard reports after every micro-batch; the manifest keeps the last report of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from muntin.core.arrivals import HeavyKey, HotKey
from muntin.core.batch import Counters
from muntin.core.selections import ClassTally
from muntin.model.records import LEFT_OUT
from muntin.plan.promise_lags import LagCounts


@dataclass(frozen=True)
class ShardChange:
    """What a change of plan did to one shard (`muntin.core.step.ChangeOutcome`), and the epoch that brought it."""

    epoch: int
    applied_from: int
    complete_from: dict[str, int | None]
    freed_rows: int
    freed_bytes: int


@dataclass(frozen=True)
class TopKey:
    """The key with the most rows of one side, its values as text."""

    rows: int = 0
    key: dict[str, str] = field(default_factory=dict)


@dataclass
class ShardReport:
    """One shard of one join after a micro-batch. A list of two has a value for the left and for the right stream."""

    join: int
    shard: int
    epoch: int
    changes: list[ShardChange] = field(default_factory=list)
    """What the changes of plan in this micro-batch did."""
    gone: bool = False
    """Whether the join is no more; the fields below say nothing then."""
    streams: list[str] = field(default_factory=list)
    max_ts: list[int] = field(default_factory=list)
    rebuilt: bool = False
    """Whether the operator was built anew from the durable state."""
    counters: Counters = field(default_factory=Counters)
    slices: list[list[int]] = field(default_factory=list)
    """The rows of each slice."""
    frontiers: list[int | None] = field(default_factory=lambda: [None, None])
    """None before the first row; `FOREVER` after the end of the stream."""
    own_frontiers: list[int | None] = field(default_factory=lambda: [None, None])
    """Those that the rows of a stream itself have come to; None before the first row."""
    bytes: int = 0
    matches: int = 0
    release: int = 0
    filter_order: bool = False
    ahead: bool = False
    """Whether rows were joined that may not leave yet."""
    idle: list[bool] = field(default_factory=lambda: [False, False])
    behind: int = 0
    """The side that the other waits for."""
    span: list[int] = field(default_factory=list)
    """The earliest and the latest event time."""
    classes: list[list[ClassTally]] = field(default_factory=lambda: [[], []])
    """The rows of each class of the selections."""
    top_keys: list[TopKey] = field(default_factory=lambda: [TopKey(), TopKey()])
    seconds: float = 0.0
    """Of one core, that the operator took."""
    work_ns: int = 0
    """What the work was foretold to take, where delivery is eager."""
    left_rows: int = 0
    """Rows that have work left for later micro-batches."""
    limited: bool = False
    """Whether the shard has been told how much work a micro-batch does."""
    hot_keys: list[HotKey] | None = field(default=None, metadata=LEFT_OUT)
    """Keys whose rows visit every shard, and those that still have rows elsewhere than at home."""
    heavy_keys: list[HeavyKey] | None = field(default=None, metadata=LEFT_OUT)
    """Keys with a good part of all rows, where such are looked for."""
    lags: list[LagCounts] | None = field(default=None, metadata=LEFT_OUT)
    """How long before and after rows the promises for their keys came; None where nobody promises."""

    @property
    def name(self) -> str:
        """The key under which a manifest has the report."""
        return f"{self.join}/{self.shard}"
