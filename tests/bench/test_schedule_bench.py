"""How `muntin bench schedule` and `orderings` compare: contenders take turns, and nothing is measured twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from muntin.bench import bursts, orderings, schedule
from muntin.bench.bursts import Played, TimedFile
from muntin.bench.peers import Ledger, Terms
from muntin.plan.orderings import ORDERINGS
from muntin.plan.schedulers import SCHEDULERS


def terms(file: Path | None = None, *only: str) -> Terms:
    return Terms(1.0, 60.0, Ledger(file, resume=True), lambda _: None, tuple(map(re.compile, only)))


def measured(took: Any, on: Terms | None = None, quick: bool = True) -> tuple[dict[str, Any], list[str]]:
    """Figures where `took(scheduler, round)` says how long all rows took, and the schedulers in the order of runs."""
    ran: list[str] = []

    def play(spark: Any, sql: Any, fed: list[TimedFile], folder: Path) -> Played:
        (scheduler,) = re.findall("scheduler = '(.*?)'", sql(folder))
        ran.append(scheduler)
        seconds = took(scheduler, Counter(ran)[scheduler])
        queries = {f"w{n}": {"rows": n, "mean_s": seconds * n, "p99_s": 2 * seconds * n} for n in range(1, 8)}
        return Played({"queries": {name: {"response": found} for name, found in queries.items()}})

    with (
        mock.patch.object(schedule, "play", play),
        mock.patch.object(schedule, "batch_seconds", lambda *_: [9.0, 4.0, 4.0, 4.0, 0.5, 0.6, 0.7]),
        mock.patch.object(schedule, "_selective_run", lambda *args: {"core_s": 2.0, "out": 7}),
    ):
        return schedule.measure(quick, on or terms(), None), ran


def test_contenders_take_turns_and_two_rounds_are_enough_where_they_are_apart():
    figures, ran = measured(lambda scheduler, _: {"lwo": 3.0, "swf": 2.0, "mqt": 1.0}[scheduler])
    assert ran == ["lwo", "swf", "mqt", "swf", "mqt", "lwo"]
    (found,) = figures["distributions"].values()
    assert found["separate"] and found["overall_s"]["mqt"] == {"mean": 4.0, "least": 4.0, "most": 4.0}
    assert found["work"] == {"burst_s": 4.0, "few_s": 0.5, "period_s": 8.0}
    text = schedule.render(figures)
    assert "mqt against lwo: smallest window 0.33, mean over the windows 0.33" in text and "are apart" in text
    assert "mqt 2.00 (2.00-2.00), 1.000 times" in text


def test_rounds_that_overlap_are_repeated_and_said_to_overlap():
    figures, ran = measured(lambda scheduler, number: 1.0 + number % 2)
    (found,) = figures["distributions"].values()
    assert not found["separate"] and found["rounds"] == schedule.MOST
    assert Counter(ran) == dict.fromkeys(SCHEDULERS.names, schedule.MOST)
    assert {ran[n] for n in range(0, len(ran), 3)} == set(SCHEDULERS.names), "each was the first of a round"
    assert "rounds of schedulers overlap" in schedule.render(figures)


def test_a_bench_that_was_stopped_goes_on_run_by_run(tmp_path: Path):
    file = tmp_path / "schedule.json"
    _, ran = measured(lambda *_: 1.0, terms(file, "uniform/load 0.5/round 1", "selective"), quick=False)
    assert ran == ["lwo", "swf", "mqt"], "only what is asked for, and what a burst takes for it"
    figures, more = measured(lambda *_: 1.0, terms(file, "uniform/load 0.5"), quick=False)
    assert len(more) == 3 * (schedule.MOST - 1), "the first round is not measured again"
    assert list(figures["distributions"]) == ["uniform, load 0.5"] and figures["selective"] is not None
    whole, rest = measured(lambda *_: 1.0, terms(file), quick=False)
    assert len(whole["distributions"]) == 8 and len(rest) == 7 * 3 * schedule.MOST


def test_orderings_are_compared_at_each_load_and_adaptive_with_the_better_one():
    ran: list[tuple[str, float]] = []
    mean = {"sync-filter": 3.0, "filter-order": 2.0, "adaptive": 2.1}

    def play(spark: Any, sql: Any, fed: list[TimedFile], folder: Path) -> Played:
        (ordering,) = re.findall("ordering = '(.*?)'", sql(folder))
        ran.append((ordering, max(burst.at_s for burst in fed)))
        response = {"rows": 5, "mean_s": mean[ordering], "p99_s": 4.0}
        join = {"ordering": {"decision": {"load": 0.5} if ordering == "adaptive" else None}}
        switches = [{"ordering": "filter-order", "reason": "load 0.5 is not below alpha"}]
        status = {"queries": {"q": {"response": response}}, "joins": [join]}
        return Played(status | {"switches": switches if ordering == "adaptive" else []}, {0: 9.0, 1: mean[ordering]})

    with (
        mock.patch.object(orderings, "play", play),
        mock.patch.object(orderings, "batch_seconds", lambda *_: [9.0] * 6 + [2.0, 2.0, 0.4, 0.4, 0.4]),
    ):
        figures = orderings.measure(False, terms(), None)
    assert len(figures["workloads"]) == 2 * len(orderings.LOADS)
    assert Counter(name for name, _ in ran) == dict.fromkeys(ORDERINGS.names, 2 * len(orderings.LOADS) * 2)
    text = orderings.render(figures)
    assert "takes 1.00 s of joining off the longest micro-batch, and answers in 0.67 of the time" in text
    assert "adaptive in 1.05 of the better one's" in text and "went over to filter-order: load 0.5" in text


@pytest.mark.parametrize("make", [orderings.bursts, orderings.steady])
def test_the_stream_that_is_behind_brings_the_same_event_times_later(make: Any):
    fed = make(orderings.LaggedSize(100, 2), 10.0)
    for stream in bursts.STREAMS:
        assert sum(b.rows.num_rows for b in fed if b.stream == stream) == 200
    first = {s: min(b.at_s for b in fed if b.stream == s) for s in bursts.STREAMS}
    assert first["B"] - first["A"] == pytest.approx(orderings.BEHIND_S)


def test_seconds_of_a_core_are_those_of_this_process_and_what_it_started():
    took: list[float] = []
    with bursts.cores(took):
        np.linalg.eig(np.random.default_rng(0).random((200, 200)))
    assert took[0] >= 0 and bursts.tree_seconds() > 0
