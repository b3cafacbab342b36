"""Rows that broke a promise at the frontier of the streams: they are reported when it has passed them.

Joins of the same streams have the same frontier, whether they take the rows at it at once or wait for their ties, and
release results up to it or up to just before it. So no row is reported twice, or by nobody, when one join takes over
from another.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.batch import TS, stored_schema
from muntin.core.punctuations.promise_log import PromiseLog
from muntin.core.storage import ChunkKind, ChunkLog, Memory, kept_anew
from muntin.model import Side
from muntin.plan import SharedJoin


class UnreportedRows:
    def __init__(self, join: SharedJoin, memory: Memory, image: Sequence[str | None] = (None, None)):
        self._memory = memory
        self._names = list(image)
        none = [stored_schema(join, side).empty_table() for side in Side]
        self._known = [
            none[side] if name is None else memory.table(name) for side, name in zip(Side, image, strict=True)
        ]

    @property
    def image(self) -> list[str | None]:
        """For each side the name of its table in the memory, where there are any."""
        for side in Side:
            kept = kept_anew(self._memory, "unreported", self._names[side], self._known[side])
            self._names[side], self._known[side] = kept
        return list(self._names)

    def pass_on(self, side: Side, broken: pa.Table, frontier: int, log: PromiseLog, chunks: ChunkLog) -> pa.Table:
        """Of rows that broke a promise now or before, those that the frontier has passed; the others wait."""
        waits = broken.filter(pc.greater_equal(broken[TS], frontier))
        if waits.num_rows:
            chunks.write(ChunkKind.UNREPORTED, side, log.next_list(side), waits, pc.max(waits[TS]).as_py())
        known = self._with(side, broken)
        passed = pc.less(known[TS], frontier)
        self._known[side] = known.filter(pc.invert(passed))
        return known.filter(passed)

    def recall(self, side: Side, rows: pa.Table, frontier: int) -> None:
        """Rows of a chunk; a chunk may stay for a while after they have been reported."""
        self._known[side] = self._with(side, rows.filter(pc.greater_equal(rows[TS], frontier)))

    def _with(self, side: Side, rows: pa.Table) -> pa.Table:
        return pa.concat_tables([self._known[side], rows], promote_options="default")
