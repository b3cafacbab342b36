"""Exactly once, by files alone: stage, write the manifest, rename.

    OUTPUT/_staging/b<batch>-<unique>/...                   written by tasks, seen by nobody
    CHECKPOINT/muntin/commits/<batch>.json                  the manifest: its rename is the commit point of a batch
    OUTPUT/_muntin-b.json                                   the last micro-batch with output, for a later start
    OUTPUT/<query>/b<batch>-<part>.<suffix>                 staged files, renamed as the manifest says

Pipelines of a job share the output folder: what a further one writes has its number before the `b`.

A crash before the manifest leaves staged files that the next start sweeps away; a crash after it is completed by the
next start, or by the replay of the batch, whose own staged files are then discarded. Knows nothing of Spark.

The mark of what was published last is written after the manifest and before the renames. So it is never older than a
file beside it, and a checkpoint that knows of less than the mark is older than its output (`verify.py`).
"""

from __future__ import annotations

import os
import shutil
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from muntin.model.records import from_json, to_json
from muntin.spark.checkpoint.durable import FileKind, read_json, write_json
from muntin.spark.checkpoint.identity import id_if_claimed
from muntin.spark.checkpoint.reports import ShardChange, ShardReport

STAGING = "_staging"
KEPT_MANIFESTS = 20
SAMPLE = 1 << 14
"""Bytes at either end of a published file that its fingerprint is made of: a start looks at many files."""


@dataclass(frozen=True)
class Staged:
    """A table that a task has staged for the commit: as a file below the output, or as bytes for the driver."""

    name: str
    part: int
    rows: int
    path: str | None = None
    """Relative to the output."""
    table: bytes | None = None


@dataclass
class BatchOutcome:
    """What the tasks of one micro-batch have done, before it is committed."""

    batch: int
    staged: list[Staged] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """Files of the output that have their names already."""
    rows: Counter[str] = field(default_factory=Counter)
    unmatched: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    reports: list[ShardReport] = field(default_factory=list)


class Fingerprint(NamedTuple):
    """Size and checksum of both ends of a file: enough to recognise one that was cut short or exchanged."""

    size: int
    checksum: int

    @classmethod
    def of(cls, file: Path) -> Fingerprint:
        with file.open("rb") as opened:
            head = opened.read(2 * SAMPLE)
            size = opened.seek(0, os.SEEK_END)
            if size <= 2 * SAMPLE:
                return cls(size, zlib.crc32(head))
            opened.seek(-SAMPLE, os.SEEK_END)
            return cls(size, zlib.crc32(opened.read(), zlib.crc32(head[:SAMPLE])))


