"""`/metrics`: the status of a job as Prometheus reads it, names and units by its conventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from muntin.model import MuntinError
from muntin.spark.run import JobStatus
from muntin.web.live import LiveJob

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Values = Iterable[tuple[list[str], float]]
"""The values of labels, and the value."""


class StatusCollector:
    """Makes metrics of the status that is there when Prometheus asks."""

    def __init__(self, job: LiveJob):
        self._job = job

    def collect(self) -> Iterator[Metric]:
        try:
            status = self._job.view().record
        except (MuntinError, OSError):
            yield _gauge("muntin_up", "Whether the job runs.", [], [([], 0.0)])
            return
        yield from _of_the_job(status)
        yield from _of_queries(status)
        yield from _of_joins(status)


def render(job: LiveJob) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(job))
    return generate_latest(registry)


def _gauge(name: str, help: str, labels: list[str], values: Values) -> Metric:
    return _filled(GaugeMetricFamily(name, help, labels=labels), values)


def _counter(name: str, help: str, labels: list[str], values: Values) -> Metric:
    return _filled(CounterMetricFamily(name, help, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _of_the_job(status: JobStatus) -> Iterator[Metric]:
    yield _gauge("muntin_up", "Whether the job runs.", [], [([], float(status.state == "running"))])
    yield _gauge("muntin_start_time_seconds", "When the run started.", [], [([], status.started)])
    yield _gauge("muntin_status_time_seconds", "When the job last said anything.", [], [([], status.updated)])
    yield _gauge("muntin_queries", "Queries of the job.", [], [([], len(status.queries))])
    yield _gauge("muntin_epoch", "Number of the plan in force.", [], [([], status.epoch or 0)])
    yield _counter("muntin_batches", "Micro-batches of this run.", [], [([], status.batches)])
    rows = [([name], float(source.total_rows)) for name, source in status.streams_read.items()]
    yield _counter("muntin_input_rows", "Rows read.", ["stream"], rows)
    letters = [([reason], float(n)) for reason, n in status.dead_letters.items()]
    yield _counter("muntin_dead_letters", "Rows that were turned away.", ["reason"], letters)
    parts = [([part], seconds) for part, seconds in status.seconds.items()]
    yield _gauge("muntin_batch_duration_seconds", "The last micro-batch, by Spark's phases.", ["phase"], parts)


def _of_queries(status: JobStatus) -> Iterator[Metric]:
    rows = [([name], float(query.total_rows)) for name, query in status.queries.items()]
    yield _counter("muntin_output_rows", "Rows delivered.", ["query"], rows)
    gone = status.dropped.total_rows
    yield _counter("muntin_dropped_queries_output_rows", "Rows of queries that have gone.", [], [([], gone)])
    times = {name: query.response for name, query in status.queries.items() if query.response}
    quantiles = [
        ([name, quantile], seconds)
        for name, found in times.items()
        for quantile, seconds in (("0.5", found.p50_s), ("0.99", found.p99_s))
        if seconds is not None
    ]
    help = "From arrival at the source to hand-over, in this run."
    yield _gauge("muntin_response_seconds", help, ["query", "quantile"], quantiles)
    timed = [([name], float(found.rows)) for name, found in times.items()]
    yield _counter("muntin_timed_rows", "Rows whose response time is known, in this run.", ["query"], timed)
    seconds = [([name], found.rows * (found.mean_s or 0.0)) for name, found in times.items()]
    yield _counter("muntin_timed_rows_seconds", "Their response times, added up.", ["query"], seconds)


def _of_joins(status: JobStatus) -> Iterator[Metric]:
    joins = [(f"{join.pipeline}/{join.join}", join) for join in status.joins]
    sides = [(name, join, side) for name, join in joins for side in (0, 1)]
    slices = [
        ([name, join.streams[side], f"{piece.lo}-{piece.hi}"], float(piece.rows))
        for name, join, side in sides
        for piece in join.slices[side]
    ]
    yield _gauge("muntin_state_rows", "Rows kept, by slice of age.", ["join", "stream", "slice"], slices)
    yield _gauge("muntin_state_bytes", "State of a join.", ["join"], [([n], j.bytes) for n, j in joins])
    predicted = [([n], float(j.predicted_bytes)) for n, j in joins if j.predicted_bytes is not None]
    yield _gauge("muntin_state_predicted_bytes", "State of a join, as predicted.", ["join"], predicted)
    held = [([name, join.streams[side]], float(join.held_rows[side])) for name, join, side in sides]
    yield _gauge("muntin_held_rows", "Rows that wait for the other stream.", ["join", "stream"], held)
    pairs = [([name], float(join.held_pairs)) for name, join in joins]
    yield _gauge("muntin_held_results", "Results that may not leave yet.", ["join"], pairs)
    frontiers = [
        ([name, join.streams[side]], datetime.fromisoformat(at).timestamp())
        for name, join, side in sides
        if (at := join.frontiers[side]) is not None and at != "ended"
    ]
    help = "How far a stream is complete, as an event time."
    yield _gauge("muntin_frontier_time_seconds", help, ["join", "stream"], frontiers)
    idle = [([name, join.streams[side]], float(join.idle[side])) for name, join, side in sides]
    yield _gauge("muntin_stream_idle", "Whether nobody waits for a silent stream.", ["join", "stream"], idle)
    shares = [
        ([name, join.streams[side]], top.share)
        for name, join, side in sides
        if (top := join.fullest_keys[side]) is not None
    ]
    help = "Share of the most frequent key in the rows of a state."
    yield _gauge("muntin_fullest_key_ratio", help, ["join", "stream"], shares)
    for name, about in (
        ("probes", "Rows that looked for partners."),
        ("comparisons", "Rows that probes looked at."),
        ("pairs", "Pairs that have left."),
    ):
        counted = [([n], float(getattr(join.counters, name))) for n, join in joins]
        yield _counter(f"muntin_{name}", about, ["join"], counted)
    said = [([n, j.streams[side]], float(j.counters.punctuations[side])) for n, j, side in sides]
    yield _counter("muntin_punctuations", "Punctuations received.", ["join", "stream"], said)
