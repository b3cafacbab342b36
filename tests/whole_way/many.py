"""Random queries over more than two streams, and over a query, in pieces of SQL.

FROM calls the first stream A and the last one B, whatever they are, and those between M1 and M2. So all that a query
over two streams selects, groups and asks of its rows is asked of the first and the last row here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from core.aggregates.calls import CALLS, GROUPS, HAVING
from core.aggregates.test_top import SELECT, VALUES
from muntin.model import JoinKind, Window
from whole_way.queries import CHANGES, EVERY, FINAL, INNER, PLAIN, TOP, WHERE, RandomQuery
from worlds import RESIDUALS, SELECTIONS

TOPS = ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "EXISTS", "LEFT ANTI JOIN", "NOT EXISTS",
        "ASOF JOIN", "ASOF LEFT JOIN")  # fmt: skip
"""The joins that are not inner ones, which stand at the top of a tree."""
TIMED: dict[str, Callable[[Any, Any], bool]] = {
    "": lambda a, m: True,
    "M1.ts >= A.ts": lambda a, m: m["ts"] >= a["ts"],
    "M1.ts BETWEEN A.ts - INTERVAL 2 MICROSECONDS AND A.ts + INTERVAL 1 MICROSECOND": lambda a, m: (
        -2 <= m["ts"] - a["ts"] <= 1
    ),
}
"""Conditions on the event times of the first two rows."""


@dataclass(frozen=True)
class Many(RandomQuery):
    items: tuple[str, ...] = ()
    """What FROM names: streams, or the query that this one reads."""
    sizes: tuple[int, ...] = ()
    """The window of each."""
    links: tuple[tuple[int, int, str], ...] = ()
    """The equalities: two of them, and the column that both have."""
    timed: str = ""
    reads: Many | None = None
    """The query that stands among the items, once or twice."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the query calls each of them."""
        return ("A", *(f"M{n}" for n in range(1, len(self.items) - 1)), "B")

    @property
    def reads_first(self) -> bool:
        return self.reads is not None and self.items[0] == self.reads.name

    @property
    def base(self) -> set[str]:
        """The streams that its rows come from."""
        own = {item for item in self.items if self.reads is None or item != self.reads.name}
        return own | (self.reads.base if self.reads is not None else set())

    @property
    def select(self) -> str:
        if self.kind != PLAIN:
            return super().select
        pair = [] if self.shows_one else ["B.id AS b", "A.v + B.v AS s"]
        first = [f"A.{column} AS {column}" for column in ("id", "k", "g", "v")]
        return ", ".join([*first, *pair, *(f"{name}.id AS {name.lower()}" for name in self.names[1:-1])])

    def _equalities(self, last: bool) -> list[str]:
        """Those with the last one, or those without."""
        end = len(self.items) - 1
        return [f"{self.names[i]}.{c} = {self.names[j]}.{c}" for i, j, c in self.links if (j == end) is last]

    @property
    def _from(self) -> str:
        items = [
            item if self.spelling else f"{item} [RANGE {size} microseconds]"
            for item, size in zip(self.items, self.sizes, strict=True)
        ]
        *first, last = (f"{item} {name}" for item, name in zip(items, self.names, strict=True))
        below = [*self._equalities(False), *([self.timed] if self.timed else [])]
        own = [f"({where.replace('{}', name)})" for where, name in zip(self.wheres, "AB", strict=True)]
        back = [f"A.{'_ts' if self.reads_first else 'ts'} >= B.ts"] if self.join_kind is JoinKind.ASOF else []
        top = [*self._equalities(True), *own, self.residual, *back]
        chained = " JOIN ".join([first[0], *(f"{item} ON {on}" for item, on in self._placed(first[1:], below))])
        if self.join == INNER and self.spelling != 2:
            return f"FROM {', '.join([*first, last])} WHERE {' AND '.join([*top, *below])}"
        if self.join == INNER:
            return f"FROM {chained} JOIN {last} ON {' AND '.join(top)}"
        if "EXISTS" in self.join:
            asked = f"{self.join} (SELECT 1 FROM {last} WHERE {' AND '.join(top)}{self._until})"
            return f"FROM {chained} WHERE {asked} AND ({self.after})"
        return f"FROM {chained} {self.join} {last} ON {' AND '.join(top)} WHERE {self.after}"

    def _placed(self, items: list[str], conditions: list[str]) -> list[tuple[str, str]]:
        """The streams below the top, each with the conditions that speak of it and of those before."""
        found, left = [], list(conditions)
        for n, item in enumerate(items, 1):
            later = [f"{name}." for name in self.names[n + 1 :]]
            mine = [c for c in left if not any(name in c for name in later)]
            left = [c for c in left if c not in mine]
            found.append((item, " AND ".join(mine)))
        return found

    @property
    def _until(self) -> str:
        return f" WINDOW {self.sizes[0]} microseconds" if self.spelling else ""


