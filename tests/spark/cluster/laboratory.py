"""A job on several machines, and what can happen to them while it runs.

The driver is a process of its own, `muntin run`, on one of the machines. All of them share one folder: the job file,
the data, checkpoint and output. What happens is one of `MISHAPS`; the job has recovered when it commits again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import muntin
from muntin.spark.cluster import ServerProcess, StandaloneCluster, descendants, make_package
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from spark.cluster.machines import HOME, PACKAGE, Machine, Network, network

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
COMMIT_S = 900.0
"""How long a commit is waited for: a job that does not recover fails the test, however slow the machine."""
PAUSE_S, CUT_S = 6.0, 30.0
"""An executor that hangs is waited for; a machine that is cut off is given up before it comes back."""
SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.pyspark.python": PYTHON,
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""Small executors, which are given up after twenty seconds of silence."""


@dataclass
class ClusterLab:
    """Two machines with a worker each; more may come. `lab` has streams, queries and what the oracle says of them."""

    net: Network
    spark: StandaloneCluster
    lab: Any
    shipped: Path | None
    """The package, for machines that do not have it."""
    machines: dict[str, Machine] = field(default_factory=dict)
    driver: subprocess.Popen[str] | None = None
    driver_at: Machine | None = None
    recoveries: dict[str, list[float]] = field(default_factory=dict)

    def add(self, machine: Machine) -> ServerProcess:
        self.machines[machine.name] = machine
        return machine.start_worker(self.spark)

    # -- the driver ---------------------------------------------------------------------------------------------------

    def start(self, *mode: str, at: Machine | None = None) -> None:
        """Start the driver, here or on a machine that has nothing but what is shared."""
        self.driver_at = at
        address = at.address if at else self.net.address
        confs = {**SETTINGS, "spark.driver.host": address, "spark.driver.bindAddress": address}
        env = {**os.environ, "SPARK_LOCAL_IP": address, "PYTHONPATH": str(PACKAGE)}
        env |= {"HOME": HOME, "XDG_CACHE_HOME": f"{HOME}/.cache"} if at and at.within else {}
        self.driver = subprocess.Popen(
            [
                *(at.within if at else ()), sys.executable, "-m", "muntin.cli.main", "run", str(self.job), *mode,
                "--output", str(self.lab.output), "--checkpoint", str(self.lab.checkpoint),
                "--master", self.spark.master, *(("--ship", str(self.shipped)) if self.shipped else ()),
                *(text for name, value in confs.items() for text in ("--conf", f"{name}={value}")),
            ],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    @property
    def job(self) -> Path:
        file: Path = self.lab.root / "job.sql"
        file.write_text(self.lab.sql())
        return file

    def finish(self) -> str:
        """Wait for the end of the driver; what it said."""
        assert self.driver is not None
        said, _ = self.driver.communicate(timeout=2 * COMMIT_S)
        assert self.driver.returncode == 0, said
        return said

    def stop_driver(self) -> None:
        """Ask it to stop."""
        assert self.driver is not None
        self.driver.send_signal(signal.SIGTERM)
        self.finish()

    # -- how far it is ------------------------------------------------------------------------------------------------

    def commits(self) -> int:
        """Micro-batches of all runs; the last one has their number."""
        with suppress(muntin.MuntinError, OSError):
            last = muntin.read_status(self.lab.checkpoint)["batch"]
            return 0 if last is None else int(last) + 1
        return 0

    def await_commits(self, wanted: int) -> None:
        until = time.monotonic() + COMMIT_S
        while self.commits() < wanted:
            assert self.driver is not None
            if self.driver.poll() is not None and self.commits() < wanted:
                raise AssertionError(f"the driver ended: {self.driver.communicate()[0]}")
            assert time.monotonic() < until, f"no commit {wanted} within {COMMIT_S:.0f} s"
            time.sleep(0.05)

    def suffer(self, mishap: str, feed: Callable[[], None]) -> float:
        """Let something happen while there is work, and wait until the job commits again; the seconds that took.

        All machines have an executor then: what is measured is the loss of one of them.
        """
        self.await_executors()
        feed()
        before, began = self.commits(), time.monotonic()
        MISHAPS[mishap](self)
        feed()
        self.await_commits(before + 2)  # one that was under way before may still come through
        took = time.monotonic() - began
        self.recoveries.setdefault(mishap, []).append(took)
        return took

    def await_executors(self) -> None:
        until = time.monotonic() + COMMIT_S
        while not all(worker.children() for worker in self.spark.workers):
            assert time.monotonic() < until, "no executor came"
            time.sleep(0.1)


def lose_executor(lab: ClusterLab) -> None:
    kill(lab.spark.executors()[-1])


def lose_python(lab: ClusterLab) -> None:
    """A Python worker in the middle of its task, or the process that they are forked from."""
    below = [pid for executor in lab.spark.executors() for pid in descendants(executor)]
    if below:
        kill(below[-1])


def lose_worker(lab: ClusterLab) -> None:
    """A whole machine, which comes back with nothing of what it had."""
    lost = lab.spark.workers[-1]
    lab.spark.remove(lost)
    lab.add(lab.machines[lost.name])


def lose_driver(lab: ClusterLab) -> None:
    """The driver with its machine; another one goes on, with nothing but the shared folder."""
    assert lab.driver is not None
    below = [*descendants(lab.driver.pid)]
    for pid in (lab.driver.pid, *below):
        kill(pid)
    lab.driver.communicate()
    spare = next((m for m in lab.machines.values() if m.within and m.has_package and m is not lab.driver_at), None)
    lab.start(at=spare)


def pause_executor(lab: ClusterLab) -> None:
    """It hangs for a while, and goes on as if nothing had been."""
    paused = lab.spark.executors()[0]
    with suppress(ProcessLookupError):
        os.kill(paused, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        os.kill(paused, signal.SIGCONT)


def cut_network(lab: ClusterLab) -> None:
    """A machine cannot be reached, and comes back when the driver has given it up; what it then sends is refused."""
    machine = next((m for m in lab.machines.values() if m.link and m is not lab.driver_at), None)
    if machine is None:
        return pause_executor(lab)
    machine.cut_off()
    try:
        time.sleep(CUT_S)
    finally:
        machine.connect()


MISHAPS: dict[str, Callable[[ClusterLab], None]] = {
    "executor": lose_executor,
    "Python": lose_python,
    "machine": lose_worker,
    "driver": lose_driver,
    "pause": pause_executor,
    "network": cut_network,
}


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


OFTEN = {"executor": 12, "Python": 6, "machine": 3, "pause": 2, "network": 1, "driver": 1}
"""How often each mishap comes: those often that happen often, and that a test can afford."""


def drawn_mishaps(count: int, dice: random.Random) -> list[str]:
    """So many, each kind at least once where there is room."""
    once = list(OFTEN)[:count]
    more = dice.choices(list(OFTEN), list(OFTEN.values()), k=count - len(once))
    return dice.sample(once + more, count)


def compile_kernels(lab: Any, rows: Any) -> None:
    """Let the package bring the machine code of what the job needs: else every new executor compiles for a minute."""
    job = LocalJob(parse_job(lab.sql()), shards=2)
    for first in (0, 40):
        job.push({name: rows(seed, 80).slice(first, 40) for name, seed in (("A", 1), ("B", 2))})
        job.restart()


@contextmanager
def cluster_lab(root: Path, lab: Any, rows: Any) -> Iterator[ClusterLab]:
    """A master here, a network, and no machine yet."""
    shared = root / "shared"
    shared.mkdir()
    lab.root = shared
    compile_kernels(lab, rows)
    with network(shared) as net, StandaloneCluster(root / "spark", net.address) as spark:
        made = ClusterLab(net, spark, lab, make_package(shared / "muntin.tar.gz").file)
        try:
            yield made
        finally:
            if made.driver is not None and made.driver.poll() is None:
                for pid in (made.driver.pid, *descendants(made.driver.pid)):
                    kill(pid)
                made.driver.communicate()
