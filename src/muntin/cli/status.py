"""`muntin status`: how far a job is, read from its checkpoint by another process."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muntin.cli.checkpoint import a_checkpoint
from muntin.model import NO_CHAIN
from muntin.model.records import to_json

if TYPE_CHECKING:
    from muntin.spark.run import JobStatus, JoinStatus, KeyShare, QueryStatus, SliceStatus

SUMMARY = (
    "show the progress of a job: rows per query, state per slice, frontiers, dead letters, beside what was predicted"
)
EXAMPLE = "example: muntin status --checkpoint ckpt"
SKEWED = 0.2
"""Share of a stream's rows from which one key is reported."""
JOINS, SLICES = 8, 20
"""Joins, and slices of a state, are shown up to this many, then counted."""
RESPONSE = ("response", "median", "99%", "longest")
FUTURE_S = 3600.0
"""A stream that is further ahead of the clock has met a row that is not of today."""
PREDICTED = "predicted: on average, if the streams go on as they have been so far"


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=a_checkpoint, required=True, metavar="DIR", help="that of the job")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def execute(args: argparse.Namespace) -> int:
    from muntin.spark.run import status_now

    status = status_now(args.checkpoint)
    if args.json:
        print(json.dumps(to_json(status), indent=2))
    else:
        show(status)
    return 0


def show(status: JobStatus) -> None:
    from muntin.cli.screen import console, table

    out = console()
    for line in headlines(status):
        out.print(line, markup=False)
    out.print(table(*query_table(status)))
    joins = [without_prediction(join) for join in status.joins] if status.state == "ended" else status.joins
    for number, join in enumerate(joins[:JOINS], 1):
        header = ["stream", "frontier", "held", "slice", "rows kept", "predicted"]
        lines = list(slice_rows(join))
        if all(line[-1] is None for line in lines):
            header, lines = header[:-1], [line[:-1] for line in lines]
        out.print(table(header, lines, f"join {number}: {' and '.join(inputs(join))}"))
        for line in work(join):
            out.print(line, markup=False)
    if (more := len(joins) - JOINS) > 0:
        out.print(f"and {more:,} more joins, which --json lists", markup=False)
    if any(join.predicted_bytes is not None for join in joins):
        out.print(PREDICTED, markup=False)
    if status.dead_letters:
        out.print(table(["dead letters", "rows"], list(status.dead_letters.items())))
    else:
        out.print("no dead letters", markup=False)


def headlines(status: JobStatus) -> Iterator[str]:
    """What concerns the whole job."""
    yield f"{status.state} ({status.mode}), {since(status.updated)}"
    if status.error:
        yield status.error
    if status.strategy:
        chain = status.chain or NO_CHAIN
        yield f"strategy {status.strategy}" + (f", chain {chain}" if chain != NO_CHAIN else "")
    if status.never:
        yield planned_away(status.never)
    yield f"{status.rows_in:,} rows read, micro-batch {status.batch}"
    for name, source in status.sources.items():
        if source.seconds_ahead is not None:
            yield f"{name} is {source.seconds_ahead:,.0f} s of event time ahead: it is read one file at a time"
    for name, table in status.versions.items():
        yield f"table {name}: version {table.version} with {table.rows:,} rows since micro-batch {table.since_batch}"
        if table.warning is not None:
            yield f"WARNING: table {name} stays as it was: {table.warning}"
    yield from too_early(status)
    yield from files_gone(status)
    yield from dropped(status)
    yield from (f"query {name}: {query.past}" for name, query in status.queries.items() if query.past is not None)
    for number, pipeline in enumerate(status.pipelines, 1) if len(status.pipelines) > 1 else ():
        streams = ", ".join(name for name in pipeline.sources if not name.startswith("_"))
        queries = beside(pipeline.queries)
        yield f"streaming query {number} reads {streams}: micro-batch {pipeline.batch}, {queries}"


def too_early(status: JobStatus, known: Collection[str] = ()) -> Iterator[str]:
    """Streams that a row with a time far in the future has made useless, or will."""
    for name, frontier in ahead_of_clock(status).items():
        if name not in known:
            yield (
                f"warning: {name} has come to {frontier}, which is ahead of the clock: from now on rows before that "
                "are late. SET max_ahead = '1 hour' turns such rows away; begin with a new checkpoint"
            )


