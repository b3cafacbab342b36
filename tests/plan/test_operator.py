"""What is predicted against what the operator counts, on Poisson streams in a steady state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from muntin.plan import Plan, share
from muntin.plan.cost import DEFAULT
from muntin.plan.predict import predict, traffics_of
from muntin.plan.traffic import Knowledge
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

SECOND = 1_000_000
ROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
STREAM = """
CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts WITH (format = 'json', path = 'x');
"""
QUERIES = {
    "q1": ("B.v > 20", 1),
    "q2": ("A.v > 50", 3),
    "q3": ("A.v > 80 AND B.v > 60", 6),
    "q4": ("A.v < 10", 7),
}
RATES = {"A": 400.0, "B": 250.0}
KEYS = 40
KNOWN = Knowledge(
    rates=RATES, keys=KEYS, selectivities={"q1": (None, 0.8), "q2": (0.5, None), "q3": (0.2, 0.4), "q4": (0.1, None)}
)
WARM_S, RUN_S = 9, 30

SPEC = parse_job(
    "\n".join(
        [STREAM.format("A"), STREAM.format("B")]
        + [
            f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND {where} WINDOW {w} s;"
            for name, (where, w) in QUERIES.items()
        ]
    )
)


def merged() -> Plan:
    plan = share(SPEC)
    cuts = ((3 * SECOND, 7 * SECOND), (SECOND, 7 * SECOND))
    return replace(plan, joins=tuple(replace(join, cuts=cuts) for join in plan.joins))


def second_of_rows(rng: np.random.Generator, rate: float, start: int) -> pa.Table:
    n = rng.poisson(rate)
    times = np.sort(rng.integers(start * SECOND, (start + 1) * SECOND, n))
    columns = [times, np.arange(n), rng.integers(0, KEYS, n), rng.uniform(0, 100, n)]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, ROW, strict=True)], schema=ROW)


def counted(plan: Plan) -> tuple[float, float, float]:
    """Rows kept on average, and rows looked at and pairs placed by age per second."""
    rng, job, kept, before = np.random.default_rng(3), LocalJob(SPEC, plan=plan), [], np.zeros(2)
    for start in range(WARM_S + RUN_S):
        job.push({name: second_of_rows(rng, rate, start) for name, rate in RATES.items()})
        counters = [c for join in plan.joins for c in job.counters(join.index)]
        work = np.array([sum(c.comparisons for c in counters), sum(c.routed for c in counters)], float)
        if start < WARM_S:
            before = work
        else:
            kept.append(sum(sum(c.state_rows) for c in counters))
    looked_at, routed = (work - before) / RUN_S
    return float(np.mean(kept)), float(looked_at), float(routed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["state-slice", "merged", "pull-up", "push-down", "isolated"])
def test_rows_kept_rows_looked_at_and_pairs_placed_by_age_are_those_predicted(name):
    plan = merged() if name == "merged" else share(SPEC, name)
    expected = predict(SPEC, plan, traffics_of(share(SPEC).joins, KNOWN), DEFAULT)
    assert (expected.rows, expected.comparisons, expected.routed) == pytest.approx(counted(plan), rel=0.05)
