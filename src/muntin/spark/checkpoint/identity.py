"""Which job a checkpoint belongs to, and which checkpoint an output belongs to."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from muntin.model import Settings, Stream, UsageError
from muntin.spark.checkpoint.compatibility import VALUES, refusals
from muntin.spark.checkpoint.durable import (
    OTHER_FORMAT,
    FileKind,
    MissingError,
    as_record,
    job_of,
    read_json,
    write_json,
    write_record,
)
from muntin.spark.store import Location, private_folder, spark_half, store_of

STATE_FORMAT = 14
"""The number of the format of a checkpoint, state store and files; one of another format is refused."""
NEWER_FORMAT = "a newer Muntin wrote it: run it with that one"
FOLDER = "muntin"
PIPELINES = "pipelines"
OWNER = "_muntin.json"
RATE_LIMITS = (
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "maxcachedfiles",
)
"""Options that decide how much a micro-batch takes, not what the rows are: they may change between runs."""


@dataclass(frozen=True)
class StreamIdentity:
    """A stream as the last start declared it."""

    columns: dict[str, str]
    time: str
    lateness_us: int
    binding_us: int | None
    format: str
    promises: str
    options: dict[str, str]

    @classmethod
    def of(cls, stream: Stream) -> StreamIdentity:
        return cls(
            columns={f.name: f.type + _metadata(stream, f.name) for f in stream.own},
            time=stream.time,
            lateness_us=stream.lateness_us,
            binding_us=stream.binding_us,
            format=stream.format,
            promises=_promises(stream),
            options={k: v for k, v in sorted(stream.options.items()) if k.lower() not in RATE_LIMITS}
            | ({VALUES: stream.value.text} if stream.value is not None else {}),
        )


@dataclass(frozen=True)
class SettingsIdentity:
    """The settings of the last start of which something follows for the rows of the next one."""

    strategy: str
    output_order: str
    shards: int
    punctuations: str
    max_ahead_us: int | None = None
    held_limit_bytes: int | None = None
    on_held_limit: str = "fail"


@dataclass(frozen=True)
class JobIdentity:
    """`job.json`: the job as it was started last; `streams` are those that it reads.

    What of it may be another at the next start, `compatibility.py` says. Queries may come and go (`changes.py`).
    """

    streams: dict[str, StreamIdentity]
    settings: SettingsIdentity
    output: str
    reads_past: bool = False
    """Whether a pipeline began for queries that ask for what their streams have brought before."""
    state_format: int = STATE_FORMAT

    @classmethod
    def of(cls, streams: Iterable[Stream], strategy: str, settings: Settings, shards: int, output: str) -> JobIdentity:
        kept = SettingsIdentity(
            strategy=strategy,
            output_order=settings.output_order,
            shards=shards,
            punctuations=settings.punctuations,
            max_ahead_us=settings.max_ahead_us,
            held_limit_bytes=settings.held_limit_bytes,
            on_held_limit=settings.on_held_limit,
        )
        return cls({stream.name: StreamIdentity.of(stream) for stream in streams}, kept, output)

    @property
    def is_over(self) -> bool:
        """Whether a pipeline has ended for good: it reads nothing any more. Its folder stays, so that no number comes
        twice."""
        return not self.streams


def _metadata(stream: Stream, name: str) -> str:
    return f" metadata from {stream.metadata[name]}" if name in stream.metadata else ""


def _promises(stream: Stream) -> str:
    """What a stream promises, in one canonical line."""
    said = [f"unique {', '.join(stream.unique)}"] if stream.unique else []
    if stream.punctuation is not None:
        values = ", ".join(v.sql for v in stream.punctuation.values)
        about = f"{', '.join(stream.punctuation.columns) or 'the key'} {stream.punctuation.pattern} {values}".strip()
        said.append(f"punctuated for {about} when {stream.punctuation.when.sql}")
    return "; ".join(said)


def check_names(queries: Iterable[str]) -> None:
    """Refuse names that cannot be those of folders."""
    for name in queries:
        if name.startswith((".", "_")) or "/" in name or "\0" in name:
            raise UsageError(f"query {name!r} cannot be the name of a folder", hint="use letters and digits")


def claim_checkpoint(checkpoint: Location, job: JobIdentity) -> str:
    """Bind a new checkpoint to a job, or check that it is this job's; returns the checkpoint's id."""
    file = _job_file(checkpoint)
    if not store_of(file).exists(file):
        if any(_holds(file.parent / name) for name in ("commits", "plans")):
            raise MissingError(f"{file} is missing", hint="restore it from a back-up of this checkpoint")
        if _holds(place := spark_half(checkpoint) / "offsets"):
            raise UsageError(f"{place.parent} is the checkpoint of something else", hint="name another `checkpoint=`")
        if isinstance(checkpoint, Path) and not checkpoint.exists():
            private_folder(checkpoint)  # rows of all streams lie there
        write_record(file, FileKind.JOB, job, uuid.uuid4().hex)
    stored = _read_job(file)
    if refused := refusals(stored, job):
        raise UsageError(
            f"{checkpoint} is the checkpoint of another job:\n" + "\n".join(f"  {line}" for line in refused),
            hint="run the job it belongs to, or start anew with another `checkpoint=` and `output=`",
        )
    return checkpoint_id(checkpoint)


def begin(folder: Location, job: JobIdentity, checkpoint_id: str) -> None:
    """Let a folder be a pipeline, with an id that its files bear already."""
    write_record(_job_file(folder), FileKind.JOB, job, checkpoint_id)


def note_start(checkpoint: Location, job: JobIdentity) -> None:
    """Remember the job as it is started now."""
    file = _job_file(checkpoint)
    if _read_job(file) != job:
        write_record(file, FileKind.JOB, job, checkpoint_id(checkpoint))


def _read_job(file: Location) -> JobIdentity:
    """The identity in a file; refuses one of another format by its number."""
    content = read_json(file, FileKind.JOB)
    said = content if isinstance(content, dict) else {}
    written = said.get("state_format", said.get("state format"))  # up to format 5 the key had a space
    if written != STATE_FORMAT:
        raise UsageError(
            f"{file.parent.parent} is a checkpoint of format {written}, this Muntin reads format {STATE_FORMAT}",
            hint=NEWER_FORMAT if isinstance(written, int) and written > STATE_FORMAT else OTHER_FORMAT,
        )
    return as_record(content, FileKind.JOB, JobIdentity, str(file))


def _job_file(folder: Location) -> Location:
    return folder / FOLDER / "job.json"


def _is_claimed(folder: Location) -> bool:
    return store_of(folder).exists(_job_file(folder))


def _holds(folder: Location) -> bool:
    """Whether there is a folder: in an object store, whether there is a file in it."""
    return folder.exists() if isinstance(folder, Path) else bool(store_of(folder).files(folder))


def checkpoint_id(folder: Location) -> str:
    """The id of a pipeline's folder, that of the job for the first."""
    return str(job_of(_job_file(folder), FileKind.JOB))


