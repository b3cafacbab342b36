"""The streams of a query over more than two, and which of them conditions link: what an order of joins is chosen from.

Other streams than the last one of an outer or as-of join may be joined in any order in which each has a condition with
those before it. The answer is the same; pairs in between and what is kept are not (`plan/join_orders.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muntin.model.job import Expr


@dataclass(frozen=True)
class JoinItem:
    """A stream as FROM names it, how long its rows wait, and which of its rows are selected."""

    alias: str
    stream: str
    window_us: int
    where: Expr | None = None


@dataclass(frozen=True)
class JoinLink:
    """A condition over several of the streams; of an equality of two of them, `key` has what is equal, in the order of
    `uses`."""

    text: str
    uses: tuple[str, ...]
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class JoinGraph:
    """`items` in the order of the text; `order` has their aliases as they are joined."""

    items: tuple[JoinItem, ...]
    links: tuple[JoinLink, ...]
    order: tuple[str, ...]
    last: str | None = None
    """The stream that has to be the last one."""

    def item(self, alias: str) -> JoinItem:
        return next(item for item in self.items if item.alias == alias)
