"""The joins that the queries of a job have, at every level of their trees: what a new query can share.

A join is named by its streams, in the order in which they are joined, and by what is equal. Names of streams in a text
do not matter, so streams are counted; the first two count in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muntin.model import Axis, Expr, JoinGraph, JoinItem, JoinLink, Query, Side

if TYPE_CHECKING:
    from muntin.plan.stream_rates import StreamRates

NOBODY = ""
MOST = 64
"""How many joins of other queries are compared."""


@dataclass(frozen=True)
class TreeJoin:
    """One join of a tree: of some streams, joined in their order, with one more."""

    graph: JoinGraph
    before: tuple[str, ...]
    alias: str
    keys: tuple[JoinLink, ...]
    links: tuple[JoinLink, ...]

    @property
    def items(self) -> list[JoinItem]:
        """The streams, in an order that does not depend on how the first two were written."""
        first = sorted((*self.before, self.alias)[:2], key=lambda alias: self.graph.item(alias).stream)
        return [self.graph.item(alias) for alias in (*first, *(*self.before, self.alias)[2:])]

    @property
    def name(self) -> object:
        """What the joins of all queries that can share one have in common."""
        items = self.items
        place = {item.alias: n for n, item in enumerate(items)}
        below = [link for link in self.graph.links if set(link.uses) <= set(self.before)]
        keys = frozenset(_placed(link, place) for link in self.keys)
        inside = frozenset(_placed(link, place) for link in below)
        return tuple(item.stream for item in items), keys, inside

    @property
    def conditions(self) -> object:
        """What pairs must have in common beside their windows and selections to be made once."""
        place = {item.alias: n for n, item in enumerate(self.items)}
        return frozenset(_placed(link, place) for link in self.links)


def _placed(link: JoinLink, place: dict[str, int]) -> object:
    """A condition, said of streams by their places."""
    if link.key:
        return frozenset((place[alias], value) for alias, value in zip(link.uses, link.key, strict=True))
    text = link.text
    for alias in link.uses:
        text = text.replace(f'"{alias}".', f"#{place[alias]}.")
    return text


@dataclass(frozen=True)
class KnownJoin:
    """A join that a query has. `conditions` are those of pairs that are made for a next join; None where none are."""

    query: str
    windows: tuple[int, ...]
    wheres: tuple[Expr | None, ...]
    conditions: object


@dataclass(frozen=True)
class Shared:
    """The part of a join, and of the pairs that it makes, that is there for another query already."""

    join: float = 0.0
    pairs: float = 0.0
    by: str = NOBODY


class KnownJoins:
    """The joins of some queries."""

    def __init__(self, queries: Iterable[Query] = ()):
        self._found: dict[object, list[KnownJoin]] = {}
        for query in queries:
            self.add(query)

    def add(self, query: Query) -> None:
        """Take in a query, in the order in which it joins its streams."""
        for name, known in _joins(query):
            alike = self._found.setdefault(name, [])
            if len(alike) < MOST:
                alike.append(known)

    def remove(self, query: str) -> None:
        """Go on without a query."""
        for name, alike in self._found.items():
            self._found[name] = [known for known in alike if known.query != query]

    def sharing(self, labels: TreeJoin, rates: StreamRates) -> Shared:
        """What a join finds done for others, by the one with the largest part of it."""
        best = Shared()
        for known in self._found.get(labels.name, ()):
            part = _part(labels.items, known, rates)
            pairs = part if known.conditions == labels.conditions else 0.0
            if (part, pairs) > (best.join, best.pairs):
                best = Shared(part, pairs, known.query)
        return best


def _part(items: list[JoinItem], known: KnownJoin, rates: StreamRates) -> float:
    """The part of a join's rows that another one has: by the windows and the selections of all streams."""
    part = 1.0
    for item, window, where in zip(items, known.windows, known.wheres, strict=True):
        part *= min(1.0, window / item.window_us)
        if where is not None and _selects(where) != _selects(item.where):
            part *= rates.fraction(item.stream, where)
    return part


def _selects(where: Expr | None) -> str | None:
    """A selection, whichever side of its join the stream is."""
    return None if where is None else one_sided(where.sql)


def one_sided(sql: str) -> str:
    """An expression over the columns of one stream, whichever side it is."""
    return sql.replace('"l.', '"').replace('"r.', '"')


def _joins(query: Query) -> Iterator[tuple[object, KnownJoin]]:
    graph = query.graph if query.graph is not None else _graph_of(query)
    if graph is None:
        return
    for n in range(1, len(graph.order)):
        before, alias = graph.order[:n], graph.order[n]
        links = tuple(li for li in graph.links if alias in li.uses and set(li.uses) <= {*before, alias})
        labels = TreeJoin(graph, before, alias, tuple(link for link in links if link.key), links)
        items = labels.items
        between = labels.conditions if n < len(graph.order) - 1 else None
        windows, wheres = tuple(item.window_us for item in items), tuple(item.where for item in items)
        yield labels.name, KnownJoin(query.name, windows, wheres, between)


def _graph_of(query: Query) -> JoinGraph | None:
    """A query over two streams as a tree of one join; None where it is of another kind than trees share."""
    if Axis.ROWS in query.window.axes or not query.window.spans_zero:
        return None
    items = tuple(JoinItem("lr"[s], query.stream(s), query.window.side(s), query.where[s]) for s in Side)
    links = tuple(
        JoinLink("", ("l", "r"), (one_sided(pair.left.sql), one_sided(pair.right.sql))) for pair in query.keys
    )
    return JoinGraph(items, links, ("l", "r"))
