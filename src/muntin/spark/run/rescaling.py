"""Another number of shards for a stopped job: `muntin rescale`.

Each pipeline of the job is followed by a new one, in a folder of its own, that goes on where the old one ended:

    state      split by key and put together in the first micro-batch of the new pipeline (spark/shard/seeding.py)
    offsets    of that micro-batch are those that the old pipeline had come to, so no row is read twice
    plans      the one in force, and those that wait
    manifest   the totals so far

A folder that is being made bears a mark, and has no `job.json`: no start takes it for a pipeline. One file then says
that all are whole, and what is left to do can be done by whoever finds it. Without that file, folders with a mark are
swept away. They are made in their places, since Spark notes where its state is. The old state stays until the new
pipeline has committed a micro-batch of its own.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.core.batch import Counters
from muntin.core.operator_state import OperatorMeta
from muntin.core.resharding import OldJoin, movable_rows, refuse_unfit
from muntin.model import JobSpec, MuntinError, UsageError
from muntin.spark.checkpoint import (
    FileKind,
    JobIdentity,
    Lock,
    Manifest,
    PlanLog,
    PowerSync,
    ShardReport,
    StoredJoin,
    copy_plans,
    identity,
    last_manifest,
    read_record,
    read_take_over,
    write_manifest,
    write_record,
)
from muntin.spark.control import control_stream
from muntin.spark.exchange import place_of
from muntin.spark.run import spark_checkpoint
from muntin.spark.run.ended import refuse_ended
from muntin.spark.run.failure import explain_failure
from muntin.spark.run.status import JobStatus, status_file
from muntin.spark.run.verify import last_number, verify_checkpoint
from muntin.spark.session import default_shards, java_process, prepare_session, weigh_frames
from muntin.spark.shard import ShardMeta, seed_frames
from muntin.spark.store import Location, crash_points

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTENT, MOVED, MAKING = "rescale.json", "moved.json", "making"
MOST_SHARDS = 1024


@dataclass(frozen=True)
class Moves:
    """`muntin/rescale.json`: by which new pipeline each old one is followed, the ids of these, and with how many
    shards."""

    shards: int
    pipelines: dict[str, int]
    ids: dict[str, str]


@dataclass(frozen=True)
class Moved:
    """`muntin/moved.json` of an old pipeline: which one goes on."""

    to: int


@dataclass(frozen=True)
class Rescaled:
    """What was done."""

    before: int
    after: int
    rows: int


def rescale(spark: SparkSession, checkpoint: Location, shards: int) -> Rescaled:
    """Give a stopped job another number of shards; its answers and their order stay as they are."""
    if not isinstance(checkpoint, Path):
        raise UsageError(f"{checkpoint} is in an object store", hint="only a checkpoint in a folder can be rescaled")
    if not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"{shards} shards", hint=f"give a number from 1 to {MOST_SHARDS}")
    checkpoint = checkpoint.absolute()
    if identity.stored_job(checkpoint) is None:
        raise UsageError(f"{checkpoint} is not the checkpoint of a job", hint="name the --checkpoint of a run")
    prepare_session(spark)
    weigh_frames(spark)
    lock = Lock(checkpoint, java_process(spark))
    try:
        _finish(checkpoint)
        return _rescale(spark, checkpoint, shards)
    finally:
        lock.release()


def follow_cores(spark: SparkSession, checkpoint: Location) -> list[str]:
    """Give a job that begins again as many shards as there are cores now, where that can be; what was done, or why
    not, in a line."""
    stored, cores = identity.stored_job(checkpoint), default_shards(spark)
    if stored is None or stored.settings.shards == cores:
        return []
    try:
        done = rescale(spark, checkpoint, cores)
    except UsageError as error:
        return [f"the job goes on with {stored.settings.shards} shards, not with {cores}: {error.message}"]
    return [f"shards: were {done.before}, are {done.after}, one for each core; {done.rows:,} rows were moved"]


def _rescale(spark: SparkSession, checkpoint: Path, shards: int) -> Rescaled:
    stored = identity.stored_job(checkpoint)
    assert stored is not None
    before = stored.settings.shards
    if before == shards:
        return Rescaled(before, shards, 0)
    verify_checkpoint(checkpoint)
    refuse_ended(checkpoint, "endless")
    live = [number for number, job in _jobs(checkpoint) if not job.is_over]
    for number in live:
        _refuse_unfinished(identity.pipeline_folder(checkpoint, number))
        _refuse_trees(identity.pipeline_folder(checkpoint, number))
        _refuse_on_the_way(identity.pipeline_folder(checkpoint, number))
    first = max(identity.pipeline_numbers(checkpoint)) + 1
    pipelines = {str(number): first + n for n, number in enumerate(live)}
    moves = Moves(shards, pipelines, {str(number): uuid.uuid4().hex for number in pipelines.values()})
    rows = 0
    for old, target in moves.pipelines.items():
        folder = identity.pipeline_folder(checkpoint, int(old))
        try:
            new = identity.pipeline_folder(checkpoint, target)
            rows += _Move(spark, folder, new, moves.ids[str(target)], before, shards).run()
        except Exception as error:
            raise error if isinstance(error, MuntinError) else explain_failure(error) from error
    for target in moves.pipelines.values():
        PowerSync(identity.pipeline_folder(checkpoint, target)).before_commit([])
    write_record(_intent(checkpoint), FileKind.RESCALE, moves, identity.checkpoint_id(checkpoint))
    _finish(checkpoint)
    return Rescaled(before, shards, rows)


def _jobs(checkpoint: Path) -> Iterator[tuple[int, JobIdentity]]:
    for number in identity.pipeline_numbers(checkpoint):
        stored = identity.stored_job(identity.pipeline_folder(checkpoint, number))
        if stored is not None:
            yield number, stored


def _refuse_unfinished(folder: Path) -> None:
    """Refuse a pipeline whose last micro-batch is in the output and not in the state."""
    published, done = last_manifest(folder).batch, last_number(folder / "commits")
    if done < 0:
        raise UsageError(
            f"{folder} has committed no micro-batch: there is nothing to move",
            hint="start the job with another --checkpoint and --output, and SET shards",
        )
    if published > done:
        raise UsageError(
            f"micro-batch {published} of {folder} is in the output, and Spark has not noted it",
            hint="run the job once with --available-now, and rescale it then",
        )


def _refuse_trees(folder: Path) -> None:
    """Refuse a pipeline with rows that lie by a key which is not their own in the join that keeps them: a join by the
    first key reads what was found by another one."""
    plan = PlanLog(folder, JobSpec()).stored(last_manifest(folder).epoch)
    spread = {join.index for join in plan.joins if any(join.everywhere) and not all(join.everywhere)}
    for join in plan.joins:
        if spread.intersection(join.reads) and not any(join.everywhere):
            raise UsageError(
                f"query {join.queries[-1]} joins by the key of its first join what a join by another key has found, "
                "and such a job keeps its shards",
                hint="start it anew with another --checkpoint and --output, and SET shards",
            )


def _refuse_on_the_way(folder: Path) -> None:
    """Refuse a pipeline whose queries another one is about to take over: both must go on as they are."""
    record = read_take_over(folder)
    if record is not None and record.stays is None:
        raise UsageError(
            f"query {record.queries[0]} is still on its way from the past into the shared join",
            hint="run the job until `muntin status` does not say so any more, and rescale it then",
        )


def _intent(checkpoint: Path) -> Path:
    return checkpoint / identity.FOLDER / INTENT


# -- the commit -------------------------------------------------------------------------------------------------------


def finish_rescale(checkpoint: Location) -> None:
    """Do what is left of a rescale whose process died, or sweep away what it had made."""
    if isinstance(checkpoint, Path) and (_intent(checkpoint).exists() or _being_made(checkpoint)):
        lock = Lock(checkpoint)
        try:
            _finish(checkpoint)
        finally:
            lock.release()


def _finish(checkpoint: Path) -> None:
    """Let the new pipelines be there, and end the old ones: each step may be done twice."""
    file = _intent(checkpoint)
    if not file.exists():
        for left in _being_made(checkpoint):
            shutil.rmtree(left)
        return
    moves = read_record(file, FileKind.RESCALE, Moves, identity.checkpoint_id(checkpoint))
    for old, target in moves.pipelines.items():
        folder, new = (identity.pipeline_folder(checkpoint, number) for number in (int(old), target))
        stored = identity.stored_job(folder)
        assert stored is not None
        if not stored.is_over:
            settings = replace(stored.settings, shards=moves.shards)
            identity.begin(new, replace(stored, settings=settings), moves.ids[str(target)])
        (new / identity.FOLDER / MAKING).unlink(missing_ok=True)
        write_record(folder / identity.FOLDER / MOVED, FileKind.MOVED, Moved(target), identity.checkpoint_id(folder))
        identity.retire(folder)
    for number in (0, *map(int, moves.pipelines)):
        folder = identity.pipeline_folder(checkpoint, number)
        stored = identity.stored_job(folder)
        assert stored is not None
        identity.note_start(folder, replace(stored, settings=replace(stored.settings, shards=moves.shards)))
    _renumber_status(checkpoint, moves)
    with crash_points.durable("rescale over"):
        file.unlink()


def _being_made(checkpoint: Path) -> list[Path]:
    """Folders that a rescale makes, or has left."""
    return [mark.parent.parent for mark in (checkpoint / identity.PIPELINES).glob(f"*/{identity.FOLDER}/{MAKING}")]


def _renumber_status(checkpoint: Path, moves: Moves) -> None:
    """The totals of rows read are those of the pipelines that go on; the report may be missing."""
    try:
        status = read_record(status_file(checkpoint), FileKind.STATUS, JobStatus)
    except MuntinError:
        return
    renumbered = [replace(p, pipeline=moves.pipelines.get(str(p.pipeline), p.pipeline)) for p in status.pipelines]
    write_record(status_file(checkpoint), FileKind.STATUS, replace(status, pipelines=renumbered))


def successor_of(folder: Location) -> int | None:
    """The pipeline that goes on for one that was rescaled; None for another."""
    file = folder / identity.FOLDER / MOVED
    if not isinstance(file, Path) or not file.exists():
        return None
    return read_record(file, FileKind.MOVED, Moved, identity.checkpoint_id(folder)).to


# -- one pipeline -----------------------------------------------------------------------------------------------------


class _Move:
    """One pipeline, made anew in another folder with another number of shards."""

    def __init__(self, spark: SparkSession, old: Path, new: Path, new_id: str, before: int, after: int):
        self._spark, self._old, self._new, self._id = spark, old, new, new_id
        self._before, self._after = before, after

    def run(self) -> int:
        """Make the new pipeline; the rows that were moved."""
        manifest, own = last_manifest(self._old), self._new / identity.FOLDER
        own.mkdir(parents=True)
        (own / MAKING).touch()
        plan = copy_plans(self._old, self._new, manifest.epoch, self._id)
        metas = self._metas(manifest.epoch, {index: join.home for index, (join, _) in plan.items()})
        joins = {n: self._old_join(*plan[n], of) for n, of in metas.items()}
        wanted = sum(movable_rows(joins[n], of, self._after) for n, of in metas.items())
        rows = spark_checkpoint.seed(self._spark, self._old, self._new, joins, self._seeds, (self._before, self._after))
        if rows != wanted:
            raise MuntinError(
                f"{rows:,} rows are in the new shards, and {wanted:,} were in the old ones: nothing is done"
            )
        control_stream.make_folder(self._new)
        spark_checkpoint.carry_offsets(self._old, self._new)
        write_manifest(self._new, self._manifest(manifest), self._id)
        return rows

    def _old_join(self, join: StoredJoin, keyed: bool, metas: dict[int, OperatorMeta]) -> OldJoin:
        return OldJoin(keyed, next(iter(metas.values())).progress.release, join.everywhere)

    def _metas(self, epoch: int, homes: dict[int, int]) -> dict[int, dict[int, OperatorMeta]]:
        """The small state of each shard of each join that is there."""
        found: dict[int, dict[int, OperatorMeta]] = {}
        for gid, data in spark_checkpoint.small_states(self._spark, self._old):
            index, shard = place_of(gid, self._before)
            meta = ShardMeta.read(data, f"the state of join {index}, shard {shard}")
            here = {n: of for n, of in meta.joins(index).items() if n in homes}
            if here and meta.epoch != epoch:
                raise MuntinError(f"join {index}, shard {shard} follows another plan than the last commit says")
            for n, of in here.items():
                found.setdefault(n, {})[shard] = of
        found = {index: dict(sorted(shards.items())) for index, shards in found.items()}
        for shards in found.values():
            refuse_unfit(shards.values())
        self._seeds: list[tuple[int, bytes]] = []
        for home in sorted({homes[index] for index in found}):
            mine = {index: shards for index, shards in found.items() if homes[index] == home}
            self._seeds += seed_frames(home, mine, self._after)
        return found

    def _manifest(self, last: Manifest) -> Manifest:
        """The first commit of the new pipeline: it has published nothing, and goes on with the totals."""
        reports: dict[str, ShardReport] = {}
        for index in sorted({report.join for report in last.reports.values()}):
            mine = [report for report in last.reports.values() if report.join == index]
            for shard in range(self._after):
                report = _first_report(mine, shard)
                reports[report.name] = report
        return Manifest(
            batch=0,
            total_rows=last.total_rows,
            total_dead_letters=last.total_dead_letters,
            total_unmatched=last.total_unmatched,
            reports=reports,
        )


def _first_report(reports: list[ShardReport], shard: int) -> ShardReport:
    """What a new shard says before its first micro-batch. The first one has all that was counted, since nobody has
    counted it by new shards."""
    like = reports[0]
    place = ShardReport(like.join, shard, 0, streams=like.streams, max_ts=like.max_ts, frontiers=like.frontiers)
    place = replace(
        place,
        own_frontiers=like.own_frontiers,
        release=like.release,
        filter_order=like.filter_order,
        idle=like.idle,
        behind=like.behind,
        span=like.span,
    )
    if shard:
        return replace(place, slices=[[0] * len(of) for of in like.slices])
    slices = [[sum(of) for of in zip(*(report.slices[side] for report in reports), strict=True)] for side in (0, 1)]
    return replace(
        place,
        slices=slices,
        counters=Counters.total(report.counters for report in reports),
        bytes=sum(report.bytes for report in reports),
        matches=sum(report.matches for report in reports),
        classes=like.classes,
        lags=like.lags,
    )
