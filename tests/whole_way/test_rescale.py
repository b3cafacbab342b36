"""`muntin rescale` on a stand-in for Spark: what it keeps, what it refuses, and what a crash in the middle leaves.

Random jobs are rescaled too (`random_jobs.py`), with every kind of join, promise and aggregate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from muntin.model import JobSpec, MuntinError, UsageError
from muntin.spark.checkpoint import PlanLog, identity, last_manifest, stored_job
from muntin.spark.run import rescaling
from whole_way.drive import kept_apart
from whole_way.standing_still import rescaled, stands_still
from whole_way.test_changed_jobs import Place

JOB = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
Q = "CREATE QUERY q AS SELECT A.k AS a, A.ts AS t, B.ts AS u FROM A, B WHERE A.k = B.k WINDOW 9 microseconds;"
TWO = "SET shards = 2;" + JOB + Q
FOUR = TWO.replace("2", "4", 1)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with kept_apart(tmp_path):
        found = Place(tmp_path)
        found.come(10, 12)
        yield found


def want(*times: int) -> list[tuple[Any, ...]]:
    return sorted((7, a, b, max(a, b)) for a in times for b in times if abs(a - b) < 9)


def in_order(place: Place) -> list[tuple[Any, ...]]:
    rows = place.rows("q")
    assert [row[-1] for row in rows] == sorted(row[-1] for row in rows)
    return sorted(rows)


def test_a_rescaled_job_goes_on_and_its_old_state_goes_when_it_has_run(place: Place):
    checkpoint = place.root / "ckpt"
    place.run(TWO)
    with pytest.raises(UsageError, match="shards: was 2, is 4; all rows that are kept lie in other shards") as refused:
        place.start(FOUR)
    assert "muntin rescale" in refused.value.message
    done = rescaled(place.session, checkpoint, 4)
    assert (done.before, done.after, done.rows) == (2, 4, 4)
    assert rescaled(place.session, checkpoint, 4).rows == 0
    assert (checkpoint / "muntin" / "plans").exists() and (checkpoint / "offsets").exists()
    with pytest.raises(UsageError, match="shards: was 4, is 2"):
        place.start(TWO)
    place.come(14)
    status = place.run(FOUR).status()
    assert status["queries"]["q"]["total_rows"] == 9
    assert [p["pipeline"] for p in status["pipelines"]] == [1]
    assert (checkpoint / "offsets").exists(), "as long as the start that ran it"
    place.come(16)
    place.run(JOB + Q, "bounded")  # a job that leaves it open keeps what there is
    assert not (checkpoint / "offsets").exists() and not (checkpoint / "muntin" / "plans").exists()
    assert in_order(place) == want(10, 12, 14, 16)
    assert [f.name[:6] for f in sorted((place.root / "out" / "q").glob("*b0*"))][-1] == "p001-b"


def test_queries_and_streams_of_several_pipelines_move_together(place: Place):
    more = (
        JOB.replace("STREAM A", "STREAM C").replace("'A'", "'C'").replace("STREAM B", "STREAM D").replace("'B'", "'D'")
    )
    other = "CREATE QUERY r AS SELECT C.k AS a, C.ts AS t, D.ts AS u FROM C, D WHERE C.k = D.k WINDOW 9 microseconds;"
    text = "SET shards = 3;" + JOB + more + Q
    for name in "CD":
        place.session.files[name] = place.session.files["A"][:]
    place.run(text)
    place.run(text + other)
    assert rescaled(place.session, place.root / "ckpt", 2).rows == 8
    place.come(14)
    for name in "CD":
        place.session.files[name].append(place.session.files["A"][-1])
    status = place.run((text + other).replace("3", "2", 1), "bounded").status()
    assert in_order(place) == want(10, 12, 14)
    assert sorted(place.rows("r")) == want(10, 12, 14)
    assert sorted(p["pipeline"] for p in status["pipelines"]) == [2, 3]


@pytest.mark.parametrize("step", ["seed", "offsets", "retire", "end"])
def test_a_rescale_that_dies_leaves_a_job_that_goes_on(place: Place, step: str):
    """Before all is made, as it was; after that, with the new shards."""
    place.run(TWO)
    checkpoint = place.root / "ckpt"
    where = {
        "seed": (rescaling.spark_checkpoint, "seed"),
        "offsets": (rescaling, "write_manifest"),
        "retire": (rescaling.identity, "retire"),
        "end": (rescaling, "_renumber_status"),
    }[step]

    def dies(*_: Any, **__: Any) -> None:
        raise MuntinError("killed")

    with mock.patch.object(*where, dies), pytest.raises(MuntinError, match="killed"):
        rescaled(place.session, checkpoint, 4)
    made = step in ("retire", "end")
    assert (checkpoint / "muntin" / "rescale.json").exists() is made
    place.come(14)
    place.run(FOUR if made else TWO)
    assert not (checkpoint / "muntin" / "rescale.json").exists()
    if not made:
        rescaled(place.session, checkpoint, 4)
    place.come(16)
    place.run(FOUR, "bounded")
    assert in_order(place) == want(10, 12, 14, 16)
    stored = stored_job(identity.pipeline_folder(checkpoint, 1))
    assert stored is not None and stored.settings.shards == 4


def test_a_change_that_waits_comes_into_force_afterwards(place: Place):
    place.run(TWO)
    run = place.start(TWO, "endless")
    run._router.submit(Q.replace("QUERY q", "QUERY p").replace("9", "3"))
    run.stop()  # before a micro-batch has taken it
    rescaled(place.session, place.root / "ckpt", 4)
    place.come(14)
    place.run(FOUR, "bounded")
    assert in_order(place) == want(10, 12, 14)
    assert [row[-1] for row in place.rows("p")] == [14, 14, 14]


def test_a_job_may_follow_the_cores_that_there_are(place: Place):
    auto = "SET shards = 'auto';" + JOB + Q
    place.run(auto)
    place.session.defaultParallelism = 4
    place.come(14)
    with stands_still(place.session):
        assert place.run(auto).warnings == ["shards: were 2, are 4, one for each core; 4 rows were moved"]
        place.come(16)
        place.session.faults.kill = "before commit"
        with pytest.raises(MuntinError):
            place.run(auto)
        place.session.defaultParallelism = 3
        (said,) = place.run(auto).warnings
        assert said.startswith("the job goes on with 4 shards, not with 3: micro-batch 2 of ")
        assert place.run(auto, "bounded").warnings == ["shards: were 4, are 3, one for each core; 8 rows were moved"]
    assert in_order(place) == want(10, 12, 14, 16)


TREE = "CREATE QUERY t AS SELECT P.a AS a, P.t AS t, P.u AS u, C.ts AS c FROM q P JOIN A C ON P.a + {} = C.k " \
       "WINDOW 9 microseconds;"  # fmt: skip


@pytest.mark.parametrize("other", ["0", "A key"])
def test_trees_move_with_the_joins_that_they_read(place: Place, other: str):
    """By another key the stream beside what was found is in every shard, before and after."""
    tree = TREE.format(other) if other == "0" else TREE.replace(" + {}", "")
    place.run(TWO + tree)
    spread = [any(join.everywhere) for join in PlanLog(place.root / "ckpt", JobSpec()).stored(0).joins]
    assert spread == [False, other == "0"]
    moved = rescaled(place.session, place.root / "ckpt", 3).rows
    assert moved >= 4
    place.come(14)
    place.run(TWO.replace("2", "3", 1) + tree, "bounded")
    assert in_order(place) == want(10, 12, 14)
    pairs = [(a, t, u, max(t, u), c) for a, t, u, _ in want(10, 12, 14) for c in (10, 12, 14)]
    assert sorted(place.rows("t")) == sorted((a, t, u, c, max(at, c)) for a, t, u, at, c in pairs if abs(at - c) < 9)


def test_a_tree_that_comes_back_to_its_first_key_keeps_its_shards(place: Place):
    text = (
        TWO
        + TREE.format("0")
        + TREE.format("")
        .replace(" + ", "")
        .replace("QUERY t", "QUERY v")
        .replace("SELECT P.a AS a, P.t AS t, P.u AS u, C.ts AS c FROM q P", "SELECT P.a AS a, C.ts AS c FROM t P")
    )
    place.run(text)
    with pytest.raises(UsageError, match="query v joins by the key of its first join what a join by another key has"):
        rescaled(place.session, place.root / "ckpt", 3)


def test_what_cannot_be_rescaled_is_refused(place: Place):
    checkpoint = place.root / "ckpt"
    with pytest.raises(UsageError, match="is not the checkpoint of a job"):
        rescaled(place.session, checkpoint, 4)
    place.run(TWO)
    with pytest.raises(UsageError, match="0 shards"):
        rescaled(place.session, checkpoint, 0)
    place.come(14)
    place.session.faults.kill = "before commit"
    with pytest.raises(MuntinError):
        place.run(TWO)
    with pytest.raises(UsageError, match="is in the output, and Spark has not noted it"):
        rescaled(place.session, checkpoint, 4)
    place.run(TWO, "bounded")
    with pytest.raises(UsageError, match="a bounded run has ended the streams"):
        rescaled(place.session, checkpoint, 4)
    assert last_manifest(checkpoint).batch == 2 and in_order(place) == want(10, 12, 14)
