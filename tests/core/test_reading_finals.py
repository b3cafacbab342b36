"""Queries over the totals of EMIT FINAL: each is a row of a stream, at the time when its key was over."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest

from muntin.core.batch import stream_schema
from muntin.model import SqlError
from muntin.oracle import answer_of_many
from muntin.sql import parse_job
from muntin.testing import LocalJob

STREAMS = """
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 us
  WITH (format = 'json', path = '.');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts PUNCTUATION WHEN closed
  WITH (format = 'json', path = '.');
CREATE STREAM C (ts TIMESTAMP, id BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 1 us
  WITH (format = 'json', path = '.');
CREATE QUERY totals AS SELECT A.k, COUNT(*) AS n, MAX(A.v) AS most FROM A, B WHERE A.k = B.k AND A.v > 0
  GROUP BY A.k {having} WINDOW 5 us EMIT FINAL;
"""
BY_KEY = "CREATE QUERY q AS SELECT T.k, T.n, C.id AS c FROM totals T JOIN C ON T.k = C.k WINDOW 6 us;"
BY_VALUE = "CREATE QUERY q AS SELECT T.k, T.n, C.id AS c FROM totals T JOIN C ON T.most = C.v AND T.n > 1 WINDOW 6 us;"
HOLDS = {
    BY_KEY: lambda t, c: t["k"] == c["k"],
    BY_VALUE: lambda t, c: t["most"] == c["v"] and t["n"] > 1,
}


def _rows(rng: random.Random) -> dict[str, list[dict]]:
    """Keys one after the other, each of them over soon; some come again, and some end with the streams."""
    found = {}
    for name in "ABC":
        times = sorted(rng.randrange(60) for _ in range(40))
        rows = [{"ts": t, "id": n, "k": t // 8 + rng.randrange(2), "v": rng.randrange(4)} for n, t in enumerate(times)]
        for row in rows if name == "B" else ():
            row["closed"] = row.pop("v") == 0
        found[name] = rows
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("query", [BY_KEY, BY_VALUE])
def test_totals_that_are_final_join_as_any_stream(seed, query):
    rng = random.Random(seed)
    rows = _rows(rng)
    spec = parse_job(STREAMS.format(having=rng.choice(["", "HAVING COUNT(*) > 1"])) + query)
    job, got = LocalJob(spec, rng.choice([1, 2, 3]), checks=True), {"totals": [], "q": []}
    cuts = [-99, *sorted(rng.randrange(62) for _ in range(rng.randrange(1, 7))), 99]
    for low, high in pairwise(cuts):
        batch = {}
        for name in "ABC":
            schema, mine = stream_schema(spec.streams[name]), [r for r in rows[name] if low <= r["ts"] < high]
            arrays = [pa.array([r[f.name] for r in mine]).cast(f.type, safe=False) for f in schema]
            batch[name] = pa.Table.from_arrays(arrays, schema=schema)
        for name, table in job.push(batch, ended=high == 99).items():
            got[name].append(table)
        if rng.random() < 0.5:
            job.restart()
    totals, found = (pa.concat_tables(got[name]) for name in ("totals", "q"))
    assert totals["_ts"].to_pylist() == sorted(totals["_ts"].to_pylist())
    stamps = totals["_ts"].cast(pa.int64()).to_pylist()
    read = [dict(row, ts=ts) for row, ts in zip(totals.to_pylist(), stamps, strict=True)]
    assert len({row["ts"] for row in read}) > 1, "some are over before the streams end"
    expected = Counter(
        (t["k"], t["n"], c["id"], ts) for (t, c), ts in answer_of_many((6, 6), [read, rows["C"]], HOLDS[query])
    )
    times = found["_ts"].cast(pa.int64()).to_pylist()
    assert expected
    assert Counter(zip(*(found[c].to_pylist() for c in ("k", "n", "c")), times, strict=True)) == expected


def test_groups_that_change_cannot_be_read():
    text = STREAMS.replace("EMIT FINAL", "EMIT CHANGES").format(having="") + BY_KEY
    with pytest.raises(SqlError, match="reading the groups of totals, which change") as raised:
        parse_job(text)
    assert "EMIT FINAL" in raised.value.hint
