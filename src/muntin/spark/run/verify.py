"""Before a start: whether a checkpoint is whole, and whether its output is of the same moment.

Each file that is read is checked where it is read (`durable.py`). Here is what one file cannot say of itself: that
another is missing, or that checkpoint and output were not written by the same run of things. It needs no Spark.

    manifests   one after the other, as far as they are kept; the last one and Spark's own log end with the same
                micro-batch, or Spark's is one behind: the process died between the two, and Spark runs it again
    plans       the first, and all from the oldest that a replay can need to the last that anything names
    sources     what Spark's last offsets say was read is in the lists of files that were read
    output      bears the mark of the last micro-batch that published; its files are those of the manifests
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from muntin.model import JobSpec, MuntinError
from muntin.spark.checkpoint import (
    WHAT_TO_DO,
    DamageError,
    FileKind,
    Fingerprint,
    Manifest,
    MissingError,
    PlanLog,
    identity,
    last_manifest,
    mark_file,
    published,
    read_manifests,
    write_json,
)
from muntin.spark.control import control_stream
from muntin.spark.run.spark_half import SparkHalf
from muntin.spark.store import Location, spark_half, store_of

RESTORE = WHAT_TO_DO[FileKind.MANIFEST]
PUBLISHED = re.compile(r"((?:[ap]\d{3}-)?b)(\d{10})(-\d{3})?\.[a-z]+")
"""The name of a published file: prefix, micro-batch and part; one without a part was written as rows came."""
COMPACTED = re.compile(r"((?:[ap]\d{3}-)?b)\d{10}-(\d{10})\.parquet")
"""The name of a file that `muntin compact` made: prefix and last micro-batch."""
TAKE_BACK = (
    "restore the output of the same moment too; or move it away, and what follows goes to an empty folder; or give "
    "`truncate_output=True`, which removes from it what is newer than the checkpoint"
)
DOCTOR = f"`muntin doctor --repair` goes back to the last whole micro-batch; or {RESTORE}"
SHOWN = 3
"""So many files are named in one line, the others are counted."""


# -- the checkpoint ---------------------------------------------------------------------------------------------------


def verify_checkpoint(checkpoint: Location) -> None:
    """Refuse a checkpoint of which something is missing or damaged; one that is new, or just begun, is whole."""
    for number in identity.pipeline_numbers(checkpoint):
        _verify_pipeline(identity.pipeline_folder(checkpoint, number))


def _verify_pipeline(folder: Location) -> None:
    stored, kept = identity.stored_job(folder), list(read_manifests(folder))
    log = PlanLog(folder, JobSpec())
    if stored is None:
        if kept or log.numbers():
            raise MissingError(f"{folder / identity.FOLDER / 'job.json'} is missing", hint=RESTORE)
        return
    if stored.is_over:
        return
    _verify_manifests(folder, kept)
    _verify_plans(folder, kept, log)
    _verify_spark(folder)


def _verify_manifests(folder: Location, kept: list[Manifest]) -> None:
    place = folder / identity.FOLDER / "commits"
    batches = [manifest.batch for manifest in kept]
    for batch in range(min(batches, default=0), max(batches, default=-1)):
        if batch not in batches:
            raise MissingError(f"{place / f'{batch:010d}.json'} is missing", hint=RESTORE)
    half = spark_half(folder)
    last, planned, done = max(batches, default=-1), last_number(half / "offsets"), last_number(half / "commits")
    if last < done:
        missing = place / f"{done:010d}.json"
        raise MissingError(f"{missing} is missing: Spark has committed micro-batch {done}", hint=RESTORE)
    if last > planned:
        raise MissingError(f"{half / 'offsets' / str(last)} is missing: micro-batch {last} was published", hint=RESTORE)
    if last > done + 1 or planned > done + 1:
        missing = half / "commits" / str(max(last, planned) - 1)
        raise MissingError(f"{missing} is missing: micro-batch {max(last, planned)} was begun after it", hint=RESTORE)


def _verify_plans(folder: Location, kept: list[Manifest], log: PlanLog) -> None:
    """All plans are read: one that is damaged and needed later would stop the job in the middle."""
    place, found = log.folder, log.numbers()
    sent = control_stream.sent_epochs(folder)
    if not kept and not found:
        return
    first = max(1, kept[-1].epoch - 1) if kept else 1
    last = max([*found, *sent, *(manifest.epoch for manifest in kept[:1])])
    for number in (0, *range(first, last + 1)):
        if number not in found:
            raise MissingError(f"{place / f'{number:010d}.json'} is missing", hint=WHAT_TO_DO[FileKind.PLAN])
    for number in found:
        log.check(number)


def _verify_spark(folder: Location) -> None:
    """Spark's own logs, before Spark reads them: what it says of a damaged one helps nobody. It lists the files that
    it has read, too, and reads those again that are in no list."""
    half = spark_half(folder)
    spark = SparkHalf(half)
    for log, read, look in (("offsets", 2, spark.damage_of_offset), ("commits", 1, spark.damage_of_commit)):
        for number in spark.numbers(log)[-read:]:  # so many of the last ones Spark reads
            if (wrong := look(number)) is not None:
                raise DamageError(f"{half / log / str(number)} is damaged: {wrong}", hint=DOCTOR)
    number = last_number(half / "commits")
    if number < 0:
        return
    if (wrong := spark.damage_of_offset(number)) is not None:
        file = half / "offsets" / str(number)
        raise MissingError(f"{file}: {wrong}; Spark has committed micro-batch {number}", hint=DOCTOR)
    if (lost := spark.damage_of_lists(number)) is not None:
        file, wrong = lost
        if wrong == "it is missing":
            raise MissingError(f"{file} is missing: it lists files that were read", hint=DOCTOR)
        raise DamageError(f"{file} is damaged: {wrong}; it lists files that were read", hint=DOCTOR)


def last_number(folder: Location) -> int:
    """The last entry of one of Spark's logs, -1 where there is none."""
    return max((int(file.name) for file in store_of(folder).files(folder) if file.name.isdigit()), default=-1)


