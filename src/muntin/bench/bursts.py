"""Files that appear at given moments while a job runs without end, and what came of it: for benches of response times.

A file counts as arrived when it appears. The job is started before, and its first micro-batch is over when the first
file comes; it is stopped when all rows are read and no work is left.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.spark.run import Job, Run
from muntin.sql import parse_job

LOOK_S = 0.1
STREAMS = "AB"
Figures = dict[str, Any]


@dataclass(frozen=True)
class TimedFile:
    """Rows of one stream that appear together, so many seconds after the first ones."""

    at_s: float
    stream: str
    rows: pa.Table


@dataclass
class Played:
    """What a run has shown: the last status, the seconds of each micro-batch, and of a core of all processes."""

    status: Figures
    batches_s: dict[int, float] = field(default_factory=dict)
    late_s: float = 0.0
    """By how much files appeared too late at most."""

    def response(self, query: str) -> Figures:
        return dict(self.status["queries"][query]["response"])


def streams(folder: Path, options: str = "") -> str:
    """Two streams of files in a folder; all rows have a key and a value."""
    return "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{folder}/{s}'{options});"
        for s in STREAMS
    )


def rows(rng: np.random.Generator, count: int, from_s: float, to_s: float, key: int = 0) -> pa.Table:
    """Rows with one key over a stretch of event time."""
    ts = np.sort(rng.integers(int(from_s * 1e6), int(to_s * 1e6), count))
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "id": np.arange(count),
            "k": np.full(count, key, np.int64),
            "v": rng.random(count),
        }
    )


def hardly_any(count: int, at_s: float, from_s: float) -> list[TimedFile]:
    """One row of each stream at a time, which meets nobody, after others in every sense."""
    return [
        TimedFile(at_s + n, stream, rows(np.random.default_rng(n), 1, from_s + n, from_s + n + 1, key=-1 - side))
        for n in range(count)
        for side, stream in enumerate(STREAMS)
    ]


def play(spark: Any, sql: Callable[[Path], str], bursts: Sequence[TimedFile], folder: Path) -> Played:
    """Run a job over bursts that come in their time."""
    written = _write(folder, bursts)
    first = {stream: rows(np.random.default_rng(1), 1, 0, 1, key=-1 - n) for n, stream in enumerate(STREAMS)}
    for stream, table in first.items():  # rows that meet nobody: Spark starts with them
        pq.write_table(table, folder / stream / "_first")
        _appear(folder / stream / "_first", folder / stream / "first.parquet")
    run = Job(spark, parse_job(sql(folder))).start(output="none", checkpoint=folder / "ckpt", mode="endless")
    played = Played({})
    try:
        _await(run, played, dict.fromkeys(STREAMS, 1))
        feeder = threading.Thread(target=_feed, args=(folder, written, played), daemon=True)
        feeder.start()
        every = {s: 1 + sum(b.rows.num_rows for b in bursts if b.stream == s) for s in STREAMS}
        _await(run, played, every)
    finally:
        run.stop()
    return played


def batch_seconds(spark: Any, sql: Callable[[Path], str], bursts: Sequence[TimedFile], folder: Path) -> list[float]:
    """The seconds of micro-batches in which the bursts come one after the other; `sql` says one file of each stream."""
    for at_s, aside, place in _write(folder, bursts):
        os.utime(aside, (1_700_000_000 + at_s, 1_700_000_000 + at_s))
        os.rename(aside, place)
    took: dict[int, float] = {}

    def note(status: Figures) -> None:
        took[status["batch"]] = status["seconds"]["triggerExecution"]

    job = Job(spark, parse_job(sql(folder)))
    run = job.start(output="none", checkpoint=folder / "ckpt", mode="available-now", progress=note)
    run.await_termination()
    return [took[n] for n in sorted(took)]


def _write(folder: Path, bursts: Sequence[TimedFile]) -> list[tuple[float, Path, Path]]:
    """Files beside their folder, and where they are to appear."""
    found = []
    for stream in STREAMS:
        (folder / stream).mkdir(parents=True)
    for n, burst in enumerate(bursts):
        aside, place = folder / f"{n:04d}.parquet", folder / burst.stream / f"{n:04d}.parquet"
        pq.write_table(burst.rows, aside)
        found.append((burst.at_s, aside, place))
    return sorted(found)


def _feed(folder: Path, files: Sequence[tuple[float, Path, Path]], played: Played) -> None:
    began = time.monotonic()
    for at_s, together in groupby(files, key=lambda file: file[0]):
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        for _, aside, place in together:
            _appear(aside, place)
        played.late_s = max(played.late_s, time.monotonic() - began - at_s)


def _appear(aside: Path, place: Path) -> None:
    os.utime(aside)
    os.rename(aside, place)


def _await(run: Run, played: Played, rows_read: Mapping[str, int]) -> None:
    """Look on until all rows are read, and nothing is left to do."""
    while True:
        status = played.status = run.status()
        if status["seconds"] and status["batch"] is not None:
            played.batches_s[status["batch"]] = status["seconds"].get("triggerExecution", 0.0)
        read = {name: source["total_rows"] for name, source in status["sources"].items()}
        if all(read.get(s, 0) >= n for s, n in rows_read.items()) and not any(j["left_rows"] for j in status["joins"]):
            return
        if run.await_termination(LOOK_S):
            raise RuntimeError("the job ended by itself")


def temporary_folder() -> Any:
    """A folder for one run."""
    return _TemporaryPath(prefix="muntin-bench-", ignore_cleanup_errors=True)


class _TemporaryPath(tempfile.TemporaryDirectory[str]):
    def __enter__(self) -> Path:  # type: ignore[override]
        return Path(super().__enter__())


# -- rounds -----------------------------------------------------------------------------------------------------------


def rotated(names: Sequence[str], number: int) -> list[str]:
    """The contenders of a round: each is the first in its turn."""
    start = number % len(names)
    return [*names[start:], *names[:start]]


def separate(measured: Sequence[Sequence[float]]) -> bool:
    """Whether no two contenders have rounds between each other's smallest and largest."""
    return all(max(a) < min(b) or max(b) < min(a) for a, b in combinations(measured, 2))


def spread(times: Sequence[float]) -> dict[str, float]:
    return {"mean": statistics.fmean(times), "least": min(times), "most": max(times)}


def in_words(times: Mapping[str, float]) -> str:
    return f"{times['mean']:.2f} ({times['least']:.2f}-{times['most']:.2f})"


# -- seconds of a core ------------------------------------------------------------------------------------------------


@contextmanager
def cores(took: list[float]) -> Any:
    """Add the seconds of a core that this process and its children took."""
    before = tree_seconds()
    yield
    took.append(tree_seconds() - before)


def tree_seconds() -> float:
    """Used so far by this process and all that it has started, those that ended included."""
    parents, used = dict[int, int](), dict[int, int]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            found = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(file.parent.name)] = int(found[1])
        used[int(file.parent.name)] = sum(int(ticks) for ticks in found[11:15])
    return sum(t for pid, t in used.items() if _is_ours(pid, parents)) / os.sysconf("SC_CLK_TCK")


def _is_ours(pid: int, parents: Mapping[int, int]) -> bool:
    while pid and pid != os.getpid():
        pid = parents.get(pid, 0)
    return pid == os.getpid()