def id_if_claimed(folder: Location) -> str | None:
    """The id of a pipeline's folder; None for one that no job has claimed."""
    return checkpoint_id(folder) if _is_claimed(folder) else None


@overload
def pipeline_folder(checkpoint: Path, number: int) -> Path: ...
@overload
def pipeline_folder(checkpoint: Location, number: int) -> Location: ...
def pipeline_folder(checkpoint: Location, number: int) -> Location:
    """The folder of a pipeline, one of the streaming queries of a job: the first has the checkpoint itself."""
    return checkpoint if number == 0 else checkpoint / PIPELINES / f"{number:03d}"


def pipeline_prefix(checkpoint: Location, number: int) -> str:
    """How the names of files begin that a pipeline publishes; nothing for the first. Names sort as rows follow each
    other: the past that a query asks for comes before what any other pipeline writes for it."""
    if not number:
        return ""
    stored = stored_job(pipeline_folder(checkpoint, number))
    return f"{'a' if stored is not None and stored.reads_past else 'p'}{number:03d}-"


def pipeline_numbers(checkpoint: Location) -> list[int]:
    """The pipelines that a job has had."""
    place = checkpoint / PIPELINES
    return [0, *sorted(int(name) for name in store_of(place).folders(place) if name.isdigit())]


def retire(folder: Location) -> None:
    """Mark a pipeline as ended."""
    file = _job_file(folder)
    write_record(file, FileKind.JOB, replace(_read_job(file), streams={}), checkpoint_id(folder))


def stored_job(checkpoint: Location) -> JobIdentity | None:
    """The identity that a checkpoint was made with, None for a new one."""
    return _read_job(_job_file(checkpoint)) if _is_claimed(checkpoint) else None


def check_checkpoint(checkpoint: Location, job: JobIdentity) -> None:
    """The same check without writing anything, for a checkpoint that exists."""
    ours = checkpoint / FOLDER / "commits"
    if _is_claimed(checkpoint) or _holds(ours) or _holds(spark_half(checkpoint) / "offsets"):
        claim_checkpoint(checkpoint, job)


def check_output(output: Location, checkpoint_id: str) -> None:
    """Refuse an output folder that is bound to another checkpoint: two jobs must not mix their files."""
    owner = output / OWNER
    if store_of(owner).exists(owner) and job_of(owner, FileKind.OWNER) != checkpoint_id:
        message = f"{output} holds the output of another checkpoint, as its {OWNER} says"
        raise UsageError(message, hint="name another `output=`")


def claim_output(output: Location, checkpoint_id: str) -> None:
    """Bind an output folder to a checkpoint, or check that it is."""
    check_output(output, checkpoint_id)
    owner = output / OWNER
    if not store_of(owner).exists(owner):
        write_json(owner, FileKind.OWNER, {}, checkpoint_id)
