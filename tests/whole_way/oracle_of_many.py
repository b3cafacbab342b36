"""What the oracle says of a query over more than two streams (semantics, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muntin import oracle
from muntin.model import JoinKind, Side, Window
from whole_way.many import TIMED, Many
from whole_way.queries import INNER, ON, WHERE
from worlds import RESIDUALS, summed

Rows = list[Mapping[str, Any]]
UNTIL: oracle.Untils = (lambda row: row.get("until"), None)
"""What the first rows of a query have found together is there until the first of them leaves its window."""


def pairs_of(q: Many, streams: Mapping[str, Rows]) -> list[oracle.Pair]:
    """What the query finds: on the left the first of its rows, with the others beside it, on the right the last one.

    `streams` are the rows that count. The left row has the time from which on what it stands for is there, and until
    when it is; `first` is its own time.
    """
    given = dict(streams)
    if q.reads is not None:
        given[q.reads.name] = [
            {**{c: pair.left[c] for c in ("id", "k", "g", "v")}, "ts": pair.ts} for pair in pairs_of(q.reads, streams)
        ]
    rows = [given[item] for item in q.items]
    if q.join != INNER:
        return _at_the_top(q, rows)
    found = oracle.answer_of_many(q.sizes, rows, lambda *together: _holds(q, together) and _matches(q, together))
    pairs = []
    for together, ts in found:
        until = min(row["ts"] + size for row, size in zip(together, q.sizes, strict=True))
        pairs.append(oracle.Pair(_left(together[:-1], until), together[-1], ts))
    return pairs


def ends_of(
    q: Many, pair: oracle.Pair, streams: Mapping[str, Rows], promises: Mapping[str, list[oracle.Promise]]
) -> list[int]:
    """When the key of a pair is over: by the promises of the last stream alone."""
    last = q.items[-1]
    if last not in promises:
        return []
    key = oracle.columns("k")
    wanted = (None, lambda row: ON[q.wheres[1]](row) is True)
    eras: tuple[list[oracle.Promise], list[oracle.Promise]] = ([], promises[last])
    return oracle.ends(q.window, key(pair.right), ([], streams[last]), (key, key), eras, wanted)


def window_of(q: Many) -> Window:
    """What bounds a pair beside its own end: nothing."""
    return Window(10**6, 10**6) if q.join == INNER else q.window


def shown(q: Many, pair: oracle.Pair) -> tuple[Any, ...]:
    """What a plain query selects of a pair."""
    left, right = pair.left, pair.right
    both = () if q.shows_one else (right["id"], summed(left["v"], right["v"]))
    others = [row["id"] for row in left["others"]] if left["others"] is not None else [None] * (len(q.items) - 2)
    return (left["id"], left["k"], left["g"], left["v"], *both, *others, pair.ts)


def _left(together: tuple[Mapping[str, Any], ...], until: int) -> dict[str, Any]:
    return {**together[0], "others": together[1:], "until": until}


def _at_the_top(q: Many, rows: list[Rows]) -> list[oracle.Pair]:
    """A join that is not an inner one, over what the streams before the last have found together."""
    found = oracle.answer_of_many(q.sizes[:-1], rows[:-1], lambda *together: _holds(q, together))
    trees: Rows = []
    for together, ts in found:
        until = min(row["ts"] + size for row, size in zip(together, q.sizes[:-1], strict=True))
        trees.append({**_left(together, until), "ts": ts, "first": together[0]})

    def holds(tree: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
        return _matches(q, (tree["first"], *tree["others"], last))

    sides = (trees, rows[-1])
    matches = oracle.answer(q.window, *sides, None, (None, None), holds=holds, untils=UNTIL)
    terms = {"after": WHERE[q.after], "untils": UNTIL}
    return oracle.delivered(q.window, matches, sides, q.join_kind, Side.LEFT, q.preserved, **terms)


def _linked(q: Many, together: tuple[Mapping[str, Any], ...], last: bool) -> bool:
    return all(
        together[i][c] is not None and together[i][c] == together[j][c]
        for i, j, c in q.links
        if (j == len(q.items) - 1) is last
    )


def _holds(q: Many, together: tuple[Mapping[str, Any], ...]) -> bool:
    """What is asked of the rows before the last one."""
    timed = not q.timed or TIMED[q.timed](together[0], together[1])
    return timed and _linked(q, together, False)


def _matches(q: Many, together: tuple[Mapping[str, Any], ...]) -> bool:
    """What is asked of the last row, and of the others with it."""
    first, last = together[0], together[-1]
    selected = all(ON[text](row) is True for text, row in zip(q.wheres, (first, last), strict=True))
    back = q.join_kind is not JoinKind.ASOF or first["ts"] >= last["ts"]
    return back and selected and RESIDUALS[q.residual](first, last) is True and _linked(q, together, True)
