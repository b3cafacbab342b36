"""Casts the net: random texts, several jobs of each, all compared. One number brings a text back."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from whole_way.compare import check_all, covered
from whole_way.drive import Outcome, live
from whole_way.judge import Judge
from whole_way.random_jobs import random_life, random_text

LIVES = 8
"""Jobs that run the same text, each with its own input, restarts and faults."""


@dataclass
class Catch:
    """How many jobs ran, how many rows the judges wanted, what was covered, and what differed."""

    jobs: int = 0
    rows: int = 0
    covered: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def folder() -> Path:
    """Of this machine's memory, where it has such a folder."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="muntin-way-", dir=memory if memory.is_dir() else None))


def cast(seeds: range, judge: Judge | None = None, most_faults: int = 1) -> Catch:
    """Run the texts with these numbers; a fault is told with the line that brings it back."""
    judge, found, root = judge or Judge(), Catch(), folder()
    try:
        for seed in seeds:
            try:
                _cast_one(seed, judge, found, root)
            except Exception as error:
                again = f"MUNTIN_SEED={seed} pytest tests/whole_way -k random"
                found.faults.append(f"{again}\n{error}\n{traceback.format_exc()}")
                if len(found.faults) >= most_faults:
                    break
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return found


def _cast_one(seed: int, judge: Judge, found: Catch, root: Path) -> None:
    text = random_text(seed)
    lives = [random_life(text, n) for n in range(LIVES)]
    outcomes: list[Outcome] = []
    for life in lives:
        place = root / f"{seed}-{life.number}"
        place.mkdir()
        try:
            outcomes.append(live(life, place))
        except Exception as error:
            raise RuntimeError(f"job {life.number} of text {seed} failed: {error}") from error
        finally:
            found.jobs += 1
            shutil.rmtree(place, ignore_errors=True)
    found.rows += check_all(judge, lives, outcomes)
    found.covered += covered(lives)