def random_many(dice: random.Random, name: str, streams: str, first: Many | None, promised: bool, order: str) -> Many:
    """A query over all the streams, the first of a job; or one over some of them, or over that one."""
    count = len(streams) if first is None else dice.choice([3, 3, 3, min(4, len(streams))])
    items = list(streams) if first is None else [dice.choice(streams) for _ in range(count)]
    dice.shuffle(items)
    reads = first if first is not None and first.kind == PLAIN and dice.random() < 0.4 else None
    if reads is not None:
        items = items[: dice.choice([2, 2, 3])]
        items[dice.randrange(2)] = reads.name
        items[:2] = [reads.name] * 2 if dice.random() < 0.3 else items[:2]
    by = ["k"] if promised or order == "key" else ["k", "k", "k", "v", "g"]
    links = [(dice.randrange(n), n, dice.choice(by)) for n in range(1, len(items))]
    alike = dice.random() < 0.4
    sizes = [dice.choice([1, 2, 3, 4, 6, 8, 12])] * len(items)
    spelling = dice.choice([1, 2]) if alike else 0
    if not alike:
        sizes = [dice.choice([1, 2, 3, 4, 6, 8, 12]) for _ in items]
    kind = PLAIN if first is None else dice.choice([*[PLAIN] * 6, CHANGES, EVERY, TOP, FINAL])
    if {c for *_, c in (*links, *(reads.links if reads is not None else ()))} != {"k"} and kind == FINAL:
        kind = CHANGES  # groups of another key are over in no single shard
    join = dice.choice([INNER] * 3 + list(TOPS)) if kind == PLAIN and first is not None else INNER
    if join.startswith("ASOF") and reads is not None and items[-1] == reads.name:
        join = INNER  # of its rows at one time nobody says which came last
    if {c for *_, c in (*links, *(reads.links if reads is not None else ()))} != {"k"}:
        # Where a stream goes to every shard, nobody sees all matches of its rows.
        join = "LEFT JOIN" if join in ("RIGHT JOIN", "FULL JOIN") else join
        items = sorted(items, key=lambda item: item in streams) if len(items) == 2 else items
    wheres = tuple(dice.choice(["TRUE"] * 6 + list(SELECTIONS)) for _ in "AB")
    residual = dice.choice(["TRUE"] * 6 + list(RESIDUALS))
    low, high = 1 - sizes[-1], min(sizes[:-1]) - 1
    made = Many(
        name, kind, "TRUE", (wheres[0], wheres[1]), residual, Window(high + 1, 1 - low), join=join, bounds=(low, high),
        spelling=spelling, items=tuple(items), sizes=tuple(sizes), links=tuple(links), reads=reads,
    )  # fmt: skip
    if len(items) > 2 and reads is None and dice.random() < 0.3 and links[0][:2] == (0, 1):
        made = replace(made, timed=dice.choice(list(TIMED)))
    if join != INNER:
        own = [s.replace("{}", "A") for s in SELECTIONS]
        made = replace(made, after=dice.choice(["TRUE"] * 6 + (own if made.shows_one else list(WHERE))))
    return made if kind == PLAIN else _grouped(dice, made, order)


def _grouped(dice: random.Random, query: Many, order: str) -> Many:
    """The query with groups, and what it shows of them."""
    groups = [g for g in GROUPS if "A.k" in g] if order == "key" or query.kind == FINAL else list(GROUPS)
    query = replace(query, group=dice.choice(groups), every=dice.choice([1, 2, 5]) if query.kind == EVERY else None)
    if query.kind != TOP:
        calls = tuple(dice.sample(list(CALLS), dice.choice([1, 2, 3])))
        return replace(query, calls=calls, having=dice.choice(["", "", *HAVING]))
    values = [value for value in VALUES if value != "A.ts" or query.reads is None]
    ways = tuple((dice.choice(values), dice.random() < 0.5, dice.choice(["", "", "NULLS FIRST", "NULLS LAST"]))
                 for _ in range(dice.choice([1, 2])))  # fmt: skip
    columns = tuple(dice.sample(SELECT, dice.choice([1, 2, 3])))
    every = dice.choice([None, None, 1, 2, 5])
    return replace(query, order=ways, limit=dice.randint(1, 4), columns=columns, every=every)
