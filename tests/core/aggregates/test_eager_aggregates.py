"""With eager delivery aggregates have the rows of batch delivery, beside queries whose rows leave as they are found."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.schedule import WorkLimit
from muntin.plan.schedulers import SCHEDULERS
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import EXAMPLES, ROW, STREAMS, rows

QUERIES = {
    "pairs": "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 6 microseconds",
    "few": "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v > 1 WINDOW 2 microseconds",
    "changes": "SELECT A.g, COUNT(*) AS n, SUM(B.v) AS s FROM A, B WHERE A.k = B.k GROUP BY A.g "
    "WINDOW 4 microseconds EMIT CHANGES",
    "every": "SELECT COUNT(*) AS n, MAX(A.v) AS m FROM A, B WHERE A.k = B.k AND B.v > 0 WINDOW 8 microseconds "
    "EVERY 3 microseconds",
    "last": "SELECT A.k, COUNT(*) AS n, MIN(A.v + B.v) AS m FROM A, B WHERE A.k = B.k GROUP BY A.k "
    "WINDOW 3 microseconds EMIT FINAL",
}
SUMMED = ("changes", "every", "last")


def results(delivery: str, scheduler: str, batches: list, restarts: list[bool], lateness: int, shape: tuple) -> dict:
    names, shards, run_length = shape
    text = STREAMS.format(late=lateness) + "".join(f"CREATE QUERY {n} AS {QUERIES[n]};" for n in names)
    spec = parse_job(text)
    spec = replace(
        spec, settings=replace(spec.settings, delivery=delivery, scheduler=scheduler, ordering="sync-filter")
    )
    job = LocalJob(spec, shards, run_length=run_length)
    if delivery == "eager":
        for operator in [shard.operator for shards_of in job.shards for shard in shards_of]:
            operator.work_limit = WorkLimit(1, None, scheduler)  # all but one unit would be left
    got: dict[str, list] = {name: [] for name in names}
    for batch, restart in zip([*batches, None], [*restarts, False], strict=False):
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, ROW) for s, r in zip("AB", batch, strict=True)}
        for name, table in job.push(tables, ended=batch is None).items():
            got[name].append(table.to_pylist())
        if restart:
            job.restart()
    return got


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(st.tuples(rows(0), rows(0)), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(SCHEDULERS.names),
    st.sampled_from([0, 3]),
    st.sets(st.sampled_from(list(QUERIES)), min_size=1),
    st.integers(1, 2),
    st.integers(1, 4),
)
def test_aggregates_are_those_of_batch_delivery_micro_batch_by_micro_batch(
    batches, restarts, scheduler, lateness, names, shards, run_length
):
    """Also where the driver limits the work: a join with aggregates does all of it."""
    shape = sorted(names | {"changes"}), shards, run_length
    batch = results("batch", "auto", batches, restarts, lateness, shape)
    eager = results("eager", scheduler, batches, restarts, lateness, shape)
    for name in shape[0]:
        if name in SUMMED:
            assert eager[name] == batch[name], name
        else:
            for got, wanted in zip(eager[name], batch[name], strict=True):
                assert [row["_ts"] for row in got] == sorted(row["_ts"] for row in got)
                assert sorted(got, key=str) == sorted(wanted, key=str), name
