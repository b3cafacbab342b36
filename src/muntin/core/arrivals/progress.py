"""How far a join has come, on the clock of its streams and on the axes of its sides.

    R            the release point: results up to here have left
    J[side]      how far the rows of a side have been joined,  R <= J[side] <= the frontier of its stream
    S            up to where all work is done; R, unless work is left to later micro-batches: then S <= J[side] <= R
    now[side]    the place that the axis of a side has come to: a time, or a number where rows are counted

Everything that is forgotten, rows, chunks and numbers, is so by S.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals.frontiers import FOREVER, Beginning, FrontierMeta, Frontiers
from muntin.core.arrivals.row_numbers import NumberedRows, RowCounts, RowNumbering, RowNumberingImage
from muntin.core.batch import ARRIVAL, TS, Arrivals
from muntin.core.storage import ChunkKind, ChunkLog, Memory
from muntin.kernels.arrays import Bools, Int64s
from muntin.model import Axis, Query, Side
from muntin.plan import SharedJoin


@dataclass(frozen=True)
class ProgressMeta:
    """What is durable of the progress of a join; times and numbers of its rows are in chunks."""

    streams: FrontierMeta = field(default_factory=FrontierMeta)
    release: int = -FOREVER
    joined: list[int] = field(default_factory=lambda: [-FOREVER, -FOREVER])
    settled: int | None = None
    """While work is left to later micro-batches: up to where none is."""
    row_counts: list[RowCounts | None] = field(default_factory=lambda: [None, None])
    complete_from: dict[str, int | None] = field(default_factory=dict)
    """Queries that were added while the job ran, and from when on they get all their rows."""
    begun: list[int] = field(default_factory=lambda: [-FOREVER, -FOREVER])
    """Of sides whose rows are counted, what the stream had come to when the join began: up to there nobody knows how
    many rows there are."""
    all_kept_from: int | None = None
    """From when on all rows are there that a query of any selection wants, where selections decided before what was
    kept and do so no more."""


class JoinProgress:
    def __init__(
        self,
        join: SharedJoin,
        max_ahead_us: int | None,
        memory: Memory,
        meta: ProgressMeta,
        image: Sequence[RowNumberingImage | None] = (None, None),
    ):
        self.streams = Frontiers(_lateness(join), max_ahead_us, meta.streams)
        self.release = meta.release
        self.joined = list(meta.joined)
        self._settled = meta.settled
        self._complete_from = dict(meta.complete_from)
        self._begun = list(meta.begun)
        self._all_kept_from = meta.all_kept_from
        self._numberings = [
            RowNumbering(join.reach(side), memory, meta.row_counts[side], image[side])
            if join.axes[side] is Axis.ROWS
            else None
            for side in Side
        ]
        self._follow(join)

    def _follow(self, join: SharedJoin) -> None:
        self._join = join
        self._lags = any(query.looks_at_live_pairs for query in join.queries)
        """Aggregates have come to the last instant before the release point only: pairs that go at it are live."""
        self._waits_for_ties = any(q.emitted_at_its_time for q in join.queries)
        """A row that is answered at its own time must have seen all rows of that time."""
        for side in Side:
            if (numbering := self._numberings[side]) is not None:
                numbering.window = join.reach(side)

    @property
    def meta(self) -> ProgressMeta:
        counts = [numbering.counts if numbering else None for numbering in self._numberings]
        return ProgressMeta(
            streams=self.streams.meta,
            release=self.release,
            joined=self.joined,
            settled=self._settled,
            row_counts=counts,
            complete_from=self._complete_from,
            begun=self._begun,
            all_kept_from=self._all_kept_from,
        )

    @property
    def image(self) -> list[RowNumberingImage | None]:
        """What another process needs, beside `meta` and the memory."""
        return [numbering.image if numbering else None for numbering in self._numberings]

    # -- forward --------------------------------------------------------------------------------------------------

    def begin(self, at: Beginning) -> dict[str, int | None]:
        """Start in the middle of streams; from when on queries get all their pairs."""
        self.streams.begin(at)
        self._begun = [at.max_ts[side] if self._numberings[side] else -FOREVER for side in Side]
        self.release = self._release_point()
        self.joined = self.passed
        self._complete_from = {query.name: self._filled_from(query) for query in self._join.queries}
        return dict(self._complete_from)

    def change(self, join: SharedJoin, kept: Mapping[str, bool]) -> dict[str, int | None]:
        """Go on with other queries over the same streams; from when on those that are new get all their pairs.

        `kept` names these, and says whether the rows that they want have been kept.
        """
        if self._join.selects and not join.selects and self.has_begun:
            self._all_kept_from = max(self.streams.max_ts) + 1 + max(map(join.reach, Side))
        known_from = [ts for ts in (self._all_kept_from, *self._complete_from.values()) if ts is not None]
        at_once = max([self.release + 1, *known_from])
        new = {q.name: at_once if kept[q.name] else self._filled_from(q) for q in join.queries if q.name in kept}
        known = {**self._complete_from, **new}
        self._complete_from = {q.name: known[q.name] for q in join.queries if q.name in known}
        self.streams.change(_lateness(join))
        self._follow(join)
        return new

    @property
    def complete_from(self) -> Mapping[str, int | None]:
        """Queries that were added while the job ran, and from when on they get all their rows."""
        return self._complete_from

    def complete_later(self, times: Mapping[str, int | None]) -> None:
        """Queries that get all their rows only from these times on: those that they read do not have all before."""
        self._complete_from |= {name: ts for name, ts in times.items() if name in self._complete_from}

    def advance(self, arrivals: Arrivals, limits: Sequence[int], last_words: Sequence[int]) -> None:
        """A micro-batch has come, rows beyond `limits` left out: the release point follows."""
        self.streams.note(arrivals, limits, last_words)
        self.release = self._release_point()

    def _release_point(self) -> int:
        """Results up to here can leave: up to the frontiers, or where ties must be complete, up to just before them."""
        waits = (self._waits_for_ties or any(self._numberings)) and not all(self.streams.ended)
        return max(self.release, min(self.streams.frontiers) - waits)

    @property
    def passed(self) -> list[int]:
        """How far rows can be joined under Sync-Filter."""
        return [self.release, self.release]

    def joined_until(self, bounds: Sequence[int]) -> None:
        """Rows have been joined as far as their streams have come to these bounds."""
        seen = self.streams.max_ts
        self.joined = [max(self.joined[side], self.release, min(bounds[side], seen[side])) for side in Side]
        self._settled = None

    def leave_work(self, joined: int, settled: int) -> None:
        """Work is left to a later micro-batch: rows up to a time are in the join, and up to another are done with."""
        self.joined = [joined, joined]
        self._settled = settled

    @property
    def settled(self) -> int:
        """Rows up to here have met all partners that they will meet."""
        return self.release if self._settled is None else self._settled

    def wait(self) -> None:
        """Rows beyond the release point have been taken out of the join again."""
        self.joined = self.passed

    @property
    def is_ahead(self) -> bool:
        """Whether rows have been joined beyond the release point."""
        return max(self.joined) > self.release

    # -- rows that are counted ------------------------------------------------------------------------------------

    def number_arrivals(
        self,
        side: Side,
        rows: pa.Table,
        clock: Int64s | None,
        limit: int,
        chunks: ChunkLog,
    ) -> pa.Table:
        """On an axis of rows: note the whole stream's times, and give own rows their place in the order of arrival."""
        numbering = self._numberings[side]
        if numbering is None or clock is None or not len(clock):
            return rows
        base, ts, arrivals = numbering.receive(clock, self.streams.frontier(side), limit)
        if len(ts):
            times = pa.table({TS: ts, ARRIVAL: arrivals})
            chunks.write(ChunkKind.CLOCK, side, base, times, int(ts[-1]), self._join.reach(side))
        at = rows.column_names.index(ARRIVAL)
        return rows.set_column(at, ARRIVAL, pc.add(rows[ARRIVAL], base))

    def number(self) -> list[NumberedRows | None]:
        """The numbers of the rows that the release point has passed, where rows are counted."""
        return [s.release(self.release) if s else None for s in self._numberings]

    def recount(self, chunks: ChunkLog, tables: Mapping[str, pa.Table]) -> list[NumberedRows | None]:
        """After a restart: the numbers that rows had, from the chunks."""
        for kind, side, _, name in chunks:
            numbering = self._numberings[side]
            if kind is ChunkKind.CLOCK and numbering is not None:
                numbering.hold(*(tables[name][c].to_numpy() for c in (TS, ARRIVAL)))
        return [s.recount(self.release) if s else None for s in self._numberings]

    def countable(self, side: Side, ts: Int64s) -> Bools:
        """Of which rows of a side it is known how many have come after them."""
        return ts > self._begun[side]

    # -- what follows from it -------------------------------------------------------------------------------------

    def now(self, side: Side) -> int:
        """How far the axis of a side has come; past everything once both streams have ended."""
        numbering = self._numberings[side]
        return numbering.numbered if numbering and not all(self.streams.ended) else self.settled - self._lags

    @property
    def places(self) -> list[int]:
        return [self.now(side) for side in Side]

    def stale_before(self, side: Side, age: int) -> int:
        """Rows of a side with an earlier event time have reached an age."""
        numbering = self._numberings[side]
        if numbering is not None and not all(self.streams.ended):
            return numbering.stale_before(age)
        return self.now(side) - age + 1

    @property
    def behind(self) -> Side:
        """The side whose stream holds the other one back."""
        left, right = self.streams.frontiers
        return Side.LEFT if left <= right else Side.RIGHT

    @property
    def has_begun(self) -> bool:
        """Whether a row has come."""
        return max(self.streams.max_ts) > -FOREVER

    @property
    def end(self) -> int | None:
        """The last event time, once both streams have ended."""
        return max(self.streams.max_ts) if all(self.streams.ended) else None

    def span(self, before: int) -> tuple[int, int] | None:
        """The event times, both included, between which results lie that leave from a release point up to this one."""
        low, high = max(before, self.streams.min_ts), min(self.release, max(self.streams.max_ts))
        return (low, high) if low <= high else None

    def _filled_from(self, query: Query) -> int | None:
        """The event time from which a query gets all its pairs if it has to wait until its windows have filled."""
        if not self.has_begun:
            return self.release + 1
        longest = max(query.window.left, query.window.right)
        return None if Axis.ROWS in query.window.axes else max(self.streams.max_ts) + 1 + longest


def _lateness(join: SharedJoin) -> tuple[int, int]:
    left, right = (stream.lateness_us for stream in join.streams)
    return left, right
