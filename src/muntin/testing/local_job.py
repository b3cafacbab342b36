"""A whole job in this process, without Spark: for tests, studies and comparisons.

The same operator, routing and shards as on Spark; only what moves the data is a loop.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates import GroupValues, finish
from muntin.core.arrivals import (
    HeavyKey,
    StreamsReached,
    begun_with,
    copies_of,
    data_of,
    look_up,
    marked,
    outside_calendar,
    shard_rows,
    spans_of,
    to_report,
)
from muntin.core.batch import TS, Arrivals, Counters, event_times, own_schema, row_schema
from muntin.core.feeding import FedRows, arrive, begun_by, completed_by, feed, for_outputs, reported_by
from muntin.core.operator import Operator
from muntin.core.operator_state import OperatorMeta
from muntin.core.policy import Policy
from muntin.core.punctuations import spoken_by
from muntin.core.results import ResultBatch, route, unite
from muntin.core.schedule import Delivery, ScheduledWork, WorkLimit
from muntin.core.step import ChangeOutcome, Step
from muntin.model import Axis, JobSpec, Side, Stream
from muntin.model.records import from_json, to_json
from muntin.plan import Plan, SharedJoin, covers, evolve, make_plan
from muntin.plan.families import distinct_values_sent
from muntin.plan.punctuation import speakers

Tables = dict[str, pa.Table]
_NOTHING = pa.table({TS: pa.array([], pa.int64())})


@dataclass
class Shard:
    """One operator with the durable log that a state store would keep for it."""

    join: SharedJoin
    operator: Operator
    log: dict[str, pa.Table] = field(default_factory=dict)
    checks: bool = False
    """Whether the state of the operator is checked after every step: that looks at every row."""
    fed: dict[str, FedRows] = field(default_factory=dict)
    """What the last micro-batch has found for the joins that read this one."""

    def advance(self, arrivals: Arrivals) -> tuple[Step, ResultBatch]:
        before = self.operator.release
        step = self.operator.advance(arrivals)
        self.fed = feed(self.operator, step, before)
        told = for_outputs(step, self.join)
        run = told.found.whole()
        self._keep(step)
        return told, run

    def deliver(self, arrivals: Arrivals, run_length: int | None) -> tuple[Step, Tables]:
        """The same in the order of the scheduler: each query's rows as they are delivered."""
        self.operator.receive(arrivals)
        delivered = self._deliver(self.operator.work(run_length))
        step = self.operator.finish()
        self._keep(step)
        if self.operator.lacks_rows:  # as on Spark: a second attempt would find the rows of the chunks
            self.restart()
        return step, delivered

    def complete(self) -> Tables:
        """Do what is left of earlier micro-batches, before queries change."""
        work = self.operator.complete()
        delivered = {} if work is None else self._deliver(work)
        self.operator.completed()
        return delivered

    def _deliver(self, work: ScheduledWork) -> Tables:
        found: dict[str, list[pa.Table]] = defaultdict(list)

        def take(deliveries: Iterable[Delivery]) -> None:
            for delivery in deliveries:
                self.operator.keep_for_aggregates(delivery)
                pairs = self.operator.found(delivery.pairs, self.operator.readers(work, delivery.levels))
                for query, table in route(self.join, pairs.whole()):
                    found[query.name].append(table)

        work.arrive()
        while (done := work.step()) is not None:
            take(done.deliveries)
        take(work.close())
        return {name: pa.concat_tables(tables) for name, tables in found.items()}

    def _keep(self, step: Step) -> None:
        self.log.update(step.puts)
        for name in step.deletes:
            del self.log[name]
        self.operator.tidy()
        self._check()

    def _check(self) -> None:
        if self.checks:
            self.operator.check()
            assert self.log.keys() == self.operator.chunks.live.keys(), "the log has other chunks than the operator"

    def change(self, join: SharedJoin, covered: Mapping[str, bool]) -> ChangeOutcome:
        self.join = join
        outcome = self.operator.change(join, covered)
        if self.checks:
            self.operator.check()
        return outcome

    def restart(self) -> None:
        """Forget all but what is durable."""
        meta = from_json(OperatorMeta, json.loads(json.dumps(to_json(self.operator.meta))))
        policy = self.operator.policy
        self.operator = Operator.restore(self.join, meta, self.log, policy=policy)
        self._check()


