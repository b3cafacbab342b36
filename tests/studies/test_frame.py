"""What a study is, how claims are judged, and what a run leaves behind."""

from __future__ import annotations

import csv
import json

import pytest

from muntin.cli import main
from muntin.model import UsageError
from muntin.studies.page import lines_of
from muntin.studies.picture import plain
from muntin.studies.record import claim_rows, run_all
from muntin.studies.registry import STUDIES, chosen
from muntin.studies.study import Curve, Effort, Findings, Panel, Ran, Study, Verdict, counted, judged, spread

CHEAP = "hammad2005-figure-5"


def test_a_claim_holds_if_it_does_with_every_seed():
    def verdict(*values: float, partly=None) -> Verdict:
        return judged("it is above 1", "1", "2", values, lambda v: v > 1, partly=partly).verdict

    assert verdict(2, 3) is Verdict.HOLDS
    assert verdict(2, 0.5) is Verdict.PARTLY
    assert verdict(0.5, 0.6) is Verdict.DOES_NOT
    assert verdict(0.5, 0.6, partly=lambda v: v > 0) is Verdict.PARTLY
    assert verdict(0.5, -1, partly=lambda v: v > 0) is Verdict.DOES_NOT


def test_a_claim_about_many_places_holds_if_it_does_at_all_of_them():
    found = [counted("yes", "1", "always", [True] * n + [False] * (4 - n), "places").verdict for n in (4, 2, 1)]
    assert found == [Verdict.HOLDS, Verdict.PARTLY, Verdict.DOES_NOT]


def test_a_mean_is_shown_with_its_spread():
    assert spread([1.0, 2.0, 3.0], "s") == "2 s (1 to 3, 3 seeds)"
    assert spread([1.0, 1.0]) == "1 (2 seeds)" and spread([0.25]) == "0.25"


def test_names_are_unique_and_lead_to_studies():
    names = [study.name for study in STUDIES]
    assert len(set(names)) == len(names) > 40
    assert [s.name for s in chosen(["hammad2003-figure-5"])] == ["hammad2003-figure-5"]
    assert {s.paper for s in chosen(["kostowski"])} == {"kostowski"} and chosen(["all"]) == list(STUDIES)
    assert len(chosen(["kostowski", "kostowski-figure-4"])) == len(chosen(["kostowski"]))
    with pytest.raises(UsageError, match="there is no study figure-5"):
        chosen(["figure-5"])


FIGURES = {
    "hammad2003": "figure-2a figure-2b figure-3a figure-3b figure-4 table-1 figure-5 figure-6 figure-7 figure-8 "
    "figure-9 section-5.4",
    "wang2006": "table-2 table-3 table-4 figure-9 figure-11 figure-12 figure-13 figure-14 figure-15 figure-16 "
    "figure-17 figure-18a figure-18f figure-19a figure-19e section-5.3",
    "kostowski": "section-3.1 figure-4 figure-5 figure-6 figure-7 figure-8",
    "hammad2005": "figure-1 figure-3 figure-4 figure-5 figure-6 figure-7 figure-8 figure-9 figure-10 section-6",
    "ding2004": "figure-1 figure-7 figure-8 figure-9 figure-10 figure-11 figure-12",
}


def test_each_figure_and_table_leads_to_a_study():
    for paper, figures in FIGURES.items():
        for figure in figures.split():
            found = chosen([f"{paper}-{figure}"])
            assert {study.paper for study in found} == {paper}, figure
    assert [s.name for s in chosen(["wang2006-table-3"])] == ["wang2006-figure-17", "wang2006-figure-18"]


@pytest.mark.slow
def test_the_command_lists_and_runs(capsys, tmp_path):
    assert main.main(["study", "list", "--json"]) == 0
    assert [s["name"] for s in json.loads(capsys.readouterr().out)] == [s.name for s in STUDIES]
    page = tmp_path / "studies.md"
    assert main.main(["study", "run", CHEAP, "--quick", "--json", "--output", str(tmp_path), "--page", str(page)]) == 0
    claims = json.loads(capsys.readouterr().out)
    assert claims and {"paper", "figure", "claim", "paper_value", "ours", "verdict"} <= claims[0].keys()
    assert {c["verdict"] for c in claims} <= {"holds", "partly", "does not"}
    assert all((tmp_path / f"{CHEAP}.{ending}").stat().st_size > 0 for ending in ("csv", "png", "svg", "json"))
    assert f"studies/{CHEAP}.svg" in page.read_text() and (tmp_path / "studies" / f"{CHEAP}.svg").exists()
    assert main.main(["study", "run", CHEAP, "--quick"]) == 0
    assert "3 claims of 1 studies" in capsys.readouterr().out


