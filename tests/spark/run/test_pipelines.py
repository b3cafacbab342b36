"""A query over streams that the job does not read yet gets a streaming query beside the others, which do not notice."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from muntin.model import MuntinError, UsageError, Window
from muntin.oracle import answer, columns
from muntin.spark.checkpoint.identity import stored_job

from ..control.test_changes import SELECT, rows_done, start, until, wanted

pytestmark = pytest.mark.spark

US = 1_000_000
BESIDE = "SELECT A.id AS a, C.id AS b, C.v AS bv FROM A, C WHERE A.k = C.k"
OTHER = BESIDE.replace("A.", "D.").replace("A,", "D,")


def streams(lab: Any) -> str:
    """The job of the laboratory, with two more streams declared that nobody reads."""
    more = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts LATENESS 1 s WITH "
        f"(format = 'parquet', path = '{lab.folder(name)}', maxFilesPerTrigger = '1');\n"
        for name in "CD"
    )
    return more + lab.sql({"short": lab.queries["short"]})


def feed(lab: Any, rows: Any, first: int, count: int, names: str = "ABC") -> None:
    for name in names:
        lab.tables.setdefault(name, [])
        lab.add_files(name, rows(ord(name), 600).slice(first, count), 1)


def with_c(lab: Any, window_s: int) -> list[tuple[Any, ...]]:
    """The oracle's rows of a query over A and C."""
    left, right = (
        [r for t in lab.tables[s] for r in t.set_column(0, "ts", t["ts"].cast("int64")).to_pylist()] for s in "AC"
    )
    pairs = answer(Window(window_s * US, window_s * US), left, right, (columns("k"), columns("k")), (None, None))
    return sorted((p.left["id"], p.right["id"], p.right["v"], p.ts) for p in pairs)


def test_streams_that_were_not_read_are_read_beside_the_others(lab: Any, rows: Any):
    lab.per_trigger = 1
    feed(lab, rows, 0, 200)
    text = streams(lab)
    run = start(lab, text)
    try:
        until(lambda: rows_done(run) >= 400, run)
        added = run.add(f"CREATE QUERY beside AS {BESIDE} WINDOW 4 s")
        assert (added.state, added.applied_from, added.complete_from) == ("in force", None, None)
        second = run.add(f"CREATE QUERY beside2 AS {BESIDE} WINDOW 2 s")
        assert second.state == "in force"
        status = run.status()
        assert [pipeline["queries"] for pipeline in status["pipelines"]] == [["short"], ["beside", "beside2"]]
        assert {"A", "B", "C"} <= set(status["sources"]) and [j["pipeline"] for j in status["joins"]] == [0, 1]
        feed(lab, rows, 200, 200)
        # Before everything that A has had: late. And of C, a row without a time.
        late = rows(ord("A"), 600).slice(0, 1)
        lab.add_files("A", late, 1)
        nameless = rows(ord("C"), 600).slice(0, 1)
        lab.add_files("C", nameless.set_column(0, "ts", pa.nulls(1, pa.timestamp("us", "UTC"))), 1)
        done = 801, 401
        until(lambda: [run.status()["pipelines"][n]["sources"]["A"]["total_rows"] for n in (0, 1)] == [401, 401], run)
        until(lambda: run.status()["pipelines"][1]["sources"]["C"]["total_rows"] == done[1], run)
        until(lambda: rows_done(run) >= done[0], run)
    finally:
        run.stop()
    assert sorted((row["stream"], row["reason"].split(":")[0]) for row in lab.letters()) == [
        ("A", "late"),
        ("C", "null_time"),
    ], "of a stream that two read, the first reports"
    for name in "AC":
        lab.tables[name][-1] = lab.tables[name][-1].slice(0, 0)  # no answer has them
    short = wanted(lab, 1)
    feed(lab, rows, 400, 200)
    more = f"CREATE QUERY beside AS {BESIDE} WINDOW 4 s;\nCREATE QUERY third AS {OTHER} WINDOW 1 s;"
    last = start(lab, text.replace("CREATE QUERY short", "-- ") + more, "bounded")
    assert last.differences == ["query third: new", "query short: gone", "query beside2: gone"]
    assert last.await_termination(300)
    status = last.status()
    assert status["state"] == "ended" and [pipeline["queries"] for pipeline in status["pipelines"]] == [
        ["beside"],
        ["third"],
    ]
    assert [pipeline["pipeline"] for pipeline in status["pipelines"]] == [1, 2], "the first has ended"
    assert status["dropped"]["total_rows"] >= len(lab.got("short")) > 0
    assert sorted(lab.got("beside")) == with_c(lab, 4), "from the beginning of the streams, and nothing twice"
    assert set(lab.got("beside2")) <= set(with_c(lab, 2)) and len(lab.got("beside2")) == len(set(lab.got("beside2")))
    assert set(lab.got("short")) <= set(short) and len(lab.got("short")) > 0.9 * len(short), "but for what is held"
    assert not (lab.checkpoint / "offsets").exists() and stored_job(lab.checkpoint)
    with pytest.raises(UsageError, match="there is no"):
        start(lab, text.replace(str(lab.folder("D")), "nowhere") + more)


def test_a_pipeline_ends_with_its_last_query_and_the_job_goes_on(lab: Any, rows: Any):
    feed(lab, rows, 0, 100, "ABC")
    (lab.folder("D") / "0000.parquet").write_bytes(b"this is no Parquet file")
    run = start(lab, streams(lab))
    try:
        with pytest.raises(MuntinError, match="cannot read"):
            run.add(f"CREATE QUERY beside AS {OTHER} WINDOW 4 s")
        assert not (lab.checkpoint / "pipelines" / "001").exists(), (
            "what cannot begin leaves no trace, and nobody notices"
        )
        run.add(f"CREATE QUERY beside AS {BESIDE} WINDOW 4 s")
        pipeline = lab.checkpoint / "pipelines" / "001"
        until(lambda: run.status()["queries"]["beside"]["total_rows"] > 0, run)
        rows_before = len(lab.got("beside"))
        dropped = run.drop("beside")
        assert dropped.freed_rows > 0
        until(lambda: len(run.status()["pipelines"]) == 1, run)
        until(lambda: not (pipeline / "offsets").exists(), run)
        assert run.status()["dropped"] == {"queries": 1, "total_rows": rows_before}
        again = run.add(f"CREATE QUERY beside AS {BESIDE} WINDOW 4 s")
        assert again.state == "in force" and (lab.checkpoint / "pipelines" / "002" / "offsets").exists()
        until(lambda: run.status()["queries"]["beside"]["total_rows"] == rows_before, run)
        run.drop("short")
        until(lambda: [pipeline["pipeline"] for pipeline in run.status()["pipelines"]] == [2], run)
        run.add(f"CREATE QUERY short AS {SELECT} WINDOW 1 s")
        assert [pipeline["pipeline"] for pipeline in run.status()["pipelines"]] == [2, 3]
    finally:
        run.stop()
    assert len(lab.got("beside")) == 2 * rows_before, "no file of the pipeline before is written over"
