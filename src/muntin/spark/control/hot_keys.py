"""Which keys of a join are hot: the driver decides by the shards' reports, and tells it in the control stream.

Shards take a message up in the micro-batch that brings it, and remember it (core/arrivals/hot_keys.py). Ingest must
send copies of the rows of every key that a shard takes for hot, so it is told of all that shards have reported and of
all messages that were ever sent and may not be reported yet. It may be told of more.
"""

from __future__ import annotations

import threading

from muntin.core.arrivals import FOREVER, HeavyKey, Key
from muntin.model import Settings, UsageError
from muntin.plan import Plan, SharedJoin
from muntin.plan.hot_keys import why_at_home, why_together
from muntin.spark.checkpoint import Manifest, ShardReport
from muntin.spark.control import control_stream
from muntin.spark.store import Location

HOT_PART, COLD_PART = 4, 16
"""A key is hot with this part of the rows that a shard would have if they were spread evenly, and so no more with the
other."""
MOST_HOT = 16
"""Of one join."""


class HotKeyWatch:
    """The hot keys of one pipeline; only an endless run has new ones, since others read no messages on their way."""

    def __init__(self, folder: Location, settings: Settings, endless: bool, last: Manifest):
        self._folder, self._settings, self._endless = folder, settings, endless
        self._lock = threading.Lock()
        self._coming: Plan | None = None
        sent = [m for m in control_stream.messages(folder) if isinstance(m, control_stream.HotKeysMessage)]
        self._sent = {(message.join, key.key): key for message in sent for key in message.hot}
        """Keys that were told to be hot; whether shards have heard it or have forgotten them again says a report."""
        self._seen: set[tuple[int, Key]] = set()
        self._note(last)

    def keys(self, before: Manifest) -> tuple[tuple[int, Key], ...]:
        """The keys of which every shard gets a copy, after a commit."""
        with self._lock:
            reported = {(r.join, key.key) for r in before.reports.values() for key in r.hot_keys or ()}
            return tuple(sorted({*reported, *self._sent}))

    def fits(self, plan: Plan) -> None:
        """Refuse a plan with a join that must have all rows of a key in one shard while those of some are not."""
        with self._lock:
            for join in plan.joins:
                why = why_together(join, self._settings)
                names = [key.name for (index, _), key in self._sent.items() if index == join.index]
                if why is not None and names:
                    raise UsageError(
                        f"{names[0]} is a hot key of join {join.index + 1}, whose rows are in all shards: {why}",
                        hint="start it with SET hot_keys = 'off', and try again when the largest window has passed",
                    )
            self._coming = plan

    def committed(self, plan: Plan, manifest: Manifest) -> None:
        """Take in what shards report; tell them which keys are hot from now on."""
        with self._lock:
            self._note(manifest)
            for join in plan.joins if self._endless else ():
                reports = [r for r in manifest.reports.values() if r.join == join.index and not r.gone]
                coming = self._coming.join(join.index) if self._coming is not None else join
                if not reports or coming is None:
                    continue
                hot, cool = self._decide(coming, reports)
                if hot or cool:
                    control_stream.send(self._folder, control_stream.HotKeysMessage(join.index, hot, cool))
                    self._sent |= {(join.index, key.key): key for key in hot}

    def _note(self, manifest: Manifest) -> None:
        """Let go of keys that all shards have forgotten."""
        known = {(r.join, key.key): HeavyKey(key.h1, key.h2, key.name) for r in manifest.reports.values()
                 for key in r.hot_keys or ()}  # fmt: skip
        for gone in self._seen - known.keys():
            self._sent.pop(gone, None)
        self._seen = set(known)
        self._sent |= known

    def _decide(self, join: SharedJoin, reports: list[ShardReport]) -> tuple[list[HeavyKey], list[HeavyKey]]:
        told = [key for key in reports[0].hot_keys or () if key.until == FOREVER]
        open_ones = {key.key: HeavyKey(key.h1, key.h2, key.name) for key in told}
        if why_at_home(join, self._settings) is not None:
            return [], list(open_ones.values())
        shards, total = len(reports), sum(sum(r.counters.state_rows) for r in reports)
        rows: dict[Key, int] = {}
        named: dict[Key, HeavyKey] = {}
        for key in (key for report in reports for key in report.heavy_keys or ()):
            rows[key.key] = rows.get(key.key, 0) + key.rows
            named[key.key] = key
        cool = [key for key in open_ones.values() if rows.get(key.key, 0) * COLD_PART * shards < total]
        waiting = {key for index, key in self._sent if index == join.index}
        found = [k for k, n in rows.items() if n * HOT_PART * shards >= total and k not in waiting and shards > 1]
        found.sort(key=lambda key: -rows[key])
        return [named[key] for key in found[: max(0, MOST_HOT - len(open_ones))]], cool