def files_gone(status: JobStatus, known: Collection[str] = ()) -> Iterator[str]:
    """Files that were gone when their micro-batch was over."""
    for name, source in status.sources.items():
        for file in source.vanished or ():
            if file not in known:
                yield f"warning: {file} of {name} is gone: if that was before it was read, its rows are missing"


def ahead_of_clock(status: JobStatus, now: float | None = None) -> dict[str, str]:
    """Streams that have come further than the clock by more than `FUTURE_S`, and how far. A frontier never goes back,
    so whatever comes with the right time is late from then on."""
    latest = datetime.fromtimestamp((time.time() if now is None else now) + FUTURE_S, UTC)
    return {
        name: frontier
        for join in status.joins
        for name, frontier in zip(join.streams, join.frontiers, strict=True)
        if frontier is not None and frontier != "ended" and _instant(frontier) > latest
    }


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # years that Python's calendar does not have
        return datetime.min.replace(tzinfo=UTC) if text.startswith("-") else datetime.max.replace(tzinfo=UTC)


def without_prediction(join: JoinStatus) -> JoinStatus:
    """A join that is over: its state is empty, whatever was to come."""
    slices = [[replace(piece, predicted_rows=None) for piece in side] for side in join.slices]
    nothing = replace(join.comparisons_per_second, measured=None, predicted=None)
    return replace(join, slices=slices, predicted_bytes=None, comparisons_per_second=nothing)


def dropped(status: JobStatus) -> Iterator[str]:
    """The rows that are no longer shown query by query."""
    if (gone := status.dropped).queries:
        yield f"beside these {gone.total_rows:,} rows of {gone.queries:,} queries that have been dropped"


def beside(names: list[str]) -> str:
    more = f" and {len(names) - JOINS:,} more" if len(names) > JOINS else ""
    return f"for {', '.join(names[:JOINS])}{more}"


def planned_away(names: list[str]) -> str:
    """The queries that can have no rows, in one line."""
    shown = ", ".join(names[:JOINS]) + (f" and {len(names) - JOINS:,} more" if len(names) > JOINS else "")
    return f"planned away, since no row can satisfy the selection: {shown}"


def order(join: JoinStatus) -> Iterator[str]:
    """What waits for which stream, which rule is in force, and what made Adaptive choose it."""
    ordering, chosen = join.ordering, ""
    if (why := ordering.decision) is not None:
        rates = " and ".join(f"{rate:,.1f}" for rate in why.rates)
        per_row = f"{1e6 * why.seconds_per_row:,.1f} us a row"
        chosen = f": load {why.load:.3g} of {rates} rows/s at {per_row}, alpha {why.alpha:g}"
    yield f"ordering {ordering.in_force}{chosen}"
    if join.hot_keys:
        yield f"hot keys, whose rows visit every shard: {'; '.join(join.hot_keys)}"
    if left := join.left_rows:
        yield f"{left:,} rows have work left for the next micro-batches, {join.held_pairs:,} results wait for that"
    if (waits := join.waits_for) is not None:
        held = f"{waits.held_rows:,} rows and {waits.held_pairs:,} results are held, {waits.held_bytes:,} bytes"
        silent = max(0, round(time.time() - waits.since))
        yield f"{held}, for {waits.stream}, which has not moved for {silent:,} s"
    idle = [name for name, is_idle in zip(join.streams, join.idle, strict=True) if is_idle]
    if idle:
        yield f"idle, so that nobody waits for it: {' and '.join(idle)}"
    if early := ordering.out_of_order:
        yield f"OUT OF ORDER: {early:,} results left before their time, since held_limit was reached"


def inputs(join: JoinStatus) -> list[str]:
    """What a join joins: streams, and what other joins have found."""
    if (tree := join.tree) is None:
        return join.streams
    told = zip(join.streams, tree.called, tree.found_by, strict=True)
    return [name if by is None else f"{called} of join {by}" for name, called, by in told]


