"""The log of an output in an object store: which files are committed, for readers.

    OUTPUT/_log/b0000000107.json                what micro-batch 107 published, for all queries at once
    OUTPUT/_log/b0000000000-0000000099.json     a hundred entries in one, so that a reader has few to read

An object store has no rename: files get their last names before they are committed, and some never are. So a file
counts only if the log names it. One put makes a micro-batch visible, all of its queries together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from muntin.spark.checkpoint.durable import FileKind, MissingError, read_record, write_record
from muntin.spark.store import ObjectPath

FOLDER = "_log"
FOLDED = 100
"""So many entries become one."""
TRIES = 5
"""How often a reader lists anew that finds entries folded under its hands."""
_NAME = re.compile(r"((?:[ap]\d{3}-)?b)(\d{10})(?:-(\d{10}))?")


@dataclass(frozen=True)
class LogEntry:
    """The files that some micro-batches published, in order, by the folder of the query."""

    first: int
    last: int
    files: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def together(cls, entries: list[LogEntry]) -> LogEntry:
        """One entry for several, in the order of their micro-batches."""
        files: dict[str, list[str]] = {}
        for entry in entries:
            for name, found in entry.files.items():
                files.setdefault(name, []).extend(found)
        return cls(entries[0].first, entries[-1].last, files)


class OutputLog:
    """The entries with one prefix, as they are found, and as they are written here."""

    def __init__(self, output: ObjectPath, prefix: str, job: str | None):
        self._folder = output / FOLDER
        self._prefix, self._job = prefix, job
        self._spans = spans(output).get(prefix, {})

    @property
    def last(self) -> int:
        """The last micro-batch that published, -1 where there is none."""
        return max(self._spans, default=-1)

    def append(self, batch: int, files: list[str]) -> None:
        """Make the files of a micro-batch visible; one that is there stays as it is."""
        if batch <= self.last or not files:
            return
        by_folder: dict[str, list[str]] = {}
        for file in sorted(files):
            by_folder.setdefault(file.rpartition("/")[0], []).append(file)
        write_record(self._file(batch, batch), FileKind.LOG, LogEntry(batch, batch, by_folder), self._job)
        self._spans[batch] = batch
        single = sorted(last for last, first in self._spans.items() if first == last)
        if len(single) >= FOLDED:
            self._fold(single)

    def _fold(self, batches: list[int]) -> None:
        entry = LogEntry.together([self._read(batch, batch) for batch in batches])
        write_record(self._file(entry.first, entry.last), FileKind.LOG, entry, self._job)
        self._folder.store.remove_files([self._file(batch, batch) for batch in batches])
        self._spans = {last: first for last, first in self._spans.items() if last not in batches}
        self._spans[entry.last] = entry.first

    def truncate(self, after: int) -> list[str]:
        """Take back what later micro-batches published; the files, which are removed too."""
        gone = [self._read(first, last) for last, first in sorted(self._spans.items()) if last > after]
        files = [file for entry in gone for found in entry.files.values() for file in found if _batch(file) > after]
        kept = [file for entry in gone for found in entry.files.values() for file in found if _batch(file) <= after]
        store, output = self._folder.store, self._folder.parent
        store.remove_files([self._file(entry.first, entry.last) for entry in gone])
        self._spans = {last: first for last, first in self._spans.items() if last <= after}
        for batch in sorted({_batch(file) for file in kept}):
            self.append(batch, [file for file in kept if _batch(file) == batch])
        store.remove_files([output / file for file in files])
        return files

    def _file(self, first: int, last: int) -> ObjectPath:
        span = f"{first:010d}" if first == last else f"{first:010d}-{last:010d}"
        return self._folder / f"{self._prefix}{span}.json"

    def _read(self, first: int, last: int) -> LogEntry:
        return read_record(self._file(first, last), FileKind.LOG, LogEntry, self._job)


def spans(output: ObjectPath) -> dict[str, dict[int, int]]:
    """What entries an output has, by prefix: the last micro-batch of each, and its first."""
    found: dict[str, dict[int, int]] = {}
    for file in output.store.files(output / FOLDER):
        if (name := _NAME.fullmatch(file.stem)) is not None:
            mine, first, last = found.setdefault(name[1], {}), int(name[2]), int(name[3] or name[2])
            mine[last] = min(first, mine.get(last, first))
    for prefix, mine in found.items():  # what has been folded, and was not yet removed
        wide = [(first, last) for last, first in mine.items() if first < last]
        found[prefix] = {e: b for e, b in mine.items() if b < e or not any(lo <= b <= hi for lo, hi in wide)}
    return found


def committed_files(output: ObjectPath, folder: str) -> list[str]:
    """The committed files of a folder of an output, in the order of their rows."""
    for left in reversed(range(TRIES)):
        try:
            return _committed(output, folder)
        except MissingError:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _committed(output: ObjectPath, folder: str) -> list[str]:
    found: list[str] = []
    for prefix, mine in sorted(spans(output).items()):
        log = OutputLog(output, prefix, None)
        for last, first in sorted(mine.items()):
            found += log._read(first, last).files.get(folder, [])
    return found


def _batch(file: str) -> int:
    name = _NAME.match(file.rpartition("/")[2])
    assert name is not None
    return int(name[2])
