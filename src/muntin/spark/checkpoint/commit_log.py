"""The commits of a checkpoint: one manifest for each micro-batch, the last ones kept.

    CHECKPOINT/muntin/commits/0000000007.json      micro-batch 7
    CHECKPOINT/muntin/commits/0000000008.json      a fence: a driver took over here from another that had not ended
    CHECKPOINT/muntin/commits/0000000008-1.json    micro-batch 8, by the driver that took over

On a file system a lock keeps other drivers away. In an object store no lock does: a driver that was asleep may wake up
after another has taken over. So there a commit is a put that fails where something is. Whoever takes over puts a fence
where the other would commit next; from then on each of that one's commits fails, before anybody could see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from muntin.model import MuntinError
from muntin.model.records import to_json
from muntin.spark.checkpoint.durable import (
    WHAT_TO_DO,
    FileKind,
    MissingError,
    as_record,
    from_line,
    kind_of,
    put_new_json,
    write_json,
)
from muntin.spark.checkpoint.identity import FOLDER, id_if_claimed
from muntin.spark.checkpoint.manifests import Manifest
from muntin.spark.store import Location, crash_points, store_of

_SLOT = re.compile(r"(\d{10})(?:-(\d+))?")


class FencedError(MuntinError):
    """Another driver has taken over: this one must not write any more."""

    def __init__(self, checkpoint: object):
        super().__init__(
            f"another driver has taken over {checkpoint}: this one stops, and has written nothing since",
            hint="look which of the two should run; a job has one driver at a time",
        )


class CommitLog:
    """The commits as they are found, and as they are written here."""

    def __init__(self, checkpoint: Location):
        self._checkpoint = checkpoint
        self.folder = checkpoint / FOLDER / "commits"
        self.job = id_if_claimed(checkpoint)
        self._slots: dict[int, int] = {}
        """For each micro-batch, which slot has its manifest, or a fence."""
        for file in store_of(self.folder).files(self.folder):
            if file.name.endswith(".json") and (found := _SLOT.fullmatch(file.stem)) is not None:
                self._slots[int(found[1])] = max(int(found[2] or 0), self._slots.get(int(found[1]), 0))

    def _file(self, batch: int, slot: int = 0) -> Location:
        return self.folder / (f"{batch:010d}-{slot}.json" if slot else f"{batch:010d}.json")

    def manifests(self) -> Iterator[Manifest]:
        """What was committed, the last micro-batch first, as far as it is kept."""
        for batch in sorted(self._slots, reverse=True):
            found = self._read(batch)
            if found is not None:
                yield found

    def last(self) -> Manifest:
        """The last commit; number -1 where there is none."""
        return next(self.manifests(), Manifest(-1))

    def _read(self, batch: int) -> Manifest | None:
        """The manifest of a micro-batch; None where there is only a fence."""
        file = self._file(batch, self._slots[batch])
        try:
            data = store_of(file).read(file).removesuffix(b"\n")
        except FileNotFoundError:
            raise MissingError(f"{file} is missing", hint=WHAT_TO_DO[FileKind.MANIFEST]) from None
        if batch == max(self._slots) and not isinstance(file, Path) and _is_fence(data, file):
            return None
        content = from_line(data, FileKind.MANIFEST, file.stem, self.job, str(file))
        return as_record(content, FileKind.MANIFEST, Manifest, str(file))

    def append(self, manifest: Manifest) -> None:
        """Commit a micro-batch, or raise `FencedError`."""
        batch = manifest.batch
        slot = self._slots[batch] + 1 if batch in self._slots else 0
        file = self._file(batch, slot)
        if isinstance(file, Path):  # a lock keeps others away, and a rename works on every file system
            write_json(file, FileKind.MANIFEST, to_json(manifest), self.job)
        elif not self._put_new(file, FileKind.MANIFEST, to_json(manifest)):
            raise FencedError(self._checkpoint)
        self._slots[batch] = slot

    def fence(self, driver: int) -> None:
        """Take the place in which another driver would commit next; `driver` is the number of this one's lease."""
        while True:
            found = CommitLog(self._checkpoint)
            batch = found.last().batch + 1
            slot = found._slots[batch] + 1 if batch in found._slots else 0
            if self._put_new(self._file(batch, slot), FileKind.FENCE, {"driver": driver}):
                self._slots = {**found._slots, batch: slot}
                return

    def _put_new(self, file: Location, kind: FileKind, content: object) -> bool:
        return put_new_json(file, kind, content, self.job)

    def forget(self, kept: int) -> None:
        """Remove all but the last manifests; from an object store many at once, now and then."""
        if not isinstance(self.folder, Path) and len(self._slots) < 2 * kept:
            return
        old = sorted(self._slots)[:-kept]
        files = [self._file(batch, slot) for batch in old for slot in range(self._slots.pop(batch) + 1)]
        with crash_points.durable("old manifests removed"):
            store_of(self.folder).remove_files(files)


def write_manifest(checkpoint: Location, manifest: Manifest, job: str) -> None:
    """Commit a micro-batch of a job that publishes nothing."""
    file = checkpoint / FOLDER / "commits" / f"{manifest.batch:010d}.json"
    write_json(file, FileKind.MANIFEST, to_json(manifest), job)


def last_manifest(checkpoint: Location) -> Manifest:
    """The last micro-batch that a checkpoint has committed; number -1 where there is none."""
    return CommitLog(checkpoint).last()


def read_manifests(checkpoint: Location) -> Iterator[Manifest]:
    """The micro-batches that a checkpoint has committed, the last one first, as far as they are kept."""
    return CommitLog(checkpoint).manifests()


def _is_fence(data: bytes, file: Location) -> bool:
    return kind_of(data, FileKind.MANIFEST, str(file)) == FileKind.FENCE
