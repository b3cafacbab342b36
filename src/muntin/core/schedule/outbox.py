"""Pairs on their way to the queries while runs of rows are joined level by level (hammad2003 3.2, 3.3: routing).

A pair found at a level belongs to queries of this level and of larger ones. A query must get its pairs in timestamp
order, so it can have those of a run only after those of all earlier runs. The scheduler says when (`scans_whole_runs`,
`delivers_at_once`).

The early rules let pairs of smaller ages go before those of larger ages of the same run. That is in order where the
rows of the run have one timestamp, as a run of one row does; from a longer run a query gets all its pairs together,
sorted, when the run has scanned its level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from muntin.core.schedule.left_work import FoundPart
from muntin.kernels.join import Pairs, in_order, together
from muntin.plan.schedulers import Scheduler, Unit


@dataclass(frozen=True)
class Delivery:
    """Pairs in timestamp order for the queries of some levels; `at_once`: each at the moment at which it is found."""

    levels: tuple[int, ...]
    run: int
    pairs: Pairs
    at_once: bool


@dataclass
class _Run:
    """What a run has found so far, unit by unit, and how much of it the queries of each level have got."""

    early: bool
    found: list[Pairs] = field(default_factory=list)
    got: list[int] = field(default_factory=list)


class Outbox:
    def __init__(self, scheduler: Scheduler, levels: int):
        self._scheduler = scheduler
        self._levels = levels
        self._first = [0] * levels
        """For each level the first run that has not scanned it: the one whose pairs its queries are to get next."""
        self._runs: dict[int, _Run] = {}
        self.held = 0
        """Pairs kept for a query that must wait for them, each counted once."""

    def done(self, unit: Unit, pairs: Pairs, early: bool) -> list[Delivery]:
        """A unit has found pairs; what may go to whom now. `early`: the rows of the run have one timestamp."""
        if self._scheduler.scans_whole_runs:
            return [Delivery(tuple(range(self._levels)), unit.run, pairs, True)]
        run = self._runs.setdefault(unit.run, _Run(early, got=[0] * self._levels))
        run.found.append(Pairs._make([a.copy() for a in pairs]))
        self.held += len(pairs.ts)
        scanned = range(unit.first, unit.last)
        going = [
            k for k in range(unit.first, self._levels) if k < unit.last or (run.early and self._first[k] == unit.run)
        ]
        out = self._send(unit.run, going, self._scheduler.delivers_at_once and run.early)
        for k in scanned:
            self._first[k] = unit.run + 1
        if unit.last == self._levels:
            del self._runs[unit.run]
        after = self._runs.get(unit.run + 1)
        if self._scheduler.delivers_at_once and after is not None and after.early:
            out += self._send(unit.run + 1, list(scanned), False)
        return out

    def go_on(self, number: int, early: bool, parts: Sequence[Pairs], sent: Sequence[bool]) -> None:
        """A run that a micro-batch before has left, with what it had found at each level that it has scanned, and the
        levels whose queries have got that."""
        scanned = len(parts)
        got = [scanned if k < scanned or sent[k] else 0 for k in range(self._levels)]
        self._runs[number] = _Run(early, list(parts), got)
        self.held += sum(len(pairs.ts) for pairs in parts[got[-1] :])
        for k in range(scanned):
            self._first[k] = number + 1

    def flush(self) -> list[Delivery]:
        """Let go of all that may go: what the first run of a level has found so far, if it has one timestamp."""
        out = []
        for number in sorted(set(self._first)):
            if number in self._runs and self._runs[number].early:
                out += self._send(number, [k for k in range(self._levels) if self._first[k] == number], False)
        return out

    def has_sent(self, number: int) -> bool:
        """Whether a run that is the first of some level has let go of what it has found, as `flush` does."""
        return number in self._runs and self._runs[number].early

    def waiting(self) -> list[FoundPart]:
        """What queries still have to get of what was found, run by run."""
        runs = sorted(self._runs.items())
        return [FoundPart(n, run.found[n]) for _, run in runs for n in range(run.got[-1], len(run.found))]

    def _send(self, number: int, levels: Sequence[int], at_once: bool) -> list[Delivery]:
        """What the queries of these levels have not got of a run, those that get the same together."""
        run, out = self._runs[number], []
        kept = run.got[-1]  # the largest window wants all of it, and gets it last
        alike: dict[int, list[int]] = {}
        for k in levels:
            if run.got[k] < len(run.found):
                alike.setdefault(run.got[k], []).append(k)
                run.got[k] = len(run.found)
        self.held -= sum(len(pairs.ts) for pairs in run.found[kept : run.got[-1]])
        for since, ks in alike.items():
            pairs = merged(run.found[since:])
            if len(pairs.ts):
                out.append(Delivery(tuple(ks), number, pairs, at_once))
        return out


def merged(parts: Sequence[Pairs]) -> Pairs:
    """Pairs of several levels in timestamp order."""
    return parts[0] if len(parts) == 1 else in_order(together(*parts))
