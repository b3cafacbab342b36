"""The JSON API over a job that runs: what it shows, and changes with the checks and words of the command line."""

from __future__ import annotations

import json
import re

import pytest

from muntin.cli.main import main
from muntin.spark.run import read_status, status_now
from muntin.web import rows
from muntin.web.live import LiveJob
from web.played import MARKUP

NEW = "CREATE QUERY extra AS SELECT A.place FROM Heat A, Damp B WHERE A.place = B.place AND A.v > 18 WINDOW 90 seconds"


def in_force(client, job, sent) -> dict:
    assert sent.status_code == 202, sent.text
    for _ in range(5):
        job.tick()
        found = client.post(f"/api/requests/{sent.json()['id']}").json()
        if found["state"] not in ("waiting", "accepted"):
            return found
    raise AssertionError(found)


def test_the_status_is_that_of_the_command_line(reader, job, capsys):
    assert main(["status", "--checkpoint", str(job.checkpoint), "--json"]) == 0
    assert reader.get("/api/status").json() == json.loads(capsys.readouterr().out)


def test_the_plan_in_force_has_the_slices_and_readers_of_the_running_joins(reader):
    plan, status = reader.get("/api/plan").json(), reader.get("/api/status").json()
    (join,), (live,) = plan["plans"][0]["joins"], status["joins"]
    for state, slices in zip(join["state"], live["slices"], strict=True):
        assert [(s["from"], s["to"]) for s in state["slices"]] == [(s["lo"], s["hi"]) for s in slices]
    assert join["state"][0]["slices"][-1]["readers"] == ["longer"]


def test_the_same_queries_apart_would_keep_more_and_read_each_row_three_times(reader):
    apart, plan = reader.get("/api/sharing").json()["apart"], reader.get("/api/plan").json()["plans"][0]
    assert apart["rows"] > plan["joins"][0]["predicted"]["rows"] and apart["readers"] == pytest.approx(3)


def test_a_query_has_its_text_and_what_only_it_needs(reader):
    found = reader.get("/api/queries/longer").json()
    assert found["text"].startswith("CREATE QUERY longer")
    assert 0 < found["only_for_it"]["rows"] < sum(
        slice["predicted"]["rows"] for state in reader.get("/api/plan").json()["plans"][0]["joins"][0]["state"]
        for slice in state["slices"]
    )  # fmt: skip
    assert reader.get("/api/queries/nobody").status_code == 422


def test_the_last_rows_are_those_of_the_last_file_as_texts(reader, job):
    import pyarrow.parquet as pq

    found = reader.get("/api/queries/together/rows").json()["rows"]
    last = pq.read_table(max(job.output.glob("together/b*.parquet"))).to_pylist()[-1]
    assert found[0] == {name: v.isoformat() if name == "_ts" else str(v) for name, v in last.items()}
    assert found[0]["note"] == MARKUP and len(found) == rows.ROWS


@pytest.mark.parametrize("name", ["..", "%2e%2e", "../../etc", "_dead_letters", "_staging", "nobody"])
def test_no_name_leads_out_of_the_queries(reader, name):
    assert reader.get(f"/api/queries/{name}/rows").status_code in (404, 422)


def test_dead_letters_come_with_examples(reader):
    found = reader.get("/api/dead-letters").json()
    assert found["counts"]["late"] > 0
    assert found["examples"][0]["reason"].startswith("late: ") and MARKUP in found["examples"][0]["row"]


