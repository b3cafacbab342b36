"""The page of all studies, `docs/studies.md`: what does not hold first, then figure by figure with its picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from muntin.studies.record import claim_rows, picture
from muntin.studies.study import Effort, Ran, Verdict

WIDTH = 100
ORDER = (Verdict.DOES_NOT, Verdict.PARTLY)
HEADS = {Verdict.DOES_NOT: "What does not hold", Verdict.PARTLY: "What holds partly"}


def write_page(file: Path, found: Sequence[Ran], effort: Effort) -> None:
    """Write the page, and its pictures into the folder of its name beside it."""
    folder = file.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for ran in found:
        picture(ran, [folder / f"{ran.study.name}.svg"])
    file.write_text("\n".join(lines_of(found, effort, file.stem)) + "\n")


def lines_of(found: Sequence[Ran], effort: Effort, folder: str) -> list[str]:
    claims = claim_rows(found)
    counts = {v: sum(c["verdict"] == v for c in claims) for v in Verdict}
    how = "quick" if effort.quick else "full"
    usual = effort.seeds == Effort.of(quick=effort.quick).seeds
    options = (" --quick" if effort.quick else "") + ("" if usual else f" --seeds {len(effort.seeds)}")
    command = f"muntin study run all{options} --page docs/{folder}.md"
    lines = ["# The papers' figures, run again", ""]
    lines += _folded(
        f"Made by a {how} run with {len(effort.seeds)} seeds. Of {len(claims)} claims in {len(found)} studies "
        f"{counts[Verdict.HOLDS]} hold, {counts[Verdict.PARTLY]} hold partly, and {counts[Verdict.DOES_NOT]} do not. "
        "Every study drives the operator that ships. Where time is measured, the clock is a virtual one whose costs "
        "are parameters, unless a study says otherwise. Values are means; in brackets are the least and the most over "
        "the seeds, or rounds where seconds of this machine were measured. "
        f"All took {sum(ran.core_s for ran in found) / 60:.0f} minutes of a core."
    )
    lines += ["", "```bash", command, "muntin study run hammad2003-figure-5", "```", ""]
    for verdict in ORDER:
        lines += [f"## {HEADS[verdict]}", ""]
        for claim in claims:
            if claim["verdict"] == verdict:
                lines += _item(claim)
        lines += [""]
    for ran in found:
        lines += _section(ran, folder)
    return lines[:-1]


def _item(claim: dict[str, str]) -> list[str]:
    text = f"**{claim['paper']}, {claim['figure']}**: {claim['claim']}. Paper: {claim['paper_value']}. Here: "
    text += claim["ours"] + "." + (f" {claim['why'][0].upper()}{claim['why'][1:]}." if claim["why"] else "")
    return _folded(text, "- ", "  ")


def _section(ran: Ran, folder: str) -> list[str]:
    study = ran.study
    module = study.run.__module__.rsplit(".", 1)[-1]
    lines = [f"## {study.paper}, {study.figure}", ""]
    also = f" It shows {' and '.join(study.also)} as well." if study.also else ""
    lines += _folded(f"{study.shows[0].upper()}{study.shows[1:]}.{also}")
    lines += ["", f"`muntin study run {study.name}`, `src/muntin/studies/{module}.py`.", ""]
    if ran.outcome.panels:
        lines += [f"![{study.paper}, {study.figure}]({folder}/{study.name}.svg)", ""]
    lines += ["| claim | paper | here | verdict |", "|---|---|---|---|"]
    for c in claim_rows([ran]):
        cells = [f"{c['claim']} ({c['section']})", c["paper_value"], c["ours"], c["verdict"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += [""]
    for c in claim_rows([ran]):
        if c["why"] and c["verdict"] == Verdict.HOLDS:
            lines += [*_folded(f"{c['claim'][0].upper()}{c['claim'][1:]}: {c['why']}."), ""]
    return lines


def _folded(text: str, first: str = "", others: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip
