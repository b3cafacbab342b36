"""`muntin bench scale` with runs that take as long as a formula says."""

from __future__ import annotations

import json
import re

import pytest

from muntin.bench import scale
from muntin.bench.peers import DONE
from muntin.cli import main

FIXED_S, SHARD_S, ROW_S = 0.4, 0.02, 2e-6


@pytest.fixture
def made_up(monkeypatch):
    """Two shards unless told otherwise, and a core for each of two."""

    def run(load, options, limit_s):
        shards = int(options[1]) if options else 2
        seconds = FIXED_S + SHARD_S * shards + ROW_S * load.batch_rows / 2 + 1e-4 * len(load.questions)
        known = {"seconds": seconds, "steady": True, "core_s": 1.0, "rows_per_s": load.batch_rows / seconds}
        return lambda: {**known, "rows_agree": True, "ended": DONE, "limit_s": limit_s}

    monkeypatch.setattr(scale, "_run", run)
    monkeypatch.setattr(scale, "_parts", lambda load, output: {"parts": {"ingest_s": 0.5}})


def test_the_model_finds_the_costs_that_made_the_times(made_up, capsys):
    assert main.main(["bench", "scale", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    model = found["model"]
    assert model["fixed_s"] == pytest.approx(FIXED_S + 12e-4)
    assert (model["per_shard_s"], model["core_s_per_row"]) == (pytest.approx(SHARD_S), pytest.approx(ROW_S))
    first = model["predicted"][0]
    assert first["seconds"] == pytest.approx(next(p["seconds"] for p in found["series"]["rows"]["points"][1:]))
    assert [(a["series"], a["over"], a["at"], a["at_most"]) for a in found["targets"]] == list(scale.TARGETS)


def test_what_is_asked_for_stands_beside_what_was_found(made_up, capsys, tmp_path):
    assert main.main(["bench", "scale", "--save", str(tmp_path), "--only", "queries/", "--only", "state/"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"100 .* of 12, at most 1\.5", said)
    assert re.search(r"100 .* 1\.00 of 1, at most 1\.5", said)
    assert "cores" not in said, "without the points that it needs there is no model"
    assert (tmp_path / "scale.png").stat().st_size > 10_000
