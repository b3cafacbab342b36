"""Twelve queries over 2 x 200,000 rows: exactly the rows that DuckDB computes for each of them separately.

However the input is cut into micro-batches, and after the process was killed twice in the middle. The rows lie close
enough for ties between the streams; one key in a hundred is NULL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.model import UsageError
from muntin.spark.run import Job, read_status
from muntin.sql import parse_job

from . import duck

pytestmark = pytest.mark.spark

ROWS, FILES, RATE_PER_S, KEYS = 200_000, 10, 100, 50_000
STREAMS = ("A", "B")
SELECT = "A.id AS a, B.id AS b, A.v AS av, B.tag AS bt"
KEY, NAME_KEY, PAIR_KEY = "A.k = B.k", "A.name = B.name", "A.room = B.room AND A.tag = B.tag"


@dataclass(frozen=True)
class Asked:
    """One query, as both sides are told of it; windows in seconds, for A and for B."""

    window_s: tuple[int, int]
    where: str

    def sql(self, name: str) -> str:
        a, b = self.window_s
        ranges, window = (f" [RANGE {a} s]", f" [RANGE {b} s]"), ""
        if a == b:
            ranges, window = ("", ""), f" WINDOW {a} s"
        return f"CREATE QUERY {name} AS SELECT {SELECT} FROM A{ranges[0]}, B{ranges[1]} WHERE {self.where}{window};\n"

    def wanted(self) -> str:
        return duck.wanted(SELECT, "A, B", self.where, self.window_s)


QUERIES = {
    "all_50": Asked((50, 50), KEY),
    "all_150": Asked((150, 150), KEY),
    "all_400": Asked((400, 400), KEY),
    "a_100": Asked((100, 100), f"{KEY} AND A.v > 50"),
    "a_250": Asked((250, 250), f"{KEY} AND A.v BETWEEN 20 AND 60"),
    "a_300": Asked((300, 300), f"{KEY} AND (A.tag LIKE 't1%' OR A.v IS NULL)"),
    "a_600": Asked((600, 600), f"{KEY} AND A.v > 90"),
    "both_500": Asked((500, 500), f"{KEY} AND A.v > 30 AND B.v < 40"),
    "b_600_50": Asked((600, 50), f"{KEY} AND B.tag IN ('t2', 't3', 't44')"),
    "a_50_550": Asked((50, 550), f"{KEY} AND A.v < 40"),
    "name_350": Asked((350, 350), NAME_KEY),
    "pair_200": Asked((200, 200), f"{PAIR_KEY} AND B.v >= 25"),
}


def make_stream(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    at_ms = np.sort(rng.integers(0, ROWS * 1000 // RATE_PER_S, ROWS))

    def nullable(values: Any, share: float) -> pa.Array:
        return pa.array(values, mask=rng.random(ROWS) < share)

    return pa.table(
        {
            "ts": pa.array(at_ms * 1000 + 1_700_000_000 * duck.US, pa.timestamp("us", "UTC")),
            "id": np.arange(ROWS),
            "k": nullable(rng.integers(0, KEYS, ROWS), 0.01),
            "name": nullable(np.char.add("größe-", rng.integers(0, KEYS, ROWS).astype(str)), 0.01),
            "room": nullable(rng.integers(0, KEYS // 100, ROWS).astype(np.int32), 0.01),
            "tag": nullable(np.char.add("t", rng.integers(0, 100, ROWS).astype(str)), 0.01),
            "v": nullable(np.round(rng.random(ROWS) * 100, 3), 0.02),
        }
    )


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each stream as files of equal length, which Spark takes in the order of their modification times."""
    folders = {}
    for seed, name in enumerate(STREAMS):
        folders[name] = tmp_path_factory.mktemp(name)
        table = make_stream(seed)
        for n in range(FILES):
            file = folders[name] / f"{n:02d}.parquet"
            pq.write_table(table.slice(n * ROWS // FILES, ROWS // FILES), file)
            os.utime(file, (1_700_000_000 + n,) * 2)
    return folders


@pytest.fixture(scope="module")
def base(streams: dict[str, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the answer of each query, computed once."""
    with duck.connect(streams) as base:
        for name, query in QUERIES.items():
            base.execute(f"CREATE TABLE {name} AS {query.wanted()}")
        yield base


def job_sql(streams: dict[str, Path], per_trigger: int) -> str:
    columns = "ts TIMESTAMP, id BIGINT, k BIGINT, name STRING, room INT, tag STRING, v DOUBLE"
    declared = [
        f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts\n"
        f"  WITH (format = 'parquet', path = '{folder}', maxFilesPerTrigger = '{per_trigger}');\n"
        for name, folder in streams.items()
    ]
    return "".join([*declared, *(query.sql(name) for name, query in QUERIES.items())])


def check(base: duckdb.DuckDBPyConnection, output: Path, status: dict[str, Any]) -> None:
    """Every query has its rows, all of them, each once, in order; and the status says so."""
    assert status["state"] == "ended"
    assert status["dead_letters"] == {}
    for name in QUERIES:
        rows, missing, too_many = duck.difference(base, f"FROM {name}", output / name)
        assert rows > 1000, f"{name}: an expectation that is nearly empty proves nothing"
        assert (missing, too_many) == (0, 0), name
        assert duck.is_ordered(output / name), name
        assert status["queries"][name]["total_rows"] == rows, name


@pytest.mark.parametrize("per_trigger", [1, FILES])
def test_twelve_queries_are_what_duckdb_says_however_the_input_is_cut(
    spark: Any, streams: dict[str, Path], base: duckdb.DuckDBPyConnection, tmp_path: Path, per_trigger: int
):
    job = Job(spark, parse_job(job_sql(streams, per_trigger)))
    run = job.start(output=tmp_path / "out", checkpoint=tmp_path / "ckpt", mode="bounded")
    assert run.await_termination(600)
    status = run.status()
    check(base, tmp_path / "out", status)
    assert status["batches"] == -(-FILES // per_trigger) + 1, "and one more in which the streams end"
    read = {name: status["sources"][name]["total_rows"] for name in STREAMS}
    assert read == dict.fromkeys(STREAMS, ROWS), "three joins, and yet each source is read once"


def test_killing_the_process_twice_in_the_middle_changes_nothing(
    streams: dict[str, Path], base: duckdb.DuckDBPyConnection, tmp_path: Path
):
    """First the driver alone, as `kill -9` does, then with everything it started, as a machine goes down."""
    (tmp_path / "job.sql").write_text(job_sql(streams, 1))
    checkpoint = tmp_path / "ckpt"
    for kill, at in ((os.kill, 2), (os.killpg, 6)):
        child = start(tmp_path)
        try:
            await_batch(child, checkpoint, at)
        finally:
            kill(child.pid, signal.SIGKILL)
            child.wait()
        status = read_status(checkpoint)
        assert status["state"] == "failed" and at <= status["batch"] < FILES - 1, "killed in the middle"
    child = start(tmp_path)
    assert child.wait(600) == 0, (tmp_path / "stderr").read_text()
    check(base, tmp_path / "out", read_status(checkpoint))


def start(folder: Path) -> subprocess.Popen[bytes]:
    arguments = ["run", "job.sql", "--output", "out", "--checkpoint", "ckpt", "--bounded"]
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
        command = [sys.executable, "-m", "muntin.cli.main", *arguments]
        return subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, start_new_session=True)


def await_batch(child: subprocess.Popen[bytes], checkpoint: Path, batch: int, timeout_s: float = 300) -> None:
    """Wait until this micro-batch is committed."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        assert child.poll() is None, "it ended before it was killed"
        try:
            if (read_status(checkpoint)["batch"] or 0) >= batch:
                return
        except UsageError:  # it has not begun
            pass
        time.sleep(0.1)
    raise TimeoutError(f"no micro-batch {batch} in {timeout_s} s")
