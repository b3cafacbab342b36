"""`muntin doctor` finds every kind of damage in every durable file, names it, and repairs what can be repaired.

One job runs on Spark and leaves a checkpoint and an output. Each damage is done to copies; a repair is judged by a run
over all rows that goes on with what is left.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muntin.cli.main import main
from muntin.spark.checkpoint import Lock, requests
from muntin.spark.control import control_stream
from muntin.spark.doctor import Level, examine, repair

from ..conftest import Lab, make_rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Lab:
    """A job that has run three micro-batches; there is input for two more."""
    lab = Lab(tmp_path_factory.mktemp("doctor"), spark, per_trigger=1)
    for name, seed in (("A", 1), ("B", 2)):
        lab.add_files(name, make_rows(seed, 300).slice(0, 180), 3)
    lab.run("available-now")
    for name, seed in (("A", 1), ("B", 2)):
        lab.add_files(name, make_rows(seed, 300).slice(180), 2)
    return lab


class Place:
    """Copies of what the job has left."""

    def __init__(self, made: Lab, root: Path):
        self.made, self.checkpoint, self.output = made, root / "ckpt", root / "out"
        shutil.copytree(made.checkpoint, self.checkpoint)
        shutil.copytree(made.output, self.output)

    def one(self, pattern: str) -> Path:
        """The last file that fits."""
        root = self.output if pattern.startswith("out/") else self.checkpoint
        return sorted(root.glob(pattern.removeprefix("out/")))[-1]

    def broken(self) -> list[Any]:
        found = examine(self.checkpoint, self.output)
        return [finding for finding in found.findings if finding.level is Level.BROKEN]


@pytest.fixture
def place(made: Lab, tmp_path: Path) -> Place:
    return Place(made, tmp_path)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(bytes(data))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def delete(file: Path) -> None:
    file.unlink()


DAMAGES = {"flip": flip, "cut": cut, "empty": empty, "delete": delete}
FILES = {
    "job": "muntin/job.json",
    "manifest": "muntin/commits/*.json",
    "plan": "muntin/plans/*.json",
    "status": "muntin/status.json",
    "history": "muntin/history.json",
    "offset": "offsets/[0-9]*",
    "commit": "commits/[0-9]*",
    "list": "sources/1/[0-9]*",
    "changelog": "state/0/1/3_*.changelog",
    "metadata": "metadata",
    "owner": "out/_muntin.json",
    "mark": "out/_muntin-b.json",
    "schema": "out/short/00-schema.parquet",
    "results": "out/long/b*.parquet",
}
UNREPAIRABLE = {"job", "plan"}
HARMLESS = {(kind, "delete") for kind in ("status", "history", "owner", "mark", "schema", "results", "commit")}
"""What may be missing: it is written anew, or a reader has taken it away, or Spark runs a micro-batch again."""


def test_a_checkpoint_that_is_whole_is_called_so(place: Place, capsys: pytest.CaptureFixture[str]):
    assert place.broken() == []
    assert main(["doctor", "--checkpoint", str(place.checkpoint), "--output", str(place.output)]) == 0
    assert f"{place.checkpoint} is whole; last micro-batch 2" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize("kind", FILES)
def test_every_damage_is_found_named_and_repaired_or_said_to_be_beyond_repair(place: Place, kind: str):
    for name, damage in DAMAGES.items():
        root = place.checkpoint.parent / f"{kind}-{name}"
        here = Place(place.made, root)
        file = here.one(FILES[kind])
        damage(file)
        found = here.broken()
        if (kind, name) in HARMLESS:
            assert found == [], (name, found)
            continue
        assert any(f.file == str(file) for f in found), (name, found)
        assert all(f.what and f.means and f.do for f in found)
        assert not any(raw in f.what for f in found for raw in ("Unterminated", "magic bytes", "Parquet file size"))
        done, after = repair(here.checkpoint, here.output)
        assert after.is_whole is (kind not in UNREPAIRABLE), (name, done, after.findings)
        assert bool(done) is (kind not in UNREPAIRABLE)
        shutil.rmtree(root)


GOES_ON: dict[str, Callable[[Place], None]] = {
    "a manifest that is lost": lambda place: place.one("muntin/commits/*.json").unlink(),
    "offsets that are torn": lambda place: empty(place.one("offsets/[0-9]*")),
    "state that is torn": lambda place: empty(place.one("state/0/1/2_*.changelog")),
    "rows that are torn": lambda place: cut(place.one("out/long/b0000000001*.parquet")),
    "a list that is lost": lambda place: place.one("sources/0/1").unlink(),
}


@pytest.mark.parametrize("what", GOES_ON)
def test_after_a_repair_the_job_goes_on_with_every_row_once(made: Lab, tmp_path: Path, spark: Any, what: str):
    lab = Lab(tmp_path, spark, per_trigger=1, tables=made.tables)
    shutil.copytree(made.root / "data", tmp_path / "data")
    moved(made.checkpoint, lab.checkpoint, str(made.root), str(tmp_path))
    shutil.copytree(made.output, lab.output)
    place = Place.__new__(Place)
    place.checkpoint, place.output = lab.checkpoint, lab.output
    GOES_ON[what](place)
    assert place.broken()
    done, after = repair(lab.checkpoint, lab.output)
    assert after.is_whole and any("went back to micro-batch" in line or "commits" in line for line in done), done
    lab.run("bounded")
    lab.check()


def moved(source: Path, target: Path, old: str, new: str) -> None:
    """A checkpoint as if its job had run in another folder: Spark and we write down where files are."""
    from ..golden.make import moved as rewritten

    shutil.copytree(source, target)
    for file in target.rglob("*"):
        if file.is_file() and old.encode() in (content := file.read_bytes()):
            file.write_bytes(rewritten(content, old, new))
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def test_a_repair_is_refused_while_a_job_runs_and_a_look_says_so(place: Place, capsys: pytest.CaptureFixture[str]):
    lock = Lock(place.checkpoint)
    arguments = ["doctor", "--checkpoint", str(place.checkpoint), "--output", str(place.output)]
    assert main([*arguments, "--repair"]) == 2 and "is running on" in capsys.readouterr().err
    assert main([*arguments, "--json"]) == 0 and json.loads(capsys.readouterr().out)["running"] is True
    lock.release()
    assert main(["doctor", "--checkpoint", str(place.output)]) == 2, "which is no checkpoint"


def test_what_a_process_left_is_swept_and_what_is_taken_from_a_checkpoint_is_kept(place: Place):
    (place.checkpoint / "muntin" / "plans" / ".x1.tmp").write_text("half")
    (place.checkpoint / "commits" / ".3.0b.tmp").write_text("half")
    flip(place.one("muntin/commits/*.json"))
    done, after = repair(place.checkpoint, place.output)
    assert after.findings == [] or after.is_whole
    assert not list(place.checkpoint.rglob(".*.tmp")) and len(done) >= 3
    assert len(list((place.checkpoint / "muntin" / "put-away").rglob("*.json"))) == 1


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_requests_answers_and_messages_that_are_damaged_may_go(place: Place, damage: str):
    control_stream.send(place.checkpoint, control_stream.IdleMessage(["A"]))
    id = requests.submit(place.checkpoint, "DROP QUERY short;")
    requests.answer(place.checkpoint, "1-answered", requests.Answer("accepted", "short", "dropped", 2))
    assert place.broken() == []
    files = [place.one(f"muntin/{name}/*.json") for name in ("requests", "answers")] + [place.one("control/*.json")]
    for file in files:
        DAMAGES[damage](file)
    assert {f.file for f in place.broken()} == {str(file) for file in files} and id in str(files[0])
    _, after = repair(place.checkpoint, place.output)
    assert after.is_whole and not any(file.exists() for file in files)


def test_rows_that_nobody_counts_and_times_that_go_back_are_told(place: Place):
    first, last = sorted(place.output.glob("long/b*.parquet"))[0], place.one("out/long/b*.parquet")
    kept = last.read_bytes()
    last.write_bytes(first.read_bytes())
    assert any("not what was written" in f.what for f in place.broken())
    last.write_bytes(kept)
    extra = place.output / "long" / "b0000000009-000.parquet"
    extra.write_bytes(first.read_bytes())
    found = examine(place.checkpoint, place.output)
    assert any("older than its output" in f.what for f in found.findings)
    assert any("go back" in f.what for f in found.findings)
