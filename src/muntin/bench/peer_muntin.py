"""One run of Muntin over a workload, in a process of its own: a line of JSON after every micro-batch."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from muntin.bench.peers import say
from muntin.bench.workload import Workload
from muntin.spark.runner import Job
from muntin.spark.session import open_session
from muntin.sql import parse_job


def run(workload: Workload, folder: Path, format: str, output: bool, shards: int | None = None) -> None:
    """Play all files, then end the streams; `output`: Parquet per query, else rows are routed, counted and dropped."""
    spark = open_session(shards=shards)
    seen = 0

    def progress(status: dict[str, Any]) -> None:
        nonlocal seen
        if seen < workload.batches:
            say(batch=seen, seconds=status["seconds"]["triggerExecution"], phases=status["seconds"])
        seen += 1

    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as scratch:
        text = workload.job_sql(folder, format, shards)
        run = Job(spark, parse_job(text)).start(
            output=Path(scratch, "out") if output else None,
            checkpoint=Path(scratch, "checkpoint"),
            mode="bounded",
            progress=progress,
        )
        run.await_termination()
        status = run.status()
        join = status["joins"][0]
        say(rows={name: query["total_rows"] for name, query in status["queries"].items()}, state_bytes=join["bytes"])
        written = sum(f.stat().st_size for f in Path(scratch).glob("out/q*/*.parquet"))
        say(bytes_written=written)
    spark.stop()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--output", action="store_true")
    parser.add_argument("--shards", type=int)
    args = parser.parse_args(arguments)
    workload = Workload.from_json((args.folder / "workload.json").read_text())
    run(workload, args.folder, args.format, args.output, args.shards)


if __name__ == "__main__":
    main(sys.argv[1:])
