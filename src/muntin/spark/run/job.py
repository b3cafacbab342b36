"""Jobs from Python: declare streams and queries, explain, start."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.model import JobSpec, Stream, UsageError
from muntin.plan import Plan
from muntin.spark.checkpoint import check_names
from muntin.spark.control import knowledge_of, plan_for, strategy_of, streams_per_pipeline
from muntin.spark.ingest import sources
from muntin.spark.run.output_place import OutputPlace
from muntin.spark.run.run import Progress, Run, check_sources
from muntin.spark.sink import Callback, OutputRequest, open_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODES = ("endless", "available-now", "bounded")


class Job:
    """Streams and the queries over them, to be run as one Spark job."""

    def __init__(self, spark: SparkSession, spec: JobSpec | None = None):
        self.spark = spark
        self.spec = spec or JobSpec()
        self._frames: dict[str, DataFrame] = {}

    @classmethod
    def from_file(cls, spark: SparkSession, path: str | os.PathLike[str]) -> Job:
        from muntin.sql import parse_job

        return cls(spark, parse_job(Path(path).read_text(), source=str(path)))

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str,
        lateness: str = "0 seconds",
        idle_after: str | None = None,
        promises: str | None = None,
    ) -> Job:
        """Add a stream that comes from any streaming DataFrame.

        `time` is the column with the event time, or an expression that gives it: `"timestamp_millis(t)"`.

        `promises` is what a job file says of them: `"UNIQUE (k)"`, `"PUNCTUATION WHEN closed BINDING 1 hour"`.
        """
        from muntin.sql import parse_duration_us, parse_event_time, parse_promises

        if not frame.isStreaming:
            raise UsageError(f"stream {name}: this DataFrame is not a streaming one", hint="use spark.readStream")
        if name in self.spec.streams:
            raise UsageError(f"stream {name} is there already")
        schema = sources.schema_of(name, frame)
        column = schema.find(time)
        if column is not None and column.type not in ("timestamp", "timestamp_ntz"):
            hint = "the event time must be a timestamp: timestamp_millis(t), to_timestamp(s) or the like"
            raise UsageError(f"stream {name}: {time} has type {column.type}", hint=hint)
        idle_us = None if idle_after is None else parse_duration_us(idle_after)
        added = Stream(name, schema, column.name if column else time, parse_duration_us(lateness), idle_us=idle_us)
        if column is None:
            added = parse_event_time(time, added)
        if promises is not None:
            added = parse_promises(promises, added)
        self._frames[name] = frame
        self.spec = dataclasses.replace(self.spec, streams={**self.spec.streams, name: added})
        return self

    def query(self, name: str, sql: str) -> Job:
        """Add a query: the text after `CREATE QUERY name AS`."""
        from muntin.sql import parse_query

        if name in self.spec.queries:
            raise UsageError(f"query {name} is there already")
        added = parse_query(sql, self.spec, name=name)
        self.spec = dataclasses.replace(self.spec, queries={**self.spec.queries, name: added})
        return self

    def explain(self, checkpoint: str | os.PathLike[str] | None = None) -> str:
        """The shared plan; with a checkpoint, predicted from what its joins have measured."""
        from muntin.plan.explain import explain

        if checkpoint is None:
            return explain(self.spec)
        folder = Path(checkpoint)
        knowledge = knowledge_of(self.spec, folder)
        return explain(self.spec, knowledge, strategy_of(folder), streams_per_pipeline(folder))

    def start(
        self,
        output: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        sink: Callback | None = None,
        mode: str = "endless",
        progress: Progress | None = None,
        truncate_output: bool = False,
    ) -> Run:
        """Start the job; what is wrong with the request is said before anything is written or run.

        `output` is spelled as `muntin run --help` says for `--output`; None counts the rows and discards them. `sink`
        gets them as Arrow tables instead.
        `truncate_output` removes from the output what is newer than the checkpoint, which was restored from a back-up.
        """
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode}", hint=f"modes: {', '.join(MODES)}")
        request = OutputRequest(
            output=None if output is None else os.fspath(output),
            callback=sink,
            eager=self.spec.settings.eager,
            aggregates=any(query.aggregation for query in self.spec.queries.values()),
        )
        place = OutputPlace.of(open_sink(request), checkpoint)
        plan = check_job(self.spec, self._frames, place.checkpoint)
        run = Run(self.spark, self.spec, plan, place, mode, progress, dict(self._frames))
        run._begin(truncate_output)
        return run


def check_job(spec: JobSpec, frames: Collection[str] = (), checkpoint: Path | None = None) -> Plan:
    """The plan of a job; refuses one that cannot run. `frames` names the streams that come from DataFrames.

    It needs no Spark, so that the command line can ask before it starts one.
    """
    if not spec.queries:
        raise UsageError("the job has no queries", hint="add CREATE QUERY name AS SELECT ...")
    check_names(spec.queries)
    plan = plan_for(spec, checkpoint)
    check_sources(plan, frames)
    return plan