def test_only_a_few_of_many_dead_letters_are_read(tmp_path, job, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(rows, "output_folder", lambda checkpoint: tmp_path)
    (tmp_path / "_dead_letters").mkdir()
    many = pa.table({"reason": ["late: x"] * 1_000_000, "row": ["{}"] * 1_000_000})
    for n in range(3):
        pq.write_table(many, tmp_path / "_dead_letters" / f"b{n:010d}-000.parquet")
    assert len(rows.dead_letters(job.checkpoint)) == 3


def test_a_preview_says_what_a_change_would_do_and_does_nothing(client, job):
    before = read_status(job.checkpoint)["epoch"]
    found = client.post("/api/preview", json={"sql": NEW}).json()
    assert (found["kind"], found["name"]) == ("add", "extra")
    assert found["new_cuts"] == {"Heat": [90_000_000], "Damp": [90_000_000]} and found["gone_cuts"] == {}
    assert found["after"]["slices"] == found["before"]["slices"] + 2
    assert found["after"]["rows"] > found["before"]["rows"]
    assert "extra" in found["plan"]["joins"][0]["state"][0]["slices"][0]["readers"]
    assert found["complete"].startswith("complete from about 20")
    job.tick()
    assert read_status(job.checkpoint)["epoch"] == before


def test_a_query_that_needs_nothing_more_would_be_complete_at_once(client):
    sql = (
        "CREATE QUERY less AS SELECT A.place FROM Heat A, Damp B WHERE A.place = B.place AND A.v > 20 WINDOW 4 seconds"
    )
    assert client.post("/api/preview", json={"sql": sql}).json()["complete"].startswith("complete at once")


def test_the_preview_of_a_drop_says_what_goes(client):
    found = client.post("/api/preview", json={"sql": "DROP QUERY longer"}).json()
    assert found["gone_cuts"] == {"Heat": [120_000_000], "Damp": [120_000_000]}
    assert found["after"]["rows"] < found["before"]["rows"] and found["complete"] == ""


def test_a_query_is_added_and_dropped_with_the_words_of_the_command_line(client, job):
    added = in_force(client, job, client.post("/api/queries", json={"sql": NEW}))
    assert re.fullmatch(r"added extra: applies to results from \S+ on, complete from \S+", added["told"])
    assert "extra" in client.get("/api/status").json()["queries"]
    ages = [s["to"] for s in client.get("/api/plan").json()["plans"][0]["joins"][0]["state"][0]["slices"]]
    assert 90_000_000 in ages
    dropped = in_force(client, job, client.delete("/api/queries/extra"))
    assert re.match(r"dropped extra: no results from \S+ on, freed [\d,]+ rows", dropped["told"])
    assert client.get("/api/requests").json() == []


WRONG = {
    "CREATE QUERY hot AS SELECT A.place FROM Heat A, Damp B WHERE A.place = B.place WINDOW 1 s": "hot",
    "CREATE QUERY x AS SELECT A.nothing FROM Heat A, Damp B WHERE A.place = B.place WINDOW 1 s": "nothing",
    "CREATE QUERY x AS SELECT A.place FROM Heat A, Nowhere B WHERE A.place = B.place WINDOW 1 s": "Nowhere",
}


@pytest.mark.parametrize("sql", WRONG, ids=WRONG.get)
@pytest.mark.parametrize("path", ["/api/queries", "/api/preview"])
def test_a_wrong_statement_is_refused_at_its_place_and_sent_to_nobody(client, job, sql, path):
    answer = client.post(path, json={"sql": sql})
    assert answer.status_code == 422, answer.text
    said = answer.json()
    place = said["place"]
    assert (
        WRONG[sql] in sql[place["column"] - 1 : place["column"] - 1 + max(place["length"], 1)]
        or WRONG[sql] in said["error"]
    )
    assert "^" in said["told"]
    assert not list((job.checkpoint / "muntin" / "requests").glob("*.json"))


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"sql": 1}', '{"sql": "DROP QUERY hot"}', "\x00"])
def test_what_is_no_new_query_is_refused(client, body):
    answer = client.post("/api/queries", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and answer.json()["error"]


def test_what_is_not_there_says_so_in_json(client):
    assert client.get("/api/nothing").status_code == 404
    assert client.put("/api/queries/hot", json={}).status_code == 405
    assert client.post("/api/requests/..%2f..%2fjob").status_code in (404, 422)


def test_a_folder_that_is_no_checkpoint_is_told_and_not_a_crash(tmp_path):
    from starlette.testclient import TestClient

    from muntin.web.app import make_app
    from muntin.web.guard import Access
    from web.conftest import HOST

    empty = TestClient(make_app(LiveJob(tmp_path), Access()), base_url=HOST, raise_server_exceptions=False)
    for path in ("/api/status", "/api/plan", "/api/queries/x"):
        answer = empty.get(path)
        assert answer.status_code == 422 and "is not the checkpoint of a job" in answer.json()["error"]
    assert empty.get("/api/history").json()["marks"] == []
    assert "muntin_up 0.0" in empty.get("/metrics").text


def test_the_status_is_read_again_only_where_it_has_changed(job, monkeypatch):
    reads = []
    live = LiveJob(job.checkpoint)
    monkeypatch.setattr("muntin.web.live.status_now", lambda place: reads.append(place) or status_now(place))
    first = live.view()
    assert live.view() is first and len(reads) == 1
    job.tick()
    assert live.view().number > first.number and len(reads) == 2
