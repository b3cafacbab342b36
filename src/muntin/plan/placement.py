"""Where the rows of a join lie, and those of the joins that read its output: in one shard, without another exchange.

A join that reads the output of another one lives in the shards of that one, its *home*. A row of the output is there in
exactly one shard. Where the reading join has the key by which these rows lie, the other stream comes by that key, too.
Otherwise each row stays where it was found, and the rows of the other stream go to every shard and are kept there: so
each match is found once, for the price of a state that is held once for each shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from muntin.model import Axis, Expr, KeyPair, Query, Side, Stream, UsageError
from muntin.plan.joins import SharedJoin
from muntin.plan.punctuation import has_promises

Wanted = Sequence[tuple[Expr, str]]
"""Expressions over the pairs of a join, with the types in which they are compared."""


def placed(joins: Iterable[SharedJoin]) -> tuple[SharedJoin, ...]:
    """The joins of a plan, each after those that it reads, with what it reads and how its rows arrive."""
    waiting = list(joins)
    if not any(stream.derived for join in waiting for stream in join.streams):
        return tuple(waiting)
    found: list[SharedJoin] = []
    by_query: dict[str, SharedJoin] = {}
    while waiting:
        ready = [j for j in waiting if all(name in by_query for name in _after(j))]
        assert ready, "joins that read each other"
        for join in ready:
            made = _placed(join, by_query)
            found.append(made)
            by_query |= {query.name: made for query in made.queries}
        waiting = [join for join in waiting if join not in ready]
    read = {stream.name for join in found for stream in join.streams if stream.derived}
    return hearing(replace(join, feeds=tuple(q.name for q in join.queries if q.name in read)) for join in found)


def _after(join: SharedJoin) -> list[str]:
    """The queries that a join comes after: those that it reads, and that in whose shards it lives."""
    beside = join.queries[0].copy
    return [*(stream.name for stream in join.streams if stream.derived), *([beside.beside] if beside else [])]


def hearing(joins: Iterable[SharedJoin]) -> tuple[SharedJoin, ...]:
    """Joins, each after those that it reads, that hear from these which keys are over: where both have the same key,
    and the rows of a key lie in one shard."""
    found: dict[int, SharedJoin] = {}
    for join in joins:
        left, right = (_hears(join, side, found) for side in Side)
        found[join.index] = replace(join, hears=(left, right))
    return tuple(found.values())


def _hears(join: SharedJoin, side: Side, found: Mapping[int, SharedJoin]) -> bool:
    source = join.reads[side]
    below = None if source is None else found[source]
    return below is not None and has_promises(below) and not why_unheard(join, side, below)


def why_unheard(join: SharedJoin, side: Side, below: SharedJoin) -> str:
    """Why a join is not told which keys of the join below are over; nothing where it is, if that one knows any."""
    if any(below.everywhere) or any(join.everywhere) or not join.keys:
        return "the key is another one" if not below.whole else "every shard has all of it"
    if any(query.name == join.streams[side].name and query.aggregation is not None for query in below.queries):
        return "these are totals"
    return "" if set(join.axes) == {Axis.TIME} else "rows are counted"


def why_unheeded(join: SharedJoin) -> str:
    """Why a join frees nothing by what the joins below pass on; nothing where it does."""
    finals = [query.name for query in join.queries if query.final]
    return f"{finals[0]} is final by the last rows of the other stream" if finals else ""


def _placed(join: SharedJoin, by_query: Mapping[str, SharedJoin]) -> SharedJoin:
    below = [by_query[stream.name] if stream.derived else None for stream in join.streams]
    given = [source for source in below if source is not None]
    copy = join.queries[0].copy
    if not given and copy is None:
        return join
    homes = {source.home for source in given} | ({by_query[copy.beside].home} if copy is not None else set())
    if len(homes) > 1:
        raise _apart(join)
    join = replace(join, reads=(below[0].index if below[0] else None, below[1].index if below[1] else None))
    join = replace(join, home=homes.pop())
    if copy is not None and copy.whole:
        return replace(join, everywhere=(True, True))
    if not given:
        return join
    orders = [_order(join, side, below[side], by_query) for side in Side]
    keys = next((order for order in orders if order is not None), join.keys)
    if keys in orders and (len(given) == 1 or orders[0] == orders[1]):
        return replace(join, keys=keys)
    return _spread(replace(join, keys=keys), below)


def _spread(join: SharedJoin, below: Sequence[SharedJoin | None]) -> SharedJoin:
    """A join of which one side stays where it was found, and of the other one every shard has all."""
    everywhere = [side for side in Side if (source := below[side]) is None or source.whole]
    if not everywhere:
        raise _apart(join)
    for query in join.queries:
        _check(join, query, everywhere[0])
    return replace(join, everywhere=(Side.LEFT in everywhere, Side.RIGHT in everywhere))


def _order(
    join: SharedJoin, side: Side, below: SharedJoin | None, by_query: Mapping[str, SharedJoin]
) -> tuple[KeyPair, ...] | None:
    """The key of a join in the order in which the rows of a side lie by it; None where they lie by another one."""
    if below is None or not join.keys:
        return None
    query = next(query for query in below.queries if query.name == join.streams[side].name)
    wanted = [(_output(query, pair.side(side)), pair.type) for pair in join.keys]
    if any(expr is None for expr, _ in wanted):
        return None
    order = _lies_by(below, query, [(expr, kind) for expr, kind in wanted if expr is not None], by_query)
    return None if order is None else tuple(join.keys[n] for n in order)


def _output(query: Query, key: Expr) -> Expr | None:
    """What a column of a query's output is over the pairs of its join; None for more than a column."""
    column = key.column
    found = next((o.expr for o in query.select if column is not None and o.name == column[1]), None)
    if found is None or query.aggregation is None:
        return found
    groups = {f'"g.{n}"': group for n, group in enumerate(query.aggregation.groups)}
    return groups.get(found.sql)


