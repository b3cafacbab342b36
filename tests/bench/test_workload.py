"""What the contenders are given, and by what they are judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from muntin.bench import against, workload
from muntin.bench.parts import parts
from muntin.bench.workload import EVERYTHING, STREAMS, WORKLOADS, Workload, expected, part, selections, uniform, write
from muntin.core import results
from muntin.core.local import LocalJob
from muntin.sql import parse_job

SMALL = replace(WORKLOADS["selections"], questions=selections(uniform(9))).scaled(500)


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


@pytest.mark.parametrize("kinds", [results.KINDS, 0])
def test_contenders_are_judged_by_what_we_would_deliver(tmp_path, monkeypatch, kinds):
    """Also whether pairs are counted by kind or one by one, and whether they are counted or delivered."""
    monkeypatch.setattr(results, "KINDS", kinds)
    write(SMALL, tmp_path, ("parquet",))
    job = LocalJob(parse_job(SMALL.job_sql(tmp_path, "parquet")), shards=2)
    delivered: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    whole = results.Found.whole
    monkeypatch.setattr(results.Found, "whole", lambda found: counted.update(results.count(found)) or whole(found))
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


def result(seconds, steady=True):
    return {"seconds": seconds, "steady": steady}


def test_ratios_take_the_best_of_an_opponent_that_reached_its_steady_state():
    results = {
        "muntin, Parquet out": result(0.5),
        "spark, one join, rocksdb": result(8.0),
        "spark, one join, memory": result(4.0, steady=False),
        "spark, a join each, memory": result(40.0, steady=False),
        "spark, a join each, rocksdb": result(None),
    }
    found = against.ratios({"workloads": {"selective": {"results": results}}})
    assert [(r["opponent"], r["ratio"], r["lower_bound"], r["target"]) for r in found] == [
        ("spark, a join each, memory", 80.0, True, 50.0),
        ("spark, one join, rocksdb", 16.0, False, 8.0),
    ]


def test_the_parts_of_a_micro_batch_are_found_without_spark(tmp_path):
    write(SMALL, tmp_path, ("parquet",))
    delivered, counted = (parts(SMALL, tmp_path, output) for output in (True, False))
    assert delivered["exchanged_in_mb"] == counted["exchanged_in_mb"] > 0
    assert delivered["exchanged_out_mb"] > 2 * counted["exchanged_out_mb"]
