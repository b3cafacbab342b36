"""What a run does about executors on other machines: it waits for them, and takes its hot states away again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from muntin.model import MuntinError
from muntin.spark.run import executors
from muntin.spark.session import default_shards, session
from muntin.spark.shard.hot_state import hot_root


class Cluster:
    """Stands in for a session on a cluster whose executors, with one core each, come one at a look."""

    def __init__(self, master: str = "spark://host:7077", executors: int = 3):
        self.settings = {"spark.master": master}
        self.coming, self.come = executors, 0
        self.groups: list[str] = []
        self.cancelled = threading.Event()
        self.hangs = False

    def __getattr__(self, name: str) -> Any:
        if name in ("sparkContext", "_jsc"):
            return self
        raise AttributeError(name)

    def getConf(self) -> dict[str, str]:
        return self.settings

    def sc(self) -> Cluster:
        return self

    def getExecutorMemoryStatus(self) -> Cluster:
        return self

    def size(self) -> int:
        """With the driver."""
        self.come = min(self.coming, self.come + 1)
        return self.come + 1

    @property
    def defaultParallelism(self) -> int:
        return self.come

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        self.groups.append(group)

    def cancelJobGroup(self, group: str) -> None:
        assert group in self.groups
        self.cancelled.set()

    def parallelize(self, numbers: Iterable[int], parts: int) -> Cluster:
        self.parts = parts
        return self

    def foreachPartition(self, task: Callable[[Iterable[int]], None]) -> None:
        if self.hangs:
            assert self.cancelled.wait(30)
            raise RuntimeError("cancelled")
        task([])


def test_a_job_has_a_shard_for_each_core_of_executors_that_are_still_coming(monkeypatch):
    monkeypatch.setattr(session, "SETTLED_S", 0.3)
    assert default_shards(Cluster(executors=5)) == 5


def test_without_any_executor_the_number_of_shards_is_not_guessed(monkeypatch):
    monkeypatch.setattr(session, "COME_S", 0.2)
    with pytest.raises(MuntinError, match="no executor has come") as refused:
        default_shards(Cluster(executors=0))
    assert "SET shards" in str(refused.value.hint)


def test_hot_states_are_removed_where_tasks_run(tmp_path, monkeypatch):
    """The driver's own, and by a task for each core those of executors, whose blocks are elsewhere."""
    cluster = Cluster()
    cluster.come = 3
    cluster.settings["spark.local.dir"] = str(tmp_path / "driver")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "executor" / "blockmgr-1"))
    places = [hot_root("job"), hot_root("job", tmp_path / "driver")]
    for place in places:
        (place / "3").mkdir(parents=True)
    executors.forget_everywhere(cluster, "job")
    assert [place.exists() for place in places] == [False, False]
    assert cluster.parts == 3


def test_executors_that_do_not_answer_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(executors, "CLEANING_S", 0.1)
    cluster = Cluster()
    cluster.hangs = True
    executors.forget_everywhere(cluster, "job")
    assert cluster.cancelled.is_set()


def test_where_all_is_one_process_no_task_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    cluster = Cluster("local[2]")
    executors.forget_everywhere(cluster, "job")
    assert cluster.groups == []