def between(join: JoinStatus) -> Iterator[str]:
    """What a join of a tree keeps of the pairs that joins below have found, and what it keeps more than once."""
    if (tree := join.tree) is None:
        return
    for side, name in enumerate(join.streams):
        kept = sum(piece.rows for piece in join.slices[side])
        every = ", in every shard all of them" if tree.in_every_shard[side] else ""
        if tree.found_by[side] is not None:
            yield f"{name}: {kept:,} rows kept of {tree.called[side]}, which join {tree.found_by[side]} finds{every}"
        elif every:
            yield f"{name}: {kept:,} rows kept{every}"


def work(join: JoinStatus) -> Iterator[str]:
    """What a join holds and does, beside what was predicted, and keys that have too much of it."""
    yield from order(join)
    yield from between(join)
    bytes_ = join.predicted_bytes
    yield f"{join.bytes:,} bytes of state" + (f", {bytes_:,} predicted" if bytes_ is not None else "")
    now, then = join.comparisons_per_second.measured, join.comparisons_per_second.predicted
    if now is not None:
        beside = f", {then:,.0f} predicted" if then is not None else ""
        yield f"{now:,.0f} comparisons per second of stream in the last micro-batch{beside}"
    elif then is not None:
        yield f"{then:,.0f} comparisons per second of stream predicted"
    for stream, own in zip(join.streams, join.own_windows or [None, None], strict=True):
        if own is not None:
            mean = "" if own.mean_us is None else f", {own.mean_us / 1e6:,.6g} s on average"
            yield f"rows of {stream} wait until {' or '.join(own.until)}{mean}"
    for stream, top in zip(join.streams, join.fullest_keys, strict=True):
        if top is not None and top.share >= SKEWED:
            yield skew(stream, top)


def skew(stream: str, top: KeyShare) -> str:
    named = ", ".join(f"{name} = {value}" for name, value in top.key.items()) or "all rows"
    return f"skew: {named} has {top.rows:,} rows of {stream}, {top.share:.0%} of them, in one shard"


def since(updated: float) -> str:
    return f"updated {max(0, round(time.time() - updated)):,} s ago"


def query_table(status: JobStatus) -> tuple[list[str], list[list[str | int | None]]]:
    """Header and rows; how many had no match is shown where some query asks for it."""
    asked = any(query.unmatched is not None for query in status.queries.values())
    header = ["query", "rows", *(["without a match"] if asked else []), "of the last micro-batch", *RESPONSE]
    lonely = {name: [query.unmatched] if asked else [] for name, query in status.queries.items()}
    return header, [[name, q.total_rows, *lonely[name], q.rows, *response(q)] for name, q in status.queries.items()]


def response(query: QueryStatus) -> list[str]:
    """How long rows took from ingest to hand-over, in this run."""
    took = query.response
    times = [None] * len(RESPONSE) if took is None else [took.mean_s, took.p50_s, took.p99_s, took.max_s]
    return ["" if seconds is None else f"{seconds:,.3g} s" for seconds in times]


def slice_rows(join: JoinStatus) -> Iterator[list[str | int | None]]:
    """A line per slice; the stream's own figures stand on the first of them."""
    for side, stream in enumerate(join.streams):
        own: list[str | int | None] = [stream, join.frontiers[side] or "no rows yet", join.held_rows[side]]
        for piece, together in folded(join.slices[side]):
            yield [*own, ages(piece, together, join.axes[side]), piece.rows, piece.predicted_rows]
            own = ["", "", None]


def folded(slices: list[SliceStatus]) -> list[tuple[SliceStatus, int]]:
    """The slices of a state; where there are many, the older ones as one. With each, how many it stands for."""
    if len(slices) <= SLICES:
        return [(piece, 1) for piece in slices]
    young, old = slices[: SLICES - 1], slices[SLICES - 1 :]
    predicted = [piece.predicted_rows for piece in old if piece.predicted_rows is not None]
    rows, expected = sum(piece.rows for piece in old), sum(predicted) if predicted else None
    together = replace(old[0], hi=old[-1].hi, rows=rows, predicted_rows=expected)
    return [*((piece, 1) for piece in young), (together, len(old))]


def ages(piece: SliceStatus, together: int, axis: str) -> str:
    from muntin.model.duration import format_us

    shown = format_us if axis == "time" else "{:,} rows".format
    several = f" in {together:,} slices" if together > 1 else ""
    return f"[{shown(piece.lo)}, {shown(piece.hi)}){several}"
