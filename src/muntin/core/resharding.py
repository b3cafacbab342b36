"""The state of a join over another number of shards: every chunk is split by key, and the parts are put together.

A key is in one shard before and in one after, so what is kept of it moves as it is. Two things do not: rows and
promises are numbered anew, since those of several shards come together, and with them what names rows by number. And
what every shard has alike (times of a whole stream, ranges of keys, streams that go to every shard) is taken from the
first. What a join below has found and kept beside such a stream may lie in any shard.

    split   one chunk of one shard: the part of each new shard, with the numbers that rows and promises had
    unite   all parts for one new shard: its chunks and its small state

What was joined ahead of the release point is joined again: pairs that wait are in no chunk (core/operator.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates import (
    KEY1,
    KEY2,
    OPEN,
    OWNER1,
    OWNER2,
    SEGMENT,
    SERIAL,
    DurableTotalsMeta,
    FinalsMeta,
    FinalStateMeta,
    SegmentMeta,
    contents_of,
)
from muntin.core.arrivals import FOREVER, VISITORS, IntakeMeta
from muntin.core.batch import H1, H2, TS, Counters
from muntin.core.matches import ROW, MatchesMeta
from muntin.core.operator_state import OperatorMeta
from muntin.core.punctuations import NUMBER, PROMISED, PromiseLogMeta, PromisesMeta
from muntin.core.schedule import LeftWorkMeta
from muntin.core.selections import ClassTally
from muntin.core.storage import RANGE_BITS, ChunkKind, ChunkLog
from muntin.kernels.arrays import Int64s
from muntin.kernels.hashing import shard_of
from muntin.model import MuntinError, Side, UsageError
from muntin.plan.promise_lags import LagCounts

WAS = "_was"
"""The number that a row or a promise had in its old shard."""
HOME = "_home"
"""Whether a row is kept in a shard, where every shard gets it."""
ALIKE = (ChunkKind.CLOCK, ChunkKind.RANGES)
"""Chunks that every shard has alike."""
NAMING = (ChunkKind.LAST, ChunkKind.DEAD, ChunkKind.MET)
"""Chunks that name rows or promises by number: each new shard takes from them what it has."""
NOWHERE = (False, False)
Part = tuple[int, pa.Table]
"""The number of a new shard, and what it gets of a chunk."""


def refuse_unfit(metas: Iterable[OperatorMeta]) -> None:
    """Refuse shards that are not of one moment, and those of which results have left before their time."""
    moments = {(meta.progress.release, tuple(meta.progress.streams.max_ts)) for meta in metas}
    if len(moments) > 1:
        raise MuntinError("the shards of a join are not of one moment", hint="run the job once with --available-now")
    if any(meta.progress.settled is not None for meta in metas):
        raise UsageError(
            "work of a micro-batch is left to later ones (delivery = 'eager')",
            hint="run the job once with --available-now",
        )
    if any(meta.hot_keys for meta in metas):
        raise UsageError(
            "rows of hot keys are in all shards (hot_keys = 'auto')",
            hint="run the job with SET hot_keys = 'off' until the largest window has passed",
        )
    if any(meta.early_release is not None for meta in metas):
        raise UsageError(
            "results have left before their time (on_held_limit = 'release'), and some are still to come",
            hint="run the job until the stream that is behind has caught up",
        )


@dataclass(frozen=True)
class OldJoin:
    """What splitting the chunks of a join needs: whether it has an equality, how far its results have left, and of
    which sides every shard has all rows."""

    keyed: bool
    release: int
    everywhere: tuple[bool, bool] = NOWHERE


def movable_rows(join: OldJoin, metas: Mapping[int, OperatorMeta], shards: int) -> int:
    """The rows of some shards that must be in the new ones. Without an equality, who only probes is a copy."""
    found = 0
    for of, meta in metas.items():
        for kind, side, _, name in ChunkLog(meta.chunks):
            copies = 1 if not join.everywhere[side] else shards if of == 0 else 0
            if kind is ChunkKind.ROWS or (join.keyed and kind is ChunkKind.VISITORS):
                found += copies * meta.chunks[name].rows
    return found


def split(name: str, table: pa.Table, of: int, join: OldJoin, shards: int) -> Iterator[Part]:
    """The part of each new shard in a chunk of the shard `of`."""
    kind, side, first = _parsed(name)
    if all(join.everywhere) or (join.everywhere[side] and kind not in NAMING):
        copied = _numbered(table, first) if kind.has_rows or kind in PROMISED else table
        yield from ((shard, copied) for shard in range(shards) if of == 0)
    elif kind in ALIKE:
        yield from ((shard, table) for shard in range(shards) if of == 0)
    elif kind in NAMING:
        yield from ((shard, table) for shard in range(shards))
    elif kind is ChunkKind.UNREPORTED:
        yield of % shards, table
    elif kind is ChunkKind.TOTALS:
        yield from _split_totals(table, shards)
    elif kind.has_rows and not join.keyed and not any(join.everywhere):
        yield from _split_everywhere(kind, _numbered(table, first), join.release, shards)
    elif kind.has_rows and not join.keyed:
        homes = np.arange(table.num_rows) % shards  # each row that was found may lie anywhere
        for shard in np.unique(homes):
            yield int(shard), _numbered(table, first).filter(pa.array(homes == shard))
    else:
        yield from _by_shard(_numbered(table, first), H1, H2, shards)


def _parsed(name: str) -> tuple[ChunkKind, Side, int]:
    ((kind, side, first, _),) = ChunkLog({name: None})  # type: ignore[dict-item]
    return kind, side, first


def _numbered(table: pa.Table, first: int) -> pa.Table:
    return table.append_column(WAS, pa.array(np.arange(first, first + table.num_rows)))


def _by_shard(table: pa.Table, h1: str, h2: str, shards: int) -> Iterator[Part]:
    """Rows by the shard of their key; those without one, which have a key of their side's own, go to the first."""
    one, other = table[h1].to_numpy(), table[h2].to_numpy()
    keyless = (one == other) & ((one == 1) | (one == 2))
    homes = np.where(keyless, 0, shard_of(one, other, shards))
    for shard in np.unique(homes):
        yield int(shard), table.filter(pa.array(homes == shard))


