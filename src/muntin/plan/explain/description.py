"""The tree that EXPLAIN shows, as plain values. Its JSON has the same names, but where a field says another."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from muntin.plan.cost import Constants

KEY = "key"
FROM, TO = {KEY: "from"}, {KEY: "to"}


def to_json(value: Any) -> Any:
    """A description as what the json module can write."""
    if is_dataclass(value):
        return {f.metadata.get(KEY, f.name): to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Work:
    """Rows and bytes held on average, and what is done per second of stream time."""

    rows: float
    bytes: int
    comparisons_per_second: float
    routed_by_age_per_second: float
    cpu_ms_per_second: float


@dataclass(frozen=True)
class DecidedBy:
    """Who chose: `auto`, `set` or `checkpoint`; None where there is nothing to choose."""

    strategy: str
    chain: str | None


@dataclass(frozen=True)
class StreamUse:
    name: str
    time: str
    lateness_us: int
    idle_us: int | None
    read: bool
    only_in_vain: bool = field(metadata={KEY: "asked_in_vain"})
    """Whether all queries that use it can have no rows."""
    joins: list[int]
    readers: int
    source: str | None = None
    """Who reads it and from where, of a broker."""
    lookups: list[str] = field(default_factory=list)
    """What its rows look up before they are joined."""


@dataclass(frozen=True)
class NeverTrue:
    """A query that can have no rows, with the selection that is never true."""

    name: str
    selection: str
    planned_away: bool


@dataclass(frozen=True)
class KnownConstants(Constants):
    known: str = "assumed"


@dataclass(frozen=True)
class Alternative:
    strategy: str
    chain: str
    chosen: bool
    joins: int
    rows: float
    bytes: int
    comparisons_per_second: float
    routed_by_age_per_second: float
    cpu_ms_per_second: float


@dataclass(frozen=True)
class ImpossibleAlternative:
    strategy: str
    chain: str
    chosen: bool
    impossible: str


@dataclass(frozen=True)
class KeyEquality:
    left: str
    right: str
    type: str


@dataclass(frozen=True)
class StreamPart:
    """The selections that hold for a part of a stream, and those that do not."""

    holds: list[str]
    does_not_hold: list[str]


@dataclass(frozen=True)
class WindowSpan:
    axis: str
    start: int = field(metadata=FROM)
    end: int = field(metadata=TO)


@dataclass(frozen=True)
class FirstPairs:
    limit: int
    order: list[str]


@dataclass(frozen=True)
class AggregatesUse:
    """What is made of the pairs, and where groups are put together.

    Groups of EMIT FINAL are over for a key by a promise of one of the streams `over_by`, or of all of
    them where `over_by_all` says so, or when both streams end.
    """

    calls: list[str]
    groups: list[str]
    top: FirstPairs | None
    having: str | None
    every_us: int | None
    final: bool
    over_by: list[str]
    over_by_all: bool
    second_exchange: bool
    distinct_values: list[str] = field(metadata={KEY: "values_told"})
    """Expressions whose different values the shards send one by one."""


@dataclass(frozen=True)
class QueryUse:
    name: str
    streams: list[str]
    window: list[WindowSpan]
    until: list[str | None]
    """Until when rows of each stream wait, at most for the window; None: for the window."""
    selections: list[str | None]
    selectivities: list[float]
    condition: str | None
    join: str | None
    """What becomes of the matches, where a query does not take them as they are."""
    after: str | None
    """A condition on what would go out."""
    aggregates: AggregatesUse | None
    hidden: bool = False
    """Whether nobody named it: it is a part of queries over more than two streams."""
    past: str | None = None
    """What it asks for of the time before it came: "beginning", or since when."""


@dataclass(frozen=True)
class StateSliceUse:
    """One slice; `selection` lists the selections of which a row in it satisfies one, None: every row is in it."""

    start: int = field(metadata=FROM)
    end: int = field(metadata=TO)
    readers: list[str]
    merged: bool
    windows: list[int]
    selection: list[str] | None
    predicted: Work


@dataclass(frozen=True)
class StateUse:
    stream: str
    axis: str
    reach: int
    until: list[str]
    """The times of their own until when rows wait."""
    stay_s: float | None
    """How long rows that leave then stay on average, where it was measured; else it is taken to be the reach."""
    slices: list[StateSliceUse]
    sequencing_bytes_per_row_and_shard: int


@dataclass(frozen=True)
class RateUse:
    stream: str
    rows_per_second: float
    known: str


@dataclass(frozen=True)
class TrafficUse:
    """What is taken to come to a join, and how that is known."""

    rates: list[RateUse]
    match: float | None
    match_known: str
    selectivities_known: str | None


@dataclass(frozen=True)
class FixedOrdering:
    """The ordering of a join that has no choice, and why."""

    ordering: str
    since_the_join: str


@dataclass(frozen=True)
class OrderingForecast:
    """What waits for a stream that is behind, and how long a row of the faster stream takes to be answered."""

    ordering: str
    alpha: float | None
    load: float
    keeps_up: bool
    response_s: dict[str, float]
    gain: float


@dataclass(frozen=True)
class SchedulingForecast:
    """How long each query waits for its rows after a burst under each scheduler (hammad2003 3), were delivery eager."""

    delivery: str
    scheduler: str
    scheduler_by: str
    burst_rows: int
    levels: int
    """Into how many a scan is cut."""
    run_rows: int
    """How many rows go through a level together."""
    response_ms: dict[str, dict[str, float]]
    mean_ms: dict[str, float]
    """Over all queries, under each scheduler: `auto` takes the lowest."""
    at_the_end: list[str] = field(default_factory=list)
    """With eager delivery, the queries whose rows leave at the end of the micro-batch, which then does all its work."""


@dataclass(frozen=True)
class PromiseUse:
    """What one stream of a join promises of its key, and whose rows that frees."""

    stream: str
    unique: bool
    punctuated: bool
    every_key: bool
    """Whether a punctuation is about all keys at once."""
    binding_us: int | None
    frees_rows_of: str
    rows_left: float | None
    lags_known: str | None
    """How it is known how long rows wait for promises: `measured`, or `assumed`."""


@dataclass(frozen=True)
class OrderUse:
    """By which value of each stream rows are in order, and how far apart, right less left, two of them may be.

    None where there is no end; in microseconds where `time` says that they are times.
    """

    left: str
    right: str
    low: float | None
    high: float | None
    time: bool


@dataclass(frozen=True)
class TreeUse:
    """A join that lives in the shards of another one: it reads what joins there have found, or does once more what a
    query does elsewhere."""

    reads: list[int | None]
    """Of each side, the join whose output it is."""
    home: int
    arrives: list[Literal["found there", "by key", "in every shard"]]
    """How the rows of each side come to a shard."""
    passed_on: list[str | None]
    """Of each side that is what a join finds which hears promises: nothing where that join passes on which keys are
    over, or why it does not."""
    again: str | None = None
    """The query that is done once more here, since another one wants its rows in these shards."""


@dataclass(frozen=True)
class JoinDescription:
    join: int
    left: str
    right: str
    algorithm: str
    on: list[KeyEquality]
    in_order_of: OrderUse | None
    """Where there is no equality: what spares it to look at every pair."""
    every_pair_since: str | None
    """Or why nothing does."""
    hot_keys_wanted: bool
    """Whether the job sets hot_keys = 'auto'."""
    keys_at_home_since: str | None
    """Why all rows of a key stay in one shard, however many; None where those of hot keys visit every shard."""
    parts: list[StreamPart | None]
    selections_checked_on: str
    queries: list[QueryUse]
    state: list[StateUse]
    traffic: TrafficUse
    predicted: Work
    order: FixedOrdering | OrderingForecast
    scheduling: SchedulingForecast
    streaming_query: int
    promises: list[PromiseUse]
    tree: TreeUse | None
    """Where it reads another join."""


@dataclass(frozen=True)
class JoinOrderUse:
    """One order in which a query can join its streams; work is per second of stream time.

    What other queries have already is not counted; `shares` says for each join of the order which of them has it.
    """

    order: list[str]
    streams: list[str]
    pairs_between_per_second: float
    rows: float
    cpu_ms_per_second: float
    in_every_shard: list[str]
    without_equality: list[str]
    shares: list[str | None]


@dataclass(frozen=True)
class QueryOrders:
    """The orders of a query over more than two streams: the one that it has and why, and the others, best first."""

    query: str
    why: str
    last: str | None
    """The stream that has to be the last one, since its join is no inner one."""
    orders: list[JoinOrderUse]
    more: int
    """How many orders are not listed."""


@dataclass(frozen=True)
class PlanDescription:
    settings: dict[str, str | int]
    decided_by: DecidedBy
    streams: list[StreamUse]
    joins: list[JoinDescription]
    never: list[NeverTrue]
    constants: KnownConstants
    alternatives: list[Alternative | ImpossibleAlternative]
    join_orders: list[QueryOrders] = field(default_factory=list)

    @property
    def queries(self) -> list[QueryUse]:
        """The queries of all joins, each once."""
        return list({query.name: query for join in self.joins for query in join.queries}.values())

    @property
    def without_rows(self) -> set[str]:
        """Queries that can have no rows and are in a join all the same."""
        return {query.name for query in self.never if not query.planned_away}
