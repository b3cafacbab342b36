"""Whole jobs on Spark against the oracle: whatever the cuts, restarts and replays, the rows are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin.model import UsageError
from muntin.spark.run import Job, read_status


@pytest.mark.parametrize(
    "per_trigger", [pytest.param(1, marks=pytest.mark.spark), pytest.param(20, marks=pytest.mark.stand_in)]
)
def test_a_bounded_run_gives_the_oracles_rows_in_order_and_reads_each_source_once(
    lab: Any, rows: Any, per_trigger: int
):
    lab.per_trigger = per_trigger
    lab.add_files("A", rows(1, 240, nulls=True), 3)
    lab.add_files("B", rows(2, 200, nulls=True), 2)
    status = lab.run()
    lab.check()
    assert status["state"] == "ended"
    assert {name: s["total_rows"] for name, s in status["sources"].items()} == {"A": 240, "B": 200, "_control": 1}
    assert {q: s["total_rows"] for q, s in status["queries"].items()} == {q: len(lab.got(q)) for q in status["queries"]}
    null_times = sum(t["ts"].null_count for side in lab.tables.values() for t in side)
    letters = lab.letters()
    assert null_times == len(letters) == status["dead_letters"]["null_time"]
    assert json.loads(letters[0]["row"])["ts"] is None
    assert letters[0]["ts"] is None
    assert read_status(lab.checkpoint)["state"] == "ended"


@pytest.mark.stand_in
def test_disorder_within_the_lateness_loses_nothing_and_restarts_change_nothing(lab: Any, rows: Any):
    lab.lateness_s, lab.per_trigger = 3, 1
    left, right = rows(3, 260, lateness_s=3), rows(4, 260, lateness_s=3)
    lab.add_files("A", left.slice(0, 150), 2)
    lab.add_files("B", right.slice(0, 120), 1)
    assert lab.run("available-now")["state"] == "stopped"
    held = {query: len(lab.got(query)) for query in ("short", "long")}
    lab.add_files("A", left.slice(150), 1)
    lab.add_files("B", right.slice(120), 2)
    lab.run("available-now")
    assert all(len(lab.got(query)) > n for query, n in held.items())
    lab.run("bounded")
    lab.check()
    assert not lab.letters()


@pytest.mark.spark
def test_a_replayed_batch_is_not_doubled(lab: Any, rows: Any):
    """As after a crash between our publishing and Spark's own commit."""
    lab.add_files("A", rows(5, 200), 2)
    lab.add_files("B", rows(6, 200), 2)
    lab.run("available-now")
    before = {file: file.stat().st_ino for file in lab.files("long")}
    last = max((lab.checkpoint / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    last.unlink()
    crc = last.with_name(f".{last.name}.crc")
    crc.unlink(missing_ok=True)
    status = lab.run("available-now")
    assert last.exists() and status["batches"] == 1, "the batch was run again"
    assert {file: file.stat().st_ino for file in lab.files("long")} == before
    assert status["queries"]["long"]["total_rows"] == len(lab.got("long"))
    lab.run("bounded")
    lab.check()


@pytest.mark.stand_in
def test_late_rows_are_dead_letters_and_rows_after_the_end_are_refused(lab: Any, rows: Any):
    lab.per_trigger = 1
    whole = rows(7, 120)
    lab.add_files("A", whole.slice(60), 1)
    lab.add_files("A", whole.slice(0, 60), 1)
    lab.add_files("B", rows(8, 120), 1)
    status = lab.run("bounded")
    assert status["dead_letters"] == {"late": 60}
    assert all(letter["reason"].startswith("late: ") and letter["stream"] == "A" for letter in lab.letters())
    lab.add_files("B", rows(9, 10), 1)
    for mode in ("bounded", "available-now", "endless"):
        with pytest.raises(UsageError, match="a bounded run has ended the streams of"):
            lab.run(mode)


@pytest.mark.stand_in
def test_key_order_and_counting_give_the_same_rows(lab: Any, rows: Any):
    lab.settings = "SET output_order = 'key';\n"
    lab.add_files("A", rows(10, 150), 2)
    lab.add_files("B", rows(11, 150), 2)
    lab.run()
    lab.check(ordered=False)
    counted = lab.run(output="none", checkpoint=lab.root / "counting")
    for query, counts in counted["queries"].items():
        assert counts["total_rows"] == len(lab.wanted(query))


@pytest.mark.spark
def test_a_callable_gets_every_table_in_order(lab: Any, rows: Any):
    lab.add_files("A", rows(12, 100, nulls=True), 1)
    lab.add_files("B", rows(13, 100), 1)
    received: list[tuple[str, pa.Table, int]] = []
    lab.run(output=None, sink=lambda *call: received.append(call))
    for query in ("short", "long", "hot"):
        tables = [table for name, table, _ in received if name == query]
        times = [t for table in tables for t in table["_ts"].cast(pa.int64()).to_pylist()]
        assert times == [row[-1] for row in lab.wanted(query)]
    assert sum(t.num_rows for name, t, _ in received if name == "_dead_letters") == lab.tables["A"][0]["ts"].null_count
    assert [batch for *_, batch in received] == sorted(batch for *_, batch in received)


@pytest.mark.spark
def test_malformed_json_lines_are_dead_letters_with_their_text(lab: Any, tmp_path: Path):
    folders = {}
    for name in "AB":
        folders[name] = tmp_path / f"json{name}"
        folders[name].mkdir()
        (folders[name] / "x.json").write_text('{"ts": "2024-01-01T00:00:00Z", "k": "é"}\n{"ts": oops\n')
    sql = "".join(
        f"CREATE STREAM {n} (ts TIMESTAMP, k STRING) TIMESTAMP BY ts WITH (format = 'json', path = '{f}');\n"
        for n, f in folders.items()
    )
    from muntin.sql import parse_job

    spec = parse_job(sql + "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;")
    run = Job(lab.spark, spec).start(output=lab.output, mode="bounded")
    run.await_termination(120)
    assert run.status()["queries"]["q"]["total_rows"] == 1
    assert run.status()["dead_letters"] == {"malformed": 2}
    assert {json.loads(row["row"])["_corrupt_record"] for row in lab.letters()} == {'{"ts": oops'}


@pytest.mark.spark
def test_another_job_another_output_and_a_second_process_are_refused(lab: Any, rows: Any):
    lab.add_files("A", rows(17, 30), 1)
    lab.add_files("B", rows(18, 30), 1)
    run = Job(lab.spark, lab.spec()).start(output=lab.output, checkpoint=lab.checkpoint)
    try:
        with pytest.raises(UsageError, match="is running on"):
            lab.run()
    finally:
        run.stop()
    assert run.status()["state"] == "stopped"
    lab.settings = "SET output_order = 'key';\n"
    with pytest.raises(UsageError, match="output_order: was global, is key"):
        lab.run()
    lab.settings = ""
    with pytest.raises(UsageError, match="another checkpoint"):
        lab.run(checkpoint=lab.root / "other")


@pytest.mark.spark
def test_streams_may_come_from_any_streaming_dataframe(lab: Any, rows: Any):
    lab.add_files("A", rows(19, 60), 1)
    lab.add_files("B", rows(20, 60), 1)
    job = Job(lab.spark)
    for name in "AB":
        reader = lab.spark.readStream.schema("ts timestamp, id bigint, k bigint, v double")
        job.stream(name, reader.parquet(str(lab.folder(name))), time="ts", lateness="1 second")
    job.query("long", "SELECT A.id AS a, B.id AS b, B.v AS bv FROM A, B WHERE A.k = B.k WINDOW 8 s")
    assert "long" in job.explain()
    job.start(output=lab.output, mode="bounded").await_termination(120)
    assert sorted(lab.got("long")) == sorted(lab.wanted("long"))
