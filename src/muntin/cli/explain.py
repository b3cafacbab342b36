"""`muntin explain`: the shared plan of a job file and what it will cost, without starting anything."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from muntin.cli.checkpoint import a_checkpoint
from muntin.cli.words import warn
from muntin.model import AUTO, UsageError

if TYPE_CHECKING:
    from muntin.model import JobSpec, Query
    from muntin.plan.explain import PlanDescription
    from muntin.plan.traffic import Knowledge, Selectivities
    from muntin.spark.store import Location

SUMMARY = "show the shared plan of a job: joins, slices, who reads which, and what it costs beside other plans"
EXAMPLE = """\
examples:
  muntin explain data/job.sql
  muntin explain data/job.sql --rate Temperature=500 --rate Humidity=50 --keys 2000 --selectivity alarm.Humidity=0.1
  muntin explain data/job.sql --checkpoint ckpt        with what the job has met so far
  muntin explain data/job.sql --html plan.html         as a picture

What is not given is taken from RATE in CREATE STREAM, or else assumed; the text says which."""
NAMED = 6
"""Names in a hint."""
MOST = 1e12
BOUNDS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "--rate": ("above 0", lambda rate: 0 < rate <= MOST),
    "--keys": ("from 1 on", lambda keys: 1 <= keys <= MOST),
    "--selectivity": ("above 0, at most 1", lambda fraction: 0 < fraction <= 1),
}
"""Which numbers an option takes, in words and as a test."""
Named = TypeVar("Named")


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="JOB.sql", help="the job file")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the plan as a picture, one file for a browser")
    given = parser.add_argument_group("what to predict from").add_argument
    given("--rate", action="append", default=[], metavar="STREAM=N", help="rows per second of a stream")
    given("--keys", metavar="N", help="different values of the join key, taken to be equally frequent")
    given(
        "--selectivity",
        action="append",
        default=[],
        metavar="QUERY[.STREAM]=F",
        help="fraction of the rows that a query selects, from above 0 to 1",
    )
    given(
        "--checkpoint",
        type=a_checkpoint,
        metavar="DIR",
        help="what a run has measured, instead of the above",
    )


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.jobfile import read_job
    from muntin.plan.explain import describe, in_words, to_json
    from muntin.spark.control import advice, joined_as_before
    from muntin.spark.ingest import with_sources
    from muntin.sql import order_joins

    spec = read_job(args.job)
    warn(advice(spec))
    if args.checkpoint is None:
        knowledge = given_knowledge(spec, args.rate, args.keys, args.selectivity)
        begun_with, pipelines = None, list[list[str]]()
        spec = order_joins(spec, knowledge)
    elif args.rate or args.keys or args.selectivity:
        raise UsageError(
            "--checkpoint goes without --rate, --keys and --selectivity",
            hint="a checkpoint knows what came; leave it out to ask what would be",
        )
    else:
        knowledge, begun_with, pipelines = measured(spec, args.checkpoint)
        spec = joined_as_before(spec, args.checkpoint)
    plan = with_sources(describe(spec, knowledge, begun_with, pipelines), spec)
    if args.html is not None:
        write_picture(args.html, args.job, plan)
    else:
        print(json.dumps(to_json(plan), indent=2) if args.json else in_words(plan))
    return 0


def write_picture(file: Path, job: Path, plan: PlanDescription) -> None:
    from muntin.page import plan_document
    from muntin.plan.explain import in_words, to_json

    document = plan_document([to_json(plan)], f"The shared plan of {job.name}", in_words(plan))
    try:
        file.write_text(document, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}", hint="name a file in a folder that is there"
        ) from None
    print(f"written: {file}")


# -- from a checkpoint -----------------------------------------------------------------------------------------------


def measured(spec: JobSpec, checkpoint: Location) -> tuple[Knowledge, str, list[list[str]]]:
    """What the checkpoint of this very job knows, the strategy it was begun with, what its streaming queries read."""
    from muntin.spark.checkpoint import JobIdentity, identity
    from muntin.spark.control import knowledge_of, streams_per_pipeline

    stored = identity.stored_job(checkpoint)
    if stored is None:
        raise UsageError(
            f"{checkpoint} is not the checkpoint of a job", hint="name the --checkpoint of a run, or leave it out"
        )
    begun_with = stored.settings.strategy
    strategy = begun_with if spec.settings.strategy == AUTO else spec.settings.strategy
    shards = spec.settings.fixed_shards or stored.settings.shards
    reads = [spec.streams[name] for name in stored.streams if name in spec.streams]
    wanted = JobIdentity.of(reads, strategy, spec.settings, shards, stored.output)
    identity.check_checkpoint(checkpoint, wanted)
    return knowledge_of(spec, checkpoint), begun_with, streams_per_pipeline(checkpoint)


# -- from arguments --------------------------------------------------------------------------------------------------


def given_knowledge(spec: JobSpec, rates: Sequence[str], keys: str | None, selectivities: Sequence[str]) -> Knowledge:
    """What the arguments say about the streams of a job."""
    from muntin.plan.traffic import Knowledge

    per_second = {}
    for given in rates:
        name, value = divided("--rate", given, "STREAM=N")
        per_second[stream_named(spec, "--rate", name)] = number("--rate", value)
    return Knowledge(
        rates=per_second,
        keys=None if keys is None else number("--keys", keys),
        selectivities=fractions(spec, selectivities),
    )


def fractions(spec: JobSpec, given: Iterable[str]) -> Selectivities:
    found: dict[str, list[float | None]] = {}
    for text in given:
        name, value = divided("--selectivity", text, "QUERY=F or QUERY.STREAM=F")
        query, sides = sides_meant(spec, name)
        both = found.setdefault(query.name, [None, None])
        for side in sides:
            both[side] = number("--selectivity", value)
    return {name: (left, right) for name, (left, right) in found.items()}


def sides_meant(spec: JobSpec, name: str) -> tuple[Query, list[int]]:
    """The query that `QUERY` or `QUERY.STREAM` names, and the sides whose selection is meant."""
    query, stream = find(spec.queries, name), None
    if query is None and "." in name:
        first, last = name.rsplit(".", 1)
        query, stream = find(spec.queries, first), stream_named(spec, "--selectivity", last)
    if query is None:
        raise UsageError(f"--selectivity: there is no query {name}", hint=known_names("queries", name, spec.queries))
    streams = (query.left, query.right)
    sides = [side for side in (0, 1) if query.where[side] is not None and stream in (None, streams[side])]
    if not sides:
        of = f" of {stream}" if stream else ""
        hint = "only where a query has a selection there is a selectivity"
        raise UsageError(f"--selectivity: {query.name} does not select among the rows{of}", hint=hint)
    if stream is None and len(sides) == 2:
        each = " or ".join(f"{query.name}.{name}=F" for name in dict.fromkeys(streams))
        raise UsageError(f"--selectivity: {query.name} selects on both streams", hint=f"write {each}")
    return query, sides


def stream_named(spec: JobSpec, option: str, name: str) -> str:
    stream = find(spec.streams, name)
    if stream is None:
        raise UsageError(f"{option}: there is no stream {name}", hint=known_names("streams", name, spec.streams))
    return stream.name


def find(known: Mapping[str, Named], name: str) -> Named | None:
    """By name, in any case."""
    return next((value for key, value in known.items() if key.lower() == name.lower()), None)


def known_names(what: str, name: str, known: Iterable[str]) -> str:
    from muntin.sql.places import did_you_mean

    names = list(known)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return did_you_mean(name, names, f"{what} are {', '.join(names[:NAMED]) or 'none'}{more}")


def divided(option: str, given: str, form: str) -> tuple[str, str]:
    name, _, value = given.rpartition("=")
    if not (name and value):
        raise UsageError(f"{option}: {given} is not {form}", hint=f"write {option} {form}")
    return name, value


def number(option: str, text: str) -> float:
    least, fits = BOUNDS[option]
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not fits(value):
        raise UsageError(f"{option} cannot be {text}", hint=f"write a number {least}")
    return value
