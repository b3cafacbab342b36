"""`muntin query` against a job that is only played: a thread that answers from the mailbox."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest

from muntin.cli import query
from muntin.cli.main import main
from muntin.spark.checkpoint import requests
from muntin.spark.checkpoint.requests import Answer

HOT = "CREATE QUERY hot AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 min"
AT, FULL = "2026-01-01T00:00:10+00:00", "2026-01-01T00:01:10+00:00"
AT_TIME, FULL_TIME = datetime.fromisoformat(AT), datetime.fromisoformat(FULL)
ADDED = Answer("in force", "hot", "added", 3, AT_TIME, FULL_TIME)
DROPPED = Answer("in force", "hot", "dropped", 4, AT_TIME, freed_rows=1234, freed_bytes=56789)
ACCEPTED = Answer("accepted", "hot", "added", 3)
REFUSED = Answer("refused", "hot", error="there is already a query hot", hint="write CREATE OR REPLACE QUERY")
IN_LOG = "the request waits in the job's log and will be taken up"


# -- a job that runs -------------------------------------------------------------------------------------------------


def test_add_waits_until_the_query_is_in_force(job, ask):
    job.answers(ACCEPTED, ADDED)
    code, out, _ = ask("add", HOT)
    assert (code, out) == (0, f"added hot: applies to results from {AT} on, complete from {FULL}\n")
    assert job.taken == [HOT]
    assert job.files() == [], "what was read is removed"


def test_add_says_what_the_query_may_not_mean(job, ask):
    job.answers(replace(ADDED, warnings=["query hot: nobody means that"]))
    code, out, err = ask("add", HOT)
    assert code == 0 and out.startswith("added hot")
    assert err == "warning: query hot: nobody means that\n"


def test_drop_says_what_was_freed(job, ask):
    job.answers(DROPPED)
    assert ask("drop", "hot") == (
        0,
        f"dropped hot: no results from {AT} on, freed 1,234 rows and 56,789 bytes of state\n",
        "",
    )
    assert job.taken == ["DROP QUERY hot;"]


@pytest.mark.parametrize(
    "answer, said",
    [
        (
            Answer("in force", "hot", "added", 1, AT_TIME, AT_TIME),
            f"added hot: applies to results from {AT} on, complete at once",
        ),
        (
            Answer("in force", "hot", "added", 1, AT_TIME),
            f"added hot: applies to results from {AT} on, complete once its window has filled",
        ),
        (Answer("in force", "hot", "added", 0), "added hot: applies from the beginning, complete at once"),
        (
            Answer("in force", "hot", "replaced", 2, AT_TIME, FULL_TIME),
            f"replaced hot: applies to results from {AT} on, complete",
        ),
        (Answer("in force", "hot", "dropped", 2, AT_TIME), f"dropped hot: no results from {AT} on\n"),
        (Answer("in force", "hot", "dropped", 2, None, freed_rows=0), "dropped hot: no results, freed 0 rows of state"),
    ],
)
def test_what_is_in_force_is_said_in_one_line(job, ask, answer, said):
    job.answers(answer)
    code, out, err = ask("add", HOT)
    assert (code, err) == (0, "")
    assert out.startswith(said) and out.count("\n") == 1


def test_a_refusal_is_the_jobs_error_and_hint_on_stderr(job, ask):
    job.answers(REFUSED)
    message = "muntin: there is already a query hot\n  hint: write CREATE OR REPLACE QUERY\n"
    assert ask("add", HOT) == (1, "", message)
    assert job.files() == []


def test_an_accepted_request_can_still_be_refused(job, ask):
    job.answers(ACCEPTED, REFUSED)
    code, out, err = ask("add", HOT)
    assert (code, out) == (1, "")
    assert err.endswith("muntin: there is already a query hot\n  hint: write CREATE OR REPLACE QUERY\n")


def test_the_answer_as_json(job, ask):
    job.answers(ADDED)
    code, out, _ = ask("add", HOT, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["state"], found["name"], found["complete_from"]) == ("in force", "hot", FULL)


def test_a_refusal_as_json_is_on_both_channels(job, ask):
    job.answers(REFUSED)
    code, out, err = ask("drop", "hot", "--json")
    assert (code, json.loads(out)["error"]) == (1, "there is already a query hot")
    assert err.startswith("muntin: there is already a query hot\n")


def test_the_query_may_be_in_a_file(job, ask, tmp_path):
    (tmp_path / "hot.sql").write_text(f"-- é\n{HOT};\n", encoding="utf-8")
    job.answers(ADDED)
    assert ask("add", f"@{tmp_path / 'hot.sql'}")[0] == 0
    assert job.taken == [f"-- é\n{HOT};\n"]


# -- nobody answers --------------------------------------------------------------------------------------------------


def test_after_the_timeout_the_request_stays_with_the_job(job, ask):
    code, out, err = ask("add", HOT, "--timeout", "0.2")
    assert (code, out) == (1, "")
    assert err.startswith(f"muntin: not in force after 0.2 s: {IN_LOG}\n  hint: ")
    assert [r.sql for r in requests.pending(job.checkpoint)] == [HOT]


def test_after_the_timeout_an_accepted_request_is_said_to_be_accepted(job, ask, monkeypatch):
    submit = requests.submit

    def submit_and_accept(checkpoint, sql):
        id = submit(checkpoint, sql)
        requests.answer(checkpoint, id, ACCEPTED)
        return id

    monkeypatch.setattr(requests, "submit", submit_and_accept)
    code, out, err = ask("add", HOT, "--timeout", "0", "--json")
    assert (code, json.loads(out)["state"]) == (1, "accepted")
    assert "not in force after 0 s: the request is accepted and comes into force\n" in err
    assert [a.state for a in requests.answers(job.checkpoint).values()] == ["accepted"]


def test_no_time_at_all_is_enough_to_send(job, ask):
    code, out, _ = ask("drop", "hot", "--timeout", "0", "--json")
    assert (code, json.loads(out)["state"]) == (1, "waiting")
    assert len(requests.pending(job.checkpoint)) == 1


def test_an_interrupt_leaves_the_request_with_the_job(job, ask, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(query.time, "sleep", interrupt)
    code, out, err = ask("add", HOT)
    assert (code, out) == (1, "")
    assert err.startswith(f"muntin: interrupted: {IN_LOG}\n")
    assert len(requests.pending(job.checkpoint)) == 1


def test_a_job_that_stops_meanwhile_is_not_waited_for(job, ask, monkeypatch):
    monkeypatch.setattr(query, "CHECK_EVERY_S", 0.01)
    job.answers(ACCEPTED, then=lambda: job.status("stopped"))
    code, _, err = ask("add", HOT)
    assert code == 1
    assert "the job has stopped: the request is accepted and comes into force when it runs next\n" in err


# -- a job that does not run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["stopped", "failed", "ended"])
def test_a_job_that_is_not_running_finds_the_request_later(job, ask, state):
    job.status(state)
    code, out, err = ask("add", HOT)
    said = "the job is not running: the request waits in its log and takes effect when the job runs next\n"
    assert (code, out, err) == (0, said, "")
    assert [r.sql for r in requests.pending(job.checkpoint)] == [HOT]


def test_a_request_that_is_left_is_waiting_as_json(job, ask):
    job.status("stopped")
    code, out, _ = ask("drop", "hot", "--json")
    (request,) = requests.pending(job.checkpoint)
    assert (code, json.loads(out)) == (0, {"id": request.id, "state": "waiting"})


def test_a_change_for_now_is_refused_where_no_job_runs(job, ask):
    job.status("stopped")
    code, out, err = ask("drop", "hot", "--now")
    assert (code, out) == (2, "")
    assert (
        err == f"muntin: the job of {job.checkpoint} is not running\n  hint: leave out --now to let the change wait\n"
    )
    assert job.files() == []


def test_a_change_for_now_goes_to_a_job_that_runs(job, ask):
    job.answers(DROPPED)
    assert ask("drop", "hot", "--now")[0] == 0


def test_a_job_that_has_not_counted_yet_is_a_job(job, ask):
    (job.checkpoint / "muntin" / "status.json").rename(job.checkpoint / "muntin" / "job.json")
    assert ask("drop", "hot")[0] == 0
    assert len(requests.pending(job.checkpoint)) == 1


# -- wrong requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["add", HOT], ["drop", "hot"], ["list"]])
@pytest.mark.parametrize("place", ["empty", "nowhere", "file"])
def test_what_is_no_checkpoint_is_refused(ask, tmp_path, arguments, place):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    code, out, err = ask(*arguments, checkpoint=tmp_path / place)
    assert (code, out) == (2, "")
    assert err.startswith(f"muntin: {tmp_path / place} is not the checkpoint of a job\n  hint: ")
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1", "", "  ", "DROP QUERY hot;", "CREATE STREAM s (ts TIMESTAMP)", "CREATE QUERYING", "-- CREATE QUERY q"],
)
def test_what_clearly_creates_no_query_is_not_sent(job, ask, sql):
    code, out, err = ask("add", sql)
    assert (code, out) == (2, "")
    assert err == "muntin: this is not CREATE QUERY\n  hint: write CREATE [OR REPLACE] QUERY name AS SELECT ...\n"
    assert job.files() == []


@pytest.mark.parametrize(
    "sql",
    [
        "create query q as",
        "CREATE OR\n REPLACE\tQUERY q",
        "-- why\n  CREATE QUERY q",
        "/* a */ -- b\n/* c\n*/CREATE QUERY q",
        "CREATE QUERY`q`",
    ],
)
def test_what_may_create_a_query_is_for_the_job_to_judge(sql):
    assert query.new_query(sql) == sql


def test_very_many_comments_are_read_once():
    with pytest.raises(query.UsageError):
        query.new_query("/* a */ -- b\n" * 10_000)


def test_text_that_is_not_utf_8_is_not_sent(job, ask, tmp_path):
    (tmp_path / "hot.sql").write_bytes(HOT.encode() + b"\xff")
    for arguments in (f"@{tmp_path / 'hot.sql'}", HOT + "\udcff"):
        code, out, err = ask("add", arguments)
        assert (code, out) == (2, "")
        assert "not UTF-8 text" in err
    assert job.files() == []


@pytest.mark.parametrize("name", ["nowhere.sql", ""])
def test_a_file_that_cannot_be_read_is_named(job, ask, tmp_path, name):
    code, out, err = ask("add", f"@{tmp_path / name}")
    assert (code, out) == (2, "")
    assert err.startswith(f"muntin: cannot read {tmp_path / name}: ")


@pytest.mark.parametrize("name", ["hot; DROP QUERY cold", "a b", "1a", "", "`hot`", "h-t"])
def test_what_cannot_be_a_name_is_not_sent(job, ask, name):
    code, out, err = ask("drop", name)
    assert (code, out) == (2, "")
    assert "cannot name a query" in err
    assert job.files() == []


@pytest.mark.parametrize("timeout", ["-1", "nan", "inf"])
def test_a_timeout_is_a_number_of_seconds(job, ask, timeout):
    code, _, err = ask("drop", "hot", f"--timeout={timeout}")
    assert code == 2
    assert err.startswith(f"muntin: --timeout cannot be {timeout}\n")
    assert job.files() == []


@pytest.mark.parametrize("action", ["add", "drop", "list"])
def test_every_action_explains_itself_with_an_example(capsys, action):
    with pytest.raises(SystemExit) as leaving:
        main(["query", action, "--help"])
    assert leaving.value.code == 0
    assert f"muntin query {action} --checkpoint" in capsys.readouterr().out.split("example", 1)[1]