# -- the output -------------------------------------------------------------------------------------------------------


def verify_output(checkpoint: Location, output: Path) -> list[str]:
    """Refuse an output that is newer or older than its checkpoint, or has a damaged file. What is only missing is
    a warning, one line each: readers may take files away."""
    if not output.is_dir():
        return []
    prefixes, warnings = prefixes_of(checkpoint), list[str]()
    for prefix in sorted(_marked(output) - set(prefixes)):
        newest = published(output, prefix, None)
        raise newer_output(output, checkpoint, prefix, -1, max(newest, newest_file(output, prefix)))
    for prefix, folder in prefixes.items():
        kept = list(read_manifests(folder))
        last = kept[0] if kept else Manifest(-1)
        warnings += _verify_moment(output, checkpoint, prefix, folder, last)
        warnings += _verify_files(output, kept)
    return warnings


def _verify_moment(output: Path, checkpoint: Location, prefix: str, folder: Location, last: Manifest) -> list[str]:
    marked = mark_file(output, prefix).exists()
    mark = published(output, prefix, identity.id_if_claimed(folder)) if marked else newest_file(output, prefix, last)
    if mark > last.batch:
        raise newer_output(output, checkpoint, prefix, last.batch, mark)
    if not marked and last.published >= 0:
        gone = f"{mark_file(output, prefix)} is missing"
        return [f"{gone}: rows up to micro-batch {last.published} were published here and may have been moved away"]
    under_way = last.published == last.batch and mark == last.published_before and is_staged(output, last)
    if mark < last.published and not under_way:
        raise MuntinError(
            f"{output} ends with micro-batch {mark}, but the checkpoint {checkpoint} says that micro-batch "
            f"{last.published} was published there: the output is older than its checkpoint",
            hint="restore checkpoint and output from one back-up, or move the output away: what follows goes to an "
            "empty folder",
        )
    return []


def is_staged(output: Path, last: Manifest) -> bool:
    """Whether files wait to be renamed: the process died after the manifest, and the next start completes it. Files
    that have their names already were written before it."""
    staged = [(source, target) for source, target in last.renames if not (output / target).exists()]
    return all((output / source).exists() for source, _ in staged)


