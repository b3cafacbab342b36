"""A query asks for the past of a job that runs, on Spark: it is read beside the job, and then the join is shared."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from ..control.test_changes import SELECT, feed, rows_done, start, until, wanted

pytestmark = pytest.mark.spark
STEP = 20


def test_the_past_is_read_beside_the_job_and_the_query_then_shares_its_join(lab: Any, rows: Any):
    lab.per_trigger = 1
    feed(lab, rows, 0, 2 * STEP)
    text = lab.sql({"short": lab.queries["short"]})
    past = f"CREATE QUERY past FROM BEGINNING AS {SELECT} WINDOW 3 s"
    run = start(lab, text)
    try:
        until(lambda: rows_done(run) >= 4 * STEP, run)
        added = run.add(past)
        assert (added.state, added.applied_from, added.complete_from) == ("in force", None, None)
        assert [p["queries"] for p in run.status()["pipelines"]] == [["short"], ["past"]]
        for first in count(2 * STEP, STEP):
            if len(run.status()["pipelines"]) == 1:
                break
            assert first < 30 * STEP, run.status()
            feed(lab, rows, first, STEP)
            until(lambda done=2 * (first + STEP): rows_done(run) >= done, run)
        status = run.status()
        assert status["queries"]["past"]["past"].startswith("shared from ")
        assert len(status["joins"]) == 1 and set(status["joins"][0]["queries"]) == {"short", "past"}
        feed(lab, rows, first, STEP)
    finally:
        run.stop()
    last = start(lab, f"{text}{past};", "bounded")
    assert last.differences == []
    assert last.await_termination(300)
    assert last.status()["queries"]["past"]["total_rows"] == len(lab.got("past"))
    for name, seconds in (("past", 3), ("short", 1)):
        got = lab.got(name)
        assert sorted(got) == wanted(lab, seconds), name
        assert [row[-1] for row in got] == sorted(row[-1] for row in got), name
    assert {file.name[0] for file in lab.files("past") if file.name[0] != "0"} == {"a", "b"}
