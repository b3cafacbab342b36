"""The chain of sliced joins as wang2006 prints it, with queues between joins: a twin to compare the operator with.

Table 2 is the chain of one-way joins of figures 5 to 7, step by step. The chain of binary joins is that of figure 9: a
row goes through the chain twice, as a male that purges and probes and as a female that fills the states, and any join
with something in its queue may run next.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from muntin.sql import parse_job
from muntin.studies.study import Curve, Effort, Findings, Panel, Study, counted, judged, over_seeds
from muntin.testing.local_job import LocalJob

Named = tuple[str, int]
"""A row of table 2: its name and its second."""


@dataclass
class OneWayJoin:
    """One sliced one-way join as figure 6 has it; states and queues newest first.

    The table keeps a row of exactly one window's age, so a row is purged only beyond it.
    """

    end: int
    state: list[Named] = field(default_factory=list)
    output: list[tuple[str, str]] = field(default_factory=list)

    def take(self, row: Named) -> list[Named]:
        """What goes on to the next join, in order."""
        if row[0].startswith("a"):
            self.state.insert(0, row)
            return []
        purged = [a for a in self.state if row[1] - a[1] > self.end]
        self.state = [a for a in self.state if a not in purged]
        self.output = [(a[0], row[0]) for a in reversed(self.state)]
        return [*reversed(purged), row]


ARRIVALS = {1: "a1", 2: "a2", 3: "a3", 4: "b1", 5: "b2", 8: "a4"}
TABLE_2 = [
    # T, operator, A[0, 2], queue, A[2, 4], output
    (1, "J1", "a1", "", "", ""),
    (2, "J1", "a2 a1", "", "", ""),
    (3, "J1", "a3 a2 a1", "", "", ""),
    (4, "J1", "a3 a2", "b1 a1", "", "a2b1 a3b1"),
    (5, "J1", "a3", "b2 a2 b1 a1", "", "a3b2"),
    (6, "J2", "a3", "b2 a2 b1", "a1", ""),
    (7, "J2", "a3", "b2 a2", "a1", "a1b1"),
    (8, "J1", "a4 a3", "b2 a2", "a1", ""),
    (9, "J2", "a4", "a3 b2", "a2 a1", ""),
    (10, "J2", "a4", "a3", "a2 a1", "a1b2 a2b2"),
]


def trace() -> list[tuple[int, str, str, str, str, str]]:
    """Table 2 as the steps of figure 6 make it."""
    first, second, queue, found = OneWayJoin(2), OneWayJoin(4), list[Named](), []
    for at, operator, *_ in TABLE_2:
        first.output, second.output = [], []
        if operator == "J1":
            queue = [*reversed(first.take((ARRIVALS[at], at))), *queue]
        else:
            second.take(queue.pop())
        young, waiting, old = (" ".join(name for name, _ in rows) for rows in (first.state, queue, second.state))
        out = " ".join(a + b for a, b in (first.output or second.output))
        found.append((at, operator, young, waiting, old, out))
    return found


def by_the_operator() -> dict[str, list[str]]:
    """The pairs of a query over the first slice and of one over both, from the operator that ships."""
    text = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, name STRING, k INT) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
        for s in "AB"
    ) + "".join(
        f"CREATE QUERY q{n} AS SELECT A.name AS a, B.name AS b FROM A [RANGE {us} microseconds] A "
        "JOIN B [NOW] B ON A.k = B.k;"
        for n, us in ((1, 2_000_001), (2, 4_000_001))
    )
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("name", pa.string()), ("k", pa.int32())])
    local, got = LocalJob(parse_job(text)), dict[str, list[str]](q1=[], q2=[])
    for second, name in ARRIVALS.items():
        row = pa.Table.from_pylist([{"ts": second * 1_000_000, "name": name, "k": 1}], schema)
        for query, table in local.push({name[0].upper(): row}).items():
            got[query] += [a + b for a, b in zip(*(table[c].to_pylist() for c in "ab"), strict=True)]
    return got


def table_2(_: Effort) -> Findings:
    found = trace()
    columns = ("second", "operator", "A_0_2", "queue", "A_2_4", "output")
    rows = [dict(zip(columns, step, strict=True)) for step in found]
    pairs: dict[str, list[str]] = {"J1": [], "J2": []}
    for step in found:
        pairs[step[1]] += step[5].split()
    got = by_the_operator()
    claims = [
        counted("the steps of figure 6 make this table", "4.1, table 2", "10 seconds",
                [ours == printed for ours, printed in zip(found, TABLE_2, strict=True)], "seconds",
                "the print moves a3 to the queue in seconds 9 and 10. No row of B has come by then that could have "
                "purged it, and the operator that runs is the other one"),
        counted("the slices of the operator hold what the joins of the chain find", "4.1, theorem 1", "the same pairs",
                [sorted(got["q1"]) == sorted(pairs["J1"]), sorted(got["q2"]) == sorted(pairs["J1"] + pairs["J2"])],
                "queries"),
    ]  # fmt: skip
    seconds = [step[0] for step in found]
    curves = [Curve(name, seconds, [len(str(step[n]).split()) for step in found])
              for name, n in (("state A[0, 2)", 2), ("queue", 3), ("state A[2, 4)", 4))]  # fmt: skip
    return Findings(rows, claims, [Panel("the chain of table 2", "second", "rows", curves)])


# -- figure 9: binary joins ------------------------------------------------------------------------------------------

ARRIVE = (0.1, 0.5, 0.9)
"""How often a row comes where some join could run instead: the chain keeps up with the first alone."""
Row = tuple[int, int, int, int]
"""Side, time, key and number."""


@dataclass
class BinaryJoin:
    """A sliced binary join with the queue before it; ages from the end of the join before up to `end`."""

    end: int
    queue: deque[tuple[str, Row]] = field(default_factory=deque)
    states: tuple[list[Row], list[Row]] = field(default_factory=lambda: ([], []))
    pairs: list[tuple[int, int]] = field(default_factory=list)

    def step(self, following: BinaryJoin | None) -> None:
        """Figure 9 for the first of the queue; a row of exactly the end's age is purged, as definition 3 says."""
        sex, row = self.queue.popleft()
        side, now, key, number = row
        if sex == "female":
            self.states[side].append(row)
            return
        others = self.states[1 - side]
        purged = [r for r in others if now - r[1] >= self.end]
        others[:] = [r for r in others if now - r[1] < self.end]
        self.pairs += [(number, r[3]) if side == 0 else (r[3], number) for r in others if r[2] == key]
        if following is not None:
            following.queue.extend([*(("female", r) for r in purged), ("male", row)])


