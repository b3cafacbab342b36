"""Response times after a burst, beside equations 1 and 2 of hammad2003: figures 2(b) and 3(b).

Fifty rows come at once on one stream and meet a full state by nested loops, each row matching all: the setting of
3.1.1, with a microsecond for a comparison. The operator and its scheduler run; the clock is virtual.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from muntin.generate.windows import TABLE_1
from muntin.plan.response_times import alone
from muntin.plan.schedulers import SCHEDULERS
from muntin.studies.scheduling import SECOND_US, join_of, rows_of, run
from muntin.studies.study import PAPER, Curve, Effort, Findings, Panel, Study, judged
from muntin.studies.virtual_clock import Costs, Measured

M, LAMBDA = 50, 100
"""Rows of the burst; rows a second of the stream that it meets."""
EXACT = 1e-6


def burst(scheduler: str, windows: Sequence[int], m: int = M) -> Measured:
    """m rows at once on one stream, by nested loops, all rows matching."""
    join = join_of([w * SECOND_US for w in windows])
    state = windows[-1] * SECOND_US - np.arange(windows[-1] * LAMBDA)[::-1] * (SECOND_US // LAMBDA) - 5_000
    nothing = np.zeros(0, np.int64)
    history = rows_of([nothing, state], [nothing, np.zeros(len(state), np.int64)])
    now = np.full(m, windows[-1] * SECOND_US)
    return run(join, history, rows_of([now, nothing], [np.zeros(m, np.int64), nothing]), scheduler, Costs(1.0))


def first_waits(sizes: Sequence[int], i: int) -> float:
    """When equation 2 lets a query have the pairs of the first row."""
    before = sizes[i - 1] if i else 0
    return M * before + sizes[i] - before


def first_released(sizes: Sequence[int], i: int) -> float:
    """When it has them on average if they are released at the end of each unit, as figure 3(a) shows."""
    bounds = [0, *sizes[: i + 1]]
    return sum((b - a) * (M * a + b - a) for a, b in pairwise(bounds)) / sizes[i]


def _compared(scheduler: str, names: Sequence[str]) -> tuple[list[dict[str, object]], list[float]]:
    """For each window of each distribution the response time and the formula; and how far they are apart."""
    rows: list[dict[str, object]] = []
    apart = []
    for name in names:
        windows = TABLE_1[name]
        sizes = [w * LAMBDA for w in windows]
        found = [response.mean_us for response in burst(scheduler, windows).queries.values()]
        for i, us in enumerate(found):
            printed = SCHEDULERS[scheduler].response(sizes, i, M)
            isolated = burst("lwo", windows[: i + 1]).queries[f"w{i + 1}"].mean_us if name == "uniform" else 0.0
            alone_us = alone(sizes[i], M)
            rows.append({"windows": name, "window_s": windows[i], "scheduler": scheduler, "ours_us": us,
                         "equation_us": printed, "isolated_us": isolated or alone_us,
                         "isolated_equation_us": alone_us})  # fmt: skip
            apart.append(abs(us / printed - 1))
    return rows, apart


def _panel(scheduler: str, rows: list[dict[str, object]]) -> Panel:
    own = [row for row in rows if row["windows"] == "uniform"]
    x = [float(str(row["window_s"])) for row in own]

    def curve(name: str, column: str, style: str = "solid") -> Curve:
        return Curve(name, x, [float(str(row[column])) / 1e6 for row in own], style=style)

    curves = [
        curve(scheduler.upper(), "ours_us"),
        curve("isolated", "isolated_us"),
        curve("its equation", "equation_us", PAPER),
        curve("equation of isolated", "isolated_equation_us", PAPER),
    ]
    title = f"{M} rows at once, uniform windows"
    return Panel(title, "window (seconds)", "mean response time (seconds)", curves, log_y=True)


def figure_2b(effort: Effort) -> Findings:
    names = effort.pick(["uniform"], list(TABLE_1))
    rows, apart = _compared("lwo", names)
    smallest = next(row for row in rows if row["windows"] == "uniform")
    penalty = float(str(smallest["ours_us"])) / float(str(smallest["isolated_us"]))
    claims = [
        judged("equation 1 is the mean response time under LWO", "3.1.1", "exact", [max(apart)],
               lambda d: d < 0.01, why="the greatest relative difference over all windows"),
        judged("the smallest window is severely penalised against isolated execution", "3.1.1, figure 2(b)",
               "600 times, by equation 1", [penalty], lambda p: p > 100, "times as long",
               "its rows wait until old rows have scanned the largest window"),
    ]  # fmt: skip
    return Findings(rows, claims, [_panel("lwo", rows)])


def figure_3b(effort: Effort) -> Findings:
    names = effort.pick(["uniform"], list(TABLE_1))
    rows, apart = _compared("swf", names)
    mended = []
    for row in rows:
        sizes = [w * LAMBDA for w in TABLE_1[str(row["windows"])]]
        i = sizes.index(int(str(row["window_s"])) * LAMBDA)
        counted = float(str(row["equation_us"])) - (first_waits(sizes, i) - first_released(sizes, i)) / M
        mended.append(abs(float(str(row["ours_us"])) / counted - 1))
    own = [row for row in rows if row["windows"] == "uniform"]
    small, large = (float(str(own[n]["ours_us"])) / float(str(own[n]["isolated_us"])) for n in (0, -1))
    claims = [
        judged("equation 2 is the mean response time under SWF", "3.2.1", "exact", [max(apart)],
               lambda d: d < EXACT, partly=lambda d: d < 0.013,
               why="figure 3(a) releases what the first row of a burst found at once, and the equation leaves that "
                   f"out: a part of 1/m. Once it is counted they differ by {max(mended):.0e}"),
        judged("small windows are as quick as in isolated execution", "3.2.1, figure 3(b)", "1.02, by equation 2",
               [small], lambda r: r < 1.1, "times isolated"),
        judged("at the expense of the largest", "3.2.1, figure 3(b)", "1.8, by equation 2", [large], lambda r: r > 1.5,
               "times isolated"),
    ]  # fmt: skip
    return Findings(rows, claims, [_panel("swf", rows)])


STUDIES = (
    Study("hammad2003", "figure 2b", "response times of LWO and of isolated execution after a burst", figure_2b),
    Study("hammad2003", "figure 3b", "response times of SWF and of isolated execution after a burst", figure_3b),
)
