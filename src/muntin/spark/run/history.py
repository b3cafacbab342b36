"""`CHECKPOINT/muntin/history.json`: how a job went over time, for charts. It is a report, like the status.

The older a stretch of time, the fewer samples it has: whenever the age doubles, so does the time that one sample stands
for. So a job of a month has about twice as many samples as one of an hour, and the last minutes have all of them.
Counters go on growing, so a merged pair keeps the later value and no rate is lost; of levels it keeps the greater, so
that peaks stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import floor, log2
from typing import Any, NamedTuple

from muntin.core.batch import Counters
from muntin.spark.checkpoint import FOLDER, DamageError, FileKind, read_record, write_record
from muntin.spark.run.sharing import Sharing
from muntin.spark.run.status import JobStatus
from muntin.spark.store import Location

FILE = "history.json"
RESOLUTION = 120
"""A sample stands for about its age divided by this, rounded down to a power of two of seconds."""
LEAST_S = 1.0
"""Samples are never closer than this."""
MARKS = 400
"""How many are remembered."""


class Sample(NamedTuple):
    """A job at one moment. Up to `punctuations` they are counters, then levels; `t` is a Unix time."""

    t: float
    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    comparisons: int = 0
    probes: int = 0
    pairs: int = 0
    dead_letters: int = 0
    punctuations: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    predicted_rows: int = 0
    predicted_bytes: int = 0
    held_rows: int = 0
    held_pairs: int = 0
    batch_s: float = 0.0
    operator_s: float = 0.0
    """The part of a micro-batch in which Spark runs our tasks and writes what they found; the others are what it takes
    to look for input, to plan, and to log what was done."""
    reading_s: float = 0.0
    planning_s: float = 0.0
    logging_s: float = 0.0
    response_p50_s: float = 0.0
    response_p99_s: float = 0.0
    comparisons_s: float = 0.0
    """Per second of event time, as `predicted_comparisons_s` and `apart_comparisons_s`."""
    predicted_comparisons_s: float = 0.0
    key_share: float = 0.0
    queries: int = 0
    slices: int = 0
    apart_rows: float = 0.0
    """What one join for each query would keep, as predicted from the same traffic."""
    apart_comparisons_s: float = 0.0
    readers: float = 0.0
    """How many times a row would be read if each query read its own streams."""

    @classmethod
    def of(cls, status: JobStatus, sharing: Sharing | None = None) -> Sample:
        """What a status says; `sharing` is what the same queries would take apart."""
        joins, apart = status.joins, sharing or Sharing()
        slices = [piece for join in joins for side in join.slices for piece in side]
        responses = [query.response for query in status.queries.values() if query.response]
        counted = Counters.total(join.counters for join in joins)
        return cls(
            t=round(status.updated, 3),
            rows_in=status.rows_in,
            rows_out=status.rows_out,
            batches=status.batches,
            comparisons=counted.comparisons,
            probes=counted.probes,
            pairs=counted.pairs,
            dead_letters=sum(status.dead_letters.values()),
            punctuations=sum(counted.punctuations),
            state_rows=sum(piece.rows for piece in slices),
            state_bytes=sum(join.bytes for join in joins),
            predicted_rows=sum(piece.predicted_rows or 0 for piece in slices),
            predicted_bytes=sum(join.predicted_bytes or 0 for join in joins),
            held_rows=sum(sum(join.held_rows) for join in joins),
            held_pairs=sum(join.held_pairs for join in joins),
            batch_s=status.seconds.get("triggerExecution", 0.0),
            operator_s=status.seconds.get("addBatch", 0.0),
            reading_s=_seconds(status, "latestOffset", "getBatch"),
            planning_s=_seconds(status, "queryPlanning"),
            logging_s=_seconds(status, "walCommit", "commitOffsets", "commitBatch"),
            response_p50_s=round(max((r.p50_s or 0.0 for r in responses), default=0.0), 4),
            response_p99_s=round(max((r.p99_s or 0.0 for r in responses), default=0.0), 4),
            comparisons_s=sum(join.comparisons_per_second.measured or 0.0 for join in joins),
            predicted_comparisons_s=round(sum(j.comparisons_per_second.predicted or 0.0 for j in joins), 1),
            key_share=round(max((top.share for j in joins for top in j.fullest_keys if top), default=0.0), 4),
            queries=len(status.queries),
            slices=len(slices),
            apart_rows=round(apart.rows, 1),
            apart_comparisons_s=round(apart.comparisons_per_second, 1),
            readers=round(apart.readers, 3),
        )

    def merged(self, later: Sample) -> Sample:
        """One sample for two neighbours."""
        levels = range(Sample._fields.index("state_rows"), len(Sample._fields))
        values: list[Any] = list(later)
        for n in levels:
            values[n] = max(self[n], later[n])
        return Sample(*values)


def _seconds(status: JobStatus, *phases: str) -> float:
    """What some of Spark's phases took in the last micro-batch."""
    return sum(status.seconds.get(phase, 0.0) for phase in phases)


