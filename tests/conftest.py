"""How the tests are shared out where several processes run them: one by one, but those that share something costly go
to one process."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from java_archive import BRIEF
from muntin.studies.registry import STUDIES

ON_SPARK = bool(os.environ.get("MUNTIN_SPARK"))
"""Whether tests with the mark `stand_in` run on Spark itself."""

os.environ.setdefault("SPARK_SUBMIT_OPTS", BRIEF)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first: on Spark, then what is slow. At the end no process has much left that others could
    share."""
    for item in items:
        if ON_SPARK and item.get_closest_marker("stand_in") is not None:
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("spark", "stand_in", "slow")])


class Sharing(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        """What a test shares with others: a fixture of its file, or what studies have run; else it is on its own."""
        file, _, test = nodeid.partition("::")
        study = _modules().get(test.partition("[")[2].removesuffix("]"))
        if file.startswith("tests/studies/") and study is not None:
            return study
        return file if _has_fixture(self.config.rootpath / file) else nodeid


@functools.cache
def _modules() -> dict[str, str]:
    """Where the studies are; those of one module share what they have run."""
    return {study.name: study.run.__module__ for study in STUDIES}


@functools.cache
def _has_fixture(file: Path) -> bool:
    return 'scope="module"' in file.read_text()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing | None:
    """With `--dist loadgroup`."""
    return Sharing(config, log) if config.getvalue("dist") == "loadgroup" else None