@dataclass
class Manifest:
    """One committed micro-batch: the renames it stands for, rows per query, dead letters per class, the sums."""

    batch: int
    renames: list[tuple[str, str]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    total_rows: dict[str, int] = field(default_factory=dict)
    total_dead_letters: dict[str, int] = field(default_factory=dict)
    total_unmatched: dict[str, int] = field(default_factory=dict)
    """Of the rows of each query those that had no match."""
    reports: dict[str, ShardReport] = field(default_factory=dict)
    """The last report of each (join, shard), by "join/shard"."""
    changes: dict[str, list[ShardChange]] = field(default_factory=dict)
    """What changes of plan did in this micro-batch, by epoch, shard after shard."""
    left: int = 0
    """The last epoch with which a join has gone."""
    files: dict[str, Fingerprint] = field(default_factory=dict)
    """The published files, relative to the output."""
    published: int = -1
    """The last micro-batch that published files, this one or an earlier one."""
    published_before: int = -1
    """The one before that."""

    @property
    def epoch(self) -> int:
        """The plan that all shards have come to."""
        return min((report.epoch for report in self.reports.values()), default=self.left)


class Publisher:
    """The committed micro-batches of one checkpoint; `output` is None where they publish no files.

    `prefix` begins the names of all files, so that several may publish into one output.
    """

    def __init__(self, checkpoint: Path, output: Path | None, prefix: str = ""):
        self.checkpoint = checkpoint
        self.folder = _commits(checkpoint)
        self.job = id_if_claimed(checkpoint)
        self.output = output
        self.prefix = f"{prefix}b"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.last = last_manifest(checkpoint)

    def recover(self) -> None:
        """Complete the last commit and sweep away what was staged for none."""
        self._complete(self.last)
        if self.output is not None:
            for left in (self.output / STAGING).glob(f"{self.prefix}*"):
                shutil.rmtree(left, ignore_errors=True)

    def is_committed(self, batch: int) -> bool:
        return batch <= self.last.batch

    def before(self, batch: int) -> Manifest:
        """The last commit before a micro-batch, which may be committed itself: Spark runs it again then."""
        if self.last.batch < batch:
            return self.last
        return next((found for found in read_manifests(self.checkpoint) if found.batch < batch), Manifest(-1))

    def staging_folder(self, batch: int) -> Path:
        """A fresh folder for the tasks of one attempt at a batch."""
        assert self.output is not None
        folder = self.output / STAGING / f"{self.prefix}{batch:010d}-{uuid.uuid4().hex[:12]}"
        folder.mkdir(parents=True)
        return folder

    def publish(self, done: BatchOutcome) -> Manifest:
        """Commit a micro-batch; one that is committed already stays as it is."""
        if self.is_committed(done.batch):
            self._complete(self.last)
            return self.last
        manifest = self._manifest(done)
        write_json(self.folder / f"{done.batch:010d}.json", FileKind.MANIFEST, to_json(manifest), self.job)
        self.last = manifest
        self._complete(manifest)
        self.forget(KEPT_MANIFESTS)
        return manifest

    def _manifest(self, done: BatchOutcome) -> Manifest:
        last = self.last
        renames = [(staged.path, self._target(done.batch, staged)) for staged in done.staged if staged.path is not None]
        places = {target: source for source, target in renames} | {file: file for file in done.written}
        files = {name: Fingerprint.of(self.output / place) for name, place in places.items()} if self.output else {}
        return Manifest(
            batch=done.batch,
            renames=renames,
            rows=dict(done.rows),
            dead_letters=dict(done.dead_letters),
            total_rows=dict(Counter(last.total_rows) + done.rows),
            total_dead_letters=dict(Counter(last.total_dead_letters) + done.dead_letters),
            total_unmatched=dict(Counter(last.total_unmatched) + done.unmatched),
            reports=_last_reports(last, done.reports),
            changes=_changes(done.reports),
            left=max((report.epoch for report in done.reports if report.gone), default=last.left),
            files=files,
            published=done.batch if files else last.published,
            published_before=last.published if files else last.published_before,
        )

    def _target(self, batch: int, staged: Staged) -> str:
        return f"{staged.name}/{self.prefix}{batch:010d}-{staged.part:03d}{Path(staged.path or '').suffix}"

    def oldest(self) -> Manifest | None:
        """The oldest manifest that is kept, None as long as none has been removed."""
        kept = _batches(self.folder)
        return None if len(kept) < KEPT_MANIFESTS else _read(self.folder, kept[0], self.job)

    def committed_at(self, batch: int) -> float:
        """When a manifest that is kept was written, as a Unix time."""
        return (self.folder / f"{batch:010d}.json").stat().st_mtime

    def forget(self, kept: int) -> None:
        """Remove all but the last manifests."""
        for old in _batches(self.folder)[:-kept]:
            (self.folder / f"{old:010d}.json").unlink(missing_ok=True)

    def _complete(self, manifest: Manifest) -> None:
        """Idempotent: a staged file that is gone was renamed before (and a reader may have taken it away since)."""
        if self.output is None:
            return
        if manifest.published != published(self.output, self.prefix, self.job):
            self.output.mkdir(parents=True, exist_ok=True)
            write_json(mark_file(self.output, self.prefix), FileKind.PUBLISHED, manifest.published, self.job)
        for source, target in manifest.renames:
            if (self.output / source).exists():
                os.makedirs((self.output / target).parent, exist_ok=True)
                os.replace(self.output / source, self.output / target)


def _last_reports(before: Manifest, reports: Iterable[ShardReport]) -> dict[str, ShardReport]:
    """The last report of every shard whose join is still there."""
    known = before.reports | {report.name: report for report in reports}
    return {name: report for name, report in known.items() if not report.gone}


def _changes(reports: Iterable[ShardReport]) -> dict[str, list[ShardChange]]:
    found: dict[str, list[ShardChange]] = {}
    for change in (change for report in reports for change in report.changes):
        found.setdefault(str(change.epoch), []).append(change)
    return found


def last_manifest(checkpoint: Path) -> Manifest:
    """The last micro-batch that a checkpoint has committed; number -1 where there is none."""
    return next(read_manifests(checkpoint), Manifest(-1))


def read_manifests(checkpoint: Path) -> Iterator[Manifest]:
    """The micro-batches that a checkpoint has committed, the last one first, as far as they are kept."""
    job = id_if_claimed(checkpoint)
    for batch in reversed(_batches(_commits(checkpoint))):
        yield _read(_commits(checkpoint), batch, job)


def mark_file(output: Path, prefix: str) -> Path:
    """Where an output says which micro-batch was the last to publish files with a prefix."""
    return output / f"_muntin-{prefix}.json"


def published(output: Path, prefix: str, job: str | None) -> int:
    """The last micro-batch that published files, as the output says; -1 where it says nothing."""
    file = mark_file(output, prefix)
    return int(read_json(file, FileKind.PUBLISHED, job)) if file.exists() else -1


def _read(folder: Path, batch: int, job: str | None) -> Manifest:
    return from_json(Manifest, read_json(folder / f"{batch:010d}.json", FileKind.MANIFEST, job))


def _commits(checkpoint: Path) -> Path:
    return checkpoint / "muntin" / "commits"


def _batches(folder: Path) -> list[int]:
    return sorted(int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit())
