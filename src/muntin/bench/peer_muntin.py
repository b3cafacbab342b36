"""One run of Muntin over a workload, in a process of its own: a line of JSON after every micro-batch.

The files are played several times, and the last times count: Java compiles Spark while it runs, which takes as much of
the cores as our tasks at first, and a quarter of that after a minute. The other contenders take so long that Java is
done before their windows are full.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from muntin.bench.peers import say
from muntin.bench.workload import Workload
from muntin.model import JobSpec
from muntin.spark.run import Job, Run
from muntin.spark.session import open_session
from muntin.sql import parse_job

REHEARSAL_S = 45
"""For so long files are played before those that count."""
ROUNDS = 3
"""So often they are played then: the micro-batches of one round are over in a few seconds."""


class Reported:
    """Says how long each micro-batch took, but for the last, which only ends the streams."""

    def __init__(self, batches: int):
        self._batches, self._seen = batches, 0

    def __call__(self, status: dict[str, Any]) -> None:
        if self._seen < self._batches:
            say(batch=self._seen, seconds=status["seconds"]["triggerExecution"], phases=status["seconds"])
        self._seen += 1


def play(spark: Any, spec: JobSpec, place: Path, output: bool, told: Reported | None) -> Run:
    """Play all files, then end the streams; `output`: Parquet per query, else rows are routed, counted and dropped."""
    run = Job(spark, spec).start(
        output=place / "out" if output else None, checkpoint=place / "checkpoint", mode="bounded", progress=told
    )
    run.await_termination()
    return run


def executor_confs(executors: int) -> dict[str, str]:
    """So many executors with one core each."""
    return {"spark.executor.cores": "1", "spark.cores.max": str(executors), "spark.executor.memory": "1g"}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--output", action="store_true")
    parser.add_argument("--shards", type=int)
    parser.add_argument("--master")
    parser.add_argument("--executors", type=int, default=1)
    args = parser.parse_args(arguments)
    workload = Workload.from_json((args.folder / "workload.json").read_text())
    spec = parse_job(workload.job_sql(args.folder, args.format, args.shards))
    confs = executor_confs(args.executors) if args.master else {}
    spark = open_session(args.master, shards=args.shards, confs=confs)
    with tempfile.TemporaryDirectory(dir=args.folder, ignore_cleanup_errors=True) as scratch:
        began, rehearsals = time.monotonic(), 0
        while time.monotonic() - began < REHEARSAL_S:
            place = Path(scratch, f"rehearsal-{rehearsals}")
            play(spark, spec, place, args.output, None)
            shutil.rmtree(place)  # or it would be written to disk while others are measured
            rehearsals += 1
        for number in range(ROUNDS):
            place = Path(scratch, f"measured-{number}")
            status = play(spark, spec, place, args.output, Reported(workload.batches)).status()
            written = sum(f.stat().st_size for f in place.glob("out/q*/*.parquet"))
            shutil.rmtree(place)
        say(
            rows={name: query["total_rows"] for name, query in status["queries"].items()},
            rehearsals=rehearsals,
            bytes_written=written,
        )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
