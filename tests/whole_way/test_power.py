"""Power cuts: random jobs die at every crash point of a micro-batch, and what nobody synced is gone or torn.

With `durability = 'power'` the next run goes on. Without it `muntin doctor --repair` brings the job back to the last
whole micro-batch, and it goes on from there. Every query has the rows that both judges want.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from muntin.spark.checkpoint import FileKind, write_json
from muntin.spark.doctor import Level, repair
from whole_way import net
from whole_way.drive import Driver
from whole_way.judge import Judge
from whole_way.power import Disk
from whole_way.random_jobs import Life, Text, random_life

SEEDS = int(os.environ.get("MUNTIN_CUTS", "3"))
"""Texts, each with eight jobs."""


def of_files(text: Text, number: int) -> Life:
    """A life whose rows go to files: from a callable nothing can be taken back."""
    return random_life(replace(text, output="files"), number)


def of_the_same_shards(text: Text, number: int) -> Life:
    """One that keeps its shards, too: nobody can go back to what was before a rescale."""
    life = of_files(text, number)
    steps = [replace(s, changes={k: v for k, v in s.changes.items() if k != "shards"}) for s in life.steps]
    return replace(life, steps=steps)


def cast(disk: Disk, durability: str, repairs: bool, first: int) -> tuple[net.Catch, int]:
    """Random jobs whose deaths are power cuts; how many of them were."""
    dice, cuts, forgive, sql = random.Random(first), 0, Driver._forgive, Text.sql

    def forgiving(driver: Driver, error: Any) -> None:
        nonlocal cuts
        forgive(driver, error)
        disk.cut([driver.checkpoint, driver.output], dice)
        cuts += 1
        if repairs:
            _, after = repair(driver.checkpoint, driver.output, missing_is_lost=True)
            broken = [f"{f.file}: {f.what} ({f.means})" for f in after.findings if f.level is Level.BROKEN]
            assert not broken, "\n".join(broken)

    def with_setting(text: Text, *more: Any) -> str:
        return f"SET durability = '{durability}';\n{sql(text, *more)}"

    with (
        disk.watched(),
        mock.patch.object(Driver, "_forgive", forgiving),
        mock.patch.object(Text, "sql", with_setting),
        mock.patch.object(net, "random_life", of_the_same_shards if repairs else of_files),
    ):
        return net.cast(range(first, first + SEEDS), Judge()), cuts


@pytest.mark.slow
@pytest.mark.parametrize(("durability", "repairs", "first"), [("power", False, 500), ("process", True, 500)])
def test_after_a_power_cut_a_job_goes_on_with_every_row_once(durability: str, repairs: bool, first: int):
    disk = Disk()
    found, cuts = cast(disk, durability, repairs, first)
    assert not found.faults, f"after {found.jobs} jobs and {cuts} power cuts:\n" + "\n".join(found.faults)
    assert cuts > SEEDS and disk.lost > (cuts if repairs else 0), "power cuts that harm nothing prove nothing"
    print(f"{found.jobs} jobs, {cuts} power cuts, {disk.lost} files harmed")


def test_the_disk_forgets_what_nobody_synced(tmp_path: Path):
    disk, dice = Disk(), random.Random(1)
    with disk.watched():
        write_json(tmp_path / "safe.json", FileKind.STATUS, {})
        for number in range(9):
            (tmp_path / f"{number}").write_text("not safe")
    disk.cut([tmp_path], dice)
    assert (tmp_path / "safe.json").read_text().endswith("}\n") and disk.lost > 2
