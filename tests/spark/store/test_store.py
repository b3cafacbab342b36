"""The verbs of a store mean the same on a file system, in memory and on S3."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from muntin.model import MuntinError, UsageError
from muntin.spark.store import ObjectPath, ObjectStore, for_spark, locate, spark_half, store_of
from muntin.spark.store.locate import BACKENDS
from spark.store.s3 import BUCKET, Proxy


def test_a_store_reads_lists_puts_and_removes(anywhere: Any):
    store, file = store_of(anywhere), anywhere / "plans" / "1.json"
    assert store.files(anywhere / "plans") == [] == store.folders(anywhere)
    assert not store.exists(file) and store.stamp(file) is None
    with pytest.raises(FileNotFoundError):
        store.read(file)
    store.put(file, b"one")
    before = store.stamp(file)
    store.put(file, b"two!")
    assert store.read(file) == b"two!" and store.stamp(file) not in (before, None)
    store.put(anywhere / "plans" / "0.json", b"")
    assert [f.name for f in store.files(anywhere / "plans")] == ["0.json", "1.json"]
    assert store.folders(anywhere) == ["plans"] and store.files(anywhere) == []
    assert store.written_at(file) > 0
    store.remove(file)
    store.remove(file)
    assert [f.name for f in store.files(anywhere / "plans")] == ["0.json"]
    store.remove_all(anywhere)
    assert store.files(anywhere / "plans") == []


def test_of_many_who_put_a_new_file_one_does(anywhere: Any):
    store, file, wrote = store_of(anywhere), anywhere / "x.json", list[int]()

    def put(n: int) -> None:
        if store.put_new(file, b"%d" % n):
            wrote.append(n)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrote) == 1 and store.read(file) == b"%d" % wrote[0]
    assert not [f for f in store.files(anywhere) if f.name != "x.json"]


def test_a_guard_prevents_writes_below_its_folder_and_no_others(anywhere: Any):
    store = store_of(anywhere)
    store.put(anywhere / "a" / "x", b"1")

    def refuse(place: Any) -> None:
        raise MuntinError("no")

    store.guard(anywhere / "a", refuse)
    writes = (
        lambda: store.put(anywhere / "a" / "x", b"2"),
        lambda: store.put_new(anywhere / "a" / "y", b"2"),
        lambda: store.remove(anywhere / "a" / "x"),
        lambda: store.remove_all(anywhere / "a"),
    )
    for write in writes:
        with pytest.raises(MuntinError, match="no"):
            write()
    store.put(anywhere / "ab" / "x", b"2")
    assert store.read(anywhere / "a" / "x") == b"1"
    store.unguard(refuse)
    store.remove(anywhere / "a" / "x")


@pytest.mark.parametrize("faults", [["refuse", "refuse"], ["lose"], [0.3], ["lose", "refuse", 0.1]])
def test_calls_that_fail_or_take_long_are_tried_again_and_put_once(
    s3_port: int, faults: list[str | float], monkeypatch: pytest.MonkeyPatch
):
    """An answer that was lost must not make a put that has arrived look like somebody else's."""
    proxy = Proxy(s3_port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_address[1]}")
    store = ObjectStore(BACKENDS["s3"](f"s3://{BUCKET}"), f"s3://{BUCKET}")
    file = ObjectPath(store, f"faults-{len(faults)}-{faults[0]}")
    proxy.faults = list(faults)
    assert store.put_new(file, b"mine")
    assert not proxy.faults and proxy.met == faults
    assert not store.put_new(file, b"another") and store.read(file) == b"mine"
    assert store.calls["put"] == 2
    proxy.shutdown()


@pytest.mark.parametrize(
    "text, why",
    [
        ("s3a://b/x", "cannot keep its files in s3a://"),
        ("hdfs://host/x", "cannot keep its files in hdfs://"),
        ("abfss://c@a/x", "cannot keep its files in abfss://"),
        ("ftp://host/x", "cannot keep its files in ftp://"),
        ("s3:/b/x", "is not the URI of a folder in a bucket"),
        ("s3://b/x?y=1", "is not the URI of a folder in a bucket"),
        ("file://other/x", "names another machine"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=why) as refused:
        locate(text)
    assert refused.value.hint
    if not text.startswith("file:"):
        with pytest.raises(UsageError):
            locate(Path(text))
    assert not list(tmp_path.iterdir())


def test_paths_and_file_uris_are_paths():
    assert locate("a/b") == Path("a/b") and locate("file:///a/b%20c") == Path("/a/b c") == locate("file:/a/b%20c")
    assert locate("C:x") == Path("C:x") and spark_half(Path("/x")) == Path("/x")


def test_a_key_is_joined_and_taken_apart_as_a_path_is(memory: ObjectPath):
    place = ObjectPath(memory.store, "job", Path("/shared/job"))
    below = place / "pipelines" / "001" / "x.json"
    assert (below.name, below.stem, str(below)) == ("x.json", "x", f"{memory.store.root}/job/pipelines/001/x.json")
    assert below.parent.key == "job/pipelines/001" and spark_half(below.parent) == Path("/shared/job/pipelines/001")
    with pytest.raises(UsageError, match="Spark keeps its half"):
        spark_half(memory)
    assert for_spark(Path("/x")) == "/x"


def test_a_bucket_goes_to_a_task_by_its_name(bucket: ObjectPath):
    found = pickle.loads(pickle.dumps(bucket / "x"))
    assert found == bucket / "x" and for_spark(found) == f"s3a://{BUCKET}/{found.key}"


def test_no_bucket_and_no_access_are_said_in_a_sentence(s3_port: int, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(MuntinError, match="there is no bucket for s3://nowhere/x"):
        store_of(place := locate("s3://nowhere/x")).put(place, b"")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    store = ObjectStore(BACKENDS["s3"](f"s3://{BUCKET}"), f"s3://{BUCKET}")
    with pytest.raises(MuntinError, match="no access to"):
        store.put(ObjectPath(store, "x"), b"")
