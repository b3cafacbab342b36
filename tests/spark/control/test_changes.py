"""Queries added, replaced and dropped in a running Spark job, by Python and from the mailbox, over restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from muntin.model import MuntinError, SqlError, Window
from muntin.oracle import answer, columns
from muntin.spark.checkpoint import requests
from muntin.spark.run import Job
from muntin.sql import parse_job

US = 1_000_000
SELECT = "SELECT A.id AS a, B.id AS b, B.v AS bv FROM A, B WHERE A.k = B.k"


def start(lab: Any, text: str, mode: str = "endless") -> Any:
    return Job(lab.spark, parse_job(text)).start(output=lab.output, checkpoint=lab.checkpoint, mode=mode)


def until(what: Any, run: Any = None) -> None:
    """Wait for something that a job does; a job that has failed says why instead."""
    for _ in range(4800):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError(f"it does not happen: {run and run.status()}")


def wanted(lab: Any, window_s: float, keep: Any = None) -> list[tuple[Any, ...]]:
    """The oracle's rows of a query over all that was written so far."""
    left, right = (
        [r for t in lab.tables[s] for r in t.set_column(0, "ts", t["ts"].cast("int64")).to_pylist()] for s in "AB"
    )
    window = Window(round(window_s * US), round(window_s * US))
    pairs = answer(window, left, right, (columns("k"), columns("k")), (keep, None))
    return sorted((p.left["id"], p.right["id"], p.right["v"], p.ts) for p in pairs)


def feed(lab: Any, rows: Any, first: int, count: int) -> None:
    """The next slices of two fixed streams, one file each."""
    for stream, seed in (("A", 71), ("B", 72)):
        lab.add_files(stream, rows(seed, 600).slice(first, count), 1)


def rows_done(run: Any) -> int:
    return sum(s["total_rows"] for n, s in run.status()["sources"].items() if n in "AB")


@pytest.mark.spark
def test_queries_come_and_go_while_the_job_runs(lab: Any, rows: Any):
    lab.per_trigger = 1
    feed(lab, rows, 0, 200)
    run = start(lab, lab.sql())
    try:
        until(lambda: rows_done(run) >= 400, run)
        extra = run.add(f"CREATE QUERY extra AS {SELECT} AND A.v > 30 WINDOW 5 s")
        assert (extra.state, extra.kind, extra.name) == ("in force", "added", "extra")
        assert extra.applied_from and extra.complete_from and extra.complete_from >= extra.applied_from
        within = run.add(f"CREATE QUERY within AS {SELECT} WINDOW 2 s")
        assert within.complete_from is not None and within.applied_from is not None
        with pytest.raises(SqlError, match="already a query"):
            run.add(f"CREATE QUERY extra AS {SELECT} WINDOW 1 s")
        with pytest.raises(SqlError, match="no query nothing"):
            run.drop("nothing")
        feed(lab, rows, 200, 200)
        until(lambda: rows_done(run) >= 800, run)
        request = requests.submit(lab.checkpoint, "DROP QUERY hot")
        until(lambda: (a := requests.read_answer(lab.checkpoint, request)) is not None and a.state == "in force")
        dropped = requests.read_answer(lab.checkpoint, request)
        assert dropped.kind == "dropped" and dropped.freed_rows > 0
        refused = requests.submit(lab.checkpoint, "CREATE QUERY bad AS SELECT nonsense FROM A, B")
        until(lambda: requests.read_answer(lab.checkpoint, refused) is not None)
        assert requests.read_answer(lab.checkpoint, refused).state == "refused"
        status = run.status()
        assert set(status["queries"]) == {"short", "long", "extra", "within"}
        assert status["queries"]["extra"]["complete_from"] == extra.complete_from.isoformat()
        feed(lab, rows, 400, 200)
        until(lambda: rows_done(run) >= 1200, run)
    finally:
        run.stop()
    again = start(lab, lab.sql({k: v for k, v in lab.queries.items() if k != "hot"}) + rest(), "bounded")
    assert again.await_termination(120)
    assert again.differences == []
    assert lab.got("short") and sorted(lab.got("short")) == wanted(lab, 1)
    assert sorted(lab.got("long")) == wanted(lab, 8)
    check(lab, "extra", wanted(lab, 5, lambda r: r["v"] > 30), extra)
    check(lab, "within", wanted(lab, 2), within)
    hot = wanted(lab, 20, lambda r: r["v"] > 60)
    assert 0 < len(lab.got("hot")) < len(hot) and set(lab.got("hot")) <= set(hot)


