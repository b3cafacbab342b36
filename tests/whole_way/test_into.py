"""Queries with a place of their own, on a stand-in for Spark: each row once in its table, whatever dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint import publisher, read_manifests
from muntin.spark.run import Job, Run, quiet_moments
from muntin.spark.sink import compaction
from muntin.spark.sink.delta import OpenDeltaTable
from muntin.sql import parse_job
from whole_way.drive import kept_apart
from whole_way.stand_in import Session

DAY = 86_400_000_000
STREAMS = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
GROUPS = pa.table({"g": ["x"], "h": ["y"]})
SELECT = "SELECT A.k AS a, B.ts AS b FROM A, B WHERE A.k = B.k WINDOW 3 days"


class Lake:
    """A job with twins: p writes files of the output, q a table."""

    def __init__(self, root: Path):
        self.session, self.root, self.table = Session(), root, root / "lake"
        self.q = f"CREATE QUERY q INTO DELTA '{self.table}' AS {SELECT};"
        self.text = STREAMS + f"CREATE QUERY p AS {SELECT};" + self.q

    def come(self, *times: int) -> None:
        for name in "AB":
            rows = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array([7] * len(times), pa.int64())}
            self.session.files[name].append(pa.table(rows))

    def start(self, mode: str, text: str | None = None, **options: Any) -> Run:
        job = Job(self.session, parse_job(text or self.text))  # type: ignore[arg-type]
        return job.start(**{"output": self.root / "out", "checkpoint": self.root / "ckpt", "mode": mode, **options})

    def run(self, mode: str = "available-now", text: str | None = None, **options: Any) -> Run:
        run = self.start(mode, text, **options)
        assert run.await_termination(60)
        return run

    def files(self, query: str = "p") -> list[tuple[Any, ...]]:
        found = [pq.read_table(f, partitioning=None) for f in sorted((self.root / "out" / query).glob("b*"))]
        return sorted(zip(*pa.concat_tables(found).to_pydict().values(), strict=True)) if found else []

    def rows(self, version: int | None = None) -> list[tuple[Any, ...]]:
        table = DeltaTable(self.table, version).to_pyarrow_table(columns=["a", "b", "_ts"])
        return sorted(zip(*table.to_pydict().values(), strict=True))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with kept_apart(tmp_path):
        yield Lake(tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["offset", "hand-over", "manifest", "table commit", "commit"])
def test_each_row_is_in_its_table_once_wherever_the_process_dies(lake: Lake, action: str, when: str):
    lake.come(10, 12)
    lake.run()
    lake.come(20, DAY + 1)
    lake.session.faults.kill = f"{when} {action}"
    with pytest.raises(MuntinError, match=f"killed {when} {action}"):
        lake.run()
    lake.come(DAY + 5, 2 * DAY)
    lake.run("bounded")
    assert lake.rows() == lake.files() and len(lake.rows()) == 36
    table = DeltaTable(lake.table)
    assert {str(day["_date"]) for day in table.partitions()} == {"1970-01-01", "1970-01-02", "1970-01-03"}
    named = {Path(uri).name for uri in table.file_uris()}
    assert {file.name for file in lake.table.rglob("*.parquet")} == named, "nothing is left of what died"
    assert not (lake.root / "out" / "q").exists(), "its rows are in its own place alone"


def test_a_version_of_a_table_is_whole_micro_batches(lake: Lake):
    for time in (10, 20, 30, 40):
        lake.come(time, time + 2)
    lake.run("bounded")
    brought = [m.rows["q"] for m in reversed(list(read_manifests(lake.root / "ckpt"))) if m.rows.get("q")]
    counts = [len(lake.rows(version)) for version in range(DeltaTable(lake.table).version() + 1)]
    assert counts == [sum(brought[:n]) for n in range(len(brought) + 1)]
    assert len(brought) > 2


def test_rows_of_others_stay_and_are_no_hindrance(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    lake.come(10, 12)
    lake.run()
    adopt = OpenDeltaTable.adopt

    def late(self: Any, *rest: Any) -> None:
        theirs = pa.table({"a": pa.array([99], pa.int64()), "_date": pa.array([0], pa.int32()).cast(pa.date32())})
        write_deltalake(lake.table, theirs, mode="append", schema_mode="merge")
        adopt(self, *rest)

    monkeypatch.setattr(OpenDeltaTable, "adopt", late)
    lake.come(20, 22)
    lake.run("bounded")
    rows = DeltaTable(lake.table).to_pyarrow_table()["a"].to_pylist()
    assert rows.count(99) >= 1 and len([a for a in rows if a == 7]) == len(lake.files()) == 16


def test_a_replaced_query_adds_columns_to_its_table(lake: Lake):
    lake.come(10, 12)
    lake.run()
    lake.come(20, 22)
    wider = lake.q.replace("A.k AS a,", "A.k AS a, A.ts AS seen,")
    lake.run("bounded", lake.text.replace(lake.q, wider))
    seen = DeltaTable(lake.table).to_pyarrow_table()["seen"]
    assert seen.null_count == 4 and len(seen) == 16
    assert lake.rows() == lake.files()


def test_a_query_may_come_and_go_while_the_job_runs_and_its_table_stays(lake: Lake):
    lake.come(10, 12)
    only_p = lake.text.replace(lake.q, "")
    lake.run(text=only_p)
    run = lake.start("endless", only_p)
    lake.session.queries[-1].step()
    run._router.submit(lake.q)
    lake.come(20, 22)
    while lake.session.queries[-1].step():
        pass
    run.stop()
    lake.come(30, 32)
    lake.run("bounded", only_p)
    ts = [row[-1] for row in lake.rows()]
    assert ts and set(lake.rows()) <= set(lake.files())
    assert lake.files("q") == []


def test_what_cannot_go_into_a_table_is_refused_before_anything_runs(lake: Lake):
    lake.come(10, 12)
    for text, said in [
        (lake.text.replace("INTO DELTA", "INTO LAKE"), "rows cannot go INTO LAKE"),
        (lake.text.replace(f"'{lake.table}'", f"'{lake.table}' WITH (x = '1')"), "takes no options"),
        (lake.text.replace("B.ts AS b", "B.ts - A.ts AS b"), "column b is .*, which Delta tables cannot carry"),
        ("SET delivery = 'eager';" + lake.text, "rows go to Delta tables only with their micro-batch"),
    ]:
        with pytest.raises(UsageError, match=said):
            lake.start("available-now", text)
    write_deltalake(lake.table, pa.table({"a": ["x"]}))
    with pytest.raises(UsageError, match=r"column a is .*long.*, but .*string.* in the table"):
        lake.start("available-now")
    write_deltalake(lake.table, GROUPS, mode="overwrite", schema_mode="overwrite", partition_by=["g"])
    with pytest.raises(UsageError, match="is partitioned by g"):
        lake.start("available-now")
    assert not (lake.root / "out" / "_dead_letters").exists()


def test_a_table_has_one_writer(lake: Lake):
    lake.come(10, 12)
    lake.run()
    with pytest.raises(UsageError, match="has the rows of another checkpoint"):
        lake.start("available-now", output=lake.root / "out2", checkpoint=lake.root / "ckpt2")
    twice = lake.text + lake.q.replace("QUERY q", "QUERY r")
    with pytest.raises(UsageError, match="has the rows of query q of this job"):
        lake.start("available-now", twice)


def test_a_checkpoint_that_is_older_than_a_table_is_refused(lake: Lake, tmp_path: Path):
    import copy
    import shutil

    lake.come(10, 12)
    lake.run(output="none")
    shutil.copytree(lake.root / "ckpt", tmp_path / "back-up")
    saved = copy.deepcopy(lake.session.checkpoints)
    lake.come(20, 22)
    lake.run(output="none")
    shutil.rmtree(lake.root / "ckpt")
    shutil.copytree(tmp_path / "back-up", lake.root / "ckpt")
    lake.session.checkpoints = saved
    with pytest.raises(MuntinError, match="the checkpoint is older than the table"):
        lake.start("available-now", output="none")


def test_storage_that_refuses_stops_the_job_with_a_message_and_nothing_is_lost(lake: Lake):
    lake.come(10, 12)
    lake.run()
    log = lake.table / "_delta_log"
    log.rename(lake.root / "aside")
    log.write_text("not a folder")
    with pytest.raises(MuntinError) as refused:
        lake.come(20, 22)
        lake.run()
    assert str(lake.table) in refused.value.message
    log.unlink()
    (lake.root / "aside").rename(log)
    lake.run("bounded")
    assert lake.rows() == lake.files() and len(lake.rows()) == 16


@pytest.mark.slow
@pytest.mark.parametrize("roll_after", ["", "SET roll_after = '1 hour';", "SET roll_after = '1 millisecond';"])
def test_a_job_that_is_never_quiet_merges_small_files_when_it_is_time(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, roll_after: str
):
    monkeypatch.setattr(quiet_moments, "KEPT_MANIFESTS", 3)
    monkeypatch.setattr(publisher, "KEPT_MANIFESTS", 3)
    text = f"SET min_file_size = '1 MB';{roll_after}" + lake.text
    for time in range(10, 24):
        lake.come(time)
    run = lake.start("endless", text)
    for _ in range(14):
        assert lake.session.queries[-1].step()
    run.stop()
    assert lake.files() == lake.rows() and lake.files()
    counts = len(list((lake.root / "out" / "p").glob("b*"))), len(DeltaTable(lake.table).file_uris())
    assert all(count < 10 for count in counts) if "milli" in roll_after else all(count > 12 for count in counts)


@pytest.mark.slow
def test_a_job_merges_small_files_when_nothing_comes(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quiet_moments, "QUIET_S", 0.0)
    monkeypatch.setattr(quiet_moments, "KEPT_MANIFESTS", 3)
    monkeypatch.setattr(publisher, "KEPT_MANIFESTS", 3)
    text = "SET min_file_size = '1 MB';" + lake.text
    for time in range(10, 18):
        lake.come(time)
    run = lake.start("endless", text)
    query, (pipeline,) = lake.session.queries[-1], run._pipelines
    for _ in range(8):
        assert query.step()
    rows, files = lake.files(), len(DeltaTable(lake.table).file_uris())
    for _ in range(6):
        pipeline.note_progress()
    assert lake.files() == rows == lake.rows()
    assert any(compaction.NAME.fullmatch(file.name)[3][3:] for file in (lake.root / "out" / "p").glob("b*"))  # type: ignore[index]
    assert len(DeltaTable(lake.table).file_uris()) < files
    lake.come(30)
    assert query.step()
    run.stop()
    lake.run("bounded", text)
    assert lake.files() == lake.rows() and len(lake.files()) > len(rows)
