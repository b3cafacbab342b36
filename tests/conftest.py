"""How the tests are shared out where several processes run them: each has a Spark session of its own, for its part of
the files that need one."""

from __future__ import annotations

import os

import pytest

from java_archive import java_options

PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
ON_SPARK = bool(os.environ.get("MUNTIN_SPARK"))
"""Whether tests with the mark `stand_in` run on Spark itself."""

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file stay together where they share a session, and what takes minutes alone comes first."""
    for item in items:
        if ON_SPARK and item.get_closest_marker("stand_in") is not None:
            item.add_marker(pytest.mark.spark)
    alone = [item for item in items if item.get_closest_marker("spark") is not None]
    sessions = [item for item in alone if {"spark", "session"} & set(getattr(item, "fixturenames", ()))]
    files = sorted({str(item.path) for item in sessions})
    for item in sessions:
        item.add_marker(pytest.mark.xdist_group(f"spark {files.index(str(item.path)) % PROCESSES}"))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
