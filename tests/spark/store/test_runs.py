"""Whole runs with checkpoint and output in an object store, on a stand-in for Spark: rows, restarts, calls."""

from __future__ import annotations

import copy
import itertools
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import muntin
from muntin.cli.main import main
from muntin.model import JobSpec, MuntinError, UsageError
from muntin.spark.checkpoint import (
    CommitLog,
    DamageError,
    FencedError,
    ObjectPublisher,
    lease,
    open_checkpoint,
    output_log,
    processes,
    requests,
)
from muntin.spark.run import Job, Run
from muntin.spark.run.rescaling import rescale
from muntin.spark.sink import OutputRequest, open_sink
from muntin.spark.store import ObjectPath, locate
from muntin.spark.store.locate import bucket as open_bucket
from muntin.sql import parse_job
from spark.store.s3 import Proxy
from whole_way.drive import kept_apart
from whole_way.stand_in import Session

SQL = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
Q = "CREATE QUERY q AS SELECT A.k AS a, B.k AS b FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;"
P = "CREATE QUERY p AS SELECT A.k AS a FROM A, B WHERE A.k = B.k WINDOW 3 microseconds;"
MOST_CALLS = 10
"""Of the driver, in a micro-batch."""


class Place:
    """A job whose checkpoint and output are in a bucket, and Spark's half in a folder."""

    def __init__(self, bucket: ObjectPath, root: Path):
        self.session, self.root = Session(), root
        self.output, self.checkpoint, self.half = f"{bucket}/out", f"{bucket}/job", root / "spark"
        self.store = bucket.store

    def come(self, *times: int) -> None:
        rows = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array([7] * len(times), pa.int64())}
        for name in "AB":
            self.session.files[name].append(pa.table(rows))

    def start(self, mode: str, spec: JobSpec | None = None, **more: Any) -> Run:
        job = Job(self.session, spec or parse_job(SQL + Q + P))  # type: ignore[arg-type]
        places = {"output": self.output, "checkpoint": self.checkpoint, "spark_checkpoint": self.half}
        return job.start(mode=mode, **{**places, **more})  # type: ignore[arg-type]

    def run(self, mode: str, spec: JobSpec | None = None, **more: Any) -> dict[str, Any]:
        run = self.start(mode, spec, **more)
        assert run.await_termination(60)
        return run.status()

    def rows(self, query: str = "q") -> list[Any]:
        return muntin.read(self.output, query).to_table().to_pylist()


@pytest.fixture
def place(bucket: ObjectPath, tmp_path: Path) -> Any:
    with kept_apart(tmp_path):
        made = Place(bucket, tmp_path)
        for times in ((10, 12), (14, 15), (20, 21)):
            made.come(*times)
        yield made


@pytest.fixture
def on_disk(tmp_path: Path) -> list[Any]:
    """The rows of the same job in folders."""
    with kept_apart(tmp_path):
        folder = tmp_path / "disk"
        session = Place(ObjectPath(open_bucket("s3://bucket"), "none"), folder)
        for times in ((10, 12), (14, 15), (20, 21)):
            session.come(*times)
        session.run("bounded", output=folder / "out", checkpoint=folder / "job", spark_checkpoint=None)
        return muntin.read(folder / "out", "q").to_table().to_pylist()


@pytest.mark.slow
def test_rows_are_those_of_a_folder_and_a_later_start_needs_its_uri_only(place: Place, on_disk: list[Any], capsys: Any):
    place.run("available-now")
    before = place.rows()
    assert before and before == on_disk[: len(before)]
    place.come(30, 31)
    assert muntin.read_status(place.checkpoint)["state"] == "stopped"
    assert main(["status", "--checkpoint", place.checkpoint]) == 0 and "q" in capsys.readouterr().out
    place.run("bounded", spark_checkpoint=None)
    after = place.rows()
    assert after[: len(on_disk)] == on_disk and len(after) == len(on_disk) + 4
    assert {file.name for file in place.half.iterdir()} == {"offsets", "commits", "control"}
    assert not list(place.half.glob("**/muntin")), "our half is in the bucket"
    with pytest.raises(UsageError, match="a bounded run has ended the streams"):
        place.run("bounded")
    connection = duckdb.connect()
    assert muntin.create_views(place.output, connection) == ["p", "q"]
    assert connection.execute("SELECT count(*) FROM q").fetchone() == (len(after),)
    with pytest.raises(UsageError, match="has no Parquet files of r") as refused:
        muntin.read(place.output, "r")
    assert refused.value.hint == "queries there: p, q"


