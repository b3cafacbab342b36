"""The pictures of studies, all with one look: as PNG for a page, as SVG for everything else."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from muntin.studies.study import PAPER, Curve, Panel

COLOURS = ("#1f6feb", "#d1542c", "#2f8f4e", "#8250df", "#b08800", "#57606a", "#c23a8a")
MARKERS = "os^Dvx*"
COLUMNS, WIDTH, HEIGHT, DPI = 3, 4.6, 3.4, 110
INK, DASHES = "#24292f", ((0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
"""What a paper prints or a formula says is drawn in ink, over what was measured."""
FEW = 9
"""Places on a logarithmic axis that are all written out."""
LOOK: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "muntin",
}


def draw(title: str, panels: Sequence[Panel], files: Sequence[Path]) -> None:
    """All panels of a study in one picture, written to each of the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = 2 if len(panels) == 4 else min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(LOOK):
        size = (max(WIDTH * columns, 6.5), HEIGHT * rows + 0.4)
        figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        for axis, panel in zip(axes.flat, panels, strict=False):
            _panel(axis, panel)
        for spare in axes.flat[len(panels) :]:
            spare.set_axis_off()
        figure.suptitle(textwrap.fill(title, 36 * columns + 36), fontsize=10, fontweight="bold")
        for file in files:
            metadata: dict[str, Any] = {"Date": None} if file.suffix == ".svg" else {}
            figure.savefig(file, dpi=DPI, metadata=metadata)
        pyplot.close(figure)


def _panel(axis: Any, panel: Panel) -> None:
    named = any(isinstance(x, str) for curve in panel.curves for x in curve.x)
    printed = 0
    for n, curve in enumerate(panel.curves):
        if named:
            _bars(axis, curve, n, len(panel.curves), COLOURS[n % len(COLOURS)])
        elif curve.style == PAPER:
            axis.plot(curve.x, curve.y, label=curve.name, color=INK, linestyle=DASHES[printed], linewidth=1.2, zorder=3)
            printed += 1
        else:
            _line(axis, curve, COLOURS[n % len(COLOURS)], MARKERS[n % len(MARKERS)])
    if named:
        names = list(panel.curves[0].x)
        long = sum(map(len, names)) > 44
        axis.set_xticks(range(len(names)), names, rotation=25 if long else 0, ha="right" if long else "center")
        axis.grid(axis="x", visible=False)
    else:
        _numbers(axis.xaxis, panel.log_x, [x for curve in panel.curves for x in curve.x])
    _numbers(axis.yaxis, panel.log_y, [y for curve in panel.curves for y in curve.y])
    if not panel.log_y and all(y >= 0 for curve in panel.curves for y in curve.y):
        axis.set_ylim(bottom=0)
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)
    _head(axis, panel)


def _head(axis: Any, panel: Panel) -> None:
    """The title, and below it the legend, where it hides nothing."""
    lines = 0
    if len(panel.curves) > 1:
        longest = max(len(curve.name) for curve in panel.curves)
        width = axis.figure.get_size_inches()[0] / axis.get_subplotspec().get_gridspec().ncols - 0.2
        in_a_row = max(1, min(len(panel.curves), int(width / (0.6 + 0.065 * longest))))
        lines = -(-len(panel.curves) // in_a_row)
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=in_a_row, columnspacing=1.2, borderaxespad=0)
    axis.set_title(panel.title, fontsize=9, pad=4 + 14 * lines)


def _numbers(axis: Any, log: bool, values: Sequence[float]) -> None:
    """Plain numbers along an axis: on a logarithmic one powers instead of all, or the few places that there are."""
    from matplotlib import ticker

    if log:
        (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
        if axis.axis_name == "x" and 1 < len({*values}) <= FEW:
            axis.set_major_locator(ticker.FixedLocator(_apart(values)))
        else:
            positive = [value for value in values if value > 0] or [1.0]
            span = max(positive) / min(positive)
            subs = (1.0,) if span > 500 else (1.0, 2.0, 5.0) if span > 8 else (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
            axis.set_major_locator(ticker.LogLocator(subs=subs))
        axis.set_minor_formatter(ticker.NullFormatter())
    elif all(value == round(value) for value in values):
        axis.get_major_locator().set_params(integer=True)
    axis.set_major_formatter(lambda value, _: plain(value))


def _apart(values: Sequence[float]) -> list[float]:
    """The places of a logarithmic axis, without those that would be written over others."""
    found: list[float] = []
    least = max(1.3, (max(values) / min(values)) ** (1 / FEW))
    for value in sorted({*values}, reverse=True):
        if not found or found[-1] >= least * value:
            found.append(value)
    return found


def plain(value: float) -> str:
    """`20M`, `15,000`, `0.25`."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def _bars(axis: Any, curve: Curve, place: int, of: int, colour: str) -> None:
    width = 0.8 / of
    at = np.arange(len(curve.x)) + (place - (of - 1) / 2) * width
    error = None
    if curve.low is not None and curve.high is not None:
        error = np.abs(np.array([curve.low, curve.high], float) - np.array(curve.y))
    hatch = "//" if curve.style == PAPER else None
    axis.bar(at, curve.y, width * 0.94, label=curve.name, color=colour, alpha=0.55 if hatch else 1.0, hatch=hatch,
             yerr=error, error_kw={"elinewidth": 0.8, "capsize": 2})  # fmt: skip


def _line(axis: Any, curve: Curve, colour: str, marker: str) -> None:
    if curve.low is not None and curve.high is not None:
        axis.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(curve.x, curve.y, label=curve.name, color=colour, linewidth=1.3,
              marker=None if len(curve.x) > 40 else marker, markersize=4)  # fmt: skip
