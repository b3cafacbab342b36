"""`muntin run`: a job file as one Spark streaming job."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

SUMMARY = "run a job: all its queries as one Spark streaming job"
EXAMPLE = """\
examples:
  muntin run data/job.sql --output out --checkpoint ckpt --bounded
  muntin run data/job.sql --output none --available-now       count the rows and discard them, for measuring

Each query's rows land in DIR/<query>/ as Parquet files whose names sort in output order, rows that were turned away
in DIR/_dead_letters/. Started again with the same checkpoint, the job goes on where it was, with the queries that the
job file has then."""


def more_help() -> str:
    """The settings of a job file, by groups."""
    from muntin.sql.settings import settings_help

    return settings_help()


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="JOB.sql", help="the job file")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the results, or: none")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="where progress and state are kept (DIR/_checkpoint)"
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--bounded", action="store_true", help="what is there now; then the streams are ended")
    until.add_argument("--available-now", action="store_true", help="what is there now; a later run goes on")
    parser.add_argument("--master", metavar="URL", help="Spark master (default: this machine, all cores)")


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.jobfile import read_job
    from muntin.cli.screen import ProgressLine
    from muntin.spark.run import check_job

    check_job(read_job(args.job))  # a mistake shows at once, not after Spark has started
    began = time.monotonic()
    with ProgressLine() as progress:
        status = run_job(args.job, args.output, args.checkpoint, mode(args), args.master, progress)
    summarise(status, time.monotonic() - began)
    return 0


def mode(args: argparse.Namespace) -> str:
    return "bounded" if args.bounded else "available-now" if args.available_now else "endless"


def run_job(
    job: Path, output: str, checkpoint: Path | None, mode: str, master: str | None, progress: Any
) -> dict[str, Any]:
    """Start the job and stay with it to its end; Ctrl-C stops it after the micro-batch under way."""
    from muntin.spark.run import Job
    from muntin.spark.session import open_session

    spark = open_session(master)
    try:
        run = Job.from_file(spark, str(job)).start(output=output, checkpoint=checkpoint, mode=mode, progress=progress)
        tell_differences(run.differences)
        try:
            run.await_termination()
        except KeyboardInterrupt:
            run.stop()
            if mode != "endless":
                raise
        return dict(run.status())
    finally:
        spark.stop()


def tell_differences(lines: list[str]) -> None:
    """What the job file has otherwise than the run before."""
    if lines:
        print("changed since the last run:", *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)


def summarise(status: dict[str, Any], seconds: float) -> None:
    from muntin.cli.screen import console, rows_in, table
    from muntin.cli.status import dropped, planned_away

    out, letters = console(), status["dead_letters"]
    out.print(table(["query", "rows"], [(name, query["total_rows"]) for name, query in status["queries"].items()]))
    if status.get("never"):
        out.print(planned_away(status["never"]), markup=False)
    for line in dropped(status):
        out.print(line, markup=False)
    totals = {
        "input rows": rows_in(status),
        "dead letters": sum(letters.values()),
        **{f"  {reason}": count for reason, count in letters.items()},
        "micro-batches": status["batches"],
        "seconds": round(seconds, 1),
    }
    for name, value in totals.items():
        out.print(f"{name:<14} {value:>12,}", markup=False)
