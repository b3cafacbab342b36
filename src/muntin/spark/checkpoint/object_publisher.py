"""Exactly once in an object store: tasks put files that nobody counts, a manifest commits them, a log shows them."""

from __future__ import annotations

import re

from muntin.spark.checkpoint.manifests import BatchOutcome, Fingerprint, Manifest
from muntin.spark.checkpoint.output_log import OutputLog
from muntin.spark.checkpoint.publisher import Publisher
from muntin.spark.store import Location, ObjectPath


class ObjectPublisher(Publisher):
    """The commits of a checkpoint whose output is in an object store."""

    def __init__(self, checkpoint: Location, objects: ObjectPath, prefix: str = ""):
        super().__init__(checkpoint, None, prefix)
        self.objects = objects
        self.shown = OutputLog(objects, self.prefix, self.job)

    def _manifest(self, done: BatchOutcome) -> Manifest:
        files: dict[str, Fingerprint] = {}
        for staged in done.staged:
            if staged.path is not None and staged.fingerprint is not None:
                files[staged.path] = staged.fingerprint
        return self.last.following(done, [], files)

    def _complete(self, manifest: Manifest) -> None:
        if manifest.published == manifest.batch:
            self.shown.append(manifest.batch, list(manifest.files))

    def recover(self) -> None:
        """Complete the last commit, and remove what tasks put for none."""
        self._complete(self.last)
        kept = {manifest.batch: manifest.files for manifest in self.log.manifests()}
        begins = min(kept, default=0)
        name = re.compile(rf"{self.prefix}(\d{{10}})-\d{{3}}-\w+\.\w+")
        for folder in self._folders():
            place = self.objects / folder
            left = []
            for file in self.objects.store.files(place):
                found = name.fullmatch(file.name)
                if (
                    found is not None
                    and int(found[1]) >= begins
                    and f"{folder}/{file.name}" not in kept.get(int(found[1]), ())
                ):
                    left.append(file)
            self.objects.store.remove_files(left)

    def _folders(self) -> list[str]:
        """Where files of an output may lie."""
        store = self.objects.store
        found = [name for name in store.folders(self.objects) if not name.startswith("_log")]
        return [*found, *(f"{name}/{below}" for name in found for below in store.folders(self.objects / name))]
