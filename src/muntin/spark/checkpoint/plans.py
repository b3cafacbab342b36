"""The plans of a job over its life: one immutable file per epoch, that the driver reads and hands to its tasks.

    CHECKPOINT/muntin/plans/0000000003.json   strategy, chain, the joins with their cuts, the queries

Queries stand there as they were understood, not as text: what they mean stays the same whatever parses SQL later.

Streams stand there as far as they may change: their columns, and how late and for how long things count.

Epoch 0 is what the job began with; a change of queries or chains writes the next epoch and then a message in the
control stream that names it. Each shard goes over to it in the micro-batch that brings the message, and remembers its
epoch in the durable state; a replay finds the same files and does the same. Epochs that no replay can need are removed,
all but the first, which says what is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from muntin.model import Expr, Field, JobSpec, Query, Schema, Side, Stream, derived_stream
from muntin.model.plain import from_plain, to_plain
from muntin.plan import Partition, Plan, SharedJoin
from muntin.plan.placement import hearing
from muntin.spark.checkpoint.durable import UNFIT, FileKind, read_record, unfit, write_record
from muntin.spark.checkpoint.identity import FOLDER, id_if_claimed
from muntin.spark.store import Location, crash_points, store_of


@dataclass(frozen=True)
class Epoch:
    """A plan in force from some point of the input on; `covered` are its new queries (see `Operator.change`)."""

    number: int
    plan: Plan
    covered: Mapping[str, bool] = field(default_factory=dict)
    name: str | None = None
    kind: str | None = None
    request: str | None = None
    """Which query the change was about, what happened to it, and the request; None where the chains alone changed."""


@dataclass(frozen=True)
class StoredChange:
    """Which query a change was about, what happened to it, and the request that brought it."""

    name: str | None
    kind: str | None
    request: str | None


@dataclass(frozen=True)
class StoredStream:
    """What may be another with another plan: columns with their types, lateness, for how long promises bind, and what
    its rows look up, as values of the model."""

    columns: dict[str, str]
    lateness_us: int
    binding_us: int | None
    lookups: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, stream: Stream) -> StoredStream:
        lookups = [to_plain(lookup) for lookup in stream.lookups]
        return cls({f.name: f.type for f in stream.own}, stream.lateness_us, stream.binding_us, lookups)

    def applied(self, stream: Stream) -> Stream:
        """A stream of the job as it was then."""
        schema = Schema(tuple(Field(name, kind) for name, kind in self.columns.items()))
        then = replace(stream, schema=schema, lateness_us=self.lateness_us, binding_us=self.binding_us, lookups=())
        return then.looking_up(map(from_plain, self.lookups))


@dataclass(frozen=True)
class StoredJoin:
    """A shared join in a plan file. A part is a list of (number of a predicate, its truth)."""

    index: int
    queries: list[str]
    cuts: tuple[tuple[int, ...], tuple[int, ...]]
    reports: tuple[bool, bool]
    selects: bool
    parts: tuple[list[tuple[int, bool]] | None, list[tuple[int, bool]] | None]
    reads: tuple[int | None, int | None]
    everywhere: tuple[bool, bool]
    home: int
    feeds: list[str]
    keys: list[int]
    """The order of the equalities of its first query in which rows lie by them."""

    @classmethod
    def of(cls, join: SharedJoin, predicates: Mapping[str, int]) -> StoredJoin:
        left, right = (
            None if p is None else [(predicates[e.sql], t) for e, t in zip(p.predicates, p.truths, strict=True)]
            for p in join.partitions
        )
        names = [query.name for query in join.queries]
        order = [join.queries[0].keys.index(key) for key in join.keys]
        tree = join.reads, join.everywhere, join.home, list(join.feeds), order
        return cls(join.index, names, join.cuts, join.reports, join.selects, (left, right), *tree)


@dataclass(frozen=True)
class StoredPlan:
    """The content of a plan file; queries and predicates are values of the model (`model/plain.py`)."""

    strategy: str
    chain: str
    unused: int
    streams: dict[str, StoredStream]
    queries: dict[str, Any]
    asked: dict[str, Any]
    """The queries over more than two streams as they were asked; `queries` has them over two."""
    never: list[str]
    covered: dict[str, bool]
    change: StoredChange
    predicates: list[Any]
    joins: list[StoredJoin]

    @classmethod
    def of(cls, epoch: Epoch) -> StoredPlan:
        plan = epoch.plan
        dividing = {e.sql: e for join in plan.joins for part in join.partitions if part for e in part.predicates}
        numbers = {sql: n for n, sql in enumerate(dividing)}
        return cls(
            strategy=plan.strategy,
            chain=plan.chain,
            unused=plan.unused,
            streams={stream.name: StoredStream.of(stream) for stream in plan.streams},
            queries={name: to_plain(query) for name, query in plan.parts.items()},
            asked={query.name: to_plain(query) for query in plan.asked},
            never=[query.name for query in plan.never],
            covered=dict(epoch.covered),
            change=StoredChange(epoch.name, epoch.kind, epoch.request),
            predicates=[to_plain(e) for e in dividing.values()],
            joins=[StoredJoin.of(join, numbers) for join in plan.joins],
        )


class PlanLog:
    """The epochs of one checkpoint as they are found, and as they are written here; `spec` has the streams that their
    queries are over."""

    def __init__(self, checkpoint: Location, spec: JobSpec):
        self.folder = checkpoint / FOLDER / "plans"
        self._checkpoint = checkpoint
        self._spec = replace(spec, queries={})
        self._read: dict[int, Epoch] = {}
        self._known: dict[tuple[str, str], Query] = {}

    @cached_property
    def _numbers(self) -> list[int]:
        return sorted(int(file.stem) for file in store_of(self.folder).files(self.folder) if file.stem.isdigit())

    @cached_property
    def _job(self) -> str | None:
        return id_if_claimed(self._checkpoint)

    def numbers(self) -> list[int]:
        """The epochs that are kept; listed once, since nobody but the one log of a run writes them."""
        return list(self._numbers)

    def check(self, number: int) -> None:
        """Refuse a file that is not what was written, also where its streams are declared no more."""
        self.stored(number)

    def latest(self) -> int | None:
        """The number of the last epoch, None for a job that has none."""
        return max(self.numbers(), default=None)

    def write(self, epoch: Epoch) -> None:
        stored = StoredPlan.of(epoch)
        write_record(self.file(epoch.number), FileKind.PLAN, stored, self._job)
        self._read[epoch.number] = epoch
        self._numbers = sorted({*self._numbers, epoch.number})

    def file(self, number: int) -> Location:
        """Where an epoch is kept."""
        return self.folder / f"{number:010d}.json"

    def names(self) -> list[str]:
        """The names of the last epoch's queries, also where their streams are declared no more."""
        latest = self.latest()
        return [] if latest is None else [n for n, q in self.stored(latest).queries.items() if not q["hidden"]]

    def forget(self, before: int) -> None:
        """Remove the epochs before one, but for the first."""
        for number in self.numbers():
            if 0 < number < before:
                self._read.pop(number, None)
                with crash_points.durable("old plans removed"):
                    store_of(self.folder).remove(self.file(number))
                self._numbers.remove(number)

    def read(self, number: int) -> Epoch:
        """An epoch; each is read once, and each query made once, in a process."""
        if number not in self._read:
            stored = self.stored(number)
            try:
                self._read[number] = self._epoch(number, stored)
            except UNFIT as error:
                raise unfit(self.file(number), FileKind.PLAN, error) from None
        return self._read[number]

    def stored(self, number: int) -> StoredPlan:
        """An epoch as it is kept: it needs no streams."""
        return read_record(self.file(number), FileKind.PLAN, StoredPlan, self._job)

    def _epoch(self, number: int, stored: StoredPlan) -> Epoch:
        queries = {name: self._query(name, query) for name, query in stored.queries.items()}
        predicates = [from_plain(e) for e in stored.predicates]
        streams = {name: derived_stream(query) for name, query in queries.items()}
        streams |= {name: of.applied(self._spec.streams[name]) for name, of in stored.streams.items()}
        asked = tuple(self._query(f"{name} as asked", query) for name, query in stored.asked.items())
        joins = hearing(_join(join, streams, queries, predicates) for join in stored.joins)
        never = tuple(queries[name] for name in stored.never)
        plan = Plan(joins, stored.strategy, stored.chain, never, stored.unused, asked)
        change = stored.change
        return Epoch(number, plan, stored.covered, change.name, change.kind, change.request)

    def _query(self, name: str, stored: Mapping[str, Any]) -> Query:
        of_streams = all(stored[side] in self._spec.streams for side in ("left", "right")) and not stored["hidden"]
        key = name, stored["text"] if of_streams else json.dumps(stored, sort_keys=True)
        if key not in self._known:
            self._known[key] = from_plain(stored)
        return self._known[key]


