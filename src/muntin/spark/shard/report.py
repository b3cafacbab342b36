"""What a shard says of itself after a micro-batch."""

from __future__ import annotations

from muntin.core.arrivals import FOREVER
from muntin.core.batch import Counters
from muntin.core.feeding import reported_by
from muntin.core.operator import Operator
from muntin.model import Side
from muntin.spark.checkpoint import ShardReport, TopKey


def describe_operator(report: ShardReport, operator: Operator) -> ShardReport:
    """Fill in a report: counters, rows per slice, frontiers, held rows."""
    streams = operator.progress.streams
    report.streams = [stream.name for stream in operator.join.streams]
    report.max_ts = list(streams.max_ts)
    report.counters = _reported(operator, report.shard)
    report.slices = [operator.slice_rows(side) for side in Side]
    report.frontiers = [None if frontier == -FOREVER else frontier for frontier in streams.frontiers]
    report.own_frontiers = [None if frontier == -FOREVER else frontier for frontier in streams.own_frontiers]
    report.bytes = operator.nbytes
    report.matches = operator.state.matches
    report.release = operator.release
    report.filter_order = operator.filter_order
    report.ahead = max(operator.joined) > operator.release
    report.idle = list(streams.idle)
    report.behind = int(operator.progress.behind)
    report.span = [streams.min_ts, max(streams.max_ts)]
    report.classes = [selections.tally for selections in operator.selections]
    report.work_ns = operator.work_ns
    report.left_rows = operator.left_rows
    report.limited = operator.work_limit.limit_ns is not None
    report.lags = operator.promises.lags or None
    report.hot_keys = operator.hot_keys.known or None
    report.heavy_keys = operator.heavy_keys() if operator.policy.hot_keys else None
    report.top_keys = [_top_key(operator, side) for side in Side]
    return report


def _reported(operator: Operator, shard: int) -> Counters:
    """The counters; rows that go to every shard are counted where they come in and go wrong by the first one only."""
    silent = [s for s in Side if operator.join.everywhere[s] and s not in reported_by(operator.join, shard)]
    if not silent:
        return operator.counters
    found = operator.counters.copy()
    for side in silent:
        for name in ("arrived", "late", "ahead", "null_key", "unwanted", "punctuations", "malformed", "broken"):
            getattr(found, name)[side] = 0
    return found


def _top_key(operator: Operator, side: Side) -> TopKey:
    key = operator.fullest_key(side)
    if key is None:
        return TopKey()
    return TopKey(key.rows, {name: str(value)[:100] for name, value in key.values.items()})
