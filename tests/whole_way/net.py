"""Casts the net: random texts, several jobs of each, all compared. One number brings a text back."""

from __future__ import annotations

import gc
import re
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from whole_way.compare import JobFault, check_all, covered
from whole_way.drive import Outcome, live
from whole_way.judge import Judge
from whole_way.random_jobs import Life, random_life, random_text
from whole_way.shrink import SEPARATOR, shrunk, without

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


def cast(seeds: Iterable[int], judge: Judge | None = None) -> Catch:
    """Run the texts with these numbers up to the first fault, which is told with the line that brings it back."""
    judge, found, root = judge or Judge(), Catch(), folder()
    gc.freeze()  # what is loaded by now stays: looking at it again and again takes a tenth of the time
    try:
        for seed in seeds:
            text = random_text(seed)
            lives = [random_life(text, n) for n in range(LIVES)]
            try:
                found.rows += run_all(lives, judge, root)
            except Exception as error:
                found.faults.append(_told(lives, error, judge, root))
                break
            finally:
                found.jobs += len(lives)
            found.covered += covered(lives)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return found


def replay(seed: int, number: int, pieces: list[str], judge: Judge | None = None) -> None:
    """Run one job of a text, without some pieces of it."""
    root = folder()
    try:
        run_all([without(random_life(random_text(seed), number), pieces)], judge or Judge(), root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run_all(lives: list[Life], judge: Judge, root: Path) -> int:
    """Run jobs of one text and compare all of them; the number of rows that the judges want."""
    outcomes: list[Outcome] = []
    for life in lives:
        place = Path(tempfile.mkdtemp(prefix=f"{life.text.seed}-{life.number}-", dir=root))
        try:
            outcomes.append(live(life, place))
        except Exception as error:
            raise JobFault(life.number, f"job {life.number} of text {life.text.seed} failed: {error}") from error
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return check_all(judge, lives, outcomes)


def _told(lives: list[Life], error: Exception, judge: Judge, root: Path) -> str:
    """A fault, its job made small, and the line that brings it back."""
    trace, seed = traceback.format_exc(), lives[0].text.seed
    if not isinstance(error, JobFault):
        return f"{again(seed)}\n{error}\n{trace}"
    life = lives[error.number]

    def fails(smaller: Life) -> bool:
        try:
            run_all([smaller], judge, root)
        except Exception as other:
            return kind_of(other) == kind_of(error)
        return False

    pieces = shrunk(life, fails) if fails(life) else []
    small = without(life, pieces)
    rows = sum(len(file) for step in small.steps for files in step.files.values() for file in files)
    size = f"{len(small.text.queries)} queries, {len(small.steps)} steps, {rows} rows"
    return f"{again(seed, error.number, pieces)}\n({size})\n{error}\n{trace}"


def again(seed: int, number: int | None = None, pieces: list[str] | None = None) -> str:
    """The line that runs a text again, or one job of it."""
    one = "" if number is None else f"MUNTIN_LIFE={number} "
    less = f"MUNTIN_WITHOUT='{SEPARATOR.join(pieces)}' " if pieces else ""
    return f"MUNTIN_SEED={seed} {one}{less}pytest tests/whole_way -k random_jobs_leave"


def kind_of(error: BaseException) -> str:
    """What tells one fault from another while a job is made smaller: its class, and what is said without names."""
    while isinstance(error, JobFault) and error.__cause__ is not None:
        error = error.__cause__
    said = re.sub(r"\bq\d\b|[^A-Za-z ]", "", str(error).split(": ", 1)[-1])
    return f"{type(error).__name__} {said[:20]}"
