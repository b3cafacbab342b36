"""How a pipeline follows its traffic: it goes over to other chains, and back where they do not pay.

`plan/adapt.py` decides from the reports of the micro-batches."""

from __future__ import annotations

from collections.abc import Callable

from muntin.model import AUTO, NO_CHAIN, Settings
from muntin.plan.adapt import Adaptation, Move
from muntin.plan.chains import CHAINS
from muntin.plan.punctuation import is_without_windows
from muntin.plan.traffic import Knowledge
from muntin.spark.checkpoint import Manifest
from muntin.spark.control.changes import Changes
from muntin.spark.control.measured_traffic import better_chains

LOOK_EVERY = 2
"""Micro-batches between two looks at whether other chains would be cheaper."""


class Adapter:
    """Looks at every micro-batch of a pipeline; it calls `moved` after each migration, with the number of the
    micro-batch."""

    def __init__(
        self,
        settings: Settings,
        changes: Changes,
        knowledge: Callable[[], Knowledge],
        moved: Callable[[int, Move], None],
    ):
        self._wanted = settings.adapt and (settings.chain == AUTO or CHAINS[settings.chain].follows_traffic)
        self._changes = changes
        self._knowledge = knowledge
        self._moved = moved
        self._adaptation = Adaptation()
        self._arrived = 0

    def committed(self, manifest: Manifest) -> None:
        """Look now and then whether other chains would be cheaper for what comes, and go over to them."""
        plan, epoch = self._changes.plan, self._changes.log.latest() or 0
        settled = all(report.epoch == epoch for report in manifest.reports.values())
        if not self._wanted or plan.chain == NO_CHAIN or any(map(is_without_windows, plan.joins)) or not settled:
            return
        rows = sum(sum(report.counters.arrived) for report in manifest.reports.values())
        if rows > self._arrived:
            self._adaptation.note(sum(report.seconds for report in manifest.reports.values()) / (rows - self._arrived))
        self._arrived = rows
        if manifest.batch % LOOK_EVERY:
            return
        better, gain = better_chains(self._changes.spec, plan, self._knowledge())
        move = self._adaptation.look(plan, better, gain)
        if move is not None:
            self._changes.migrate(move.plan)
            self._moved(manifest.batch, move)
