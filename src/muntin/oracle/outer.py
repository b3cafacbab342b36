"""Section 2: what a query makes of its matches, and what goes out of the rows that have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muntin.model import JoinKind, Side, Window
from muntin.oracle.join import Condition, Pair, Row, Selection
from muntin.oracle.own_windows import Untils, end


class _Nulls(dict[str, Any]):
    def __missing__(self, name: str) -> None:
        return None


NULLS: Row = _Nulls()
"""Stands in a pair for the row that there is not: NULL in every column."""


def delivered(
    window: Window,
    matches: Sequence[Pair],
    rows: tuple[Sequence[Row], Sequence[Row]],
    kind: JoinKind = JoinKind.PAIRS,
    subject: Side | None = None,
    preserved: Sequence[Side] = (),
    keeps: tuple[Selection | None, Selection | None] = (None, None),
    times: tuple[str, str] = ("ts", "ts"),
    after: Condition | None = None,
    untils: Untils = (None, None),
) -> list[Pair]:
    """The output of a query with these matches (`answer`) among *all* accepted rows, in output order.

    A row that goes out without a partner has NULLS for it. `after` is asked of whatever would go out.
    """
    found = list(matches) if kind is JoinKind.PAIRS else []
    for side in Side:
        keep = keeps[side]
        for row in rows[side]:
            mine = [pair for pair in matches if pair.side(side) is row]
            if mine and side is subject and kind is JoinKind.SEMI:
                found.append(_alone(row, side, min(pair.ts for pair in mine)))
            elif mine and side is subject and kind is JoinKind.ASOF:
                found.append(_latest(mine, side.other, rows[side.other], times[side.other]))
            elif not mine and side in preserved and (keep is None or keep(row) is True):
                at = given_up(row[times[side]], window, side, kind, end(side, row, untils))
                found.append(_alone(row, side, at))
    return sorted((p for p in found if after is None or after(p.left, p.right) is True), key=lambda pair: pair.ts)


def _alone(row: Row, side: Side, ts: int) -> Pair:
    return Pair(row, NULLS, ts) if side is Side.LEFT else Pair(NULLS, row, ts)


def _latest(pairs: Sequence[Pair], side: Side, rows: Sequence[Row], time: str) -> Pair:
    """The pair whose row of a side has the greatest time; of equal times the last to arrive."""
    arrival = {id(row): number for number, row in enumerate(rows)}
    return max(pairs, key=lambda pair: (pair.side(side)[time], arrival[id(pair.side(side))]))


def given_up(ts: int, window: Window, side: Side, kind: JoinKind, until: float = float("inf")) -> int:
    """When a row without a match goes out: no match can come from then on. An as-of join speaks of its own time.

    A row that waits until a time of its own still meets those of its own time.
    """
    return ts if kind is JoinKind.ASOF else ts + int(min(window.side(side), max(1, until - ts)))
