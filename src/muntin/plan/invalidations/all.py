"""All (kostowski 4.2, there called optimal): the smallest state, at the highest price."""

from __future__ import annotations

from muntin.plan.invalidations.invalidation import Invalidation


class All(Invalidation):
    name = "all"
    paper = "kostowski, section 4.2"
    summary = "a row cleans every bucket of both sides, so that no stale row is kept"
    all_buckets = True
    both_sides = True
