"""What a run of studies leaves behind: per study the data (CSV), the picture (PNG and SVG) and the claims (JSON)."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muntin.studies.picture import draw
from muntin.studies.resume import keep, kept
from muntin.studies.study import Claim, Effort, Ran, Study


def claim_rows(ran: Iterable[Ran]) -> list[dict[str, str]]:
    """Every claim of every study, for programs."""
    return [_claim_row(found.study, claim) for found in ran for claim in found.outcome.claims]


def _claim_row(study: Study, claim: Claim) -> dict[str, str]:
    return {
        "study": study.name,
        "paper": study.paper,
        "figure": study.figure,
        "section": claim.section,
        "claim": claim.says,
        "paper_value": claim.paper_value,
        "ours": claim.ours,
        "verdict": claim.verdict.value,
        "why": claim.why,
    }


def run_all(
    studies: Sequence[Study],
    effort: Effort,
    output: Path | None,
    done: Callable[[Ran], None],
    resume: bool = False,
) -> list[Ran]:
    """Run studies one after the other, and keep what each found as soon as it is there.

    With `resume`, what the folder has of a run that was the same is not run again.
    """
    found = []
    for study in studies:
        effort.tell(study.name)
        ran = kept(study, effort, output) if resume and output is not None else None
        if ran is None:
            start = time.process_time()
            outcome = study.run(effort)
            ran = Ran(study, outcome, time.process_time() - start)
            if output is not None:
                save(ran, output)
                keep(ran, effort, output)
        found.append(ran)
        done(ran)
    return found


def save(ran: Ran, output: Path) -> None:
    """Write the data, the picture and the claims of a study into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    name, outcome = ran.study.name, ran.outcome
    if outcome.rows:
        write_csv(output / f"{name}.csv", outcome.rows)
    picture(ran, [output / f"{name}.png", output / f"{name}.svg"])
    (output / f"{name}.json").write_text(json.dumps(claim_rows([ran]), indent=2) + "\n")


def picture(ran: Ran, files: Sequence[Path]) -> None:
    """Draw what a study found, if there is something to draw."""
    if ran.outcome.panels:
        draw(f"{ran.study.paper}, {ran.study.figure}: {ran.study.shows}", ran.outcome.panels, files)


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of a table; a column that some rows lack is empty there."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
