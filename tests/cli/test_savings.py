"""What the demo says about sharing is measured: the same rows either way, and each input row read once."""

from __future__ import annotations

import pytest

from muntin.cli.demo import comparison, micro_batches, saved
from muntin.cli.savings import WorkDone, measure
from muntin.generate import generate
from muntin.model import Expr, Field, JobSpec, KeyPair, Output, Query, Schema, Stream, Window

SCHEMA = Schema((Field("ts", "timestamp"), Field("LocationId", "bigint"), Field("Value", "double")))
LEFT = Expr('"l.LocationId"', "bigint", "A.LocationId", left=("LocationId",))
RIGHT = Expr('"r.LocationId"', "bigint", "B.LocationId", right=("LocationId",))


def job(*windows_s: int) -> JobSpec:
    streams = {name: Stream(name, SCHEMA, "ts") for name in ("Temperature", "Humidity")}
    key = (KeyPair(LEFT, RIGHT, "bigint"),)
    windows = [Window(w * 1_000_000, w * 1_000_000) for w in windows_s]
    queries = [Query(f"q{n}", *streams, key, w, (Output("x", LEFT),)) for n, w in enumerate(windows)]
    return JobSpec(streams, {q.name: q for q in queries})


@pytest.fixture
def batches(tmp_path):
    return micro_batches(generate("sensors", tmp_path / "d", rate=20, duration_s=60, locations=10, files=4))


def test_sharing_reads_keeps_and_finds_once_and_delivers_the_same(batches):
    shared, alone = measure(job(2, 5, 10), batches)
    rows = sum(table.num_rows for batch in batches for table in batch.values())
    assert shared.input_rows == rows > 0
    assert alone.input_rows == 3 * rows
    assert shared.delivered_rows == alone.delivered_rows > 0
    largest, _ = measure(job(10), batches)
    assert shared.pairs == largest.pairs, "windows without selections contain one another"
    assert alone.pairs == alone.delivered_rows
    assert shared.kept_rows == largest.kept_rows < alone.kept_rows


def test_a_query_alone_saves_nothing(batches):
    shared, alone = measure(job(5), batches)
    assert [row[3] for row in comparison(shared, alone)][:-1] == ["", "", "", "", ""]


def test_what_costs_more_when_shared_is_shown_as_a_loss():
    assert saved(1, 4) == "75%"
    assert saved(5, 4) == "-25%"
    assert saved(0, 0) == ""
    assert WorkDone(1, 2, 3, 4, 5, 6.0) + WorkDone(1, 1, 1, 1, 1, 1.0) == WorkDone(2, 3, 4, 5, 6, 7.0)
