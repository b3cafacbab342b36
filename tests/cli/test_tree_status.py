"""What `muntin status` says of joins that keep pairs in between."""

from __future__ import annotations

from muntin.cli.status import between, inputs

STREAMS = {"streams": ["A", "B"], "slices": [[{"rows": 2}], [{"rows": 3}]]}
TREE = {
    "streams": ["_A_B", "C"],
    "slices": [[{"rows": 2000}, {"rows": 5}], [{"rows": 7}]],
    "tree": {"called": ["A x B", None], "found_by": [1, None], "in_every_shard": [False, True]},
}


def test_pairs_in_between_are_named_by_their_streams_and_counted():
    assert inputs(TREE) == ["A x B of join 1", "C"]
    assert list(between(TREE)) == [
        "_A_B: 2,005 rows kept of A x B, which join 1 finds",
        "C: 7 rows kept, in every shard all of them",
    ]


def test_a_join_of_two_streams_has_nothing_in_between():
    assert inputs(STREAMS) == ["A", "B"] and not list(between(STREAMS))