def _split_everywhere(kind: ChunkKind, table: pa.Table, release: int, shards: int) -> Iterator[Part]:
    """Rows of a join without an equality: any one shard keeps each, and the others get those that are still to probe.

    Who only probes is in a chunk of another shard to be kept, so such chunks are made anew.
    """
    if kind is ChunkKind.VISITORS:
        return
    homes = table[WAS].to_numpy() % shards
    waits = table[TS].to_numpy() > release
    for shard in range(shards):
        mine = (homes == shard) | waits
        if mine.any():
            kept = pa.array(homes[mine] == shard)
            yield shard, table.filter(pa.array(mine)).append_column(HOME, kept)


def _split_totals(table: pa.Table, shards: int) -> Iterator[Part]:
    """Groups by their key; closed ones, and values that name their group, go to all."""
    if KEY1 not in table.column_names:
        yield from ((shard, table) for shard in range(shards))
        return
    closed = table.filter(pc.invert(table[OPEN]))
    mine = dict(_by_shard(table.filter(table[OPEN]), KEY1, KEY2, shards))
    for shard in range(shards):
        part = pa.concat_tables([*([mine[shard]] if shard in mine else []), closed])
        if part.num_rows:
            yield shard, part


# -- together ---------------------------------------------------------------------------------------------------------


