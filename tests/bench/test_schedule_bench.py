"""How `muntin bench schedule` compares: contenders take turns until their rounds are apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

from muntin.bench import schedule
from muntin.plan.schedulers import SCHEDULERS


def measured(took: Any, quick: bool = True) -> tuple[dict[str, Any], list[str]]:
    """Figures where `took(scheduler, round)` says how long all rows took, and the schedulers in the order of runs."""
    ran: list[str] = []

    def run(spark: Any, folder: Path, windows: Any, scheduler: str) -> dict[str, Any]:
        ran.append(scheduler)
        seconds = took(scheduler, Counter(ran)[scheduler])
        return {f"w{n}": {"rows": n, "mean_s": seconds * n, "p99_s": 2 * seconds * n} for n in range(1, 8)}

    with mock.patch.object(schedule, "_run", run), mock.patch.object(schedule, "QUICK_ROWS", 20):
        return schedule.measure(quick, lambda _: None, None), ran[1:]


def test_contenders_take_turns_and_two_rounds_are_enough_where_they_are_apart():
    figures, ran = measured(lambda scheduler, _: {"lwo": 3.0, "swf": 2.0, "mqt": 1.0}[scheduler])
    assert ran == ["lwo", "swf", "mqt", "swf", "mqt", "lwo"]
    (found,) = figures["distributions"].values()
    assert found["separate"] and found["overall_s"]["mqt"] == {"mean": 4.0, "least": 4.0, "most": 4.0}
    text = schedule.render(figures)
    assert "mqt against lwo: smallest window 0.33, mean over the windows 0.33" in text and "are apart" in text


def test_rounds_that_overlap_are_repeated_and_said_to_overlap():
    figures, ran = measured(lambda scheduler, number: 1.0 + number % 2)
    (found,) = figures["distributions"].values()
    assert not found["separate"] and found["rounds"] == schedule.MOST
    assert Counter(ran) == dict.fromkeys(SCHEDULERS.names, schedule.MOST)
    assert {ran[n] for n in range(0, len(ran), 3)} == set(SCHEDULERS.names), "each was the first of a round"
    assert "rounds of schedulers overlap" in schedule.render(figures)
