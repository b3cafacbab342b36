"""Random queries in pieces of SQL, from which the job file, the oracle's terms and DuckDB's SQL are made."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from core.aggregates.calls import CALLS, GROUPS, HAVING
from core.aggregates.test_top import SELECT, VALUES
from muntin.model import Axis, JoinKind, Side, Window
from worlds import KEYS, RESIDUALS, SELECTIONS, UNTILS

PLAIN, CHANGES, EVERY, TOP, FINAL = "plain", "changes", "every", "top", "final"
EITHER = "COALESCE(A.k,B.k)"
"""The key of whichever row is there."""
INNER = "JOIN"
JOINS = {
    "LEFT JOIN": JoinKind.PAIRS,
    "RIGHT JOIN": JoinKind.PAIRS,
    "FULL JOIN": JoinKind.PAIRS,
    "LEFT SEMI JOIN": JoinKind.SEMI,
    "EXISTS": JoinKind.SEMI,
    "LEFT ANTI JOIN": JoinKind.ANTI,
    "NOT EXISTS": JoinKind.ANTI,
    "IS NULL": JoinKind.ANTI,
    "ASOF JOIN": JoinKind.ASOF,
    "ASOF LEFT JOIN": JoinKind.ASOF,
}
"""The joins that are not inner ones, by their spelling; IS NULL is an anti join written as LEFT JOIN."""
IMPOSSIBLE = "{}.v > 3 AND {}.v < 2"
ON = {**SELECTIONS, IMPOSSIBLE: lambda r: False}
"""Conditions on one row."""
WHERE: dict[str, Callable[[Any, Any], bool | None]] = {
    "A.v < B.v": RESIDUALS["A.v < B.v"],
    "B.v IS NULL": lambda a, b: b["v"] is None,
    "A.v IS NULL OR B.v > 1": lambda a, b: a["v"] is None or (None if b["v"] is None else b["v"] > 1),
}
"""Conditions on what comes out of a join."""
for _text, _holds in SELECTIONS.items():
    WHERE[_text.replace("{}", "A")] = lambda a, b, holds=_holds: holds(a)
    WHERE[_text.replace("{}", "B")] = lambda a, b, holds=_holds: holds(b)


def band(low: int, high: int) -> Window:
    """The window that allows the differences `right.ts - left.ts` from `low` to `high`."""
    if low > high:
        return Window(0, 0)
    return Window(max(0, high + 1), max(0, 1 - low), starts=(max(0, low), max(0, -high)))


@dataclass(frozen=True)
class RandomQuery:
    name: str
    kind: str
    key: str
    wheres: tuple[str, str]
    residual: str
    window: Window
    group: str = ""
    calls: tuple[str, ...] = ()
    having: str = ""
    every: int | None = None
    order: tuple[tuple[str, bool, str], ...] = ()
    """Of each part of ORDER BY: the expression, whether it descends, and what is said of NULLs."""
    limit: int = 0
    columns: tuple[str, ...] = ()
    """What a top-n query selects."""
    join: str = INNER
    first: str = "A"
    """The stream that FROM names first."""
    bounds: tuple[int, int] = (0, 0)
    """Of a window of time: the differences of B's time and A's that it allows."""
    spelling: int = 0
    """How the bounds are written: 0 is RANGE of the streams, the others are intervals."""
    after: str = "TRUE"
    """WHERE of a join that is not an inner one."""
    untils: tuple[str, str] = ("", "")
    """For each stream, until when its rows wait; empty where they wait for the window."""

    @property
    def second(self) -> str:
        return "B" if self.first == "A" else "A"

    @property
    def join_kind(self) -> JoinKind:
        return JOINS.get(self.join, JoinKind.PAIRS)

    @property
    def about(self) -> Side:
        return Side("AB".index(self.first))

    @property
    def shows_one(self) -> bool:
        """Whether rows of one stream go out."""
        return self.join_kind in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def preserved(self) -> tuple[Side, ...]:
        if self.join == "FULL JOIN":
            return Side.LEFT, Side.RIGHT
        if self.join == "RIGHT JOIN":
            return (self.about.other,)
        return (self.about,) if self.join_kind is JoinKind.ANTI or "LEFT JOIN" in self.join else ()

    @property
    def selections(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What must hold of a row of each stream for the query to want it, unless the stream is preserved."""
        own = self.after if self.join != INNER and self._speaks_of_first(self.after) else "TRUE"
        return tuple((where.replace("{}", name), own if name == self.first else "TRUE")
                     for name, where in zip("AB", self.wheres, strict=True))  # fmt: skip

    def _speaks_of_first(self, condition: str) -> bool:
        return f"{self.second}." not in condition

    @property
    def condition(self) -> str:
        selections = [f"({w.replace('{}', alias)})" for w, alias in zip(self.wheres, "AB", strict=True)]
        return " AND ".join([self.key, *selections, self.residual])

    @property
    def groups(self) -> list[str]:
        return [g for g in self.group.split(", ") if g]

    @property
    def select(self) -> str:
        if self.kind == PLAIN:
            return f"{self.first}.id AS a" if self.shows_one else "A.id AS a, B.id AS b, A.v + B.v AS s"
        if self.kind == TOP:
            return ", ".join(f"{column} AS c{n}" for n, column in enumerate(self.columns))
        named = [f"{g} AS g{n}" for n, g in enumerate(self.groups)]
        return ", ".join([*named, *(f"{call} AS c{n}" for n, call in enumerate(self.calls))])

    @property
    def sql(self) -> str:
        group = f" GROUP BY {self.group}" if self.group else ""
        order = ", ".join(f"{value}{' DESC' * down} {nulls}" for value, down, nulls in self.order)
        top = f" ORDER BY {order} LIMIT {self.limit}" if order else ""
        when = {CHANGES: " EMIT CHANGES", FINAL: " EMIT FINAL", EVERY: f" EVERY {self.every} microseconds"}
        tells = when.get(self.kind, f" EVERY {self.every} microseconds" if self.every else "")
        window = "" if "EXISTS" in self.join else self._until
        return (
            f"CREATE QUERY {self.name} AS SELECT {self.select} {self._from}{group} {self.having}{window}{top}{tells};"
        )

    @property
    def _until(self) -> str:
        times = [time.replace("{}", name) for time, name in zip(self.untils, "AB", strict=True) if time]
        return f" WINDOW UNTIL {', '.join(times)}" if times else ""

    @property
    def _from(self) -> str:
        """FROM and WHERE."""
        first, second = (self._stream(name) for name in (self.first, self.second))
        on = " AND ".join([self.condition, *self._times])
        if self.join == INNER:
            return f"FROM {first}, {second} WHERE {on}"
        if "EXISTS" in self.join:
            return f"FROM {first} WHERE {self.join} (SELECT 1 FROM {second} WHERE {on}{self._until}) AND ({self.after})"
        if self.join == "IS NULL":
            missing = f"{self.second}.{'k' if 'k' in self.key else 'ts'} IS NULL"
            return f"FROM {first} LEFT JOIN {second} ON {on} WHERE {missing} AND ({self.after})"
        return f"FROM {first} {self.join} {second} ON {on} WHERE {self.after}"

    def _stream(self, name: str) -> str:
        side = "AB".index(name)
        size = (self.window.left, self.window.right)[side]
        if self.window.axes[side] is Axis.ROWS:
            return f"{name} [ROWS {size}] {name}"
        return f"{name} [RANGE {size} microseconds] {name}" if not self.spelling and size else name

    @property
    def _times(self) -> list[str]:
        """The conditions on event times."""
        low, high = self.bounds
        spelled = [
            [],
            [f"B.ts BETWEEN A.ts + INTERVAL {low} MICROSECONDS AND A.ts + INTERVAL '{high}' MICROSECOND"],
            [f"A.ts >= B.ts - INTERVAL {high} MICROSECONDS", f"B.ts > A.ts + INTERVAL '{low - 1} microseconds'"],
            [f"B.ts - A.ts <= INTERVAL {high} MICROSECONDS", f"INTERVAL {-low} MICROSECONDS >= A.ts - B.ts"],
        ][self.spelling]
        if self.join_kind is not JoinKind.ASOF:
            return spelled
        return [*spelled, f"{self.first}.ts {'>=' if 0 in self.bounds else '>'} {self.second}.ts"]


