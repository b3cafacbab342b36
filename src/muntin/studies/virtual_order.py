"""The orderings on a virtual clock, a row at a time through the operator (hammad2005 7).

One server joins rows in the order in which the operator takes them; a comparison takes `c` seconds, or nothing where
the row that makes it is of a side that is `free`. A row's response time is from its arrival until it has been joined
and its results may leave. All rows have one key, so that each looks at the whole window of the other stream, as the
paper's nested loop does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from muntin.core.arrivals import shard_rows
from muntin.core.batch import TS, Arrivals
from muntin.core.operator import Operator
from muntin.core.policy import Policy
from muntin.model import JobSpec, Side
from muntin.plan import share
from muntin.plan.orderings import ORDERINGS, Decision, Monitor

SECOND_US = 1_000_000


@dataclass(frozen=True)
class Arrival:
    """A row of a side, with its event time and the time at which it comes."""

    side: Side
    ts_us: int
    at_s: float


@dataclass
class Trace:
    """One server with its own speed: what became of each arrival, by its number."""

    c: float
    free: Side | None = None
    responses: dict[int, float] = field(default_factory=dict)
    """Seconds from arrival until its results may leave; rows that still wait at the end have none."""
    decision: Decision | None = None
    switches: list[tuple[float, str]] = field(default_factory=list)
    busy_s: float = 0.0
    _free_s: float = 0.0
    _done_s: dict[int, float] = field(default_factory=dict)

    def serve(self, joined: Sequence[tuple[int, float, Side, float]]) -> None:
        """Join rows, each given with the time from which it can be joined, one after the other when there is time."""
        for number, ready_s, side, comparisons in joined:
            took_s = 0.0 if side == self.free else self.c * comparisons
            self._free_s = max(ready_s, self._free_s) + took_s
            self._done_s[number] = self._free_s
            self.busy_s += took_s

    def answer(self, at_s: float, number: int, arrival: Arrival) -> None:
        """The results of a row may leave from now on, once it has been joined."""
        self.responses[number] = max(self._done_s.pop(number), at_s) - arrival.at_s


def simulate(
    spec: JobSpec,
    rows: Sequence[pa.Table],
    arrivals: Sequence[Arrival],
    costs: Sequence[tuple[float, Side | None]],
    warm: int = 0,
) -> list[Trace]:
    """Let the one shared join of a job meet its rows, for several servers at once: each with its cost of a
    comparison and the side whose rows are free.

    `rows[side]` are the rows of a side in order of arrival. The first `warm` arrivals come together before the clock
    starts, so that the windows are full. Under `adaptive` all servers follow what the first of them decides.
    """
    (join,) = share(spec).joins
    operator = Operator(join, policy=Policy.of(spec.settings, 1))
    monitor = Monitor(spec.settings.alpha, (join.reach(Side.LEFT) / SECOND_US, join.reach(Side.RIGHT) / SECOND_US))
    ready = [shard_rows(join, side, rows[side], 1)[0] for side in Side]
    traces, waiting, done = [Trace(c, free) for c, free in costs], dict[int, Arrival](), set[int]()
    count, first, partners = [0, 0], 0, _partners(arrivals, (join.reach(Side.LEFT), join.reach(Side.RIGHT)))
    for last in _cuts(arrivals, warm):
        brought, at_s, compared = arrivals[first:last], arrivals[last - 1].at_s, operator.counters.comparisons
        at_once = operator.filter_order
        operator.advance(_together(brought, ready, count))
        operator.tidy()
        waiting |= {first + n: arrival for n, arrival in enumerate(brought)}
        taken = [n for n, a in waiting.items() if n not in done and a.ts_us <= operator.joined[a.side]]
        taken.sort(key=lambda n: (waiting[n].ts_us, waiting[n].side))
        done.update(taken)
        left = [n for n, a in waiting.items() if a.ts_us <= operator.release]
        made = operator.counters.comparisons - compared if first else 0
        each = made / max(1, sum(partners[n] for n in taken))  # by the rows in their windows; they are nearly all
        looked = [(n, a.at_s if at_once else at_s, a.side, each * partners[n]) for n in taken for a in [waiting[n]]]
        for trace in traces:
            trace.serve(looked)
            for number in left:
                trace.answer(at_s, number, waiting[number])
        for number in left:
            del waiting[number]
        first = last
        monitor.note(at_s, (count[0], count[1]), operator.counters.probes, traces[0].busy_s)
        _adapt(operator, spec, monitor, at_s, traces[0])
    return traces


def _cuts(arrivals: Sequence[Arrival], warm: int) -> list[int]:
    """Where micro-batches end: with each row that is the first of its side after some of the other.

    Nothing changes in between that could let a row be joined or answered, so that it is as if each came alone.
    """
    cuts = [warm] if warm else []
    cuts += [n + 1 for n in range(warm, len(arrivals)) if n == warm or arrivals[n].side != arrivals[n - 1].side]
    return cuts


def _partners(arrivals: Sequence[Arrival], reach: tuple[int, int]) -> list[int]:
    """For each arrival the rows of the other side that it finds in their window, where all have one key."""
    times = [np.array(sorted(a.ts_us for a in arrivals if a.side == side)) for side in Side]
    found = []
    for a in arrivals:
        other, now = times[a.side.other], a.ts_us
        last = np.searchsorted(other, now, "right") if a.side is Side.RIGHT else np.searchsorted(other, now)
        found.append(int(last - np.searchsorted(other, now - reach[a.side.other], "right")))
    return found


def _together(brought: Sequence[Arrival], ready: Sequence[pa.Table], count: list[int]) -> Arrivals:
    """A micro-batch of the next arrivals; `count` of each side have come before."""
    tables: list[pa.Table] = []
    ends: list[list[int | None]] = []
    for side in Side:
        times = [a.ts_us for a in brought if a.side == side]
        tables.append(ready[side].slice(count[side], len(times)))
        ends.append([min(times, default=None), max(times, default=None)])
        count[side] += len(times)
    return Arrivals((tables[0], tables[1]), (ends[0][0], ends[1][0]), (ends[0][1], ends[1][1]))


def _adapt(operator: Operator, spec: JobSpec, monitor: Monitor, at_s: float, trace: Trace) -> None:
    """Steps B and D: go over to the other ordering where the monitored load says so."""
    trace.decision = monitor.decide()
    if not ORDERINGS[spec.settings.ordering].adapts or trace.decision is None:
        return
    wanted = trace.decision.joins_ahead
    if wanted != operator.filter_order:
        operator.follow(wanted)
        trace.switches.append((at_s, trace.decision.ordering))


def stamped(times_us: Sequence[int], columns: dict[str, list[object]], time: str, schema: pa.Schema) -> pa.Table:
    """Rows of a stream with their event times, ready for `simulate`."""
    table = pa.table({**columns, time: pa.array(times_us, pa.int64())}).select(schema.names).cast(schema)
    return table.add_column(0, pa.field(TS, pa.int64(), nullable=False), pa.array(times_us, pa.int64()))
