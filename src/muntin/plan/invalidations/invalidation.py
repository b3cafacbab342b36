"""What an invalidation is, and what it costs: kostowski's section 3.2, with the symbols of cost.py.

Section 3.2 gives the rows that build up *between* two invalidations. With Poisson arrivals that is also their average
at any moment; with evenly spaced arrivals the average is half of it.
"""

from __future__ import annotations

from typing import ClassVar

from muntin.plan.cost import Constants, Load, whj_cost
from muntin.plan.registry import Stateless


class Invalidation(Stateless):
    """An arriving row cleans one bucket or all, of the side that it probes or of both."""

    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    all_buckets: ClassVar[bool]
    both_sides: ClassVar[bool]

    def cleanings(self, load: Load) -> float:
        """How often per second one bucket of B is cleaned: by rows of A, and of B where both sides are cleaned."""
        rows = load.lambda_a + load.lambda_b if self.both_sides else load.lambda_a
        return rows if self.all_buckets else rows / load.n

    def stale_in_bucket(self, load: Load) -> float:
        """Section 3.2: stale rows that build up in one bucket of B between two cleanings.

        Rows leave the window of a bucket at the rate `lambda_b / n` at which they came. Over the time between
        cleanings:

            probe         lambda_b / lambda_a
            probe-insert  lambda_b / (lambda_a + lambda_b)
            probe-all     lambda_b / (n * lambda_a)                  not in the paper, by the same argument
            all           lambda_b / (n * (lambda_a + lambda_b))     likewise
        """
        cleanings = self.cleanings(load)
        return load.lambda_b / load.n / cleanings if cleanings else 0.0

    def checks_per_arrival(self, load: Load) -> float:
        """Section 3.2: comparisons made to invalidate when a row of A arrives: one per bucket and one per stale row."""
        buckets = load.n if self.all_buckets else 1
        checks = buckets * (1 + self.stale_in_bucket(load))
        if self.both_sides:
            checks += buckets * (1 + self.stale_in_bucket(load.swapped))
        return checks

    def checks(self, load: Load) -> float:
        """Comparisons made to invalidate per second, for the rows of both streams."""
        return sum(half.lambda_a * self.checks_per_arrival(half) for half in (load, load.swapped))

    def visits(self, load: Load) -> float:
        """Those of the `checks` that go to buckets other than the row's own: what makes the greedy ones dear."""
        sides = (1 + self.both_sides) if self.all_buckets else 0
        return load.arrivals * sides * (load.n - 1)

    def cleaning_ns(self, load: Load, c: Constants) -> float:
        """What the checks cost, in nanoseconds per second."""
        elsewhere = self.visits(load)
        return (self.checks(load) - elsewhere) * c.check_ns + elsewhere * c.visit_ns

    def cost(self, load: Load, c: Constants) -> float:
        """Equation 2 with the checks of section 3.2: nanoseconds of work per second of stream."""
        return whj_cost(load, c) + self.cleaning_ns(load, c)
