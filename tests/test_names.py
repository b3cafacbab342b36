"""No name that a user may give collides with one of ours: the answer does not depend on what things are called."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import muntin
from muntin.core.punctuations.propagation import key_names
from muntin.model import SqlError
from muntin.model.types import column_name_fault
from muntin.plan import make_plan
from muntin.spark.checkpoint import check_names
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

pytestmark = pytest.mark.slow

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


# -- every word of our own --------------------------------------------------------------------------------------------

ROOMS = ("core", "kernels", "plan", "testing", "spark/ingest", "spark/exchange", "spark/shard", "spark/sink")
TAKEN = ("ts", "flag")
"""What the streams below need themselves."""
AT_ONCE = 50


def own_words() -> list[str]:
    """Every text in the code on a row's way that could be a name of ours, and may be one of a user's."""
    package, found = Path(muntin.__file__).parent, set()
    files = [file for room in ROOMS for file in (package / room).rglob("*.py")]
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            found |= {f"{node.values[0].value}{n}".strip('"') for n in (0, 1)}
    words = {word.lower() for word in found if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,15}", word)}
    return sorted(words - set(TAKEN))


WORDS = own_words()


def play_columns(names: list[str]) -> dict[str, list]:
    """A job whose streams have these columns; each is an output, an argument and in a condition, some are the key."""
    columns = ", ".join(f"`{name}` BIGINT" for name in names)
    text = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, {columns}, flag BOOLEAN) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
        for s in "AB"
    )
    key = " AND ".join(f"A.`{name}` = B.`{name}`" for name in names[:: len(names) // 3])
    some = " AND ".join(f"A.`{name}` < B.`{name}` + 4 AND A.`{name}` >= 0" for name in names)
    sums = ", ".join(f"SUM(B.`{name}`) AS `{name}`" for name in names[1:])
    text += f"""
        CREATE QUERY pairs AS SELECT A.*, {", ".join(f"B.`{name}` AS `{name}_`" for name in names)} FROM A, B
          WHERE {key} AND {some} WINDOW 9 microseconds;
        CREATE QUERY groups AS SELECT A.`{names[0]}`, {sums} FROM A, B
          WHERE {key} GROUP BY A.`{names[0]}` WINDOW 9 microseconds;"""
    local, found = LocalJob(parse_job(text), shards=2), {}
    types = [("ts", pa.timestamp("us", "UTC")), *((name, pa.int64()) for name in names), ("flag", pa.bool_())]
    for start in (0, 4):
        rows = [
            {"ts": start + r, "flag": True} | {name: (r + n * start) % (2 + n % 3) for n, name in enumerate(names)}
            for r in range(4)
        ]
        table = pa.Table.from_pylist(rows, pa.schema(types))
        for query, answer in local.push({"A": table, "B": table}, ended=start == 4).items():
            found[query] = found.get(query, []) + [tuple(row.values()) for row in answer.to_pylist()]
    return {query: sorted(rows, key=repr) for query, rows in found.items()}


def test_our_own_words_are_found():
    assert {"l", "r", "t", "g", "c0", "key0", "rows", "gid", "frame", "left", "stream", "reason"} <= set(WORDS)


@cache
def plain_columns() -> dict[str, list]:
    return play_columns([f"plain{n}" for n in range(AT_ONCE)])


@pytest.mark.parametrize("first", range(0, len(WORDS) - AT_ONCE, AT_ONCE), ids=lambda first: WORDS[first])
def test_no_word_of_our_own_is_lost_to_a_user(first):
    assert all(plain_columns().values())
    assert play_columns(WORDS[first : first + AT_ONCE]) == plain_columns()
    assert first + 2 * AT_ONCE < len(WORDS) or play_columns(WORDS[-AT_ONCE:]) == plain_columns()


@pytest.mark.parametrize("name", ["_ts", "_rows", "_h1", "_rank", "_control", "_corrupt_record", "l.k", "g.0", ""])
def test_what_our_own_columns_are_called_cannot_name_a_users(name):
    text = f"CREATE STREAM A (ts TIMESTAMP, `{name}` BIGINT) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
    with pytest.raises(SqlError):
        parse_job(text)
    assert column_name_fault(name, ()) is not None


PLACES = ["l", "r", "t", "g", "a", "rows", "control", "muntin", "state", "offsets", "commits", "sources", "metadata",
          "pipelines", "plans", "requests", "answers", "staging", "checkpoint", "dead_letters", "punctuations",
          "none", "p001", "b0000000000"]  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_streams_queries_and_aliases_may_be_called_like_folders_and_aliases_of_ours(name):
    def play_as(stream: str, query: str, alias: str) -> list:
        text = "".join(
            f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', path = 'y');"
            for s in (stream, "Other")
        )
        text += f"CREATE QUERY {query} AS SELECT {alias}.k, o.ts FROM {stream} {alias}, Other o WHERE {alias}.k = o.k"
        local = LocalJob(parse_job(f"{text} WINDOW 9 microseconds;"), shards=2)
        table = pa.table({"ts": pa.array([1, 2, 3], pa.timestamp("us", "UTC")), "k": [1, 2, 1]})
        return local.push({stream: table, "Other": table}, ended=True)[query].to_pylist()

    plain = play_as("Plain", "plain", "p")
    assert plain
    assert play_as(name, name, name) == plain
    check_names([name])
