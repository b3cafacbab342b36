"""Whether our half of a pipeline is whole: every file for itself, and all of them together with Spark's half."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from muntin.model import JobSpec, MuntinError
from muntin.spark.checkpoint import (
    FOLDER,
    TAKE_OVER,
    FileKind,
    Manifest,
    MissingError,
    PlanLog,
    as_record,
    identity,
    read_json,
    read_record,
    requests,
)
from muntin.spark.control import control_stream
from muntin.spark.doctor.finding import RESTORE, ROLL_BACK, Level, PipelineFindings, is_aside
from muntin.spark.run import SparkHalf
from muntin.spark.sink import HeldResults
from muntin.spark.store import Location, store_of
from muntin.spark.tables import VersionLog

REPORTS = {"status.json": FileKind.STATUS, "history.json": FileKind.HISTORY, "constants.json": FileKind.CONSTANTS}
"""Files that may go: they are written anew, or measured anew."""


class OurHalf:
    """Our files of one pipeline, read one by one."""

    def __init__(self, pipeline: PipelineFindings, job: str):
        self.pipeline, self.folder, self.job = pipeline, pipeline.folder, job
        self.manifests: dict[int, Manifest] = {}
        self.damaged: dict[int, str] = {}
        """The manifests that cannot be read, and why."""
        self.plans: dict[int, str | None] = {}
        """The plans that are there; of those that cannot be read, why."""

    def read(self) -> None:
        self._read_manifests()
        self._read_plans()
        self._read_messages()
        self._read_tables()
        own = self.folder / FOLDER
        for name, kind in REPORTS.items():
            self._expendable(own / name, kind, "it is only a report, or measured: it is written anew")
        for name, kind in (("rescale.json", FileKind.RESCALE), ("moved.json", FileKind.MOVED)):
            if store_of(own).exists(own / name) and (wrong := self._wrong(own / name, kind)) is not None:
                self.pipeline.broken(own / name, wrong, "nobody knows which pipeline goes on")
        over = own / TAKE_OVER
        if store_of(own).exists(over) and (wrong := self._wrong(over, FileKind.TAKE_OVER)) is not None:
            self.pipeline.broken(over, wrong, "nobody knows which pipeline publishes which rows of its queries")
        lost = "the change that it asks for is not known any more: ask again"
        self._read_mailbox("requests", FileKind.REQUEST, requests.Request, lost)
        self._read_mailbox("answers", FileKind.ANSWER, requests.Answer, "nobody is told what became of a request")

    def _read_mailbox(self, name: str, kind: FileKind, record: type[Any], means: str) -> None:
        place = self.folder / FOLDER / name
        for file in store_of(place).files(place):
            if (wrong := _reason(partial(read_record, file, kind, record))) is not None:
                self.pipeline.removable(file, wrong, means)

    def _wrong(self, file: Location, kind: FileKind, job: str | None = None) -> str | None:
        return _reason(lambda: read_json(file, kind, job))

    def _expendable(self, file: Location, kind: FileKind, means: str) -> None:
        if store_of(file).exists(file) and (wrong := self._wrong(file, kind)) is not None:
            self.pipeline.removable(file, wrong, means)

    def _read_manifests(self) -> None:
        place = self.folder / FOLDER / "commits"
        for file in store_of(place).files(place):
            batch = int(file.stem.partition("-")[0]) if file.stem[:10].isdigit() else -1
            try:
                content = read_json(file, FileKind.MANIFEST, self.job)
                self.manifests[batch] = as_record(content, FileKind.MANIFEST, Manifest, str(file))
            except MuntinError as error:
                if "but a fence" not in error.message:
                    self.damaged[batch] = error.message

    def manifest_file(self, batch: int) -> Location:
        return self.folder / FOLDER / "commits" / f"{batch:010d}.json"

    def _read_plans(self) -> None:
        log = PlanLog(self.folder, JobSpec())
        for number in log.numbers():
            self.plans[number] = _reason(partial(log.check, number))

    def _read_messages(self) -> None:
        place = control_stream.folder(self.folder)
        self.unread = {
            file: wrong
            for file in store_of(place).files(place)
            if file.name.endswith(".json") and (wrong := self._wrong(file, FileKind.CONTROL, self.job)) is not None
        }

    def _read_tables(self) -> None:
        log = VersionLog(self.folder)
        for table in log.tables():
            for file in store_of(self.folder).files(log.folder / table):
                if (wrong := self._wrong(file, FileKind.TABLE, self.job)) is not None:
                    self.pipeline.broken(file, wrong, "rows that are run again cannot look into it")

    # -- one micro-batch ------------------------------------------------------------------------------------------

    def damage_of(self, batch: int) -> tuple[Location, str] | None:
        """Why a micro-batch that was committed is not whole in our half."""
        file = self.manifest_file(batch)
        if batch in self.damaged:
            return file, self.damaged[batch]
        if batch not in self.manifests:
            return file, "it is missing"
        manifest = self.manifests[batch]
        if manifest.held:
            wrong = _reason(lambda: HeldResults(self.folder).load(batch, manifest.held))
            if wrong is not None:
                return self.folder / FOLDER / "held" / f"{batch:010d}.frame", wrong
        return None

    # -- what one file cannot say ---------------------------------------------------------------------------------

    def check_plans(self, back_to: int) -> None:
        """The plans that a run needs after a micro-batch are there and whole; others may go."""
        if not self.plans and not self.manifests:
            return
        reached = self.manifests[back_to].epoch if back_to in self.manifests else 0
        needed = {0, *range(max(1, reached - 1), max(self.plans, default=0) + 1)}
        log = PlanLog(self.folder, JobSpec())
        for number in sorted(needed | set(self.plans)):
            wrong = self.plans.get(number, "it is missing")
            if wrong is None:
                continue
            if number in needed:
                self.pipeline.broken(log.file(number), wrong, "nobody knows what the queries were")
            else:
                self.pipeline.removable(log.file(number), wrong, "no run needs it any more")

    def check_messages(self, spark: SparkHalf, committed: int) -> None:
        """A damaged message that was taken may go, and so may one that nobody has come to: it is sent again."""
        under_way = self._under_way(spark, committed)
        for file, wrong in self.unread.items():
            if file.name in under_way:
                means = "the micro-batch that is under way needs it"
                self.pipeline.broken(file, wrong, means, ROLL_BACK, undoes=committed + 1)
            self.pipeline.removable(file, wrong, "it was taken, or is sent again")

    def _under_way(self, spark: SparkHalf, committed: int) -> set[str]:
        """The messages that a micro-batch takes which Spark has begun and not committed."""
        if committed + 1 not in spark.numbers("offsets"):
            return set()
        last, before = spark.taken(committed + 1), spark.taken(committed) if committed >= 0 else {}
        found: set[str] = set()
        for source, end in last.items():
            for listed in range(before.get(source, -1) + 1, end + 1):
                entry = spark.entry(f"sources/{source}", listed)
                if isinstance(entry, list):
                    found |= {str(line.get("path", "")).rpartition("/")[2] for line in entry if isinstance(line, dict)}
        return found

    def check_leftovers(self) -> None:
        """Files that were being written when a process died."""
        if not isinstance(self.folder, Path):
            return
        for file in sorted(self.folder.rglob(".*")):
            mine = identity.PIPELINES not in file.relative_to(self.folder).parts
            if mine and file.is_file() and is_aside(file):
                self.pipeline.removable(
                    file, "it was being written when a process died", "nobody reads it", Level.LEFT_OVER
                )


def _reason(look: Callable[[], Any]) -> str | None:
    """Why something cannot be read, in a sentence; None where it can."""
    try:
        look()
    except MissingError:
        return "it is missing"
    except MuntinError as error:
        return error.message.rpartition(" is damaged: ")[2]
    except FileNotFoundError:
        return "it is missing"
    return None


def check_identity(pipeline: PipelineFindings) -> str | None:
    """The id of a pipeline's checkpoint; None where its identity cannot be read, or is of another format."""
    file = pipeline.folder / FOLDER / "job.json"
    try:
        if identity.stored_job(pipeline.folder) is None:
            begun = any(store_of(file).files(pipeline.folder / FOLDER / name) for name in ("commits", "plans"))
            if begun:
                pipeline.broken(file, "it is missing", "nobody knows which job this is")
            return None
        return identity.checkpoint_id(pipeline.folder)
    except MuntinError as error:
        pipeline.broken(file, error.message, "nobody knows which job this is", error.hint or RESTORE)
        return None
