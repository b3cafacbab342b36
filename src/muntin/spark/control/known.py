"""What a checkpoint knows of its job: the constants of `muntin calibrate`, and the traffic that its joins have met."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from muntin.core.selections import Selections, query_flags
from muntin.model import JobSpec, Side
from muntin.plan import Plan, SharedJoin, evolve, make_plan
from muntin.plan.adapt import cuts_of, with_cuts
from muntin.plan.cost import DEFAULT, Constants
from muntin.plan.predict import JoinLoad, match_seen, predict, predict_join, traffics_of
from muntin.plan.punctuation import is_without_windows
from muntin.plan.share import signature
from muntin.plan.traffic import KEYS, Knowledge, Traffic, measured
from muntin.spark.checkpoint import (
    FileKind,
    Manifest,
    PlanLog,
    ShardReport,
    is_over,
    last_manifest,
    pipeline_folder,
    pipeline_numbers,
    read_json,
    stored_job,
    write_json,
)

SECOND_US = 1_000_000
Reports = Sequence[ShardReport]
"""What the shards of one join last said of themselves (`ShardReport`)."""


def constants_file(checkpoint: Path) -> Path:
    return checkpoint / "muntin" / "constants.json"


def to_json(constants: Constants) -> str:
    return json.dumps(asdict(constants), indent=2) + "\n"


def keep_constants(checkpoint: Path, constants: Constants) -> Path:
    """Keep the constants with a job; the file that has them."""
    path = constants_file(checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, FileKind.CONSTANTS, asdict(constants))
    return path


def load_constants(checkpoint: Path) -> Constants | None:
    """The constants kept with a job, None where it was never calibrated."""
    path = constants_file(checkpoint)
    if not path.exists():
        return None
    stored = read_json(path, FileKind.CONSTANTS)
    return Constants(**{f.name: float(stored[f.name]) for f in fields(Constants)})


def plan_for(spec: JobSpec, checkpoint: Path | None) -> Plan:
    """The plan of a job. On a checkpoint, the strategy that it was begun with and the chains that suit what came since.

    The strategy says which joins there are, so it stays; where the states are cut is open at every start.
    """
    settled = begun_with(checkpoint) if checkpoint else None
    if settled is None or checkpoint is None:
        return make_plan(spec)
    return make_plan(with_strategy(spec, settled), of_checkpoint(spec, checkpoint))


def begun_with(checkpoint: Path) -> str | None:
    """The strategy that a checkpoint was begun with; None for a new one."""
    stored = stored_job(checkpoint)
    return None if stored is None else str(stored["settings"].get("strategy", "state-slice"))


def with_strategy(spec: JobSpec, strategy: str) -> JobSpec:
    """The job with a strategy where it leaves that open."""
    settings = spec.settings
    return spec if settings.strategy != "auto" else replace(spec, settings=replace(settings, strategy=strategy))


def of_checkpoint(spec: JobSpec, checkpoint: Path) -> Knowledge:
    """All that a checkpoint says of a job that has run on it."""
    met: dict[Any, Traffic] = {}
    for number in pipeline_numbers(checkpoint):
        folder = pipeline_folder(checkpoint, number)
        met |= met_by(folder, PlanLog(folder, spec), spec)
    return Knowledge(measured=met, constants=load_constants(checkpoint) or DEFAULT)


def streams_per_pipeline(checkpoint: Path) -> list[list[str]]:
    """The streams that each live pipeline of a job reads."""
    stored = [stored_job(pipeline_folder(checkpoint, number)) for number in pipeline_numbers(checkpoint)]
    return [list(job["streams"]) for job in stored if job is not None and not is_over(job)]


def met_by(folder: Path, log: PlanLog, spec: JobSpec) -> dict[Any, Traffic]:
    """The traffic that the joins of one pipeline have met, by what their queries have in common."""
    stored, met = stored_job(folder), dict[Any, Traffic]()
    if stored is None or is_over(stored) or log.latest() is None or not set(stored["streams"]) <= set(spec.streams):
        return met
    last = last_manifest(folder)
    for join in log.read(last.epoch).plan.joins:
        traffic = traffic_met(join, reports_of(join, last))
        if traffic is not None and join.partitions == (None, None):
            met[signature(join.queries[0])] = traffic
    return met


def better(spec: JobSpec, plan: Plan, told: Knowledge) -> tuple[Plan, float]:
    """The chains that suit what has come, and the part of the work that they are predicted to save."""
    found, traffics = evolve(plan, spec, told), traffics_of(plan, told)
    now, then = (predict(spec, p, traffics, told.constants).cpu_ns for p in (plan, found))
    found = with_cuts(plan, cuts_of(found), found.chain)
    return found, 1 - then / now if now else 0.0


def reports_of(join: SharedJoin, manifest: Manifest) -> list[ShardReport]:
    return [report for report in manifest.reports.values() if report.join == join.index]


def traffic_met(join: SharedJoin, reports: Reports) -> Traffic | None:
    """The traffic of a join as its shards have counted it; None before rows of both streams have come, and for one
    without windows, of which nothing is foretold."""
    if is_without_windows(join):
        return None
    spans = [report.span for report in reports]
    seconds = max((high - low for low, high in spans if low <= high), default=0) / SECOND_US
    if seconds <= 0:
        return None
    sides = [_classes(join, side, reports) for side in Side]
    left, right = (sum(report.counters.state_rows[side] for report in reports) for side in Side)
    matches = sum(report.matches for report in reports)
    met = measured(join, seconds, (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1]), 1.0)
    if not join.keys:
        return met
    if matches and left and right:
        return replace(met, match=matches / (left * right))
    # An empty state, as after the end of the streams: what was looked at on the way tells.
    compared = sum(report.counters.comparisons for report in reports)
    return replace(met, match=match_seen(join, met, compared / seconds) or 1 / KEYS)


def _classes(join: SharedJoin, side: Side, reports: Reports) -> tuple[Any, Any]:
    """Which queries want each class of a side's rows, and how many rows of it have come."""
    selections = Selections(join, side)
    for report in reports:
        tally, before = report.classes[side], selections.rows.copy()
        selections.recall(tally)
        selections.rows[: len(before)] += before
    return query_flags(selections.wants, len(join.queries)), selections.rows.astype(np.int64)


def expected(join: SharedJoin, reports: Reports, constants: Constants, invalidation: str) -> JoinLoad | None:
    """What a steady state of the traffic met would hold and cost."""
    traffic = traffic_met(join, reports)
    return (
        None
        if traffic is None
        else predict_join(replace(join, partitions=(None, None)), traffic, constants, invalidation)
    )
