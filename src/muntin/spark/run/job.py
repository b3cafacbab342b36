"""Jobs from Python: declare streams and queries, explain, start."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.model import JobSpec, Stream, UsageError
from muntin.page import Explanation
from muntin.plan import Plan
from muntin.spark.checkpoint import check_names, open_checkpoint
from muntin.spark.control import Tell, joined_as_before, knowledge_of, plan_for, strategy_of, streams_per_pipeline
from muntin.spark.ingest import sources, with_sources
from muntin.spark.run.claim import check_sources
from muntin.spark.run.doors import (
    duration_us,
    expect,
    expect_callable,
    expect_name,
    expect_text,
    refuse_conflicts,
    setting,
)
from muntin.spark.run.output_place import OutputPlace
from muntin.spark.run.run import Progress, Run
from muntin.spark.sink import Callback, OutputRequest, RoutedSink, open_into
from muntin.spark.store import Location
from muntin.spark.tables import check_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODES = ("endless", "available-now", "bounded")
PATH = (str, os.PathLike)


class Job:
    """Streams and the queries over them, to be run as one Spark job."""

    def __init__(self, spark: SparkSession, spec: JobSpec | None = None):
        expect(
            "the first argument of Job", spark, hasattr(spark, "readStream"), "a SparkSession: muntin.open_session()"
        )
        expect("spec", spec, spec is None or isinstance(spec, JobSpec), "nothing; Job.from_file reads a job file")
        self.spark = spark
        self.spec = spec or JobSpec()
        self._frames: dict[str, DataFrame] = {}
        self._given: set[str] = set()
        """The settings that were set from Python."""

    @classmethod
    def from_file(cls, spark: SparkSession, path: str | os.PathLike[str]) -> Job:
        """The job of a job file."""
        from muntin.sql import parse_job

        expect("path", path, isinstance(path, PATH), "the path of a job file")
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise UsageError(f"cannot read the job file {os.fspath(path)}: {reason}") from error
        return cls(spark, parse_job(text, source=str(path)))

    def set(self, name: str, value: str | int | float | bool | timedelta) -> Job:
        """`SET name = value`: `job.set("state_limit", "8 GB")`, `job.set("max_ahead", timedelta(hours=1))`."""
        from muntin.sql import parse_query

        found, parsed = setting(self.spec.settings, name, value)
        settings = replace(self.spec.settings, **{found.field: parsed})  # type: ignore[arg-type]
        for query in self.spec.queries.values():  # those that are there must go with it
            parse_query(query.text, replace(self.spec, queries={}, settings=settings))
        self.spec = replace(self.spec, settings=settings)
        self._given.add(found.name)
        return self

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str,
        lateness: str | timedelta = "0 seconds",
        idle_after: str | timedelta | None = None,
        promises: str | None = None,
    ) -> Job:
        """Add a stream that comes from any streaming DataFrame.

        `time` is the column with the event time, or an expression that gives it: `"timestamp_millis(t)"`. Durations
        are texts such as `"5 seconds"`, or a timedelta. `promises` is what a job file says of them: `"UNIQUE (k)"`,
        `"PUNCTUATION WHEN closed BINDING 1 hour"`.
        """
        from muntin.sql import parse_event_time, parse_promises

        expect_name("stream", name)
        expect(f"stream {name}: frame", frame, hasattr(frame, "isStreaming"), "a DataFrame of spark.readStream")
        expect_text(f"stream {name}: time", time)
        if not frame.isStreaming:
            raise UsageError(f"stream {name}: this DataFrame is not a streaming one", hint="use spark.readStream")
        if name.lower() in map(str.lower, self.spec.streams):
            raise UsageError(f"stream {name} is there already")
        schema = sources.schema_of(name, frame)
        column = schema.find(time)
        if column is not None and column.type not in ("timestamp", "timestamp_ntz"):
            hint = "the event time must be a timestamp: timestamp_millis(t), to_timestamp(s) or the like"
            raise UsageError(f"stream {name}: {time} has type {column.type}", hint=hint)
        late_us = duration_us("lateness", lateness)
        idle_us = None if idle_after is None else duration_us("idle_after", idle_after)
        added = Stream(name, schema, column.name if column else time, late_us, idle_us=idle_us)
        if column is None:
            added = parse_event_time(time, added)
        if promises is not None:
            expect_text("promises", promises)
            added = parse_promises(promises, added)
        self._frames[name] = frame
        self.spec = replace(self.spec, streams={**self.spec.streams, name: added})
        return self

    def table(self, name: str, columns: str, *, format: str, **options: str) -> Job:
        """Add a table beside the streams: `job.table("Places", "id BIGINT, building STRING", format="csv",
        path="places.csv", header="true")`, as CREATE TABLE says it. It comes before the queries that look into it."""
        from muntin.sql import parse_job

        expect_name("table", name)
        expect_text(f"table {name}: columns", columns)
        for option, value in {"format": format, **options}.items():
            expect_text(f"table {name}: {option}", value)
        for kind, there in (("stream", self.spec.streams), ("table", self.spec.tables), ("query", self.spec.queries)):
            if name.lower() in map(str.lower, there):
                raise UsageError(f"{kind} {name} is there already")
        (declared,) = parse_job(f"CREATE TABLE {name} ({columns}) WITH (format = 'x');").tables.values()
        added = replace(declared, format=format, options=options)
        check_table(added)
        self.spec = replace(self.spec, tables={**self.spec.tables, added.name: added})
        return self

    def query(self, name: str, sql: str) -> Job:
        """Add a query: the text after `CREATE QUERY name AS`."""
        from muntin.sql import parse_query

        expect_text("the name of a query", name)
        expect_text(f"the SQL of query {name}", sql)
        if name in self.spec.queries:
            raise UsageError(f"query {name} is there already")
        added = parse_query(sql, self.spec, name=name)
        self.spec = replace(self.spec, queries={**self.spec.queries, name: added})
        return self

    def explain(self, checkpoint: str | os.PathLike[str] | None = None) -> Explanation:
        """The shared plan, a text that a notebook shows as a picture; with a checkpoint, predicted from what its joins
        have measured."""
        from muntin.plan.explain import describe, in_words, to_json

        folder = None if checkpoint is None else open_checkpoint(checkpoint)
        known = None if folder is None else knowledge_of(self.spec, folder)
        spec = joined_as_before(self.spec, folder)
        strategy = None if folder is None else strategy_of(folder)
        pipelines = [] if folder is None else streams_per_pipeline(folder)
        plan = with_sources(describe(spec, known, strategy, pipelines), spec, self.spark)
        return Explanation.of(in_words(plan), to_json(plan))

    def start(
        self,
        output: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        sink: Callback | None = None,
        mode: str = "endless",
        progress: Progress | None = None,
        truncate_output: bool = False,
        on_change: Tell | None = None,
        spark_checkpoint: str | os.PathLike[str] | None = None,
    ) -> Run:
        """Start the job; what is wrong with the request is said before anything is written or run.

        `output` is spelled as `muntin run --help` says for `--output`; None counts the rows and discards them. `sink`
        gets them as Arrow tables instead: `sink(query, table, batch_id)`.
        `mode` is "endless", "available-now" (what is there now; a later run goes on) or "bounded" (the same, and then
        the streams are ended). `progress` is called with the status after every micro-batch, `on_change` with an
        `Answer` whenever something has become of a change of queries.
        `truncate_output` removes from the output what is newer than the checkpoint, which was restored from a back-up.
        `checkpoint` and `output` may be URIs (`s3://bucket/folder`); `spark_checkpoint` is a shared folder for Spark's
        half of a checkpoint that is in an object store.
        """
        expect("output", output, output is None or isinstance(output, PATH), "a folder, or another output as text")
        expect("checkpoint", checkpoint, checkpoint is None or isinstance(checkpoint, PATH), "a folder")
        half = spark_checkpoint
        expect("spark_checkpoint", half, half is None or isinstance(half, PATH), "a folder, or a URI as text")
        expect_callable("sink", sink, "a callable: sink(query, table, batch_id)")
        expect_callable("progress", progress, "a callable: progress(status)")
        expect_callable("on_change", on_change, "a callable: on_change(answer)")
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode!r}", hint=f"modes: {', '.join(MODES)}")
        refuse_conflicts(self.spec.settings, self._given)
        request = OutputRequest(
            output=None if output is None else os.fspath(output),
            callback=sink,
            eager=self.spec.settings.eager,
            layout=self.spec.settings.output_layout,
            makes_rows=any(q.aggregation or q.into or q.from_beginning for q in self.spec.queries.values()),
        )
        sink_of_job = RoutedSink(request)
        sink_of_job.check_settings(self.spec.settings)
        place = OutputPlace.of(sink_of_job, checkpoint, spark_checkpoint)
        spec = joined_as_before(self.spec, place.checkpoint)
        plan = check_job(spec, self._frames, place.checkpoint)
        run = Run(self.spark, spec, plan, place, mode, progress, dict(self._frames), on_change)
        run._begin(truncate_output)
        return run


def check_job(spec: JobSpec, frames: Collection[str] = (), checkpoint: Location | None = None) -> Plan:
    """The plan of a job; refuses one that cannot run. `frames` names the streams that come from DataFrames.

    It needs no Spark, so that the command line can ask before it starts one.
    """
    if not spec.queries:
        raise UsageError("the job has no queries", hint="add CREATE QUERY name AS SELECT ...")
    check_names(spec.queries)
    for into in {query.into for query in spec.queries.values() if query.into is not None}:
        open_into(OutputRequest(into=into, eager=spec.settings.eager))
    plan = plan_for(spec, checkpoint)
    check_sources(plan, frames)
    for name in {lookup.table for stream in plan.streams for lookup in stream.lookups}:
        check_table(spec.tables[name])
    return plan