def random_query(dice: random.Random, name: str, alike: bool, promised: bool, order: str) -> RandomQuery:
    kind = dice.choice([*[PLAIN] * 7, CHANGES, EVERY, TOP, *([FINAL] * 4 if promised else [FINAL])])
    join = dice.choice([INNER] * 8 + list(JOINS)) if kind in (PLAIN, FINAL) else INNER
    key = "A.k = B.k" if alike or kind == FINAL else dice.choice(list(KEYS))
    if key == "TRUE" and (kind != PLAIN or join != INNER):
        key = "A.k = B.k"
    axes = (Axis.TIME, Axis.TIME)
    if kind == PLAIN and not alike and join == INNER:
        axes = (dice.choice(list(Axis)), dice.choice(list(Axis)))
    selections = ["TRUE"] * 8 + list(SELECTIONS if join == INNER else ON)
    wheres = (dice.choice(selections), dice.choice(selections))
    residual = dice.choice(list(RESIDUALS)[1:] if key == "TRUE" else ["TRUE"] * 9 + list(RESIDUALS))
    first = "A" if join == INNER else dice.choice("AB")
    query = RandomQuery(name, kind, key, wheres, residual, Window(1, 1, axes), join=join, first=first)
    untils = [dice.choice(["", "", "", *UNTILS]) if axis is Axis.TIME else "" for axis in axes]
    query = replace(_with_after(dice, _with_window(dice, query)), untils=(untils[0], untils[1]))
    if kind == PLAIN:
        return query
    keyed = [g for g in GROUPS if "A.k" in g]
    choices = _final_groups(query) if kind == FINAL else keyed if order == "key" else list(GROUPS)
    query = replace(query, group=dice.choice(choices), every=dice.choice([1, 2, 5]) if kind == EVERY else None)
    if kind == TOP:
        ways = [(dice.choice(list(VALUES)), dice.random() < 0.5, dice.choice(["", "", "NULLS FIRST", "NULLS LAST"]))
                for _ in range(dice.choice([1, 2]))]  # fmt: skip
        columns = tuple(dice.sample(SELECT, dice.choice([1, 2, 3])))
        every = dice.choice([None, None, 1, 2, 5])
        return replace(query, order=tuple(ways), limit=dice.randint(1, 4), columns=columns, every=every)
    known = [call for call in CALLS if not query.shows_one or f"{query.second}." not in call]
    calls = tuple(dice.sample(known, dice.choice([1, 2, 3])))
    return replace(query, calls=calls, having=dice.choice(["", "", *HAVING]))


