"""A claim that stops holding fails a test: the verdicts of every study are those that were recorded.

    muntin study run all --quick --seeds 2 --json > tests/studies/verdicts.json

makes the record anew. Studies run on counters and virtual clocks, so what they find with the same seeds is the same
everywhere; claims about the seconds of a machine are not asserted.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muntin.studies.registry import STUDIES
from muntin.studies.study import Effort, Study

CLAIMS = json.loads((Path(__file__).parent / "verdicts.json").read_text())
EFFORT = Effort.of(2, quick=True)
SLOW = {
    "hammad2003-figure-2b", "hammad2003-figure-5", "hammad2003-figure-6", "hammad2003-figure-7",
    "hammad2003-figure-8", "hammad2003-figure-9", "hammad2003-section-5.4", "wang2006-figure-12", "wang2006-figure-13",
    "wang2006-figure-15", "wang2006-figure-16", "hammad2005-figure-7", "hammad2005-figure-8", "hammad2005-figure-9",
    "hammad2005-figure-10", "ding2004-figure-1", "ding2004-figure-7", "ding2004-figure-8", "ding2004-figure-9",
    "ding2004-figure-10", "ding2004-figure-11", "ding2004-figure-12", "beyond-shards",
}  # fmt: skip
"""More than a second or two of a core, or of what one of these has run."""
BENCH = {"wang2006-figure-17", "wang2006-figure-18", "wang2006-figure-19", "beyond-all-together", "beyond-many-queries"}
"""Run with the benches: mostly about seconds, or asserted elsewhere in a smaller form."""


def marked(study: Study) -> object:
    marks = [pytest.mark.slow] if study.name in SLOW else [pytest.mark.bench] if study.name in BENCH else []
    return pytest.param(study, marks=marks, id=study.name)


@pytest.mark.parametrize("study", [marked(study) for study in STUDIES])
def test_the_verdicts_of_a_study_are_those_that_were_recorded(study):
    recorded = {c["claim"]: c["verdict"] for c in CLAIMS if c["study"] == study.name}
    claims = {c.says: c for c in study.run(EFFORT).claims}
    assert claims.keys() == recorded.keys(), "make verdicts.json and docs/studies.md anew"
    changed = [claim for says, claim in claims.items() if not claim.timed and claim.verdict != recorded[says]]
    assert changed == []


def test_every_study_and_claim_is_on_the_page():
    assert {study.name for study in STUDIES} >= SLOW | BENCH
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    assert {c["study"] for c in CLAIMS} == {study.name for study in STUDIES}
    for study in STUDIES:
        assert f"## {study.paper}, {study.figure}\n" in page and f"`muntin study run {study.name}`" in page
    assert [c["claim"] for c in CLAIMS if f"| {c['claim']} ({c['section']}) |" not in page] == []
