"""Promises on Spark: over restarts, with files and letters, each punctuation of the output once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.spark.run import Job, read_status
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

pytestmark = pytest.mark.spark

SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("closed", pa.bool_())])
SQL = """
SET shards = 2;
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN, UNIQUE (k)) TIMESTAMP BY ts BINDING 1 hour
  WITH (format = 'parquet', path = '{root}/A', maxFilesPerTrigger = '1');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts PUNCTUATION WHEN closed
  WITH (format = 'parquet', path = '{root}/B', maxFilesPerTrigger = '1');
CREATE QUERY long AS SELECT A.id AS a, B.id AS b FROM A [RANGE 60 seconds] A, B [NOW] B WHERE A.k = B.k;
CREATE QUERY short AS SELECT A.id AS a, B.id AS b FROM A [RANGE 8 seconds] A, B [NOW] B WHERE A.k = B.k;
"""


def files() -> dict[str, list[pa.Table]]:
    """Four files for each stream: an auction a second, bids on the last five, the end of each after ten seconds."""
    a = [(t, t, t, False) for t in range(40)]
    b = [(t + 0.5, 10 * t + n, t - n, False) for t in range(40) for n in range(5) if t >= n]
    b += [(t + 10, 1000 + t, t, True) for t in range(28)]
    a.insert(21, (20.5, 900, 3, False))  # breaks the promise of 3
    b += [(30.1, 901, 5, False), (30.2, 902, None, True)]  # 5 was over at 15; about nothing
    tables = {}
    for name, rows in (("A", a), ("B", b)):
        parts = [[r for r in sorted(rows, key=lambda r: r[0]) if 10 * n <= r[0] < 10 * n + 10] for n in range(4)]
        tables[name] = [
            pa.Table.from_pylist(
                [dict(zip(SCHEMA.names, (int(r[0] * SECOND), *r[1:]), strict=True)) for r in part], SCHEMA
            )
            for part in parts
        ]
    return tables


def written(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.glob("b*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_promises_hold_over_restarts_and_each_key_is_told_over_once(spark: Any, tmp_path: Path):
    text, tables = SQL.format(root=tmp_path), files()
    local = LocalJob(parse_job(text), shards=2)
    for name in "AB":
        (tmp_path / name).mkdir()
    (tmp_path / "job.sql").write_text(text)
    for n in range(4):  # a run for each two files, each goes on where the last one stopped
        local.push({name: tables[name][n] for name in "AB"})
        for name in "AB":
            file = tmp_path / name / f"{n}.parquet"
            pq.write_table(tables[name][n], file)
            os.utime(file, (1_700_000_000 + n,) * 2)
        if n % 2:
            mode = "bounded" if n == 3 else "available-now"
            job = Job.from_file(spark, tmp_path / "job.sql")
            job.start(output=tmp_path / "out", checkpoint=tmp_path / "ckpt", mode=mode).await_termination()
    local.push({}, ended=True)
    for query in ("long", "short"):
        told = sorted(map(str, written(tmp_path / "out" / query / "_punctuations")))
        assert told == sorted(str(row) for table in local.punctuations[query] for row in table.to_pylist())
        assert len(told) == 40 and len(written(tmp_path / "out" / query)) == 190
    rules = [row["rule"] for row in written(tmp_path / "out" / "short" / "_punctuations")]
    assert set(rules) == {"early"}, "8 seconds have passed before an auction is over"
    letters = written(tmp_path / "out" / "_dead_letters")
    reasons = sorted((json.loads(row["row"])["id"], row["reason"].split(":")[0]) for row in letters)
    assert reasons == [(900, "broken"), (901, "broken"), (902, "punctuation")]
    status = read_status(tmp_path / "ckpt")
    assert status["dead_letters"] == {"broken": 2, "punctuation": 1}
    counters = status["joins"][0]["counters"]
    assert counters["inserted"] == [40, 0] and counters["purged"][0] >= 28 and counters["dropped"] == [0, 190]


ENDS = """
SET shards = 2;
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts PUNCTUATION WHEN closed FOR *
  BINDING 1 hour WITH (format = 'parquet', path = '{root}/A');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts PUNCTUATION WHEN closed FOR k IN ()
  WITH (format = 'parquet', path = '{root}/B');
CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 60 seconds;
"""


def test_nobody_waits_for_a_stream_that_has_said_that_it_is_over(spark: Any, tmp_path: Path):
    """A ends at 10; B goes on to 40 and then says that it has come to 50. The run is not bounded."""
    a = [(t, t, t % 3, False) for t in range(10)] + [(10, 100, None, True)]
    b = [(t, t, t % 5, False) for t in range(40)] + [(50, 100, 1, True)]
    for name, rows in (("A", a), ("B", b)):
        (tmp_path / name).mkdir()
        columns = [dict(zip(SCHEMA.names, (r[0] * SECOND, *r[1:]), strict=True)) for r in rows]
        pq.write_table(pa.Table.from_pylist(columns, SCHEMA), tmp_path / name / "0.parquet")
    (tmp_path / "job.sql").write_text(ENDS.format(root=tmp_path))
    job = Job.from_file(spark, tmp_path / "job.sql")
    job.start(output=tmp_path / "out", checkpoint=tmp_path / "ckpt", mode="available-now").await_termination()
    found = sorted((row["a"], row["b"]) for row in written(tmp_path / "out" / "q"))
    assert found == [(i, j) for i in range(10) for j in range(40) if i % 3 == j % 5]
    join = read_status(tmp_path / "ckpt")["joins"][0]
    assert join["idle"] == [True, False] and join["counters"]["state_rows"][1] == 0
    assert not written(tmp_path / "out" / "_dead_letters")
