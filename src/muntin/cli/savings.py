"""What sharing saves, measured: the same micro-batches through one job with all queries, and through one job per query.

Nothing here is estimated. The unshared side is the very operator of the shared job with a single query in it, so the
difference between the two is the sharing alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import pyarrow as pa

from muntin.core.batch import Counters
from muntin.model import JobSpec
from muntin.testing import LocalJob

Batch = Mapping[str, pa.Table]
"""One micro-batch: the rows of each stream, by its name."""


@dataclass(frozen=True)
class WorkDone:
    """What a job did with its whole input. `kept_rows` is the most it kept or held after any micro-batch."""

    input_rows: int = 0
    kept_rows: int = 0
    comparisons: int = 0
    pairs: int = 0
    delivered_rows: int = 0
    seconds: float = 0.0

    def __add__(self, other: WorkDone) -> WorkDone:
        return WorkDone(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def measure(spec: JobSpec, batches: Sequence[Batch]) -> tuple[WorkDone, WorkDone]:
    """The work of the shared job, and the sum over jobs of one query each."""
    work(spec, batches[:1])  # compiles the kernels, so that the clock sees the work alone
    alone = (work(replace(spec, queries={query.name: query}), batches) for query in spec.queries.values())
    return work(spec, batches), sum(alone, WorkDone())


def work(spec: JobSpec, batches: Sequence[Batch]) -> WorkDone:
    """Run a job in this process, on one core, from empty to the end of its streams."""
    job, kept, delivered, began = LocalJob(spec), 0, 0, time.perf_counter()
    for n, batch in enumerate(batches):
        answers = job.push(batch, ended=n == len(batches) - 1)
        delivered += sum(table.num_rows for table in answers.values())
        kept = max(kept, sum(sum(c.state_rows) + sum(c.held_rows) for c in _counters(job)))
    seconds = time.perf_counter() - began
    read = sum(batch[stream.name].num_rows for batch in batches for stream in job.plan.streams)
    comparisons, pairs = (sum(getattr(c, name) for c in _counters(job)) for name in ("comparisons", "pairs"))
    return WorkDone(read, kept, comparisons, pairs, delivered, seconds)


def _counters(job: LocalJob) -> list[Counters]:
    return [counters for join in job.plan.joins for counters in job.counters(join.index)]
