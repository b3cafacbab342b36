"""How far queries have come from a pipeline that reads the past to the one that takes them over.

    CHECKPOINT/pipelines/001/muntin/take_over.json     in the pipeline that reads the past

It is there before the other pipeline has the queries. As long as it names no instant, the other one publishes none of
their rows; from the moment on that it does, each of the two publishes those on its side of the instant.
"""

from __future__ import annotations

from dataclasses import dataclass

from muntin.spark.checkpoint.durable import FileKind, read_record, write_record
from muntin.spark.checkpoint.identity import FOLDER, checkpoint_id
from muntin.spark.store import Location, store_of

TAKE_OVER = "take_over.json"


@dataclass(frozen=True)
class TakeOver:
    """`muntin/take_over.json` of a pipeline that reads the past: which of its queries another pipeline takes over."""

    queries: list[str]
    to: int
    complete_from: int | None = None
    """The event time from which that pipeline has all their rows, once it has said so."""
    at: int | None = None
    """The output timestamp from which on it publishes them."""
    stays: str | None = None
    """Why the queries stay where they are, where that turned out."""


def read_take_over(folder: Location) -> TakeOver | None:
    """What is known of a pipeline's queries; None where no other pipeline takes them over."""
    file = folder / FOLDER / TAKE_OVER
    if not store_of(file).exists(file):
        return None
    return read_record(file, FileKind.TAKE_OVER, TakeOver, checkpoint_id(folder))


def write_take_over(folder: Location, record: TakeOver) -> None:
    write_record(folder / FOLDER / TAKE_OVER, FileKind.TAKE_OVER, record, checkpoint_id(folder))
