"""Of two drivers one commits, wherever they run and whatever their clocks say."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muntin.model import UsageError
from muntin.spark.checkpoint import (
    BatchOutcome,
    CommitLog,
    FencedError,
    FileKind,
    Lease,
    ObjectPublisher,
    has_driver,
    last_manifest,
    lease,
    write_json,
)
from muntin.spark.store import ObjectPath, ObjectStore


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules with a short term."""
    monkeypatch.setattr(lease, "TERM_S", 0.6)
    monkeypatch.setattr(lease, "BEAT_S", 0.1)
    monkeypatch.setattr(lease, "LOOK_S", 0.05)


@pytest.fixture(params=["memory", "S3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectPath:
    found: ObjectPath = request.getfixturevalue("memory" if request.param == "memory" else "bucket")
    return replace(found, spark=tmp_path / "spark")


def elsewhere(place: ObjectPath) -> ObjectPath:
    """The same place as another machine sees it."""
    return replace(place, store=ObjectStore(place.store._backend, place.store.root))


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers do not see each other's processes."""
    names = iter(f"machine {n}" for n in range(100))
    monkeypatch.setattr(lease, "machine", lambda: next(names))


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts a driver to sleep: no sign of life, and what it does next it does when it wakes up."""
    keep = threading.Event()
    monkeypatch.setattr(Lease, "_keep", lambda self: keep.wait())
    yield keep
    keep.set()


def test_a_second_driver_is_refused_while_the_first_gives_signs_of_life(place: ObjectPath, apart: None):
    first = Lease(place)
    with pytest.raises(UsageError, match=r"process \d+ on \S+ is running on .*folder|.*bucket"):
        Lease(elsewhere(place))
    assert has_driver(place)
    first.release()
    assert not has_driver(place)
    began = time.monotonic()
    second = Lease(elsewhere(place))
    assert second.number == first.number + 1 and time.monotonic() - began < lease.TERM_S, "a lease given back is free"
    second.release()


def test_the_lease_of_a_dead_driver_is_taken_over_after_its_term(place: ObjectPath, apart: None, asleep: Any):
    Lease(place)
    second = Lease(elsewhere(place))
    assert second.number == 2
    second.release()


def test_on_the_same_machine_a_dead_process_is_seen_at_once(
    place: ObjectPath, asleep: Any, monkeypatch: pytest.MonkeyPatch
):
    first = Lease(place)
    monkeypatch.setattr(lease, "started", lambda pid: "" if pid == str(first._driver.pid) else "1")
    monkeypatch.setattr(lease, "TERM_S", 3600.0)
    assert not has_driver(place)
    Lease(elsewhere(place)).release()


@pytest.mark.parametrize("apart_s", [-600.0, 600.0])
def test_clocks_apart_by_minutes_change_nothing(
    place: ObjectPath, apart: None, monkeypatch: pytest.MonkeyPatch, apart_s: float
):
    """Nobody compares clocks: neither that of the other driver, nor that of the storage."""
    first = Lease(place)
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + apart_s)
    shifted = time.monotonic
    with pytest.raises(UsageError, match="is running on"):
        Lease(elsewhere(place), clock=lambda: shifted() + apart_s)
    first._beat()
    first.release()
    Lease(elsewhere(place), clock=lambda: shifted() + apart_s).release()


def commit(publisher: ObjectPublisher, batch: int, rows: int) -> None:
    done = BatchOutcome(batch)
    done.rows["q"] = rows
    publisher.publish(done)


def test_a_driver_that_wakes_up_after_another_took_over_commits_nothing(place: ObjectPath, apart: None, asleep: Any):
    first, output = Lease(place), place / "out"
    old = ObjectPublisher(place, output)
    commit(old, 0, 1)
    second = Lease(theirs := elsewhere(place))
    new = ObjectPublisher(theirs, elsewhere(output))
    place.store._guards.clear()  # its write is on its way already: only the fence is left
    with pytest.raises(FencedError, match="another driver has taken over"):
        commit(old, 1, 100)
    commit(new, 1, 10)
    commit(new, 2, 10)
    for late in (1, 2, 3):
        old.last = replace(old.last, batch=late - 1)
        with pytest.raises(FencedError):
            commit(old, late, 100)
        if late == 2:
            break
    assert [m.batch for m in CommitLog(theirs).manifests()] == [2, 1, 0]
    assert last_manifest(theirs).total_rows == {"q": 21}
    first.release()
    second.release()


def test_each_write_of_a_driver_that_was_taken_over_from_is_refused(place: ObjectPath, apart: None, asleep: Any):
    first = Lease(place)
    second = Lease(elsewhere(place))
    time.sleep(lease.TERM_S)
    assert place.spark is not None
    for file in (place / "muntin" / "status.json", place.spark / "control" / "0000000001.json"):
        with pytest.raises(FencedError):
            write_json(file, FileKind.STATUS, {})
    assert not place.spark.exists() and not place.store.exists(place / "muntin" / "status.json")
    first.release()
    assert has_driver(place), "what it gives back is not its own any more"
    second.release()


def test_a_takeover_that_dies_is_taken_over_in_turn(place: ObjectPath, apart: None, asleep: Any):
    """Fence upon fence, and each later driver goes on where the last commit is."""
    Lease(place)
    commit(ObjectPublisher(place, place / "out"), 0, 1)
    drivers = [Lease(elsewhere(place)) for _ in range(3)]
    theirs = elsewhere(place)
    assert last_manifest(theirs).batch == 0
    commit(ObjectPublisher(theirs, theirs / "out"), 1, 2)
    assert last_manifest(place).total_rows == {"q": 3}
    drivers[-1].release()


def test_of_two_that_take_over_at_once_one_does(place: ObjectPath, apart: None, asleep: Any):
    Lease(place)
    found: list[Any] = []

    def take(theirs: ObjectPath) -> None:
        try:
            found.append(Lease(theirs))
        except UsageError as refused:
            found.append(refused)

    threads = [threading.Thread(target=take, args=(elsewhere(place),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(one).__name__ for one in found) == ["Lease", "UsageError", "UsageError"]
