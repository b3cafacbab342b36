"""A job whose executors are on other machines: they share a folder with the driver, and nothing else."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shlex
import statistics
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.checkpoint import stored_job
from spark.cluster.laboratory import SETTINGS, ClusterLab, cluster_lab, drawn_mishaps
from spark.cluster.machines import LOCAL, PACKAGE, PREFIX
from spark.conftest import Lab

pytestmark = [pytest.mark.spark]

PAGE = Path(__file__).parents[3] / "docs" / "deploy.md"
BATCH = 20
"""Rows of each stream in a micro-batch."""


def feeder(lab: Any, rows: Any, count: int) -> Callable[[], None]:
    """Brings rows for two micro-batches at each call."""
    tables = {name: rows(seed, count * BATCH) for name, seed in (("A", 1), ("B", 2))}
    starts = iter(range(0, count * BATCH, BATCH))

    def feed() -> None:
        for at in (next(starts), next(starts)):
            for name, table in tables.items():
                lab.add_files(name, table.slice(at, BATCH), 1)

    return feed


def end_with_spark_submit(cluster: ClusterLab) -> None:
    """Go on with the program and the command of the documentation, on a session of its own, to the end."""
    page = PAGE.read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (command,) = re.findall(r"^(spark-submit .*?)^```", page, re.DOTALL | re.MULTILINE)
    folder = cluster.lab.root
    (folder / "program.py").write_text(program)
    name, *words = shlex.split(command.replace("\\\n", "").replace("spark://host:7077", cluster.spark.master))
    own = {**SETTINGS, "spark.driver.host": cluster.net.address, "spark.ui.enabled": "false"}
    confs = [text for name, value in own.items() for text in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [str(PREFIX / "bin" / name), *words[:-1], *confs, words[-1]],
        cwd=folder,
        env={**os.environ, "SPARK_LOCAL_IP": cluster.net.address, "PYTHONPATH": str(PACKAGE),
             "PATH": f"{PREFIX / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ended" in done.stdout


def leftovers(cluster: ClusterLab) -> list[str]:
    """Hot states that are still there on the machines."""
    found = []
    for worker in cluster.spark.workers:
        inside = ("nsenter", "--target", str(worker.pid), "--mount") if cluster.net.apart else ()
        places = (LOCAL,) if cluster.net.apart else (str(cluster.spark.folder / worker.name / "local"),)
        looked = subprocess.run([*inside, "find", *places, "-name", "stamp.json"], capture_output=True, text=True)
        assert looked.returncode == 0, looked.stderr
        found += looked.stdout.split()
    return found


@pytest.mark.parametrize(
    "mishaps",
    [["machine"], pytest.param(["executor", "Python", "machine", "driver"], marks=pytest.mark.cluster)],
    ids=["a machine", "everything"],
)
def test_a_job_survives_what_happens_to_its_machines(tmp_path: Path, rows: Any, mishaps: list[str]):
    """One machine has the package, the other gets it shipped and has its Python elsewhere. One of them is lost, with
    its executor and its Python processes; in `make cluster` each of these alone before, and the driver after. Another
    driver goes on elsewhere. Each query has its rows."""
    lab = Lab(tmp_path, None, per_trigger=1, settings="SET shards = 2;\n")
    feed = feeder(lab, rows, 20)
    with cluster_lab(tmp_path, lab, rows) as cluster:
        feed()
        cluster.add(cluster.net.machine())
        cluster.add(cluster.net.machine(has_package=False, python_elsewhere=True))
        cluster.start()
        cluster.await_commits(1)
        assert leftovers(cluster), "hot states are on the machines that work with them"
        for mishap in mishaps:
            cluster.suffer(mishap, feed)
        cluster.stop_driver()
        end_with_spark_submit(cluster)
        assert leftovers(cluster) == []
    lab.check()


@pytest.mark.cluster
@pytest.mark.parametrize("settings", ["", "SET delivery = 'eager';\n"], ids=["batch", "eager"])
def test_no_row_is_lost_or_doubled_however_often_something_dies(tmp_path: Path, rows: Any, settings: str):
    """As often as MUNTIN_KILLS says, in an order that MUNTIN_SEED settles; with eager delivery half as often.

    It prints how long the job took to commit again. 30 seconds are the aim for the loss of an executor.
    """
    kills, dice = int(os.environ.get("MUNTIN_KILLS", "12")), random.Random(int(os.environ.get("MUNTIN_SEED", "1")))
    kills = kills // 2 if settings else kills
    lab = Lab(tmp_path, None, per_trigger=1, settings=f"SET shards = 2;\n{settings}")
    feed = feeder(lab, rows, 4 * kills + 4)
    with cluster_lab(tmp_path, lab, rows) as cluster:
        feed()
        cluster.add(cluster.net.machine())
        cluster.add(cluster.net.machine(has_package=False, python_elsewhere=True))
        cluster.start()
        cluster.await_commits(1)
        for number, name in enumerate(drawn_mishaps(kills, dice), 1):
            print(f"{number}: {name}, {cluster.suffer(name, feed):.1f} s", flush=True)
        cluster.stop_driver()
        cluster.start("--bounded")
        cluster.finish()
        for name, took in cluster.recoveries.items():
            print(f"{name}: {len(took)} times, median {statistics.median(took):.1f} s, longest {max(took):.1f} s")
    if settings:
        check_lines(lab)
    else:
        lab.check()


def check_lines(lab: Any) -> None:
    """Eager delivery writes lines of JSON, in the order in which results came."""
    for query in lab.queries:
        files = sorted(p for p in (lab.output / query).glob("*") if p.name[0] not in "._")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        wanted = sorted((a, b) for a, b, *_ in lab.wanted(query))
        assert wanted, "an empty expectation proves nothing"
        assert sorted((line["a"], line["b"]) for line in lines) == wanted, query


def refused(cluster: ClusterLab, *options: str) -> str:
    """What a driver says whose job fails."""
    cluster.start("--bounded", *options)
    assert cluster.driver is not None
    said, _ = cluster.driver.communicate()
    assert cluster.driver.returncode == 1, said
    assert "Traceback" not in said
    return said


@pytest.mark.cluster
def test_what_executors_lack_is_said_by_name(tmp_path: Path, rows: Any):
    """Muntin at all, the driver's build of it, and the way to the driver. Then the job runs, with a shard for each of
    the cluster's cores."""
    lab = Lab(tmp_path, None, settings="SET delivery = 'eager';\n")
    with cluster_lab(tmp_path, lab, rows) as cluster:
        feeder(lab, rows, 8)()
        for _ in range(2):
            cluster.add(cluster.net.machine(has_package=False, python_elsewhere=True))
        whole, cluster.shipped = cluster.shipped, None
        if cluster.net.apart:
            said = refused(cluster)
            assert "No module named 'muntin'" in said and "muntin package" in said
        cluster.shipped = stale(whole)
        said = refused(cluster)
        builds = re.search(r"the executor on \S+ has Muntin (.*\)), the driver has (.*\))", said)
        assert builds is not None and builds[1] != builds[2], said
        cluster.shipped = whole
        said = refused(cluster, "--conf", "spark.muntin.hub.host=192.0.2.1")
        assert "does not reach the driver at 192.0.2.1" in said and "spark.muntin.hub.host" in said
        cluster.start("--bounded")
        cluster.finish()
        stored = stored_job(lab.checkpoint)
        assert stored is not None and stored.settings.shards == 2
    check_lines(lab)


def stale(archive: Path) -> Path:
    """An archive as of last week: one source was another."""
    old = archive.with_name("stale.tar.gz")
    with tarfile.open(archive) as files, tarfile.open(old, "w:gz", compresslevel=1) as out:
        for member in files:
            content = files.extractfile(member)
            data = content.read() if content is not None else b""
            if member.name == "muntin/model/errors.py":
                data += b"\n# last week\n"
                member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return old