class Union:
    """One new shard: the parts of the old ones, taken in one after the other."""

    def __init__(self, shard: int, metas: Mapping[int, OperatorMeta]):
        self._metas = dict(sorted(metas.items()))
        self._first = next(iter(self._metas.values()))
        self._is_first = shard == 0
        self.chunks = ChunkLog()
        self._next_rows = [list(numbers) for numbers in IntakeMeta().next_rows]
        self._promises = [0, 0]
        self._lists, self._dead, self._logged, self._totals = [0, 0], [0, 0], 0, 0
        self._known: dict[tuple[str, int, Side], list[tuple[Int64s, Int64s]]] = {}
        self.rows = 0
        """Rows that were taken in, each counted where it is kept."""

    def take(self, parts: Mapping[tuple[int, str], pa.Table]) -> tuple[OperatorMeta, dict[str, pa.Table]]:
        """The small state and the chunks of the new shard, given the parts by old shard and chunk."""
        for naming in (False, True):  # what names rows comes when all of these have their numbers
            for of, meta in self._metas.items():
                for kind, side, _, name in ChunkLog(meta.chunks):
                    if (of, name) in parts and (kind in NAMING) is naming and kind is not ChunkKind.TOTALS:
                        self._take(of, kind, side, name, parts[of, name])
        finals = self._unite_finals(parts)
        tables, _ = self.chunks.changes()
        return self._meta(finals), tables

    def _take(self, of: int, kind: ChunkKind, side: Side, name: str, table: pa.Table) -> None:
        last_ts, retention, _ = self._metas[of].chunks[name]
        write = self.chunks.write
        if kind.has_rows:
            self._take_rows(of, kind, side, name, table)
        elif kind in PROMISED:
            base = self._promises[side]
            self._promises[side] += table.num_rows
            self._learn("promise", of, side, table, base)
            write(kind, side, base, table.drop_columns([WAS]), last_ts, retention)
        elif kind is ChunkKind.CLOCK:
            write(kind, side, _parsed(name)[2], table, last_ts, retention)
        elif kind in (ChunkKind.RANGES, ChunkKind.UNREPORTED):
            write(kind, side, self._next_list(side), table, last_ts, retention)
        elif kind is ChunkKind.LAST:
            if (mine := self._renumbered("promise", of, side, table, NUMBER)).num_rows:
                write(kind, side, self._next_list(side), mine, last_ts, retention)
        elif kind is ChunkKind.DEAD:
            if (mine := self._renumbered("row", of, side, table, NUMBER)).num_rows:
                self._dead[side] += 1
                write(kind, side, self._dead[side], mine, last_ts, retention)
        elif (mine := self._renumbered("row", of, side, table, ROW)).num_rows:
            write(kind, side, self._logged, mine, last_ts, retention)
            self._logged += 1

    def _take_rows(self, of: int, kind: ChunkKind, side: Side, name: str, table: pa.Table) -> None:
        chunk, number = self._metas[of].chunks[name], _parsed(name)[2] >> RANGE_BITS
        parts = [(kind, number, table)]
        if HOME in table.column_names:
            home, table = table[HOME], table.drop_columns([HOME])
            parts = [(kind, number, table.filter(home)), (ChunkKind.VISITORS, VISITORS, table.filter(pc.invert(home)))]
        for own, place, rows in parts:
            if rows.num_rows:
                base = self._next_rows[side][place]
                self._next_rows[side][place] += rows.num_rows
                self._learn("row", of, side, rows, base)
                self.rows += rows.num_rows if own is kind else 0
                last_ts = int(rows[TS][-1].as_py())
                self.chunks.write(own, side, base, rows.drop_columns([WAS]), last_ts, chunk.retention)

    def _next_list(self, side: Side) -> int:
        self._lists[side] += 1
        return self._lists[side]

    def _learn(self, what: str, of: int, side: Side, table: pa.Table, base: int) -> None:
        numbers = np.arange(base, base + table.num_rows)
        self._known.setdefault((what, of, side), []).append((table[WAS].to_numpy(), numbers))

    def _renumbered(self, what: str, of: int, side: Side, table: pa.Table, column: str) -> pa.Table:
        """What a table says of rows or promises that are here, by their new numbers, ascending."""
        known = self._known.get((what, of, side), [])
        none = np.zeros(0, np.int64)
        old, new = (np.concatenate([none, *(pair[n] for pair in known)]) for n in (0, 1))
        order = np.argsort(old)
        old, new = old[order], new[order]
        named = table[column].to_numpy()
        at = np.searchsorted(old, named).clip(max=max(0, len(old) - 1))
        here = np.flatnonzero(old[at] == named) if len(old) else none
        found = table.take(pa.array(here))
        found = found.set_column(found.column_names.index(column), column, pa.array(new[at[here]]))
        return found.sort_by(column)

    # -- the small state ----------------------------------------------------------------------------------------------

    def _unite_finals(self, parts: Mapping[tuple[int, str], pa.Table]) -> FinalsMeta:
        """Each family's groups and values, one segment of each."""
        states = []
        for n, state in enumerate(self._first.finals.states):
            groups = self._unite_log(parts, lambda meta, n=n: meta.finals.states[n].groups)  # type: ignore[misc]
            owners = set() if groups is None else set(zip(*(groups[c].to_pylist() for c in (H1, H2)), strict=True))
            values = {}
            for sql in state.values:
                log = self._unite_log(parts, lambda meta, n=n, sql=sql: meta.finals.states[n].values[sql])  # type: ignore[misc]
                values[sql] = self._write_totals(_owned(log, owners))
            states.append(FinalStateMeta(state.queries, self._write_totals(groups), values))
        return FinalsMeta(self._totals, states)

    def _unite_log(
        self, parts: Mapping[tuple[int, str], pa.Table], log: Callable[[OperatorMeta], DurableTotalsMeta]
    ) -> pa.Table | None:
        found = []
        for of, meta in self._metas.items():
            here = [segment for segment in log(meta).segments if (of, segment.name) in parts]
            tables = {segment.name: parts[of, segment.name] for segment in here}
            contents = contents_of(DurableTotalsMeta(log(meta).counts, here), tables)
            if contents is not None and contents.num_rows:
                found.append(contents.drop_columns([SEGMENT]))
        return pa.concat_tables(found, promote_options="default") if found else None

    def _write_totals(self, table: pa.Table | None) -> DurableTotalsMeta:
        if table is None or not table.num_rows:
            return DurableTotalsMeta([0, 0, 0], [])
        at = table.column_names.index(SERIAL)
        table = table.set_column(at, SERIAL, pa.array(np.arange(table.num_rows)))
        name = self.chunks.write(ChunkKind.TOTALS, Side.LEFT, self._totals, table, FOREVER)
        self._totals += 1
        return DurableTotalsMeta([table.num_rows, table.num_rows, 1], [SegmentMeta(0, name, 0)])

    def _meta(self, finals: FinalsMeta) -> OperatorMeta:
        first, every = self._first, list(self._metas.values())
        release = first.progress.release
        promises = first.promises
        if promises is not None:
            known = [meta.promises for meta in every if meta.promises is not None]
            lags = [LagCounts.together([of.lags[side] for of in known]) for side in Side]
            promises = PromisesMeta(
                log=PromiseLogMeta(self._promises, self._lists),
                arrived=[max(of.arrived[side] for of in known) for side in Side],
                dead_lists=self._dead,
                lags=lags if self._is_first else [LagCounts(), LagCounts()],
            )
        return replace(
            first,
            progress=replace(first.progress, joined=[release, release]),
            intake=IntakeMeta(self._next_rows, []),
            chunks=self.chunks.live,
            classes=[_tallied(meta.classes[side] for meta in every) for side in Side] if self._is_first else [[], []],
            counters=Counters.total(meta.counters for meta in every) if self._is_first else Counters(),
            left_work=LeftWorkMeta(),
            matches=MatchesMeta(first.matches.since, self._logged),
            promises=promises,
            finals=finals,
        )


def _owned(table: pa.Table | None, owners: set[tuple[int, int]]) -> pa.Table | None:
    """The values whose group is here."""
    if table is None:
        return None
    pairs = zip(*(table[c].to_pylist() for c in (OWNER1, OWNER2)), strict=True)
    return table.filter(pa.array([pair in owners for pair in pairs], pa.bool_()))


def _tallied(parts: Iterable[Sequence[ClassTally]]) -> list[ClassTally]:
    rows: dict[str, int] = {}
    for name, count in (tally for part in parts for tally in part):
        rows[name] = rows.get(name, 0) + count
    return [ClassTally(name, count) for name, count in rows.items()]
