"""A checkpoint that was restored from a back-up beside newer output, on a stand-in for Spark: it is recognised, and
`truncate_output` takes the output back to the same moment, for every output of files and every pipeline."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from muntin.model import MuntinError
from muntin.spark.run import Job
from muntin.spark.sink import read
from muntin.sql import parse_job
from whole_way.drive import kept_apart
from whole_way.standing_still import rescaled
from whole_way.test_changed_jobs import Place

STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "ABCD"
)
Q = "CREATE QUERY q AS SELECT A.k AS a, A.v AS t, B.v AS u FROM A, B WHERE A.k = B.k WINDOW 9 microseconds;"
R = "CREATE QUERY r AS SELECT C.k AS a, C.v AS t, D.v AS u FROM C, D WHERE C.k = D.k WINDOW 9 microseconds;"
JOB = STREAMS.replace("k BIGINT", "k BIGINT, v BIGINT")


SLICED = "SET output_layout = 'sliced';"


class Kept(Place):
    """A job with two pipelines, of which back-ups are taken."""

    output = ""

    def come(self, *times: int) -> None:
        super().come(*times)
        for name in "CD":
            self.session.files[name].append(self.session.files["A"][-1])

    def go(self, shards: int, mode: str = "available-now", queries: str = Q + R, **more: Any) -> list[str]:
        layout, place = (SLICED, "") if self.output == SLICED else ("", self.output)
        job = Job(self.session, parse_job(f"SET shards = {shards};" + layout + JOB + queries))  # type: ignore[arg-type]
        run = job.start(output=f"{place}{self.root / 'out'}", checkpoint=self.root / "ckpt", mode=mode, **more)
        assert run.await_termination(60)
        return run.warnings

    def back_up(self) -> None:
        shutil.copytree(self.root / "ckpt", self.root / "kept")
        self.kept = copy.deepcopy(self.session.checkpoints), copy.deepcopy(self.session.texts)

    def restore(self) -> None:
        shutil.rmtree(self.root / "ckpt")
        shutil.copytree(self.root / "kept", self.root / "ckpt")
        self.session.checkpoints, self.session.texts = copy.deepcopy(self.kept[0]), copy.deepcopy(self.kept[1])

    def read(self, query: str) -> list[tuple[Any, ...]]:
        found = []
        if self.output == SLICED:
            return [tuple(row[name] for name in "atu") for row in read(self.root / "out", query).to_table().to_pylist()]
        for file in sorted(f for f in (self.root / "out" / query).iterdir() if "b0" in f.name):
            table = pc.read_csv(file) if file.suffix == ".csv" else pq.read_table(file, partitioning=None)
            found += [tuple(row[name] for name in "atu") for row in table.to_pylist()]
        return found


@pytest.fixture(params=["", "csv:", SLICED])
def kept(tmp_path: Path, request: Any) -> Iterator[Kept]:
    with kept_apart(tmp_path):
        found = Kept(tmp_path)
        found.output = request.param
        found.come(10, 12)
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("rescales", [False, True])
def test_a_checkpoint_from_a_back_up_is_recognised_and_the_output_taken_back_to_it(kept: Kept, rescales: bool):
    kept.go(2, queries=Q)
    kept.go(2)  # which begins a second pipeline
    kept.back_up()
    shards = 2
    if rescales:
        rescaled(kept.session, kept.root / "ckpt", 3)
        shards = 3
    for time in (14, 16):
        kept.come(time)
        kept.go(shards)
    newer = {f for f in (kept.root / "out").rglob("*b0*") if f.is_file()}
    kept.restore()
    with pytest.raises(MuntinError, match="is older than its output") as refused:
        kept.go(2)
    assert refused.value.hint and "truncate_output" in refused.value.hint
    assert {f for f in (kept.root / "out").rglob("*b0*") if f.is_file()} == newer, "nothing is taken away unasked"
    said = kept.go(2, "bounded", truncate_output=True)
    assert [line for line in said if line.startswith("removed, being newer than the checkpoint")]
    times = [10, 12, 14, 16]
    want = [(7, a, b) for a in times for b in times if abs(a - b) < 9]
    for query in "qr":
        found = kept.read(query)
        assert sorted(found) == sorted(want)
        assert [max(row[1:]) for row in found] == sorted(max(row[1:]) for row in found)


def test_an_output_from_a_back_up_beside_a_newer_checkpoint_is_refused(kept: Kept):
    kept.go(2)
    shutil.copytree(kept.root / "out", kept.root / "old")
    kept.come(14)
    kept.go(2)
    shutil.rmtree(kept.root / "out")
    shutil.copytree(kept.root / "old", kept.root / "out")
    with pytest.raises(MuntinError, match="the output is older than its checkpoint"):
        kept.go(2)
    with pytest.raises(MuntinError, match="the output is older than its checkpoint"):
        kept.go(2, truncate_output=True)