def chain(
    rows: Sequence[Row], ends: Sequence[int], arrive: float, rng: random.Random
) -> tuple[list[list[tuple[int, int]]], int, int]:
    """The pairs of each join of the chain, the most rows in queues, and the most in states."""
    joins = [BinaryJoin(end) for end in ends]
    waiting, queued, kept = deque(rows), 0, 0
    while waiting or any(join.queue for join in joins):
        ready = [n for n, join in enumerate(joins) if join.queue]
        if waiting and (not ready or rng.random() < arrive):
            row = waiting.popleft()
            joins[0].queue.extend([("male", row), ("female", row)])
            continue
        n = rng.choice(ready)
        joins[n].step(joins[n + 1] if n + 1 < len(joins) else None)
        queued = max(queued, sum(len(join.queue) for join in joins))
        kept = max(kept, sum(len(s) for join in joins for s in join.states))
    return [join.pairs for join in joins], queued, kept


def sliced(rows: Sequence[Row], ends: Sequence[int]) -> list[list[tuple[int, int]]]:
    """The pairs of a query for each window, from the operator that ships, without those of smaller windows."""
    text = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, n BIGINT, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
        for s in "AB"
    ) + "".join(
        f"CREATE QUERY q{n} AS SELECT A.n AS a, B.n AS b FROM A, B WHERE A.k = B.k WINDOW {end} seconds;"
        for n, end in enumerate(ends)
    )
    tables = {}
    for side, name in enumerate("AB"):
        own = [r for r in rows if r[0] == side]
        times = pa.array([r[1] * 1_000_000 for r in own], pa.timestamp("us", "UTC"))
        tables[name] = pa.table({"ts": times, "n": pa.array([r[3] for r in own], pa.int64()),
                                 "k": pa.array([r[2] for r in own], pa.int64())})  # fmt: skip
    got = LocalJob(parse_job(text)).push(tables, ended=True)
    found: list[list[tuple[int, int]]] = []
    seen: set[tuple[int, int]] = set()
    for n in range(len(ends)):
        pairs = set(zip(got[f"q{n}"]["a"].to_pylist(), got[f"q{n}"]["b"].to_pylist(), strict=True))
        found.append(sorted(pairs - seen))
        seen |= pairs
    return found


