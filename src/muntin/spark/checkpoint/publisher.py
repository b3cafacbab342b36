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
from pathlib import Path

from muntin.spark.checkpoint.commit_log import CommitLog
from muntin.spark.checkpoint.durable import FileKind, read_json, write_json
from muntin.spark.checkpoint.manifests import BatchOutcome, Fingerprint, Manifest, Staged
from muntin.spark.checkpoint.power import PowerSync
from muntin.spark.store import Location, crash_points

STAGING = "_staging"
KEPT_MANIFESTS = 20


class Publisher:
    """The committed micro-batches of one checkpoint; `output` is None where they publish no files.

    `prefix` begins the names of all files, so that several may publish into one output.
    """

    def __init__(self, checkpoint: Location, output: Path | None, prefix: str = ""):
        self.log = CommitLog(checkpoint)
        self.job = self.log.job
        self.output = output
        self.prefix = f"{prefix}b"
        self.last = self.log.last()
        self.power: PowerSync | None = None
        """Syncs what commits name, where they are to survive a power cut."""

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
        return next((found for found in self.log.manifests() if found.batch < batch), Manifest(-1))

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
        if self.power is not None:
            self.power.before_commit(self._places(done).values())
        self.log.append(manifest)
        self.last = manifest
        self._complete(manifest)
        self.log.forget(KEPT_MANIFESTS)
        return manifest

    def _manifest(self, done: BatchOutcome) -> Manifest:
        files = {name: Fingerprint.of(place) for name, place in self._places(done).items()}
        return self.last.following(done, self._renames(done), files)

    def _renames(self, done: BatchOutcome) -> list[tuple[str, str]]:
        return [(staged.path, self._target(done.batch, staged)) for staged in done.staged if staged.path is not None]

    def _places(self, done: BatchOutcome) -> dict[str, Path]:
        """Where the files to be published lie before that, by the names that they get."""
        if self.output is None:
            return {}
        places = {target: source for source, target in self._renames(done)} | {file: file for file in done.written}
        return {name: self.output / place for name, place in places.items()}

    def _target(self, batch: int, staged: Staged) -> str:
        return f"{staged.name}/{self.prefix}{batch:010d}-{staged.part:03d}{Path(staged.path or '').suffix}"

    def _complete(self, manifest: Manifest) -> None:
        """Idempotent: a staged file that is gone was renamed before (and a reader may have taken it away since)."""
        if self.output is None:
            return
        if manifest.published != published(self.output, self.prefix, self.job):
            write_json(mark_file(self.output, self.prefix), FileKind.PUBLISHED, manifest.published, self.job)
        for source, target in manifest.renames:
            if (self.output / source).exists():
                os.makedirs((self.output / target).parent, exist_ok=True)
                with crash_points.durable("rename"):
                    os.replace(self.output / source, self.output / target)
        if self.power is not None:
            self.power.sync_folders({(self.output / target).parent for _, target in manifest.renames})


def mark_file(output: Path, prefix: str) -> Path:
    """Where an output says which micro-batch was the last to publish files with a prefix."""
    return output / f"_muntin-{prefix}.json"


def published(output: Path, prefix: str, job: str | None) -> int:
    """The last micro-batch that published files, as the output says; -1 where it says nothing."""
    file = mark_file(output, prefix)
    return int(read_json(file, FileKind.PUBLISHED, job)) if file.exists() else -1
