"""What two queries cost under each way of sharing: wang2006's formulas, sections 3 to 5, with its symbols.

    lam             rows per second that arrive on each of the two streams
    w1 < w2         windows of the two queries in seconds; the second also selects rows of stream A
    s_sigma         fraction of A's rows that the selection lets through
    s_join          fraction of all pairs of rows that join
    m_t             memory of one row

Memory is what the states hold. Processor is comparisons per second, all equally dear, by nested loops. These formulas
are for two queries and are here to be compared with: predictions for a job, with any number of queries, other rates on
the two streams and constants per kind of work, are made by `predict`, which agrees with them where both apply.

Where the print and its own argument differ:
- Equation 4, third line: the left side subtracts from a C_m; the right side is the saving in C_p.
- Equation 4, fourth line: the left side subtracts C_p^(3) from C_p^(1); the right side is that from C_p^(2).
- Equation 3 charges the purge of the second slice for every row of A, though only `s_sigma` of them get there.
- Section 5.2 counts `j - i + 1` times the overhead of an operator as saved, where `j - i` operators go away.
The functions are as printed, the left sides of equation 4 apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class TwoQueries:
    """Table 1 of the paper, with one rate for both streams."""

    lam: float
    w1: float
    w2: float
    s_sigma: float
    s_join: float
    m_t: float = 1.0

    @property
    def rho(self) -> float:
        return self.w1 / self.w2


@dataclass(frozen=True)
class ComparisonCost:
    """Memory of the states, and comparisons per second by what they are for."""

    memory: float
    probing: float
    purge: float
    routing: float = 0.0
    selection: float = 0.0
    union: float = 0.0

    @property
    def comparisons(self) -> float:
        return self.probing + self.purge + self.routing + self.selection + self.union


def pull_up(s: TwoQueries) -> ComparisonCost:
    """Equation 1: one join of the larger window; each pair is routed by its age and then selected."""
    pairs = 2 * s.lam**2 * s.w2
    return ComparisonCost(
        memory=2 * s.lam * s.w2 * s.m_t,
        probing=pairs,
        purge=2 * s.lam,
        routing=pairs * s.s_join,
        selection=pairs * s.s_join,
    )


def push_down(s: TwoQueries) -> ComparisonCost:
    """Equation 2: A is divided by the selection, one join for each part; B is in both."""
    first, second = 2 * (1 - s.s_sigma) * s.lam**2 * s.w1, 2 * s.s_sigma * s.lam**2 * s.w2
    return ComparisonCost(
        memory=((2 - s.s_sigma) * s.w1 + (1 + s.s_sigma) * s.w2) * s.lam * s.m_t,
        probing=first + second,
        purge=3 * s.lam,
        routing=second * s.s_join,
        selection=s.lam,
        union=2 * s.lam**2 * s.w1 * s.s_join,
    )


def state_slice(s: TwoQueries) -> ComparisonCost:
    """Equation 3: one join in two slices; between them rows of A are selected, and so are pairs of the first."""
    first, second = 2 * s.lam**2 * s.w1, 2 * s.lam**2 * s.s_sigma * (s.w2 - s.w1)
    return ComparisonCost(
        memory=(2 * s.w1 + (1 + s.s_sigma) * (s.w2 - s.w1)) * s.lam * s.m_t,
        probing=first + second,
        purge=4 * s.lam,
        selection=s.lam + first * s.s_join,
        union=2 * s.lam,
    )


def isolated(s: TwoQueries) -> ComparisonCost:
    """A join for each query, by the same argument (not in the paper): nothing is routed or united."""
    return ComparisonCost(
        memory=(2 * s.w1 + (1 + s.s_sigma) * s.w2) * s.lam * s.m_t,
        probing=2 * s.lam**2 * (s.w1 + s.s_sigma * s.w2),
        purge=(3 + s.s_sigma) * s.lam,
        selection=s.lam,
    )


class Savings(NamedTuple):
    """What state slices save, as fractions of what the other way of sharing takes."""

    memory_of_pull_up: float
    memory_of_push_down: float
    processor_of_pull_up: float
    processor_of_push_down: float


def savings(rho: float, s_sigma: float, s_join: float) -> Savings:
    """Equation 4, with `rho` = w1 / w2; of the processor only what grows with the square of the rate."""
    apart = (1 - rho) * (1 - s_sigma)
    return Savings(
        apart / 2,
        rho / (1 + 2 * rho + (1 - rho) * s_sigma),
        (apart + (2 - rho) * s_join) / (1 + 2 * s_join),
        s_sigma * s_join / (rho * (1 - s_sigma) + s_sigma + s_sigma * s_join + rho * s_join),
    )


def merge_gain(
    windows: Sequence[float], i: int, j: int, lambda_a: float, lambda_b: float, s_join: float, c_sys: float
) -> float:
    """Section 5.2, C_p^(a) - C_p^(b): comparisons per second saved by making slices i to j one (counted from 1).

    Rows are purged less often and fewer operators run, but pairs are compared with the windows inside.
    """
    start = windows[i - 2] if i > 1 else 0.0
    arrivals, merged = lambda_a + lambda_b, j - i
    routing = 2 * lambda_a * lambda_b * (windows[j - 1] - start) * s_join * merged
    return arrivals * merged - routing + c_sys * (merged + 1) * arrivals
