"""What the driver watches while a job runs without end: silent streams, and which ordering suits each join.

It decides and says so in the control stream, whose messages are part of the input: all shards take them up in the same
micro-batch, and a replay finds them again. What was decided is seen in the shards' reports.

    idle       the named streams have been silent for as long as they declare; each is awake again with its next row
    ordering   a join goes over to Filter-Order, or back to Sync-Filter (hammad2005 6)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from muntin.model import Settings, Side, Stream
from muntin.plan import Plan, SharedJoin
from muntin.plan.ordering import ADAPTIVE, FILTER_ORDER, SYNC_FILTER, Decision, Monitor, must_wait
from muntin.spark.checkpoint import Manifest, ShardReport
from muntin.spark.control import control_stream

SECOND_US = 1_000_000
SWITCHES = 20
"""How many are remembered."""


class Silence:
    """Which streams have been silent for longer than they may; the time that a micro-batch takes does not count."""

    def __init__(self, streams: Mapping[str, Stream], clock: Callable[[], float] = time.monotonic):
        self._after_s = {s.name: s.idle_us / SECOND_US for s in streams.values() if s.idle_us is not None}
        self._clock = clock
        self._heard_s = dict.fromkeys(self._after_s, clock())
        self._rows: dict[str, int] = {}
        self._told: set[str] = set()

    def worked(self, seconds: float) -> None:
        for name in self._heard_s:
            self._heard_s[name] += seconds

    def heard(self, rows: Mapping[str, int]) -> None:
        """So many rows of each stream have come so far."""
        for name in self._after_s:
            if rows.get(name, 0) != self._rows.get(name, 0):
                self._rows[name], self._heard_s[name] = rows[name], self._clock()
                self._told.discard(name)

    def again(self) -> None:
        """Tell once more: there are joins that have not heard it."""
        self._told.clear()

    def news(self) -> list[str]:
        """Streams that have become silent since they were last told."""
        now = self._clock()
        found = [n for n, after in self._after_s.items() if n not in self._told and now - self._heard_s[n] >= after]
        self._told.update(found)
        return found


class Orderings:
    """Adaptive: one monitor for each shard of each join; the busiest shard decides for its join."""

    def __init__(self, alpha: float):
        self._alpha = alpha
        self._monitors: dict[str, Monitor] = {}
        self._spent: dict[str, tuple[int, float]] = {}
        self.decisions: dict[int, Decision] = {}
        self.switches: list[dict[str, Any]] = []

    def look(self, plan: Plan, manifest: Manifest, clock_s: float) -> list[tuple[int, str]]:
        """Take in the reports of a micro-batch; joins that should go over to another ordering, and to which."""
        found = []
        for join in plan.joins:
            if must_wait(join) is not None:
                continue
            reports = {k: r for k, r in manifest.reports.items() if r.join == join.index}
            told = [d for key, report in reports.items() if (d := self._decide(join, key, report, clock_s))]
            if not told:
                continue
            decision = self.decisions[join.index] = max(told, key=lambda d: d.load)
            if any(_name(report) != decision.ordering for report in reports.values()):
                found.append((join.index, decision.ordering))
        return found

    def _decide(self, join: SharedJoin, key: str, report: ShardReport, clock_s: float) -> Decision | None:
        counters = report.counters
        joined, seconds = self._spent.get(key, (0, 0.0))
        if counters.probes != joined:
            seconds += report.seconds
        self._spent[key] = counters.probes, seconds
        windows = join.reach(Side.LEFT) / SECOND_US, join.reach(Side.RIGHT) / SECOND_US
        monitor = self._monitors.setdefault(key, Monitor(self._alpha, windows))
        left, right = counters.arrived
        monitor.note(clock_s, (left, right), counters.probes, seconds)
        return monitor.decide()

    def switched(self, join: int, ordering: str, batch: int) -> None:
        entry = {"batch": batch, "join": join + 1, "ordering": ordering, "load": round(self.decisions[join].load, 6)}
        self.switches = [*self.switches, entry][-SWITCHES:]


class Watch:
    """Both, for one streaming query; only in an endless run, since others read no messages on their way."""

    def __init__(self, folder: Path, streams: Iterable[Stream], settings: Settings, endless: bool):
        self._folder, self._endless = folder, endless
        self._chooses = endless and settings.ordering == ADAPTIVE
        self._silence = Silence({stream.name: stream for stream in streams})
        self.orderings, self._epoch = Orderings(settings.alpha), 0
        self._asked_for: dict[int, str] = {}

    def committed(self, plan: Plan, manifest: Manifest) -> bool:
        """Let each join follow the ordering that suits what comes; whether that is looked after at all."""
        if manifest.epoch != self._epoch:
            self._epoch = manifest.epoch
            self._silence.again()
        if not self._chooses:
            return False
        for join, ordering in self.orderings.look(plan, manifest, time.monotonic()):
            if self._asked_for.get(join) != ordering:
                tell_ordering(self._folder, join, ordering)
                self.orderings.switched(join, ordering, manifest.batch)
                self._asked_for[join] = ordering
        return True

    def worked(self, seconds: float) -> None:
        """A micro-batch took so long."""
        self._silence.worked(seconds)

    def look(self, rows: Mapping[str, int]) -> None:
        """Tell the shards of streams that have become idle; `rows` of each have come so far, and none is at work."""
        self._silence.heard(rows)
        if self._endless and (streams := self._silence.news()):
            tell_idle(self._folder, streams)


def _name(report: ShardReport) -> str:
    return FILTER_ORDER if report.filter_order else SYNC_FILTER


def tell_idle(checkpoint: Path, streams: list[str]) -> None:
    control_stream.send(checkpoint, {"type": "idle", "streams": streams})


def tell_ordering(checkpoint: Path, join: int, ordering: str) -> None:
    control_stream.send(checkpoint, {"type": "ordering", "join": join, "filter_order": ordering == FILTER_ORDER})
