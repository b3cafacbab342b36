from __future__ import annotations

from collections.abc import Callable

import pytest

from muntin.model import (
    Axis,
    Comparison,
    Expr,
    Field,
    JobSpec,
    KeyPair,
    Op,
    Query,
    Schema,
    Settings,
    Side,
    Stream,
    Window,
)

SECOND = 1_000_000
ROW = Schema(
    (Field("ts", "timestamp"), Field("k", "bigint"), Field("v", "double"), Field("n", "int"), Field("tag", "string"))
)
Job = Callable[..., JobSpec]


def expr(side: Side, text: str, conjuncts: tuple[Comparison, ...] = ()) -> Expr:
    columns = tuple(c.column for c in conjuncts) or ("v",)
    return Expr(f"{side.prefix}{text}", "boolean", text, **{side.name.lower(): columns}, conjuncts=conjuncts)


def selection(side: Side, text: str | None) -> Expr | None:
    """`v > 3 AND tag in a,b`: comparisons that are indexed; a text without an operator is one that is not."""
    if text is None:
        return None
    parts = [part.split() for part in text.split(" AND ")]
    if len(parts[0]) == 1:
        return expr(side, text)
    cast = {"v": float, "n": int, "tag": str}
    return expr(
        side,
        text,
        tuple(Comparison(name, Op(op), tuple(map(cast[name], values.split(",")))) for name, op, values in parts),
    )


def key() -> KeyPair:
    return KeyPair(Expr('"l.k"', "bigint", "k", left=("k",)), Expr('"r.k"', "bigint", "k", right=("k",)), "bigint")


@pytest.fixture(scope="session")
def job() -> Job:
    """A job over streams A and B from (window in seconds or rows, or one per side; left, right selection), q1 first."""

    def make(*queries, axes=(Axis.TIME, Axis.TIME), keys=1, rate=None, **settings) -> JobSpec:
        made = {}
        for n, (window, *wheres) in enumerate(queries, 1):
            sizes = window if isinstance(window, tuple) else (window, window)
            units = [
                round(size * SECOND) if axis is Axis.TIME else size for size, axis in zip(sizes, axes, strict=True)
            ]
            left, right = (selection(side, text) for side, text in zip(Side, (*wheres, None, None), strict=False))
            made[f"q{n}"] = Query(
                f"q{n}", "A", "B", (key(),) * keys, Window(*units, axes), select=(), where=(left, right)
            )
        streams = {name: Stream(name, ROW, "ts", rate=rate) for name in "AB"}
        return JobSpec(streams, made, Settings(**settings))

    return make
