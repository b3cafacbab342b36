"""Whether a bounded run has ended the streams of a checkpoint: it takes no more rows then."""

from __future__ import annotations

from muntin.model import UsageError
from muntin.spark.checkpoint import identity, last_manifest, stored_job
from muntin.spark.control import control_stream
from muntin.spark.ingest import dead_letters
from muntin.spark.run.verify import last_number
from muntin.spark.store import Location, spark_half


def refuse_ended(checkpoint: Location, mode: str) -> None:
    """Refuse a checkpoint whose streams have ended: every further row would be a dead letter.

    A bounded run that was interrupted while it ended them can only be brought to its end.
    """
    folders = [folder for folder in _live_pipelines(checkpoint) if control_stream.is_ended(folder)]
    if not folders:
        return
    if all(map(_has_taken_end, _live_pipelines(checkpoint))):
        raise UsageError(
            f"a bounded run has ended the streams of {checkpoint}: all rows are in the output, none can follow",
            hint="give a new `checkpoint=` and `output=` to run over all rows once more; "
            'a run with `mode="available-now"` in place of `mode="bounded"` lets a later run go on',
        )
    if mode != "bounded":
        raise UsageError(
            f"a bounded run was stopped while it ended the streams of {checkpoint}",
            hint='bring it to its end with `mode="bounded"`, or give a new `checkpoint=` and `output=`',
        )


def _live_pipelines(checkpoint: Location) -> list[Location]:
    folders = [identity.pipeline_folder(checkpoint, number) for number in identity.pipeline_numbers(checkpoint)]
    return [folder for folder in folders if (stored := stored_job(folder)) is not None and not stored.is_over]


def _has_taken_end(folder: Location) -> bool:
    """Whether the end is in force, and nothing of its micro-batch is left to do."""
    reports = [report for report in last_manifest(folder).reports.values() if not report.gone]
    frontiers = [frontier for report in reports for frontier in report.frontiers]
    half = spark_half(folder)
    over = control_stream.is_ended(folder) and all(f is not None and f >= dead_letters.ENDED_US for f in frontiers)
    return over and last_number(half / "offsets") == last_number(half / "commits")
