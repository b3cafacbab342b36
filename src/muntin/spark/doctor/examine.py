"""Looks at a checkpoint and its output, and finds the last whole micro-batch.

A micro-batch is whole where both halves of the checkpoint have it: our manifest with what it names, Spark's offsets,
commit, lists of files and state. One that Spark has begun and nobody committed may be half there: it is done again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from muntin.model import UsageError
from muntin.spark.checkpoint import identity, stored_job
from muntin.spark.doctor.checkpoint_files import OurHalf, check_identity
from muntin.spark.doctor.finding import RESTORE, ROLL_BACK, Finding, Level, PipelineFindings
from muntin.spark.doctor.output_files import check_output
from muntin.spark.run import SparkHalf, damage_of, successor_of
from muntin.spark.store import Location, spark_half, store_of

FOLDERS = ("", "csv:")
"""How outputs are spelled that are folders of files."""


@dataclass
class Examination:
    """All that was found."""

    checkpoint: Location
    output: Path | None
    pipelines: list[PipelineFindings] = field(default_factory=list)
    is_driven: bool = False

    @property
    def findings(self) -> list[Finding]:
        return [finding for pipeline in self.pipelines for finding in pipeline.findings]

    @property
    def is_whole(self) -> bool:
        return all(finding.level is not Level.BROKEN for finding in self.findings)

    @property
    def is_repairable(self) -> bool:
        """Whether nothing stays broken that a repair cannot mend."""
        return all(finding.is_repairable for finding in self.findings if finding.level is Level.BROKEN)


def examine(
    checkpoint: Location, output: Path | None = None, is_driven: bool = False, missing_is_lost: bool = False
) -> Examination:
    """Look at every durable file of a job; `output` is named where it is not where the checkpoint says. With
    `missing_is_lost` nobody takes files away from it."""
    numbers = identity.pipeline_numbers(checkpoint)
    pipelines = [PipelineFindings(number, identity.pipeline_folder(checkpoint, number)) for number in numbers]
    found = Examination(checkpoint, output, pipelines, is_driven)
    if not _is_ours(checkpoint):
        raise UsageError(f"{checkpoint} is not the checkpoint of a job", hint="name the --checkpoint of a run")
    ours = {p.number: half for p in pipelines if (half := _open(p)) is not None}
    found.output = output or _output_of(checkpoint) if 0 in ours else output
    if found.output is not None and 0 in ours:
        read = [(p, ours[p.number].manifests) for p in pipelines if p.number in ours]
        check_output(found.output, identity.checkpoint_id(checkpoint), read, missing_is_lost)
    for pipeline in pipelines:
        stored = stored_job(pipeline.folder) if pipeline.number in ours else None
        if stored is not None and not stored.is_over:
            moved = any(successor_of(other.folder) == pipeline.number for other in pipelines if other.number in ours)
            _judge(pipeline, ours[pipeline.number], found.output, moved)
    return found


def _is_ours(checkpoint: Location) -> bool:
    own = checkpoint / identity.FOLDER
    places = (own, own / "commits", own / "plans")
    return any(file.name != "lock" for place in places for file in store_of(place).files(place))


def _open(pipeline: PipelineFindings) -> OurHalf | None:
    """Our files of a pipeline; None where nobody knows whose they are."""
    job = check_identity(pipeline)
    if job is None:
        return None
    half = OurHalf(pipeline, job)
    half.read()
    half.check_leftovers()
    return half


def _output_of(checkpoint: Location) -> Path | None:
    """Where the rows of a job go, where that is a folder."""
    stored = stored_job(checkpoint)
    text = "" if stored is None else stored.output
    for scheme in reversed(FOLDERS):
        if text.startswith(scheme) and Path(place := text.removeprefix(scheme)).is_absolute():
            return Path(place)
    return None


# -- one pipeline -----------------------------------------------------------------------------------------------------


def _judge(pipeline: PipelineFindings, ours: OurHalf, output: Path | None, moved: bool) -> None:
    """Say what is wrong with a pipeline, and to which micro-batch it can go back; one that a rescale has begun cannot
    begin anew."""
    spark = SparkHalf(spark_half(pipeline.folder))
    planned, done = spark.numbers("offsets"), spark.numbers("commits")
    committed = [*ours.manifests, *ours.damaged]
    top = max([*committed, *done, -1])
    pipeline.last = max(ours.manifests, default=-1)
    pipeline.begun = max([top, *planned])
    _check_metadata(pipeline, spark)
    whole = _last_whole(pipeline, ours, spark, top)
    ours.check_messages(spark, max([n for n in done if n <= whole], default=-1))
    whole = min(whole, _last_whole(pipeline, ours, spark, top))
    commit = spark.folder / "commits" / str(top)
    runs_again = top >= 0 and (top not in done or any(f.removable == commit for f in pipeline.findings))
    _check_begun(pipeline, spark, planned, top, runs_again)
    if any(finding.undoes is not None for finding in pipeline.findings):
        _settle(pipeline, ours, -2 if moved and whole < 0 else whole, output)
    _check_older(pipeline, ours, whole)
    ours.check_plans(whole)
    for file, wrong in spark.other_damage():
        if spark.version_of(file) is None:
            pipeline.broken(file, wrong, "Spark does not know what the state looks like")
        else:
            pipeline.removable(file, wrong, "no micro-batch that is needed names it", Level.LEFT_OVER)
    pipeline.findings = list({(f.file, f.level): f for f in reversed(pipeline.findings)}.values())[::-1]


def _last_whole(pipeline: PipelineFindings, ours: OurHalf, spark: SparkHalf, top: int) -> int:
    """The last micro-batch that both halves have whole, -1 where none has to be, and -2 where none is kept. Each one
    after it is told with what is wrong with it.

    The very last one may lack Spark's commit: its process died between our manifest and that.
    """
    undone = min((f.undoes for f in pipeline.findings if f.undoes is not None), default=top + 1)
    oldest = min([*ours.manifests, *ours.damaged], default=0)
    for batch in range(top, -1, -1):
        if batch < oldest:
            return -2
        found = ours.damage_of(batch) or spark.damage_to_go_on(batch)
        if found is None and (end := spark.damage_of_end(batch)) is not None:
            if batch < top:
                found = end
            else:
                _run_again(pipeline, spark, batch, end)
        if found is not None:
            file, wrong = found
            pipeline.broken(file, wrong, f"micro-batch {batch} is not whole", ROLL_BACK, undoes=batch)
        elif batch < undone:
            return batch
    return -1


def _check_older(pipeline: PipelineFindings, ours: OurHalf, whole: int) -> None:
    """Manifests before the last whole micro-batch: nobody needs the oldest, so where one is damaged, it and all that
    are older may go."""
    kept = [*ours.manifests, *ours.damaged]
    lost = [n for n in range(min(kept, default=0), whole) if n not in ours.manifests]
    for batch in (n for n in kept if lost and n <= max(lost)):
        wrong = ours.damaged.get(batch, "it is older than one that is damaged or missing")
        pipeline.removable(ours.manifest_file(batch), wrong, "no run needs it any more")


def _run_again(pipeline: PipelineFindings, spark: SparkHalf, batch: int, end: tuple[Location, str]) -> None:
    """The last micro-batch may lack Spark's commit, or what that names: Spark runs it again, and its output stays."""
    commit, means = spark.folder / "commits" / str(batch), f"Spark runs micro-batch {batch} again; its output stays"
    if store_of(commit).exists(commit):
        file, wrong = end
        do = "`muntin doctor --repair` takes Spark's commit away, and so does a start where files are cut short"
        pipeline.findings.append(Finding(Level.BROKEN, str(file), wrong, means, do, removable=commit))


