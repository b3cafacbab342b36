"""`muntin query list` shows what runs and what waits, and takes nothing away."""

from __future__ import annotations

import json
import time

from cli.test_query import ACCEPTED, ADDED, AT, FULL, HOT, REFUSED
from muntin.spark.checkpoint import requests


def lines(out):
    return [" ".join(line.split()) for line in out.splitlines()]


def test_list_shows_queries_since_when_they_run_and_what_still_waits(job, ask):
    job.status(
        "running",
        warm={"rows": 1, "total_rows": 4321},
        hot={"rows": 0, "total_rows": 7, "applied_from": AT, "complete_from": FULL, "text": "SELECT 1\n  WINDOW 1 min"},
    )
    requests.submit(job.checkpoint, f"{HOT}\n  -- and so on")
    requests.answer(job.checkpoint, "0-a", ADDED)
    requests.answer(job.checkpoint, "0-b", ACCEPTED)
    requests.answer(job.checkpoint, "0-c", REFUSED)
    code, out, err = ask("list")
    assert (code, err) == (0, "")
    assert lines(out)[0] == "job: running"
    assert "warm 4,321 the beginning the beginning" in lines(out)
    assert f"hot 7 {AT} {FULL} SELECT 1 WINDOW 1 min" in lines(out)
    assert lines(out)[-4:] == [
        f"waiting: {HOT} -- and so on",
        "accepted, not yet in force: hot (added)",
        "refused: there is already a query hot",
        "hint: write CREATE OR REPLACE QUERY",
    ]


def test_list_of_a_job_that_keeps_no_texts_has_no_column_for_them(job, ask):
    job.status("stopped", warm={"rows": 1, "total_rows": 4321})
    _, out, _ = ask("list")
    assert "query rows since complete from" in lines(out)
    assert "text" not in out


def test_list_takes_nothing_out_of_the_mailbox(job, ask):
    (job.checkpoint / "muntin" / "requests").mkdir()
    (job.checkpoint / "muntin" / "requests" / "0-damaged.json").write_text("{")
    before = job.files()
    assert ask("list")[0] == 0
    assert job.files() == before


def test_list_as_json(job, ask):
    job.status("stopped", warm={"rows": 1, "total_rows": 4321})
    id = requests.submit(job.checkpoint, HOT)
    requests.answer(job.checkpoint, "0-c", REFUSED)
    code, out, _ = ask("list", "--json")
    found = json.loads(out)
    assert (code, found["state"]) == (0, "stopped")
    assert found["queries"] == {"warm": {"rows": 1, "total_rows": 4321}}
    waiting, refused = found["requests"]
    assert (waiting["id"], waiting["state"], waiting["sql"]) == (id, "waiting", HOT)
    assert abs(waiting["sent"] - time.time()) < 3600
    assert (refused["id"], refused["state"], refused["hint"]) == ("0-c", "refused", REFUSED.hint)


def test_list_of_a_job_that_has_not_begun_is_empty(job, ask):
    (job.checkpoint / "muntin" / "status.json").rename(job.checkpoint / "muntin" / "job.json")
    code, out, _ = ask("list")
    assert (code, lines(out)[0]) == (0, "job: not begun")
