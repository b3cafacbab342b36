"""A job whose executors are on other machines: they share a folder with the driver, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from laboratory import cluster_lab

from spark.conftest import Lab

pytestmark = [pytest.mark.spark]


def test_a_job_survives_what_happens_to_its_machines(tmp_path: Path, rows: Any):
    """One machine has the package, the other gets it shipped and has its Python elsewhere. They lose an executor, a
    Python process, a whole machine and the driver; another driver goes on elsewhere. Each query has its rows."""
    lab = Lab(tmp_path, None, per_trigger=1, settings="SET shards = 2;\n")
    tables = {name: rows(seed, 900) for name, seed in (("A", 1), ("B", 2))}
    parts = iter(range(45))

    def feed() -> None:
        """Rows for two micro-batches."""
        for _ in range(2):
            at = 20 * next(parts)
            for name, table in tables.items():
                lab.add_files(name, table.slice(at, 20), 1)

    with cluster_lab(tmp_path, lab) as cluster:
        feed()
        cluster.add(cluster.net.machine())
        cluster.add(cluster.net.machine(has_package=False, python_elsewhere=True))
        cluster.start()
        cluster.await_commits(1)
        for mishap in ("executor", "Python", "machine", "driver"):
            cluster.suffer(mishap, feed)
        cluster.stop_driver()
        cluster.start("--bounded")
        cluster.finish()
        print({name: [round(s, 1) for s in took] for name, took in cluster.recoveries.items()})
    lab.check()
