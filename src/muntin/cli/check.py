"""`muntin check`: everything that can be said about job files without starting Spark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.model import UsageError

if TYPE_CHECKING:
    from muntin.model import JobSpec, Stream
    from muntin.plan import Plan, SharedJoin
    from muntin.plan.explain import Alternative

SUMMARY = "check job files without starting Spark: syntax, names, types, the plan, and what sharing does"
EXAMPLE = """\
examples:
  muntin check data/job.sql
  muntin check jobs/first.sql jobs/second.sql

Exit code 0 where all could run, 2 where one could not. A source that is not there yet is a warning."""
QUERIES = 6
"""Names of queries in a line."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", type=Path, nargs="+", metavar="JOB.sql", help="the job files")


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.words import in_flags

    faults = 0
    for path in args.jobs:
        try:
            lines = list(checked(path))
        except UsageError as error:
            faults += 1
            where = "" if str(path) in error.render() else f"{path}: "
            print(f"muntin: {where}{in_flags(error).render()}", file=sys.stderr)
        else:
            print("\n".join(lines))
    return UsageError.exit_code if faults else 0


def checked(path: Path) -> Iterator[str]:
    """What is said of a job that can run."""
    from muntin.cli.jobfile import read_job
    from muntin.spark.control import advice
    from muntin.spark.run import check_job

    spec = read_job(path)
    plan = check_job(spec, frames=spec.streams)
    for line in [*advice(spec), *missing_sources(plan.streams)]:
        print(f"warning: {path}: {line}", file=sys.stderr)
    read = ", ".join(stream.name for stream in plan.streams)
    yield f"{path}: {counted(len(spec.queries), 'query', 'queries')} over {read}"
    yield from (f"  {described(number, join)}" for number, join in enumerate(plan.joins, 1))
    if plan.never:
        yield f"  no rows are possible for {names(query.name for query in plan.never)}: the selection is never true"
    yield from (f"  {line}" for line in sharing(spec, plan))


def missing_sources(streams: tuple[Stream, ...]) -> Iterator[str]:
    from muntin.spark.ingest import sources

    for stream in streams:
        if (path := sources.missing_path(stream)) is not None:
            yield f"stream {stream.name}: there is no {path} so far"
        else:
            sources.check_source(stream)


def described(number: int, join: SharedJoin) -> str:
    """Who shares a join, and into how many slices its states are cut."""
    left, right = (stream.name for stream in join.streams)
    slices = " and ".join(str(max(1, len(cuts))) for cuts in join.cuts)
    queries = names(query.name for query in join.queries)
    return f"join {number}: {left} and {right} for {queries}; states in {slices} slices"


def sharing(spec: JobSpec, plan: Plan) -> Iterator[str]:
    """What the plan is predicted to keep and do, beside one join for each query."""
    from muntin.plan.explain import Alternative, describe

    possible = [found for found in describe(spec).alternatives if isinstance(found, Alternative)]
    chosen = next((found for found in possible if found.chosen), None)
    alone = next((found for found in possible if found.strategy == "isolated"), None)
    if chosen is None or alone is None or chosen is alone or len(spec.queries) < 2:
        return
    yield f"{plan.strategy}: about {work(chosen)}; one join for each query: {work(alone)}"


def work(found: Alternative) -> str:
    return f"{found.rows:,.0f} rows kept, {found.cpu_ms_per_second:.3g} ms of a core per second of stream"


def names(found: Iterator[str]) -> str:
    listed = list(found)
    more = f" and {len(listed) - QUERIES} more" if len(listed) > QUERIES else ""
    return ", ".join(listed[:QUERIES]) + more


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
