"""Spark's standalone cluster out of the pip package: a master and workers as processes of this machine.

The package has no scripts to start them, only the classes. Benches and tests use this; where `within` puts a worker
into namespaces of its own, it is as good as another machine.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from muntin.model import MuntinError
from muntin.spark.session import serving_java

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
UP_S, DOWN_S = 90.0, 20.0
"""How long a process may take to come up, and to end when it is asked to."""
DAEMON_MEMORY = "256m"
UNLIMITED = "-Dspark.deploy.maxExecutorRetries=-1"
"""An application goes on however often its executors are lost."""
_REGISTERED = "Successfully registered with master"


@dataclass
class ServerProcess:
    """A master or a worker, and where it writes what it has to say."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def await_text(self, text: str) -> None:
        """Wait until it has said something."""
        until = time.monotonic() + UP_S
        while text not in self.said():
            if self.process.poll() is not None or time.monotonic() > until:
                last = (self.said().strip().splitlines() or ["nothing"])[-1]
                raise MuntinError(f"{self.name} does not come up; it said last: {last}", hint=f"look into {self.log}")
            time.sleep(0.05)

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def children(self, of: str = EXECUTOR) -> list[int]:
        """The processes below this one whose command names something, its executors for example."""
        return [pid for pid in descendants(self.pid) if of in command_of(pid)]

    def kill(self) -> None:
        """End it at once; its executors notice and end themselves."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Let it end what it has begun, and remove its files."""
        self.process.terminate()
        try:
            self.process.wait(DOWN_S)
        except subprocess.TimeoutExpired:
            self.kill()


@dataclass
class StandaloneCluster:
    """A master, and the workers that are added to it; all end with the `with` block."""

    folder: Path
    host: str = "127.0.0.1"
    env: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    """Java options of the master, `-Dspark.worker.timeout=10` for example."""
    workers: list[ServerProcess] = field(default_factory=list)

    @property
    def master(self) -> str:
        """What `--master` takes."""
        return f"spark://{self.host}:{self._port}"

    def __enter__(self) -> StandaloneCluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._port = free_port(self.host)
        options = {"SPARK_MASTER_OPTS": f"-Dspark.master.rest.enabled=false {UNLIMITED} {self.options}"}
        arguments = ("-h", self.host, "-p", str(self._port), "--webui-port", "0")
        self._master = self._start("master", MASTER, arguments, {**options, "SPARK_LOCAL_IP": self.host}, ())
        try:
            self._master.await_text("I have been elected leader")
        except BaseException:
            self._master.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for server in (*self.workers, self._master):
            server.stop()

    def add_worker(
        self,
        name: str,
        cores: int = 1,
        memory_mb: int = 1024,
        within: Sequence[str] = (),
        host: str | None = None,
        env: Mapping[str, str] | None = None,
        spark_home: str | None = None,
    ) -> ServerProcess:
        """Start a worker with folders of its own; `within` is a command that starts another one in its surroundings."""
        place = self.folder / name
        for part in ("work", "local"):
            (place / part).mkdir(parents=True, exist_ok=True)
        host = host or self.host
        own = {
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(place / "local"),
            "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=true",
            **(env or {}),
        }
        size = ("-c", str(cores), "-m", f"{memory_mb}m", "-d", str(place / "work"))
        arguments = ("-h", host, *size, "--webui-port", "0", self.master)
        worker = self._start(name, WORKER, arguments, own, within, spark_home)
        self.workers.append(worker)
        worker.await_text(_REGISTERED)
        return worker

    def remove(self, worker: ServerProcess) -> None:
        """Kill a worker as if its machine were gone, its executors included."""
        below = list(descendants(worker.pid))
        worker.kill()
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.workers.remove(worker)

    def executors(self) -> list[int]:
        return [pid for worker in self.workers for pid in worker.children()]

    def _start(
        self,
        name: str,
        what: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        within: Sequence[str],
        spark_home: str | None = None,
    ) -> ServerProcess:
        spark_home = spark_home or installed_spark()
        log = self.folder / f"{name}.log"
        whole = {
            **os.environ,
            "SPARK_HOME": spark_home,
            "JAVA_HOME": str(serving_java()),
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            **self.env,
            **env,
        }
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [*within, f"{spark_home}/bin/spark-class", what, *arguments],
                stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=whole, start_new_session=True,
            )  # fmt: skip
        return ServerProcess(name, process, log)


def installed_spark() -> str:
    """Where the pip package of Spark is."""
    import pyspark

    return str(Path(pyspark.__file__).parent)


def free_port(host: str) -> int:
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


def command_of(pid: int) -> str:
    """The command line of a process; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and theirs."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found = re.match(r"(\d+) \(.*\) \S (\d+)", stat.read_text(errors="replace"), re.DOTALL)
            if found:
                parents.setdefault(int(found[2]), []).append(int(found[1]))
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        yield from children
        waiting += children
