"""How much work a micro-batch does, as the driver tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muntin.model import Settings, UsageError
from muntin.plan.cost import DEFAULT
from muntin.spark.checkpoint import Manifest, ShardReport
from muntin.spark.control import control_stream
from muntin.spark.control.pacing import Pacing

EAGER = Settings(delivery="eager", scheduler="mqt", work_per_batch_us=2_000_000, longest_wait_us=10_000_000)
SECOND_NS = 1_000_000_000


class Told:
    """A pacing on a clock of the test, and what it has told."""

    def __init__(self, folder: Path, settings: Settings = EAGER, endless: bool = True):
        self.now, self.folder = 0.0, folder
        control_stream.make_folder(folder)
        self.pacing = Pacing(folder, settings, DEFAULT, endless, lambda: self.now)

    def commit(self, **report: Any) -> None:
        made = ShardReport(join=0, shard=0, epoch=0, limited=True)
        for name, value in report.items():
            setattr(made, name, value)
        self.pacing.committed(Manifest(0, reports={"0/0": made}))

    @property
    def messages(self) -> list[Any]:
        return control_stream.messages(self.folder)


def test_the_limit_is_told_before_the_first_micro_batch_and_follows_what_work_takes(tmp_path: Path):
    told = Told(tmp_path)
    told.pacing.begin(Manifest(-1))
    (first,) = told.messages
    assert (first.limit_ns, first.scheduler, first.constants) == (2 * SECOND_NS, "mqt", DEFAULT)
    told.commit(work_ns=2 * SECOND_NS, seconds=2.2)
    assert len(told.messages) == 1, "about as foretold, and nothing is left"
    for _ in range(9):
        told.commit(work_ns=2 * SECOND_NS, seconds=8.0)
    assert 0.4 * SECOND_NS < told.messages[-1].limit_ns < 0.8 * SECOND_NS, "a second of the model takes four"
    before = len(told.messages)
    told.commit(work_ns=1000, seconds=3.0)
    assert len(told.messages) == before, "a micro-batch with hardly any work says nothing"


def test_a_job_with_work_left_is_woken_after_each_micro_batch(tmp_path: Path):
    told = Told(tmp_path)
    told.pacing.begin(Manifest(-1))
    for n in range(3):
        told.commit(left_rows=5)
        assert len(told.messages) == n + 2
    told.commit(left_rows=0)
    assert len(told.messages) == 4
    told.commit(limited=False)
    assert len(told.messages) == 5, "a shard that came later has not been told"


def test_rows_that_have_waited_for_long_enough_are_named(tmp_path: Path):
    told = Told(tmp_path)
    for now, release in [(0, 100), (4, 200), (8, 300), (9, 350), (11, 400), (19, 500)]:
        told.now = now
        told.commit(left_rows=1, release=release)
    assert [m.until for m in told.messages] == [{}, {}, {}, {}, {"0": 100}, {"0": 350}]


def test_a_run_with_an_end_does_all_work_at_once_also_what_an_earlier_one_has_left(tmp_path: Path):
    told = Told(tmp_path, endless=False)
    told.pacing.begin(Manifest(-1))
    told.commit(work_ns=SECOND_NS, seconds=9.0)
    assert told.messages == []
    left = Manifest(3, reports={"0/0": ShardReport(join=0, shard=0, epoch=0, left_rows=7)})
    told.pacing.begin(left)
    assert [m.limit_ns for m in told.messages] == [None]
    told.pacing.begin(Manifest(4, reports={"0/0": ShardReport(join=0, shard=0, epoch=0, limited=True)}))
    assert [m.limit_ns for m in told.messages] == [None, None], "no work is left, but the shards would leave some"
    with pytest.raises(UsageError, match="7 rows of a run with delivery = 'eager' have work left"):
        Told(tmp_path, Settings(), endless=False).pacing.begin(left)