def _check_begun(pipeline: PipelineFindings, spark: SparkHalf, planned: list[int], top: int, runs_again: bool) -> None:
    """A micro-batch that Spark has begun and nobody has committed: torn, it is begun anew."""
    for batch in (number for number in planned if number > top):
        wrong = spark.damage_of_offset(batch)
        if runs_again:
            wrong = f"it was written after the commit of micro-batch {top}, which is not there"
        lost = spark.damage_of_lists(batch) if wrong is None else (spark.folder / "offsets" / str(batch), wrong)
        if lost is not None:
            pipeline.broken(lost[0], lost[1], "a micro-batch was begun, and is begun anew", ROLL_BACK, undoes=batch)
    for source in range(spark.sources):
        taken = max((spark.taken(n).get(source, -1) for n in planned), default=-1)
        for number, name in spark.lists(source).items():
            wrong = spark.damage("sources", str(source), name) if number > taken else None
            if wrong is not None:
                file = spark.folder / "sources" / str(source) / name
                pipeline.removable(file, wrong, "no micro-batch names it: its files are listed anew")


def _check_metadata(pipeline: PipelineFindings, spark: SparkHalf) -> None:
    file = spark.folder / "metadata"
    if spark.numbers("offsets") and (wrong := damage_of(file)) is not None:
        what = "Spark does not know its own query; any id will do"
        pipeline.findings.append(
            Finding(Level.BROKEN, str(file), wrong, what, "`muntin doctor --repair` writes it anew", removable=file)
        )


def _settle(pipeline: PipelineFindings, ours: OurHalf, whole: int, output: Path | None) -> None:
    """Say how far a pipeline goes back, or why it cannot."""
    gone = [ours.manifests[n] for n in ours.manifests if n > whole]
    stored = stored_job(pipeline.folder)
    sent = any(manifest.adopted for manifest in gone) or (output is None and any(m.rows for m in gone))
    why = None
    if whole < -1 or (whole == -1 and ours.manifests and min(ours.manifests) > 0):
        why = f"no micro-batch of the last {len(ours.manifests)} is whole: what was before is not kept"
    elif sent and stored is not None and stored.output != "none":
        why = f"rows of micro-batch {min(m.batch for m in gone)} have gone to {stored.output}, and cannot be taken back"
    if why is None:
        pipeline.back_to = whole
        return
    pipeline.findings = [
        Finding(f.level, f.file, f.what, f"{f.means}; {why}", RESTORE) if f.undoes is not None else f
        for f in pipeline.findings
    ]