def _join(
    stored: StoredJoin, streams: Mapping[str, Stream], queries: Mapping[str, Query], predicates: Sequence[Expr]
) -> SharedJoin:
    mine = tuple(queries[name] for name in stored.queries)
    left, right = (streams[mine[0].stream(side)] for side in Side)
    keys = tuple(mine[0].keys[n] for n in stored.keys)
    parts = _partition(stored.parts[0], predicates), _partition(stored.parts[1], predicates)
    tree = stored.reads, stored.everywhere, stored.home, tuple(stored.feeds)
    return SharedJoin(
        stored.index, (left, right), keys, mine, stored.reports, stored.cuts, stored.selects, parts, *tree
    )


def _partition(stored: list[tuple[int, bool]] | None, predicates: Sequence[Expr]) -> Partition | None:
    if stored is None:
        return None
    return Partition(tuple(predicates[n] for n, _ in stored), tuple(truth for _, truth in stored))


def copy_plans(old: Location, new: Location, first: int, job: str) -> dict[int, tuple[StoredJoin, bool]]:
    """Let the plans of a checkpoint from one on be those of another, the `job`, from 0 on; the joins of the first, and
    whether each has an equality."""
    source, target = PlanLog(old, JobSpec()), PlanLog(new, JobSpec())
    for number in source.numbers():
        if number >= first:
            plan = source.stored(number)
            write_record(target.file(number - first), FileKind.PLAN, plan, job)
    plan = source.stored(first)
    return {join.index: (join, bool(plan.queries[join.queries[0]]["keys"])) for join in plan.joins}
