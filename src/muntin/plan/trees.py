"""Queries over more than two streams as queries over two: their inputs become hidden queries that all of them share.

A sub-join that several queries have is done once. Of the inputs that differ in their windows, selections and columns
only, there is one, with the largest windows, with all that one of them selects, and with all columns. A query that
asked for less takes its own of it: the pairs that its own windows have, and those for which its `guard` holds.

A hidden query of a job that runs stays as it is: a new query takes it up where it has all that it asked for, and
gets one of its own otherwise. So the rows that a stream of pairs has never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from muntin.model import OUTPUT_TIME, Expr, JobSpec, Output, Query, Side, Stream, Window, read_queries, relation
from muntin.plan.copies import originals

NOTHING_HIDDEN: Mapping[str, Query] = {}


@dataclass(frozen=True)
class Need:
    """An input that a query asks for: the join, with the names of what it really reads."""

    reader: str
    part: Query


def lowered(spec: JobSpec, known: Mapping[str, Query] = NOTHING_HIDDEN) -> JobSpec:
    """A job whose queries join two streams each, in an order in which each comes after those that it reads.

    `known` are the hidden queries that run. A job without such queries stays as it is.
    """
    trees = [query for query in spec.queries.values() if query.inputs]
    if not trees:
        return replace(spec, queries=_ordered(spec)) if reads_queries(spec) else spec
    lowering = _Lowering(spec, originals(known))
    for level in range(max(len(query.inputs) for query in trees)):
        lowering.place([query for query in trees if len(query.inputs) > level], level)
    tops = {query.name: lowering.top(query) for query in trees}
    queries = {name: tops.get(name, query) for name, query in spec.queries.items()}
    whole = replace(spec, queries={**{q.name: q for q in lowering.hidden.values()}, **queries})
    return replace(whole, queries=_ordered(whole))


def reads_queries(spec: JobSpec) -> bool:
    """Whether some query of a job reads another one, or joins more than two streams."""
    return any(query.stream(side) not in spec.streams for query in spec.queries.values() for side in Side)


def _ordered(spec: JobSpec) -> dict[str, Query]:
    """The queries, each after those that it reads."""
    found: dict[str, Query] = {}

    def place(query: Query) -> None:
        if query.name not in found:
            for name in read_queries(query, spec.queries, spec.streams):
                place(spec.queries[name])
            found[query.name] = query

    for query in spec.queries.values():
        place(query)
    return found


class _Lowering:
    def __init__(self, spec: JobSpec, known: Mapping[str, Query]):
        self._spec = spec
        self._known = known
        self.hidden: dict[str, Query] = {}
        """The hidden queries of the job, by name."""
        self._given: dict[tuple[str, str], Query] = {}
        """The one that stands for an input, by the query that asks and what it calls it."""

    def place(self, trees: Iterable[Query], level: int) -> None:
        """Find or make the hidden queries for one level of the trees; those below are there."""
        alike: dict[object, list[Need]] = {}
        for tree in trees:
            asked = self._over(tree, tree.inputs[level])
            part = replace(asked, inputs=(), guard=None, hidden=True, text="")
            mine = next((h for h in self._known.values() if self._has(h, part)), None)
            if mine is not None:
                self._give(tree, level, mine)
            else:
                alike.setdefault(self._shape(part), []).append(Need(tree.name, part))
        for needs in alike.values():
            made = self._made([need.part for need in needs])
            for need in needs:
                self._give(self._spec.queries[need.reader], level, made)

    def _give(self, tree: Query, level: int, given: Query) -> None:
        self.hidden[given.name] = given
        self._given[tree.name, tree.inputs[level].name] = given

    def top(self, tree: Query) -> Query:
        """A query over what its inputs have become."""
        return replace(self._over(tree, tree), inputs=(), guard=None, graph=None, as_written=None)

    def _over(self, tree: Query, part: Query) -> Query:
        """A part of a tree over what the input below it has become, of which it may have to take less."""
        given = self._given.get((tree.name, part.left))
        if given is None:
            return part
        asked = next(query for query in tree.inputs if query.name == part.left)
        extra = []
        if given.window != asked.window:
            extra.append(self._window_of(given, asked.window))
        if part.guard is not None and any(_sql(a) != _sql(b) for a, b in zip(given.where, asked.where, strict=True)):
            extra.append(part.guard)
        where = _all([part.where[0], *extra])
        return replace(part, left=given.name, where=(where, part.where[1]))

    def _window_of(self, pairs: Query, window: Window) -> Expr:
        """That a pair is one of those of a smaller window."""
        ends, columns = [], []
        for side in Side:
            column = "lr"[side] + "_" + self._relation(pairs.stream(side)).time
            columns.append(column)
            ends.append(f'CAST("l.{column}" AS TIMESTAMPTZ) + TO_MICROSECONDS({window.side(side)})')
        sql = f'"l.{OUTPUT_TIME}" < LEAST({", ".join(ends)})'
        text = f"{' and '.join(pairs.stream(side) for side in Side)} in a smaller window"
        return Expr(sql, "boolean", text, (OUTPUT_TIME, *columns))

    def _relation(self, name: str) -> Stream:
        return relation(replace(self._spec, queries={**self._spec.queries, **self.hidden}), name)

    def _may_widen(self, part: Query) -> bool:
        """Whether a smaller window can be told by the event times of a pair."""
        sides = [self._spec.streams.get(part.stream(side)) for side in Side]
        timed = all(stream is not None and stream.time_expr is None for stream in sides)
        return timed and part.window.spans_zero and part.until == (None, None)

    def _shape(self, part: Query) -> object:
        """What inputs must have in common to be one."""
        keys = tuple(sorted((k.left.sql, k.right.sql, k.type) for k in part.keys))
        window = None if self._may_widen(part) else part.window
        untils = tuple(map(_sql, part.until))
        return part.left, part.right, keys, _sql(part.residual), untils, window

    def _has(self, known: Query, part: Query) -> bool:
        """Whether a hidden query that runs has all that an input asks for."""
        if self._shape(known) != self._shape(part):
            return False
        wide = all(known.window.side(side) >= part.window.side(side) for side in Side)
        selected = all(_holds(known.where[side], part.where[side]) for side in Side)
        return wide and selected and _columns(part) <= _columns(known)

    def _made(self, parts: Sequence[Query]) -> Query:
        """One hidden query for several inputs of one shape."""
        first = parts[0]
        window = replace(
            first.window,
            left=max(part.window.left for part in parts),
            right=max(part.window.right for part in parts),
        )
        columns = {output.name: output for part in parts for output in part.select}
        where = _any([part.where[0] for part in parts]), _any([part.where[1] for part in parts])
        name = next(self._names(f"_{first.left.lstrip('_')}_{first.right.lstrip('_')}"))
        text = " x ".join(self._relation(first.stream(side)).label for side in Side)
        return replace(first, name=name, window=window, select=_sorted(columns.values()), where=where, text=text)

    def _names(self, stem: str) -> Iterator[str]:
        taken, number = {*self._known, *self.hidden}, 1
        while True:
            name = stem if number == 1 else f"{stem}_{number}"
            if name not in taken:
                yield name
            number += 1


def _sorted(columns: Iterable[Output]) -> tuple[Output, ...]:
    return tuple(sorted(columns, key=lambda output: output.name))


def _columns(query: Query) -> set[tuple[str, str]]:
    return {(output.name, output.expr.sql) for output in query.select}


def _sql(expr: Expr | None) -> str | None:
    return None if expr is None else expr.sql


def _holds(known: Expr | None, asked: Expr | None) -> bool:
    """Whether what one selection takes, another one takes as well, as far as their texts tell."""
    if known is None:
        return True
    return asked is not None and (known.sql == asked.sql or f"({asked.sql})" in _alternatives(known.sql))


def _alternatives(sql: str) -> list[str]:
    """The parts of a condition of which one must be true: what OR divides, outside of parentheses and texts."""
    found, depth, quoted, begin = [], 0, "", 0
    for at, letter in enumerate(sql):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif depth == 0 and sql.startswith(" OR ", at):
            found.append(sql[begin:at])
            begin = at + len(" OR ")
    return [*found, sql[begin:]]


def _any(wheres: Sequence[Expr | None]) -> Expr | None:
    """What one of several selections takes."""
    different = {where.sql: where for where in wheres if where is not None}
    if None in wheres or not different:
        return None
    if len(different) == 1:
        return next(iter(different.values()))
    left, right = (tuple(dict.fromkeys(c for w in different.values() for c in w.columns(side))) for side in Side)
    texts = " OR ".join(f"({where.text})" for where in different.values())
    return Expr(" OR ".join(f"({sql})" for sql in different), "boolean", texts, left, right)


def _all(wheres: Sequence[Expr | None]) -> Expr | None:
    """What several selections take."""
    given = [where for where in wheres if where is not None]
    if len(given) < 2:
        return given[0] if given else None
    left, right = (tuple(dict.fromkeys(c for w in given for c in w.columns(side))) for side in Side)
    parts = tuple(part for where in given for part in (where.conjuncts or (where,)))
    sql, text = (" AND ".join(f"({value})" for value in of) for of in ([w.sql for w in given], [w.text for w in given]))
    return Expr(sql, "boolean", text, left, right, parts)
