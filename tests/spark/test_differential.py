"""Every kind of join in one job, through the command line on Spark, against DuckDB (`tests/differential.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import differential


@pytest.mark.spark
def test_every_kind_of_join_in_one_job_gives_the_rows_that_duckdb_gives(muntin: Any, tmp_path: Path) -> None:
    differential.write_job(tmp_path, differential.Options())
    code, _, said = muntin(*differential.arguments(tmp_path))
    assert code == 0, said
    assert differential.faults(tmp_path) == []
