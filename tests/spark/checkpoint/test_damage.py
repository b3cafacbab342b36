"""Damage in every durable file is found and named, or does no harm.

One job runs on Spark and leaves a checkpoint and an output. Then for each kind of file and each kind of damage, copies
of both are damaged, and what a start does before it needs Spark is done with them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from muntin.model import MuntinError, Settings
from muntin.plan.cost import DEFAULT
from muntin.spark.checkpoint import Publisher, identity, requests
from muntin.spark.checkpoint.durable import FileKind, to_line
from muntin.spark.checkpoint.plans import PlanLog
from muntin.spark.checkpoint.requests import Answer
from muntin.spark.control import control_stream, keep_constants
from muntin.spark.run import check_job, read_status, verify
from muntin.spark.run.status_board import StatusBoard
from muntin.spark.sink import OutputRequest, open_sink
from muntin.sql import parse_job

from ..conftest import Lab, make_rows

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[3] / "docs" / "durable-files.md"
NAMED, TOLD, HARMLESS, EITHER = "refused", "told", "harmless", "refused or harmless"
FLIPS = 24
"""In so many places of a file, spread evenly, one bit is turned; in a shorter file in every byte."""


class Place:
    """Copies of the checkpoint and the output of a job that ran, to be damaged."""

    def __init__(self, made: Made, root: Path):
        self.checkpoint, self.output, self.spec = root / "ckpt", root / "out", made.spec
        shutil.copytree(made.lab.checkpoint, self.checkpoint)
        shutil.copytree(made.lab.output, self.output)
        job = self.checkpoint / "muntin" / "job.json"
        stored = json.loads(job.read_text())["file"]  # of a job that writes to this place
        content = stored["content"] | {"output": str(self.output)}
        job.write_text(to_line(FileKind.JOB, "job", content, stored["job"]) + "\n")

    def start(self) -> list[str]:
        """What a start does before it needs Spark; what it tells."""
        check_job(self.spec, (), self.checkpoint)
        stored = identity.stored_job(self.checkpoint)
        wanted = stored or identity.JobIdentity.of((), "state-slice", Settings(), 2, str(self.output))
        identity.check_checkpoint(self.checkpoint, wanted)
        number = identity.claim_checkpoint(self.checkpoint, wanted)
        verify.verify_checkpoint(self.checkpoint)
        identity.check_output(self.output, number)
        warnings = verify.verify_output(self.checkpoint, self.output)
        identity.claim_output(self.output, number)
        StatusBoard(self.checkpoint, self.spec.settings, "bounded")
        publisher = Publisher(self.checkpoint, self.output)
        sink = open_sink(OutputRequest(str(self.output))).attached(0, publisher)
        log = PlanLog(self.checkpoint, self.spec)
        plan = log.read(log.latest() or 0).plan
        for query in plan.queries.values():
            sink.check(query)
        sink.prepare(plan, Settings(punctuations="off"))
        sink.recover()
        control_stream.is_ended(self.checkpoint)
        return warnings

    def rows(self) -> dict[str, int]:
        """What a reader finds in the output, as a test of what is there."""
        files = sorted(self.output.glob("*/b*.parquet"))
        return {str(f.relative_to(self.output)): pq.read_metadata(f).num_rows for f in files}


class Made:
    """A job that ran three times on one checkpoint: three micro-batches, one more query, the end."""

    def __init__(self, root: Path, spark: Any):
        self.lab = lab = Lab(root, spark, per_trigger=1)
        for name, seed in (("A", 1), ("B", 2)):
            lab.add_files(name, make_rows(seed, 120, nulls=True), 3)
        self._run({"short": lab.queries["short"]}, "available-now")
        for name, seed in (("A", 3), ("B", 4)):
            lab.add_files(name, make_rows(seed, 240).slice(120), 1)
        self._run(lab.queries, "bounded")
        self.spec = parse_job(lab.sql())
        keep_constants(lab.checkpoint, DEFAULT)
        self.request = requests.submit(lab.checkpoint, "DROP QUERY short;")
        requests.answer(lab.checkpoint, "1-answered", Answer("accepted", "short", "dropped", 2))

    def _run(self, queries: Any, mode: str) -> None:
        from muntin.spark.run import Job

        run = Job(self.lab.spark, parse_job(self.lab.sql(queries))).start(
            output=self.lab.output, checkpoint=self.lab.checkpoint, mode=mode
        )
        assert run.await_termination(120)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Made:
    return Made(tmp_path_factory.mktemp("damage"), spark)


@pytest.fixture
def place(made: Made, tmp_path: Path) -> Place:
    return Place(made, tmp_path)


# -- kinds of files and of damage -------------------------------------------------------------------------------------

Damage = Callable[[Path], Iterator[None]]


def flip(file: Path) -> Iterator[None]:
    """One bit, in many places."""
    data = file.read_bytes()
    for n in range(min(FLIPS, len(data))):
        at = n * len(data) // min(FLIPS, len(data))
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << n % 8]) + data[at + 1 :])
        yield


def truncate(file: Path) -> Iterator[None]:
    data = file.read_bytes()
    for size in (0, 1, len(data) // 2, len(data) - 2):
        file.write_bytes(data[:size])
        yield


def delete(file: Path) -> Iterator[None]:
    file.unlink()
    yield


def swap(file: Path) -> Iterator[None]:
    """A whole file of the same kind, of another number or query, and then the same one of another checkpoint."""
    others = [*file.parent.glob(f"*{file.suffix}"), *file.parent.parent.glob(f"*/*{file.suffix}")]
    data = file.read_bytes()
    other = next((o for o in sorted(others) if o.read_bytes() != data and o.name != "00-schema.parquet"), None)
    if file.name == "00-schema.parquet":
        other = next(o for o in sorted(others) if o.name == file.name and o.read_bytes() != data)
    if other is not None:
        shutil.copyfile(other, file)
        yield
    if file.suffix == ".json":
        stored = json.loads(data)["file"]
        foreign = to_line(FileKind(stored["kind"]), stored["name"], stored["content"], "0" * 32)
        file.write_text(foreign + "\n")
        yield


DAMAGES = {"flip": flip, "truncate": truncate, "delete": delete, "swap": swap}
FILES = {
    "job": ("checkpoint", "muntin/job.json"),
    "manifest": ("checkpoint", "muntin/commits/*.json"),
    "plan": ("checkpoint", "muntin/plans/*.json"),
    "control message": ("checkpoint", "control/*.json"),
    "status": ("checkpoint", "muntin/status.json"),
    "constants": ("checkpoint", "muntin/constants.json"),
    "lock": ("checkpoint", "muntin/lock"),
    "owner": ("output", "_muntin.json"),
    "mark": ("output", "_muntin-b.json"),
    "schema": ("output", "*/00-schema.parquet"),
    "results": ("output", "short/b*.parquet"),
    "dead letters": ("output", "_dead_letters/b*.parquet"),
}
OUTCOMES = {
    "job": {NAMED: ("flip", "truncate", "delete", "swap")},
    "manifest": {NAMED: ("flip", "truncate", "delete", "swap")},
    "plan": {NAMED: ("flip", "truncate", "delete", "swap")},
    "control message": {NAMED: ("flip", "truncate", "swap"), HARMLESS: ("delete",)},
    "status": {HARMLESS: ("flip", "truncate", "delete", "swap")},
    "constants": {NAMED: ("flip", "truncate"), HARMLESS: ("delete",), EITHER: ("swap",)},
    "lock": {HARMLESS: ("flip", "truncate", "delete", "swap")},
    "owner": {NAMED: ("flip", "truncate", "swap"), HARMLESS: ("delete",)},
    "mark": {NAMED: ("flip", "truncate", "swap"), TOLD: ("delete",)},
    "schema": {NAMED: ("truncate",), HARMLESS: ("delete",), EITHER: ("flip", "swap")},
    "results": {NAMED: ("flip", "truncate", "swap"), TOLD: ("delete",)},
    "dead letters": {NAMED: ("flip", "truncate", "swap"), TOLD: ("delete",)},
}
"""What each damage leads to; docs/durable-files.md has the same table."""


def outcome(place: Place, file: Path) -> str:
    """What a start does about a damaged file. Errors other than ours are none that a user could act on: they fail."""
    try:
        warnings = place.start()
    except MuntinError as error:
        text = error.render()
        assert file.name in text and error.hint, text
        assert not re.search("JSONDecodeError|KeyError|IndexError|Traceback", text)
        return NAMED
    assert not warnings or file.name in " ".join(warnings), warnings
    return TOLD if warnings else HARMLESS


def some(place: Place, kind: str) -> list[Path]:
    root, pattern = FILES[kind]
    found = sorted(getattr(place, root).glob(pattern))
    assert found, f"the job has left no file of the kind {kind}"
    return [found[-1], *found[1:-1][:1]]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", OUTCOMES)
def test_damage_is_refused_by_name_or_told_or_harmless(place: Place, kind: str, damage: str):
    expected = next(result for result, damages in OUTCOMES[kind].items() if damage in damages)
    before, tried = place.rows(), 0
    for file in some(place, kind):
        kept = file.read_bytes()
        for _ in DAMAGES[damage](file):
            tried += 1
            found = outcome(place, file)
            assert found == expected or (expected == EITHER and found in (NAMED, HARMLESS)), (file, tried)
            file.write_bytes(kept)
        file.write_bytes(kept)
    assert tried or kind == "lock", "which is empty while nobody runs"
    assert place.start() == [] and place.rows() == before


@pytest.mark.parametrize("kind", OUTCOMES)
def test_the_table_in_the_docs_says_the_same(kind: str):
    (line,) = [line for line in DOCS.read_text().splitlines() if line.startswith(f"| {kind} |")]
    said = [cell.strip() for cell in line.strip("|").split("|")][3:]
    wanted = {damage: result for result, damages in OUTCOMES[kind].items() for damage in damages}
    assert said == [wanted[damage] for damage in DAMAGES]


# -- what one file cannot say of itself -------------------------------------------------------------------------------


def refused(place: Place) -> str:
    with pytest.raises(MuntinError) as caught:
        place.start()
    assert caught.value.hint
    return caught.value.message


def test_the_oldest_manifest_is_needed_by_nobody(place: Place):
    min((place.checkpoint / "muntin" / "commits").iterdir()).unlink()
    assert place.start() == []


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("muntin/commits/*.json", r"muntin/commits/000000000\d\.json is missing: Spark has committed"),
        ("muntin/plans/*.json", r"muntin/plans/0000000000\.json is missing"),
        ("muntin/plans/0000000000.json", r"muntin/plans/0000000000\.json is missing"),
        ("offsets/[0-9]*", r"offsets/\d is missing"),
        ("commits/[0-9]*", r"commits/\d is missing"),
        ("sources/0/[0-9]*", r"sources/0/0 is missing: it lists files that were read"),
        ("sources/1/3", r"sources/1/3 is missing: it lists files that were read"),
    ],
)
def test_what_is_missing_from_a_checkpoint_is_named(place: Place, gone: str, said: str):
    files = list(place.checkpoint.glob(gone))
    assert files
    for file in files:
        file.unlink()
    assert re.search(said, refused(place))


def test_the_last_commit_of_spark_may_be_missing_since_it_comes_after_ours(place: Place):
    max((place.checkpoint / "commits").glob("[0-9]*")).unlink()
    assert place.start() == []


def test_a_damaged_request_is_refused_and_a_damaged_answer_named(place: Place, made: Made):
    file = place.checkpoint / "muntin" / "requests" / f"{made.request}.json"
    file.write_bytes(file.read_bytes()[:-9])
    assert place.start() == [] and requests.pending(place.checkpoint) == []
    assert f"{made.request}.json is damaged" in str(requests.read_answer(place.checkpoint, made.request).error)
    file = place.checkpoint / "muntin" / "answers" / "1-answered.json"
    file.write_bytes(file.read_bytes().replace(b"accepted", b"in force"))
    with pytest.raises(MuntinError, match=r"1-answered\.json is damaged: its checksum"):
        requests.read_answer(place.checkpoint, "1-answered")
    assert place.start() == []


def test_a_damaged_report_is_named_to_whoever_asks_for_it(place: Place):
    (place.checkpoint / "muntin" / "status.json").write_text("")
    with pytest.raises(MuntinError, match=r"status\.json is damaged: it is empty"):
        read_status(place.checkpoint)


# -- checkpoint and output of different moments -----------------------------------------------------------------------


def restored(place: Place, batches: int) -> None:
    """The checkpoint as it was some micro-batches ago."""
    for log in ("muntin/commits", "commits", "offsets"):
        for file in sorted((place.checkpoint / log).glob("[0-9]*"))[-batches:]:
            file.unlink()


def test_a_checkpoint_that_is_older_than_its_output_is_refused(place: Place):
    before = place.rows()
    newest = max(int(re.findall(r"b(\d{10})", name)[0]) for name in before)
    restored(place, 2)
    last = verify.last_manifest(place.checkpoint).batch
    assert last < newest
    said = refused(place)
    assert f"its last micro-batch is {last}" in said and f"has rows of micro-batch {newest}" in said
    (place.output / "_muntin-b.json").unlink()
    assert f"has rows of micro-batch {newest}" in refused(place), "the names of files say so too"
    assert place.rows() == before, "a refusal removes nothing"
    removed = verify.truncate_output(place.checkpoint, place.output)
    assert removed and set(place.rows()) == set(before) - set(removed)
    assert all(int(re.findall(r"b(\d{10})", name)[0]) > last for name in removed)
    (warnings,) = place.start()
    assert "_muntin-b.json is missing" in warnings
    assert place.start() == []


def test_what_a_pipeline_published_that_the_checkpoint_does_not_know_is_newer(place: Place):
    mark = to_line(FileKind.PUBLISHED, "_muntin-p001-b", 4, "0" * 32)
    (place.output / "_muntin-p001-b.json").write_text(mark + "\n")
    shutil.copyfile(some(place, "results")[0], place.output / "short" / "p001-b0000000004-000.parquet")
    assert "it has committed no micro-batch" in refused(place)
    assert verify.truncate_output(place.checkpoint, place.output) == ["short/p001-b0000000004-000.parquet"]
    assert place.start() == []


def test_an_output_that_is_older_than_its_checkpoint_is_refused_and_one_that_was_moved_away_told(place: Place):
    newest = max(place.rows())[-22:-12]
    for file in place.output.glob("*/b*.parquet"):
        if newest in file.name:
            file.unlink()
    stored = json.loads((place.output / "_muntin-b.json").read_text())["file"]
    earlier = to_line(FileKind.PUBLISHED, "_muntin-b", stored["content"] - 1, stored["job"])
    (place.output / "_muntin-b.json").write_text(earlier + "\n")
    assert "the output is older than its checkpoint" in refused(place)
    shutil.rmtree(place.output)
    place.output.mkdir()
    warnings = place.start()
    assert "_muntin-b.json is missing" in warnings[0] and "not in" in warnings[1]
