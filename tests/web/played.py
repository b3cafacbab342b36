"""A job that runs without Java: the code that ships on the stand-in for Spark, fed by whoever plays it."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from muntin.spark.run import Job, Run
from muntin.sql import parse_job
from whole_way.stand_in import Session

START_US = 1_700_000_000_000_000
SECONDS, ROWS, PLACES = 10, 60, 12
"""Event time of a file, its rows, and how many keys there are."""
MARKUP = "<img src=x onerror=document.title='owned'>"
STREAM = """
CREATE STREAM {name} (ts TIMESTAMP, place BIGINT, v DOUBLE, note STRING) TIMESTAMP BY ts LATENESS 1 seconds
  WITH (format = 'rows', name = '{name}', maxFilesPerTrigger = '1');
"""
QUERIES = """
CREATE QUERY together AS SELECT A.place, A.v AS heat, B.v AS damp, A.note FROM Heat A, Damp B
  WHERE A.place = B.place WINDOW 5 seconds;
CREATE QUERY hot AS SELECT A.place, A.v AS heat FROM Heat A, Damp B
  WHERE A.place = B.place AND A.v > 20 WINDOW 1 min;
CREATE QUERY longer AS SELECT A.place, B.v AS damp FROM Heat A, Damp B WHERE A.place = B.place AND B.v > 70
  WINDOW 2 min;
"""
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("place", pa.int64()), ("v", pa.float64()), ("note", pa.string())]
)


class PlayedSession(Session):
    """A session whose Java is this process: it is alive for as long as the job is."""

    @property
    def _jvm(self) -> Any:
        handle = SimpleNamespace(current=lambda: SimpleNamespace(pid=os.getpid))
        return SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(ProcessHandle=handle)))


class PlayedJob:
    """A running job in a folder; `tick` is a micro-batch."""

    def __init__(self, root: Path, queries: str = QUERIES, seed: int = 1):
        self.checkpoint, self.output = root / "ckpt", root / "out"
        self.session = PlayedSession(seed)
        self.spec = parse_job("SET shards = 2;\n" + STREAM.format(name="Heat") + STREAM.format(name="Damp") + queries)
        self._dice = random.Random(seed)
        self._files = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.run = self._start()

    def _start(self) -> Run:
        job = Job(self.session, self.spec)  # type: ignore[arg-type]
        return job.start(output=self.output, checkpoint=self.checkpoint, mode="endless")

    def tick(self, times: int = 1) -> None:
        """One more file of each stream, and a micro-batch of all that is there."""
        for _ in range(times):
            for number, name in enumerate(("Heat", "Damp")):
                self.session.files[name].append(self._file(number))
            self._files += 1
            self.step()

    def step(self) -> None:
        """All micro-batches for which there is something, messages to the shards included."""
        while self.session.queries[-1].step():
            pass
        self.run._listen_once()
        self.run.board.writer.settle()

    def _file(self, stream: int) -> pa.Table:
        begin = START_US + self._files * SECONDS * 1_000_000
        times = sorted(begin + self._dice.randrange(SECONDS * 1_000_000) for _ in range(ROWS))
        if self._files:
            times[0] -= 3 * SECONDS * 1_000_000  # too late
        rows: list[dict[str, Any]] = [
            {"ts": t, "place": self._dice.randrange(PLACES), "v": self._value(stream), "note": MARKUP} for t in times
        ]
        return pa.Table.from_pylist(rows, SCHEMA)

    def _value(self, stream: int) -> float:
        return round(self._dice.gauss((19, 65)[stream], (3, 8)[stream]), 1)

    def play(self, every_s: float = 0.3) -> None:
        """Go on by itself, in a thread."""

        def on() -> None:
            while not self._over.wait(every_s):
                self.tick()

        self._over.clear()
        self._thread = threading.Thread(target=on, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def stop(self) -> None:
        self.pause()
        self.run.stop()

    def restart(self) -> None:
        """Stop, and go on with the queries that are there."""
        self.stop()
        self.run = self._start()

    def close(self) -> None:
        self.stop()
