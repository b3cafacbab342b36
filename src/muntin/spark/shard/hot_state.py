"""Hot state: the operator's memory in files, so that the next micro-batch finds it, whichever worker runs it.

Spark's workers are reused but swap shards and die when idle, and reading the state back from the store costs time in
proportion to the whole window. So the operator's arrays and tables live in memory-mapped files of a folder per shard,
and a micro-batch costs what it brings.

The state store is the truth; a hot state may be lost at any moment and is never believed without proof:

- *claimed*: a task takes the folder by renaming it, which only one can do, and puts it back by renaming when it is
  done. A task that dies in between leaves a folder that nobody will take again.
- *stamped*: the stamp names the nonce of the durable state it belongs to; a retried or repeated micro-batch finds
  another nonce in the store and builds anew.
- *whole*: the stamp lists every file with its size, and carries a checksum of itself.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import secrets
import shutil
import tempfile
import time
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from muntin.core.operator_state import OperatorImage, OperatorMeta
from muntin.core.storage import Arrays, Layout
from muntin.model.records import from_json, to_json
from muntin.spark.store import private_folder

STAMP = "stamp.json"
FORMAT = 10
"""Of images and arrays; a hot state of another format, left by another version, is built anew."""
ABANDONED_S = 7 * 86_400
"""A folder that nobody has touched for so long belongs to no running job."""
BLOCKS = "blockmgr-"
"""How Spark names the folders of its blocks."""
LINE = 64
"""Arrays begin with a cache line."""


@dataclass(frozen=True)
class Stamp:
    """What a hot state says of itself: the nonce of the durable state that it belongs to, how many names its memory has
    given, and its files with their sizes."""

    format: int
    nonce: str
    count: int
    files: dict[str, int]
    image: OperatorImage
    """Without its small state, which is durable."""


class FileMemory:
    """A `Memory` whose arrays and tables are memory-mapped files of one folder."""

    def __init__(self, folder: Path, count: int = 0):
        self.folder = folder
        self.count = count

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what}-{self.count}"

    def allocate(self, name: str, layout: Layout) -> Arrays:
        with open(self.folder / name, "xb+") as file:
            _reserve(file.fileno(), max(LINE, _offsets(layout)[-1]))
        return self.arrays(name, layout)

    def arrays(self, name: str, layout: Layout) -> Arrays:
        offsets = _offsets(layout)
        with open(self.folder / name, "rb+") as file:
            pages = mmap.mmap(file.fileno(), 0)
        return [
            np.frombuffer(pages, kind, math.prod(shape), offset).reshape(shape)
            for (shape, kind), offset in zip(layout, offsets, strict=False)
        ]

    def keep(self, name: str, table: pa.Table) -> pa.Table:
        with pa.OSFile(str(self.folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return self.table(name)

    def table(self, name: str) -> pa.Table:
        return pa.ipc.open_stream(pa.memory_map(str(self.folder / name))).read_all()

    def discard(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def _reserve(handle: int, size: int) -> None:
    """Give a file its size and its blocks: where a disk is full it is said here, and not by a signal that ends the
    process when a page is first written."""
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        os.ftruncate(handle, size)


def _offsets(layout: Layout) -> list[int]:
    """Where each array begins, and where the last one ends."""
    offsets = [0]
    for shape, kind in layout:
        size = math.prod(shape) * np.dtype(kind).itemsize
        offsets.append(-(-(offsets[-1] + size) // LINE) * LINE)
    return offsets


def local_folder() -> Path:
    """Where this machine keeps Spark's blocks (`spark.local.dir`): on a cluster that is a folder of the executor or of
    the application, and goes with it. A Python worker is told the folder of the blocks, the driver the one above."""
    told = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not told:
        return Path(tempfile.gettempdir())
    return Path(told).parent if Path(told).name.startswith(BLOCKS) else Path(told)


def hot_root(checkpoint_id: str, local: Path | None = None) -> Path:
    """The folder of a job's hot states on this machine, readable by its user alone."""
    return private_folder((local or local_folder()) / f"muntin-{os.getuid()}") / checkpoint_id


def forget_hot(checkpoint_id: str, local: Path | None = None) -> None:
    """Remove a job's hot states from this machine, and what jobs that were killed left there long ago."""
    root = hot_root(checkpoint_id, local)
    shutil.rmtree(root, ignore_errors=True)
    for left in root.parent.iterdir():
        if time.time() - left.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(left, ignore_errors=True)


class HotState:
    """The hot state of one shard: claim it, work in it, put it back."""

    def __init__(self, root: Path, group: int, above: int | None = None):
        """`above` is the number of a join that reads the one that the shard is of, None for that one itself."""
        self._root = root
        self._place = root / (str(group) if above is None else f"{group}-{above}")
        self._mine: Path | None = None

    def claim(self, nonce: str, meta: OperatorMeta) -> tuple[FileMemory, OperatorImage] | None:
        """Memory and image of the state with this nonce; None where there is none that can be believed. `meta` is its
        small state."""
        folder = self._private()
        try:
            os.rename(self._place, folder)
        except OSError:
            return None
        self._mine = folder
        stamp = _read_stamp(folder)
        if stamp is None or stamp.nonce != nonce or not _whole(folder, stamp.files):
            self.drop()
            return None
        return FileMemory(folder, stamp.count), replace(stamp.image, meta=meta)

    def begin(self) -> FileMemory:
        """An empty memory; what earlier attempts at this shard left behind is swept away."""
        for left in self._root.glob(f"{self._place.name}.*"):
            shutil.rmtree(left, ignore_errors=True)
        self._mine = self._private()
        self._mine.mkdir(mode=0o700, parents=True)
        return FileMemory(self._mine)

    def put_back(self, memory: FileMemory, nonce: str, image: OperatorImage) -> None:
        """Leave the state for the next micro-batch."""
        assert self._mine is not None
        (self._mine / STAMP).unlink(missing_ok=True)
        files = {entry.name: entry.stat().st_size for entry in os.scandir(self._mine)}
        stamp = Stamp(FORMAT, nonce, memory.count, files, replace(image, meta=OperatorMeta()))
        body = json.dumps(to_json(stamp))
        (self._mine / STAMP).write_text(f"{zlib.crc32(body.encode()):08x}{body}")
        try:
            os.rename(self._mine, self._place)
        except OSError:  # somebody put another one there: theirs or ours, the nonce will tell; ours is not needed
            shutil.rmtree(self._place, ignore_errors=True)
            self.drop()
        self._mine = None

    def drop(self) -> None:
        if self._mine is not None:
            shutil.rmtree(self._mine, ignore_errors=True)
            self._mine = None

    def _private(self) -> Path:
        return self._place.with_name(f"{self._place.name}.{os.getpid()}-{secrets.token_hex(4)}")


def _read_stamp(folder: Path) -> Stamp | None:
    """What is in a folder; None where it is damaged, or of another version."""
    try:
        text = (folder / STAMP).read_text()
        plain = json.loads(text[8:]) if int(text[:8], 16) == zlib.crc32(text[8:].encode()) else None
    except (OSError, ValueError):
        return None
    return from_json(Stamp, plain) if isinstance(plain, dict) and plain.get("format") == FORMAT else None


def _whole(folder: Path, files: dict[str, int]) -> bool:
    found = {entry.name: entry.stat().st_size for entry in os.scandir(folder) if entry.name != STAMP}
    return found == files
