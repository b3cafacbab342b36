"""Response times as counts in buckets: small, mergeable, and good enough for percentiles.

A bucket is an eighth of a doubling, so a percentile is known to within 5%; mean and maximum are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor, log2

from muntin.model.records import LEFT_OUT

PER_DOUBLING = 8


@dataclass(frozen=True)
class ResponseTimes:
    """How many rows have come, and their response times in seconds: on average, for half of them, for 99% and at most.
    Without rows there are no times."""

    rows: int = 0
    mean_s: float | None = field(default=None, metadata=LEFT_OUT)
    p50_s: float | None = field(default=None, metadata=LEFT_OUT)
    p99_s: float | None = field(default=None, metadata=LEFT_OUT)
    max_s: float | None = field(default=None, metadata=LEFT_OUT)


@dataclass
class Latency:
    """Response times of rows, in microseconds."""

    count: int = 0
    total_us: int = 0
    max_us: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, us: int, rows: int) -> None:
        """So many rows took so long."""
        us = max(us, 1)
        self.count += rows
        self.total_us += us * rows
        self.max_us = max(self.max_us, us)
        bucket = floor(PER_DOUBLING * log2(us))
        self.buckets[bucket] = self.buckets.get(bucket, 0) + rows

    def add_since(self, arrived: Mapping[int, int], now_us: int) -> None:
        """Rows by the moment at which they had arrived, handed over now."""
        for moment, rows in arrived.items():
            self.add(now_us - moment, rows)

    def merge(self, others: Iterable[Latency]) -> None:
        for other in others:
            self.count += other.count
            self.total_us += other.total_us
            self.max_us = max(self.max_us, other.max_us)
            for bucket, rows in other.buckets.items():
                self.buckets[bucket] = self.buckets.get(bucket, 0) + rows

    def percentile(self, part: float) -> float:
        """Microseconds within which a part of the rows came: the middle of their bucket, at most the maximum."""
        rank, seen = part * self.count, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return min(2 ** ((bucket + 0.5) / PER_DOUBLING), float(self.max_us))
        return 0.0

    @property
    def summary(self) -> ResponseTimes:
        if not self.count:
            return ResponseTimes()
        mean_us = self.total_us / self.count
        shown = mean_us, self.percentile(0.5), self.percentile(0.99), self.max_us
        return ResponseTimes(self.count, *(us / 1e6 for us in shown))
