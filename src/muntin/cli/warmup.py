"""Compiling the kernels, once per installation, while Spark starts.

Numba compiles on first use and keeps the code beside the sources. Left to Spark's Python processes, each of them would
compile the same kernels at the same time, and the first micro-batch of a new installation would take a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

JOB = """
CREATE STREAM A (ts TIMESTAMP, n BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'none');
CREATE STREAM B (ts TIMESTAMP, n BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'none');
CREATE QUERY short AS SELECT A.s FROM A, B WHERE A.n = B.n AND A.s = B.s AND A.n > 3 WINDOW 1 s;
CREATE QUERY long AS SELECT A.s FROM A, B WHERE A.n = B.n AND A.s = B.s WINDOW 2 s;
CREATE QUERY single AS SELECT A.s FROM A, B WHERE A.n = B.n WINDOW 1 s;
"""
"""A job that uses every kernel."""
BATCHES, ROWS, STEP_US = 3, 200, 50_000


class Warmup:
    """A thread that compiles; `wait` for it before the first micro-batch. What fails here will fail there, and be
    told."""

    def __init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="muntin-warmup", daemon=True)

    def start(self) -> Warmup:
        self._thread.start()
        return self

    def wait(self, say: Callable[[str], None]) -> None:
        if self._thread.is_alive():
            say("compiling the join, once after an installation")
        self._thread.join()

    def _run(self) -> None:
        try:
            compile_kernels()
        except Exception:
            return


def compile_kernels() -> None:
    """Run the job over a few hundred rows: some match, some expire, the state grows and is tidied."""
    from muntin.core.local import LocalJob
    from muntin.sql import parse_job

    job = LocalJob(parse_job(JOB), shards=2)
    for batch in range(BATCHES):
        job.push({name: _rows(batch) for name in "AB"}, ended=batch == BATCHES - 1)
    job.restart()


def _rows(batch: int) -> Any:
    import pyarrow as pa

    numbers = range(batch * ROWS, (batch + 1) * ROWS)
    return pa.table(
        {
            "ts": pa.array([n * STEP_US for n in numbers], pa.timestamp("us", "UTC")),
            "n": pa.array([n % 7 for n in numbers], pa.int64()),
            "s": pa.array([str(n % 3) for n in numbers]),
        }
    )
