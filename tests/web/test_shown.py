"""The same numbers elsewhere: `/metrics`, `muntin top`, notebooks, `muntin explain --html`; and how a server starts."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muntin.cli import top
from muntin.cli.main import main
from muntin.model import UsageError
from muntin.model.records import to_json
from muntin.page import STATIC, Explanation, plan_document
from muntin.spark.run import Job
from muntin.web.live import LiveJob
from muntin.web.server import WebOptions, WebServer

ROOT = Path(__file__).parents[2]


def metrics(reader) -> dict:
    return {family.name: family for family in text_string_to_metric_families(reader.get("/metrics").text)}


def test_metrics_are_the_numbers_of_the_status(reader):
    found, status = metrics(reader), reader.get("/api/status").json()
    out = {s.labels["query"]: s.value for s in found["muntin_output_rows"].samples}
    assert out == {name: query["total_rows"] for name, query in status["queries"].items()}
    kept = sum(sample.value for sample in found["muntin_state_rows"].samples)
    assert kept == sum(s["rows"] for side in status["joins"][0]["slices"] for s in side)
    assert found["muntin_up"].samples[0].value == 1
    assert {s.labels["reason"] for s in found["muntin_dead_letters"].samples} == set(status["dead_letters"])


def test_names_of_metrics_follow_the_conventions(reader):
    for name, family in metrics(reader).items():
        assert re.fullmatch(r"muntin_[a-z_]+", name) and family.documentation.endswith(".")
        assert (
            all(s.name.endswith("_total") for s in family.samples) == (family.type == "counter") or not family.samples
        )
        assert not re.search(r"_(ms|us|kb|mb|minutes|percent)$", name)


@pytest.mark.parametrize("file", ["alerts.yml", "dashboard.json"])
def test_the_examples_for_monitoring_name_metrics_that_there_are(reader, file):
    text = (ROOT / "examples" / "monitoring" / file).read_text()
    named = set(re.findall(r"\bmuntin_[a-z_]+", text))
    there = {s.name for family in metrics(reader).values() for s in family.samples} | set(metrics(reader))
    assert named and named - there == set()


def test_top_shows_queries_slices_as_bars_and_dead_letters(job, capsys):
    assert main(["top", "--checkpoint", str(job.checkpoint), "--once"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"hot +[\d,]+", shown) and re.search(r"\[5 s, 1 min\) +█+", shown)
    assert "dead letters: late" in shown


def test_the_rates_of_top_are_those_between_two_looks(job):
    view, live = top.TopView(), LiveJob(job.checkpoint)
    view.of(live, 50)
    assert view._rates == {}
    job.tick()
    view.of(live, 50)
    assert view._rates["together"] > 0


@pytest.mark.parametrize("value, most, shown", [(0, 5, ""), (5, 5, "█" * top.BAR), (1, 8 * top.BAR, "▏"), (3, 0, "")])
def test_a_bar_is_as_long_as_its_share(value, most, shown):
    assert top.bar(value, most) == shown


def test_top_refuses_what_is_no_checkpoint_and_no_time(tmp_path, capsys):
    assert main(["top", "--checkpoint", str(tmp_path)]) == 2
    assert main(["top", "--checkpoint", str(tmp_path), "--every", "0"]) == 2
    assert "is not the checkpoint of a job" in capsys.readouterr().err


def test_a_notebook_shows_a_plan_a_status_and_a_run_as_pictures_and_as_text(job):
    plan = Job(job.session, job.spec).explain()
    assert isinstance(plan, str) and "query hot" in plan
    status = job.run.status()
    assert status["state"] == "running" and "together" in status.text and repr(job.run).startswith("running (endless)")
    for shown in (plan._repr_html_(), status._repr_html_(), job.run._repr_html_()):
        assert shown.startswith('<iframe sandbox="allow-scripts"') and "PlanPicture" in shown
        assert shown.count("<") == 2, "all else is inside of the attribute"


def test_a_status_stays_that_of_its_moment(job):
    report = job.run.status()
    before = to_json(report.record)
    assert report == before == json.loads(json.dumps(report))
    job.tick()
    assert to_json(report.record) == before != to_json(job.run.status().record)


def test_a_document_has_all_that_it_needs_and_nothing_ends_its_script():
    found = plan_document([{"joins": [], "name": "</script><b>&"}], "<i>", "<u>")
    assert found.count("</script>") == 2 and "<i>" not in found and "<u>" not in found
    assert not re.search(r"""(src|href)=["']|import .* from|https?://(?!www\.w3\.org/2000/svg)""", found)


def test_explain_writes_the_plan_as_one_file(tmp_path, capsys):
    assert main(["generate", "sensors", str(tmp_path / "data"), "--duration", "10", "--files", "1"]) == 0
    job, file = str(tmp_path / "data" / "job.sql"), tmp_path / "plan.html"
    assert main(["explain", job, "--html", str(file)]) == 0
    assert "PlanPicture" in file.read_text() and "damp_after_heat" in file.read_text()
    assert main(["explain", job, "--html", str(tmp_path / "nowhere" / "plan.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_the_page_loads_nothing_from_elsewhere():
    for file in [p for p in STATIC.glob("*") if p.is_file()]:
        found = re.findall(r"https?://[^\s\"'`)]+", file.read_text())
        assert set(found) <= {"http://www.w3.org/2000/svg"}, file.name
    assert "Permission is hereby granted" in (STATIC / "vendor" / "uPlot.LICENSE").read_text()


def test_text_goes_into_the_page_as_text_only():
    own = "".join(p.read_text() for p in STATIC.glob("*.js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", own)


def test_a_port_that_is_taken_is_refused_and_the_usual_one_gives_way(job):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot serve on 127.0.0.1:{port}"):
            WebServer(job.checkpoint, WebOptions(port=port))
    with WebServer(job.checkpoint, WebOptions()) as first, WebServer(job.checkpoint, WebOptions()) as second:
        assert first.url != second.url and "#token=" in first.url


def test_without_its_packages_the_page_says_what_to_install(job, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as refused:
        WebServer(job.checkpoint, WebOptions())
    assert refused.value.hint == 'pip install "muntin[web]"'


@pytest.mark.parametrize("arguments", [["--port", "70000"], ["--port", "-1"]])
def test_a_port_that_cannot_be_is_refused(job, arguments, capsys):
    assert main(["web", "--checkpoint", str(job.checkpoint), *arguments]) == 2
    assert "is not a port" in capsys.readouterr().err


def test_an_explanation_is_a_text_like_any_other():
    assert Explanation.of("a\nb", {}) == "a\nb"
