"""No name that a user may give a column collides with one of ours: the answer does not depend on what it is called."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.core.punctuations.propagation import key_names
from muntin.plan import make_plan
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

NAMES = ["t", "n", "l", "r", "x", "j", "g", "a", "c0", "rule", "key1", "entries", "tag", "gid", "frame", "message",
         "table", "count", "high", "low", "rows", "part", "Key", "a b", "it's"]  # fmt: skip
QUERIES = """
CREATE QUERY pairs AS SELECT A.`{k}` AS k, A.`{k}` + B.v AS s FROM A, B WHERE A.`{k}` = B.`{k}` AND A.v + B.v > 2
  WINDOW 9 microseconds;
CREATE QUERY sums AS SELECT A.`{k}` AS k, COUNT(*) AS n, COUNT(DISTINCT B.`{k}`) AS d, SUM(B.v) AS s, MAX(A.v) AS top
  FROM A, B WHERE A.`{k}` = B.`{k}` GROUP BY A.`{k}` WINDOW 9 microseconds;
CREATE QUERY firsts AS SELECT A.`{k}` AS k, B.v AS b FROM A, B WHERE A.`{k}` = B.`{k}`
  GROUP BY A.`{k}` ORDER BY B.v LIMIT 2 WINDOW 9 microseconds;
"""


def play(name: str, promises: str = "") -> tuple[dict, list]:
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, `{name}` BIGINT, v BIGINT, closed BOOLEAN) TIMESTAMP BY ts {promises} "
        "WITH (format = 'x', path = 'y');"
        for s in "AB"
    )
    local = LocalJob(parse_job(streams + QUERIES.format(k=name)), shards=2)
    schema = pa.schema(
        [("ts", pa.timestamp("us", "UTC")), (name, pa.int64()), ("v", pa.int64()), ("closed", pa.bool_())]
    )
    found: dict[str, list] = {q: [] for q in local.spec.queries}
    for start in (0, 4, 8):
        rows = [{"ts": start + n, name: n % 3, "v": n * 7 % 5, "closed": n == 3} for n in range(4)]
        table = pa.Table.from_pylist(rows, schema)
        for query, answer in local.push({"A": table, "B": table}, ended=start == 8).items():
            found[query] += [tuple(row.values()) for row in answer.to_pylist()]
    told = [tuple(row.values()) for tables in local.punctuations.values() for t in tables for row in t.to_pylist()]
    return {query: sorted(rows, key=repr) for query, rows in found.items()}, sorted(told, key=repr)


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_same_whatever_a_column_is_called(name):
    answers, _ = play("plain")
    assert all(answers.values())
    assert play(name)[0] == answers


@pytest.mark.parametrize("name", NAMES)
def test_punctuations_are_the_same_whatever_a_column_is_called(name):
    answers, told = play("plain", "PUNCTUATION WHEN closed")
    assert told
    assert play(name, "PUNCTUATION WHEN closed") == (answers, told)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("A.rule = B.rule", ["key1"]),
        ("A.key2 = B.key2 AND A.k + 1 = B.k", ["key2", "key3"]),
        ("A.k = B.k AND A.k = B.key2", ["k", "key2"]),
        ("A.k + 1 = B.k AND A.key1 = B.k", ["key1", "key2"]),
    ],
)
def test_the_columns_of_a_punctuation_have_names_of_their_own(where, names):
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, key1 BIGINT, key2 BIGINT, rule BIGINT) TIMESTAMP BY ts "
        "WITH (format = 'x', path = 'y');"
        for s in "AB"
    )
    (join,) = make_plan(parse_job(f"{streams} CREATE QUERY q AS SELECT A.k FROM A, B WHERE {where} WINDOW 9 s;")).joins
    assert key_names(join) == names
