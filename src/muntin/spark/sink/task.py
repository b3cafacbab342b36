"""The task function of the sink: merge the shards' results, route them to the queries, stage their tables.

Each task handles one part: a time range of all shards where the order is global, one shard where it is per key.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from muntin.core.aggregates import GroupValues, finish
from muntin.core.punctuations import in_order
from muntin.core.results import OutputColumns, PairSlices, ResultBatch, alone, routed, unite
from muntin.model import Destination
from muntin.model.records import from_json
from muntin.plan.families import distinct_values_sent
from muntin.spark.checkpoint import ShardReport
from muntin.spark.exchange import Frame, FrameKind, Topology, decode
from muntin.spark.ingest import dead_letters
from muntin.spark.sink.messages import TaskMessage
from muntin.spark.sink.parquet import punctuations_of
from muntin.spark.sink.sink import Stager
from muntin.spark.sink.slice_folders import slice_folder
from muntin.spark.sink.spans import ALL_ROWS, Spans, span_of
from muntin.spark.worker import set_aside

SCHEMA = pa.schema([pa.field("message", pa.string()), pa.field("table", pa.binary())])
DDL = "message string, table binary"


@dataclass(frozen=True)
class SinkTask:
    """Where the operators count the results, none arrive here."""

    topology: Topology
    stager: Stager
    spans: Spans = field(default_factory=dict)
    """What goes out of queries."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frames = [decode(value.as_buffer(), "a frame for the sink") for batch in batches for value in batch["frame"]]
        for message in self.messages(frames):
            text, table = message.to_row()
            yield pa.record_batch([pa.array([text]), pa.array([table], pa.binary())], schema=SCHEMA)
        set_aside()

    def messages(self, frames: list[Frame]) -> Iterator[TaskMessage]:
        """What the driver must know of this task's frames; tables are staged on the way."""
        for frame in frames:
            if frame.kind == FrameKind.REPORT:
                report = from_json(ShardReport, frame.header["report"])
                header = frame.header
                yield TaskMessage(report=report, arrivals=header["arrivals"], unmatched=header["unmatched"])
        turned_away = [frame for frame in frames if frame.kind == FrameKind.DEAD_LETTERS]
        if self.topology.counting:
            yield from (TaskMessage(dead_letters=frame.header["classes"]) for frame in turned_away)
            return
        tables = [(frame.header["part"], frame.table()) for frame in turned_away]
        yield from self._punctuations([frame for frame in frames if frame.kind == FrameKind.PUNCTUATIONS])
        yield from self._results([frame for frame in frames if frame.kind == FrameKind.RESULTS])
        yield from self._aggregates([frame for frame in frames if frame.kind == FrameKind.VALUES], tables)
        if tables:
            table = pa.concat_tables([table for _, table in tables])
            yield TaskMessage(dead_letters=dead_letters.by_class(table))
            yield from self._stage(dead_letters.NAME, tables[0][0], table)

    def _punctuations(self, frames: list[Frame]) -> Iterator[TaskMessage]:
        """What the shards of this part say of the queries' outputs, in order of event time."""
        by_query: dict[str, list[Frame]] = defaultdict(list)
        for frame in sorted(frames, key=lambda f: f.header["part"]):
            by_query[frame.header["query"]].append(frame)
        for name, pieces in sorted(by_query.items()):
            table = self.spans.get(name, ALL_ROWS).keep(in_order([piece.table() for piece in pieces]))
            if table.num_rows:
                yield from self._stage(punctuations_of(name), pieces[0].header["part"], table)

    def _results(self, frames: list[Frame]) -> Iterator[TaskMessage]:
        found: dict[tuple[int, int], list[Frame]] = defaultdict(list)
        for frame in sorted(frames, key=lambda f: f.header["shard"]):
            found[frame.header["join"], frame.header["part"]].append(frame)
        plan = self.topology.epoch(frames[0].header["epoch"]).plan if frames else self.topology.plan
        feeds = Counter(query.name for join in plan.joins for query in join.queries)
        divided: dict[tuple[str, int], list[pa.Table]] = defaultdict(list)
        for (index, part), pieces in sorted(found.items()):
            join = plan.join(index)
            assert join is not None
            results = ResultBatch.merge([ResultBatch.from_bytes(join, piece.payload) for piece in pieces])
            if self.stager.into(None).takes_pairs:
                slices = PairSlices(join)
                yield from self._slices(slices, results, part)
                if not slices.has_others:
                    continue
                results = slices.others(results)
            columns = OutputColumns(results)
            for query, found_at in routed(join, results):
                places = span_of(query, self.spans).chosen(results, found_at)
                if not len(places):
                    continue
                lonely = {} if query.is_inner else {query.name: alone(results, places)}
                arrivals = {query.name: list(results.arrivals(places).items())}
                yield TaskMessage(arrivals=arrivals, unmatched=lonely)
                if not self.stager.into(query.into).takes_tables:
                    continue
                table = columns.output(query, places)
                if feeds[query.name] > 1:
                    divided[query.name, part].append(table)
                else:
                    yield from self._stage(query.name, part, table, query.into)
        for (name, part), tables in divided.items():
            yield from self._stage(name, part, unite(plan.queries[name], tables), plan.queries[name].into)

    def _slices(self, slices: PairSlices, results: ResultBatch, part: int) -> Iterator[TaskMessage]:
        """Each pair once, for the queries that read slices."""
        divided = slices.divide(results)
        yield TaskMessage(arrivals={name: list(rows.items()) for name, rows in divided.arrivals().items()})
        for number, table in divided.tables():
            yield from self._stage(slice_folder(slices.layout, number), part, table)

    def _aggregates(self, frames: list[Frame], turned_away: list[tuple[int, pa.Table]]) -> Iterator[TaskMessage]:
        """The rows of queries with aggregates, from the values of all shards; dead letters are added."""
        by_query: dict[tuple[str, int], list[Frame]] = defaultdict(list)
        for frame in sorted(frames, key=lambda f: (f.header["join"], f.header["shard"])):
            by_query[frame.header["query"], frame.header["part"]].append(frame)
        for (name, part), pieces in sorted(by_query.items()):
            plan = self.topology.epoch(pieces[0].header["epoch"]).plan
            join, query = plan.join(pieces[0].header["join"]), plan.queries[name]
            assert join is not None
            values = [GroupValues.read(piece.header, bytes(piece.payload)) for piece in pieces]
            table, faults = finish(query, values, distinct_values_sent(join, query))
            table = span_of(query, self.spans).keep(table)
            if faults.num_rows:
                turned_away.append((part, dead_letters.overflows(query, faults)))
            if table.num_rows:
                yield TaskMessage(rows={name: table.num_rows})
                yield from self._stage(name, part, table, query.into)

    def _stage(self, name: str, part: int, table: pa.Table, into: Destination | None = None) -> Iterator[TaskMessage]:
        staged = self.stager.into(into).stage(name, part, table)
        if staged is not None:
            yield TaskMessage(staged=staged if into is None else replace(staged, into=into))
