"""Queries over more than two streams as plain SQL in DuckDB (semantics, section 8), for the judge."""

from __future__ import annotations

from muntin.model import JoinKind
from whole_way.many import Many
from whole_way.queries import INNER
from whole_way.random_jobs import Text

COLUMNS = ("ts", "id", "k", "g", "v")


def source(q: Many, name: str) -> str:
    """What the query calls by this name, as a table."""
    item = q.items[q.names.index(name)]
    if q.reads is None or item != q.reads.name:
        return f"(SELECT * FROM {item} WHERE NOT broken)"
    columns = "lo AS ts, aid AS id, ak AS k, ag AS g, av AS v"
    return f"(WITH {pairs(q.reads)} SELECT job, {columns}, false AS broken FROM pairs)"


def pairs(q: Many) -> str:
    """The rows that belong together in the answer of an inner join, live from `lo` until before `hi`."""
    assert q.join == INNER
    names = q.names
    columns = ", ".join(f"{name}.{c} AS {name.lower()}{c}" for name in names for c in COLUMNS)
    own = " AND ".join(f"({where.replace('{}', name)})" for where, name in zip(q.wheres, "AB", strict=True))
    return f"""pairs AS (SELECT * FROM (
            SELECT A.job, {columns}, {_last(q, names)} AS lo, {_end(q, names)} AS hi
            FROM {_tables(q, names)} WHERE {_conditions(q, names)} AND {own} AND ({q.residual})
        ) WHERE lo < hi)"""


def streams(q: Many) -> str:
    """What the join at the top of a query reads: what the streams before the last have found, and the last one."""
    names = q.names[:-1]
    others = "".join(f", {name}.{c} AS {name.lower()}_{c}" for name in names[1:] for c in COLUMNS)
    columns = ", ".join(f"A.{c}" for c in COLUMNS if c != "ts")
    return f"""a_ AS (SELECT *, row_number() OVER () AS tree FROM (
            SELECT A.job, {columns}{others}, A.ts AS first, {_last(q, names)} AS ts, {_end(q, names)} AS until
            FROM {_tables(q, names)} WHERE {_conditions(q, names)}
        ) WHERE ts < until), b_ AS (FROM {source(q, "B")} AS b)"""


def others(q: Many) -> str:
    """The rows between the first and the last, as what comes out of the join at the top has them."""
    return ", A.tree" + "".join(f", A.{name.lower()}_id AS {name.lower()}id" for name in q.names[1:-1])


def condition(q: Many) -> str:
    """What the join at the top asks of both of its sides."""
    end = len(q.items) - 1
    links = []
    for i, j, c in q.links:
        if j == end:
            links.append(f"{f'A.{c}' if i == 0 else f'A.{q.names[i].lower()}_{c}'} = B.{c}")
    own = [f"({where.replace('{}', name)})" for where, name in zip(q.wheres, "AB", strict=True)]
    back = ["A.first >= B.ts"] if q.join_kind is JoinKind.ASOF else []
    return " AND ".join([*links, *own, q.residual, *back])


def promising(text: Text, q: Many) -> list[tuple[str, str]]:
    """The tables of both sides of the join at the top, and how they promise: of what a join finds nothing is heard."""
    said = dict(zip(text.streams, text.promises, strict=True))
    return [("A", ""), (q.items[-1], said[q.items[-1]]) if q.items[-1] in said else ("B", "")]


def _tables(q: Many, names: tuple[str, ...]) -> str:
    return ", ".join(f"{source(q, name)} AS {name}" for name in names)


def _last(q: Many, names: tuple[str, ...]) -> str:
    return f"greatest({', '.join(f'{name}.ts' for name in names)}, {names[0]}.ts)"


def _end(q: Many, names: tuple[str, ...]) -> str:
    ends = [f"{name}.ts + {size}" for name, size in zip(names, q.sizes, strict=False)]
    return f"least({', '.join([*ends, ends[0]])})"


def _conditions(q: Many, names: tuple[str, ...]) -> str:
    found = [f"A.job = {name}.job" for name in names[1:]]
    found += [f"{q.names[i]}.{c} = {q.names[j]}.{c}" for i, j, c in q.links if j < len(names)]
    timed = q.timed.replace("INTERVAL ", "").replace(" MICROSECONDS", "").replace(" MICROSECOND", "")
    return " AND ".join([*found, *([timed] if timed else []), "true"])