def _final_groups(query: RandomQuery) -> list[str]:
    """Groups that EMIT FINAL takes: the key of what goes out, and perhaps something beside it."""
    preserved = ["AB"[side] for side in query.preserved]
    key = EITHER if len(preserved) == 2 else f"{(*preserved, query.first)[0]}.k"
    return [key, f"{key}, {query.first if query.shows_one else 'B'}.g"]


def _with_window(dice: random.Random, query: RandomQuery) -> RandomQuery:
    """The query with a window that suits its join."""
    axes = query.window.axes
    size = dice.choice([1, 2, 3, 4, 6, 8, 12, 12])
    other = dice.choice([size, size, size, 1, 3, 6])
    if Axis.ROWS in axes:
        return replace(query, window=Window(size, other, axes))
    low, high, spelling = 1 - other, size - 1, dice.choice([0, 0, 1, 2, 3])
    if query.join_kind is JoinKind.ASOF:
        latest = dice.choice([0, 0, 1])
        low, high = (-size, -latest) if query.first == "A" else (latest, size)
    elif query.kind in (PLAIN, FINAL) and query.key != "TRUE" and dice.random() < 0.5:
        spelling = dice.choice([1, 2, 3])
        low = dice.randint(-8, 6)
        high = low + dice.choice([0, 1, 3, 6, *([-2] * 2 if query.join == INNER else [])])
    return replace(query, window=band(low, high), bounds=(low, high), spelling=spelling)


def _with_after(dice: random.Random, query: RandomQuery) -> RandomQuery:
    """The query of a join with a WHERE that it may have."""
    if query.join == INNER:
        return query
    own = [s.replace("{}", query.first) for s in SELECTIONS]
    return replace(query, after=dice.choice(["TRUE"] * 6 + own if query.shows_one else ["TRUE"] * 6 + list(WHERE)))


def with_other_window(dice: random.Random, first: RandomQuery, other: RandomQuery) -> RandomQuery:
    """The first query under another name, with another window."""
    changed = _with_window(dice, first)
    return replace(changed, name=other.name, limit=first.limit and (other.limit or 2))
