"""Compaction merges small files: the same rows in the same order, the names sort, readers and starts do not mind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog

from muntin.cli.main import main
from muntin.model import MuntinError
from muntin.plan import share
from muntin.spark.checkpoint import KEPT_MANIFESTS, Publisher, identity
from muntin.spark.run import verify
from muntin.spark.sink import compaction, iceberg_compaction
from muntin.spark.sink.iceberg import CATALOGS
from muntin.spark.sink.messages import TaskMessage, outcome_of
from muntin.spark.sink.parquet import write_parquet
from muntin.spark.sink.registry import open_sink
from muntin.spark.sink.sink import OutputRequest, Sink
from muntin.sql import parse_job

JOB = parse_job(
    "CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'a');"
    "CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'b');"
    "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;"
)
BATCHES = KEPT_MANIFESTS + 10


def written(root: Path, output: str, batches: int = BATCHES) -> Sink:
    """An output with two parts of each micro-batch, whose rows count up."""
    plan, checkpoint = share(JOB), root / "ckpt"
    wanted = identity.JobIdentity.of(plan.streams, "auto", JOB.settings, 2, "out")
    job = identity.claim_checkpoint(checkpoint, wanted)
    sink = open_sink(OutputRequest(output))
    sink.job = job
    sink = sink.attached(0, Publisher(checkpoint, sink.folder))
    sink.recover()
    sink.prepare(plan, JOB.settings)
    for batch in range(batches):
        stager = sink.stager(batch)
        messages = [
            TaskMessage(staged=stager.stage("q", part, rows(2 * batch + part)), arrivals={"q": [(0, 1)]})
            for part in (0, 1)
        ]
        sink.commit(outcome_of(batch, messages))
        stager.clear()
    return sink


def rows(number: int) -> pa.Table:
    return pa.table({"k": pa.array([number]), "_ts": pa.array([number], pa.timestamp("us", "UTC"))})


def keys(folder: Path) -> list[int]:
    return [k for file in sorted(folder.glob("b*")) for k in pq.read_table(file, partitioning=None)["k"].to_pylist()]


def test_an_output_is_compacted_but_for_its_last_micro_batches(tmp_path: Path, capsys: Any):
    written(tmp_path, str(tmp_path / "out"))
    folder = tmp_path / "out" / "q"
    (folder / "_punctuations").mkdir()
    (folder / "_punctuations" / "b0000000000-000.parquet").touch()
    before = folder.stat().st_ino
    assert main(["compact", str(tmp_path / "out"), "q", "--checkpoint", str(tmp_path / "ckpt")]) == 0
    assert "60" in capsys.readouterr().out
    names = sorted(file.name for file in folder.glob("b*"))
    assert names[0] == "b0000000000-0000000009.parquet" and len(names) == 1 + 2 * KEPT_MANIFESTS
    assert keys(folder) == list(range(2 * BATCHES)), "the same rows, in the order of names"
    assert pq.read_table(folder, partitioning=None).num_rows == 2 * BATCHES, "the folder as one table"
    assert folder.stat().st_ino != before and (folder / "_punctuations" / "b0000000000-000.parquet").exists()
    assert not list((tmp_path / "out" / "_staging").glob("*"))
    assert verify.verify_output(tmp_path / "ckpt", tmp_path / "out") == []
    assert main(["compact", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "ckpt")]) == 0
    assert sorted(file.name for file in folder.glob("b*")) == names, "nothing is left to do"


def test_a_compacted_output_is_not_truncated_in_the_middle_of_a_file(tmp_path: Path):
    sink = written(tmp_path, str(tmp_path / "out"))
    main(["compact", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "ckpt")])
    for number in range(5, BATCHES):
        (sink.publisher.log.folder / f"{number:010d}.json").unlink(missing_ok=True)
    with pytest.raises(MuntinError, match="was merged of micro-batches that the checkpoint has"):
        verify.truncate_output(tmp_path / "ckpt", tmp_path / "out")


def test_a_compaction_that_dies_leaves_an_output_that_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written(tmp_path, str(tmp_path / "out"))
    folder, ask = tmp_path / "out" / "q", ["compact", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "ckpt")]
    (folder / "_punctuations").mkdir()

    def dies(*_: Any) -> None:
        raise MuntinError("killed")

    for step in ("merge", "_exchange"):
        with monkeypatch.context() as patch:
            patch.setattr(compaction, step, dies)
            patch.setattr(compaction, "sweep_aside", lambda _: None)
            assert main(ask) == 1
        assert keys(folder) == list(range(2 * BATCHES))
    exchange = compaction._exchange
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "_exchange", lambda one, other: (exchange(one, other), dies()))
        patch.setattr(compaction, "sweep_aside", lambda _: None)
        assert main(ask) == 1
    assert keys(folder) == list(range(2 * BATCHES))
    assert main(ask) == 0
    assert (folder / "_punctuations").is_dir(), "it goes back to where it was"
    assert not list((tmp_path / "out" / "_staging").glob("*"))


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.lists(st.sampled_from([1, 5, 400]), min_size=1, max_size=3), max_size=6), kept=st.integers(0, 3)
)
def test_merged_names_sort_in_output_order(tmp_path_factory: pytest.TempPathFactory, sizes: list[Any], kept: int):
    folder = tmp_path_factory.mktemp("out") / "q"
    folder.mkdir()
    names, value = [], 0
    for batch, parts in enumerate(sizes):
        for part, size in enumerate(parts):
            names.append(f"b{batch:010d}-{part:03d}.parquet")
            write_parquet(pa.table({"k": pa.array(range(value, value + size))}), folder / names[-1])
            value += size
    stays = {f"q/{name}" for name in names if int(name[1:11]) >= len(sizes) - kept}
    done = compaction.compact_folder(folder.parent, "q", stays, 2000)
    assert keys(folder) == list(range(value))
    assert (done.before, done.after) == (len(names), len(list(folder.glob("b*"))))
    assert all((folder.parent / name).exists() for name in stays)


def test_delta_tables_are_compacted_while_their_job_goes_on(tmp_path: Path, capsys: Any):
    sink = written(tmp_path, f"delta:{tmp_path / 'out'}", batches=6)
    before = DeltaTable(tmp_path / "out" / "q")
    assert main(["compact", f"delta:{tmp_path / 'out'}"]) == 0
    assert len(DeltaTable(tmp_path / "out" / "q").file_uris()) == 1
    assert sorted(before.to_pyarrow_table()["k"].to_pylist()) == list(range(12)), "who reads the old version, reads on"
    again = written(tmp_path, f"delta:{tmp_path / 'out'}", batches=7)
    assert again.publisher.last.batch == 6 and sink.publisher.last.batch == 5
    assert sorted(DeltaTable(tmp_path / "out" / "q").to_pyarrow_table()["k"].to_pylist()) == list(range(14))


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    monkeypatch.setitem(CATALOGS, "here", load_catalog("here", **where))
    return CATALOGS["here"]


def files_of(table: Any) -> list[str]:
    return sorted(task.file.file_path.rpartition("/")[2] for task in table.scan().plan_files())


def add_foreign(catalog: Any, folder: Path) -> None:
    """A row that somebody else writes into the table."""
    write_parquet(rows(1000), folder / "theirs.parquet")
    catalog.load_table("space.q").add_files([f"file://{folder}/theirs.parquet"])


def test_iceberg_tables_are_compacted_while_their_job_goes_on(tmp_path: Path, catalog: Any, capsys: Any):
    sink = written(tmp_path, "iceberg:here.space", batches=6)
    add_foreign(catalog, tmp_path)
    old = catalog.load_table("space.q").current_snapshot().snapshot_id
    for ask in (["iceberg:here.space"], ["iceberg:here.space.q"], ["iceberg:here.space", "q"]):
        assert main(["compact", *ask]) == 0
        names = files_of(catalog.load_table("space.q"))
        assert len(names) == 2, "those of others stay"
        assert names[0].startswith("b0000000000-0000000005-"), "after its micro-batches"
    after = catalog.load_table("space.q")
    assert after.properties[f"muntin.batch.{sink._transactions}"] == "5"  # type: ignore[attr-defined]
    for table, snapshot in ((after, None), (after, old)):
        got = sorted(table.scan(snapshot_id=snapshot).to_arrow()["k"].to_pylist())
        assert got == [*range(12), 1000], "also for who reads the old snapshot"
    merged = next(task.file for task in after.scan().plan_files() if "/merged/" in task.file.file_path)
    assert pq.read_table(merged.file_path.removeprefix("file://"), partitioning=None)["k"].to_pylist() == list(
        range(12)
    )
    again = written(tmp_path, "iceberg:here.space", batches=8)
    assert again.publisher.last.batch == 7
    assert main(["compact", "iceberg:here.space.q"]) == 0
    assert sorted(catalog.load_table("space.q").scan().to_arrow()["k"].to_pylist()) == [*range(16), 1000]
    assert files_of(catalog.load_table("space.q"))[0].startswith("b0000000000-0000000007-")


def test_an_iceberg_table_with_deleted_rows_or_a_compaction_that_dies_keeps_its_rows(
    tmp_path: Path, catalog: Any, monkeypatch: pytest.MonkeyPatch
):
    written(tmp_path, "iceberg:here.space", batches=4)
    catalog.load_table("space.q").delete("k = 3")
    left = [k for k in range(8) if k != 3]
    with monkeypatch.context() as patch:
        patch.setattr(iceberg_compaction, "_commit", lambda *_: 1 / 0)
        assert main(["compact", "iceberg:here.space"]) == 1
    assert sorted(catalog.load_table("space.q").scan().to_arrow()["k"].to_pylist()) == left
    assert not list((tmp_path / "lake").rglob("merged/*")), "what no snapshot names goes"
    assert main(["compact", "iceberg:here.space"]) == 0
    assert sorted(catalog.load_table("space.q").scan().to_arrow()["k"].to_pylist()) == left


def test_an_iceberg_table_that_changes_under_a_compaction_is_compacted_anew(
    tmp_path: Path, catalog: Any, monkeypatch: pytest.MonkeyPatch
):
    written(tmp_path, "iceberg:here.space", batches=4)
    commit, tries = iceberg_compaction._commit, []

    def late(table: Any, gone: Any, made: Any) -> None:
        if not tries:
            add_foreign(catalog, tmp_path)
        tries.append(made)
        commit(table, gone, made)

    monkeypatch.setattr(iceberg_compaction, "_commit", late)
    assert main(["compact", "iceberg:here.space"]) == 0
    assert sorted(catalog.load_table("space.q").scan().to_arrow()["k"].to_pylist()) == [*range(8), 1000]
    assert len(list((tmp_path / "lake").rglob("merged/*"))) == 1


def test_what_cannot_be_compacted_is_refused(tmp_path: Path, capsys: Any):
    written(tmp_path, str(tmp_path / "out"), batches=1)
    for ask, said in [
        (["out"], "is not the checkpoint of a job"),
        (["out", "nobody", "--checkpoint", "ckpt"], "has no query nobody"),
        (["delta:out"], ""),
        (["csv:out"], "there is nothing to compact"),
        (["out", "--checkpoint", "ckpt", "--min-file-size", "much"], "is not a size"),
    ]:
        place = [word.replace("out", str(tmp_path / "out")).replace("ckpt", str(tmp_path / "ckpt")) for word in ask]
        assert main(["compact", *place]) == (2 if said else 0)
        assert said in capsys.readouterr().err
