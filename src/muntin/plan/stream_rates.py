"""Rates, selectivities and matches of streams wherever they are joined: what orders of joins are predicted from.

Measured by a join that runs; else declared; else assumed, as for every prediction (`traffic.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from muntin.model import Expr, JobSpec, JoinGraph, JoinItem, JoinLink, Query, Side, relation
from muntin.plan.known_joins import one_sided
from muntin.plan.traffic import KEYS, RATE, Knowledge, selected_part


class StreamRates:
    """What is known of the streams of a job, however they are joined."""

    def __init__(self, spec: JobSpec, knowledge: Knowledge):
        self._spec = spec
        self._lookups = [lookup for query in spec.queries.values() for lookup in query.lookups]
        self._knowledge = knowledge
        self._rates: dict[str, float] = {}
        self._matches: dict[object, float] = {}
        for (left, right, keys, _, copied), traffic in knowledge.measured.items():
            if copied is not None:
                continue  # the query itself is measured, too
            names = str(left), str(right)
            self._rates |= {name: rate for name, rate in zip(names, traffic.rates, strict=True) if rate > 0}
            if isinstance(keys, tuple):
                pairs = [(one_sided(a), one_sided(b)) for a, b, _ in keys]
                self._matches[_match_name(names, pairs)] = traffic.match
        self.fraction = cache(self._fraction)

    def rate(self, name: str) -> float:
        """Rows per second of a stream, or of what a query puts out."""
        known = self._knowledge.rates.get(name, self._rates.get(name))
        if known is not None:
            return known
        if name in self._spec.streams:
            declared = self._spec.streams[name].rate
            return RATE if declared is None else declared
        query = self._spec.queries.get(name)
        return RATE if query is None else self._output_rate(query)

    def _output_rate(self, query: Query) -> float:
        """What a query over two streams finds per second; as many rows as come, where it is another kind of query."""
        left, right = (self.rate(query.stream(s)) for s in Side)
        if query.graph is not None or not query.is_inner:
            return max(left, right)
        parts = [self.fraction(query.stream(s), query.where[s]) for s in Side]
        seconds = (query.window.left + query.window.right) / 1e6
        return left * right * parts[0] * parts[1] * seconds * (self._assumed_match() if query.keys else 1.0)

    def _fraction(self, stream: str, where: Expr | None) -> float:
        """The part of a stream's rows that a selection takes."""
        if where is None:
            return 1.0
        return selected_part(where, relation(self._spec, stream).looking_up(self._lookups).schema)

    def kept(self, item: JoinItem) -> float:
        """The rows of a stream that wait in its window."""
        return self.rate(item.stream) * self.fraction(item.stream, item.where) * item.window_us / 1e6

    def match(self, graph: JoinGraph, keys: Sequence[JoinLink]) -> float:
        """The chance that a tuple and a row of one more stream have the same keys."""
        if not keys:
            return 1.0
        by_streams: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for link in keys:
            uses, key = (link.uses, link.key) if link.uses[0] <= link.uses[1] else (link.uses[::-1], link.key[::-1])
            by_streams.setdefault(uses, []).append(key)
        assumed = self._assumed_match()
        return min(
            self._matches.get(_match_name([graph.item(alias).stream for alias in uses], pairs), assumed)
            for uses, pairs in by_streams.items()
        )

    def _assumed_match(self) -> float:
        known = self._knowledge
        if known.match is not None:
            return known.match
        return 1 / (KEYS if known.keys is None else known.keys)


def _match_name(streams: Sequence[str], pairs: Sequence[Sequence[str]]) -> object:
    """Two streams with the values of each that are compared, in any order of the streams and of the values."""
    if streams[0] <= streams[1]:
        return streams[0], streams[1], frozenset((a, b) for a, b in pairs)
    return streams[1], streams[0], frozenset((b, a) for a, b in pairs)
