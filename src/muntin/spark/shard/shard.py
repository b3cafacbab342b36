"""One shard of one shared join, from the frames of a micro-batch to frames for the sink.

The joins that read its output live in the same shard: their operators are advanced right after its own (engines.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from zlib import crc32

import pyarrow as pa

from muntin.core.arrivals import FRONTIER, IDLE, LIMIT, HeavyKey, to_report
from muntin.core.batch import Arrivals
from muntin.core.feeding import FedRows, arrive, feed, for_outputs, reported_by
from muntin.core.operator import Operator
from muntin.core.punctuations import REASON, spoken_by
from muntin.core.results import counted, unmatched
from muntin.core.schedule import WorkLimit
from muntin.core.step import Step
from muntin.core.storage import Payload, table_bytes
from muntin.model.records import from_json, to_json
from muntin.plan import Plan, SharedJoin
from muntin.plan.cost import Constants
from muntin.plan.punctuation import speakers
from muntin.spark.checkpoint import ShardChange, ShardReport
from muntin.spark.exchange import Frame, FrameKind, Topology, decode, encode, place_of
from muntin.spark.ingest import dead_letters
from muntin.spark.shard.arrivals import control_messages, read_arrivals, sorted_frames
from muntin.spark.shard.eager_sender import Attempt, EagerSender, deliver
from muntin.spark.shard.engines import Engine, Engines, ShardState
from muntin.spark.shard.report import describe_operator

Part = tuple[int, bytes]
"""The number of a sink task and a frame for it."""


def advance(topology: Topology, group: int, received: Sequence[bytes], state: ShardState) -> Iterator[Part]:
    """One micro-batch of one shard: dead letters pass through, rows go through the operators, their state is stored.

    A change of plan comes first: it is in force for all that the micro-batch brings. A join that reads another one
    comes right after it, with what that has found.
    """
    home, shard = place_of(group, topology.shards)
    frames = [decode(data, f"a frame for join {home}, shard {shard}") for data in received]
    for frame in sorted_frames(frames, FrameKind.DEAD_LETTERS):
        yield _dead_letters(topology, shard, frame.header["stream"], frame.table())
    if all(frame.kind == FrameKind.DEAD_LETTERS for frame in frames):
        return
    engines = Engines.open(topology, group, home, state)
    plans = [message for message in control_messages(frames, "plan") if message["epoch"] > engines.epoch]
    changes: dict[int, list[ShardChange]] = {}
    out: list[Part] = []
    with _open_sender(topology, engines, shard, [message["epoch"] for message in plans]) as sender:
        if plans and sender is not None:
            engines.complete(sender)
        for message in plans:
            for index, change in engines.change(message).items():
                changes.setdefault(index, []).append(change)
        if sender is not None and not engines.all:
            sender.done()
        fed: dict[str, FedRows] = {}
        for engine in engines.all.values():
            report = ShardReport(engine.index, shard, engines.epoch, changes.pop(engine.index, []))
            out += _advance(topology, engine, frames, fed, report, sender)
    for index, done in changes.items():
        out.append(_report(ShardReport(index, shard, engines.epoch, done, gone=True), {}, {}))
    if engines.all:
        engines.store()
    yield from out


def _advance(
    topology: Topology, engine: Engine, frames: list[Frame], fed: dict[str, FedRows], report: ShardReport,
    sender: EagerSender | None,
) -> Iterator[Part]:  # fmt: skip
    """One micro-batch of one operator. What joins above are to read of it is added to `fed`."""
    operator, began = engine.operator, time.process_time()
    join = operator.join
    _follow_messages(operator, join.index, frames)
    place = report.shard, topology.shards
    brought = arrive(join, read_arrivals(join, frames, topology.policy.max_ahead_us, place), fed)
    before = operator.release
    step = _join(operator, brought, sender)
    fed |= feed(operator, step, before)
    step = for_outputs(step, join)
    report.seconds = time.process_time() - began
    report.rebuilt = engine.rebuilt
    times, alone = (counted(step.found), unmatched(step.found)) if topology.counting else ({}, {})
    plan = topology.epoch(report.epoch).plan
    yield from _turned_away(topology, plan, join, report.shard, step)
    if not topology.counting:
        head = {"join": join.index, "shard": report.shard, "epoch": report.epoch}
        yield from _values(topology, head, step)
        yield from _results(topology, head, step)
        yield from _punctuations(plan, join.index, report.shard, step)
    operator.tidy()
    engine.step = step
    yield _report(describe_operator(report, operator), times, alone)


def _open_sender(
    topology: Topology, engines: Engines, shard: int, epochs: Sequence[int]
) -> AbstractContextManager[EagerSender | None]:
    """The way to the driver while a micro-batch is at work; none with batch delivery, or where there is no join."""
    before = [engines.epoch] if engines.all else []
    if topology.hub is None or not (before or epochs):
        return nullcontext()
    return EagerSender(topology.hub, task_attempt(engines.home, shard, [*before, *epochs]))


def _follow_messages(operator: Operator, index: int, frames: list[Frame]) -> None:
    """Do what the driver has told: which ordering to follow, which keys are hot, and how much work to do."""
    for message in control_messages(frames, "ordering"):
        if message["join"] == index:
            operator.follow(message["filter_order"])
    for message in control_messages(frames, "hot_keys"):
        if message["join"] == index:
            hot, cool = ([from_json(HeavyKey, key) for key in message[name]] for name in ("hot", "cool"))
            operator.heat(hot, cool)
    for message in control_messages(frames, "work"):
        constants = from_json(Constants, message["constants"])
        until = message["until"].get(str(index))
        operator.work_limit = WorkLimit(message["limit_ns"], until, message["scheduler"], constants)


def _join(operator: Operator, brought: Arrivals, sender: EagerSender | None) -> Step:
    """The work of a micro-batch; with eager delivery results leave on the way."""
    if sender is None:
        return operator.advance(brought)
    operator.receive(brought)
    sender.done(deliver(operator, operator.work(), sender))
    return operator.finish()


def task_attempt(join: int, shard: int, epochs: list[int]) -> Attempt:
    """Which attempt this task is, at which micro-batch; a later attempt has a larger number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    return Attempt(join=join, shard=shard, epochs=epochs, batch=int(batch or 0), attempt=context.taskAttemptId())


