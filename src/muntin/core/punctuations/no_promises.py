"""What a join does with promises: nothing, where its streams make none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from muntin.core.aggregates import KeyEnds
from muntin.core.arrivals import Intake
from muntin.core.batch import Counters
from muntin.core.punctuations.join_view import JoinView
from muntin.core.punctuations.promise_log import PromiseLogImage, PromiseLogMeta
from muntin.core.punctuations.promised_keys import PromisedKeysImage
from muntin.core.punctuations.propagation import NewPromises
from muntin.core.storage import ChunkLog, SidesImage
from muntin.kernels.arrays import Int64s
from muntin.kernels.join import Rows
from muntin.kernels.promises import NONE
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.promise_lags import LagCounts

RefusedRows = list[tuple[Side, pa.Table]]


@dataclass(frozen=True)
class PromisesMeta:
    """What is durable of promises beside their chunks."""

    log: PromiseLogMeta = field(default_factory=PromiseLogMeta)
    arrived: list[int] = field(default_factory=lambda: [0, 0])
    """Rows of each side that have arrived, where the first one of a key counts."""
    dead_lists: list[int] = field(default_factory=lambda: [0, 0])
    lags: list[LagCounts] = field(default_factory=lambda: [LagCounts(), LagCounts()])
    """How long before and after the rows of each side the promises for their keys came."""


@dataclass(frozen=True)
class PromisesImage:
    """What another process needs, beside `PromisesMeta` and the memory, to go on with promises."""

    log: PromiseLogImage
    promised: list[PromisedKeysImage]
    pending: SidesImage
    dead: SidesImage
    ranges: list[str | None]
    unreported: list[str | None]


@dataclass(frozen=True)
class HeededRows:
    """Rows that may be joined, the promises that came into force among them, and the rows that broke one."""

    rows: Rows
    new: Sequence[NewPromises] = ()
    refused: RefusedRows = field(default_factory=list)
    broken: Sequence[Int64s] = ()
    """Of each side, the numbers of the rows that broke a promise."""


class NoPromises:
    """The promises of a join whose streams make none, or whose job does not heed them."""

    frees_rows = False
    """Whether rows can leave the index before they expire."""

    @property
    def meta(self) -> PromisesMeta | None:
        return None

    @property
    def image(self) -> PromisesImage | None:
        return None

    @property
    def nbytes(self) -> int:
        return 0

    @property
    def unique(self) -> Sequence[bool]:
        """Of which sides, of rows with the same key and time, the first one counts."""
        return False, False

    @property
    def count(self) -> list[int]:
        """Promises of each side that are remembered."""
        return [0, 0]

    @property
    def lags(self) -> list[LagCounts]:
        """How long before and after the rows of each side the promises for their keys came; none where nobody looks."""
        return []

    @property
    def lacking(self) -> set[str]:
        """Queries that, where they are new, do not find all pairs that they begin with."""
        return set()

    def looks_at(self, side: Side) -> bool:
        """Whether rows that no query wants have to be looked at as well: they may break a promise, or make one."""
        return False

    def number(self, side: Side, rows: pa.Table) -> pa.Table:
        """Give the rows of a side of which the first one counts their places in the order of arrival."""
        return rows

    def receive(self, side: Side, marks: pa.Table, chunks: ChunkLog, counters: Counters) -> RefusedRows:
        """Take in punctuations that are not late; returns those that say nothing, with the reason."""
        return []

    def hear(self, side: Side, over: pa.Table, chunks: ChunkLog, counters: Counters) -> None:
        """Take in what the join below says of its output: the keys for which it is over."""

    def last_word(self, side: Side, release: int) -> int:
        """The time from which on a stream has promised to send nothing at all; NONE where it has not."""
        return NONE

    def meet(self, view: JoinView, rows: Rows, before: int, chunks: ChunkLog, counters: Counters) -> HeededRows:
        """Hold rows against the promises before them; `before` is the release point that they come after."""
        return HeededRows(rows)

    def key_ends(self, view: JoinView, new: Sequence[NewPromises], before: int, end: int | None) -> list[KeyEnds]:
        """For each family of finals, the keys that are over, as far as this has become certain.

        Where the streams have come to their `end`, those that would be over later are so then, with all others.
        """
        return [KeyEnds.of(()) for _ in view.finals.states]

    def free(self, view: JoinView, new: Sequence[NewPromises], chunks: ChunkLog, counters: Counters) -> None:
        """Take out the rows that new promises make useless."""

    def emit(self, view: JoinView, before: int, counters: Counters) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """For each query, the keys of which its output brings no more rows, as far as that has become certain; and the
        same for the joins that read it (`hear`)."""
        return {}, {}

    def compact(self, view: JoinView, intake: Intake, chunks: ChunkLog) -> None:
        """Give back the room of rows that were freed, if it is much, once it is known which rows have a match."""

    def dead_rows(self, side: Side) -> Int64s:
        """Numbers of rows that a promise freed, in chunks that are still there."""
        return np.zeros(0, np.int64)

    def tidy(self, needed: Sequence[Mapping[int, int]], chunks: ChunkLog, release: int) -> None:
        """Give back the keys that no chunk needs, and promises that have lapsed: at most half a binding time late.

        `needed` is the first row number needed in each range of each side.
        """

    def change(self, join: SharedJoin) -> None:
        """Go on with other queries over the same streams and key."""

    def find_last_rows(self, view: JoinView) -> None:
        """Find the last rows of families anew: there are others, or nothing of them is known after a restart."""

    def restore(self, view: JoinView, chunks: ChunkLog, tables: Mapping[str, pa.Table]) -> None:
        """Everything again from the chunks, as it was at the release point of the view."""
