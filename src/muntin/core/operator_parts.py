"""The parts of one shard's operator: how they are opened, what they take, and what they leave behind."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.core import limits
from muntin.core.aggregates import Aggregates, Finals
from muntin.core.arrivals import HeavyKey, HotKeys, Intake, JoinProgress
from muntin.core.join import JoinState, QueryRequirements
from muntin.core.matches import Matches
from muntin.core.operator_state import OperatorImage, OperatorMeta
from muntin.core.order import HoldBuffer
from muntin.core.policy import DEFAULT_POLICY, LimitError, Policy
from muntin.core.punctuations import JoinView, open_promises
from muntin.core.schedule import Density, LeftWork
from muntin.core.selections import Selections
from muntin.core.storage import ChunkLog, Heap, Memory, StoredRows
from muntin.model import Side
from muntin.plan import SharedJoin

MOST_HEAVY, LEAST_HEAVY, HEAVY_PART = 8, 256, 64
"""Keys that are reported for their many rows: at most so many, with so many rows, and with such a part of all."""


@dataclass(frozen=True)
class Milestones:
    """How far a join has come."""

    release: int
    joined: list[int]
    frontiers: list[int]


class OperatorParts:
    changed = False
    """Whether queries have changed: rows that nobody wanted then may be missing that somebody wants now."""
    lacks_rows = False
    """Whether they are missing here since then; `restore` may find some of them in the chunks."""
    restored = False
    """Whether the state was built again from its chunks: rows that a probe had taken out early are there again."""
    milestones: Milestones | None = None
    """How far the join had come when it was checked last."""

    def __init__(
        self,
        join: SharedJoin,
        memory: Memory | None = None,
        policy: Policy = DEFAULT_POLICY,
        meta: OperatorMeta | None = None,
        image: OperatorImage | None = None,
    ):
        """Go on from an image, or begin: anew, or with what `meta` says and `restore` adds."""
        memory = memory or Heap()
        meta = image.meta if image else meta or OperatorMeta()
        self.join = join
        self.policy = policy
        self.filter_order = policy.ordering.joins_ahead(meta.filter_order)
        """Whether rows are joined as soon as their own stream has passed them, and results wait."""
        self.counters = meta.counters.copy()
        self.density = Density(meta.density)
        self.left_work = LeftWork(memory, meta.left_work, image.left_pairs if image else None)
        self.work_limit = meta.work_limit
        self.chunks = ChunkLog(meta.chunks)
        self.hot_keys = HotKeys(meta.hot_keys)
        self.requirements = QueryRequirements(join, meta.classes, image.classes if image else ())
        numberings = image.row_numberings if image else (None, None)
        self.progress = JoinProgress(join, policy.max_ahead_us, memory, meta.progress, numberings)
        self.matches = Matches(join, memory, meta.matches, image.matches if image else None)
        words, arrived = self.matches.words, image.intake if image else None
        self.intake = Intake(join, self.selections, self.chunks, memory, meta.intake, arrived, words)
        index, stays = image.state if image else None, self.requirements.stays(self.payload)
        self.state = JoinState(join, self.selections, policy, memory, index, stays, self.payload)
        held_pairs = image.held_pairs if image else ()
        self.held_pairs = HoldBuffer(memory, self.requirements.judges, meta.early_release, held_pairs)
        self.aggregates = Aggregates(join, memory, image.aggregates if image else None, policy.every_rows)
        self.finals = Finals(join, memory, image.finals if image else None)
        families, promises = len(self.finals.states), image.promises if image else None
        self.promises = open_promises(join, policy.punctuations, memory, families, meta.promises, promises)

    @property
    def release(self) -> int:
        """Results up to here have left."""
        return self.progress.release

    @property
    def joined(self) -> list[int]:
        """How far the rows of each side have been joined."""
        return self.progress.joined

    @property
    def selections(self) -> tuple[Selections, Selections]:
        return self.requirements.selections

    @property
    def payload(self) -> tuple[StoredRows, ...]:
        """The rows themselves, by number."""
        return self.intake.payload

    @property
    def view(self) -> JoinView:
        """What promises may read."""
        parts = self.join, self.state, self.payload, self.selections, self.finals, self.matches
        return JoinView(*parts, self.release, min(self.progress.streams.frontiers))

    # -- what it takes --------------------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """Bytes of what waits: rows that have not been joined, and pairs."""
        return self.intake.held_bytes + self.held_pairs.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes that the state takes in memory: index, expiry lists, and the rows themselves."""
        others = self.aggregates.nbytes + self.finals.nbytes + self.promises.nbytes + self.matches.nbytes
        return self.state.nbytes + sum(p.nbytes for p in self.payload) + others

    def slice_rows(self, side: Side) -> list[int]:
        """Live rows per slice of one side, from young to old, as of the release point."""
        now = min(self.progress.now(side), max(self.progress.streams.max_ts))
        rows = self.state.rows_by_age if self.rows_leave_early else self.state.expiry.rows_by_age
        return rows(side, now)

    @property
    def rows_leave_early(self) -> bool:
        """Whether rows leave before others of their class: promises free them, or they have windows of their own."""
        return self.promises.frees_rows or any(selections.has_own_windows for selections in self.selections)

    def fullest_key(self, side: Side) -> limits.FullestKey | None:
        """The key with the most rows of a side; None where it has no rows."""
        return limits.fullest_key(self.join, side, self.state, self.payload)

    def heavy_keys(self) -> list[HeavyKey]:
        """The keys with the most rows, as far as they are a good part of all."""
        least = max(LEAST_HEAVY, sum(self.state.rows(side) for side in Side) // HEAVY_PART)
        if max(self.state.top(side)[0] for side in Side) < least // 2:
            return []
        found = []
        for h1, h2, rows, side, number in self.state.fullest(MOST_HEAVY, least):
            values = limits.key_values(self.join, side, self.payload, number)
            found.append(HeavyKey(h1, h2, ", ".join(f"{n} = {v}" for n, v in values.items())[:100], rows))
        return found

    def too_many_pairs(self, error: LimitError) -> LimitError:
        """A limit of the join, with the query and the key that take most of it."""
        return limits.too_many_pairs(self.join, error, self._fullest_keys)

    @property
    def _fullest_keys(self) -> list[limits.FullestKey]:
        return [key for side in Side if (key := self.fullest_key(side)) is not None]

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> OperatorMeta:
        """All that `restore` needs beside the chunks."""
        return OperatorMeta(
            progress=self.progress.meta,
            intake=self.intake.meta,
            filter_order=self.filter_order,
            early_release=self.held_pairs.early_release,
            chunks=self.chunks.live,
            classes=self.requirements.tallies,
            counters=self.counters,
            density=self.density.measured,
            left_work=self.left_work.meta,
            work_limit=self.work_limit,
            matches=self.matches.meta,
            promises=self.promises.meta,
            finals=self.finals.meta,
            hot_keys=self.hot_keys.known,
        )

    @property
    def image(self) -> OperatorImage:
        """All that another process needs, beside the memory, to go on from here."""
        return OperatorImage(
            meta=self.meta,
            cuts=[list(cuts) for cuts in self.join.cuts],
            state=self.state.image,
            intake=self.intake.image,
            classes=self.requirements.image,
            held_pairs=self.held_pairs.image,
            left_pairs=self.left_work.image,
            matches=self.matches.image,
            row_numberings=self.progress.image,
            promises=self.promises.image,
            aggregates=self.aggregates.image,
            finals=self.finals.image,
        )
