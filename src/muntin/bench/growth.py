"""Does a micro-batch on Spark cost more when there is more state? Ten times the window and the keys, the same
output."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from muntin.generate import generate
from muntin.spark.run import Job

JOB = """
CREATE STREAM Temperature (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE) TIMESTAMP BY ts
  WITH (format = 'parquet', path = '{folder}/temperature', maxFilesPerTrigger = '1');
CREATE STREAM Humidity (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE) TIMESTAMP BY ts
  WITH (format = 'parquet', path = '{folder}/humidity', maxFilesPerTrigger = '1');
CREATE QUERY q AS SELECT A.LocationId, A.Value AS t, B.Value AS h FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW {window} seconds;
"""
RATE, BATCH_S = 1_000.0, 50
"""Rows a second of event time and stream; seconds of event time in a micro-batch: 100,000 rows of both streams."""


def micro_batches(spark: Any, window_s: int, keys: int, steady: int) -> dict[str, Any]:
    """Seconds of each micro-batch once the window is full, and the state that there was."""
    batches = -(-window_s // BATCH_S) + 1 + steady
    with tempfile.TemporaryDirectory(prefix="muntin-bench-") as folder:
        generate("sensors", Path(folder), rate=RATE, locations=keys, duration_s=batches * BATCH_S, files=batches)
        job_file = Path(folder) / "bench.sql"
        job_file.write_text(JOB.format(folder=folder, window=window_s))
        seconds: list[float] = []
        run = Job.from_file(spark, str(job_file)).start(
            output=None,
            checkpoint=str(Path(folder) / "ckpt"),
            mode="available-now",
            progress=lambda status: seconds.append(status["seconds"].get("triggerExecution", 0.0)),
        )
        run.await_termination()
        status = run.status()
    join = status["joins"][0]
    return {
        "window_s": window_s,
        "keys": keys,
        "state_rows": sum(join["counters"]["state_rows"]),
        "state_bytes": join["bytes"],
        "rows_out": status["queries"]["q"]["total_rows"],
        "micro_batches": seconds[-steady:],
        "median_s": statistics.median(seconds[-steady:]),
    }


def state_growth(spark: Any, quick: bool) -> dict[str, Any]:
    """The same stream and output per row with a state of one and ten."""
    steady = 4 if quick else 8
    warm_up = micro_batches(spark, BATCH_S, 5_000, 2)
    small = micro_batches(spark, 60, 5_000, steady)
    large = micro_batches(spark, 600, 50_000, steady)
    return {"small": small, "large": large, "ratio": large["median_s"] / small["median_s"], "warm_up": warm_up}
