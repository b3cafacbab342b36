"""What a checkpoint says of its job: its queries and plans, and what a change would do to them. It needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from muntin.model import Change, DimensionTable, Field, JobSpec, MuntinError, Query, Schema, Settings, Stream
from muntin.plan import Plan
from muntin.spark.checkpoint import FileKind, PlanLog, identity, read_record, stored_job, waiting, with_spark_half
from muntin.spark.control import advice_about, apply_change
from muntin.spark.run.ended import refuse_ended
from muntin.spark.run.status import DeclaredStream, JobStatus, status_file
from muntin.spark.store import Location


def check_change(checkpoint: Location, sql: str) -> list[str]:
    """Refuse a statement that the job, as its last run left it and with what waits, would not take; warnings, one line
    each."""

    refuse_ended(with_spark_half(checkpoint), "endless")
    spec = spec_of(checkpoint)
    if not spec.streams:  # it has not run so far, or an older Muntin ran it
        return []
    change = allowed_change(checkpoint, spec, sql)
    return advice_about(change.query) if change.query is not None else []


def allowed_change(checkpoint: Location, spec: JobSpec, sql: str) -> Change:
    """The change that a statement asks for, after the requests that wait; refuses what the job would refuse."""
    from muntin.sql import parse_change

    for request in waiting(checkpoint):
        try:
            spec = apply_change(spec, parse_change(request.sql, spec))
        except MuntinError:  # the run will refuse it
            continue
    change = parse_change(sql, spec)
    apply_change(spec, change)
    return change


def spec_of(checkpoint: Location) -> JobSpec:
    """Streams, settings that concern queries, and queries of a job."""
    status, stored = read_record(status_file(checkpoint), FileKind.STATUS, JobStatus), stored_job(checkpoint)
    if stored is None:
        return JobSpec()
    streams = {name: _stream(name, declared) for name, declared in status.streams.items()}
    settings = Settings(output_order=stored.settings.output_order, delivery=status.delivery)
    tables = {name: DimensionTable(name, _schema(declared.columns)) for name, declared in status.tables.items()}
    spec = JobSpec(streams, {}, settings, tables=tables)
    return replace(spec, queries=_queries(checkpoint, spec)) if streams else spec


def _stream(name: str, declared: DeclaredStream) -> Stream:
    from muntin.sql import parse_event_time

    stream = Stream(name, _schema(declared.columns), declared.time)
    is_column = stream.schema.find(declared.time) is not None
    return stream if is_column else parse_event_time(declared.time, stream)


def _schema(columns: Iterable[tuple[str, str]]) -> Schema:
    return Schema(tuple(Field(*column) for column in columns))


def _queries(checkpoint: Location, spec: JobSpec) -> dict[str, Query]:
    """The queries of all pipelines, accepted changes included."""
    return {name: query for plan in latest_plans(checkpoint, spec).values() for name, query in plan.queries.items()}


def latest_plans(checkpoint: Location, spec: JobSpec) -> dict[int, Plan]:
    """The plan of each pipeline that has queries still, accepted changes included."""
    found: dict[int, Plan] = {}
    for number in identity.pipeline_numbers(checkpoint):
        folder = identity.pipeline_folder(checkpoint, number)
        stored, log = stored_job(folder), PlanLog(folder, spec)
        latest = log.latest()
        if stored is not None and not stored.is_over and latest is not None:
            found[number] = log.read(latest).plan
    return found
