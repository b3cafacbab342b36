"""A job on Spark whose checkpoint and output are in an object store, from the command line; and settings of users."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

import muntin as package
from muntin.spark.session import prepare_session
from muntin.spark.session.user_settings import default_settings
from muntin.spark.store import ObjectPath, locate, store_of

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.spark
def test_a_job_in_a_bucket_gives_the_rows_of_a_job_in_folders(
    bucket: ObjectPath, spark: Any, muntin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Spark's half is in a folder. Without one it would be in s3a://, for which this Spark has no file system."""
    for name in filter(lambda name: name.startswith("AWS_"), os.environ):  # the session may have begun without them
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    data, folders = tmp_path / "data", ("--output", tmp_path / "out", "--checkpoint", tmp_path / "ckpt")
    assert muntin("generate", "sensors", data, "--duration", 60, "--files", 2)[0] == 0
    objects = ("--output", f"{bucket}/out", "--checkpoint", f"{bucket}/job")
    job = ("run", data / "job.sql", "--bounded", "--quiet")
    code, _, err = muntin(*job, *objects)
    assert code == 2 and "Spark has no file system for s3a://" in err
    assert "--packages org.apache.hadoop:hadoop-aws:3." in err and "--spark-checkpoint" in err
    assert store_of(bucket).folders(bucket) == [], "nothing is written before"
    assert muntin(*job, *folders)[0] == 0
    code, _, err = muntin(*job, *objects, "--spark-checkpoint", tmp_path / "spark")
    assert code == 0, err
    code, out, err = muntin("status", "--checkpoint", f"{bucket}/job")
    assert code == 0 and "ended" in out, err
    assert {"offsets", "commits", "state", "control"} <= {entry.name for entry in (tmp_path / "spark").iterdir()}
    compare_outputs(tmp_path / "out", f"{bucket}/out", spark)


def compare_outputs(folder: Path, objects: str, spark: Any) -> None:
    """Both outputs have the same rows in the same order, also as views."""
    ours, theirs = duckdb.connect(), duckdb.connect()
    names = package.create_views(objects, ours)
    assert names == package.create_views(folder, theirs) == package.create_views(objects, spark) and names
    rows = 0
    for name in names:
        table = package.read(objects, name).to_table()
        assert table.equals(package.read(folder, name).to_table())
        count = f'SELECT count(*) FROM "{name}"'
        assert ours.execute(count).fetchone() == theirs.execute(count).fetchone() == (table.num_rows,)
        assert spark.table(name).count() == table.num_rows
        rows += table.num_rows
    assert rows > 100
    assert isinstance(locate(objects), ObjectPath)


@pytest.mark.spark
def test_what_users_have_set_of_spark_stays(spark: Any):
    own = spark.newSession()
    own.conf.set(MANAGER, "a.class.of.their.Own")
    own.conf.set("spark.sql.streaming.minBatchesToRetain", "77")
    own.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    prepare_session(own)
    assert own.conf.get(MANAGER) == "a.class.of.their.Own"
    assert own.conf.get("spark.sql.streaming.minBatchesToRetain") == "77"
    assert own.conf.get(PROVIDER).endswith("RocksDBStateStoreProvider"), "what answers depend on is set in any case"


def test_settings_of_the_machine_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert default_settings() == {}
    text = "# a comment\n\nspark.serializer  org.x.Kryo\nspark.shuffle.compress=true\n spark.a : b c \n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    assert default_settings() == {
        "spark.serializer": "org.x.Kryo",
        "spark.shuffle.compress": "true",
        "spark.a": "b c",
    }
