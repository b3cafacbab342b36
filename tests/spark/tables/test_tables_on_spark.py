"""Tables on Spark: what each format brings, a table that changes while the job runs, and a restart in between."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from muntin.core.storage import read_table
from muntin.model import UsageError
from muntin.spark.run import Job, Run
from muntin.spark.tables import VersionLog, reading
from muntin.sql import parse_job

pytestmark = pytest.mark.spark

SQL = """
SET shards = 2;
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts
  WITH (format = 'parquet', path = '{root}/A', maxFilesPerTrigger = '1');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts
  WITH (format = 'parquet', path = '{root}/B', maxFilesPerTrigger = '1');
CREATE TABLE Places (id BIGINT, building STRING) WITH (format = 'csv', header = 'true', path = '{root}/places');
CREATE TABLE Names (k INT, name STRING) WITH (format = 'json', path = '{root}/names.json');
CREATE TABLE Codes (k BIGINT, code DOUBLE) WITH (format = 'delta', path = '{root}/codes');
CREATE QUERY inner_ AS SELECT A.id AS a, B.id AS b, P.building FROM A JOIN B ON A.k = B.k
  JOIN Places P ON A.k = P.id WINDOW 1 hour;
CREATE QUERY outer_ AS SELECT A.id AS a, B.id AS b, P.building, N.name, C.code FROM A JOIN B ON A.k = B.k
  LEFT JOIN Places P ON A.k = P.id LEFT JOIN Names N ON B.k = N.k LEFT JOIN Codes C ON C.k = A.k WINDOW 1 hour;
"""
KEYS = 6


class World:
    def __init__(self, root: Path):
        self.root, self.files = root, 0
        for folder in ("A", "B", "places"):
            (root / folder).mkdir()
        (root / "names.json").write_text('{"k": 1, "name": "one"}\n{"k": 2, "name": "two"}\n')
        write_deltalake(root / "codes", pa.table({"k": pa.array([2, 3]), "code": [2.5, 3.5], "more": ["x", "y"]}))

    def put(self, name: str) -> None:
        """Let the place of every second key be another."""
        text = "id,building\n" + "".join(f"{k},{name}{k}\n" for k in range(0, KEYS, 2))
        (self.root / "next").write_text(text)
        (self.root / "next").rename(self.root / "places" / "places.csv")

    def come(self) -> None:
        for name in "AB":
            ids = list(range(self.files * KEYS, (self.files + 1) * KEYS))
            times = pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", "UTC"))
            rows = pa.table({"ts": times, "id": ids, "k": [i % KEYS for i in ids]})
            pq.write_table(rows, self.root / f"{name}.tmp")
            (self.root / f"{name}.tmp").rename(self.root / name / f"{self.files}.parquet")
        self.files += 1

    def start(self, spark: Any, mode: str) -> Run:
        job = Job(spark, parse_job(SQL.format(root=self.root)))
        return job.start(output=self.root / "out", checkpoint=self.root / "ckpt", mode=mode)

    def await_batch(self, run: Run, batch: int) -> None:
        while (run.status()["batch"] or 0) < batch:
            assert run.status()["state"] == "running"
            time.sleep(0.2)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        found = duckdb.sql(f"SELECT * EXCLUDE (_ts) FROM '{self.root}/out/{query}/b*.parquet'").fetchall()
        return sorted(found, key=repr)

    def wanted(self, join: str) -> list[tuple[Any, ...]]:
        """Each file is a micro-batch; its rows find the version that the checkpoint has for that."""
        log, base = VersionLog(self.root / "ckpt"), duckdb.connect()
        places = [
            {**row, "batch": batch}
            for batch in range(self.files)
            if (version := log.at("Places", batch)) is not None
            for row in read_table(log.content("Places", version.number)).to_pylist()
        ]
        base.register("Places", pa.Table.from_pylist(places))
        names, codes = pa.table({"k": [1, 2], "name": ["one", "two"]}), pa.table({"k": [2, 3], "code": [2.5, 3.5]})
        base.register("Names", names)
        base.register("Codes", codes)
        for name in "AB":
            base.execute(f"CREATE TABLE {name} AS SELECT *, id // {KEYS} AS batch FROM '{self.root}/{name}/*.parquet'")
        found = base.execute(
            f"SELECT A.id, B.id, P.building, N.name, C.code FROM A JOIN B USING (k) {join} JOIN Places P "
            "ON A.k = P.id AND A.batch = P.batch LEFT JOIN Names N ON B.k = N.k LEFT JOIN Codes C ON C.k = A.k"
        ).fetchall()
        return sorted(found, key=repr)


def test_a_table_that_changes_is_taken_at_a_micro_batch_also_after_a_restart(spark: Any, tmp_path: Path):
    world = World(tmp_path)
    world.put("first")
    world.come()
    assert world.start(spark, "available-now").await_termination(600)
    world.put("second")
    run = world.start(spark, "endless")
    world.come()
    world.await_batch(run, 1)
    (tmp_path / "places" / "places.csv").write_text("id,building\nno number,x\n")
    world.come()
    world.await_batch(run, 2)
    warned = run.status()["versions"]["Places"]
    world.put("third")
    world.come()
    world.await_batch(run, 3)
    versions = run.status()["versions"]
    run.stop()
    assert warned["version"] == 2 and "cannot be read" in warned["warning"]
    assert versions["Places"] == {"version": 3, "since_batch": 3, "rows": 3}
    assert versions["Names"]["rows"] == versions["Codes"]["rows"] == 2
    assert {row[2][:5] for row in world.rows("inner_")} == {"first", "secon", "third"}
    assert world.rows("outer_") == world.wanted("LEFT")
    assert world.rows("inner_") == [row[:3] for row in world.wanted("INNER")]


def test_what_a_format_cannot_bring_is_told_by_name(spark: Any, tmp_path: Path):
    world = World(tmp_path)
    world.put("x")
    tables = parse_job(SQL.format(root=tmp_path)).tables
    assert reading.read(spark, tables["Places"]).schema.names == ["id", "building"]
    assert reading.read(spark, tables["Codes"]).to_pydict() == {"k": [2, 3], "code": [2.5, 3.5]}
    (tmp_path / "names.json").write_text('{"k": "one"}\n')
    with pytest.raises(UsageError, match="table Names cannot be read"):
        reading.read(spark, tables["Names"])
    write_deltalake(tmp_path / "codes", pa.table({"k": ["2"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(UsageError, match="k of the source delta is string, not bigint"):
        reading.read(spark, tables["Codes"])
