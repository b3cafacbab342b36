"""What a windowed join costs: kostowski's model, section 3, with its symbols.

    lambda_a, lambda_b   rows per second that arrive on streams A and B
    t_a, t_b             windows in seconds; a window of n rows is n / lambda seconds
    n                    hash buckets on each side; 1 is the windowed nested loop

The model counts *work* (rows scanned, inserted, invalidated) per second of stream time, and multiplies each kind with
what one of it costs. A bucket is a key here, since the operator keeps one buffer per key: where the paper has fewer
buckets than keys, a scan meets rows of other keys too; ours never does, which is its figure 5 at the point where the
curve has become flat.

Deviations from the paper, both of them additions:
- Section 3.1 writes the total as twice the half cost and then sums two different halves; the sum is what is meant, and
  `whj_cost` is that sum.
- Equations 1 and 2 charge invalidation per row removed only. All invalidations remove the same rows, so the equations
  cannot tell them apart, while figure 7 does. `Invalidation.cost` adds what section 3.2 says in words: the checks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Nanoseconds of one piece of work each (kostowski 3.1); `muntin calibrate` measures them.

    `insert_ns` is for a row that arrives: finding its key and storing it. `scan_ns` is for a row looked at, the pair
    that it makes included. `invalidate_ns` is for a row taken out, `check_ns` for a comparison made to find such rows
    in a bucket that is at hand, `visit_ns` for one in any other bucket, which has to be fetched first. The paper has
    the first three only. The last two are for a state cut into slices (wang2006): `slice_ns` is for a slice that a
    probing row reaches, `route_ns` for a pair that has to be located among the windows inside a merged slice.

    Where results are delivered as they are found (hammad2003), `unit_ns` is for a unit of work, whatever it does,
    `pass_ns` for a row that a further unit goes over, and `deliver_ns` for a pair that is copied, routed and sent.
    """

    invalidate_ns: float
    scan_ns: float
    insert_ns: float
    check_ns: float = 0.0
    visit_ns: float = 0.0
    slice_ns: float = 0.0
    route_ns: float = 0.0
    unit_ns: float = 100_000.0
    pass_ns: float = 150.0
    deliver_ns: float = 100.0


DEFAULT = Constants(
    invalidate_ns=170.0, scan_ns=8.5, insert_ns=240.0, check_ns=5.0, visit_ns=4.5, slice_ns=9.0, route_ns=1.0
)
"""Where nothing was measured: what `muntin calibrate` found on the machine this was written on, rounded."""


@dataclass(frozen=True)
class Load:
    """Two streams in a steady state, keys spread evenly over `n` buckets."""

    lambda_a: float
    lambda_b: float
    t_a: float
    t_b: float
    n: float = 1

    @property
    def swapped(self) -> Load:
        """The same with A and B exchanged: the other half of every cost."""
        return Load(self.lambda_b, self.lambda_a, self.t_b, self.t_a, self.n)

    @property
    def arrivals(self) -> float:
        return self.lambda_a + self.lambda_b


def scanned(load: Load) -> float:
    """Rows looked at per second: for each arrival the window of the other side, as far as it lies in one bucket."""
    return load.lambda_a * load.lambda_b * (load.t_a + load.t_b) / load.n


def whj_cost(load: Load, c: Constants) -> float:
    """Equation 2, C(WHJ)_total: nanoseconds per second, by hashing."""
    return load.arrivals * (c.invalidate_ns + c.insert_ns) + scanned(load) * c.scan_ns
