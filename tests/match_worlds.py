"""Random queries of every kind of join, random rows for them, and what the oracle says."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa

from muntin import oracle
from muntin.model import Expr, JoinKind, Query, Side, Window
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import RESIDUALS, ROW, SELECTIONS, STREAMS, UNTILS

LEFT, RIGHT = Side.LEFT, Side.RIGHT
KEYS = (oracle.columns("k"), oracle.columns("k"))
AFTERS = {
    "B.v IS NULL OR A.v > 1": lambda a, b: True if b["v"] is None else None if a["v"] is None else a["v"] > 1,
    "A.g = 'x'": lambda a, b: None if a["g"] is None else a["g"] == "x",
    "COALESCE(A.v, 0) + COALESCE(B.v, 0) < 4": lambda a, b: (a["v"] or 0) + (b["v"] or 0) < 4,
}


class Asked:
    """A query, and the same in the oracle's terms."""

    def __init__(self, query: Query, keeps: list[Any], holds: Any, after: Any, untils: oracle.Untils = (None, None)):
        self.query, self.keeps, self.holds, self.after, self.untils = query, keeps, holds, after, untils

    def delivered(self, rows: tuple[list[Any], list[Any]], promises: Any = ((), ())) -> list[oracle.Pair]:
        q = self.query
        keeps, until = tuple(self.keeps), {"untils": self.untils}
        matches = oracle.answer(q.window, *rows, KEYS, keeps, holds=self.holds, promises=promises, **until)
        return oracle.delivered(
            q.window, matches, rows, q.kind, q.subject, q.preserved, keeps, after=self.after, **until
        )

    def answer(self, rows: tuple[list[Any], list[Any]], promises: Any = ((), ())) -> list[tuple[Any, ...]]:
        q, out = self.query, self.delivered(rows, promises)
        alone = q.kind in (JoinKind.SEMI, JoinKind.ANTI)
        return sorted(
            (
                (None if alone and q.subject is RIGHT else p.left["id"],
                 None if alone and q.subject is LEFT else p.right["id"], p.ts)
                for p in out
            ),
            key=str,
        )  # fmt: skip


@cache
def bound(name: str, where: str = "TRUE", residual: str = "TRUE", select: str = "A.id AS a, B.id AS b") -> Query:
    text = (
        STREAMS.format(late=3)
        + f"CREATE QUERY {name} AS SELECT {select} FROM A, B WHERE A.k = B.k AND {where} AND {residual} WINDOW 1 s;"
    )
    return parse_job(text).queries[name]


