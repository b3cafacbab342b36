"""What a study found, kept whole, so that a run that was interrupted goes on where it was.

    DIR/runs/hammad2003-figure-5.json    seeds, effort, the code of the study, what it took, claims and panels

A study is run again if it was run with other seeds or another effort, or if its file has changed since. Changes of the
operator are not seen: after one of these, a run begins anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from muntin.studies.study import Claim, Curve, Effort, Findings, Panel, Ran, Study, Verdict


def keep(ran: Ran, effort: Effort, output: Path) -> None:
    """Write what a study found, but for its data, which is beside it."""
    found = ran.outcome
    kept = {
        **_same(ran.study, effort),
        "core_s": ran.core_s,
        "claims": [asdict(claim) for claim in found.claims],
        "panels": [asdict(panel) for panel in found.panels],
    }
    file = _file(ran.study, output)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(kept, indent=1, default=float) + "\n")


def kept(study: Study, effort: Effort, output: Path) -> Ran | None:
    """What a study found in an earlier run that was the same."""
    try:
        found = json.loads(_file(study, output).read_text())
        if {name: found[name] for name in ("seeds", "quick", "code")} != _same(study, effort):
            return None
        claims = [Claim(**{**claim, "verdict": Verdict(claim["verdict"])}) for claim in found["claims"]]
        panels = [Panel(**{**panel, "curves": [Curve(**c) for c in panel["curves"]]}) for panel in found["panels"]]
        return Ran(study, Findings((), claims, panels), found["core_s"])
    except (OSError, ValueError, KeyError, TypeError):  # none, or one that was cut off while it was written
        return None


def _same(study: Study, effort: Effort) -> dict[str, Any]:
    source = Path(str(sys.modules[study.run.__module__].__file__)).read_bytes()
    return {"seeds": list(effort.seeds), "quick": effort.quick, "code": hashlib.sha256(source).hexdigest()}


def _file(study: Study, output: Path) -> Path:
    return output / "runs" / f"{study.name}.json"
