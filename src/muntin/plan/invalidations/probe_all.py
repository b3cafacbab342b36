"""Probe-all (kostowski 4.2): every bucket of one side is visited for every row."""

from __future__ import annotations

from muntin.plan.invalidations.invalidation import Invalidation


class ProbeAll(Invalidation):
    name = "probe-all"
    paper = "kostowski, section 4.2"
    summary = "a row cleans every bucket of the side that it probes"
    all_buckets = True
    both_sides = False
