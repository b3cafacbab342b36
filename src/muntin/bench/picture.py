"""Results as pictures: bars of the time per micro-batch, and lines of how it grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.bench.against import OURS

COLOURS = {True: "#1f77b4", False: "#b0b0b0"}
"""Ours, and the others."""


def _figure(width: float, height: float, panels: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(1, panels, figsize=(width, height), squeeze=False, layout="constrained")


def bars(figures: Mapping[str, Any], file: Path) -> None:
    """A panel for each workload: seconds per micro-batch, on a logarithmic scale, the shorter the better."""
    loads = figures["workloads"]
    figure, panels = _figure(6.5 * len(loads), 3.6, len(loads))
    for panel, (name, load) in zip(panels[0], loads.items(), strict=True):
        shown = {n: f for n, f in load["results"].items() if f["seconds"]}
        drawn = panel.barh(list(shown), [f["seconds"] for f in shown.values()])
        for bar, (contender, found) in zip(drawn, shown.items(), strict=True):
            bar.set_color(COLOURS[contender.startswith(OURS)])
            more = "" if found["steady"] else "> "
            panel.annotate(
                f" {more}{found['seconds']:.2f} s", (bar.get_width(), bar.get_y() + bar.get_height() / 2), va="center"
            )
        panel.invert_yaxis()
        panel.set_xscale("log")
        panel.margins(x=0.25)
        panel.set_title(f"{name}: {load['says']}", fontsize=9)
        panel.set_xlabel(f"seconds per micro-batch of {load['batch_rows']:,} rows")
    figure.savefig(file, dpi=120)


def lines(figures: Mapping[str, Any], file: Path) -> None:
    """A panel for each series of `muntin bench scale`: seconds per micro-batch over what was varied."""
    series = figures["series"]
    figure, panels = _figure(3.6 * len(series), 3.4, len(series))
    for panel, (name, found) in zip(panels[0], series.items(), strict=True):
        points = [(p["at"], p["seconds"]) for p in found["points"] if p["seconds"]]
        panel.plot([at for at, _ in points], [s for _, s in points], "o-", color=COLOURS[True])
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel(found["axis"])
        panel.set_ylabel("seconds per micro-batch")
    figure.savefig(file, dpi=120)