def random_query(draw: random.Random, name: str) -> Asked:
    kind = draw.choice(["inner", "left", "right", "full", "semi", "anti", "asof", "asof left"])
    wheres = [draw.choice(list(SELECTIONS)[:4]) for _ in "AB"]
    residual = draw.choice(list(RESIDUALS))
    full = kind == "full"
    wheres = ["TRUE", "TRUE"] if full else wheres
    selection = " AND ".join("(" + w.replace("{}", a) + ")" for w, a in zip(wheres, "AB", strict=True))
    subject = draw.choice(list(Side)) if kind in ("semi", "anti") or "asof" in kind else None
    select = "A.id AS a, B.id AS b"
    if kind in ("semi", "anti"):
        select = "A.id AS a, CAST(NULL AS BIGINT) AS b" if subject is LEFT else "CAST(NULL AS BIGINT) AS a, B.id AS b"
    query = bound(name, selection, residual, select)
    low, high = sorted([draw.randint(-7, 7), draw.randint(-7, 7)])
    if "asof" in kind:
        low, high = (-draw.randint(1, 7), draw.choice([0, 0, -1])) if subject is LEFT else (
            draw.choice([0, 0, 1]), draw.randint(1, 7))  # fmt: skip
    elif draw.random() < 0.5:
        low, high = -draw.randint(0, 7), draw.randint(0, 7)
    window = Window(max(0, high + 1), max(0, -low + 1), query.window.axes, (max(0, low), max(0, -high)))
    preserved = {"left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}.get(kind, ())
    if kind in ("anti", "asof left"):
        preserved = (subject,)
    kinds = {"semi": JoinKind.SEMI, "anti": JoinKind.ANTI, "asof": JoinKind.ASOF, "asof left": JoinKind.ASOF}
    after, check = None, None
    if kind in ("left", "right", "full") and draw.random() < 0.4:
        text = draw.choice(list(AFTERS))
        after, check = condition(text), AFTERS[text]
    query = replace(
        query, window=window, kind=kinds.get(kind, JoinKind.PAIRS), subject=subject, preserved=preserved, after=after
    )
    keeps = [SELECTIONS[w] for w in wheres]
    times = [draw.choice(["", "", "", *UNTILS]) for _ in "AB"]
    query = replace(query, until=own_times(*times))
    return Asked(query, keeps, RESIDUALS[residual], check, tuple(map(UNTILS.get, times)))


@cache
def own_times(left: str, right: str) -> tuple[Expr | None, Expr | None]:
    """The times until when rows wait."""
    until = ", ".join(time.replace("{}", alias) for time, alias in ((left, "A"), (right, "B")) if time)
    select = "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW"
    text = f"{select} UNTIL {until} AT MOST 1 s;" if until else f"{select} 1 s;"
    return parse_job(STREAMS.format(late=3) + text).queries["q"].until


def condition(text: str) -> Expr | None:
    """A condition over both sides, whichever columns it names."""
    return bound("q", residual=f"(({text}) OR A.id + B.id IS NULL AND A.id + B.id IS NOT NULL)").residual


def random_rows(draw: random.Random, stream: str, count: int) -> list[dict[str, Any]]:
    return [
        {
            "ts": draw.randint(0, 14),
            "id": (100 if stream == "B" else 0) + n,
            "k": draw.choice([0, 1, None]),
            "g": draw.choice(["x", "y", None]),
            "v": draw.choice([0, 1, 2, 3, None]),
        }
        for n in range(count)
    ]


def table(rows: list[dict[str, Any]], schema: pa.Schema = ROW) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema) if rows else schema.empty_table()


def batches(draw: random.Random, rows: list[Any]) -> list[list[Any]]:
    """The rows in time order, in a few pieces."""
    ordered = sorted(rows, key=lambda row: row["ts"])
    cuts = sorted(draw.choices(range(len(rows) + 1), k=draw.randint(0, 4)))
    return [ordered[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def job_of(queries: list[Query], strategy: str, shards: int, streams: str = STREAMS.format(late=3)) -> LocalJob:
    spec = parse_job(f"SET strategy = '{strategy}';" + streams)
    return LocalJob(replace(spec, queries={q.name: q for q in queries}), shards, checks=True)


STRATEGIES = ("state-slice", "pull-up", "push-down", "isolated")


class Story:
    """A random job over random rows, fed piece by piece; it may be restarted in between."""

    schema = ROW

    def __init__(self, draw: random.Random, asked: list[Asked]):
        self.draw = draw
        self.job = self._job([a.query for a in asked])
        pieces = [batches(draw, self._rows(stream)) for stream in "AB"]
        self.rows = tuple([row for piece in side for row in piece] for side in pieces)
        self.length = max(map(len, pieces))
        self._pieces = pieces
        self.found: dict[str, list[pa.Table]] = {}

    def _job(self, queries: list[Query]) -> LocalJob:
        return job_of(queries, self.draw.choice(STRATEGIES), self.draw.randint(1, 3))

    def _rows(self, stream: str) -> list[dict[str, Any]]:
        return random_rows(self.draw, stream, self.draw.randint(0, 12))

    def step(self, n: int) -> None:
        batch = {s: table(side[n], self.schema) for s, side in zip("AB", self._pieces, strict=True) if n < len(side)}
        for name, part in self.job.push(batch, ended=n == self.length).items():
            self.found.setdefault(name, []).append(part)
        if self.draw.random() < 0.3:
            self.job.restart()

    def output(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a query, which must be in order."""
        got = pa.concat_tables(self.found[name])
        times = got["_ts"].cast(pa.int64()).to_pylist()
        assert times == sorted(times), name
        return sorted(zip(got["a"].to_pylist(), got["b"].to_pylist(), times, strict=True), key=str)
