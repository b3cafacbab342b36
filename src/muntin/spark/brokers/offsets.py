"""How far a micro-batch goes in a broker: arithmetic over offsets, without a broker.

An offset of ours says for each place, a partition of a topic, which message comes next: `{"bids": {"0": 17}}`. Spark
compares offsets as texts, so places stand in order. A place that is new joins with its first message as the next one,
in a micro-batch that reads nothing of it: so a replay begins where the first try did, though older messages may have
expired since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class MessageLog(NamedTuple):
    """A partition of a topic, or a stream of NATS as its partition 0."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"partition {self.partition} of {self.topic}"


class Extent(NamedTuple):
    """The first message that is there, and the one after the last."""

    low: int
    high: int


Offsets = dict[MessageLog, int]
"""Which message comes next, by place."""
Stored = dict[str, dict[str, int]]
"""Offsets as Spark keeps them."""


class Loss(NamedTuple):
    """Messages that are gone before they were read, or a place that begins anew."""

    place: MessageLog
    wanted: int
    bounds: Extent

    def __str__(self) -> str:
        if self.wanted > self.bounds.high:
            return f"{self.place} ends at {self.bounds.high}, but was read up to {self.wanted}: it was made anew"
        return f"messages {self.wanted} to {self.bounds.low - 1} of {self.place} have expired before they were read"


def stored(offsets: Mapping[MessageLog, int]) -> Stored:
    found: Stored = {}
    for place in sorted(offsets):
        found.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return found


def from_stored(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """What Spark has kept; refuses what is no offset of ours."""
    found = {MessageLog(topic, int(number)): at for topic, places in offsets.items() for number, at in places.items()}
    if any(not isinstance(at, int) or at < 0 for at in found.values()):
        raise ValueError(f"not an offset: {offsets}")
    return found


def advance(start: Offsets, bounds: Mapping[MessageLog, Extent], limit: int | None) -> Offsets:
    """The end of the next micro-batch: at most `limit` messages, from each place as its share of what waits, so that
    places come to their ends together. A place that is not there stays where it is, one that was made anew begins."""
    here = {place: at for place, at in start.items() if place in bounds and at <= bounds[place].high}
    here = {place: max(at, bounds[place].low) for place, at in here.items()}
    waiting = {place: bounds[place].high - at for place, at in here.items()}
    total = sum(waiting.values())
    shares = waiting
    if limit is not None and total > limit:
        shares = {place: limit * count // total for place, count in waiting.items()}
        left_over = limit - sum(shares.values())
        shares |= {place: shares[place] + 1 for place in sorted(waiting, key=lambda p: -waiting[p])[:left_over]}
    new = {place: found.low for place, found in bounds.items() if place not in here}
    return start | new | {place: at + shares[place] for place, at in here.items()}


def losses(start: Offsets, bounds: Mapping[MessageLog, Extent]) -> list[Loss]:
    """Where messages that come next are not there any more."""
    found = [Loss(place, at, bounds[place]) for place, at in sorted(start.items()) if place in bounds]
    return [loss for loss in found if loss.wanted < loss.bounds.low or loss.wanted > loss.bounds.high]
