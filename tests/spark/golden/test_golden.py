"""The golden checkpoint of this format: a run goes on with it, and one of another format is refused by its number."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint import durable
from muntin.spark.checkpoint.durable import FileKind, to_line
from muntin.spark.checkpoint.identity import STATE_FORMAT, stored_job
from muntin.spark.doctor import Level, examine
from muntin.spark.run import Job, check_job
from muntin.testing.local_job import LocalJob

from . import make

REMAKE = "remake it: make golden"


def rewritten(place: Path, **changed: object) -> None:
    """Write other values into the identity of the job."""
    file = place / "ckpt" / "muntin" / "job.json"
    stored = json.loads(file.read_text())["file"]
    content = {name: value for name, value in (stored["content"] | changed).items() if value is not None}
    file.write_text(to_line(FileKind.JOB, "job", content, stored["job"]) + "\n")


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return sorted(zip(*(c.to_pylist() for c in columns), strict=True), key=repr)


def test_the_golden_checkpoint_is_of_this_format(tmp_path: Path):
    make.unpack(tmp_path)
    stored = stored_job(tmp_path / "ckpt")
    assert stored is not None and stored.state_format == STATE_FORMAT, REMAKE
    assert check_job(make.spec(tmp_path), (), tmp_path / "ckpt").strategy == stored.settings.strategy


@pytest.mark.parametrize(
    ("content", "number"), [({"state_format": 99}, 99), ({"state_format": None, "state format": 5}, 5)]
)
def test_a_checkpoint_of_another_format_is_refused_by_its_number(tmp_path: Path, content: Any, number: int):
    make.unpack(tmp_path)
    rewritten(tmp_path, **content)
    with pytest.raises(UsageError, match=f"checkpoint of format {number}, this Muntin reads format {STATE_FORMAT}"):
        check_job(make.spec(tmp_path), (), tmp_path / "ckpt")


def test_a_file_of_another_format_is_refused_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make.unpack(tmp_path)
    monkeypatch.setattr(durable, "FORMAT", durable.FORMAT + 1)
    with pytest.raises(durable.DamageError, match=rf"job\.json is a file of format {durable.FORMAT - 1}, this Muntin"):
        stored_job(tmp_path / "ckpt")


@pytest.mark.parametrize("archive", sorted(make.PAST.glob("*.tar.xz")), ids=lambda archive: archive.name)
def test_the_golden_checkpoints_of_formats_before_are_refused_by_their_number(tmp_path: Path, archive: Path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    number = int(archive.name.removeprefix("format-").removesuffix(".tar.xz"))
    assert number < STATE_FORMAT, "the golden checkpoint of this format is not a past one"
    said = f"a checkpoint of format {number}, this Muntin reads format {STATE_FORMAT}"
    if number == 6:  # its files have an envelope of another format themselves
        said = f"a file of format 1, this Muntin reads format {durable.FORMAT}"
    with pytest.raises(MuntinError, match=said):
        stored_job(tmp_path / "ckpt")
    (finding,) = [f for f in examine(tmp_path / "ckpt").findings if f.level is Level.BROKEN]
    assert said in finding.what, "the doctor says it, too"


def test_every_format_but_the_first_ones_has_its_golden_checkpoint():
    kept = {archive.name for archive in make.PAST.glob("*")}
    assert kept == {f"format-{number}.tar.xz" for number in range(6, STATE_FORMAT)}, "see keep_past in make.py"


def test_a_newer_checkpoint_says_that_a_newer_muntin_is_needed(tmp_path: Path):
    make.unpack(tmp_path)
    rewritten(tmp_path, state_format=STATE_FORMAT + 1)
    with pytest.raises(UsageError, match=f"checkpoint of format {STATE_FORMAT + 1}") as caught:
        stored_job(tmp_path / "ckpt")
    assert caught.value.hint is not None and "newer Muntin" in caught.value.hint


@pytest.mark.spark
def test_a_run_goes_on_with_the_golden_checkpoint(tmp_path: Path, spark: Any):
    make.unpack(tmp_path)
    make.write_rows(tmp_path, 2)
    spec = make.spec(tmp_path)
    run = Job(spark, spec).start(output=tmp_path / "out", checkpoint=tmp_path / "ckpt", mode="bounded")
    assert run.await_termination(300)
    assert run.warnings == [] and run.differences == []
    local = LocalJob(spec, shards=2)
    steps = [local.push({s: make.rows(s, n) for s in "AB"}) for n in range(3)]
    steps.append(local.push({s: make.SCHEMA.empty_table() for s in "AB"}, ended=True))
    for query in spec.queries:
        files = sorted((tmp_path / "out" / query).glob("b*.parquet"))
        wanted = plain(pa.concat_tables([step[query] for step in steps if query in step]))
        assert wanted and plain(pa.concat_tables([pq.read_table(file) for file in files])) == wanted, query
    assert run.status()["sources"]["A"]["total_rows"] == 24, "the totals go on too"
