"""Exactly once at every point where a process can die."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from muntin.spark.checkpoint import KEPT_MANIFESTS, BatchOutcome, Publisher, Staged
from muntin.spark.checkpoint import publisher as publishing
from muntin.spark.checkpoint.reports import ShardChange, ShardReport

CHANGE = ShardChange(epoch=7, applied_from=5, complete_from={"q": None, "r": 9}, freed_rows=1, freed_bytes=8)


def stage(publisher: Publisher, batch: int, text: str = "rows") -> list[Staged]:
    folder = publisher.staging_folder(batch)
    assert publisher.output is not None
    file = folder / "x.parquet"
    file.write_text(text)
    return [Staged("q", 0, 4, str(file.relative_to(publisher.output)))]


def outcome(batch: int, staged: list[Staged], rows: int = 4) -> BatchOutcome:
    return BatchOutcome(batch, staged, rows=Counter(q=rows))


def committed(output: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in sorted((output / "q").glob("*"))}


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "ckpt", tmp_path / "out"


def test_a_batch_is_published_once_and_sums_run_on(place: tuple[Path, Path]):
    for batch in range(3):
        publisher = Publisher(*place)
        publisher.recover()
        done = outcome(batch, stage(publisher, batch))
        done.dead_letters["late"] += 1
        done.reports = [ShardReport(join=0, shard=batch % 2, epoch=batch, changes=[CHANGE])]
        publisher.publish(done)
    assert list(committed(place[1])) == [f"b{n:010d}-000.parquet" for n in range(3)]
    last = Publisher(*place).last
    assert (last.total_rows, last.total_dead_letters) == ({"q": 12}, {"late": 3})
    assert last.reports == {"0/0": ShardReport(0, 0, 2, [CHANGE]), "0/1": ShardReport(0, 1, 1, [CHANGE])}
    assert last.changes == {"7": [CHANGE]} and last.epoch == 1


def test_a_replay_keeps_the_first_result(place: tuple[Path, Path]):
    publisher = Publisher(*place)
    publisher.publish(outcome(0, stage(publisher, 0, "first")))
    again = Publisher(*place)
    again.recover()
    assert again.is_committed(0)
    again.publish(outcome(0, stage(again, 0, "second")))
    assert committed(place[1]) == {"b0000000000-000.parquet": "first"}
    assert again.last.total_rows == {"q": 4}


def test_a_crash_between_manifest_and_renames_is_completed(place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    publisher = Publisher(*place)
    staged = stage(publisher, 0)
    with monkeypatch.context() as patch:
        patch.setattr(publishing.Publisher, "_complete", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            publisher.publish(outcome(0, staged))
    assert not (place[1] / "q").exists()
    Publisher(*place).recover()
    assert committed(place[1]) == {"b0000000000-000.parquet": "rows"}


def test_what_was_staged_before_a_crash_is_swept_away(place: tuple[Path, Path]):
    stage(Publisher(*place), 0)
    stage(Publisher(*place, "p001-"), 0)
    publisher = Publisher(*place)
    publisher.recover()
    left = [folder.name for folder in (place[1] / publishing.STAGING).iterdir()]
    assert len(left) == 1 and left[0].startswith("p001-b"), "what another pipeline has staged is not ours"
    assert publisher.last.batch == -1


def test_old_manifests_go_and_their_sums_stay(place: tuple[Path, Path]):
    publisher = Publisher(*place)
    for batch in range(KEPT_MANIFESTS + 7):
        publisher.publish(outcome(batch, [], 1))
    assert len(list(publisher.log.folder.glob("*.json"))) == KEPT_MANIFESTS
    assert Publisher(*place).last.total_rows == {"q": KEPT_MANIFESTS + 7}
