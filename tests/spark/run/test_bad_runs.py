"""What can go wrong with a good job file: each gets one message and an exit code, and does no harm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from muntin.model import MuntinError
from muntin.spark.checkpoint import Lock
from muntin.spark.run import read_status
from muntin.spark.run.pipeline import Pipeline


@pytest.fixture
def run(lab: Any, muntin: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`muntin run` on the lab's job, bounded, in the lab's folder."""
    monkeypatch.chdir(lab.root)

    def call(output: str = "out", checkpoint: str = "ckpt") -> tuple[int, str, str]:
        Path("job.sql").write_text(lab.sql())
        return muntin("run", "job.sql", "--output", output, "--checkpoint", checkpoint, "--bounded")

    return call


def refused(result: tuple[int, str, str], code: int = 2) -> str:
    """The one message of a run that came to nothing."""
    got, out, err = result
    assert (got, out) == (code, "")
    assert err.count("muntin: ") == err.count("  hint: ") == 1
    assert "Traceback" not in err and "\tat " not in err and "Exception" not in err
    return err[err.index("muntin: ") :]


def contents(root: Path) -> dict[Path, tuple[int, int]]:
    """Every file with its inode and time of change; locks come and go."""
    files = [p for p in root.rglob("*") if p.is_file() and p.name not in ("lock", "job.sql")]
    return {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in files}


@pytest.mark.stand_in
def test_what_belongs_to_another_run_is_refused_and_left_alone(lab: Any, rows: Any, run: Any, muntin: Any):
    lab.add_files("A", rows(30, 60), 1)
    lab.add_files("B", rows(31, 60), 1)
    code, out, _ = run()
    assert code == 0 and "short" in out
    lab.check()
    before = contents(lab.output) | contents(lab.checkpoint)

    held = Lock(lab.checkpoint)
    said = refused(run())
    assert "is running on" in said and str(lab.checkpoint) in said
    held.release()

    assert f"{lab.output} holds the output of another checkpoint" in refused(run(checkpoint="other"))

    said = refused(run(output="elsewhere"))
    assert f"{lab.checkpoint} is the checkpoint of another job" in said
    assert "output: was " in said
    assert not Path("elsewhere").exists()

    Path("data/A").rename("data/gone")
    assert "stream A: there is no " in refused(muntin("run", "job.sql", "--output", "new", "--bounded"))
    assert not Path("new").exists()
    Path("data/gone").rename("data/A")

    assert contents(lab.output) | contents(lab.checkpoint) == before
    assert "a bounded run has ended the streams" in refused(run()), "nothing can follow"


@pytest.mark.spark
def test_an_unreadable_file_fails_the_run_by_name_and_a_second_run_is_exact(lab: Any, rows: Any, run: Any, muntin: Any):
    lab.per_trigger = 1
    lab.add_files("A", rows(32, 120), 3)
    lab.add_files("B", rows(33, 120), 3)
    file = lab.folder("B") / "0001.parquet"
    whole, modified = file.read_bytes(), file.stat().st_mtime
    file.write_bytes(whole[: len(whole) // 2])
    os.utime(file, (modified, modified))  # files are taken in the order of their times
    said = refused(run(), code=1)
    assert str(file) in said
    assert read_status(lab.checkpoint)["state"] == "failed"
    code, out, _ = muntin("status", "--checkpoint", "ckpt")
    assert code == 0 and str(file) in "".join(out.split("\n"))
    file.write_bytes(whole)
    assert run()[0] == 0
    lab.check()


@pytest.mark.stand_in
def test_an_empty_stream_gives_folders_without_rows_and_no_error(lab: Any, rows: Any, run: Any):
    lab.add_files("A", rows(34, 40), 1)
    lab.folder("B")
    code, out, _ = run()
    assert code == 0 and "input rows" in out
    for query in ("short", "long", "hot"):
        table = pq.read_table(lab.output / query)
        assert (table.num_rows, table.column_names) == (0, ["a", "b", "bv", "_ts"])


@pytest.mark.parametrize(
    "delivery", [pytest.param("batch", marks=pytest.mark.spark), pytest.param("eager", marks=pytest.mark.stand_in)]
)
def test_a_sink_that_wants_to_exit_fails_the_run_and_a_second_run_goes_on(lab: Any, rows: Any, delivery: str):
    lab.settings = f"SET delivery = '{delivery}';\n"
    lab.add_files("A", rows(36, 60), 1)
    lab.add_files("B", rows(37, 60), 1)
    received: list[Any] = []

    def leave(*_: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(MuntinError, match=r"the sink raised SystemExit \(3\) with rows of (short|long|hot)"):
        lab.run(output=None, sink=leave)
    assert read_status(lab.checkpoint)["state"] == "failed"
    lab.run(output=None, sink=lambda *call: received.append(call))
    assert {name for name, _, _ in received} >= {"short", "long", "hot"}


@pytest.mark.spark
def test_a_file_that_vanishes_before_it_is_read_is_named(lab: Any, rows: Any, run: Any, muntin: Any, monkeypatch: Any):
    lab.per_trigger = 1
    lab.add_files("A", rows(34, 120), 3)
    lab.add_files("B", rows(35, 120), 3)
    file, brief = lab.folder("B") / "0001.parquet", Pipeline._brief

    def failing(pipeline: Pipeline, batch: int) -> None:
        brief(pipeline, batch)
        if batch == 1:
            raise MuntinError("the files of a micro-batch are listed, and not read yet")

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "_brief", failing)
        assert run()[0] == 1
    file.unlink()
    code, _, err = run()
    assert code == 0 and err.count(f"{file} of B is gone") == 1
    assert read_status(lab.checkpoint)["sources"]["B"]["vanished"] == [f"file://{file}"]
    assert "0001.parquet of B is gone" in "".join(muntin("status", "--checkpoint", "ckpt")[1].split("\n"))
