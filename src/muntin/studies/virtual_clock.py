"""The operator on a virtual clock: rows come at their times, work takes what it is said to cost (hammad2003 5).

    clock  ------ unit ------|-- unit --|   rows that come meanwhile wait   |---- unit ----
                    found: handed over at once, or held until the outbox lets it go

The operator, its scheduler and its release rules are the ones that ship; only what a comparison and a pair take is
said instead of measured. So response times are exact, the same on every machine, and cost no waiting. LWO and MQT hand
a pair over at the moment at which it is found, taken to be spread evenly over the unit; SWF at the end of a unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from muntin.core.schedule import Delivery, Done, ScheduledWork
from muntin.kernels.arrays import Int64s
from muntin.model import Side


@dataclass(frozen=True)
class Costs:
    """Microseconds for a row looked at, for a pair found, and for handing a pair to a query."""

    probe_us: float
    output_us: float = 0.0
    route_us: float = 0.0

    def of(self, done: Done, handed: int) -> float:
        return self.probe_us * done.comparisons + self.output_us * done.pairs + self.route_us * handed


@dataclass
class Response:
    """The response times of one query: from the arrival of the later row of a pair to its hand-over."""

    rows: int = 0
    total_us: float = 0.0
    max_us: float = 0.0

    @property
    def mean_us(self) -> float:
        return self.total_us / self.rows if self.rows else 0.0

    def add(self, rows: int, mean_us: float, max_us: float) -> None:
        self.rows += rows
        self.total_us += rows * mean_us
        self.max_us = max(self.max_us, max_us)


@dataclass
class Measured:
    """What a play has shown. Buffers are counted in rows and pairs at their fullest (hammad2003 5.4)."""

    queries: dict[str, Response]
    input_buffer: int = 0
    output_buffer: int = 0
    join_buffer: int = 0

    @property
    def mean_us(self) -> float:
        """Over all rows of all queries, as in figure 5: queries with more rows count more."""
        rows = sum(response.rows for response in self.queries.values())
        return sum(response.total_us for response in self.queries.values()) / max(1, rows)

    @property
    def mean_of_queries_us(self) -> float:
        """Over the queries, each counting the same."""
        return float(np.mean([response.mean_us for response in self.queries.values()]))


def play(work: ScheduledWork, costs: Costs) -> Measured:
    """Let the rows come at their event times, and work whenever something has come, until all is done.

    The join must select nothing; a row's event time is its arrival.
    """
    arrival, clock = work.rows.ts, float(work.rows.ts[0])
    measured = Measured({query.name: Response() for query in work.state.join.queries})
    outputs = _QueryOutputs(work, measured.queries)
    while True:
        work.arrive(int(np.searchsorted(arrival, clock, side="right")) - work.arrived)
        measured.input_buffer = max(measured.input_buffer, work.waiting)
        done = work.step()
        if done is None:
            if work.arrived == len(arrival):
                break
            clock = float(arrival[work.arrived])
            continue
        handed = [(delivery.at_once, got) for delivery in done.deliveries for got in outputs.of(delivery)]
        took = costs.of(done, sum(got.rows for _, got in handed))
        for at_once, got in handed:
            place, last = (got.place, got.last_place) if at_once else (1.0, 1.0)
            got.response.add(got.rows, clock + took * place - got.arrival, clock + took * last - got.first_arrival)
        clock += took
        measured.output_buffer = max(measured.output_buffer, work.outbox.held)
        measured.join_buffer = max(measured.join_buffer, *(work.state.rows(side) for side in Side))
    return measured


class _Got(NamedTuple):
    """What a query gets of a delivery: rows, means of arrival and of the place in the unit, the first and the last."""

    response: Response
    rows: int
    arrival: float
    first_arrival: float
    place: float
    last_place: float


class _QueryOutputs:
    """Who gets what of a delivery, where no query selects: that follows from ages alone."""

    def __init__(self, work: ScheduledWork, responses: Mapping[str, Response]):
        join, levels = work.state.join, work.levels
        self._queries: list[list[tuple[Response, Int64s, bool]]] = [[] for _ in range(len(levels))]
        for query, level in zip(join.queries, levels.of_query, strict=True):
            places = np.array([join.windows[side].index(query.window.side(side)) for side in Side])
            whole = all(query.window.side(side) == levels.ends[side][level] for side in Side)
            # where runs are scanned whole, pairs of all levels come together
            self._queries[level].append((responses[query.name], places, whole and not work.scheduler.scans_whole_runs))

    def of(self, delivery: Delivery) -> list[_Got]:
        tags, came, total, found = delivery.pairs.tag, delivery.pairs.ts, len(delivery.pairs.ts), []
        if not total:
            return []
        mean = float(came[0]) if came[0] == came[-1] else float(came.mean())
        for level in delivery.levels:
            for response, places, whole in self._queries[level]:
                if whole:
                    found.append(_Got(response, total, mean, float(came[0]), (total + 1) / (2 * total), 1.0))
                    continue
                mine = np.flatnonzero(tags >> 1 <= places[tags & 1])
                if len(mine):
                    place, last = (float(mine.mean()) + 1) / total, (float(mine[-1]) + 1) / total
                    own = came[mine]
                    found.append(_Got(response, len(mine), float(own.mean()), float(own[0]), place, last))
        return found
