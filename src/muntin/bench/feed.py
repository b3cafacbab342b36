"""Two streams at a steady rate, as small CSV files that appear one after the other: what `muntin bench latency` feeds.

A file of each stream appears at every tick. Its rows happened since the tick before (`ts`), and say when their file
appeared (`came`, in milliseconds): from then on a contender can read them. Keys are drawn so that a row has one partner
within the largest window at any rate. At the end comes a pair of rows that meet nobody, with a later event time, so
that nothing is left that waits for the streams to go on.

The feeder is a process of its own, with its plan in `feed.json`. It begins when a contender has made the file `ready`,
and says in `fed.json` what it has done, or why it failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

STREAMS = ("A", "B")
TICK_MS = 100
PLAN, READY, FED = "feed.json", "ready", "fed.json"
LOOK_S = 0.05
NOBODY = {"A": -1, "B": -2}
"""Keys of the last rows."""
LATER_MS = 1_000
"""By so much they are later than all others."""


@dataclass(frozen=True)
class Feed:
    """Rates of both streams together in rows a second, one after the other, and the windows of the queries.

    Of each rate the first seconds do not count: in those of the first a contender starts.
    """

    rates: tuple[int, ...]
    start_s: float
    settle_s: float
    counted_s: float
    windows_ms: tuple[int, ...]

    @property
    def queries(self) -> dict[str, int]:
        """Names and windows."""
        return {f"q{n}": window for n, window in enumerate(self.windows_ms)}

    def uncounted_s(self, number: int) -> float:
        return self.settle_s if number else self.start_s

    @property
    def seconds(self) -> float:
        return sum(self.uncounted_s(n) + self.counted_s for n in range(len(self.rates)))

    def keys(self, rate: int) -> int:
        """So many that a row has one partner in the largest window, before and after it."""
        return max(1, rate // 2 * 2 * max(self.windows_ms) // 1000)

    def write(self, folder: Path) -> None:
        for stream in STREAMS:
            (folder / stream).mkdir(parents=True)
        (folder / PLAN).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Feed:
        stored = json.loads((folder / PLAN).read_text())
        return cls(**stored | {"rates": tuple(stored["rates"]), "windows_ms": tuple(stored["windows_ms"])})


@contextmanager
def feeding(folder: Path) -> Iterator[None]:
    """A feeder that waits for a contender; it ends with the block."""
    feeder = subprocess.Popen([sys.executable, "-m", "muntin.bench.feed", str(folder)])
    try:
        yield
    finally:
        feeder.kill()
        feeder.wait()


def take_all(folder: Path) -> int:
    """Said by a contender that runs: feed me. It comes back when all is fed, with the number of rows."""
    (folder / READY).touch()
    _await(folder / FED)
    return int(json.loads((folder / FED).read_text())["rows"])


def _await(file: Path) -> None:
    while not file.exists():
        time.sleep(LOOK_S)


def play(feed: Feed, folder: Path) -> None:
    """Feed all rates, then say when each of them counted, and by how much the feeder was late at most."""
    rng, end, late_ms, fed, counted = np.random.default_rng(26), 0, 0, len(STREAMS), []
    began = _now() + TICK_MS
    for number, rate in enumerate(feed.rates):
        start, first = end, end + round(1000 * feed.uncounted_s(number)) // TICK_MS
        end = first + round(1000 * feed.counted_s) // TICK_MS
        counted.append({"rate": rate, "from_ms": began + first * TICK_MS, "to_ms": began + end * TICK_MS})
        for tick in range(start, end):
            due = began + tick * TICK_MS
            time.sleep(max(0, due - _now()) / 1000)
            late_ms = max(late_ms, _now() - due)
            for stream in STREAMS:
                rows = rate * TICK_MS // 1000 // len(STREAMS)
                fed += rows
                ts = due - TICK_MS + np.sort(rng.integers(0, TICK_MS, rows))
                _publish(folder, stream, tick, ts, rng.integers(0, feed.keys(rate), rows))
    for stream in STREAMS:
        last = np.array([began + end * TICK_MS + LATER_MS])
        _publish(folder, stream, end, last, np.array([NOBODY[stream]]))
    _tell(folder, {"counted": counted, "late_ms": late_ms, "rows": fed})


def _tell(folder: Path, what: dict[str, Any]) -> None:
    aside = folder / "fed.part"
    aside.write_text(json.dumps(what))
    os.rename(aside, folder / FED)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _publish(folder: Path, stream: str, number: int, ts: np.ndarray[Any, Any], keys: np.ndarray[Any, Any]) -> None:
    """Write a file aside, and let it appear whole."""
    texts = pc.replace_substring(np.datetime_as_string(ts.astype("datetime64[ms]")), "T", " ")
    table = pa.table({"ts": texts, "k": keys, "came": np.full(len(ts), _now())})
    aside = folder / f"{stream}.part"
    pa.csv.write_csv(table, aside, pa.csv.WriteOptions(include_header=False, quoting_style="none"))
    os.rename(aside, folder / stream / f"{number:06d}.csv")


def pairs(feed: Feed, folder: Path) -> dict[str, int]:
    """Rows of each query over all files, by DuckDB."""
    con = duckdb.connect(":memory:", config={"threads": 2})
    columns = "{'ts': 'TIMESTAMP', 'k': 'BIGINT', 'came': 'BIGINT'}"
    for s in STREAMS:
        read = f"read_csv('{folder / s}/*.csv', columns = {columns})"
        con.execute(f"CREATE TABLE {s} AS SELECT epoch_ms(ts) AS ms, k FROM {read}")
    counts = ", ".join(f"count(*) FILTER (abs(A.ms - B.ms) < {window})" for window in feed.windows_ms)
    near = f"abs(A.ms - B.ms) < {max(feed.windows_ms)}"
    (found,) = con.execute(f"SELECT {counts} FROM A JOIN B ON A.k = B.k WHERE {near}").fetchall()
    con.close()
    return dict(zip(feed.queries, map(int, found), strict=True))


def main(folder: Path) -> None:
    _await(folder / READY)
    try:
        play(Feed.read(folder), folder)
    except Exception as error:
        _tell(folder, {"counted": [], "late_ms": 0, "rows": 0, "failed": f"{type(error).__name__}: {error}"})
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