def _values(topology: Topology, head: Mapping[str, Any], step: Step) -> Iterator[Part]:
    """The values of groups, those of a query at one place where they are put together over all shards."""
    for values in step.values:
        if values.table.num_rows:
            part = crc32(values.query.encode()) % topology.shards if topology.global_order else head["shard"]
            yield _part(part, FrameKind.VALUES, {**head, **values.header}, values.payload)


def _results(topology: Topology, head: Mapping[str, Any], step: Step) -> Iterator[Part]:
    """The results in one piece, or one piece per time range where ranges are merged over all shards."""
    if not len(step.found):
        return
    if topology.global_order:
        pieces = dict(enumerate(step.found.split(topology.shards, step.span)))
    else:
        pieces = {head["shard"]: step.found.whole()}
    for part, piece in pieces.items():
        if len(piece):
            yield _part(part, FrameKind.RESULTS, head, piece.to_bytes())


def _dead_letters(topology: Topology, shard: int, stream: str, table: pa.Table) -> Part:
    """Dead letters, or where rows are only counted, their number for each class of error."""
    if topology.counting:
        return _part(shard, FrameKind.DEAD_LETTERS, {"stream": stream, "classes": dead_letters.by_class(table)})
    return _part(shard, FrameKind.DEAD_LETTERS, {"stream": stream}, table_bytes(table))


def _turned_away(topology: Topology, plan: Plan, join: SharedJoin, shard: int, step: Step) -> Iterator[Part]:
    """The dead letters of rows that are late or too far ahead, or broke a promise."""
    for side in reported_by(join, shard):
        rows, stream = to_report(plan, join, side, step.late[side]), join.streams[side]
        other = join.streams[side.other].name
        if rows.num_rows:
            table = dead_letters.late(stream, rows.drop_columns([FRONTIER, IDLE]), rows[FRONTIER], rows[IDLE], other)
            yield _dead_letters(topology, shard, stream.name, table)
        rows = step.ahead[side]
        if join.reports[side] and rows.num_rows:
            table = dead_letters.ahead(stream, rows.drop_columns([LIMIT]), rows[LIMIT], "the other rows")
            yield _dead_letters(topology, shard, stream.name, table)
    for side, rows in step.refused:
        if join.reports[side] and side in reported_by(join, shard):
            table = dead_letters.refused(join.streams[side], rows.drop_columns([REASON]), rows[REASON])
            yield _dead_letters(topology, shard, join.streams[side].name, table)


def _punctuations(plan: Plan, index: int, shard: int, step: Step) -> Iterator[Part]:
    """Punctuations of the queries' outputs."""
    if step.punctuations:
        for name, table in spoken_by(index, step.punctuations, speakers(plan)).items():
            yield _part(shard, FrameKind.PUNCTUATIONS, {"query": name, "join": index}, table_bytes(table))


def _report(report: ShardReport, times: Mapping[str, Mapping[int, int]], alone: Mapping[str, int]) -> Part:
    """The report, and rows that were only counted: by the moment at which they had arrived, and those of them that had
    no match."""
    arrivals = {name: list(moments.items()) for name, moments in times.items()}
    header = {"report": to_json(report), "arrivals": arrivals, "unmatched": dict(alone)}
    return _part(report.shard, FrameKind.REPORT, header)


def _part(part: int, kind: FrameKind, header: Mapping[str, Any], payload: Payload = b"") -> Part:
    return part, encode(kind, {**header, "part": part}, payload)
