"""The claim of a run on its checkpoint and its output: both are this job's, whole, and nobody else runs on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from muntin.core.arrivals import is_event_time
from muntin.model import Axis, JobSpec, Settings, Side, Stream, UsageError
from muntin.model.event_time import time_text
from muntin.plan import Plan, redivides
from muntin.spark.checkpoint import (
    JobIdentity,
    Manifest,
    changed_rules,
    differences,
    identity,
    last_manifest,
    remember_spark_half,
    stored_job,
)
from muntin.spark.ingest import sources
from muntin.spark.run import verify
from muntin.spark.run.output_place import OutputPlace
from muntin.spark.run.torn_tail import mend_torn_tails
from muntin.spark.run.verify_objects import take_objects
from muntin.spark.store import Location, spark_half


@dataclass(frozen=True)
class CheckpointClaim:
    """What a checkpoint is compared with: the streams of the job, its strategy, settings and shards, and the place."""

    place: OutputPlace
    streams: Mapping[str, Stream]
    strategy: str
    settings: Settings
    shards: int

    def identity_of(self, streams: Iterable[Stream]) -> JobIdentity:
        """The identity of a pipeline that reads these streams."""
        return JobIdentity.of(streams, self.strategy, self.settings, self.shards, self.place.sink.description)

    def identity_now(self, stored: JobIdentity) -> JobIdentity:
        """The identity of a pipeline that has begun, with its streams as the job declares them now."""
        return self.identity_of([self.streams[name] for name in stored.streams if name in self.streams])

    def check(self, streams: Iterable[Stream]) -> JobIdentity:
        """The identity of the job, which reads `streams` where its checkpoint is new; refuses that of another job."""
        stored = stored_job(self.place.checkpoint)
        wanted = self.identity_of(streams) if stored is None else self.identity_now(stored)
        identity.check_checkpoint(self.place.checkpoint, wanted)
        return wanted

    def renewed(self) -> CheckpointClaim:
        """The claim with the shards that the checkpoint has now."""
        stored = stored_job(self.place.checkpoint)
        return self if stored is None else replace(self, shards=stored.settings.shards)

    def take(self, wanted: JobIdentity, truncate_output: bool) -> list[str]:
        """Bind checkpoint and output to the job, and refuse what is damaged or not of one moment; warnings, one line
        each. With `truncate_output` what is newer than the checkpoint is removed from the output."""
        checkpoint, output = self.place.checkpoint, self.place.sink.folder
        remember_spark_half(checkpoint)
        checkpoint_id = identity.claim_checkpoint(checkpoint, wanted)
        self.place.sink.belongs_to(checkpoint_id)
        mended = mend_torn_tails(checkpoint)
        verify.verify_checkpoint(checkpoint)
        if self.place.sink.objects is not None:
            return mended + take_objects(checkpoint, self.place.sink.objects, checkpoint_id, truncate_output)
        if output is None:
            return mended
        identity.check_output(output, checkpoint_id)
        removed = verify.truncate_output(checkpoint, output) if truncate_output else []
        warnings = mended + [f"removed, being newer than the checkpoint: {output / name}" for name in removed]
        warnings += verify.verify_output(checkpoint, output)
        identity.claim_output(output, checkpoint_id)
        return warnings

    def go_on(self, folder: Location) -> list[str]:
        """Claim a pipeline that has begun for the job as it is now; what is otherwise than before, one line each."""
        stored = stored_job(folder)
        assert stored is not None
        wanted = replace(self.identity_now(stored), reads_past=stored.reads_past)
        identity.claim_checkpoint(folder, wanted)
        _refuse_other_rules(folder, stored, wanted)
        identity.note_start(folder, wanted)
        return differences(stored, wanted) + changed_rules(stored, wanted)


def _refuse_other_rules(folder: Location, stored: JobIdentity, wanted: JobIdentity) -> None:
    """Refuse other rules for a micro-batch that was published and that Spark runs once more: its rows have gone where
    the rules of before sent them. Any other micro-batch goes by the new ones."""
    batch, done = last_manifest(folder).batch, verify.last_number(spark_half(folder) / "commits")
    changed = changed_rules(stored, wanted)
    if batch > done and changed:
        raise UsageError(
            f"micro-batch {batch} is in the output, and Spark has not noted it: its rows went by other rules\n"
            + "\n".join(f"  {line}" for line in changed),
            hint='start once with the settings of before and `mode="available-now"`, and then with others',
        )


def refuse_redivision(plan: Plan, spec: JobSpec, last: Manifest) -> None:
    """Refuse a strategy that has other joins than those whose state is there, and say which rows would be missing."""
    if redivides(plan, spec):
        newest = [ts for report in last.reports.values() for ts in report.max_ts if is_event_time(ts)]
        windows = [q.window.side(s) for q in plan.parts.values() for s in Side if q.window.axes[s] is Axis.TIME]
        lacking = f" up to {time_text(max(newest) + max(windows))}" if newest and windows else ""
        raise UsageError(
            f"strategy: was {plan.strategy}, is {spec.settings.strategy}; the rows that are kept would have to be "
            f"divided among other joins: begun without them, results{lacking} would lack their pairs",
            hint=f"set strategy = 'auto' or '{plan.strategy}', or start anew with another `checkpoint=` and `output=`",
        )


def check_sources(plan: Plan, frames: Collection[str]) -> None:
    """Refuse a plan over streams that cannot be read; `frames` names those that come from DataFrames."""
    for stream in plan.streams:
        if stream.name not in frames:
            sources.check_source(stream)


def check_history(plan: Plan, frames: Collection[str]) -> None:
    """Refuse queries that begin with their streams where these cannot be read from there once more."""
    for query in (query for query in plan.queries.values() if query.from_beginning):
        for stream in plan.streams:
            if stream.name in (query.left, query.right):
                sources.check_beginning(query.name, stream, stream.name in frames)
