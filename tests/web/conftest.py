"""A job that is played, and clients of its page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from muntin.web.app import make_app
from muntin.web.guard import TOKEN, Access
from muntin.web.live import LiveJob
from web.played import PlayedJob

HOST = "http://127.0.0.1:8420"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedJob]:
    played = PlayedJob(tmp_path_factory.mktemp("job"))
    played.tick(4)
    yield played
    played.close()


@pytest.fixture
def access() -> Access:
    return Access()


@pytest.fixture
def live(job: PlayedJob) -> LiveJob:
    return LiveJob(job.checkpoint)


@pytest.fixture
def reader(live: LiveJob, access: Access) -> TestClient:
    """A client without the token."""
    return TestClient(make_app(live, access), base_url=HOST, raise_server_exceptions=False)


@pytest.fixture
def client(reader: TestClient, access: Access) -> TestClient:
    """A client with it."""
    reader.headers[TOKEN] = access.token or ""
    return reader
