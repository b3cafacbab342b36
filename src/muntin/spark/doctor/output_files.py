"""Whether an output is whole, and of the same moment as its checkpoint: every row that a manifest counts, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.model import MuntinError
from muntin.spark.checkpoint import FileKind, Fingerprint, Manifest, identity, mark_file, published, read_json
from muntin.spark.doctor.finding import ROLL_BACK, Finding, Level, PipelineFindings, is_aside
from muntin.spark.run import verify
from muntin.spark.sink import SCHEMA_FILE, columns_ever

TIME = "_ts"
LOST = "nothing if it was a reader; else `muntin doctor --repair --missing-is-lost` goes back and makes it again"
Committed = list[tuple[PipelineFindings, dict[int, Manifest]]]
"""What was found in each pipeline so far, and its manifests."""
REWRITE = "remove it if the folder is this job's: the next start writes it anew; `muntin doctor --repair` does"


def check_output(output: Path, checkpoint_id: str, pipelines: Committed, missing_is_lost: bool) -> None:
    """Look at all files of an output; what belongs to a micro-batch is told to its pipeline, the rest to the first."""
    first = pipelines[0][0]
    if not output.is_dir():
        first.note(output, "it is not there", "rows that were published have been moved away")
        return
    _check_owner(output, checkpoint_id, first)
    for pipeline, manifests in pipelines:
        prefix = f"{identity.pipeline_prefix(first.folder, pipeline.number)}b"
        _check_mark(output, prefix, pipeline, manifests)
        for batch, manifest in sorted(manifests.items()):
            _check_batch(output, pipeline, batch, manifest, missing_is_lost)
    for file in sorted(output.glob("*/*b*.parquet")):
        if (wrong := unreadable(file)) is not None and not _is_reported(pipelines, file):
            first.broken(file, wrong, "its rows cannot be read", "restore it; or remove it, if its rows may be missing")
    for folder in sorted(path for path in output.iterdir() if path.is_dir() and path.name[0] not in "_."):
        _check_schema(folder, first)
        _check_order(folder, first)
    for file in (*output.glob(".*"), *output.glob("*/.*")):
        if file.is_file() and is_aside(file):
            first.removable(file, "it was being written when a process died", "nobody reads it", Level.LEFT_OVER)
    for staged in sorted((output / "_staging").glob("*")):
        first.note(staged, "files that were staged", "the next start gives them their names, or sweeps them")


def _is_reported(pipelines: Committed, file: Path) -> bool:
    return any(found.file == str(file) for pipeline, _ in pipelines for found in pipeline.findings)


def _check_owner(output: Path, checkpoint_id: str, first: PipelineFindings) -> None:
    owner = output / identity.OWNER
    try:
        identity.check_output(output, checkpoint_id)
        if owner.exists():
            read_json(owner, FileKind.OWNER)
    except MuntinError as error:
        if "another checkpoint" in error.message:
            first.broken(owner, error.message, "two jobs would mix their files", "name the output of this job")
        else:
            first.findings.append(
                Finding(Level.BROKEN, str(owner), error.message, "whose output it is", REWRITE, removable=owner)
            )


def _check_mark(output: Path, prefix: str, pipeline: PipelineFindings, manifests: dict[int, Manifest]) -> None:
    """The mark of the last micro-batch that published; without it the names of files say it."""
    file, last = mark_file(output, prefix), manifests[max(manifests)] if manifests else Manifest(-1)
    try:
        marked = published(output, prefix, identity.id_if_claimed(pipeline.folder))
    except MuntinError as error:
        pipeline.findings.append(
            Finding(Level.BROKEN, str(file), error.message, "how far the output goes", REWRITE, removable=file)
        )
        return
    newest = max(marked, verify.newest_file(output, prefix, last))
    if newest > last.batch:
        told = verify.newer_output(output, pipeline.folder, prefix, last.batch, newest)
        pipeline.broken(output, told.message, "rows would come twice", told.hint or ROLL_BACK)
    elif file.exists() and marked < last.published and not verify.is_staged(output, last):
        what = f"it ends with micro-batch {marked}, the checkpoint published {last.published} there"
        pipeline.broken(file, what, "rows are missing", ROLL_BACK, undoes=marked + 1)
    elif not file.exists() and last.published >= 0:
        pipeline.note(file, "it is missing", "rows may have been moved away; the next start writes it anew")


def _check_batch(
    output: Path, pipeline: PipelineFindings, batch: int, manifest: Manifest, missing_is_lost: bool
) -> None:
    """The files of one micro-batch: each as it was written, with the rows that the manifest counts."""
    sources = {target: source for source, target in manifest.renames}
    counted: dict[str, int] = {}
    for name, stored in manifest.files.items():
        file = next((f for f in (output / name, output / sources.get(name, name)) if f.exists()), None)
        if file is None:
            what = "it was published and is not there"
            if missing_is_lost:
                pipeline.broken(output / name, what, f"rows of micro-batch {batch} are lost", ROLL_BACK, undoes=batch)
            else:
                pipeline.note(output / name, what, "a reader has taken it away, or it is lost", LOST)
            counted[Path(name).parts[0]] = -1
            continue
        wrong = None if Fingerprint.of(file) == stored else "it is not what was written"
        wrong = wrong or (unreadable(file) if file.suffix == ".parquet" else None)
        query = Path(name).parts[0]
        if wrong is not None:
            pipeline.broken(file, wrong, f"rows of micro-batch {batch} are lost", ROLL_BACK, undoes=batch)
            counted[query] = -1
        elif Path(name).parent.name == query and counted.get(query, 0) >= 0:
            counted[query] = counted.get(query, 0) + _rows_in(file)
    for query, rows in counted.items():
        if query in manifest.rows and rows >= 0 and rows != manifest.rows[query]:
            what = f"{rows} rows of micro-batch {batch}, the manifest counts {manifest.rows[query]}"
            pipeline.broken(output / query, what, "rows are lost, or twice", ROLL_BACK, undoes=batch)


def _rows_in(file: Path) -> int:
    if file.suffix == ".parquet":
        return int(pq.read_metadata(file).num_rows)
    lines = file.read_bytes().count(b"\n")
    return lines - 1 if file.suffix == ".csv" else lines


def unreadable(file: Path) -> str | None:
    """Why a Parquet file cannot be read, pages and their checksums included; None where it can."""
    if file.stat().st_size == 0:
        return "it is empty"
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            for _ in opened.iter_batches():
                pass
    except (OSError, pa.ArrowException):
        return "it is cut short, or its bytes are not those that were written"
    return None


def _check_schema(folder: Path, first: PipelineFindings) -> None:
    try:
        columns_ever(folder)
    except MuntinError as error:
        do = "remove it: the next start writes it anew; `muntin doctor --repair` does"
        file = folder / SCHEMA_FILE
        what = error.message.rpartition(" is damaged: ")[2]
        first.findings.append(
            Finding(Level.BROKEN, str(file), what, "readers cannot open the folder", do, removable=file)
        )


def _check_order(folder: Path, first: PipelineFindings) -> None:
    """The output timestamps of a query never go back, from file to file in the order of their names."""
    before: int | None = None
    for file, times in _times(folder):
        for low, high, ordered in times:
            if not ordered or (before is not None and low < before):
                first.note(file, f"its {TIME} go back", "rows are in order for each key, or somebody changed the files")
                return
            before = high


def _times(folder: Path) -> Iterator[tuple[Path, Iterator[tuple[int, int, bool]]]]:
    for file in sorted(folder.glob("*b*.parquet")):
        try:
            with pq.ParquetFile(file) as opened:
                if TIME in opened.schema_arrow.names:
                    column = opened.read([TIME]).column(0).drop_null().cast(pa.int64()).to_numpy()
                    if len(column):
                        yield file, iter([(int(column[0]), int(column[-1]), bool((column[1:] >= column[:-1]).all()))])
        except (OSError, pa.ArrowException):
            continue  # told already
