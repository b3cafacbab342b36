"""What an ordering is, and which joins have no choice of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from muntin.model import Axis, Side
from muntin.plan.joins import SharedJoin
from muntin.plan.orderings.pace import Pace
from muntin.plan.registry import Stateless


class Ordering(Stateless, ABC):
    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    adapts: ClassVar[bool] = False
    """Whether it changes between others while the job runs, by the load that `alpha` is compared with."""

    @abstractmethod
    def joins_ahead(self, now: bool = False) -> bool:
        """Whether rows are joined as soon as their own stream has passed them, and results wait for the other.

        `now` says whether that is so at the moment, for an ordering that changes.
        """

    def for_load(self, load: float, alpha: float) -> Ordering:
        """The ordering that suits a load: itself, unless it adapts."""
        return self

    def response_s(self, pace: Pace) -> float | None:
        """How long a row of the faster stream takes from its arrival to its results, on average.

        None for an ordering that changes between others: its answer is one of theirs.
        """
        return None


def must_wait(join: SharedJoin) -> str | None:
    """Why the rows of a join cannot be joined ahead of the other stream, whatever is set; None where they can.

    Rows are numbered in one order over both streams. Without an equality a row looks for partners in every shard and
    is kept in one, and a pair is found where the first of its rows is kept: the first in time, so that it is the same
    one in all shards, also in one that is built anew. Where partners are only later than the rows of one stream, those
    of the other are not kept, so they must not come before their partners do.
    """
    if Axis.ROWS in join.axes:
        return "counts rows, and their numbers depend on both streams"
    if any(not q.is_inner for q in join.queries):
        return "has a query that asks whether a row has a match, which both streams together say"
    if any(query.window.side(side) == 0 for query in join.queries for side in Side):
        return "has an interval on one side of a row's time, so that rows of one stream only look and are not kept"
    return None if join.keys else "has no equality, and a pair is found where its earlier row is kept"


def reason_to_wait(join: SharedJoin, hears_promises: bool, eager: bool) -> str | None:
    """The same for a join in a job: promises take effect in one order, and eager delivery joins rows in order."""
    if (reason := must_wait(join)) is not None:
        return reason
    if hears_promises:
        return "is told by promises which keys are over, in one order over both streams"
    return "delivers its results as it finds them" if eager else None
