"""A disk that forgets what nobody synced, for jobs on the stand-in: all of their processes are this one.

It notes each `fsync`: of a file, which bytes are safe; of a folder, which names are. `cut` then lets the power fail.
Bytes that are not safe may be there, cut short or gone; a name that is not safe may be gone, and a file that was
renamed may have its old name again.
"""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock


class Disk:
    def __init__(self) -> None:
        self._bytes: dict[int, tuple[int, int]] = {}
        """Of each file by its number the size and the time that are safe."""
        self._names: dict[str, dict[str, int]] = {}
        """Of each folder the names that are safe, with the numbers of their files."""
        self._renamed: list[tuple[str, str]] = []
        self._noting = threading.Lock()
        self.lost = 0
        """Files that were harmed."""

    @contextmanager
    def watched(self) -> Iterator[Disk]:
        fsync, replace = os.fsync, os.replace

        def synced(handle: int) -> None:
            fsync(handle)
            self._note(os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle))

        def replaced(source: Any, target: Any) -> None:
            new = not os.path.exists(target)
            replace(source, target)
            if new:
                with self._noting:
                    self._renamed.append((str(source), str(target)))

        with mock.patch.object(os, "fsync", synced), mock.patch.object(os, "replace", replaced):
            yield self

    def _note(self, path: str, found: os.stat_result) -> None:
        with self._noting:
            if not stat.S_ISDIR(found.st_mode):
                self._bytes[found.st_ino] = found.st_size, found.st_mtime_ns
                return
            with os.scandir(path) as entries:
                self._names[path] = {entry.name: entry.inode() for entry in entries}
            self._renamed = [names for names in self._renamed if path not in map(os.path.dirname, names)]

    def cut(self, folders: list[Path], dice: random.Random) -> None:
        """The power fails."""
        for source, target in reversed(self._renamed):
            back = os.path.isdir(os.path.dirname(source)) and not os.path.exists(source)
            if back and os.path.exists(target) and dice.random() < 0.5:
                os.rename(target, source)
                self.lost += 1
        self._renamed = []
        for file in (file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()):
            found = file.stat()
            safe = self._bytes.get(found.st_ino) == (found.st_size, found.st_mtime_ns)
            named = self._names.get(str(file.parent), {}).get(file.name) == found.st_ino
            if file.name != "lock" and not (safe and named) and dice.random() < 0.7:
                self._harm(file, safe, dice)

    def _harm(self, file: Path, safe: bool, dice: random.Random) -> None:
        self.lost += 1
        if safe or dice.random() < 0.3:
            file.unlink()
        else:
            os.truncate(file, dice.choice([0, file.stat().st_size // 2]))
