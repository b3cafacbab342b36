"""The mailbox of a job: order, damage, who removes what and when. No Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from muntin.model import MuntinError, Place, SqlError
from muntin.spark.checkpoint import requests
from muntin.spark.checkpoint.durable import DamageError, FileKind, write_json
from muntin.spark.checkpoint.requests import Answer

ADDED = Answer("in force", "hot", "added", 3, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def box(tmp_path):
    """A checkpoint with the folder that every job has."""
    (tmp_path / "muntin").mkdir()
    return tmp_path


def files(box, name):
    folder = box / "muntin" / name
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def put(box, name, content):
    """A request that no client of ours has written."""
    folder = box / "muntin" / "requests"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_bytes(content)


def texts(box):
    return [request.sql for request in requests.pending(box)]


# -- sending ---------------------------------------------------------------------------------------------------------


def test_a_mailbox_that_nobody_has_used_is_empty(tmp_path):
    assert requests.pending(tmp_path) == requests.waiting(tmp_path) == []
    assert requests.answers(tmp_path) == {}
    assert requests.read_answer(tmp_path, "x") is None
    requests.finish(tmp_path, "x")
    requests.forget(tmp_path, "x")
    assert list(tmp_path.iterdir()) == []


def test_requests_come_in_the_order_in_which_they_were_sent(box):
    ids = [requests.submit(box, f"DROP QUERY q{n};") for n in range(20)]
    found = requests.pending(box)
    assert [request.id for request in found] == ids
    assert [request.sql for request in found] == [f"DROP QUERY q{n};" for n in range(20)]
    assert all(abs(request.sent - time.time()) < 3600 for request in found)


def test_a_request_is_a_json_file_whose_name_begins_with_its_time(box):
    id = requests.submit(box, "DROP QUERY ü;")
    stamp, tail = id.split("-")
    assert (len(stamp), len(tail)) == (20, 32)
    stored = json.loads((box / "muntin" / "requests" / f"{id}.json").read_text())["file"]["content"]
    assert set(stored) == {"id", "sql", "sent"}
    assert (stored["id"], stored["sql"]) == (id, "DROP QUERY ü;")


def test_a_clock_that_is_set_back_does_not_change_the_order(box, monkeypatch):
    clock = iter([2_000, 1_000, 1_000])
    monkeypatch.setattr(requests.time, "time_ns", lambda: next(clock))
    for name in "abc":
        requests.submit(box, name)
    assert texts(box) == ["a", "b", "c"]


def test_clients_at_once_lose_nothing_and_keep_their_own_order(box):
    clients, each = 8, 15

    def send(client):
        for n in range(each):
            requests.submit(box, f"{client}:{n}")

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(send, range(clients)))
    found = [text.split(":") for text in texts(box)]
    for client in range(clients):
        assert [int(n) for c, n in found if int(c) == client] == list(range(each))


@pytest.mark.slow
def test_two_processes_share_a_mailbox(box):
    script = (
        "import sys; from pathlib import Path; from muntin.spark.checkpoint.requests import submit\n"
        "for n in range(10): submit(Path(sys.argv[1]), f'{sys.argv[2]}{n}')"
    )
    clients = [subprocess.Popen([sys.executable, "-c", script, box, name]) for name in "ab"]
    assert [client.wait() for client in clients] == [0, 0]
    found = texts(box)
    assert len(found) == 20
    assert [t for t in found if t[0] == "a"] == [f"a{n}" for n in range(10)]
    assert [t for t in found if t[0] == "b"] == [f"b{n}" for n in range(10)]


# -- taking and answering --------------------------------------------------------------------------------------------


def test_an_answer_is_read_as_it_was_given_and_goes_on(box):
    id = requests.submit(box, "CREATE QUERY hot AS ...")
    assert requests.read_answer(box, id) is None
    accepted = Answer("accepted", "hot", "added", epoch=3)
    for answer in (accepted, ADDED):
        requests.answer(box, id, answer)
        assert requests.read_answer(box, id) == answer
    assert requests.answers(box) == {id: ADDED}


def test_a_finished_request_is_gone_and_its_answer_stays(box):
    first, second = requests.submit(box, "first"), requests.submit(box, "second")
    requests.answer(box, first, Answer("accepted", "hot", "added"))
    requests.finish(box, first)
    assert [request.id for request in requests.pending(box)] == [second]
    assert files(box, "requests") == [f"{second}.json"]
    requests.finish(box, first)
    requests.answer(box, first, ADDED)
    assert requests.read_answer(box, first) == ADDED
    requests.forget(box, first)
    assert files(box, "answers") == []


def test_a_request_with_an_answer_is_never_taken_again(box):
    """The process died between answering and removing it."""
    id = requests.submit(box, "DROP QUERY hot;")
    requests.answer(box, id, Answer("accepted", "hot", "dropped"))
    assert requests.waiting(box) == []
    assert files(box, "requests") == [f"{id}.json"], "an onlooker touches nothing"
    assert requests.pending(box) == []
    assert files(box, "requests") == []
    assert requests.read_answer(box, id).state == "accepted"


def test_a_refusal_that_was_read_is_final(box):
    """The reader was quicker than the job, which died before it removed the request."""
    id = requests.submit(box, "DROP QUERY hot;")
    requests.answer(box, id, Answer("refused", error="no"))
    requests.forget(box, id)
    assert requests.pending(box) == []
    assert files(box, "requests") == files(box, "answers") == []


def test_an_answer_is_durable_before_its_request_goes(box, monkeypatch):
    """Seen where pending() does both by itself."""
    put(box, "1-a", b"{")
    seen = []
    remove = requests._remove
    monkeypatch.setattr(requests, "_remove", lambda file: (seen.append(files(box, "answers")), remove(file)))
    requests.pending(box)
    assert seen == [["1-a.json"]]


def test_a_refusal_shows_the_place_and_keeps_the_hint_apart():
    error = SqlError("no stream C", text="FROM C", place=Place(1, 6), hint="streams are A, B")
    refusal = Answer.refusal(error, "hot")
    assert (refusal.state, refusal.name, refusal.hint) == ("refused", "hot", "streams are A, B")
    assert refusal.error == "SQL:1:6: no stream C\n  1 | FROM C\n    |      ^"
    assert Answer.refusal(MuntinError("no")).error == "no"


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"id": "x", "sql": "DROP QU',
        b"\xff\xfe",
        b"[]",
        b"7",
        b"null",
        b'{"sql": "DROP QUERY a;"}',
        b'{"sql": 5, "sent": 1}',
        b'{"sql": "DROP QUERY a;", "sent": "now"}',
        b'{"sql": "DROP QUERY a;", "sent": null}',
        b'{"sql": "DROP QUERY a;", "sent": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
    ],
    ids=range(12),
)
def test_a_damaged_request_is_refused_and_stops_no_other(box, content):
    before = requests.submit(box, "before")
    put(box, "0-damaged", content)
    after = requests.submit(box, "after")
    assert [request.sql for request in requests.waiting(box)] == ["before", "after"]
    assert [request.id for request in requests.pending(box)] == [before, after]
    answer = requests.read_answer(box, "0-damaged")
    assert (answer.state, answer.error) == ("refused", answer.error)
    assert "0-damaged.json is damaged" in answer.error and "muntin query" in answer.hint
    assert files(box, "requests") == [f"{before}.json", f"{after}.json"]


def test_a_request_that_was_copied_to_another_name_is_refused(box):
    id = requests.submit(box, "x")
    put(box, "1-a", (box / "muntin" / "requests" / f"{id}.json").read_bytes())
    assert [request.id for request in requests.pending(box)] == [id]
    assert f"it is the request {id}, copied here" in requests.read_answer(box, "1-a").error


def test_what_is_no_request_file_is_passed_over(box):
    put(box, ".1-a.json", b"{")
    (box / "muntin" / "requests" / "folder.json").mkdir()
    (box / "muntin" / "requests" / "notes.txt").write_text("hello")
    id = requests.submit(box, "x")
    assert [request.id for request in requests.pending(box)] == [id]
    assert requests.answers(box) == {}


def test_a_request_that_vanishes_while_it_is_read_is_passed_over(box, monkeypatch):
    first, second = requests.submit(box, "first"), requests.submit(box, "second")
    read = requests._read

    def vanishing(file):
        if file.stem == first:
            file.unlink()
        return read(file)

    monkeypatch.setattr(requests, "_read", vanishing)
    assert [request.id for request in requests.pending(box)] == [second]
    assert requests.answers(box) == {}


def test_a_request_of_another_user_is_refused(box, monkeypatch):
    id = requests.submit(box, "x")

    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.read_bytes", closed)
        assert requests.pending(box) == []
    assert "may not read" in requests.read_answer(box, id).error


def test_a_refusal_that_cannot_be_written_is_tried_again(box, monkeypatch):
    put(box, "1-a", b"{")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(requests, "write_record", full)
        assert requests.pending(box) == []
    assert files(box, "requests") == ["1-a.json"]
    assert requests.pending(box) == []
    assert requests.read_answer(box, "1-a").state == "refused"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"state": "maybe"}'])
def test_a_damaged_answer_is_named_and_bars_its_request(box, content):
    id = requests.submit(box, "x")
    file = box / "muntin" / "answers" / f"{id}.json"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(DamageError, match=f"{id}.json is damaged"):
        requests.read_answer(box, id)
    assert requests.answers(box) == {}
    assert requests.pending(box) == [], "somebody has taken it"


def test_what_a_later_version_adds_to_an_answer_is_passed_over(box):
    id = requests.submit(box, "x")
    more = {"state": "refused", "error": "no", "mood": "bad"}
    write_json(box / "muntin" / "answers" / f"{id}.json", FileKind.ANSWER, more)
    assert requests.read_answer(box, id) == Answer("refused", error="no")


# -- sweeping --------------------------------------------------------------------------------------------------------


def aged(box, id, seconds):
    os.utime(box / "muntin" / "answers" / f"{id}.json", (time.time() - seconds,) * 2)


def test_answers_that_nobody_fetches_go_after_a_day(box):
    ids = [requests.submit(box, "x") for _ in range(3)]
    for id in ids:
        requests.answer(box, id, ADDED)
    for id in ids[:2]:
        requests.finish(box, id)
    aged(box, ids[0], 2 * requests.KEPT_S)
    aged(box, ids[1], requests.KEPT_S / 2)
    aged(box, ids[2], 2 * requests.KEPT_S)
    requests.submit(box, "y")
    assert list(requests.answers(box)) == ids[1:], "the last one bars its request from being taken again"
    assert texts(box) == ["y"]
