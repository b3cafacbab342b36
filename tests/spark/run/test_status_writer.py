"""The status is written beside the micro-batches: nobody waits for it, and the last change is always in the file."""

from __future__ import annotations

import threading

import pytest

from muntin.spark.run.status_writer import StatusWriter

PATIENCE_S = 10


def test_what_changes_during_a_write_goes_into_the_next_all_together():
    """A write that is under way holds nobody up, and the last change is written."""
    state, written = [0], []
    begun, go_on = threading.Event(), threading.Event()

    def write() -> None:
        seen = state[0]
        begun.set()
        assert go_on.wait(PATIENCE_S)
        written.append(seen)

    writer = StatusWriter(write)
    writer.soon()
    assert begun.wait(PATIENCE_S)
    for number in range(1, 6):
        state[0] = number
        writer.soon()
    go_on.set()
    writer.settle()
    assert written == [0, 5]
    state[0] = 6
    writer.soon()
    writer.settle()
    assert written == [0, 5, 6], "it begins again after it has been idle"


def test_a_write_that_fails_is_told_to_the_next_who_asks():
    def write() -> None:
        raise OSError("no space left")

    writer = StatusWriter(write)
    writer.soon()
    writer.settle()
    with pytest.raises(OSError, match="no space left"):
        writer.soon()
