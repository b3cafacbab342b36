"""Exactly once, by files alone: stage, write the manifest, rename.

    OUTPUT/_staging/b<batch>-<unique>/...                   written by tasks, seen by nobody
    CHECKPOINT/muntin/commits/<batch>.json                  the manifest: its rename is the commit point of a batch
    OUTPUT/<query>/b<batch>-<part>.parquet                  staged files, renamed as the manifest says

Legs of a job share the output folder: what a further one writes has its number before the `b`.

A crash before the manifest leaves staged files that the next start sweeps away; a crash after it is completed by the
next start, or by the replay of the batch, whose own staged files are then discarded. Knows nothing of Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muntin.spark.checkpoint.durable import write_atomically

STAGING = "_staging"
KEPT_MANIFESTS = 20


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
        self.output = output
        self.prefix = f"{prefix}b"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.last = last_manifest(checkpoint)

    def recover(self) -> None:
        """Complete the last commit and sweep away what was staged for none."""
        self._rename(self.last)
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
    ) -> Manifest:
        """Commit a batch; one that is committed already stays as it is."""
        if self.is_committed(batch):
            self._rename(self.last)
            return self.last
        manifest = Manifest(
            batch,
            [(s.path, f"{s.name}/{self.prefix}{batch:010d}-{s.part:03d}.parquet") for s in staged],
            dict(rows),
            dict(letters),
            dict(Counter(self.last.total_rows) + Counter(rows)),
            dict(Counter(self.last.total_letters) + Counter(letters)),
            {key: r for key, r in {**self.last.operators, **operators}.items() if not r.get("gone")},
            _changes(operators.values()),
            max((r["epoch"] for r in operators.values() if r.get("gone")), default=self.last.left),
        )
        write_atomically(self.folder / f"{batch:010d}.json", json.dumps(vars(manifest)))
        self.last = manifest
        self._rename(manifest)
        self.forget(KEPT_MANIFESTS)
        return manifest

    def oldest(self) -> Manifest | None:
        """The oldest manifest that is kept, None as long as none has been removed."""
        kept = _batches(self.folder)
        return None if len(kept) < KEPT_MANIFESTS else _read(self.folder, kept[0])

    def committed_at(self, batch: int) -> float:
        """When a manifest that is kept was written, as a Unix time."""
        return (self.folder / f"{batch:010d}.json").stat().st_mtime

    def forget(self, kept: int) -> None:
        """Remove all but the last manifests."""
        for old in _batches(self.folder)[:-kept]:
            (self.folder / f"{old:010d}.json").unlink(missing_ok=True)

    def _rename(self, manifest: Manifest) -> None:
        """Idempotent: a staged file that is gone was renamed before (and a reader may have taken it away since)."""
        if self.output is None:
            return
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
    return next(manifests(checkpoint), Manifest(-1))


def manifests(checkpoint: Path) -> Iterator[Manifest]:
    """The micro-batches that a checkpoint has committed, the last one first, as far as they are kept."""
    for batch in reversed(_batches(_commits(checkpoint))):
        yield _read(_commits(checkpoint), batch)


def _read(folder: Path, batch: int) -> Manifest:
    stored = json.loads((folder / f"{batch:010d}.json").read_text())
    stored["renames"] = [(a, b) for a, b in stored["renames"]]
    return Manifest(**stored)


def _commits(checkpoint: Path) -> Path:
    return checkpoint / "muntin" / "commits"


def _batches(folder: Path) -> list[int]:
    return sorted(int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit())
