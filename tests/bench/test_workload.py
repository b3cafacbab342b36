"""What the contenders are given, and by what they are judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from muntin.bench import against, flink, workload
from muntin.bench.parts import parts
from muntin.bench.peers import DONE, OUT_OF_TIME, Heard, Round
from muntin.bench.workload import EVERYTHING, STREAMS, WORKLOADS, Workload, expected, part, selections, uniform, write
from muntin.core.results import FoundPairs, routing
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

SMALL = replace(WORKLOADS["selections"], questions=selections(uniform(9))).scaled(1 / 500)


def test_a_small_workload_is_the_large_one_in_proportion():
    whole = WORKLOADS["selective"]
    assert SMALL.batches == whole.batches == 20
    assert SMALL.warm == whole.warm == 12
    assert SMALL.keys / SMALL.largest.window_ms == whole.keys / whole.largest.window_ms


def test_both_formats_hold_the_same_rows(tmp_path):
    write(SMALL, tmp_path, ("parquet", "csv"))
    columns = pyarrow.csv.ReadOptions(column_names=["ts", "k", "v"])
    for stream in STREAMS:
        parquet = pq.read_table(tmp_path / "parquet" / stream / "00003.parquet")
        text = pyarrow.csv.read_csv(tmp_path / "csv" / stream / "00003.csv", read_options=columns)
        assert parquet.equals(part(SMALL, stream, 3))
        assert text["ts"].cast(pa.timestamp("us", "UTC")).equals(parquet["ts"])
        assert text.select(["k", "v"]).equals(parquet.select(["k", "v"]))
    assert expected(SMALL, tmp_path, "csv", 20) == expected(SMALL, tmp_path, "parquet", 20)


@pytest.mark.parametrize("kinds", [routing.KINDS, 0])
def test_contenders_are_judged_by_what_we_would_deliver(tmp_path, monkeypatch, kinds):
    """Also whether pairs are counted by kind or one by one, and whether they are counted or delivered."""
    monkeypatch.setattr(routing, "KINDS", kinds)
    write(SMALL, tmp_path, ("parquet",))
    job = LocalJob(parse_job(SMALL.job_sql(tmp_path, "parquet")), shards=2)
    delivered: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    whole = FoundPairs.whole
    monkeypatch.setattr(FoundPairs, "whole", lambda found: counted.update(routing.count(found)) or whole(found))
    for batch in range(SMALL.batches):
        rows = job.push({s: part(SMALL, s, batch) for s in STREAMS}, ended=batch == SMALL.batches - 1)
        delivered.update({name: table.num_rows for name, table in rows.items()})
    want = expected(SMALL, tmp_path, "parquet", SMALL.batches)
    everything = want.pop(EVERYTHING)
    assert dict(delivered) == dict(counted) == want
    assert max(want.values()) <= everything
    assert min(want.values()) > 0


def test_fewer_files_give_fewer_rows(tmp_path):
    write(SMALL, tmp_path, ("parquet",))
    few, all_ = (expected(SMALL, tmp_path, "parquet", n)[EVERYTHING] for n in (5, 20))
    assert 0 < few < all_


def test_a_workload_survives_the_way_to_a_contender():
    for load in WORKLOADS.values():
        assert Workload.from_json(load.to_json()) == load


def test_every_set_of_windows_reaches_the_largest():
    assert {load.largest.window_ms for load in WORKLOADS.values()} == {workload.LARGEST_S * 1000}


@pytest.mark.parametrize("rows", [1_000, 3_333, 200_000])
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_size_has_the_same_micro_batches(name, rows):
    whole = WORKLOADS[name]
    small = whole.scaled(rows / whole.rows)
    assert (small.batches, small.warm) == (whole.batches, whole.warm)
    assert small.rows == pytest.approx(rows, rel=0.02)


def test_ratios_have_what_is_asked_of_the_delivery_that_is_compared():
    results = {
        "muntin, Parquet out": {"seconds": 0.5, "steady": True},
        "muntin, counted": {"seconds": 0.25, "steady": True},
        "spark, one join, rocksdb": {"seconds": 8.0, "steady": True},
        "spark, a join each, memory": {"seconds": 40.0, "steady": False},
        "spark, a join each, rocksdb": {"seconds": None, "steady": False},
    }
    found = against.ratios({"workloads": {"selective": {"results": results}, "36": {"results": results}}})
    assert [(r["opponent"], r["ours"], r["ratio"], r["lower_bound"], r["target"]) for r in found] == [
        ("spark, one join, rocksdb", "muntin, Parquet out", 16.0, False, 8.0),
        ("spark, one join, rocksdb", "muntin, counted", 32.0, False, None),
        ("spark, a join each, memory", "muntin, Parquet out", 80.0, True, 50.0),
        ("spark, a join each, memory", "muntin, counted", 160.0, True, None),
        ("spark, one join, rocksdb", "muntin, Parquet out", 16.0, False, None),
        ("spark, one join, rocksdb", "muntin, counted", 32.0, False, None),
        ("spark, a join each, memory", "muntin, Parquet out", 80.0, True, None),
        ("spark, a join each, memory", "muntin, counted", 160.0, True, None),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    write(SMALL, made, ("parquet",))
    return made


def outcome(folder, rows, ended=DONE):
    """Of a contender that took a second for each of its 20 micro-batches."""
    heard = Heard([Round(dict.fromkeys(range(SMALL.batches), 1.0))], rows, ended=ended)
    return against.result(SMALL, folder, against.Contender("muntin", lambda load, folder, limit: heard), 60.0)


def test_a_contender_whose_rows_are_right_has_no_fault(folder):
    want = expected(SMALL, folder, "parquet", SMALL.batches)
    everything = {EVERYTHING: want.pop(EVERYTHING)}
    for rows in (want, everything):
        found = outcome(folder, rows)
        assert against.faults("x", found) == []
        assert sum(rows.values()) / SMALL.batches < found["rows_out_per_s"] < sum(rows.values()) / SMALL.warm


@pytest.mark.parametrize(("kind", "files", "seconds"), [("one", 20, 5.0), ("each", 10, 10.0)])
def test_a_contender_may_report_in_smaller_steps_than_ours(folder, kind, files, seconds):
    """Flink in five steps for each of our files; its windows are full after 60."""
    steps = {n: seconds / 5 if n >= 50 or files == 10 else 99.0 for n in range(5 * files)}
    heard = Heard([Round(steps)], {EVERYTHING: expected(SMALL, folder, "parquet", files)[EVERYTHING]})
    seen = partial(flink.part_of, kind)
    found = against.result(SMALL, folder, against.Contender("x", lambda *_: heard, sees=seen), 60.0)
    assert (found["seconds"], found["steady"], found["rows_agree"]) == (seconds, kind == "one", True)


def test_one_row_too_many_or_a_query_that_is_missing_is_a_fault(folder):
    want = expected(SMALL, folder, "parquet", SMALL.batches)
    want.pop(EVERYTHING)
    for rows in ({**want, "q1": want["q1"] + 1}, {n: r for n, r in want.items() if n != "q1"}, {EVERYTHING: 1}):
        found = outcome(folder, rows)
        assert found["rows_agree"] is False
        assert against.faults("x", found) == ["x: rows differ from those that DuckDB finds"]


def test_a_contender_that_fails_is_a_fault_and_one_that_is_slow_is_not(folder):
    assert against.faults("x", outcome(folder, {}, OUT_OF_TIME)) == []
    assert against.faults("x", outcome(folder, {}, "no memory left")) == ["x: no memory left"]


@pytest.mark.slow
def test_the_parts_of_a_micro_batch_are_found_without_spark(tmp_path):
    write(SMALL, tmp_path, ("parquet",))
    delivered, counted = (parts(SMALL, tmp_path, layouts) for layouts in (("queries", "sliced"), ()))
    assert delivered["exchanged_in_mb"] == counted["exchanged_in_mb"] > 0
    assert delivered["exchanged_out_mb"] > 2 * counted["exchanged_out_mb"]
