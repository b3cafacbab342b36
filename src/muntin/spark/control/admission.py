"""How fast streams are read that are far apart in event time: the one that is ahead waits in its source.

Rows that have been read have to be held; rows that wait in their source cost nothing. An option of a file source says
how much a micro-batch takes. Spark reads the option when a streaming query starts. So the query starts again where a
stream has come far ahead, and once more when the other has caught up. A source of a broker that is ours looks before
each micro-batch how fast it is to be read (`brokers/pace.py`), and nothing starts again. Sources of other kinds are
read as they give.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from muntin.core.arrivals import FOREVER
from muntin.model import Axis, Side, Stream
from muntin.plan import Plan
from muntin.spark.brokers import PACE, SLOW_ROWS, set_pace
from muntin.spark.checkpoint import Manifest
from muntin.spark.ingest import FILE_FORMATS

APART, TOGETHER = 10, 2
"""Windows by which a stream must be ahead to be read slowly, and below which it is read as before."""
OPTION, LEAST = "maxFilesPerTrigger", "1"
SECOND_US = 1_000_000


class Admission:
    """Which streams of a pipeline are read slowly."""

    def __init__(self, streams: Iterable[Stream], paced: Iterable[str] = ()):
        """`paced` are the streams whose sources look how fast they are to be read."""
        self._folder = Path(tempfile.mkdtemp(prefix="muntin-pace-"))
        self._paces = {name: self._folder / str(n) for n, name in enumerate(paced)}
        self._can = {stream.name for stream in streams if _can_be_slower(stream)} | set(self._paces)
        self.slowed: dict[str, float] = {}
        """Streams that are read slowly, and by how many seconds of event time they are ahead."""

    def look(self, plan: Plan, manifest: Manifest) -> bool:
        """Take in how far the streams have come; whether a query must start again, so that they are read otherwise."""
        before = set(self.slowed)
        leads = self._leads(plan, manifest)
        self.slowed = {
            name: lead_us / SECOND_US
            for name, (lead_us, window_us) in leads.items()
            if lead_us > (TOGETHER if name in before else APART) * window_us
        }
        changed = set(self.slowed) ^ before
        for name in changed & set(self._paces):
            set_pace(self._paces[name], SLOW_ROWS if name in self.slowed else None)
        return bool(changed - set(self._paces))

    def _leads(self, plan: Plan, manifest: Manifest) -> dict[str, tuple[int, int]]:
        """By how much each stream is ahead of one that is not idle, and the largest window of their join."""
        found: dict[str, tuple[int, int]] = {}
        for join in plan.joins:
            report = next((r for r in manifest.reports.values() if r.join == join.index), None)
            if report is None or Axis.ROWS in join.axes or min(report.max_ts) == -FOREVER:
                continue
            window_us = max(join.reach(side) for side in Side)
            for side in Side:
                name, lead_us = join.streams[side].name, report.max_ts[side] - report.max_ts[side.other]
                if name in self._can and not report.idle[side.other] and lead_us > found.get(name, (0, 0))[0]:
                    found[name] = lead_us, window_us
        return found

    def source(self, stream: Stream) -> Stream:
        """The stream as it is to be read now."""
        if stream.name in self._paces:
            return replace(stream, options={**stream.options, PACE: str(self._paces[stream.name])})
        if stream.name not in self.slowed:
            return stream
        others = {name: value for name, value in stream.options.items() if name.lower() != OPTION.lower()}
        return replace(stream, options={**others, OPTION: LEAST})

    def close(self) -> None:
        """Nothing is read any more."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _can_be_slower(stream: Stream) -> bool:
    given = next((value for name, value in stream.options.items() if name.lower() == OPTION.lower()), None)
    return stream.format.lower() in FILE_FORMATS and given != LEAST
