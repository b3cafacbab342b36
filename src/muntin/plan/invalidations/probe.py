"""Probe (kostowski 4.2): the least work for each row, and the most stale rows."""

from __future__ import annotations

from muntin.plan.invalidations.invalidation import Invalidation


class Probe(Invalidation):
    name = "probe"
    paper = "kostowski, section 4.2"
    summary = "a row cleans the bucket that it probes"
    all_buckets = False
    both_sides = False
