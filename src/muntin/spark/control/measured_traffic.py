"""The traffic that the joins of a checkpoint have measured, and what is planned and predicted from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from muntin.core.selections import Selections, query_flags
from muntin.model import AUTO, Axis, JobSpec, Side
from muntin.plan import Plan, SharedJoin, evolve, make_plan, settled_orders
from muntin.plan.adapt import cuts_of, with_cuts
from muntin.plan.cost import DEFAULT, Constants
from muntin.plan.joins import signature
from muntin.plan.predict import JoinLoad, match_seen, predict, predict_join, traffics_of
from muntin.plan.promise_lags import LagCounts, MeasuredLags
from muntin.plan.punctuation import is_without_windows, leave_at_own_ends, promising
from muntin.plan.traffic import KEYS, Knowledge, Traffic, measured
from muntin.spark.checkpoint import (
    Manifest,
    PlanLog,
    ShardReport,
    last_manifest,
    pipeline_folder,
    pipeline_numbers,
    stored_job,
)
from muntin.spark.control.calibration import load_constants
from muntin.spark.store import Location

SECOND_US = 1_000_000
Reports = Sequence[ShardReport]
"""The last reports of the shards of one join."""


def plan_for(spec: JobSpec, checkpoint: Location | None) -> Plan:
    """The plan of a job. On a checkpoint, the strategy of its last run, where the job leaves that open, and the chains
    that suit what came since."""
    settled = strategy_of(checkpoint) if checkpoint else None
    if settled is None or checkpoint is None:
        return make_plan(spec)
    return make_plan(with_strategy(spec, settled), knowledge_of(spec, checkpoint))


def strategy_of(checkpoint: Location) -> str | None:
    """The strategy of the last run on a checkpoint; None for a new one."""
    stored = [stored_job(pipeline_folder(checkpoint, number)) for number in pipeline_numbers(checkpoint)]
    known = [job for job in stored if job is not None]
    return next((job.settings.strategy for job in (*(j for j in known if not j.is_over), *known)), None)


def with_strategy(spec: JobSpec, strategy: str) -> JobSpec:
    """The job with a strategy where it leaves that open."""
    settings = spec.settings
    return spec if settings.strategy != AUTO else replace(spec, settings=replace(settings, strategy=strategy))


def knowledge_of(spec: JobSpec, checkpoint: Location) -> Knowledge:
    """What a job that has run on a checkpoint has measured."""
    found: dict[Any, Traffic] = {}
    for number in pipeline_numbers(checkpoint):
        folder = pipeline_folder(checkpoint, number)
        stored, log = stored_job(folder), PlanLog(folder, spec)
        goes_on = stored is not None and not stored.is_over and set(stored.streams) <= set(spec.streams)
        found |= measured_by(log, last_manifest(folder)) if goes_on and log.latest() is not None else {}
    return Knowledge(measured=found, constants=load_constants(checkpoint) or DEFAULT)


def joined_as_before(spec: JobSpec, checkpoint: Location | None) -> JobSpec:
    """A job whose queries over more than two streams join them as on a checkpoint; those that are new, as suits what
    has come so far."""
    from muntin.sql import order_joins

    plans = [] if checkpoint is None else list(_latest_plans(spec, checkpoint))
    if checkpoint is None or not plans or all(query.graph is None for query in spec.queries.values()):
        return spec
    found = order_joins(spec, knowledge_of(spec, checkpoint))
    for plan in plans:
        found = settled_orders(plan, found)
    return found


def _latest_plans(spec: JobSpec, checkpoint: Location) -> Iterator[Plan]:
    for number in pipeline_numbers(checkpoint):
        folder = pipeline_folder(checkpoint, number)
        stored, log = stored_job(folder), PlanLog(folder, spec)
        latest = log.latest()
        if (
            stored is not None
            and not stored.is_over
            and set(stored.streams) <= set(spec.streams)
            and latest is not None
        ):
            yield log.read(latest).plan


def streams_per_pipeline(checkpoint: Location) -> list[list[str]]:
    """The streams that each live pipeline of a job reads."""
    stored = [stored_job(pipeline_folder(checkpoint, number)) for number in pipeline_numbers(checkpoint)]
    return [list(job.streams) for job in stored if job is not None and not job.is_over]


def measured_by(log: PlanLog, last: Manifest) -> dict[Any, Traffic]:
    """The traffic that the joins of one pipeline have measured up to a commit, by what their queries have in common."""
    found: dict[Any, Traffic] = {}
    for join in log.read(last.epoch).plan.joins:
        traffic = measured_traffic(join, reports_of(join, last))
        if traffic is not None and join.partitions == (None, None):
            found[signature(join.queries[0])] = traffic
    return found


def better_chains(spec: JobSpec, plan: Plan, knowledge: Knowledge) -> tuple[Plan, float]:
    """The chains that suit what has come, and the part of the work that they are predicted to save."""
    found, traffics = evolve(plan, spec, knowledge), traffics_of(plan.joins, knowledge)
    now, then = (predict(spec, p, traffics, knowledge.constants).cpu_ns for p in (plan, found))
    found = with_cuts(plan, cuts_of(found), found.chain)
    return found, 1 - then / now if now else 0.0


def reports_of(join: SharedJoin, manifest: Manifest) -> list[ShardReport]:
    return [report for report in manifest.reports.values() if report.join == join.index]


def measured_traffic(join: SharedJoin, reports: Reports) -> Traffic | None:
    """The traffic of a join as its shards have counted it; None before rows of both streams have come, and for one
    without windows, of which nothing is predicted."""
    if is_without_windows(join):
        return None
    spans = [report.span for report in reports]
    seconds = max((high - low for low, high in spans if low <= high), default=0) / SECOND_US
    if seconds <= 0:
        return None
    sides = [_classes(join, side, reports) for side in Side]
    left, right = (sum(report.counters.state_rows[side] for report in reports) for side in Side)
    matches = sum(report.matches for report in reports)
    traffic = measured(join, seconds, (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1]), 1.0)
    lags = _lags(join, Side.LEFT, reports), _lags(join, Side.RIGHT, reports)
    stays = _stay_s(join, Side.LEFT, reports), _stay_s(join, Side.RIGHT, reports)
    traffic = replace(traffic, lags=lags, stays_s=stays)
    if not join.keys:
        return traffic
    if matches and left and right:
        return replace(traffic, match=matches / (left * right))
    # After the end of the streams the state is empty: count the comparisons instead.
    compared = sum(report.counters.comparisons for report in reports)
    return replace(traffic, match=match_seen(join, traffic, compared / seconds) or 1 / KEYS)


def _lags(join: SharedJoin, side: Side, reports: Reports) -> MeasuredLags | None:
    """How long rows of a side waited for promises of the other; None where there were none."""
    counts = LagCounts.together([report.lags[side] for report in reports if report.lags])
    said = promising(join, side.other)
    if said is None or not counts.rows or join.axes[side] is not Axis.TIME:
        return None
    return MeasuredLags(counts, join.reach(side) / SECOND_US, said.binding_us / SECOND_US)


def _stay_s(join: SharedJoin, side: Side, reports: Reports) -> float | None:
    """How long rows of a side stay on average that leave at ends of their own; None where none does."""
    inserted = sum(report.counters.inserted[side] for report in reports)
    if not leave_at_own_ends(join, side) or not inserted:
        return None
    return sum(report.counters.stay_us[side] for report in reports) / inserted / SECOND_US


def _classes(join: SharedJoin, side: Side, reports: Reports) -> tuple[Any, Any]:
    """Which queries want each class of a side's rows, and how many rows of it have come."""
    selections = Selections(join, side)
    for report in reports:
        tally, before = report.classes[side], selections.rows.copy()
        selections.recall(tally)
        selections.rows[: len(before)] += before
    return query_flags(selections.wants, len(join.queries)), selections.rows.astype(np.int64)


def expected_load(join: SharedJoin, reports: Reports, constants: Constants, invalidation: str) -> JoinLoad | None:
    """What a steady state of the measured traffic would hold and cost."""
    traffic = measured_traffic(join, reports)
    return (
        None
        if traffic is None
        else predict_join(replace(join, partitions=(None, None)), traffic, constants, invalidation)
    )
