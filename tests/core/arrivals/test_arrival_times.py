"""A pair has arrived with the later-arriving of its two rows, however long rows are held and wherever batches end."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.arrivals.sharding import shard_rows
from muntin.core.batch import CAME, Arrivals
from muntin.core.operator import Operator
from muntin.core.operator_state import OperatorMeta
from muntin.core.results import ResultBatch, counted, routed
from muntin.model import Side
from muntin.model.records import from_json, to_json
from muntin.plan import share
from muntin.sql import parse_job
from muntin.testing.local_job import _span, _timed
from worlds import EXAMPLES, ROW, STREAMS, rows

QUERIES = (
    "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v > 1 WINDOW 6 microseconds;"
    "CREATE QUERY r AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 3 microseconds;"
)


MOMENTS = st.one_of(st.just([]), st.lists(st.integers(0, 3), min_size=1, max_size=6))
"""By how much rows of a micro-batch came later than it began, over and over; none: all came together."""


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(st.tuples(rows(0), rows(0), st.booleans(), MOMENTS), min_size=1, max_size=4),
    st.sampled_from([0, 3, 20]),
    st.sampled_from([10, 3]),
)
def test_every_pair_counts_from_the_later_arrival(batches, lateness, tick):
    """Also where rows of a micro-batch came apart. No row came before those of the micro-batch before its own."""
    spec = parse_job(STREAMS.format(late=lateness) + QUERIES)
    join = share(spec).joins[0]
    operator, log, moments = Operator(join), {}, ({}, {})
    number = 0
    for n, (left, right, restart, later) in enumerate([*batches, ([], [], False, [])], 1):
        tables, began = [], 100 + tick * n
        for side, found in zip(Side, (left, right), strict=True):
            own = [{**row, "id": (number := number + 1), "ts": row["ts"] + 2 * n} for row in found]
            moments[side].update({row["id"]: began + (later[row["id"] % len(later)] if later else 0) for row in own})
            tables.append(_timed(join.streams[side], pa.Table.from_pylist(own, ROW)))
        parts = [shard_rows(join, side, tables[side], 1)[0] for side in Side]
        if later:
            parts = [
                part.append_column(CAME, pa.array([moments[side][row] for row in part["id"].to_pylist()], pa.int64()))
                for side, part in zip(Side, parts, strict=True)
            ]
        (low, high), (low2, high2) = (_span(t) for t in tables)
        ended = (n > len(batches),) * 2
        arrivals = Arrivals((parts[0], parts[1]), (low, low2), (high, high2), ended, moment=began)
        step = operator.advance(arrivals)
        run = ResultBatch.from_bytes(join, step.found.whole().to_bytes())
        times = {}
        for query, places in routed(join, run):
            ids = [run.rows[side]["id"].to_numpy()[run.pairs[side][places]] for side in Side]
            want = [max(moments[0][a], moments[1][b]) for a, b in zip(*(i.tolist() for i in ids), strict=True)]
            assert run.moments(places).tolist() == want, query.name
            times[query.name] = {m: want.count(m) for m in set(want)}
            assert run.arrivals(places) == times[query.name]
        assert counted(step.found) == times
        log.update(step.puts)
        for name in step.deletes:
            del log[name]
        operator.tidy()
        if restart:
            operator = Operator.restore(
                join, from_json(OperatorMeta, json.loads(json.dumps(to_json(operator.meta)))), log
            )
    assert operator.intake.arrival_times.known == []
