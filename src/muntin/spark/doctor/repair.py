"""Mends a checkpoint: goes back to the last whole micro-batch, and takes away what nobody needs.

Manifests go first, the newest first, then what they published, then Spark's logs: whenever this is interrupted, what is
left is a checkpoint that goes back to the same micro-batch when it is examined again. What is taken away from a
checkpoint and is not empty goes to `muntin/put-away/`, so that somebody can look at it.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

from muntin.model import UsageError
from muntin.spark.checkpoint import FOLDER, Lock
from muntin.spark.doctor.examine import Examination, examine
from muntin.spark.doctor.finding import Level, PipelineFindings, is_aside
from muntin.spark.run import SparkHalf, verify
from muntin.spark.store import Location, sync_folder

PUT_AWAY = "put-away"


def repair(
    checkpoint: Location, output: Path | None = None, missing_is_lost: bool = False
) -> tuple[list[str], Examination]:
    """Mend what can be mended; what was done, one line each, and what is found afterwards. Refused while a job runs."""
    if not isinstance(checkpoint, Path):
        raise UsageError(f"{checkpoint} is in an object store", hint="only a checkpoint in a folder can be repaired")
    examine(checkpoint, output)  # it is one, before anything is written
    lock = Lock(checkpoint)
    try:
        found = examine(checkpoint, output, missing_is_lost=missing_is_lost)
        done: list[str] = []
        for pipeline in found.pipelines:
            done += _Mender(checkpoint, found.output, pipeline).mend()
        return done, examine(checkpoint, output, missing_is_lost=missing_is_lost)
    finally:
        lock.release()


class _Mender:
    """Mends one pipeline."""

    def __init__(self, checkpoint: Path, output: Path | None, pipeline: PipelineFindings):
        self._checkpoint, self._output, self._pipeline = checkpoint, output, pipeline
        assert isinstance(pipeline.folder, Path)
        self._folder = pipeline.folder
        self._spark = SparkHalf(pipeline.folder)
        self._done: list[str] = []

    def mend(self) -> list[str]:
        if self._pipeline.back_to is not None:
            self._go_back(self._pipeline.back_to)
        for finding in self._pipeline.findings:
            file = finding.removable
            if isinstance(file, Path) and file.exists():
                self._take(file, keep=finding.level is Level.BROKEN)
            if isinstance(file, Path) and file == self._folder / "metadata":
                (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
                file.write_text(json.dumps({"id": str(uuid.uuid4())}))
                self._done.append(f"wrote {file} anew")
        return self._done

    def _go_back(self, batch: int) -> None:
        """Undo all micro-batches after one."""
        taken = self._spark.taken(batch) if batch >= 0 else {}
        sources = range(self._spark.sources)
        self._cut(self._folder / FOLDER / "commits", batch)
        if self._output is not None:
            for name in verify.truncate_output(self._checkpoint, self._output):
                self._done.append(f"removed {self._output / name}: its micro-batch is done again")
        self._cut(self._folder / FOLDER / "held", batch)
        self._cut(self._folder / "commits", batch)
        self._cut(self._folder / "offsets", batch)
        for source in sources:
            self._cut(self._folder / "sources" / str(source), taken.get(source, -1))
        if batch < 0 and (self._folder / "state").exists():
            shutil.rmtree(self._folder / "state")
        where = f" of pipeline {self._pipeline.number}" if self._pipeline.number else ""
        self._done.append(f"went back to {f'micro-batch {batch}' if batch >= 0 else 'the beginning'}{where}")

    def _cut(self, folder: Path, last: int) -> None:
        """Take away the files of a folder that have a greater number, the newest first."""
        files = [file for file in folder.glob("[0-9]*") if file.stem.partition("-")[0].isdigit()]
        for file in sorted(files, key=lambda f: -int(f.stem.partition("-")[0])):
            if int(file.stem.partition("-")[0]) > last:
                self._take(file)
        if folder.is_dir():
            sync_folder(folder)

    def _take(self, file: Path, keep: bool = True) -> None:
        """Take a file away, with Hadoop's sums of its bytes."""
        sums = file.parent / f".{file.name}.crc"
        if sums.exists() and not is_aside(file):
            sums.unlink()
        if keep and file.is_relative_to(self._checkpoint) and file.stat().st_size:
            target = self._checkpoint / FOLDER / PUT_AWAY / uuid.uuid4().hex[:8] / file.relative_to(self._checkpoint)
            target.parent.mkdir(parents=True)
            os.replace(file, target)
            sync_folder(target.parent)
            sync_folder(file.parent)
            self._done.append(f"put {file} away")
        else:
            file.unlink()
            self._done.append(f"removed {file}")
