"""What the shards of a join have counted adds up to what the join has."""

from __future__ import annotations

from dataclasses import fields

from muntin.core.batch import Counters


def numbered(first: int) -> Counters:
    """Counters of which no two are alike."""
    made = Counters()
    for n, counter in enumerate(fields(Counters), first):
        setattr(made, counter.name, [n, 100 * n] if isinstance(getattr(made, counter.name), list) else n)
    return made


def test_every_counter_is_added_up_side_by_side():
    one, two = numbered(1), numbered(1000)
    total = Counters.total([one, two])
    for counter in fields(Counters):
        a, b, both = (getattr(counters, counter.name) for counters in (one, two, total))
        assert both == ([a[0] + b[0], a[1] + b[1]] if isinstance(a, list) else a + b), counter.name
    assert one == numbered(1), "what is added up stays as it was"


def test_nothing_adds_up_to_nothing():
    assert Counters.total([]) == Counters()
