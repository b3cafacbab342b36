"""A running job goes over to the chain that suits its traffic, says what it expects, and goes back where that does not
come true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muntin.core.batch import Counters
from muntin.plan import share
from muntin.plan.adapt import PATIENCE, TRIAL, Move, cuts_of
from muntin.plan.cost import DEFAULT
from muntin.plan.traffic import Knowledge
from muntin.spark.checkpoint.manifests import Manifest
from muntin.spark.checkpoint.plans import Epoch, PlanLog
from muntin.spark.checkpoint.reports import ShardReport
from muntin.spark.control import control_stream
from muntin.spark.control.adapting import LOOK_EVERY, Adapter
from muntin.spark.control.calibration import keep_constants
from muntin.spark.control.changes import Changes
from muntin.sql import parse_job

DEAR = replace(DEFAULT, slice_ns=100_000.0, route_ns=0.0)
"""A machine on which a cut costs much: what was cut at every window is better not cut."""
SELECT = "SELECT A.id AS a, B.id AS b, B.v AS bv FROM A, B WHERE A.k = B.k"


def job(folder: Path) -> Any:
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{folder}/{s}');"
        for s in "AB"
    )
    return parse_job(streams + "".join(f"CREATE QUERY q{w} AS {SELECT} WINDOW {w} s;" for w in (1, 2, 9)))


def test_a_chain_that_does_not_pay_is_undone(tmp_path):
    spec = job(tmp_path)
    log = PlanLog(tmp_path, spec)
    control_stream.make_folder(tmp_path)
    log.write(Epoch(0, share(spec)))
    changes = Changes(tmp_path, tmp_path, spec, log, lambda: Knowledge(constants=DEAR))
    moves: list[Move] = []
    adapter = Adapter(spec.settings, changes, lambda: Knowledge(constants=DEAR), lambda _, move: moves.append(move))
    arrived, kinds = 0, []
    for batch in range(4 * LOOK_EVERY * (PATIENCE + TRIAL)):
        arrived += 1000
        epoch, merged = log.latest() or 0, len(changes.plan.joins[0].cuts[0]) == 1
        counters, seconds = Counters(arrived=[arrived, 0]), 1.5 if merged else 1.0
        report = ShardReport(join=0, shard=0, epoch=epoch, counters=counters, seconds=seconds)
        adapter.committed(Manifest(batch, reports={"0/0": report}))
        kinds = [move.kind for move in moves]
        if len(kinds) == 2:
            break
    assert kinds == ["migrated", "undone"]
    assert moves[0].gain > 0.1, "as predicted"
    assert moves[1].gain == pytest.approx(-0.5), "as measured"
    assert cuts_of(log.read(1).plan) != cuts_of(log.read(0).plan) == cuts_of(log.read(2).plan)
    assert control_stream.sent_epochs(tmp_path) == [1, 2]


@pytest.mark.stand_in
def test_a_job_goes_over_to_the_chain_that_suits_its_traffic(lab: Any, rows: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("muntin.plan.adapt.PATIENCE", 2)
    monkeypatch.setattr("muntin.plan.adapt.TRIAL", 2)
    lab.per_trigger = 1
    for stream, seed in (("A", 81), ("B", 82)):
        lab.add_files(stream, rows(seed, 800), 8)
    keep_constants(lab.checkpoint, DEAR)
    status = lab.run()
    (moved, *_) = status["migrations"]
    assert (moved["kind"], moved["pipeline"], moved["slices"]) == ("migrated", 0, {"0": [1, 1]}) and moved["gain"] > 0.1
    assert status["epoch"] >= 1, "it is in force"
    lab.check()