def _lies_by(
    join: SharedJoin, query: Query, wanted: Wanted, by_query: Mapping[str, SharedJoin]
) -> tuple[int, ...] | None:
    """The order of these expressions in which the rows of a query lie in shards by them; None where they do not."""
    if join.whole:
        return None
    if any(join.everywhere):
        here = Side.RIGHT if join.everywhere[0] else Side.LEFT
        below = by_query[join.streams[here].name]
        source = next(q for q in below.queries if q.name == join.streams[here].name)
        own = [(_output(source, expr), kind) for expr, kind in wanted if expr.column and expr.column[0] is here]
        outputs = [(expr, kind) for expr, kind in own if expr is not None]
        return _lies_by(below, source, outputs, by_query) if len(outputs) == len(wanted) else None
    if not join.keys or len(wanted) != len(join.keys):
        return None
    order = []
    for pair in join.keys:
        fits = [n for n, (expr, kind) in enumerate(wanted) if query.is_key(pair, expr) and kind == pair.type]
        order += [n for n in fits if n not in order][:1]
    return tuple(order) if len(order) == len(join.keys) else None


def _check(join: SharedJoin, query: Query, everywhere: Side) -> None:
    """Refuse what must see all matches of a row, or of a key, in one shard."""
    stream, read = join.streams[everywhere].name, _called(join.streams[everywhere.other])
    hint = "join them by the same key, or let the other side be the one whose rows are kept"
    if everywhere in query.preserved or query.subject is everywhere:
        message = f"query {query.name} asks which rows of {stream} have a match, and these go to every shard"
        raise UsageError(f"{message}, since {read} lies by another key", hint=hint)
    if query.final:
        message = f"query {query.name} has EMIT FINAL by a key other than the one that {read} lies by"
        raise UsageError(f"{message}: its groups are over in no single shard", hint="write EMIT CHANGES or EVERY")


def _apart(join: SharedJoin) -> UsageError:
    a, b = map(_called, join.streams)
    return UsageError(
        f"query {join.queries[0].name} joins {a} with {b}, whose rows do not lie in the same shards",
        hint="join the output of one query with streams: FROM one H, A, B WHERE ...",
    )


def _called(stream: Stream) -> str:
    return f"the join {stream.called}" if stream.called else stream.name
