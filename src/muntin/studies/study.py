"""What a study is: a figure or table of a paper, run again with the operator that ships, and what became of its claims.

    run(effort) -> Findings: the data, the picture, and each claim with the paper's value, ours over the seeds, verdict

A verdict is derived, not written: `judged` compares what was found with each seed with what the claim says, in the
tolerance that its wording allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

SEEDS, QUICK_SEEDS = 5, 3
"""Seeds of a study where nobody says how many."""
OURS, PAPER = "solid", "dashed"
"""How a line is drawn: what was measured, and what a paper prints or a formula says."""


class Verdict(StrEnum):
    HOLDS = "holds"
    PARTLY = "partly"
    DOES_NOT = "does not"


@dataclass(frozen=True)
class Claim:
    """What a paper states, in our words, with the section that states it; the paper's value, ours, and why."""

    says: str
    section: str
    paper_value: str
    ours: str
    verdict: Verdict
    why: str
    timed: bool = False
    """Whether it is about seconds of the machine that runs the study."""


@dataclass(frozen=True)
class Curve:
    """Values over places of one axis; `low` and `high` are the least and the most over the seeds."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: str = OURS


@dataclass(frozen=True)
class Panel:
    """One diagram; where places on the x axis are names, curves are drawn as groups of bars."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Effort:
    """How much a run may take, and with which seeds."""

    seeds: tuple[int, ...]
    quick: bool = False
    tell: Callable[[str], None] = field(default=lambda _: None)

    @classmethod
    def of(cls, seeds: int | None = None, quick: bool = False, tell: Callable[[str], None] | None = None) -> Effort:
        number = seeds or (QUICK_SEEDS if quick else SEEDS)
        return cls(tuple(range(1, number + 1)), quick, tell or (lambda _: None))

    def pick(self, quick: Any, full: Any) -> Any:
        """One of two settings."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Findings:
    """What a study found: rows of data with the same columns, claims, and the panels of its picture."""

    rows: Sequence[Mapping[str, Any]]
    claims: Sequence[Claim]
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Study:
    """A figure or table of a paper that can be run again."""

    paper: str
    figure: str
    shows: str
    run: Callable[[Effort], Findings]
    also: tuple[str, ...] = ()
    """Other figures and tables of the paper that it shows."""

    @property
    def name(self) -> str:
        """As the command line calls it: `hammad2003-figure-5`."""
        return self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Its own name and those of the other figures and tables that lead to it."""
        return tuple(f"{self.paper}-{figure.replace(' ', '-')}" for figure in (self.figure, *self.also))


@dataclass(frozen=True)
class Ran:
    """A study with what it found and the seconds of a core that it took."""

    study: Study
    outcome: Findings
    core_s: float


# -- judging ---------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three digits that count, without an exponent where it is not needed."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:.2e}"


def spread(values: Sequence[float], unit: str = "", over: str = "seeds") -> str:
    """A mean with the least and the most: `0.41 (0.38 to 0.44, 5 seeds)`."""
    mean, tail = float(np.mean(values)), f" {unit}" if unit else ""
    if len(values) == 1 or max(values) == min(values):
        return f"{number(mean)}{tail}" + (f" ({len(values)} {over})" if len(values) > 1 else "")
    return f"{number(mean)}{tail} ({number(min(values))} to {number(max(values))}, {len(values)} {over})"


def judged(
    says: str,
    section: str,
    paper_value: str,
    values: Sequence[float],
    holds: Callable[[float], bool],
    unit: str = "",
    why: str = "",
    partly: Callable[[float], bool] | None = None,
    over: str = "seeds",
    timed: bool = False,
) -> Claim:
    """A claim about one number of each seed, or of each of other places that `over` names.

    It holds if it does with every seed; partly if it does with some, or if `partly`, what is left of it when its value
    is taken away, does with every one.
    """
    found = [holds(value) for value in values]
    weaker = partly is not None and all(partly(value) for value in values)
    verdict = Verdict.HOLDS if all(found) else Verdict.PARTLY if any(found) or weaker else Verdict.DOES_NOT
    ours = spread(values, unit, over)
    if any(found) and not all(found):
        ours += f", so with {sum(found)} of {len(found)}"
    return Claim(says, section, paper_value, ours, verdict, why, timed)


def counted(says: str, section: str, paper_value: str, found: Sequence[bool], what: str, why: str = "") -> Claim:
    """A claim that is true or false at each of many places: it holds if it does at all of them."""
    true = sum(found)
    verdict = Verdict.HOLDS if true == len(found) else Verdict.PARTLY if 2 * true >= len(found) else Verdict.DOES_NOT
    return Claim(says, section, paper_value, f"{true} of {len(found)} {what}", verdict, why)


def over_seeds(name: str, x: Sequence[Any], by_seed: Sequence[Sequence[float]], style: str = OURS) -> Curve:
    """A curve of means, from the values of each seed at each place."""
    table = np.array(by_seed, float)
    return Curve(name, list(x), table.mean(0).tolist(), table.min(0).tolist(), table.max(0).tolist(), style)