@pytest.mark.slow
def test_a_micro_batch_takes_few_calls(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Calls of the driver between two commits; tasks put one file for each query and part beside that."""
    seen: list[Counter[str]] = []
    append, put = CommitLog.append, Counter[str]()
    for n in range(12):
        place.come(30 + 2 * n, 31 + 2 * n)

    def noted(self: CommitLog, manifest: Any) -> None:
        seen.append(Counter(place.store.calls))
        append(self, manifest)

    def staged(self: Any, *arguments: Any) -> Any:
        put["put"] += 1
        return stage(self, *arguments)

    from muntin.spark.sink.parquet_objects import PutObjects

    stage = PutObjects.stage
    monkeypatch.setattr(CommitLog, "append", noted)
    monkeypatch.setattr(PutObjects, "stage", staged)
    began = place.store.seconds, sum(place.store.calls.values())
    status = place.run("available-now")
    files = sum(put.values())
    calls = [sum((after - before).values()) for before, after in itertools.pairwise(seen)]
    assert status["batches"] == len(seen) == 15
    assert max(calls) - 4 <= MOST_CALLS, calls  # two queries of two parts each
    took, count = place.store.seconds - began[0], sum(place.store.calls.values()) - began[1]
    print(f"calls between commits: {calls}, {files} files; {1000 * took / count:.1f} ms each")


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before the manifest", "before the log", "after the log"])
def test_a_driver_that_dies_leaves_each_row_once(
    place: Place, on_disk: list[Any], monkeypatch: pytest.MonkeyPatch, point: str
):
    """It is not known to have given its lease back, and its Java is gone."""
    where: Any = {"before the manifest": (CommitLog, "append"), "before the log": (ObjectPublisher, "_complete")}
    kind, name = where.get(point, (CommitLog, "forget"))
    real, met = getattr(kind, name), Counter[str]()

    def dies(self: Any, *arguments: Any) -> Any:
        met["calls"] += 1
        if met["calls"] == 2:
            raise MuntinError("killed")
        return real(self, *arguments)

    monkeypatch.setattr(lease.Lease, "release", lambda self: self._released.set())
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, dies)
        run = place.start("available-now")
        with pytest.raises(MuntinError, match="killed"):
            run.await_termination(60)
    place.store._guards.clear()
    for module in (lease, processes):
        monkeypatch.setattr(module, "started", lambda pid: f"later {pid}")
    place.run("bounded")
    assert place.rows() == on_disk


@pytest.mark.slow
def test_a_driver_that_was_taken_over_from_ends_and_has_written_nothing(
    place: Place, on_disk: list[Any], monkeypatch: pytest.MonkeyPatch
):
    """Two drivers at once: the second takes over while the first is in a micro-batch, whose commit then fails."""
    monkeypatch.setattr(lease, "TERM_S", 0.2)
    monkeypatch.setattr(lease, "BEAT_S", 0.05)
    monkeypatch.setattr(lease, "LOOK_S", 0.02)
    append, others = CommitLog.append, list[lease.Lease]()
    monkeypatch.setattr(lease.Lease, "_keep", lambda self: None)

    def slow(self: CommitLog, manifest: Any) -> None:
        if manifest.batch == 1 and not others:
            place.store._guards.clear()
            others.append(lease.Lease(open_checkpoint(place.checkpoint)))  # type: ignore[arg-type]
            place.store._guards.clear()
        append(self, manifest)

    monkeypatch.setattr(lease, "machine", iter(map(str, range(99))).__next__)
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "append", slow)
        run = place.start("available-now")
        with pytest.raises(FencedError, match="another driver has taken over"):
            run.await_termination(60)
    assert len(place.rows()) < len(on_disk)  # those of the first micro-batch
    others[0].release()
    place.run("bounded")
    assert place.rows() == on_disk


@pytest.mark.slow
def test_a_job_on_bad_storage_gives_the_same_rows(
    place: Place, on_disk: list[Any], s3_port: int, monkeypatch: pytest.MonkeyPatch
):
    proxy = Proxy(s3_port)
    proxy.faults = ["refuse", 0.05, "lose", "refuse", "lose"] * 8
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_address[1]}")
    open_bucket.cache_clear()
    place.run("bounded")
    assert len(proxy.met) > 20
    monkeypatch.undo()
    open_bucket.cache_clear()
    assert place.rows() == on_disk
    proxy.shutdown()


def test_changes_of_queries_reach_a_job_in_a_bucket(place: Place):
    spec = parse_job(SQL + Q)
    place.run("available-now", spec)
    checkpoint = open_checkpoint(place.checkpoint)
    id = requests.submit(checkpoint, P)
    place.come(30, 31)
    place.run("available-now", parse_job(SQL + Q))
    answer = requests.read_answer(checkpoint, id)
    assert answer is not None and answer.state == "in force" and place.rows("p")


@pytest.mark.slow
def test_an_output_that_is_newer_than_its_checkpoint_is_refused_or_truncated(place: Place):
    place.run("available-now")
    store, checkpoint = place.store, locate(place.checkpoint)
    assert isinstance(checkpoint, ObjectPath)
    folders = [checkpoint / "muntin", checkpoint / "muntin" / "commits", checkpoint / "muntin" / "plans"]
    back_up = {file: store.read(file) for folder in folders for file in store.files(folder)}
    sparks = copy.deepcopy(place.session.checkpoints)
    shutil.copytree(place.half, place.root / "back-up")
    place.come(30, 31)
    place.run("available-now")
    wanted = place.rows()
    store.remove_all(checkpoint)
    for file, data in back_up.items():
        store.put(file, data)
    place.session.checkpoints = sparks
    shutil.rmtree(place.half)
    shutil.copytree(place.root / "back-up", place.half)
    with pytest.raises(MuntinError, match="is older than its output: its last micro-batch is 2"):
        place.run("available-now")
    run = place.start("available-now", truncate_output=True)
    assert run.await_termination(60) and any("removed, being newer" in line for line in run.warnings)
    assert place.rows() == wanted


def test_a_long_log_is_folded_and_reads_the_same(memory: ObjectPath, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output_log, "FOLDED", 10)
    log = output_log.OutputLog(memory, "b", "job")
    wanted = []
    for batch in range(0, 70, 2):
        files = [f"q/b{batch:010d}-00{part}-x.parquet" for part in range(2)]
        log.append(batch, [*files, f"p/b{batch:010d}-000-x.parquet"])
        wanted += files
        assert output_log.committed_files(memory, "q") == wanted
    assert len(memory.store.files(memory / "_log")) <= 3 + 9
    again = output_log.OutputLog(memory, "b", "job")
    assert again.last == 68
    again.append(68, ["q/b0000000068-000-y.parquet"])
    assert output_log.committed_files(memory, "q") == wanted, "a replay changes nothing"
    gone = again.truncate(25)
    assert len(gone) == 3 * 22 and output_log.committed_files(memory, "q") == wanted[:26]


@pytest.mark.parametrize(
    "places, why",
    [
        ({"checkpoint": "s3a://b/x"}, "s3a://"),
        ({"output": "hdfs://h/x"}, "hdfs://"),
        ({"output": "csv:s3://bucket/x"}, "CSV files cannot be written to s3://bucket/x"),
        ({"checkpoint": "x", "spark_checkpoint": "y"}, "Spark's half is in it"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    place: Place, places: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place.root)
    before = set(os.listdir(place.root))
    with pytest.raises(UsageError, match=why):
        place.start("bounded", **{"spark_checkpoint": None, **places})
    assert set(os.listdir(place.root)) == before and not place.store.folders(locate(place.output).parent)


@pytest.mark.parametrize(
    "settings, why",
    [
        ("SET delivery = 'eager';", "rows go to Parquet files in an object store only with their micro-batch"),
        ("SET output_layout = 'sliced';", "Parquet files in an object store cannot keep slices"),
        ("SET min_file_size = '1 MB';", "in an object store, where files are not merged: min_file_size has no effect"),
    ],
)
def test_settings_that_a_bucket_cannot_follow_are_refused_before_anything_is_written(
    place: Place, settings: str, why: str
):
    before = set(os.listdir(place.root))
    with pytest.raises(UsageError, match=why):
        place.start("bounded", parse_job(settings + SQL + Q))
    assert set(os.listdir(place.root)) == before and not place.store.folders(locate(place.output).parent)


def test_commands_that_need_a_folder_refuse_a_bucket_by_name(place: Place):
    place.run("available-now")
    kept = {file.key for file in place.store.files(locate(place.checkpoint) / "muntin" / "commits")}
    with pytest.raises(UsageError, match="is in an object store, where files are not merged") as refused:
        open_sink(OutputRequest(str(place.output))).compact([], 1 << 20, None)
    assert refused.value.hint and "delta:URI" in refused.value.hint
    with pytest.raises(UsageError, match="is in an object store") as refused:
        rescale(place.session, locate(place.checkpoint), 3)  # type: ignore[arg-type]
    assert refused.value.hint == "only a checkpoint in a folder can be rescaled"
    assert {file.key for file in place.store.files(locate(place.checkpoint) / "muntin" / "commits")} == kept


def test_another_place_of_sparks_half_is_refused_and_damage_is_named(place: Place):
    place.run("available-now")
    with pytest.raises(UsageError, match=r"Spark's half of .* is in .*/spark, not in"):
        place.run("available-now", spark_checkpoint=place.root / "other")
    checkpoint = locate(place.checkpoint)
    place.store.put(checkpoint / "muntin" / "spark.json", b"x")
    with pytest.raises(DamageError, match=r"spark.json is damaged"):
        open_checkpoint(place.checkpoint)


def test_a_checkpoint_without_write_access_is_refused(tmp_path: Path, capsys: Any):
    (tmp_path / "file").write_text("")
    session = Place(ObjectPath(open_bucket("s3://bucket"), "none"), tmp_path)
    with pytest.raises(UsageError, match="cannot write to the checkpoint") as refused:
        session.run("bounded", output="none", checkpoint=tmp_path / "file" / "ckpt", spark_checkpoint=None)
    assert refused.value.hint
