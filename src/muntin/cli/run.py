"""`muntin run`: a job file as one Spark streaming job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.cli.words import warn
from muntin.model import MuntinError, UsageError

if TYPE_CHECKING:
    from muntin.cli.screen import ProgressLine
    from muntin.spark.checkpoint import Answer
    from muntin.spark.run import JobStatus
    from muntin.spark.signals import StopSignals
    from muntin.spark.store import Location

INTERRUPTED = 130
SUMMARY = "run a job: all its queries as one Spark streaming job"
EXAMPLE = """\
examples:
  muntin run data/job.sql --output out --checkpoint ckpt                   until it is stopped
  muntin run data/job.sql --output out --checkpoint ckpt --available-now   what is there now; a later run goes on
  muntin run data/job.sql --output none --available-now                    count the rows and discard them
  muntin run data/job.sql --output out --checkpoint ckpt --web             with a live page on this machine
  muntin run job.sql --output out --checkpoint ckpt --conf spark.driver.memory=8g --log-level warn
  muntin run job.sql --output out --checkpoint ckpt --master spark://host:7077 --ship muntin.tar.gz
  muntin run job.sql --output out --checkpoint ckpt --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0

In a folder, each query's rows land in DIR/<query>/ and rows that were turned away in DIR/_dead_letters/. Started
again with the same checkpoint, the job goes on where it was, with the queries that the job file has then. After
--bounded nothing can follow: the streams of that checkpoint have ended."""

LOG_LEVELS = ("off", "fatal", "error", "warn", "info", "debug", "trace")
PACKAGES = "spark.jars.packages"
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
        "--checkpoint", metavar="DIR", help="where progress and state are kept (DIR/_checkpoint); or s3://BUCKET/DIR"
    )
    parser.add_argument(
        "--spark-checkpoint",
        metavar="DIR",
        help="a folder that driver and executors share, for Spark's half of a checkpoint in s3://",
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--bounded", action="store_true", help="what is there now; then the streams are ended for good")
    until.add_argument("--available-now", action="store_true", help="what is there now; a later run goes on")
    parser.add_argument(
        "--truncate-output",
        action="store_true",
        help="remove from the output what is newer than the checkpoint, after that was restored from a back-up",
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing but warnings and errors")
    web_options(parser)
    spark = parser.add_argument_group("Spark").add_argument
    spark("--master", metavar="URL", help="Spark master (default: this machine, all cores)")
    spark("--ship", type=Path, metavar="FILE", help="what `muntin package` made, for executors that lack Muntin")
    spark("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; may be repeated")
    spark("--packages", metavar="GROUP:NAME:VERSION,...", help="Maven packages, such as Spark's source for Kafka")
    spark("--log-level", choices=LOG_LEVELS, default="off", help="what of Spark's own log to show (%(default)s)")


def web_options(parser: argparse.ArgumentParser) -> None:
    """`--web [PORT]` and what goes with it."""
    parser.add_argument(
        "--web", nargs="?", type=int, const=-1, metavar="PORT", help="serve a live page of the job on this machine"
    )


def execute(args: argparse.Namespace) -> int:
    from muntin.spark.signals import StopSignals

    with StopSignals() as signals:
        from muntin.cli.jobfile import read_job
        from muntin.cli.screen import ProgressLine
        from muntin.spark.session import begin_java

        spec = read_job(args.job)  # a mistake shows at once, not after Spark has started
        check_web(args.web)
        confs = shipped(args.ship, args.master, spark_confs(args.conf, args.packages))
        begin_java(args.master, args.log_level, confs)
        from muntin.spark.run import check_job

        check_job(spec)
        status, progress = None, ProgressLine(args.quiet, spec.streams.values())
        if signals.caught is None:
            with progress:
                status = run_job(args, confs, progress, signals)
    if status is not None and not args.quiet:
        summarise(status, progress)
    if signals.caught:
        print(stop_message(signals.caught, status), file=sys.stderr)
        return 0 if mode(args) == "endless" else INTERRUPTED  # what has an end was not brought to it
    return 0


def check_web(port: int | None) -> None:
    """Refuse a port that cannot be, or a page without what serves it, before Spark starts."""
    if port is None:
        return
    from muntin.web.server import check_installed

    check_installed()
    if not -1 <= port <= 65535:
        raise UsageError(f"--web: {port} is not a port", hint="write a number from 0 to 65535, 0 for any that is free")


def mode(args: argparse.Namespace) -> str:
    return "bounded" if args.bounded else "available-now" if args.available_now else "endless"


def spark_confs(given: list[str], packages: str | None) -> dict[str, str]:
    """The settings of Spark that `--conf` and `--packages` give."""
    confs = dict[str, str]()
    for text in given:
        name, found, value = text.partition("=")
        if not found or not name.startswith("spark."):
            raise UsageError(f"--conf: {text!r} is not a setting of Spark", hint="write --conf spark.driver.memory=8g")
        confs[name] = value
    if packages is not None:
        wrong = [p for p in packages.split(",") if len([part for part in p.split(":") if part.strip()]) != 3]
        if wrong:
            raise UsageError(f"--packages: {wrong[0]!r} is not GROUP:NAME:VERSION", hint="put commas between packages")
        confs[PACKAGES] = ",".join(filter(None, [confs.get(PACKAGES), packages]))
    return confs


def shipped(archive: Path | None, master: str | None, confs: dict[str, str]) -> dict[str, str]:
    """The settings with which executors get an archive of Muntin."""
    if archive is None:
        return confs
    from muntin.spark.cluster import shipping_confs
    from muntin.spark.session import is_one_process

    if master is None or is_one_process(master):
        raise UsageError("--ship is for executors on other machines", hint="name a cluster: --master spark://HOST:PORT")
    return shipping_confs(archive, confs)


def run_job(
    args: argparse.Namespace, confs: dict[str, str], progress: ProgressLine, signals: StopSignals
) -> JobStatus | None:
    """Start the job and stay with it to its end; returns its status, None where it was stopped before it began.

    SIGINT and SIGTERM are heeded between the steps of the start, and then stop the run: what is committed stays.
    """
    from muntin.spark.run import Job
    from muntin.spark.session import open_session, stop_session

    try:
        spark = open_session(args.master, log_level=args.log_level, confs=confs)
    except MuntinError:
        if signals.caught is None:
            raise
        return None
    signals.hold()  # PySpark has taken SIGINT
    try:
        if signals.caught is not None:
            return None
        progress.job_starts()
        run = Job.from_file(spark, str(args.job)).start(
            output=args.output,
            checkpoint=args.checkpoint,
            spark_checkpoint=args.spark_checkpoint,
            mode=mode(args),
            progress=progress,
            truncate_output=args.truncate_output,
            on_change=lambda answer: print_change(answer, progress),
        )
        if not args.quiet:
            print_differences(run.differences)
        print_warnings(run.warnings)
        try:
            with nullcontext() if args.web is None else served(run.place.checkpoint, args.web):
                run.await_termination()
        except KeyboardInterrupt as stop:
            signals.caught = signals.caught or str(stop) or "SIGINT"
            run.stop()
        return run.status().record
    except MuntinError:
        raise
    except Exception as error:  # what is raised where Java is gone says nothing of that
        from muntin.spark.session import AFTER_ERROR_S, java_failure

        raise java_failure(AFTER_ERROR_S) or error from error
    finally:
        stop_session(spark)


@contextmanager
def served(checkpoint: Location, port: int) -> Iterator[None]:
    """The page of a job for as long as it runs; -1 is any port."""
    from muntin.web.server import WebOptions, WebServer

    with WebServer(checkpoint, WebOptions(None if port == -1 else port)) as server:
        print(f"page: {server.url}", file=sys.stderr)
        yield


def stop_message(signal: str, status: JobStatus | None) -> str:
    """One line for whoever stopped the run, or finds it stopped."""
    done = "before it began"
    if status is not None:
        done = f"after {status.batches:,} micro-batch{'' if status.batches == 1 else 'es'}"
    return f"stopped by {signal} {done}; started again with the same checkpoint, the job goes on"


def print_differences(lines: list[str]) -> None:
    """What the job file has otherwise than the run before."""
    if lines:
        print("changed since the last run:", *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)


def print_change(answer: Answer, progress: ProgressLine) -> None:
    """A line for each change of queries: when it is taken up or refused, and when it is in force."""
    from muntin.spark.run import client

    said = client.sentence(answer) if answer.state == "in force" else client.outcome(answer)
    progress.note(said, answer.state == "refused")
    for line in answer.warnings if answer.state == "accepted" else ():
        progress.note(f"warning: {line}", important=True)


def print_warnings(lines: list[str]) -> None:
    """What the job may not mean, and what of the output is not there any more; of many lines, the first."""
    warn([*lines[:WARNINGS], *([f"and {len(lines) - WARNINGS} more"] if len(lines) > WARNINGS else [])])


def summarise(status: JobStatus, progress: ProgressLine) -> None:
    from muntin.cli.screen import console, table
    from muntin.cli.status import dropped, planned_away

    out, dead_letters = console(), status.dead_letters
    out.print(table(["query", "rows"], [(name, query.total_rows) for name, query in status.queries.items()]))
    if status.never:
        out.print(planned_away(status.never), markup=False)
    for line in dropped(status):
        out.print(line, markup=False)
    totals = {
        "input rows": status.rows_in,
        **({"  of this run": status.rows_in - progress.rows_before} if progress.rows_before else {}),
        "dead letters": sum(dead_letters.values()),
        **{f"  {reason}": count for reason, count in dead_letters.items()},
        "micro-batches": status.batches,
        "seconds": round(progress.seconds, 1),
    }
    for name, value in totals.items():
        out.print(f"{name:<14} {value:>12,}", markup=False)
