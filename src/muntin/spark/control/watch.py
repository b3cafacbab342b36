"""What the driver watches while a job runs without end: silent streams, which ordering suits each join, and hot keys.

It sends what it decides as `idle`, `ordering` and `hot_keys` messages in the control stream. Its messages are part of
the input: all shards take them up in the same micro-batch, and a replay finds them again. The shards' reports show what
is in force.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from muntin.core.arrivals import FOREVER
from muntin.model import Settings, Side, Stream
from muntin.plan import Plan, SharedJoin
from muntin.plan.orderings import ORDERINGS, Decision, Monitor, Ordering, Switching, must_wait, ordering_in_force
from muntin.spark.checkpoint import Manifest, ShardReport
from muntin.spark.control import control_stream
from muntin.spark.control.hot_keys import HotKeyWatch
from muntin.spark.store import Location

SECOND_US = 1_000_000
SWITCHES = 20
"""How many are remembered."""


class Silence:
    """Which streams have been silent for longer than they may; the time that a micro-batch takes does not count."""

    def __init__(self, streams: Mapping[str, Stream], clock: Callable[[], float] = time.monotonic):
        self._after_s = {s.name: s.idle_us / SECOND_US for s in streams.values() if s.idle_us is not None}
        self._clock = clock
        self._last_row_s = dict.fromkeys(self._after_s, clock())
        self._rows: dict[str, int] = {}
        self._reported: set[str] = set()

    def exclude(self, seconds: float) -> None:
        """Do not count the time that a micro-batch took."""
        for name in self._last_row_s:
            self._last_row_s[name] += seconds

    def note_rows(self, rows: Mapping[str, int]) -> None:
        """So many rows of each stream have come so far."""
        for name in self._after_s:
            if rows.get(name, 0) != self._rows.get(name, 0):
                self._rows[name], self._last_row_s[name] = rows[name], self._clock()
                self._reported.discard(name)

    def report_again(self) -> None:
        """Report silent streams once more: there are joins that do not know of them."""
        self._reported.clear()

    def newly_silent(self) -> list[str]:
        """Streams that have become silent and are not reported yet."""
        now = self._clock()
        silent = [name for name, after_s in self._after_s.items() if now - self._last_row_s[name] >= after_s]
        found = [name for name in silent if name not in self._reported]
        self._reported.update(found)
        return found


@dataclass(frozen=True)
class OrderingSwitch:
    """A change of ordering: the micro-batch before it, the join (from 1), the new ordering, the load that made it, and
    why."""

    batch: int
    join: int
    ordering: str
    load: float
    reason: str = ""


class Orderings:
    """Adaptive: one monitor for each shard of each join; the busiest shard decides for its join."""

    def __init__(self, alpha: float):
        self._alpha = alpha
        self._monitors: dict[str, Monitor] = {}
        self._switching: dict[int, Switching] = {}
        self._spent: dict[str, tuple[int, float]] = {}
        self.decisions: dict[int, Decision] = {}
        self.switches: list[OrderingSwitch] = []

    def look(self, plan: Plan, manifest: Manifest, clock_s: float) -> list[tuple[int, Ordering]]:
        """Take in the reports of a micro-batch; joins that go over to another ordering now, and to which."""
        found = []
        for join in plan.joins:
            if must_wait(join) is not None:
                continue
            reports = {k: r for k, r in manifest.reports.items() if r.join == join.index}
            decided = [d for key, report in reports.items() if (d := self._decide(join, key, report, clock_s))]
            if not decided:
                continue
            decision = self.decisions[join.index] = max(decided, key=lambda d: d.load)
            ahead = all(report.filter_order for report in reports.values())
            apart_s = max(_apart_s(report) for report in reports.values())
            why = self._switching.setdefault(join.index, Switching()).reason(decision, ahead, clock_s, apart_s)
            if why is not None:
                ordering, load = ordering_in_force(not ahead), round(decision.load, 6)
                switch = OrderingSwitch(manifest.batch, join.index + 1, ordering.name, load, why)
                self.switches = [*self.switches, switch][-SWITCHES:]
                found.append((join.index, ordering))
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


def _apart_s(report: ShardReport) -> float:
    """How far the streams of a join are apart, in seconds of event time; 0 before both have begun."""
    left, right = report.max_ts
    return 0.0 if min(left, right) == -FOREVER else abs(left - right) / SECOND_US


class Watch:
    """Silence, orderings and hot keys of one pipeline; only in an endless run, since others read no messages on their
    way."""

    def __init__(self, folder: Location, streams: Iterable[Stream], settings: Settings, endless: bool, last: Manifest):
        self._folder = folder
        self._endless = endless
        self._chooses = endless and ORDERINGS[settings.ordering].adapts
        self._silence = Silence({stream.name: stream for stream in streams})
        self.orderings = Orderings(settings.alpha)
        self.hot_keys = HotKeyWatch(folder, settings, endless, last)
        self._epoch = 0

    def committed(self, plan: Plan, manifest: Manifest) -> bool:
        """Let each join follow the ordering that suits what comes; whether that is looked after at all."""
        if manifest.epoch != self._epoch:
            self._epoch = manifest.epoch
            self._silence.report_again()
        self.hot_keys.committed(plan, manifest)
        if not self._chooses:
            return False
        for join, ordering in self.orderings.look(plan, manifest, time.monotonic()):
            send_ordering(self._folder, join, ordering)
        return True

    def exclude(self, seconds: float) -> None:
        """Do not count the time that a micro-batch took as silence."""
        self._silence.exclude(seconds)

    def report_idle(self, rows: Mapping[str, int]) -> None:
        """Report streams that have become idle to the shards, given the rows of each so far. No micro-batch runs."""
        self._silence.note_rows(rows)
        if self._endless and (streams := self._silence.newly_silent()):
            send_idle(self._folder, streams)


def send_idle(checkpoint: Location, streams: list[str]) -> None:
    control_stream.send(checkpoint, control_stream.IdleMessage(streams))


def send_ordering(checkpoint: Location, join: int, ordering: Ordering) -> None:
    message = control_stream.OrderingMessage(join, filter_order=ordering.joins_ahead())
    control_stream.send(checkpoint, message)
