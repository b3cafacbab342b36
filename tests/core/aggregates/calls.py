"""What random aggregate queries group by, call and ask in HAVING, as SQL and in the oracle's terms."""

from __future__ import annotations

from typing import Any

from muntin import oracle
from worlds import summed

GROUPS = {
    "": lambda p: (),
    "A.k": lambda p: (p.left["k"],),
    "B.g": lambda p: (p.right["g"],),
    "A.k, B.g": lambda p: (p.left["k"], p.right["g"]),
    "A.v + B.v": lambda p: (both(p),),
}


def known(pairs: list, value: Any) -> list:
    return [v for p in pairs if (v := value(p)) is not None]


def both(pair: oracle.Pair) -> int | None:
    return summed(pair.left["v"], pair.right["v"])


def text_of(pair: oracle.Pair) -> str | None:
    return None if pair.right["g"] is None or pair.left["v"] is None else f"{pair.right['g']}{pair.left['v']}"


class Answer(tuple):
    """What a query selects of a group; whether HAVING lets it be seen is no part of it."""

    shown = True


CALLS = {
    "COUNT(*)": len,
    "COUNT(B.v)": lambda pairs: len(known(pairs, lambda p: p.right["v"])),
    "SUM(A.v)": lambda pairs: sum(v) if (v := known(pairs, lambda p: p.left["v"])) else None,
    "SUM(A.v + B.v)": lambda pairs: (
        sum(v) if (v := known(pairs, lambda p: summed(p.left["v"], p.right["v"]))) else None
    ),
    "SUM(B.v / 8)": lambda pairs: sum(v) / 8 if (v := known(pairs, lambda p: p.right["v"])) else None,
    "AVG(B.v)": lambda pairs: sum(v) / len(v) if (v := known(pairs, lambda p: p.right["v"])) else None,
    "MIN(A.v)": lambda pairs: min(known(pairs, lambda p: p.left["v"]), default=None),
    "MAX(B.v)": lambda pairs: max(known(pairs, lambda p: p.right["v"]), default=None),
    "MIN(-B.id / 2)": lambda pairs: min((-v / 2 for v in known(pairs, lambda p: p.right["id"])), default=None),
    "COUNT(DISTINCT B.g)": lambda pairs: len(set(known(pairs, lambda p: p.right["g"]))),
    "COUNT(DISTINCT A.k)": lambda pairs: len(set(known(pairs, lambda p: p.left["k"]))),
    "MAX(A.v) - MIN(B.v)": lambda pairs: summed(
        max(known(pairs, lambda p: p.left["v"]), default=None),
        None if (low := min(known(pairs, lambda p: p.right["v"]), default=None)) is None else -low,
    ),
}
TEXTS = {
    "MIN(A.g)": lambda pairs: min(known(pairs, lambda p: p.left["g"]), default=None),
    "MAX(B.g)": lambda pairs: max(known(pairs, lambda p: p.right["g"]), default=None),
    "max(b.G || CAST(a.V AS STRING))": lambda pairs: max(known(pairs, text_of), default=None),
}
"""Calls that go with live pairs only."""
HAVING = {"": lambda n: True, "HAVING COUNT(*) > 1": lambda n: n > 1, "HAVING COUNT(*) < 2": lambda n: n < 2}
