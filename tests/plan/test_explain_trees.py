"""What EXPLAIN says of joins that live in the shards of others."""

from __future__ import annotations

from muntin.plan.explain import explain
from muntin.sql import parse_job

STREAM = "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, over BOOLEAN) TIMESTAMP BY ts {} " \
         "WITH (format = 'json', path = '.');\n"  # fmt: skip
PROMISES = "PUNCTUATION WHEN over BINDING 1 hour"
PAIRS = "CREATE QUERY {} AS SELECT {}.k AS k, {}.j AS j FROM {}, {} WHERE {} WINDOW 10 seconds;\n"
ONE = PAIRS.format("one", "A", "B", "A", "B", "A.k = B.k")


def _explained(*queries: str) -> dict[str, list[str]]:
    """The lines of each join, by what it joins."""
    streams = STREAM.format("A", PROMISES) + "".join(STREAM.format(name, "") for name in "BCD")
    parts = explain(parse_job("SET strategy = 'state-slice';" + streams + "".join(queries))).split("\n\n")
    joins = [part.splitlines() for part in parts if part.startswith("join ")]
    return {head.split("  ")[1].split(" on ")[0]: [line.strip() for line in lines] for head, *lines in joins}


def test_a_join_says_whether_it_hears_which_keys_are_over_below():
    same = "CREATE QUERY abc AS SELECT A.id FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 10 seconds;"
    other = same.replace("abc", "abd").replace(", C ", ", D ").replace("B.k = C.k", "B.j = D.j")
    joins = _explained(same, other)
    assert "join 1 passes on which keys are over there, which frees rows of C" in joins["_A_B x C"]
    assert "which keys are over in join 1 is not passed on: the key is another one" in joins["_A_B x D"]
    assert not [line for line in joins["A x B"] if "passe" in line]


def test_a_join_with_totals_frees_nothing_by_what_is_over_below():
    totals = "CREATE QUERY n AS SELECT A.k, COUNT(*) AS n FROM A, B, C WHERE A.k = B.k AND B.k = C.k GROUP BY A.k "
    (lines,) = [lines for name, lines in _explained(totals + "EMIT FINAL WINDOW 10 seconds;").items() if "C" in name]
    said = "which keys are over in join 1 is not passed on: n is final by the last rows of the other stream"
    assert said in lines


def test_a_join_of_streams_without_promises_says_nothing_of_them():
    joins = _explained("CREATE QUERY q AS SELECT B.id FROM B, C, D WHERE B.k = C.k AND C.k = D.k WINDOW 10 seconds;")
    assert len(joins) == 2 and not [line for lines in joins.values() for line in lines if "passe" in line]


def test_a_query_that_is_done_once_more_says_where_and_how_its_streams_come():
    both = "CREATE QUERY q AS SELECT X.j AS x, Y.j AS y FROM one X, two Y WHERE X.k = Y.k WINDOW 10 seconds;"
    for key, comes in {
        "k": "C comes to these shards by the same key",
        "j": "C goes to every shard, since the key",
    }.items():
        two = PAIRS.format("two", "C", "D", "C", "D", f"C.{key} = D.{key}")
        lines = _explained(ONE, two, both)["C x D"]  # the last of the two that join them
        assert "two once more, in the shards of join 1, where its rows are wanted and do not lie" in lines
        assert [line for line in lines if line.startswith(comes)]