def test_numbers_along_an_axis_are_plain():
    assert [plain(value) for value in (20e6, 15_000, 999, 0.25, 1e-4, 0)] == [
        "20M",
        "15,000",
        "999",
        "0.25",
        "0.0001",
        "0",
    ]


@pytest.mark.parametrize("arguments", [["run"], ["run", "nobody"], ["list", CHEAP], ["run", CHEAP, "--seeds", "0"],
                                       ["run", CHEAP, "--resume"]])  # fmt: skip
def test_a_wrong_request_is_refused(capsys, arguments):
    assert main.main(["study", *arguments]) == 2
    assert capsys.readouterr().err.startswith("muntin: ")


def made(name: str, verdict: bool) -> Study:
    claim = counted(f"{name} is so", "1", "so", [verdict], "places", "the world is so")
    panel = Panel("p", "x", "y", [Curve("c", [1, 2], [3, 4], [2, 3], [4, 5])])
    return Study("paper", name, "something", lambda _: Findings([{"a": 1, "b": 0.5}, {"a": 2}], [claim], [panel]))


def test_what_a_run_leaves_behind(tmp_path):
    done: list[Ran] = []
    found = run_all([made("figure 1", True), made("figure 2", False)], Effort.of(1), tmp_path, done.append)
    assert done == found
    with (tmp_path / "paper-figure-1.csv").open() as data:
        assert list(csv.DictReader(data)) == [{"a": "1", "b": "0.5"}, {"a": "2", "b": ""}]
    assert json.loads((tmp_path / "paper-figure-2.json").read_text()) == claim_rows(found[1:])


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_interrupted(tmp_path):
    runs: list[str] = []

    def counting(name: str) -> Study:
        study = made(name, True)
        return Study(study.paper, name, study.shows, lambda effort: (runs.append(name), study.run(effort))[1])

    studies, effort = [counting("figure 1"), counting("figure 2")], Effort.of(1)
    first = run_all(studies[:1], effort, tmp_path, lambda _: None, resume=True)
    both = run_all(studies, effort, tmp_path, lambda _: None, resume=True)
    assert runs == ["figure 1", "figure 2"], "what is there is not run again"
    assert claim_rows(both[:1]) == claim_rows(first) and both[0].core_s == first[0].core_s
    assert lines_of(both[:1], effort, "studies") == lines_of(first, effort, "studies")
    (tmp_path / "runs" / "paper-figure-2.json").write_text('{"seeds": [1], "qui')
    run_all(studies, effort, tmp_path, lambda _: None, resume=True)
    assert runs[2:] == ["figure 2"], "what was cut off is"
    run_all(studies, Effort.of(2), tmp_path, lambda _: None, resume=True)
    assert runs[3:] == ["figure 1", "figure 2"], "and so is what had other seeds"
    run_all(studies, Effort.of(2), tmp_path, lambda _: None)
    assert len(runs) == 7, "who does not ask for it begins anew"


def test_the_page_opens_with_what_does_not_hold(tmp_path):
    found = run_all([made("figure 1", True), made("figure 2", False)], Effort.of(1), None, lambda _: None)
    lines = lines_of(found, Effort.of(1, quick=True), "studies")
    first = next(n for n, line in enumerate(lines) if line.startswith("## "))
    assert lines[first] == "## What does not hold" and "figure 2 is so" in lines[first + 2]
    assert all(len(line) <= 100 for line in lines if not line.startswith("|"))


@pytest.mark.slow
def test_a_study_is_the_same_for_the_same_seed(tmp_path):
    (study,) = chosen(["kostowski-figure-6"])
    one, again = (run_all([study], Effort((4,), True), None, lambda _: None)[0].outcome for _ in range(2))
    assert [{k: v for k, v in row.items() if k != "seconds"} for row in one.rows] == [
        {k: v for k, v in row.items() if k != "seconds"} for row in again.rows
    ]
