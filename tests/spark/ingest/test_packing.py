"""Packing: every shard hears of every partition, nothing is lost, bad rows become letters."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest

from muntin.plan import share
from muntin.spark.exchange.frames import Frame, FrameKind, decode
from muntin.spark.exchange.partitions import place_of
from muntin.spark.exchange.topology import Topology
from muntin.spark.ingest import packing
from muntin.spark.ingest.packing import as_batches, gather, pack
from muntin.sql import parse_job

SQL = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'json', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k INT, s STRING) TIMESTAMP BY ts WITH (format = 'json', path = 'b');
CREATE QUERY one AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;
CREATE QUERY two AS SELECT A.s FROM A, B WHERE upper(A.s) = B.s AND A.k = B.k WINDOW 1 s;
"""


@pytest.fixture
def topology() -> Topology:
    return Topology(share(parse_job(SQL)), 3, True, "test")


def rows(times: list[int | None], keys: list[int | None]) -> pa.Table:
    return pa.table(
        {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array(keys, pa.int64()), "s": ["a"] * len(times)}
    )


def packed(topology: Topology, table: pa.Table, stream: int = 0) -> list[tuple[int, Frame]]:
    frames = pack(topology, topology.plan.streams[stream], table, partition=4, sequence=0)
    return [(group, decode(data, "a frame")) for group, data in frames]


def test_every_shard_of_every_join_gets_a_frame_with_the_progress_of_the_whole_partition(topology: Topology):
    frames = packed(topology, rows([50, 10, 30], [1, 1, None]))
    assert Counter(group for group, _ in frames) == Counter(topology.groups([0]))
    assert {(f.header["min_ts"], f.header["max_ts"]) for _, f in frames} == {(10, 50)}
    assert {f.header["partition"] for _, f in frames} == {4}


def test_rows_without_a_key_go_to_the_first_shard_of_each_join(topology: Topology):
    frames = packed(topology, rows([1, 2, 3], [7, None, None]))
    sent = Counter[int]()
    for _, frame in frames:
        sent[frame.header["join"]] += frame.header["rows"]
    assert sent == {0: 3, 1: 3}
    keyless = [f for g, f in frames if f.header["rows"] and f.table()["_h1"].null_count]
    assert [place_of(g, 3)[1] for g, f in frames if f in keyless] == [0, 0]


def test_equal_keys_of_both_streams_meet_in_one_shard(topology: Topology):
    where = []
    for stream in (0, 1):
        found = {}
        for group, frame in packed(topology, rows(list(range(40)), list(range(40))), stream):
            if frame.header["rows"]:
                for key in frame.table()["k"].to_pylist():
                    found[frame.header["join"], key] = group
        where.append({k: v for k, v in found.items() if k[0] == 0})
    assert where[0] == where[1] and len(where[0]) == 40
    assert len(set(where[0].values())) == 3


def test_null_times_and_malformed_lines_become_letters(topology: Topology):
    table = rows([5, None, None], [1, 2, 3]).append_column("_corrupt_record", pa.array([None, None, '{"ts": oops']))
    letters = [f for _, f in packed(topology, table) if f.kind == FrameKind.DEAD_LETTERS]
    assert len(letters) == 1
    listed = letters[0].table().to_pylist()
    assert [row["reason"].split(":")[0] for row in listed] == ["malformed", "null_time"]
    assert json.loads(listed[0]["row"]) == {"_corrupt_record": '{"ts": oops'}
    assert json.loads(listed[1]["row"])["k"] == 2
    assert [f.header["max_ts"] for _, f in packed(topology, table) if f.kind == FrameKind.ROWS] == [5] * 6


def test_large_partitions_are_cut_and_nothing_is_lost(topology: Topology, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing, "FRAME_BYTES", 2000)
    frames = packed(topology, rows(list(range(2000)), list(range(2000))))
    whole = sum(f.header["rows"] for _, f in frames if f.header["join"] == 0)
    assert whole == 2000 and len(frames) > 30
    assert max(f.header["piece"] for _, f in frames) > 2


def test_batches_of_a_partition_are_gathered(topology: Topology, monkeypatch: pytest.MonkeyPatch):
    batches = rows(list(range(100)), list(range(100))).to_batches(max_chunksize=10)
    assert [t.num_rows for t in gather(batches)] == [100]
    monkeypatch.setattr(packing, "GATHER_BYTES", 500)
    assert sum(t.num_rows for t in gather(batches)) == 100
    assert list(gather([])) == []
    out = list(as_batches([(1, b"x"), (2, b"y")]))
    assert [batch.schema for batch in out] == [packing.SCHEMA]


def test_times_outside_of_the_calendar_become_letters_and_move_no_frontier(topology: Topology):
    far = [(1 << 62) + 5, (1 << 63) - 1, -(1 << 63), 253_402_300_800_000_000]
    frames = packed(topology, rows([7, *far], [1, 2, 3, 4, 5]))
    (letters,) = (f for _, f in frames if f.kind == FrameKind.DEAD_LETTERS)
    listed = letters.table().to_pylist()
    assert [row["reason"].split(":")[0] for row in listed] == ["time_range"] * 4
    assert listed[-1]["reason"] == "time_range: ts is +10000-01-01T00:00:00, outside of the years 1 to 9999"
    assert [json.loads(row["row"])["ts"] for row in listed] == far and {row["ts"] for row in listed} == {None}
    assert {(f.header["min_ts"], f.header["max_ts"]) for _, f in frames if f.kind == FrameKind.ROWS} == {(7, 7)}
