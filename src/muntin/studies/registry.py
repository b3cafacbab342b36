"""All studies, paper by paper in the order of their figures."""

from __future__ import annotations

from muntin.model import UsageError
from muntin.studies import (
    beyond,
    ding2004,
    ding2004_auction,
    ding2004_model,
    hammad2003_bursts,
    hammad2003_examples,
    hammad2003_rates,
    hammad2005_examples,
    hammad2005_responses,
    kostowski,
    wang2006_chains,
    wang2006_cpu_opt,
    wang2006_printed,
    wang2006_sharing,
)
from muntin.studies.study import Study

STUDIES: tuple[Study, ...] = (
    *hammad2003_examples.STUDIES,
    *hammad2003_bursts.STUDIES,
    *hammad2003_rates.STUDIES,
    *wang2006_printed.STUDIES,
    *wang2006_sharing.STUDIES,
    *wang2006_chains.STUDIES,
    *wang2006_cpu_opt.STUDIES,
    *kostowski.STUDIES,
    *hammad2005_examples.STUDIES,
    *hammad2005_responses.STUDIES,
    *ding2004_auction.STUDIES,
    *ding2004_model.STUDIES,
    *ding2004.STUDIES,
    *beyond.STUDIES,
)
ALL, PARTS = "all", "abcdef"


def chosen(names: list[str]) -> list[Study]:
    """The studies of these names; a paper's name means all of its studies, `all` every one.

    A part of a figure, as in `wang2006-figure-18c`, leads to the figure.
    """
    wanted: list[Study] = []
    for name in names:
        found = _named(name) or _named(name.rstrip(PARTS))
        if not found:
            near = [s.name for s in STUDIES if any(name in each for each in s.names)]
            hint = f"do you mean {', '.join(near)}" if near else "`muntin study list` names them"
            raise UsageError(f"there is no study {name}", hint=hint)
        wanted += [study for study in found if study not in wanted]
    return wanted


def _named(name: str) -> list[Study]:
    return [study for study in STUDIES if name in (ALL, study.paper, *study.names)]
