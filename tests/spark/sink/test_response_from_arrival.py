"""Response times on Spark count from the arrival at the source, the wait for the micro-batch included."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.spark.run import Job

pytestmark = pytest.mark.spark

DAY_S = 86_400


def publish(lab: Any, number: int, written: float) -> None:
    """A file of each stream that was written at some time and appears now; each row meets one of the other stream."""
    ids = np.arange(100) + 1000 * number
    ts = pa.array((1_700_000_000 + 10 * number) * 1_000_000 + np.arange(100), pa.timestamp("us", "UTC"))
    for stream in "AB":
        path: Path = lab.folder(stream) / f"_{number}.parquet"
        pq.write_table(pa.table({"ts": ts, "id": ids, "k": ids, "v": np.full(100, 99.0)}), path)
        os.utime(path, (written, written))
        path.rename(lab.folder(stream) / f"{number}.parquet")


def rows_timed(run: Any, rows: int, query: str = "short") -> dict[str, float]:
    while (found := run.status()["queries"].get(query, {}).get("response") or {"rows": 0})["rows"] < rows:
        assert not run.await_termination(0.1), "it ended before its time"
    return dict(found)


@pytest.mark.parametrize("delivery", ["batch", "eager"])
def test_a_row_counts_from_when_its_file_was_written_but_not_before_the_run(lab: Any, delivery: str):
    lab.settings = f"SET delivery = '{delivery}';\n"
    publish(lab, 0, time.time() - DAY_S)  # what was there before the run
    began = time.time()
    run = Job(lab.spark, lab.spec()).start(output=lab.output, checkpoint=lab.checkpoint, mode="endless")
    publish(lab, 1, began + DAY_S)  # by a clock that is ahead; it lets the rows before it go
    first = rows_timed(run, 99)
    assert first["max_s"] < time.time() - began, "a day is not counted"
    at_rest = time.time()
    publish(lab, 2, began)  # written long ago, and it appears only now
    publish(lab, 3, time.time())
    late = rows_timed(run, 299)
    run.stop()
    assert late["max_s"] > at_rest - began, "the wait for its micro-batch is counted"
    assert late["max_s"] < time.time() - began + 0.1 and 0 < late["p50_s"] <= late["max_s"]
    seconds = late["rows"] * late["mean_s"]
    assert seconds > 99 * (at_rest - began), "for every row of that file"