def figure_9(effort: Effort) -> Findings:
    ends, rows = (3, 7, 15), []
    same, once, states = [], [], []
    for seed in effort.seeds:
        rng = random.Random(seed)
        number = effort.pick(300, 1500)
        drawn = sorted((rng.randrange(number // 4), rng.randrange(2), rng.randrange(3)) for _ in range(number))
        arrivals = [(side, ts, key, n) for n, (ts, side, key) in enumerate(drawn)]
        ours = sliced(arrivals, ends)
        for arrive in ARRIVE:
            by_join, queued, kept = chain(arrivals, ends, arrive, rng)
            for n, end in enumerate(ends):
                rows.append({"seed": seed, "arrive": arrive, "slice_ends_s": end, "pairs_of_the_chain": len(by_join[n]),
                             "pairs_of_the_operator": len(ours[n]), "most_queued": queued,
                             "most_kept": kept})  # fmt: skip
                same.append(sorted(by_join[n]) == ours[n])
            every = [pair for pairs in by_join for pair in pairs]
            once.append(len(every) == len(set(every)))
            if arrive == ARRIVE[0]:
                states.append(kept / chain(arrivals, ends[-1:], arrive, rng)[2])
    claims = [
        counted("each join of the chain finds the pairs of its slice, in any order of running", "4.2, theorem 2",
                "the union is the regular join", same, "slices equal the operator's"),
        counted("no pair is found twice", "4.2", "never", once, "runs"),
        judged("the states of the chain together hold as much as one join of the largest window", "4.3, theorem 3",
               "the same", states, lambda r: abs(r - 1) < 0.05, "of the rows of one join, at their fullest, keeping up",
               "a state is purged when the queue before it gets to the row that purges"),
    ]  # fmt: skip

    def over(column: str, label: str, key: str, places: Sequence[float], names: Sequence[str]) -> Curve:
        by_seed = [[float(next(r[column] for r in rows if r["seed"] == s and r[key] == place)) for place in places]
                   for s in effort.seeds]  # fmt: skip
        return over_seeds(label, names, by_seed)

    slices, loads = [f"up to {end} s" for end in ends], [f"{arrive:g}" for arrive in ARRIVE]
    panels = [
        Panel("pairs of each slice", "slice", "pairs", [
            over("pairs_of_the_chain", "chain of figure 9", "slice_ends_s", ends, slices),
            over("pairs_of_the_operator", "slices of the operator", "slice_ends_s", ends, slices)]),
        Panel("rows in states and queues at their fullest", "how often a row comes where a join could run", "rows", [
            over("most_kept", "in states", "arrive", ARRIVE, loads),
            over("most_queued", "in queues", "arrive", ARRIVE, loads)]),
    ]  # fmt: skip
    return Findings(rows, claims, panels)


STUDIES = (
    Study("wang2006", "table 2", "the chain of one-way joins, second by second", table_2),
    Study(
        "wang2006", "figure 9", "the printed chain of binary joins with queues beside the operator's slices", figure_9
    ),
)
