"""In which order a query over more than two streams joins them: one stream after the other, by predicted cost.

With rates r, fractions f that selections leave, windows W and the chance m that all conditions of some streams hold,

    rows of stream i that are kept      n_i = r_i f_i W_i
    tuples of some streams that live    N   = the product of their n_i, times m
    tuples found per second             N times the sum of 1 / W_i

since a tuple lives while each of its rows is in its window. A join of tuples S with one more stream j takes in what
comes on both sides, compares it with what is kept on the other and has the same key, and copies what it finds if it is
not the last one. Where the tuples lie by another key, rows of j come to every shard and are kept there.

A sub-join that another query has costs nothing for the part of its windows and selections that the other one has. What
is predicted is a guess and what is shared is certain: an order that shares is taken unless one that does not has half
the work or keeps half the rows. Of orders within 5% of the least work the one that keeps the fewest rows is taken, and
of those the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from muntin.model import JobSpec, JoinGraph, JoinLink
from muntin.plan.cost import Constants
from muntin.plan.known_joins import NOBODY, KnownJoins, TreeJoin
from muntin.plan.predict import JOIN_NS
from muntin.plan.stream_rates import StreamRates

MOST_IN_FULL = 6
"""Up to so many streams every order is looked at; of more, the next best stream is taken again and again."""
MARGIN = 0.05
FOR_SHARING = 2.0
"""How much more an order may cost that shares a sub-join."""
RESIDUAL = 0.5
"""How often a condition holds that is no equality."""
COPY_NS = 400.0
"""What it takes to make a row of a pair in between, and to take it in."""
SHARDS = 4
"""Where the job leaves open how many there are."""


@dataclass(frozen=True)
class OrderStep:
    """One more stream: what the join keeps on both sides, and per second compares and finds. `shares` is a query that
    has this join, `everywhere` says that the stream goes to every shard."""

    alias: str
    rows: float
    comparisons: float
    pairs: float
    cpu_ns: float
    by_key: bool
    everywhere: bool
    shares: str = NOBODY


@dataclass(frozen=True)
class JoinOrder:
    """An order with its steps, from the second stream on."""

    aliases: tuple[str, ...]
    steps: tuple[OrderStep, ...]

    @property
    def cpu_ns(self) -> float:
        return sum(step.cpu_ns for step in self.steps)

    @property
    def rows(self) -> float:
        return sum(step.rows for step in self.steps)

    @property
    def pairs_between(self) -> float:
        """Pairs per second that only the next join sees."""
        return sum(step.pairs for step in self.steps[:-1])

    @property
    def shares(self) -> str:
        """A query that has the first join of the order, or more of it."""
        return self.steps[0].shares

    @property
    def without_key(self) -> int:
        return sum(not step.by_key for step in self.steps)


@dataclass(frozen=True)
class _Tuples:
    """What a part of an order has: `lies_by` are the expressions, several that are equal, by which its rows lie."""

    aliases: tuple[str, ...]
    alive: float
    found: float
    lies_by: tuple[frozenset[tuple[str, str]], ...]
    steps: tuple[OrderStep, ...] = ()


class JoinOrders:
    """The orders of one query, given what is known of streams and which joins other queries have."""

    def __init__(self, spec: JobSpec, graph: JoinGraph, rates: StreamRates, known: KnownJoins, constants: Constants):
        self._graph = graph
        self._rates = rates
        self._known = known
        self._constants = constants
        self._shards = spec.settings.fixed_shards or SHARDS
        self._kept = {item.alias: rates.kept(item) for item in graph.items}

    def best(self) -> list[JoinOrder]:
        """All orders that are looked at, the one to take first."""
        every = list(self._every())
        if not every:
            return []
        fewest = min(order.without_key for order in every)
        fit = [order for order in every if order.without_key == fewest]
        least = min(order.cpu_ns for order in fit)
        rows = min(order.rows for order in fit if order.cpu_ns == least)
        fit = [o for o in fit if o.shares and o.cpu_ns <= FOR_SHARING * least and o.rows <= FOR_SHARING * rows] or fit
        least = min(order.cpu_ns for order in fit)
        near = [order for order in fit if order.cpu_ns <= (1 + MARGIN) * least]
        taken = min(near, key=lambda order: order.rows)
        others = sorted((o for o in every if o is not taken), key=lambda o: (o.without_key, o.cpu_ns, o.rows))
        return [taken, *others]

    def of(self, aliases: Sequence[str]) -> JoinOrder:
        """One order."""
        found = self._begun(aliases[0])
        for alias in aliases[1:]:
            found = self._joined(found, alias)
        return JoinOrder(tuple(aliases), found.steps)

    # -- which ------------------------------------------------------------------------------------------------------

    def _every(self) -> Iterator[JoinOrder]:
        inner = [item.alias for item in self._graph.items if item.alias != self._graph.last]
        written = tuple(self._graph.order)
        orders = [written, *([self._greedy(inner)] if len(inner) > MOST_IN_FULL else self._all(inner))]
        last = [] if self._graph.last is None else [self._graph.last]
        seen: set[tuple[str, ...]] = set()
        for order in orders:
            whole = order if len(order) == len(self._graph.items) else (*order, *last)
            same = (*sorted(whole[:2]), *whole[2:])
            if same not in seen:
                seen.add(same)
                yield self.of(whole)

    def _all(self, inner: Sequence[str]) -> Iterator[tuple[str, ...]]:
        def longer(so_far: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
            rest = [alias for alias in inner if alias not in so_far]
            if not rest:
                yield so_far
            for alias in rest:
                if self._links(so_far, alias):
                    yield from longer((*so_far, alias))

        for pair in combinations(inner, 2):
            if self._links(pair[:1], pair[1]):
                yield from longer(pair)

    def _greedy(self, inner: Sequence[str]) -> tuple[str, ...]:
        """The cheapest pair, and then again and again the stream that adds least."""
        pairs = [self._joined(self._begun(a), b) for a, b in combinations(inner, 2) if self._links((a,), b)]
        found = min(pairs, key=_least)
        while len(found.aliases) < len(inner):
            rest = [a for a in inner if a not in found.aliases and self._links(found.aliases, a)]
            found = min((self._joined(found, alias) for alias in rest), key=_least)
        return found.aliases

    def _links(self, before: Sequence[str], alias: str) -> list[JoinLink]:
        """The conditions that hold between some streams and one more, and that none of them alone has."""
        both = {*before, alias}
        return [link for link in self._graph.links if alias in link.uses and set(link.uses) <= both]

    # -- how much ---------------------------------------------------------------------------------------------------

    def _begun(self, alias: str) -> _Tuples:
        alive, window = self._kept[alias], self._graph.item(alias).window_us / 1e6
        return _Tuples((alias,), alive, alive / window, ())

    def _joined(self, tuples: _Tuples, alias: str) -> _Tuples:
        item, links = self._graph.item(alias), self._links(tuples.aliases, alias)
        keys = [link for link in links if link.key]
        match = self._rates.match(self._graph, keys)
        window, kept = item.window_us / 1e6, self._kept[alias]
        alive = tuples.alive * kept * match
        held = alive * RESIDUAL ** (len(links) - len(keys))
        found = held * sum(1e6 / self._graph.item(a).window_us for a in (*tuples.aliases, alias))
        lies_by = self._lies_by(tuples, alias, keys)
        everywhere = len(tuples.aliases) > 1 and lies_by is None
        labels = TreeJoin(self._graph, tuples.aliases, alias, tuple(keys), tuple(links))
        shared = self._known.sharing(labels, self._rates)
        copies = self._shards if everywhere else 1
        arrivals = tuples.found + copies * kept / window
        comparisons = (tuples.found * kept + tuples.alive * kept / window) * match
        last = len(tuples.aliases) + 1 == len(self._graph.items)
        c = self._constants
        own = arrivals * (c.insert_ns + c.invalidate_ns) + comparisons * c.scan_ns + JOIN_NS
        step = OrderStep(
            alias,
            (tuples.alive + copies * kept) * (1 - shared.join),
            comparisons * (1 - shared.join),
            found,
            own * (1 - shared.join) + (0.0 if last else found * COPY_NS * (1 - shared.pairs)),
            bool(keys),
            everywhere,
            shared.by,
        )
        places = lies_by if lies_by is not None else tuples.lies_by
        return _Tuples((*tuples.aliases, alias), held, found, places, (*tuples.steps, step))

    def _lies_by(
        self, tuples: _Tuples, alias: str, keys: Sequence[JoinLink]
    ) -> tuple[frozenset[tuple[str, str]], ...] | None:
        """By which expressions the tuples lie after a join by these keys; None where they lie by others."""
        sides = [dict(zip(link.uses, link.key, strict=True)) for link in keys]
        equal = [frozenset(side.items()) for side in sides]
        if len(tuples.aliases) == 1:
            return tuple(equal) if equal else None
        found = [by | pair for pair in equal for by in tuples.lies_by if by & pair]
        return tuple(found) if equal and len(found) == len(equal) == len(tuples.lies_by) else None


def _least(tuples: _Tuples) -> tuple[int, float, float]:
    without_key = sum(not step.by_key for step in tuples.steps)
    return without_key, sum(s.cpu_ns for s in tuples.steps), sum(s.rows for s in tuples.steps)
