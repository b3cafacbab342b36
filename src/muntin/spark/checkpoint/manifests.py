"""What a micro-batch has done, and the manifest that commits it (`commit_log.py` keeps them)."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from muntin.model import Destination
from muntin.model.records import LEFT_OUT
from muntin.spark.checkpoint.reports import ShardChange, ShardReport

SAMPLE = 1 << 14
"""Bytes at either end of a published file that its fingerprint is made of: a start looks at many files."""


class Fingerprint(NamedTuple):
    """Size and checksum of both ends of a file: enough to recognise one that was cut short or exchanged."""

    size: int
    checksum: int

    @classmethod
    def of(cls, file: Path) -> Fingerprint:
        with file.open("rb") as opened:
            head = opened.read(2 * SAMPLE)
            size = opened.seek(0, os.SEEK_END)
            if size <= 2 * SAMPLE:
                return cls(size, zlib.crc32(head))
            opened.seek(-SAMPLE, os.SEEK_END)
            return cls(size, zlib.crc32(opened.read(), zlib.crc32(head[:SAMPLE])))

    @classmethod
    def of_bytes(cls, data: bytes) -> Fingerprint:
        """The same of a file that is still in memory."""
        if len(data) <= 2 * SAMPLE:
            return cls(len(data), zlib.crc32(data))
        return cls(len(data), zlib.crc32(data[-SAMPLE:], zlib.crc32(data[:SAMPLE])))


@dataclass(frozen=True)
class TableFile:
    """A file of rows that a task wrote into the place of a lake table, for a commit of the table to adopt."""

    path: str
    """Relative to the table."""
    size: int
    rows: int
    date: str | None = None
    """The day of all its rows' output timestamps; None where they have none."""
    span_us: tuple[int, int] | None = None
    """The least and the greatest of them."""


@dataclass(frozen=True)
class Staged:
    """Rows that a task has staged for the commit: as a file below the output, as files of a lake table, or as bytes
    for the driver."""

    name: str
    part: int
    rows: int
    path: str | None = None
    """Relative to the output."""
    table: bytes | None = None
    files: list[TableFile] = field(default_factory=list)
    into: Destination | None = None
    """Where they go that go not to the job's output."""
    fingerprint: Fingerprint | None = field(default=None, metadata=LEFT_OUT)
    """Of the file, where the driver would have to fetch it to know."""


@dataclass
class BatchOutcome:
    """What the tasks of one micro-batch have done, before it is committed."""

    batch: int
    staged: list[Staged] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """Files of the output that have their names already."""
    adopted: dict[str, list[TableFile]] = field(default_factory=dict)
    """Files that lake tables are to adopt, by table."""
    rows: Counter[str] = field(default_factory=Counter)
    unmatched: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    reports: list[ShardReport] = field(default_factory=list)
    held: int = 0
    """Rows that one shard has delivered and another has not come to."""


@dataclass
class Manifest:
    """One committed micro-batch: the renames it stands for, rows per query, dead letters per class, the sums."""

    batch: int
    renames: list[tuple[str, str]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    total_rows: dict[str, int] = field(default_factory=dict)
    total_dead_letters: dict[str, int] = field(default_factory=dict)
    total_unmatched: dict[str, int] = field(default_factory=dict)
    """Of the rows of each query those that had no match."""
    reports: dict[str, ShardReport] = field(default_factory=dict)
    """The last report of each (join, shard), by "join/shard"."""
    changes: dict[str, list[ShardChange]] = field(default_factory=dict)
    """What changes of plan did in this micro-batch, by epoch, shard after shard."""
    left: int = 0
    """The last epoch with which a join has gone."""
    files: dict[str, Fingerprint] = field(default_factory=dict)
    """The published files, relative to the output."""
    published: int = -1
    """The last micro-batch that published files, this one or an earlier one."""
    published_before: int = -1
    """The one before that."""
    adopted: dict[str, list[TableFile]] = field(default_factory=dict)
    """The files that this micro-batch brings to lake tables, by table."""
    tables: dict[str, int] = field(default_factory=dict)
    """The last micro-batch that brought files to each lake table."""
    held: int = 0
    """Rows that wait for a shard that has left work to the next micro-batch, in a file of their own."""

    @property
    def epoch(self) -> int:
        """The plan that all shards have come to."""
        return min((report.epoch for report in self.reports.values()), default=self.left)

    def following(self, done: BatchOutcome, renames: list[tuple[str, str]], files: dict[str, Fingerprint]) -> Manifest:
        """The manifest of the next micro-batch."""
        return Manifest(
            batch=done.batch,
            renames=renames,
            rows=dict(done.rows),
            dead_letters=dict(done.dead_letters),
            total_rows=dict(Counter(self.total_rows) + done.rows),
            total_dead_letters=dict(Counter(self.total_dead_letters) + done.dead_letters),
            total_unmatched=dict(Counter(self.total_unmatched) + done.unmatched),
            reports=_last_reports(self, done.reports),
            changes=_changes(done.reports),
            left=max((report.epoch for report in done.reports if report.gone), default=self.left),
            files=files,
            published=done.batch if files else self.published,
            published_before=self.published if files else self.published_before,
            adopted=done.adopted,
            tables=self.tables | dict.fromkeys(done.adopted, done.batch),
            held=done.held,
        )


def _last_reports(before: Manifest, reports: Iterable[ShardReport]) -> dict[str, ShardReport]:
    """The last report of every shard whose join is still there."""
    known = before.reports | {report.name: report for report in reports}
    return {name: report for name, report in known.items() if not report.gone}


def _changes(reports: Iterable[ShardReport]) -> dict[str, list[ShardChange]]:
    found: dict[str, list[ShardChange]] = {}
    for change in (change for report in reports for change in report.changes):
        found.setdefault(str(change.epoch), []).append(change)
    return found
