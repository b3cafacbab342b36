"""A claim that stops holding fails a test: every study against the verdicts that docs/studies.md shows.

A claim holds if it does with every seed, so what holds with all seeds must hold with some of them; and what does not
hold with any must not. `verdicts.json` is made by `muntin study run all --quick --json`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muntin.studies.registry import STUDIES
from muntin.studies.study import Effort, Study, Verdict

VERDICTS = json.loads((Path(__file__).parent / "verdicts.json").read_text())
SEEDS = (1, 2)
CHEAP = {
    "hammad2003-figure-2a", "hammad2003-figure-3a", "hammad2003-figure-4", "hammad2003-figure-3b",
    "wang2006-table-2", "wang2006-figure-9", "wang2006-figure-11", "kostowski-section-3.1", "kostowski-figure-5",
    "kostowski-figure-8", "hammad2005-figure-1", "hammad2005-figure-3", "hammad2005-figure-4", "hammad2005-section-6",
    "hammad2005-figure-5", "hammad2005-figure-6", "ding2004-figure-1",
}  # fmt: skip
SLOW = {
    "hammad2003-figure-5", "hammad2003-figure-6", "kostowski-figure-4", "kostowski-figure-6",
    "kostowski-figure-7", "ding2004-figure-8", "ding2004-figure-9", "ding2004-figure-10",
    "ding2004-figure-12",
}  # fmt: skip
"""More than a second or two of a core; all others are run with the benches."""
TIMED = (
    "that is two orders of magnitude of processing time",
    "probe-and-insert costs about as much as probe alone",
    "in seconds as well",
    "state-slice always has the highest service rate",
    "with much to join and fast streams it gains",
    "CPU-Opt improves the service rate",
    "splitting a slice suspends",
    "merging two slices waits",
    "and take less time",
    "what they cost grows with the rows delivered",
)
"""How claims begin that depend on the speed of this machine: these are not asserted."""


def marked(study: Study) -> object:
    marks = [] if study.name in CHEAP else [pytest.mark.slow] if study.name in SLOW else [pytest.mark.bench]
    return pytest.param(study, marks=marks, id=study.name)


@pytest.mark.parametrize("study", [marked(study) for study in STUDIES])
def test_what_held_holds_and_what_did_not_does_not(study):
    recorded = VERDICTS[study.name]
    claims = {c.says: c for c in study.run(Effort(SEEDS, quick=True)).claims}
    assert claims.keys() == recorded.keys(), "make verdicts.json anew"
    for says, claim in claims.items():
        if says.startswith(TIMED):
            continue
        if recorded[says] == Verdict.HOLDS:
            assert claim.verdict is Verdict.HOLDS, claim
        if recorded[says] == Verdict.DOES_NOT:
            assert claim.verdict is not Verdict.HOLDS, claim


def test_every_study_has_verdicts_and_a_section_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    assert VERDICTS.keys() == {study.name for study in STUDIES}
    for study in STUDIES:
        assert f"## {study.paper}, {study.figure}\n" in page and f"`muntin study run {study.name}`" in page
