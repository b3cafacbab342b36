"""All sinks of a job as one: its output, and the places of queries that have one of their own (`INTO`).

One manifest commits a micro-batch for all of them. What is to be there before it is handed over first, and what follows
from it is completed after it, sink by sink.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import pyarrow as pa

from muntin.model import Destination, Query, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.checkpoint import BatchOutcome, Manifest, Publisher, Staged
from muntin.spark.sink.registry import open_into, open_sink
from muntin.spark.sink.sink import OutputRequest, Sink, Stager
from muntin.spark.store import Location, ObjectPath


@dataclass(frozen=True)
class RoutedStager(Stager):
    """Hands rows to the stager of the place that they go to."""

    output: Stager
    places: dict[Destination, Stager] = field(default_factory=dict)

    def into(self, place: Destination | None) -> Stager:
        return self.output if place is None else self.places[place]

    def clear(self) -> None:
        for stager in (self.output, *self.places.values()):
            stager.clear()


class RoutedSink(Sink):
    """The output of a job and the places of its queries. A place is opened when the first query names it."""

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        self.output = open_sink(request)
        self._places: dict[Destination, Sink] = {}
        self._routes: dict[str, Destination | None] = {}
        """Where the rows of each query go."""
        self._begun = False
        self._opening = threading.Lock()

    # -- what it is, is what its output is ------------------------------------------------------------------------

    @property
    def folder(self) -> Path | None:  # type: ignore[override]
        return self.output.folder

    @property
    def counts_in_shards(self) -> bool:  # type: ignore[override]
        return self.output.counts_in_shards

    @property
    def description(self) -> str:
        return self.output.description

    def default_checkpoint(self) -> str | Path | None:
        return self.output.default_checkpoint()

    @property
    def objects(self) -> ObjectPath | None:  # type: ignore[override]
        return self.output.objects

    def open_publisher(self, checkpoint: Location, prefix: str = "") -> Publisher:
        return self.output.open_publisher(checkpoint, prefix)

    # -- places ---------------------------------------------------------------------------------------------------

    def _sink(self, into: Destination | None) -> Sink:
        if into is None:
            return self.output
        with self._opening:
            if into not in self._places:
                opened = open_into(replace(self.request, output=None, callback=None, layout="queries", into=into))
                opened.job = self.job
                if self._publisher is not None:
                    opened = opened.attached(self.pipeline, self._publisher)
                if self._begun:
                    opened.begin()
                self._places[into] = opened
            return self._places[into]

    def _all(self) -> list[Sink]:
        return [self.output, *self._places.values()]

    def belongs_to(self, job: str) -> None:
        for sink in (self, *self._all()):
            sink.job = job

    def attached(self, pipeline: int, publisher: Publisher) -> Self:
        mine = super().attached(pipeline, publisher)
        mine.output = self.output.attached(pipeline, publisher)
        mine._places, mine._routes, mine._opening = {}, {}, threading.Lock()
        return mine

    def know(self, plan: Plan) -> None:
        """Open the places of a plan's queries: what they wrote may have to be completed."""
        for query in plan.queries.values():
            self._sink(query.into)

    def check(self, query: Query) -> None:
        if query.into is not None and self.counts_in_shards:
            message = f"{query.name} goes into {query.into.place}, and this run only counts rows where they are found"
            raise UsageError(message, hint="run the job with an output folder, or with this query in the job file")
        self._sink(query.into).check(query)

    def check_settings(self, settings: Settings) -> None:
        self.output.check_settings(settings)

    def prepare(self, plan: Plan, settings: Settings) -> None:
        self._routes |= {query.name: query.into for query in plan.queries.values()}
        self.know(plan)
        for sink in self._all():
            sink.prepare(plan, settings)

    # -- micro-batches --------------------------------------------------------------------------------------------

    def stager(self, batch: int) -> Stager:
        return RoutedStager(
            self.output.stager(batch), {place: sink.stager(batch) for place, sink in self._places.items()}
        )

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        self._sink(self._routes.get(name)).deliver(name, table, batch)

    def hand_over(self, done: BatchOutcome) -> None:
        kept: list[Staged] = []
        for sink in self._divided(done):
            sink.hand_over(done)
            kept += done.staged
        done.staged = kept

    def discard(self, done: BatchOutcome) -> None:
        for sink in self._divided(done):
            sink.discard(done)

    def _divided(self, done: BatchOutcome) -> Iterator[Sink]:
        """Each sink, while `done` has staged what goes to it."""
        staged = done.staged
        for into in dict.fromkeys([None, *(one.into for one in staged)]):
            done.staged = [one for one in staged if one.into == into]
            yield self._sink(into)

    def complete(self, manifest: Manifest) -> None:
        for sink in self._all():
            sink.complete(manifest)

    def begin(self) -> None:
        self._begun = True
        for sink in self._all():
            sink.begin()

    def compact_query(self, query: Query, kept: Collection[str], least: int) -> None:
        self._sink(query.into).compact_query(query, kept, least)

    def close(self) -> None:
        for sink in self._all():
            sink.close()
