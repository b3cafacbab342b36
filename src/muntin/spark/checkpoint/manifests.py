"""Exactly once, by files alone: stage, write the manifest, rename.

    OUTPUT/_staging/b<batch>-<unique>/...                   written by tasks, seen by nobody
    CHECKPOINT/muntin/commits/<batch>.json                  the manifest: its rename is the commit point of a batch
    OUTPUT/_muntin-b.json                                   the last micro-batch with output, for a later start
    OUTPUT/<query>/b<batch>-<part>.parquet                  staged files, renamed as the manifest says

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muntin.spark.checkpoint.durable import FileKind, read_json, write_json
from muntin.spark.checkpoint.identity import id_if_claimed

STAGING = "_staging"
KEPT_MANIFESTS = 20
SAMPLE = 1 << 14
"""Bytes at either end of a published file that its fingerprint is made of: a start looks at many files."""


@dataclass(frozen=True)
class Staged:
    """A file that a task has written: where it lies, relative to the output, and whose rows it holds."""

    path: str
    name: str
    part: int
    rows: int


@dataclass
class Manifest:
    """One committed micro-batch: the renames it stands for, its rows per query and letters per class, and the sums."""

    batch: int
    renames: list[tuple[str, str]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    letters: dict[str, int] = field(default_factory=dict)
    total_rows: dict[str, int] = field(default_factory=dict)
    total_letters: dict[str, int] = field(default_factory=dict)
    operators: dict[str, Any] = field(default_factory=dict)
    """The last report of each (join, shard), by "join/shard"."""
    changes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What changes of plan did in this micro-batch, by epoch, shard after shard."""
    left: int = 0
    """The last epoch with which a join has gone."""
    files: dict[str, list[int]] = field(default_factory=dict)
    """The published files, relative to the output, with their fingerprints."""
    published: int = -1
    """The last micro-batch that published files, this one or an earlier one."""
    published_before: int = -1
    """The one before that."""

    @property
    def epoch(self) -> int:
        """The plan that all shards have come to."""
        return min((report["epoch"] for report in self.operators.values()), default=self.left)


class Publisher:
    """The committed output of one checkpoint; `output` is None where rows are only counted or go to a callable.

    `prefix` begins the names of all files, so that several may publish into one output.
    """

    def __init__(self, checkpoint: Path, output: Path | None, prefix: str = ""):
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

    def stage(self, batch: int) -> Path | None:
        """A fresh folder for the tasks of one attempt at a batch."""
        if self.output is None:
            return None
        folder = self.output / STAGING / f"{self.prefix}{batch:010d}-{uuid.uuid4().hex[:12]}"
        folder.mkdir(parents=True)
        return folder

    def publish(
        self,
        batch: int,
        staged: Iterable[Staged],
        rows: Mapping[str, int],
        letters: Mapping[str, int],
        operators: Mapping[str, Any],
        written: Iterable[str] = (),
    ) -> Manifest:
        """Commit a batch; one that is committed already stays as it is. `written` are files of the output that have
        their names already."""
        if self.is_committed(batch):
            self._complete(self.last)
            return self.last
        renames = [(s.path, f"{s.name}/{self.prefix}{batch:010d}-{s.part:03d}.parquet") for s in staged]
        places = {target: source for source, target in renames} | {file: file for file in written}
        files = {target: fingerprint(self.output / source) for target, source in places.items()} if self.output else {}
        manifest = Manifest(
            batch,
            renames,
            dict(rows),
            dict(letters),
            dict(Counter(self.last.total_rows) + Counter(rows)),
            dict(Counter(self.last.total_letters) + Counter(letters)),
            {key: r for key, r in {**self.last.operators, **operators}.items() if not r.get("gone")},
            _changes(operators.values()),
            max((r["epoch"] for r in operators.values() if r.get("gone")), default=self.last.left),
            files,
            batch if files else self.last.published,
            self.last.published if files else self.last.published_before,
        )
        write_json(self.folder / f"{batch:010d}.json", FileKind.MANIFEST, vars(manifest), self.job)
        self.last = manifest
        self._complete(manifest)
        self.forget(KEPT_MANIFESTS)
        return manifest

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


def _changes(reports: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        for change in report.get("changes", ()):
            found.setdefault(str(change["epoch"]), []).append(change)
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


def fingerprint(file: Path) -> list[int]:
    """Size and checksum of both ends of a file: enough to tell one that was cut short or exchanged."""
    with file.open("rb") as opened:
        head = opened.read(2 * SAMPLE)
        size = opened.seek(0, os.SEEK_END)
        if size <= 2 * SAMPLE:
            return [size, zlib.crc32(head)]
        opened.seek(-SAMPLE, os.SEEK_END)
        return [size, zlib.crc32(opened.read(), zlib.crc32(head[:SAMPLE]))]


def _read(folder: Path, batch: int, job: str | None) -> Manifest:
    stored = read_json(folder / f"{batch:010d}.json", FileKind.MANIFEST, job)
    stored["renames"] = [(a, b) for a, b in stored["renames"]]
    return Manifest(**stored)


def _commits(checkpoint: Path) -> Path:
    return checkpoint / "muntin" / "commits"


def _batches(folder: Path) -> list[int]:
    return sorted(int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit())
