"""A job that goes on otherwise than it began: one way through several changes, on Spark."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.spark.checkpoint import identity
from muntin.spark.run import Job
from muntin.sql import parse_job

pytestmark = pytest.mark.spark


def test_a_job_goes_on_with_another_lateness_a_column_more_another_strategy_and_other_shards(
    lab: Any, rows: Any, muntin: Any
):
    lab.per_trigger, lab.lateness_s, lab.settings = 1, 1, "SET shards = 2; SET strategy = 'state-slice';"

    def come(first: int, count: int) -> None:
        for name in "AB":
            lab.add_files(name, rows(ord(name), 600, lateness_s=1).slice(first, count), 2)

    come(0, 200)
    lab.run("available-now")
    lab.lateness_s, lab.settings = 3, "SET shards = 2; SET strategy = 'pull-up';"
    come(200, 200)
    wider = parse_job(lab.sql().replace("v DOUBLE)", "v DOUBLE, w BIGINT)"))
    run = Job(lab.spark, wider).start(output=lab.output, checkpoint=lab.checkpoint, mode="available-now")
    assert run.await_termination(120)
    assert set(run.differences) == {
        "strategy: was state-slice, is pull-up",
        *(f"stream {s}, column w: new" for s in "AB"),
        *(f"stream {s}, lateness: was 1 s, is 3 s" for s in "AB"),
    }
    code, out, err = muntin("rescale", "--checkpoint", lab.checkpoint, "--shards", 3)
    assert (code, err) == (0, ""), err
    assert "rows moved from 2 to 3 shards" in out and not out.startswith("0 ")
    assert muntin("rescale", "--checkpoint", lab.checkpoint, "--shards", 3)[1].endswith("has 3 shards already\n")
    lab.settings = "SET shards = 3; SET strategy = 'pull-up';"
    come(400, 200)
    last = parse_job(lab.sql().replace("v DOUBLE)", "v DOUBLE, w BIGINT)"))
    run = Job(lab.spark, last).start(output=lab.output, checkpoint=lab.checkpoint, mode="bounded")
    assert run.await_termination(120)
    assert run.status()["sources"]["A"]["total_rows"] == 600
    lab.check()
    first = identity.stored_job(lab.checkpoint)
    assert first is not None and first.is_over and first.settings.shards == 3
