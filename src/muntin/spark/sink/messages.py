"""What the tasks of a sink tell the driver, one message a row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from muntin.model.records import from_json, to_json
from muntin.spark.checkpoint import BatchOutcome, ShardReport, Staged

ArrivalTimes = dict[str, list[tuple[int, int]]]
"""For each query, rows by the moment at which they had arrived: (microseconds, rows)."""


@dataclass(frozen=True)
class TaskMessage:
    """One thing that a task has done: what is not said is empty."""

    report: ShardReport | None = None
    arrivals: ArrivalTimes = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of groups, which complete with time and not with the arrival of a row."""
    unmatched: dict[str, int] = field(default_factory=dict)
    """Rows that went out without a match."""
    dead_letters: dict[str, int] = field(default_factory=dict)
    staged: Staged | None = None

    def to_row(self) -> tuple[str, bytes | None]:
        """The message as JSON, and the staged table beside it."""
        if self.staged is None or self.staged.table is None:
            return json.dumps(to_json(self)), None
        return json.dumps(to_json(replace(self, staged=replace(self.staged, table=None)))), self.staged.table

    @classmethod
    def from_row(cls, text: str, table: bytes | None) -> TaskMessage:
        found = from_json(TaskMessage, json.loads(text))
        if found.staged is None or table is None:
            return found
        return replace(found, staged=replace(found.staged, table=bytes(table)))


def outcome_of(batch: int, messages: Iterable[TaskMessage]) -> BatchOutcome:
    """What all tasks of a micro-batch have done."""
    done = BatchOutcome(batch)
    for message in messages:
        done.rows.update({name: sum(n for _, n in arrivals) for name, arrivals in message.arrivals.items()})
        done.rows.update(message.rows)
        done.unmatched.update(message.unmatched)
        done.dead_letters.update(message.dead_letters)
        done.reports += [message.report] if message.report is not None else []
        done.staged += [message.staged] if message.staged is not None else []
    return done
