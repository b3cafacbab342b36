"""The driver's half of the sink, called by Spark once per micro-batch.

One Spark action per micro-batch: `mapInArrow(task).collect()` brings back small messages, and the tables themselves
only where the driver hands them on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from muntin.spark.checkpoint import Manifest
from muntin.spark.exchange import Topology, decode
from muntin.spark.sink.eager_hub import Hub
from muntin.spark.sink.messages import TaskMessage, outcome_of
from muntin.spark.sink.response_times import Latency
from muntin.spark.sink.sink import Sink
from muntin.spark.sink.spans import Spans
from muntin.spark.sink.task import DDL, SinkTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchWriter:
    """Runs the tasks of micro-batches and commits what they have done."""

    def __init__(self, topology: Topology, sink: Sink, hub: Hub):
        self._topology = topology
        self._sink = sink
        self._hub = hub
        self.latency: dict[str, Latency] = hub.latency
        """How long the rows of each query have taken, in this run."""

    def write(self, frame: DataFrame, batch: int, spans: Spans) -> Manifest:
        """Run the micro-batch, also one that is committed already: Spark must commit its state.

        After a failure what was staged stays: if the manifest was written, the files are still to be renamed.
        """
        again = self._sink.publisher.is_committed(batch)
        stager = self._sink.stager(batch)
        last = self._sink.publisher.last
        self._hub.begin(batch, muted=again, held=last.held if last.batch == batch - 1 else None, spans=spans)
        try:
            messages = self._run(frame, SinkTask(self._topology, stager, spans))
        except BaseException:
            if (failure := self._hub.failed()) is not None:
                raise failure from None
            raise
        done = outcome_of(batch, messages)
        self._hub.finish((report.join, report.shard) for report in done.reports if not report.gone)
        done.rows.update(self._hub.rows)
        done.held = self._hub.held
        manifest = self._sink.commit(done)
        if not again:
            self._note(messages, time.time_ns() // 1000)
        stager.clear()
        return manifest

    def _run(self, frame: DataFrame, task: SinkTask) -> list[TaskMessage]:
        """The one action."""
        if self._topology.results_go_to_tasks:
            rows = frame.mapInArrow(task.run, DDL).collect()
            return [TaskMessage.from_row(row["message"], row["table"]) for row in rows]
        return list(task.messages([decode(row["frame"], "a frame for the sink") for row in frame.collect()]))

    def _note(self, messages: list[TaskMessage], now: int) -> None:
        """Rows count as handed over with the commit of their micro-batch."""
        for message in messages:
            for name, arrivals in message.arrivals.items():
                self.latency.setdefault(name, Latency()).add_since(dict(arrivals), now)

    def close(self) -> None:
        """The run is over."""
        self._hub.close()
        self._sink.close()
