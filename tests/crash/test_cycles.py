"""A dozen crashes on Spark, each at a point of its own: every query has the rows of a run that nobody killed.

`make crash` goes on for hundreds.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from crash.cycles import RUN, Place, compile_manager, play

POINTS = [
    ("after job", 1),
    ("after plan", 1),
    ("before offset", 1),
    ("after state", 1),
    ("after offset", 2),
    ("before manifest", 2),
    ("after manifest", 1),
    ("after last published", 1),
    ("before commit", 2),
    ("after control message", 1),
    ("after rename", 3),
    ("after commit", 1),
]


@pytest.mark.spark
def test_a_dozen_crashes_change_no_row(tmp_path: Path):
    place = Place(tmp_path / "round", compile_manager(tmp_path / "manager.jar"), "batch", random.Random(0))
    play(place, [((*RUN, "--available-now"), point, times) for point, times in POINTS])
    assert place.died.total() == len(POINTS), place.died
