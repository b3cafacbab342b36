"""What an operator leaves behind, as records that become plain JSON (`muntin.model.records`).

`OperatorMeta` is durable beside the chunks of the log: an operator can be restored from both. `OperatorImage` is what
another process needs beside the memory of the operator: it goes on from there without a look at the chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muntin.core.aggregates import FinalsImage, FinalsMeta, GroupStateImage
from muntin.core.arrivals import HotKey, IntakeImage, IntakeMeta, ProgressMeta, RowNumberingImage
from muntin.core.batch import Counters
from muntin.core.join import StateImage
from muntin.core.matches import MatchesImage, MatchesMeta
from muntin.core.order import EarlyRelease
from muntin.core.punctuations import PromisesImage, PromisesMeta
from muntin.core.schedule import LeftWorkMeta, MeasuredRows, WorkLimit
from muntin.core.selections import ClassTally
from muntin.core.storage import Chunk, QueueImage
from muntin.plan import SharedJoin


@dataclass(frozen=True)
class OperatorMeta:
    """What is durable; by default, that of a shard that has met nothing."""

    progress: ProgressMeta = field(default_factory=ProgressMeta)
    intake: IntakeMeta = field(default_factory=IntakeMeta)
    filter_order: bool = False
    early_release: EarlyRelease | None = None
    chunks: dict[str, Chunk] = field(default_factory=dict)
    classes: list[list[ClassTally]] = field(default_factory=lambda: [[], []])
    counters: Counters = field(default_factory=Counters)
    density: MeasuredRows = field(default_factory=MeasuredRows)
    left_work: LeftWorkMeta = field(default_factory=LeftWorkMeta)
    work_limit: WorkLimit = field(default_factory=WorkLimit)
    matches: MatchesMeta = field(default_factory=MatchesMeta)
    promises: PromisesMeta | None = None
    finals: FinalsMeta = field(default_factory=FinalsMeta)
    hot_keys: list[HotKey] = field(default_factory=list)


@dataclass(frozen=True)
class OperatorImage:
    """What another process needs to go on."""

    meta: OperatorMeta
    cuts: list[list[int]]
    state: StateImage
    intake: IntakeImage
    classes: list[list[str]]
    held_pairs: list[QueueImage]
    left_pairs: QueueImage | None
    matches: MatchesImage
    row_numberings: list[RowNumberingImage | None]
    promises: PromisesImage | None
    aggregates: list[GroupStateImage]
    finals: FinalsImage

    def fits(self, join: SharedJoin) -> bool:
        """Whether it was made with the same cuts: its expiry lists are those of slices."""
        return self.cuts == [list(cuts) for cuts in join.cuts]
