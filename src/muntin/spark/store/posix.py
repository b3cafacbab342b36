"""Our files in folders of a file system."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from muntin.spark.store import crash_points
from muntin.spark.store.store import Store


class PosixStore(Store[Path]):
    """Written aside under a name that Spark's file sources skip, synced, and given its name by a rename or a link."""

    patience_s = 0.0

    def read(self, file: Path) -> bytes:
        return file.read_bytes()

    def exists(self, file: Path) -> bool:
        return file.exists()

    def files(self, folder: Path) -> list[Path]:
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if entry.name[0] != "." and entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [folder / name for name in names]

    def folders(self, folder: Path) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def put(self, file: Path, data: bytes) -> None:
        self.ask(file)
        aside = _written_aside(file, data)
        try:
            os.replace(aside, file)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync_folder(file.parent)

    def put_new(self, file: Path, data: bytes) -> bool:
        self.ask(file)
        aside = _written_aside(file, data)
        try:
            os.link(aside, file)
        except FileExistsError:
            return False
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(file.parent)
        return True

    def remove(self, file: Path) -> None:
        self.ask(file)
        try:
            file.unlink()
        except FileNotFoundError:
            return
        sync_folder(file.parent)

    def remove_all(self, folder: Path) -> None:
        self.ask(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def stamp(self, file: Path) -> object:
        try:
            found = file.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino

    def written_at(self, file: Path) -> float:
        return file.stat().st_mtime


POSIX = PosixStore()


def _written_aside(file: Path, data: bytes) -> Path:
    """A synced file beside the one to be written; folders that are made for it are durable before it is."""
    crash_points.before("file aside")
    try:
        handle, aside = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
    except FileNotFoundError:
        _make(file.parent)
        handle, aside = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    crash_points.after("file aside")
    return Path(aside)


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    sync_file(folder)


def sync_file(file: Path) -> None:
    """Make the bytes of a file durable, whoever has written them."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
