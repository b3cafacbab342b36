"""`SET durability = 'power'`: what a commit names is on the disk before the commit is.

Our own small files are synced always. Files of rows and Spark's own files are not: after a power cut they may be empty
or gone, while the manifest that names them is there. With this setting the driver syncs them itself, file by file and
then the folders, at these moments:

    before a manifest   the files that it publishes; Spark's offsets and lists of this micro-batch, the state that its
                        tasks have written, and Spark's commit of the micro-batch before
    after the renames   the folders of the output

What Spark writes after our last manifest, its commit of that micro-batch and the offsets of the next one, may be torn
still: a start takes it away (`torn_tail.py`). Tasks on other machines have closed their files by then; on a file
system that they share, closing writes them through.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from muntin.spark.store import Location, spark_half, sync_file, sync_folder

SPARK = ("offsets", "commits", "sources", "state")
AT_ONCE = 8
"""Files that are synced at the same time: a disk does better with several to do."""
Stamp = tuple[int, int, int]


class PowerSync:
    """Syncs what is new of Spark's half of a pipeline, and what is to be published."""

    def __init__(self, folder: Location):
        half = spark_half(folder)
        self._half = half if isinstance(half, Path) else None  # objects are durable once they are there
        self._synced: dict[str, Stamp] = {}

    def before_commit(self, files: Iterable[Path]) -> None:
        """Sync files of rows, and all that Spark has written since."""
        found = [*files, *self._new()]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(_sync_file, found))
        self.sync_folders({file.parent for file in found})

    def sync_folders(self, folders: Iterable[Path]) -> None:
        """Sync folders, and those above that may be new: what names them must survive, too."""
        wanted = {place for folder in folders for place in (folder, *list(folder.parents)[:2]) if place.is_dir()}
        for place in sorted(wanted, key=lambda p: -len(p.parts)):
            sync_folder(place)

    def _new(self) -> list[Path]:
        """The files of Spark's that were written since the last look, with the sums of their bytes."""
        if self._half is None:
            return []
        seen: dict[str, Stamp] = {}
        for name in SPARK:
            _stamp_all(str(self._half / name), seen)
        metadata = self._half / "metadata"
        if metadata.exists():
            found = metadata.stat()
            seen[str(metadata)] = found.st_mtime_ns, found.st_size, found.st_ino
        new = [Path(path) for path, stamp in seen.items() if self._synced.get(path) != stamp]
        self._synced = seen
        return new


def _stamp_all(folder: str, seen: dict[str, Stamp]) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _stamp_all(entry.path, seen)
                elif not entry.name.endswith((".tmp", ".tmp.crc")):
                    found = entry.stat()
                    seen[entry.path] = found.st_mtime_ns, found.st_size, found.st_ino
    except FileNotFoundError:
        return  # nothing of it yet, or Spark has just removed it


def _sync_file(file: Path) -> None:
    with suppress(FileNotFoundError):  # Spark has just removed it
        sync_file(file)
