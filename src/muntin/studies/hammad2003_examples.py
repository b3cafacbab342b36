"""The worked examples of hammad2003, step by step: figures 2(a), 3(a) and 4.

Two rows, a11 and b12, meet states that are there already, under three windows. A step is a unit of the scheduler: a row
scans the part of the other state between two windows. What each query gets in it is routed by the operator's own rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muntin.core.arrivals import shard_rows
from muntin.core.batch import Arrivals, stream_schema
from muntin.core.operator import Operator
from muntin.core.policy import Policy
from muntin.core.results import route
from muntin.model import Side
from muntin.plan import share
from muntin.sql import parse_job
from muntin.studies.study import Claim, Curve, Findings, Panel, Study, counted
from muntin.studies.virtual_order import stamped

STAR, DISC = 1, 2
QUERIES = ("Q1", "Q2", "Q3")
SYMBOLS = [("A", t, DISC) for t in (1, 5, 9)] + [("B", t, STAR) for t in (0, 4, 8)] + [("A", 11, STAR), ("B", 12, DISC)]
"""Figures 2(a) and 3(a): rows with the same symbol match."""
ALL_MATCH = [("A", t, STAR) for t in (1, 3, 5, 7, 9, 11)] + [("B", t, STAR) for t in (0, 2, 4, 6, 8, 10, 12)]
"""Figure 4: windows of 2w, 3w and 6w with w = 2, and all rows match."""
Row = tuple[str, int, int]
Step = tuple[str, str, dict[str, list[str]]]
"""The row that was scheduled, the windows between which it scanned, and what each query got."""


@dataclass(frozen=True)
class WorkedExample:
    """One of the figures: the scheduler, windows, rows, and the steps as printed."""

    figure: str
    scheduler: str
    windows: tuple[int, ...]
    rows: list[Row]
    both_are_there: bool
    """Whether b12 has come before the first step; else it comes right after it."""
    printed: list[Step]


_PAIRS_OF_A11, _PAIRS_OF_B12 = ["a11,b8", "a11,b4", "a11,b0"], ["a9,b12", "a5,b12", "a1,b12"]
FIGURE_2A = WorkedExample(
    "figure 2a", "lwo", (4, 8, 12), SYMBOLS, True,
    [("a11", "0-3", {q: _PAIRS_OF_A11[: n + 1] for n, q in enumerate(QUERIES)}),
     ("b12", "0-3", {q: _PAIRS_OF_B12[: n + 1] for n, q in enumerate(QUERIES)})],
)  # fmt: skip
FIGURE_3A = WorkedExample(
    "figure 3a", "swf", (4, 8, 12), SYMBOLS, False,
    [("a11", "0-1", {q: ["a11,b8"] for q in QUERIES}),
     ("b12", "0-1", {"Q1": ["a9,b12"]}),
     ("a11", "1-2", {"Q2": ["a11,b4"], "Q3": ["a11,b4"]}),
     ("b12", "1-2", {"Q2": ["a9,b12", "a5,b12"]}),
     ("a11", "2-3", {"Q3": ["a11,b0"]}),
     ("b12", "2-3", {"Q3": _PAIRS_OF_B12})],
)  # fmt: skip
_EARLY = ["a11,b12", "a9,b12"]
FIGURE_4 = WorkedExample(
    "figure 4", "mqt", (4, 6, 12), ALL_MATCH, False,
    [("a11", "0-1", {q: ["a11,b10", "a11,b8"] for q in QUERIES}),
     ("a11", "1-2", {"Q2": ["a11,b6"], "Q3": ["a11,b6"]}),
     ("b12", "0-1", {"Q1": _EARLY, "Q2": _EARLY}),
     ("b12", "1-2", {"Q2": ["a7,b12"]}),
     ("a11", "2-3", {"Q3": ["a11,b4", "a11,b2", "a11,b0", *_EARLY, "a7,b12"]}),
     ("b12", "2-3", {"Q3": ["a5,b12", "a3,b12", "a1,b12"]})],
)  # fmt: skip


class SteppedOperator:
    """Rows in one operator, of which those before time 11 have been joined; the others come when they are told to."""

    def __init__(self, scheduler: str, windows: Sequence[int], rows: Sequence[Row]):
        streams = "".join(
            f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
            for s in "AB"
        )
        queries = "".join(
            f"CREATE QUERY Q{n} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW {w} microseconds;"
            for n, w in enumerate(windows, 1)
        )
        join = share(parse_job(streams + queries)).joins[0]
        self.operator = Operator(join, policy=Policy(scheduler=scheduler, eager=True))
        tables = []
        for side in Side:
            times, keys = [t for s, t, _ in rows if s == "AB"[side]], [k for s, _, k in rows if s == "AB"[side]]
            columns: dict[str, list[object]] = {"id": list(times), "k": list(keys)}
            timed = stamped(times, columns, "ts", stream_schema(join.streams[side]))
            tables.append(shard_rows(join, side, timed, 1)[0])
        self.operator.receive(Arrivals((tables[0], tables[1]), (0, 0), (12, 12), (True, True)))
        self.work = self.operator.work(run_length=1)
        self.work.arrive(sum(t < 11 for _, t, _ in rows))
        while self.work.step() is not None:
            pass

    def step(self) -> Step | None:
        done = self.work.step()
        if done is None:
            return None
        row = self.work.span(done.unit.run)[0]
        name = f"{'ab'[self.work.rows.side[row]]}{self.work.rows.ts[row]}"
        got: dict[str, list[str]] = {}
        for delivery in done.deliveries:
            run = self.operator.found(delivery.pairs, self.work.readers(delivery.levels)).whole()
            for query, table in route(self.operator.join, run):
                pairs = [f"a{a},b{b}" for a, b in zip(*(table[c].to_pylist() for c in "ab"), strict=True)]
                got.setdefault(query.name, []).extend(pairs)
        return name, f"{done.unit.first}-{done.unit.last}", got


def steps_of(example: WorkedExample) -> list[Step]:
    """What the operator does with the example."""
    stepped, found = SteppedOperator(example.scheduler, example.windows, example.rows), list[Step]()
    stepped.work.arrive(2 if example.both_are_there else 1)
    while (step := stepped.step()) is not None:
        found.append(step)
        if len(found) == 1 and not example.both_are_there:
            stepped.work.arrive(1)
    return found


def _run(example: WorkedExample) -> Findings:
    found = steps_of(example)
    alike = [n < len(found) and found[n] == step for n, step in enumerate(example.printed)]
    rows = [
        {"step": n, "row": name, "windows": levels, **{q: " ".join(got.get(q, ())) for q in QUERIES}}
        for n, (name, levels, got) in enumerate(found, 1)
    ]
    places = list(range(len(found) + 1))
    curves = []
    for query in QUERIES:
        total = [0]
        for _, _, got in found:
            total.append(total[-1] + len(got.get(query, ())))
        curves.append(Curve(query, places, total))
    says = "each step schedules the row, scans the windows and releases to each query the pairs that the figure shows"
    claim: Claim = counted(says, "3.1 to 3.3", f"{len(example.printed)} steps", alike, "steps")
    panel = Panel(f"{example.scheduler.upper()}: a11 and b12", "step (one scan of one row)", "pairs received", curves)
    return Findings(rows, [claim], [panel])


def _study(example: WorkedExample, shows: str) -> Study:
    return Study("hammad2003", example.figure, shows, lambda _: _run(example))


STUDIES = (
    _study(FIGURE_2A, "LWO joins a row with the largest window before it looks at the next"),
    _study(FIGURE_3A, "SWF serves small windows first and holds what larger ones must wait for"),
    _study(FIGURE_4, "MQT goes on where it serves most queries for the time, and releases early"),
)