def _verify_files(output: Path, kept: list[Manifest]) -> list[str]:
    lost: list[str] = []
    for manifest in kept:
        sources = {target: source for source, target in manifest.renames}
        for name, stored in manifest.files.items():
            file = next((f for f in (output / name, output / sources.get(name, name)) if f.exists()), None)
            if file is None:
                lost.append(name)
            elif Fingerprint.of(file) != stored:
                what = "it is cut short" if file.stat().st_size < stored.size else "it is not what was written there"
                raise DamageError(
                    f"{file} is damaged: {what} in micro-batch {manifest.batch}",
                    hint="restore it from a back-up; or remove it, if its rows may be missing",
                )
    return missing_files(output, lost)


def missing_files(output: Location, lost: list[str]) -> list[str]:
    """A warning about files that were published and are gone."""
    if not lost:
        return []
    more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    return [f"published, and not in {output} any more: {', '.join(sorted(lost)[:SHOWN])}{more}"]


def newer_output(output: Location, checkpoint: Location, prefix: str, last: int, newest: int) -> MuntinError:
    of = f"its last micro-batch is {last}" if last >= 0 else "it has committed no micro-batch"
    where = "" if prefix == "b" else f" (files {prefix}*)"
    return MuntinError(
        f"the checkpoint {checkpoint} is older than its output: {of}, but {output} has rows of micro-batch "
        f"{newest}{where}, which would come twice",
        hint=TAKE_BACK,
    )


def truncate_output(checkpoint: Location, output: Path) -> list[str]:
    """Remove from an output what is newer than its checkpoint; the files that went, relative to the output."""
    if not output.is_dir():
        return []
    prefixes, removed = prefixes_of(checkpoint), list[str]()
    lasts = {prefix: last_manifest(folder) for prefix, folder in prefixes.items()}
    for file in output.glob("*/*b*.parquet"):
        found = COMPACTED.fullmatch(file.name)
        if found is not None and int(found[2]) > (lasts[found[1]].batch if found[1] in lasts else -1):
            raise MuntinError(
                f"{file} was merged of micro-batches that the checkpoint has and of others that it has not",
                hint="restore the output of the same moment too, or move it away",
            )
    for file, prefix, batch in _published_files(output):
        if batch > (lasts[prefix].batch if prefix in lasts else -1):
            file.unlink()
            removed.append(str(file.relative_to(output)))
    for prefix in _marked(output) - set(prefixes):
        mark_file(output, prefix).unlink()
    for prefix, last in lasts.items():
        job = identity.id_if_claimed(prefixes[prefix])
        if mark_file(output, prefix).exists() and published(output, prefix, job) > last.batch:
            write_json(mark_file(output, prefix), FileKind.PUBLISHED, last.published, job)
    return sorted(removed)


def prefixes_of(checkpoint: Location) -> dict[str, Location]:
    """How the files of each pipeline begin, and the folder of the pipeline."""
    numbers = identity.pipeline_numbers(checkpoint)
    return {f"{identity.pipeline_prefix(checkpoint, n)}b": identity.pipeline_folder(checkpoint, n) for n in numbers}


def _marked(output: Path) -> set[str]:
    """The prefixes of files that an output has a mark of."""
    return {file.stem.removeprefix("_muntin-") for file in output.glob("_muntin-*.json")}


def newest_file(output: Path, prefix: str, last: Manifest | None = None) -> int:
    """The last micro-batch of which there is a file. What the next one wrote as rows came counts not."""
    following = -1 if last is None else last.batch + 1
    return max(
        (
            batch
            for file, begins, batch in _published_files(output)
            if begins == prefix and not (batch == following and file.stem == f"{prefix}{batch:010d}")
        ),
        default=-1,
    )


def _published_files(output: Path) -> Iterator[tuple[Path, str, int]]:
    """All files that micro-batches have published, with prefix and number."""
    for pattern in ("*/*b*", "*/_punctuations/*b*", "_slices/*/*/*b*"):
        for file in output.glob(pattern):
            if (found := PUBLISHED.fullmatch(file.name)) is not None:
                yield file, found[1], int(found[2])
