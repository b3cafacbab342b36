"""How much work the shards do in a micro-batch, where delivery is eager: the rest waits for the next, beside new rows.

A job says how long a micro-batch may work, and how long rows may wait. A shard counts in nanoseconds of the cost model,
so that a replay stops where the first attempt did. What the model takes to be a second may be two on this machine, so
the driver compares what shards have foretold with what they have taken, and tells the limit in the control stream.
While work is left, a message after every micro-batch wakes the job, whether or not rows come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from muntin.model import Settings, UsageError
from muntin.plan.cost import Constants
from muntin.spark.checkpoint import Manifest, ShardReport
from muntin.spark.control import control_stream
from muntin.spark.store import Location

SECOND_NS = 1_000_000_000
CHANGED = 1.5
"""A limit that differs by less from the one that was told is not told."""
TELLING = 0.1
"""A micro-batch that did less than this part of what it might says nothing of how long work takes."""


class Pacing:
    """The limits of one pipeline; in a run that ends by itself there are none, since nobody reads messages there."""

    def __init__(
        self,
        folder: Location,
        settings: Settings,
        constants: Constants,
        endless: bool,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._folder, self._settings, self._constants = folder, settings, constants
        self._limited = endless and settings.eager
        self._clock = clock
        self._slowness = 1.0
        """Nanoseconds that a nanosecond of the cost model takes."""
        self._sent: int | None = None
        self._releases: deque[tuple[float, dict[int, int]]] = deque()
        """At which time results of each join could leave up to where."""

    def begin(self, last: Manifest) -> None:
        """Tell the limit of this run, or that there is none where a run before had one."""
        reports = [*last.reports.values()]
        left = sum(report.left_rows for report in reports)
        if left and not self._settings.eager:
            message = (
                f"{left:,} rows of a run with delivery = 'eager' have work left, which some queries have got in part"
            )
            hint = "run it once more with delivery = 'eager' and --available-now, which does all of it"
            raise UsageError(message, hint=hint)
        if self._limited or left or any(report.limited for report in reports):
            self._tell(reports)

    def committed(self, manifest: Manifest) -> None:
        """Take in what the shards have done; tell them how to go on where work is left, or the limit has changed."""
        if not self._limited:
            return
        reports = [*manifest.reports.values()]
        self._look(reports)
        news = self._sent is None or not 1 / CHANGED < self._limit / self._sent < CHANGED
        if news or any(report.left_rows or not report.limited for report in reports):
            self._tell(reports)

    def _look(self, reports: list[ShardReport]) -> None:
        foretold = max((report.work_ns for report in reports), default=0)
        took = max((report.seconds for report in reports), default=0.0)
        if self._sent is not None and foretold > TELLING * self._sent:
            self._slowness = (self._slowness + took * SECOND_NS / foretold) / 2

    @property
    def _limit(self) -> int:
        return max(1, int(self._settings.work_per_batch_us * 1000 / self._slowness))

    def _tell(self, reports: list[ShardReport]) -> None:
        self._sent = self._limit if self._limited else None
        message = control_stream.WorkMessage(
            limit_ns=self._sent,
            until={str(join): ts for join, ts in self._overdue(reports).items()},
            scheduler=self._settings.scheduler,
            constants=self._constants,
        )
        control_stream.send(self._folder, message)

    def _overdue(self, reports: list[ShardReport]) -> dict[int, int]:
        """Up to where rows of each join have waited for as long as they may."""
        now = self._clock()
        self._releases.append((now, {report.join: report.release for report in reports if not report.gone}))
        before = now - self._settings.longest_wait_us / 1e6
        while len(self._releases) > 1 and self._releases[1][0] <= before:
            self._releases.popleft()
        clock, releases = self._releases[0]
        return releases if clock <= before else {}