class LocalJob:
    """Feed micro-batches of stream tables, receive each query's rows in order."""

    checks = False
    """Whether jobs check the state of their operators after every step unless told otherwise; tests switch it on."""

    def __init__(
        self,
        spec: JobSpec,
        shards: int = 1,
        plan: Plan | None = None,
        run_length: int | None = None,
        checks: bool | None = None,
        tables: Mapping[str, pa.Table] | None = None,
    ):
        self.spec = spec
        self.tables = dict(tables or {})
        """What rows look into from the next micro-batch on."""
        self._run_length = run_length
        self.plan = plan or make_plan(spec)
        self._policy = Policy.of(spec.settings, shards * max(1, len(self.plan.joins)))
        self._count = shards
        self._checks = self.checks if checks is None else checks
        self.shards = [self._new_shards(join) for join in self.plan.joins]
        self.late: dict[str, list[pa.Table]] = {name: [] for name in spec.streams}
        self.ahead: dict[str, list[pa.Table]] = {name: [] for name in spec.streams}
        self.outside: dict[str, list[pa.Table]] = defaultdict(list)
        """Rows with an event time outside of the calendar."""
        self.faults: dict[str, list[pa.Table]] = defaultdict(list)
        """Of queries with aggregates, the groups whose values did not fit."""
        self.refused: dict[str, list[pa.Table]] = {name: [] for name in spec.streams}
        """Rows that broke a promise and punctuations that say nothing, with the reason."""
        self.punctuations: dict[str, list[pa.Table]] = {name: [] for name in spec.queries}
        """Of each query's output, in order of event time within each micro-batch and shard."""

    def _new_shards(self, join: SharedJoin) -> list[Shard]:
        return [Shard(join, Operator(join, policy=self._policy), checks=self._checks) for _ in range(self._count)]

    def follow(self, filter_order: bool) -> None:
        """From the next micro-batch on let results wait instead of rows, or the other way round."""
        for operator in self._operators():
            operator.follow(filter_order)

    def limit_work(self, limit: WorkLimit) -> None:
        """From the next micro-batch on leave work beyond a limit to the one after it."""
        for operator in self._operators():
            operator.work_limit = limit

    def heat(self, join: int, hot: Collection[tuple[int, int]], cool: Collection[tuple[int, int]] = ()) -> None:
        """From the next micro-batch on rows of some keys visit every shard, and those of others no more."""
        for shard in self.shards[join]:
            shard.operator.heat([HeavyKey(*key, "") for key in hot], [HeavyKey(*key, "") for key in cool])

    def push(
        self, batch: Mapping[str, pa.Table], ended: bool = False, idle: Collection[str] = ()
    ) -> dict[str, pa.Table]:
        """One micro-batch; a stream that is missing brought nothing. Event times must not be NULL."""
        rows = {s.name: marked(s, self._admitted(s, batch.get(s.name))) for s in self.plan.streams}
        speaks = speakers(self.plan)
        found: dict[str, list[pa.Table]] = defaultdict(list)
        values: dict[str, list[GroupValues]] = defaultdict(list)
        apart: dict[str, dict[str, bool]] = {}
        fed: list[dict[str, FedRows]] = [{} for _ in range(self._count)]
        for join, shards in zip(self.plan.joins, self.shards, strict=True):
            came = {stream.name: rows.get(stream.name, _NOTHING) for stream in join.streams}
            parts = [self._parts(join, side, came[join.streams[side].name]) for side in Side]
            lows, highs = zip(*(_span(came[join.streams[side].name]) for side in Side), strict=True)
            streams = zip(join.streams, join.axes, strict=True)
            clocks = [data_of(came[s.name])[TS].to_numpy() if axis is Axis.ROWS else None for s, axis in streams]
            silent = [s.name in idle for s in join.streams]
            gap = self._policy.max_ahead_us
            spans = [spans_of(came[s.name][TS].to_numpy(), gap) if gap else [] for s in join.streams]
            copies = [copies_of(of_side, _hot_keys(shards)) for of_side in parts]
            runs = []
            for n, shard in enumerate(shards):
                arrivals = Arrivals(
                    (parts[0][n], parts[1][n]),
                    lows,
                    highs,
                    (ended, ended),
                    (clocks[0], clocks[1]),
                    (silent[0], silent[1]),
                    (spans[0], spans[1]),
                    copies=(copies[0][n], copies[1][n]),
                    place=(n, len(shards)),
                )
                arrivals = arrive(join, arrivals, fed[n])
                if self._policy.eager:
                    step, delivered = shard.deliver(arrivals, self._run_length)
                    for name, table in delivered.items():
                        found[name].append(table)
                else:
                    step, run = shard.advance(arrivals)
                    fed[n] |= shard.fed
                    runs.append(run)
                for group in step.values:
                    values[group.query].append(group)
                self._turn_away(join, n, step)
                for name, table in spoken_by(join.index, step.punctuations, speaks).items():
                    self.punctuations.setdefault(name, []).append(table)
            for query, table in route(join, ResultBatch.merge(runs)) if runs else ():
                found[query.name].append(table)
            for query in join.queries:
                apart[query.name] = distinct_values_sent(join, query) if query.aggregation else {}
        for name, told in values.items():
            table, faults = finish(self.spec.queries[name], told, apart[name])
            found[name].append(table)
            self.faults[name].append(faults)
        return {name: unite(query, found[name]) for name, query in self.spec.queries.items()}

    def _turn_away(self, join: SharedJoin, n: int, step: Step) -> None:
        """Keep the rows that a shard has turned away, if it is the one that tells them."""
        for side in reported_by(join, n):
            name = join.streams[side].name
            self.late[name].append(to_report(self.plan, join, side, step.late[side]))
            if join.reports[side]:
                self.ahead[name].append(step.ahead[side])
        for side, table in step.refused:
            if join.reports[side] and side in reported_by(join, n):
                self.refused[join.streams[side].name].append(table)

    def _parts(self, join: SharedJoin, side: Side, rows: pa.Table) -> list[pa.Table]:
        """The rows of a stream for each shard; what joins below find comes later."""
        if join.reads[side] is not None:
            return [row_schema(join, side).empty_table()] * self._count
        return shard_rows(join, side, rows, self._count)

    def _admitted(self, stream: Stream, table: pa.Table | None) -> pa.Table:
        rows = _timed(stream, table)
        outside = outside_calendar(rows[TS])
        self.outside[stream.name].append(rows.filter(outside))
        return look_up(stream, rows.filter(pc.invert(outside)), self.tables)

    def change(self, spec: JobSpec) -> dict[str, ChangeOutcome]:
        """Go on with other queries; for each that is new, what the change did in its join."""
        plan, before = evolve(self.plan, spec), self.plan
        progress = [(o.join.streams, o.progress.streams) for o in self._operators()]
        seen = [
            StreamsReached([s.name for s in two], p.max_ts, list(p.frontiers), list(p.own_frontiers))
            for two, p in progress
        ]
        new = {name for name, query in plan.parts.items() if before.parts.get(name) != query}
        done: dict[str, ChangeOutcome] = {}
        engines: list[list[Shard]] = []
        below: list[dict[int, Operator]] = [{} for _ in range(self._count)]
        for join in plan.joins:
            old, mine = before.join(join.index), [q for q in join.queries if q.name in new]
            if old is None:
                shards = self._new_shards(join)
                begun = begun_with([stream.name for stream in join.streams], seen)
                changes = [s.operator.begin(begun_by(join, b, begun)) for s, b in zip(shards, below, strict=True)]
            else:
                shards = self.shards[before.joins.index(old)]
                changes = [s.change(join, {q.name: covers(old, q) for q in mine}) for s in shards]
            for n, shard in enumerate(shards):
                changes[n] = completed_by(changes[n], shard.operator, below[n])
                below[n][join.index] = shard.operator
            engines.append(shards)
            done |= {q.name: _later(done.get(q.name), changes[0], q.name) for q in mine}
        self.spec, self.plan, self.shards = spec, plan, engines
        return done

    def complete(self) -> dict[str, pa.Table]:
        """Do all that is left of earlier micro-batches, as must be before queries change; each query's rows."""
        found: dict[str, list[pa.Table]] = defaultdict(list)
        for shards in self.shards:
            for shard in shards:
                for name, table in shard.complete().items():
                    found[name].append(table)
        return {name: unite(query, found[name]) for name, query in self.spec.queries.items()}

    def _operators(self) -> list[Operator]:
        return [shard.operator for shards in self.shards for shard in shards]

    def restart(self) -> None:
        for shards in self.shards:
            for shard in shards:
                shard.restart()

    def counters(self, join: int = 0) -> list[Counters]:
        return [shard.operator.counters for shard in self.shards[join]]


def _hot_keys(shards: Iterable[Shard]) -> set[tuple[int, int]]:
    return {key.key for shard in shards for key in shard.operator.hot_keys.known}


def _later(one: ChangeOutcome | None, other: ChangeOutcome, query: str) -> ChangeOutcome:
    """Of two joins that feed a query, the one that makes it complete later."""
    if one is None or one.complete_from[query] is None or other.complete_from[query] is None:
        return other if one is None or one.complete_from[query] is not None else one
    return max(one, other, key=lambda changed: changed.complete_from[query] or 0)


def _timed(stream: Stream, table: pa.Table | None) -> pa.Table:
    wanted = own_schema(stream)
    table = wanted.empty_table() if table is None else table.select(wanted.names).cast(wanted)
    return table.add_column(0, pa.field(TS, pa.int64(), nullable=False), event_times(stream, table))


def _span(rows: pa.Table) -> tuple[int | None, int | None]:
    ends = pc.min_max(rows[TS]).as_py()
    return ends["min"], ends["max"]
