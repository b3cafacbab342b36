"""What the state of an operator is (core/operator.py), asserted: for tests, since it looks at every row.

Each function yields a sentence for each thing that is wrong. `SideRows` gathers what a side has, from the index, the
queues and the stored rows, so that each of them can be held against the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from muntin.core.arrivals import key_columns
from muntin.core.batch import TS
from muntin.core.join import JoinState
from muntin.core.operator_parts import Milestones, OperatorParts
from muntin.core.storage import RANGE_BITS, ChunkKind, ChunkLog, distinct
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.hashing import hash_keys
from muntin.kernels.index import CLASS_BITS, CLASS_MASK, FILL, H1, H2, HEAD, KEYS, LIVE, OFF, SIZE_BITS, SIZE_MASK
from muntin.model import Axis, Side

Found = Iterator[str]


class InvariantError(AssertionError):
    """The state of an operator is not what it must be."""


@dataclass(frozen=True)
class SideRows:
    """The rows of one side: those in the index, those that wait, and all that are stored."""

    side: Side
    number: Int64s
    place: Int64s
    cls: Int64s
    slot: Int64s
    """Of each row in the index."""
    waiting: Int64s
    waiting_ts: Int64s
    waiting_class: Int64s
    taken: Bools
    """Of each row that waits for the release point, and whether it has been joined."""
    stored: Int64s
    stored_ts: Int64s
    stored_class: Int64s
    """Of each stored row, by ascending number."""

    def look_up(self, numbers: Int64s) -> tuple[Int64s, Bools]:
        """The places of numbers among the stored rows, and whether they are there."""
        at = np.searchsorted(self.stored, numbers).clip(max=max(0, len(self.stored) - 1))
        return at, self.stored[at] == numbers if len(self.stored) else np.zeros(len(numbers), bool)


def assert_invariants(parts: OperatorParts) -> Milestones:
    """Raise where something is not as it must be; returns how far the join has come.

    What rests on something that is wrong is not looked at.
    """
    _raise([*_frontiers(parts), *_index_counts(parts.state)])
    sides = [_side_rows(parts, side) for side in Side]
    _raise([wrong for rows in sides for check in (_waiting_rows, _joined_rows) for wrong in check(parts, rows)])
    _raise([wrong for rows in sides for check in (_missing_rows, _chunks, _levels) for wrong in check(parts, rows)])
    _raise([*_expiry_lists(parts, sides), *_held_pairs(parts, sides), *_rows_to_emit(parts, sides)])
    _raise([wrong for rows in sides for wrong in _ordered_rows(parts, rows)])
    return Milestones(parts.release, list(parts.joined), parts.progress.streams.frontiers)


def _raise(wrong: Sequence[str]) -> None:
    if wrong:
        raise InvariantError("; ".join(wrong))


def _side_rows(parts: OperatorParts, side: Side) -> SideRows:
    index, payload = parts.state.index, parts.payload[side]
    slots = np.unique(index.table[index.table >= 0]).astype(np.int64)
    fill = index.slots[slots, FILL + side]
    count, mask = fill >> SIZE_BITS, (1 << np.maximum((fill & SIZE_MASK) - 1, 0)) - 1
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    head, off = index.slots[slots, HEAD + side], index.slots[slots, OFF + side]
    at = np.repeat(off, count) + ((np.repeat(head, count) + nth) & np.repeat(mask, count))
    place, row = index.slab[at].T
    waiting_ts, waiting_class, waiting = parts.intake.waiting(side)
    numbers = payload.numbers
    stored = payload.take(numbers)
    return SideRows(
        side=side,
        number=row >> CLASS_BITS,
        place=place,
        cls=row & CLASS_MASK,
        slot=np.repeat(slots, count),
        waiting=np.where(waiting < 0, ~waiting, waiting),
        waiting_ts=waiting_ts,
        waiting_class=waiting_class,
        taken=waiting < 0,
        stored=numbers,
        stored_ts=stored[TS].to_numpy(),
        stored_class=payload.class_by_number()(numbers).astype(np.int64),
    )


def _frontiers(parts: OperatorParts) -> Found:
    release, joined, frontiers, before = parts.release, parts.joined, parts.progress.streams.frontiers, parts.milestones
    settled = parts.progress.settled
    if release > min(frontiers):
        yield f"the release point {release} is beyond the frontiers {frontiers}"
    for side in Side:
        if not settled <= joined[side] <= max(release, frontiers[side]):
            yield f"{side.name}: joined up to {joined[side]}, release {release}, frontier {frontiers[side]}"
    if before is None:
        return
    steps = [(before.release, release), *zip(before.joined, joined, strict=True)]
    steps += zip(before.frontiers, frontiers, strict=True)
    if any(old > new for old, new in steps):
        yield f"went backwards: {before} became {release}, {joined}, {frontiers}"


def _index_counts(state: JoinState) -> Found:
    index = state.index
    slots = index.table[index.table >= 0]
    if len(np.unique(slots)) != len(slots) or len(slots) != index.control[KEYS]:
        yield f"the index counts {index.control[KEYS]} keys and has {len(slots)}"
    for side in Side:
        rows = int((index.slots[slots, FILL + side] >> SIZE_BITS).sum())
        if rows != index.control[LIVE + side]:
            yield f"{side.name}: the index counts {index.control[LIVE + side]} rows and has {rows}"
    if len(slots) and ((index.slots[slots, FILL] | index.slots[slots, FILL + 1]) >> SIZE_BITS == 0).any():
        yield "the index has a key without rows"


def _waiting_rows(parts: OperatorParts, rows: SideRows) -> Found:
    """Held rows lie beyond J; those that are taken lie between R and J."""
    release, joined = parts.progress.settled, parts.joined[rows.side]
    held = rows.waiting_ts[~rows.taken]
    if (rows.waiting_ts <= release).any():
        yield f"{rows.side.name}: a row waits that the release point {release} has passed"
    # A row that ties with the frontier may arrive after rows were joined up to it ahead of the other stream.
    if (held <= joined).any() if joined == release else (held < joined).any():
        yield f"{rows.side.name}: a held row is not beyond {joined}, up to where rows have been joined"
    if (rows.waiting_ts[rows.taken] > joined).any():
        yield f"{rows.side.name}: a row has been taken beyond {joined}, up to where rows have been joined"
    at, there = rows.look_up(rows.waiting)
    if not there.all():
        yield f"{rows.side.name}: {int((~there).sum())} waiting rows are not stored"
    elif (rows.stored_ts[at] != rows.waiting_ts).any() or (rows.stored_class[at] != rows.waiting_class).any():
        yield f"{rows.side.name}: a waiting row is stored with another time or class"
    if len(np.unique(rows.waiting)) != len(rows.waiting):
        yield f"{rows.side.name}: a row waits twice"


def _joined_rows(parts: OperatorParts, rows: SideRows) -> Found:
    """Each row of the index has been joined, is still wanted, and is stored as the index has it."""
    side, name, state = rows.side, rows.side.name, parts.state
    at, there = rows.look_up(rows.number)
    if len(np.unique(rows.number)) != len(rows.number):
        yield f"{name}: a row is twice in the index"
    if not there.all():
        yield f"{name}: {int((~there).sum())} rows of the index are not stored"
        return
    if (rows.stored_class[at] != rows.cls).any():
        yield f"{name}: a row of the index is stored with another class"
        return
    if parts.join.axes[side] is Axis.TIME and (rows.stored_ts[at] != rows.place).any():
        yield f"{name}: a row of the index is stored with another time"
    if (rows.stored_ts[at] > parts.joined[side]).any():
        yield f"{name}: a row of the index lies beyond where rows have been joined"
    retention = parts.selections[side].stays(rows.cls, _times(parts, side, rows.number))
    now = parts.progress.now(side) - parts.changed  # a change may leave rows of that age to the next step
    if (now - rows.place >= retention).any():
        yield f"{name}: the index has a row that no query can want any more"
    if np.isin(rows.number, parts.promises.dead_rows(side)).any():
        yield f"{name}: the index has a row that a promise freed"
    same_key = rows.slot[1:] == rows.slot[:-1]
    if (same_key & (rows.place[1:] < rows.place[:-1])).any():
        yield f"{name}: the rows of a key are out of order"
    if parts.join.keys and len(rows.number):
        order = np.argsort(rows.number)
        h1, h2, valid = hash_keys(key_columns(parts.join, side, parts.payload[side].take(rows.number[order])))
        h1, h2 = (np.where(valid, half, side + 1) for half in (h1, h2))  # rows without a key have one of their side
        slots = state.index.slots[rows.slot[order]]
        if (slots[:, H1] != h1).any() or (slots[:, H2] != h2).any():
            yield f"{name}: a row is in the index under another key"


def _missing_rows(parts: OperatorParts, rows: SideRows) -> Found:
    """Each row of the log that has been joined and is still wanted is in the index; for time axes."""
    side = rows.side
    if parts.changed or parts.join.axes[side] is Axis.ROWS:
        return
    retention = parts.selections[side].stays(rows.stored_class, parts.payload[side].times_of(rows.stored))
    wanted = (retention > 0) & (rows.stored_ts <= parts.joined[side])
    wanted &= _reached(parts, side) - rows.stored_ts < retention
    wanted &= _covered(parts.chunks, side, rows.stored, (ChunkKind.ROWS,))
    gone = (parts.promises.dead_rows(side), rows.waiting[~rows.taken], rows.number)
    missing = rows.stored[wanted & ~np.isin(rows.stored, np.concatenate(gone))]
    if len(missing):
        yield f"{side.name}: {len(missing)} rows have been joined, are still wanted and are not in the index"


def _chunks(parts: OperatorParts, rows: SideRows) -> Found:
    """The live chunks cover the rows of the index and those that wait, and say when their last row leaves."""
    side, name = rows.side, rows.side.name
    if not _covered(parts.chunks, side, rows.number, (ChunkKind.ROWS,)).all():
        yield f"{name}: a row of the index is in no chunk"
    if not _covered(parts.chunks, side, rows.waiting, (ChunkKind.ROWS, ChunkKind.VISITORS)).all():
        yield f"{name}: a waiting row is in no chunk"
    following = np.array(parts.intake.next_rows[side], np.int64)
    if len(rows.stored) and (rows.stored >= following[rows.stored >> RANGE_BITS]).any():
        yield f"{name}: a row has a number that has not been given"
    for kind, s, first, chunk_name in parts.chunks:
        if s is not side or not kind.has_rows:
            continue
        chunk = parts.chunks.live[chunk_name]
        at, there = rows.look_up(np.arange(first, first + chunk.rows))
        if not there.all():
            yield f"chunk {chunk_name}: {int((~there).sum())} of its rows are not stored"
            continue
        if rows.stored_ts[at].max() != chunk.last_ts:
            yield f"chunk {chunk_name}: its last time is {rows.stored_ts[at].max()}, not {chunk.last_ts}"
            continue
        stays = parts.selections[side].stays(rows.stored_class[at], parts.payload[side].times_of(rows.stored[at]))
        if stays.max() != chunk.retention:
            yield f"chunk {chunk_name}: its last row does not leave at the age of {chunk.retention}"


def _times(parts: OperatorParts, side: Side, numbers: Int64s) -> Int64s:
    """The times until when queries let rows wait, by their numbers."""
    rows, places = distinct(numbers)
    return parts.payload[side].times_of(rows)[places]


def _covered(chunks: ChunkLog, side: Side, numbers: Int64s, kinds: Sequence[ChunkKind]) -> Bools:
    """Which rows lie in a live chunk of some kinds."""
    spans = sorted((first, chunks.live[name].rows) for kind, s, first, name in chunks if s is side and kind in kinds)
    firsts, sizes = (np.array([span[n] for span in spans], np.int64) for n in (0, 1))
    if not len(firsts):
        return np.zeros(len(numbers), bool)
    at = (np.searchsorted(firsts, numbers, side="right") - 1).clip(min=0)
    return (numbers >= firsts[at]) & (numbers < firsts[at] + sizes[at])


def _levels(parts: OperatorParts, rows: SideRows) -> Found:
    """Counters that are levels equal what is there; what came less what went is there."""
    side, counters = rows.side, parts.counters
    if counters.state_rows[side] != len(rows.number):
        yield f"{side.name}: {counters.state_rows[side]} rows are counted in the state, {len(rows.number)} are there"
    if counters.held_rows[side] != int((~rows.taken).sum()):
        yield f"{side.name}: {counters.held_rows[side]} held rows are counted, {int((~rows.taken).sum())} are there"
    left = counters.inserted[side] - counters.expired[side] - counters.purged[side]
    if not parts.changed and not parts.restored and left != len(rows.number):
        yield f"{side.name}: {left} rows were inserted and have not left, {len(rows.number)} are there"


def _expiry_lists(parts: OperatorParts, sides: Sequence[SideRows]) -> Found:
    """Each row of the index is listed once, with the slice of its class; nothing else is, unless promises free rows."""
    lists, places, slots = parts.state.expiry.listed()
    list_of_class = parts.state.expiry.list_of_class(parts.selections)
    listed = np.stack([lists, places, slots.astype(np.int64)], axis=1)
    own = [np.stack([list_of_class[rows.side, rows.cls], rows.place, rows.slot], axis=1) for rows in sides]
    wanted = np.concatenate(own)
    if (np.diff(places)[np.diff(lists) == 0] < 0).any():
        yield "an expiry list is out of order"
    entries, counts = np.unique(np.concatenate([listed, wanted]), axis=0, return_inverse=True)
    counts = counts.ravel()
    have = np.bincount(counts[: len(listed)], minlength=len(entries))
    need = np.bincount(counts[len(listed) :], minlength=len(entries))
    if (have < need).any():
        yield f"{int((need - have).clip(min=0).sum())} rows of the index are in no expiry list, or in a wrong one"
    ends, reached = np.concatenate(parts.state.expiry.ends), [_reached(parts, side) for side in Side]
    side_of = (np.arange(len(ends)) >= len(parts.state.expiry.ends[0])).astype(int)
    of_no_row = entries[have > need]
    live = np.array(reached)[side_of[of_no_row[:, 0]]] - of_no_row[:, 1] < ends[of_no_row[:, 0]]
    if not parts.rows_leave_early and live.any():
        yield f"{int(live.sum())} entries of the expiry lists are of no row"


def _reached(parts: OperatorParts, side: Side) -> int:
    """How far probes have come on the axis of a side: they take out rows that are kept for live pairs no longer."""
    return parts.progress.settled if parts.join.axes[side] is Axis.TIME else parts.progress.now(side)


def _held_pairs(parts: OperatorParts, sides: Sequence[SideRows]) -> Found:
    """Pairs are held whose later row lies beyond R; both rows have been joined."""
    ts, numbers = parts.held_pairs.pairs
    if parts.counters.held_pairs != len(ts) + parts.left_work.held_pairs or parts.counters.keys != parts.state.keys:
        yield f"{parts.counters.held_pairs} held pairs and {parts.counters.keys} keys are counted, not as they are"
    if (ts <= parts.release).any():
        yield f"a pair is held that the release point {parts.release} has passed"
    later = np.full(len(ts), np.iinfo(np.int64).min)
    for rows in sides:
        at, there = rows.look_up(numbers[rows.side])
        if not there.all():
            yield f"{rows.side.name}: a held pair has a row that is not stored"
            return
        own = rows.stored_ts[at] if len(rows.stored) else later
        if (own > parts.joined[rows.side]).any():
            yield f"{rows.side.name}: a held pair has a row that has not been joined"
        later = np.maximum(later, own)
    if (later != ts).any():
        yield "a held pair has not the time of its later row"


def _rows_to_emit(parts: OperatorParts, sides: Sequence[SideRows]) -> Found:
    """Rows that may have to go out alone are in time order, and there for as long as that can be."""
    for rows in sides:
        ts, numbers, last = parts.matches.waiting(rows.side)
        if (ts[1:] < ts[:-1]).any():
            yield f"{rows.side.name}: the rows that may have to go out alone are out of order"
        asked = parts.release - ts < last
        own = parts.matches.waiting_for_own_ends(rows.side)
        if not rows.look_up(numbers[asked])[1].all() or not rows.look_up(own)[1].all():
            yield f"{rows.side.name}: a row that may have to go out alone is not stored"


def _ordered_rows(parts: OperatorParts, rows: SideRows) -> Found:
    """Where rows are in order of a value, those of the index that have one are there once, in runs by their places."""
    ordered, name = parts.state.ordered, rows.side.name
    if ordered is None:
        return
    runs, values, entries = ordered.sides[rows.side]
    spans = [slice(start, start + count) for start, count in runs[1 : 1 + runs[0, 0], :2].tolist()]
    places, found = np.concatenate([entries[:0], *(entries[span] for span in spans)]).T
    valued = ~np.isnan(ordered.of(rows.side, rows.number))
    known = np.stack([rows.place, rows.number << CLASS_BITS | rows.cls])[:, valued]
    listed = np.stack([places, found])[:, np.isin(found >> CLASS_BITS, rows.number)]
    if len(np.unique(found)) != len(found) or sorted(listed.T.tolist()) != sorted(known.T.tolist()):
        yield f"{name}: {len(found)} rows are in order, not those {known.shape[1]} of the index that have a value"
    if any((np.diff(values[span]) < 0).any() for span in spans):
        yield f"{name}: a run is out of order"
    ends = [(entries[span, 0].min(), entries[span, 0].max()) for span in spans if span.stop > span.start]
    if any(older[1] > newer[0] for older, newer in pairwise(ends)):
        yield f"{name}: a run has rows that are older than those of the run before it"