def rest() -> str:
    return f"CREATE QUERY extra AS {SELECT} AND A.v > 30 WINDOW 5 s;\nCREATE QUERY within AS {SELECT} WINDOW 2 s;\n"


def check(lab: Any, name: str, every: list[tuple[Any, ...]], added: Any) -> None:
    """All rows from where the answer is complete, none that the oracle does not have, none twice, in order."""
    got = lab.got(name)
    complete = int(added.complete_from.timestamp() * US)
    assert set(got) <= set(every) and len(got) == len(set(got))
    assert [r for r in every if r[-1] >= complete] == sorted(r for r in got if r[-1] >= complete)
    assert [row[-1] for row in got] == sorted(row[-1] for row in got)


@pytest.mark.stand_in
def test_a_changed_job_file_is_a_change_of_the_running_job(lab: Any, rows: Any):
    lab.per_trigger = 1
    feed(lab, rows, 0, 300)
    start(lab, lab.sql(), "available-now").await_termination(120)
    feed(lab, rows, 300, 300)
    text = lab.sql({k: v for k, v in lab.queries.items() if k != "short"}).replace("WINDOW 8 s", "WINDOW 6 s")
    run = start(lab, text + f"CREATE QUERY other AS {SELECT} AND A.id = B.id WINDOW 3 s;", "bounded")
    assert run.differences == ["query other: new", "query short: gone", "query long: changed"]
    assert run.await_termination(120)
    assert set(run.status()["queries"]) == {"long", "hot", "other"}
    assert sorted(lab.got("hot")) == wanted(lab, 20, lambda r: r["v"] > 60), "the others do not notice"
    eight, six = set(wanted(lab, 8)), set(wanted(lab, 6))
    assert set(lab.got("long")) <= eight and len(lab.got("long")) == len(set(lab.got("long")))
    assert len(set(lab.got("long")) & six) > 0.9 * len(six)
    with pytest.raises(MuntinError, match="stream B, column id: was bigint, is int"):
        start(lab, text.replace("CREATE STREAM B (ts TIMESTAMP, id BIGINT", "CREATE STREAM B (ts TIMESTAMP, id INT"))


@pytest.mark.spark
def test_two_clients_at_once_are_served_in_order(lab: Any, rows: Any):
    feed(lab, rows, 0, 60)
    run = start(lab, lab.sql())
    try:
        until(lambda: rows_done(run) >= 120, run)
        answers: list[Any] = []
        names = [f"c{n}" for n in range(4)]
        clients = [
            threading.Thread(target=lambda n=n: answers.append(run.add(f"CREATE QUERY {n} AS {SELECT} WINDOW 1 s")))
            for n in names
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert sorted(a.name for a in answers) == names and {a.state for a in answers} == {"in force"}
        assert len({a.epoch for a in answers}) == 4
        assert set(names) <= set(run.status()["queries"])
    finally:
        run.stop()


@pytest.mark.spark
def test_a_run_that_is_killed_in_the_middle_of_a_change_finishes_it_when_it_runs_again(
    lab: Any, rows: Any, tmp_path: Path
):
    lab.per_trigger = 1
    feed(lab, rows, 0, 200)
    extra = f"CREATE QUERY extra AS {SELECT} AND A.v > 30 WINDOW 5 s"
    (tmp_path / "job.sql").write_text(lab.sql())
    command = [sys.executable, "-m", "muntin.cli.main", "run", "job.sql", "--output", "out", "--checkpoint", "ckpt"]
    with open(tmp_path / "said", "wb") as said:
        child = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said, start_new_session=True)
    try:
        until(lambda: (lab.checkpoint / "muntin/commits/0000000000.json").exists() or child.poll() is not None)
        request = requests.submit(lab.checkpoint, extra)
        until(lambda: requests.read_answer(lab.checkpoint, request) is not None or child.poll() is not None)
        feed(lab, rows, 200, 200)
    finally:
        assert child.poll() is None, (tmp_path / "said").read_text()
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    run = start(lab, lab.sql() + extra + ";", "bounded")
    assert run.differences == [] and run.await_termination(300)
    answer = requests.read_answer(lab.checkpoint, request)
    assert answer.state == "in force" and set(run.status()["queries"]) == {*lab.queries, "extra"}
    check(lab, "extra", wanted(lab, 5, lambda r: r["v"] > 30), answer)
    lab.check()
