"""The commands `muntin bench spark` and `muntin bench flink`, with contenders that only say what they are told to."""

from __future__ import annotations

import json

import pytest

from muntin.bench import against, flink
from muntin.bench.against import Contender
from muntin.bench.peers import OUT_OF_TIME, Heard, Round
from muntin.bench.workload import EVERYTHING, expected
from muntin.cli import main
from muntin.model import MuntinError

SMALL = ["--rows", "1000", "--workload", "selective"]


def contender(name, seconds, batches=20, more=0, everything=False):
    """One that takes so long for each micro-batch, and finds so many rows too many."""

    def run(load, folder, limit_s):
        rows = expected(load, folder, "parquet", batches)
        whole = {EVERYTHING: rows.pop(EVERYTHING)}
        rows = whole if everything else rows
        found = {query: number + more for query, number in rows.items()}
        ended = {} if batches == load.batches else {"ended": OUT_OF_TIME}
        return Heard([Round(dict.fromkeys(range(batches), seconds))], found, **ended)

    return Contender(name, run)


def given(monkeypatch, *contenders):
    monkeypatch.setattr(against, "spark_contenders", lambda: list(contenders))


@pytest.mark.slow
def test_the_table_has_figures_ratios_and_what_is_asked_for(monkeypatch, capsys, tmp_path):
    given(
        monkeypatch,
        contender("muntin, Parquet out", 0.5),
        contender("muntin, counted", 0.25),
        contender("spark, one join, memory", 6.0, everything=True),
        contender("spark, a join each, memory", 30.0, batches=3),
    )
    assert main.main(["bench", "spark", *SMALL, "--save", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = {line.split("  ")[0].strip(): line.split() for line in lines}
    assert cells["muntin, Parquet out"][3:5] == ["0.50", "200"]
    assert cells["spark, one join, memory"][-4:] == ["12.0", "8", "right", "done"]
    assert cells["spark, a join each, memory"][-7:] == [">", "60.0", "50", "right", "out", "of", "time"]
    assert "the first 12 not counted" in " ".join(" ".join(lines).split())
    assert (tmp_path / "spark.png").stat().st_size > 10_000
    assert set(json.loads((tmp_path / "spark.json").read_text())) == {
        f"selective/{name}"
        for name in ("muntin, Parquet out", "muntin, counted", "spark, one join, memory", "spark, a join each, memory")
    }


def test_one_row_too_many_fails_the_bench(monkeypatch, capsys):
    given(monkeypatch, contender("muntin, Parquet out", 0.5), contender("spark, one join, memory", 6.0, more=1))
    assert main.main(["bench", "spark", *SMALL, "--json"]) == 1
    said = capsys.readouterr()
    assert "selective/spark, one join, memory: rows differ" in said.err
    found = json.loads(said.out)["workloads"]["selective"]["results"]
    assert [f["rows_agree"] for f in found.values()] == [True, False]


def test_where_flink_cannot_be_had_that_is_said_and_ours_is_measured(monkeypatch, capsys):
    def refuse(tell):
        raise MuntinError("apache-flink 2.3.0 could not be installed: no network")

    monkeypatch.setattr(flink, "ensure_flink", refuse)
    monkeypatch.setattr(against, "ours", lambda name, *_, **__: contender(f"muntin, {name}", 0.5, batches=8))
    assert main.main(["bench", "flink", *SMALL]) == 0
    said = capsys.readouterr().out
    assert "Flink is skipped: apache-flink 2.3.0 could not be installed: no network" in said
    assert said.count("muntin, ") == 4


@pytest.mark.parametrize("arguments", [["--rows", "1"], ["--workload", "none"], ["--resume"], ["--only", "("]])
def test_what_makes_no_sense_is_refused_before_anything_runs(monkeypatch, capsys, arguments):
    given(monkeypatch)
    assert main.main(["bench", "spark", *arguments]) == 2
    assert capsys.readouterr().err
