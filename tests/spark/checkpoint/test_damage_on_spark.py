"""Damage and back-ups with whole starts on Spark: the rows are the oracle's, or the message says what is wrong."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from muntin.model import MuntinError

from ..sink.test_eager import check as check_lines


def feed(lab: Any, rows: Any, first: int, count: int) -> None:
    for name, seed in (("A", 51), ("B", 52)):
        lab.add_files(name, rows(seed, 360).slice(first, count), 2)


def failure(lab: Any, mode: str = "available-now") -> str:
    with pytest.raises(MuntinError) as caught:
        lab.run(mode)
    text = caught.value.render()
    assert not re.search("JSONDecodeError|KeyError|IndexError|Traceback", text), text
    return text


def files_of(output: Path) -> dict[str, bytes]:
    return {str(p.relative_to(output)): p.read_bytes() for p in output.rglob("*") if p.is_file()}


@pytest.mark.stand_in
@pytest.mark.parametrize("delivery", ["batch", "eager"])
def test_a_checkpoint_from_a_back_up_brings_no_row_twice(lab: Any, rows: Any, delivery: str):
    lab.per_trigger, lab.settings = 1, f"SET delivery = '{delivery}';\n"
    feed(lab, rows, 0, 120)
    lab.run("available-now")
    shutil.copytree(lab.checkpoint, lab.root / "backup")
    feed(lab, rows, 120, 120)
    lab.run("available-now")
    shutil.rmtree(lab.checkpoint)
    shutil.copytree(lab.root / "backup", lab.checkpoint)
    before = files_of(lab.output)
    said = failure(lab)
    assert "is older than its output: its last micro-batch is 1" in said and "micro-batch 3" in said
    assert "`truncate_output=True`" in said and files_of(lab.output) == before
    feed(lab, rows, 240, 120)
    lab.run("bounded", truncate_output=True)
    check_lines(lab) if delivery == "eager" else lab.check()


@pytest.mark.spark
def test_damage_in_the_files_of_spark_stops_the_job_by_name_and_without_it_all_is_well(lab: Any, rows: Any):
    lab.per_trigger = 1
    feed(lab, rows, 0, 120)
    lab.run("available-now")
    feed(lab, rows, 120, 120)
    last = max(p for p in (lab.checkpoint / "offsets").glob("[0-9]*"))
    states = sorted(lab.checkpoint.glob("state/0/[01]/2_*.changelog"))
    assert states
    for files in ([last], states, [lab.checkpoint / "sources" / "0" / last.name]):
        whole = {file: file.read_bytes() for file in files}
        for file, data in whole.items():
            file.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :])
        said = failure(lab)
        assert any(file.name in said for file in files), said
        assert "muntin doctor" in said
        for file, data in whole.items():
            file.write_bytes(data)
    (lab.checkpoint / "commits" / last.name).write_bytes(b"")  # as after a power cut: the micro-batch runs again
    lab.run("bounded")
    lab.check()
