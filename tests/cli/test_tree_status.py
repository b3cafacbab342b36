"""What `muntin status` says of joins that keep pairs in between."""

from __future__ import annotations

from muntin.cli.status import between, inputs
from muntin.core.batch import Counters
from muntin.spark.run.status import JoinStatus, OrderingStatus, SliceStatus, TreeStatus


def joining(streams, rows, tree=None):
    """A join of two streams that keeps so many rows in each slice of either state."""
    return JoinStatus(
        join=2,
        streams=streams,
        queries=[],
        frontiers=[None, None],
        slices=[[SliceStatus(0, 1, kept) for kept in side] for side in rows],
        axes=["time", "time"],
        bytes=0,
        fullest_keys=[None, None],
        held_rows=[0, 0],
        held_pairs=0,
        idle=[False, False],
        ordering=OrderingStatus("sync-filter", 0),
        counters=Counters(),
        rebuilt=0,
        tree=tree,
    )


STREAMS = joining(["A", "B"], [[2], [3]])
TREE = joining(["_A_B", "C"], [[2000, 5], [7]], TreeStatus(["A x B", None], [1, None], [False, True]))


def test_pairs_in_between_are_named_by_their_streams_and_counted():
    assert inputs(TREE) == ["A x B of join 1", "C"]
    assert list(between(TREE)) == [
        "_A_B: 2,005 rows kept of A x B, which join 1 finds",
        "C: 7 rows kept, in every shard all of them",
    ]


def test_a_join_of_two_streams_has_nothing_in_between():
    assert inputs(STREAMS) == ["A", "B"] and not list(between(STREAMS))
