"""`muntin run`: a job file as one Spark streaming job."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.model import MuntinError

if TYPE_CHECKING:
    from muntin.spark.signals import StopSignals

INTERRUPTED = 130
SUMMARY = "run a job: all its queries as one Spark streaming job"
EXAMPLE = """\
examples:
  muntin run data/job.sql --output out --checkpoint ckpt --bounded
  muntin run data/job.sql --output none --available-now       count the rows and discard them, for measuring

In a folder, each query's rows land in DIR/<query>/ and rows that were turned away in DIR/_dead_letters/. Started
again with the same checkpoint, the job goes on where it was, with the queries that the job file has then."""

WARNINGS = 10
"""How many are shown."""


def more_help() -> str:
    """The settings of a job file, by groups."""
    from muntin.sql.settings import settings_help

    return settings_help()


class Spellings:
    """What `--output` takes, looked up only where the help is shown: sinks bring heavy imports."""

    def __str__(self) -> str:
        from muntin.spark.sink import SINKS

        return "; ".join(f"{kind.spelling}: {kind.summary}" for kind in reversed(SINKS) if kind.on_command_line)


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="JOB.sql", help="the job file")
    output = parser.add_argument("--output", required=True, metavar="OUTPUT")
    vars(output)["spellings"] = Spellings()
    output.help = "where the rows go. %(spellings)s"
    parser.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="where progress and state are kept (DIR/_checkpoint)"
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--bounded", action="store_true", help="what is there now; then the streams are ended")
    until.add_argument("--available-now", action="store_true", help="what is there now; a later run goes on")
    parser.add_argument(
        "--truncate-output",
        action="store_true",
        help="remove from the output what is newer than the checkpoint, after that was restored from a back-up",
    )
    parser.add_argument("--master", metavar="URL", help="Spark master (default: this machine, all cores)")


def execute(args: argparse.Namespace) -> int:
    from muntin.spark.signals import StopSignals

    with StopSignals() as signals:
        from muntin.cli.jobfile import read_job
        from muntin.cli.screen import ProgressLine
        from muntin.spark.run import check_job

        check_job(read_job(args.job))  # a mistake shows at once, not after Spark has started
        began, status = time.monotonic(), dict[str, Any]()
        if signals.caught is None:
            with ProgressLine() as progress:
                status = run_job(args, progress, signals)
    if status:
        summarise(status, time.monotonic() - began)
    if signals.caught:
        print(told_of_stop(signals.caught, status), file=sys.stderr)
        return 0 if mode(args) == "endless" else INTERRUPTED  # what has an end was not brought to it
    return 0


def mode(args: argparse.Namespace) -> str:
    return "bounded" if args.bounded else "available-now" if args.available_now else "endless"


def run_job(args: argparse.Namespace, progress: Any, signals: StopSignals) -> dict[str, Any]:
    """Start the job and stay with it to its end; returns its status.

    SIGINT and SIGTERM are heeded between the steps of the start, and then stop the run: what is committed stays.
    """
    from muntin.spark.run import Job
    from muntin.spark.session import open_session, stop_session

    try:
        spark = open_session(args.master)
    except MuntinError:
        if signals.caught is None:
            raise
        return {}
    signals.hold()  # PySpark has taken SIGINT
    try:
        if signals.caught is not None:
            return {}
        run = Job.from_file(spark, str(args.job)).start(
            output=args.output,
            checkpoint=args.checkpoint,
            mode=mode(args),
            progress=progress,
            truncate_output=args.truncate_output,
        )
        tell_differences(run.differences)
        tell_warnings(run.warnings)
        try:
            run.await_termination()
        except KeyboardInterrupt as stop:
            signals.caught = signals.caught or str(stop) or "SIGINT"
            run.stop()
        return dict(run.status())
    finally:
        stop_session(spark)


def told_of_stop(signal: str, status: dict[str, Any]) -> str:
    """One line for whoever stopped the run, or finds it stopped."""
    batches = status.get("batches", 0)
    done = f"after {batches:,} micro-batch{'' if batches == 1 else 'es'}" if status else "before it began"
    return f"stopped by {signal} {done}; started again with the same checkpoint, the job goes on"


def tell_differences(lines: list[str]) -> None:
    """What the job file has otherwise than the run before."""
    if lines:
        print("changed since the last run:", *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)


def tell_warnings(lines: list[str]) -> None:
    """What of the output is not there any more; of many lines, the first."""
    for line in [*lines[:WARNINGS], *([f"and {len(lines) - WARNINGS} more"] if len(lines) > WARNINGS else [])]:
        print(f"warning: {line}", file=sys.stderr)


def summarise(status: dict[str, Any], seconds: float) -> None:
    from muntin.cli.screen import console, rows_in, table
    from muntin.cli.status import dropped, planned_away

    out, dead_letters = console(), status["dead_letters"]
    out.print(table(["query", "rows"], [(name, query["total_rows"]) for name, query in status["queries"].items()]))
    if status.get("never"):
        out.print(planned_away(status["never"]), markup=False)
    for line in dropped(status):
        out.print(line, markup=False)
    totals = {
        "input rows": rows_in(status),
        "dead letters": sum(dead_letters.values()),
        **{f"  {reason}": count for reason, count in dead_letters.items()},
        "micro-batches": status["batches"],
        "seconds": round(seconds, 1),
    }
    for name, value in totals.items():
        out.print(f"{name:<14} {value:>12,}", markup=False)
