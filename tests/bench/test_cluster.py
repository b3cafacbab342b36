"""`muntin bench cluster` with runs that take as long as a table says, and no cluster."""

from __future__ import annotations

import json

import pytest

from muntin.bench import cluster
from muntin.bench.peers import DONE
from muntin.cli import main
from muntin.spark.cluster import StandaloneCluster


@pytest.fixture
def made_up(monkeypatch):
    """One executor takes 3 s, two take 2 s; the order in which they ran."""
    asked: list[int] = []

    def run(load, folder, options, limit_s):
        executors = int(options[options.index("--executors") + 1])
        asked.append(executors)
        known = {"seconds": 4.0 - executors, "steady": True, "rows_per_s": 1.0, "rows_agree": True, "ended": DONE}
        return lambda: {**known, "limit_s": limit_s}

    monkeypatch.setattr(cluster, "contender", run)
    monkeypatch.setattr(cluster, "LOAD", cluster.LOAD.scaled(0.001))
    monkeypatch.setattr(StandaloneCluster, "__enter__", lambda self: self)
    monkeypatch.setattr(StandaloneCluster, "__exit__", lambda *_: None)
    monkeypatch.setattr(StandaloneCluster, "add_worker", lambda *_, **__: None)
    monkeypatch.setattr(StandaloneCluster, "master", "spark://nobody:1")
    return asked


def test_runs_are_rotated_and_their_ratio_stands_beside_its_target(made_up, capsys):
    assert main.main(["bench", "cluster", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert made_up == [1, 2, 2, 1]
    assert (found["ratio"], found["target"]) == (1.5, 1.6)
    assert main.main(["bench", "cluster"]) == 0
    assert "one executor over two: 1.50 (target: at least 1.6)" in capsys.readouterr().out
