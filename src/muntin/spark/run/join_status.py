"""The status of a shared join, from the reports of its shards."""

from __future__ import annotations

from muntin.core.arrivals import FOREVER
from muntin.core.batch import Counters
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.orderings import must_wait, ordering_in_force
from muntin.plan.punctuation import leave_at_own_ends
from muntin.spark.checkpoint import TopKey
from muntin.spark.control import Reports
from muntin.spark.ingest import iso
from muntin.spark.run.status import (
    JoinStatus,
    KeyShare,
    OrderingStatus,
    OwnWindowsStatus,
    SliceStatus,
    TreeStatus,
    Waiting,
)


def describe(join: SharedJoin, reports: Reports) -> JoinStatus:
    """One shared join: the reports of its shards, added up."""
    return JoinStatus(
        join=join.index + 1,
        streams=[stream.name for stream in join.streams],
        queries=[query.name for query in join.queries],
        frontiers=[frontier(reports, side) for side in Side],
        slices=[_slices(join, reports, side) for side in Side],
        axes=[str(axis) for axis in join.axes],
        bytes=sum(r.bytes for r in reports),
        fullest_keys=[_fullest_key(reports, side) for side in Side],
        held_rows=[sum(r.counters.held_rows[side] for r in reports) for side in Side],
        held_pairs=sum(r.counters.held_pairs for r in reports),
        idle=[any(r.idle[side] for r in reports) for side in Side],
        ordering=OrderingStatus(_in_force(join, reports), sum(r.counters.out_of_order for r in reports)),
        counters=Counters.total(r.counters for r in reports),
        rebuilt=sum(r.rebuilt for r in reports),
        left_rows=sum(r.left_rows for r in reports),
        hot_keys=sorted({key.name for r in reports for key in r.hot_keys or () if key.until == FOREVER}) or None,
        tree=_tree(join),
        own_windows=[_own_windows(join, reports, side) for side in Side] if join.own_windows else None,
    )


def _tree(join: SharedJoin) -> TreeStatus | None:
    if join.home == join.index:
        return None
    called = [stream.called or stream.name if stream.derived else None for stream in join.streams]
    return TreeStatus(called, [None if n is None else n + 1 for n in join.reads], list(join.everywhere))


def waiting(join: SharedJoin, reports: Reports, moved: dict[str, float]) -> Waiting | None:
    """The stream for which results of a join wait; `moved` says since when each stream has not moved."""
    held = [r for r in reports if r.counters.held_bytes]
    if not held or any(r.left_rows for r in reports):  # then they wait for work
        return None
    stream, counters = join.streams[held[0].behind], [r.counters for r in reports]
    return Waiting(
        stream=stream.name,
        since=moved[stream.name],
        held_rows=sum(sum(c.held_rows) for c in counters),
        held_pairs=sum(c.held_pairs for c in counters),
        held_bytes=sum(c.held_bytes for c in counters),
    )


def frontier(reports: Reports, side: Side) -> str | None:
    """The same in all shards, once each has had a row of the stream."""
    known = [found for r in reports if (found := r.frontiers[side]) is not None]
    return None if not known else "ended" if known[0] == FOREVER else iso(min(known))


def _slices(join: SharedJoin, reports: Reports, side: Side) -> list[SliceStatus]:
    return [SliceStatus(s.lo, s.hi, sum(r.slices[side][n] for r in reports)) for n, s in enumerate(join.slices(side))]


def _own_windows(join: SharedJoin, reports: Reports, side: Side) -> OwnWindowsStatus | None:
    untils, inserted = join.own_windows.untils[side], sum(r.counters.inserted[side] for r in reports)
    known = inserted and leave_at_own_ends(join, side)
    mean_us = sum(r.counters.stay_us[side] for r in reports) // inserted if known else None
    return OwnWindowsStatus([until.text for until in untils], mean_us) if untils else None


def _in_force(join: SharedJoin, reports: Reports) -> str:
    """The rule that says what is joined when; after a switch back, rows joined ahead are caught up with first."""
    if must_wait(join) or not any(r.filter_order or r.ahead for r in reports):
        return ordering_in_force(False).name
    if any(r.filter_order for r in reports):
        return ordering_in_force(True).name
    return f"handing over to {ordering_in_force(False).name}"


def _fullest_key(reports: Reports, side: Side) -> KeyShare | None:
    """The key with the most rows of a side, and its share of them: near 1 is skew that no number of shards divides."""
    top = max((r.top_keys[side] for r in reports), key=lambda top: top.rows, default=TopKey())
    total = sum(r.counters.state_rows[side] for r in reports)
    return KeyShare(top.rows, top.key, top.rows / max(1, total)) if top.rows else None
