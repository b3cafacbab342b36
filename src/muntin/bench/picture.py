"""Results as pictures: bars of the time per micro-batch, and lines of how it grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.bench.against import OURS, compared

COLOURS = {True: "#1f77b4", False: "#b0b0b0"}
"""Ours, and the others."""
COLUMNS = 3


def _panels(count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """A figure with so many panels, and those."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    figure, panels = pyplot.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained"
    )
    for spare in panels.flat[count:]:
        spare.set_axis_off()
    return figure, list(panels.flat[:count])


def bars(figures: Mapping[str, Any], file: Path) -> None:
    """A panel for each workload: seconds per micro-batch, on a logarithmic scale, the shorter the better."""
    loads = figures["workloads"]
    figure, panels = _panels(len(loads), 6.5, 3.6)
    times = {(r["workload"], r["opponent"], r["ours"]): r["ratio"] for r in figures["ratios"]}
    for panel, (name, load) in zip(panels, loads.items(), strict=True):
        shown = {n: f for n, f in load["results"].items() if f["seconds"]}
        drawn = panel.barh(list(shown), [f["seconds"] for f in shown.values()])
        against = compared(name, load["results"])
        for bar, (contender, found) in zip(drawn, shown.items(), strict=True):
            bar.set_color(COLOURS[contender.startswith(OURS)])
            more = "" if found["steady"] else "> "
            ratios = [f", {more}{times[key]:.1f} x" for n in against if (key := (name, contender, n)) in times]
            label = f" {more}{found['seconds']:.2f} s{''.join(ratios)}"
            panel.annotate(label, (bar.get_width(), bar.get_y() + bar.get_height() / 2), va="center", fontsize=9)
        panel.invert_yaxis()
        panel.set_xscale("log")
        least, most = (pick((f["seconds"] for f in shown.values()), default=1.0) for pick in (min, max))
        panel.set_xlim(least / 3, most * (most / least) ** 0.5 * 3)
        panel.xaxis.set_major_formatter("{x:g}")
        beside = f"\nx: times {' and '.join(against)}" if against else ""
        panel.set_title(f"{name}: {load['says']}{beside}", fontsize=9)
        panel.set_xlabel(f"seconds per micro-batch of {load['batch_rows']:,} rows (logarithmic)", fontsize=9)
    figure.savefig(file, dpi=120)


def lines(figures: Mapping[str, Any], file: Path) -> None:
    """A panel for each series of `muntin bench scale`: seconds per micro-batch over what was varied."""
    series = {name: found for name, found in figures["series"].items() if found["points"]}
    figure, panels = _panels(max(1, len(series)), 4.2, 3.2)
    for panel, (name, found) in zip(panels, series.items(), strict=False):
        points = [(p["at"], p["seconds"]) for p in found["points"] if p["seconds"]]
        panel.plot([at for at, _ in points], [s for _, s in points], "o-", color=COLOURS[True])
        panel.set_xscale("log")
        panel.set_xticks([at for at, _ in points], [f"{at:,}" for at, _ in points], minor=False)
        panel.set_xticks([], minor=True)
        panel.set_ylim(bottom=0)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel(found["axis"])
        panel.set_ylabel("seconds per micro-batch")
    figure.savefig(file, dpi=120)