class Mark(NamedTuple):
    """Something that happened to a job: `kind` is "query", "chain", "ordering" or "run"."""

    t: float
    kind: str
    text: str


@dataclass
class History:
    """The whole file."""

    samples: list[Sample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Take one more sample, and merge old ones where there are too many."""
        if self.samples and sample.t - self.samples[-1].t < LEAST_S:
            self.samples[-1] = self.samples[-1].merged(sample)
            return
        self.samples.append(sample)
        if len(self.samples) % RESOLUTION == 0:
            self.samples = thinned(self.samples, sample.t)

    def note(self, marks: list[Mark]) -> None:
        self.marks = [*self.marks, *marks][-MARKS:]


def thinned(samples: list[Sample], now: float) -> list[Sample]:
    """The same history with fewer samples where it is old; the last one stays as it is."""
    kept: list[Sample] = []
    for sample in samples:
        width = 2.0 ** max(0, floor(log2(max(1.0, (now - sample.t) / RESOLUTION))))
        if kept and sample is not samples[-1] and kept[-1].t // width == sample.t // width:
            kept[-1] = kept[-1].merged(sample)
        else:
            kept.append(sample)
    return kept


def marks_between(before: JobStatus | None, after: JobStatus) -> Iterator[Mark]:
    """What happened between two looks at a job."""
    at = round(after.updated, 3)
    if before is None or before.started != after.started:
        yield Mark(round(after.started, 3), "run", "the job started")
    if before is None:
        return
    for name, query in after.queries.items():
        if name not in before.queries:
            yield Mark(at, "query", f"added {name}")
        elif query.text != before.queries[name].text:
            yield Mark(at, "query", f"replaced {name}")
    yield from (Mark(at, "query", f"dropped {name}") for name in before.queries if name not in after.queries)
    for move in after.migrations:
        if move not in before.migrations:
            yield Mark(at, "chain", f"chain {move.chain} {move.kind}: {_slices(move.slices)} slices")
    for switch in after.switches:
        if switch not in before.switches:
            yield Mark(at, "ordering", f"join {switch.join} goes over to {switch.ordering}, {switch.reason}")
    if before.state == "running" != after.state:
        yield Mark(at, "run", f"the job {after.state}" if after.state == "failed" else f"the job has {after.state}")


def _slices(found: Mapping[str, list[int]]) -> str:
    return " and ".join(str(n) for sides in found.values() for n in sides)


def history_file(checkpoint: Location) -> Location:
    return checkpoint / FOLDER / FILE


def read_history(checkpoint: Location) -> History:
    """The history of a job; empty where there is none, or where it is damaged: it is only a report."""
    try:
        return read_record(history_file(checkpoint), FileKind.HISTORY, History)
    except (DamageError, OSError):
        return History()


def write_history(checkpoint: Location, history: History) -> None:
    write_record(history_file(checkpoint), FileKind.HISTORY, history)
