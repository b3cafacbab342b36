"""Probe-insert (kostowski 4.2): both buckets are at hand anyway."""

from __future__ import annotations

from muntin.plan.invalidations.invalidation import Invalidation


class ProbeInsert(Invalidation):
    name = "probe-insert"
    paper = "kostowski, section 4.2"
    summary = "a row cleans the bucket that it probes and the one that it enters"
    all_buckets = False
    both_sides = True
