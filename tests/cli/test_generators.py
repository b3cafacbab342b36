"""Every generator runs from the command line, and the job file that it writes is one that can be explained."""

from __future__ import annotations

import pytest

from muntin.cli import main
from muntin.generate import WORKLOADS


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_generator_writes_rows_and_a_job_over_them(tmp_path, capsys, workload):
    folder = tmp_path / "data"
    assert main.main(["generate", workload, str(folder), "--rate", "5", "--duration", "20", "--files", "2"]) == 0
    assert "next: muntin run" in capsys.readouterr().out
    assert list(folder.rglob("*.parquet"))
    assert main.main(["explain", str(folder / "job.sql")]) == 0
    assert capsys.readouterr().out.strip()
