"""Other machines, as far as one machine can have them: namespaces with a network address, a `/tmp` and a home of their
own, in which the folders of the driver are not there. Only what is shared on purpose is.

Where namespaces are not allowed, a worker has folders of its own all the same, and the tests say what they then prove.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import muntin
from muntin.spark.cluster import ServerProcess, StandaloneCluster

PACKAGE = Path(muntin.__file__).parents[1]
"""Where the package under test is imported from."""
PREFIX = Path(sys.prefix)
HOME, LOCAL = "/tmp/home", "/tmp/local"
OTHER_PYTHON = "/tmp/python"
"""Where the environment is on a machine that has it elsewhere than the driver."""

_SETTLE = """
set -e
aside=$(mktemp -d); hidden=$1; prefix=$2; elsewhere=$3; kept=$4; shift 4
mount -t tmpfs tmpfs "$aside"
mkdir -p "$aside/home" "$aside/python"
while [ "$kept" -gt 0 ]; do
  mkdir -p "$aside/${1#/tmp/}"
  mount --rbind "$1" "$aside/${1#/tmp/}"
  kept=$((kept - 1)); shift
done
if [ -n "$elsewhere" ]; then mount --rbind "$prefix" "$aside/python"; fi
mount --rbind "$aside" /tmp
chmod 1777 /tmp
if [ -n "$elsewhere" ]; then mount -t tmpfs tmpfs "$prefix"; fi
if [ -n "$hidden" ]; then mount -t tmpfs tmpfs "$hidden"; fi
exec "$@"
"""
"""Shell that makes a mount namespace another machine, then becomes the command. `/tmp` is where tests keep all else;
what is to be there on the machine as well is kept: the shared folder, and a checkout that lies in `/tmp` itself."""


def run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def may_have_namespaces() -> bool:
    """Whether this user may make mount and network namespaces and links between them."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "mount"))):
        return False
    probe = f"mnt{os.getpid()}"
    made = run("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt") and run("ip", "netns", "add", probe)
    return made and run("ip", "netns", "del", probe)


@dataclass
class Machine:
    """A machine of a laboratory: its address, and the command that runs others on it."""

    name: str
    address: str
    within: Sequence[str] = ()
    link: str | None = None
    """The network interface on the driver's side."""
    python_elsewhere: bool = False
    has_package: bool = True

    def start_worker(self, cluster: StandaloneCluster, cores: int = 1, memory_mb: int = 900) -> ServerProcess:
        home = OTHER_PYTHON if self.python_elsewhere else str(PREFIX)
        spark = f"{home}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages/pyspark"
        env = {"PATH": f"{home}/bin:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE) if self.has_package else ""}
        own = {"HOME": HOME, "XDG_CACHE_HOME": f"{HOME}/.cache", "SPARK_LOCAL_DIRS": LOCAL} if self.within else {}
        return cluster.add_worker(
            self.name, cores, memory_mb, self.within, self.address, {**env, **own}, spark if self.within else None
        )

    def cut_off(self) -> None:
        """Nothing gets through to this machine, or from it, until `connect`."""
        assert self.link is not None
        assert run("ip", "link", "set", self.link, "down")

    def connect(self) -> None:
        assert self.link is not None
        assert run("ip", "link", "set", self.link, "up")


@dataclass
class Network:
    """Machines on one bridge; the driver, on this machine, is at `address`."""

    shared: Path
    number: int
    apart: bool
    machines: int = 0

    @property
    def address(self) -> str:
        return f"10.213.{self.number}.1" if self.apart else "127.0.0.1"

    @property
    def bridge(self) -> str:
        return f"mnt{self.number}"

    def machine(self, *, has_package: bool = True, python_elsewhere: bool = False) -> Machine:
        """One more; without the package, nothing of it can be imported there."""
        self.machines += 1
        name = f"{self.bridge}m{self.machines}"
        if not self.apart:
            return Machine(name, self.address)
        address = f"10.213.{self.number}.{self.machines + 1}"
        for command in (
            f"ip netns add {name}",
            f"ip link add {name} type veth peer name eth0 netns {name}",
            f"ip link set {name} master {self.bridge} up",
            f"ip -n {name} addr add {address}/24 dev eth0",
            f"ip -n {name} link set eth0 up",
            f"ip -n {name} link set lo up",
        ):
            subprocess.run(command.split(), check=True, capture_output=True)
        hidden = "" if has_package else str(PACKAGE)
        elsewhere = "yes" if python_elsewhere else ""
        kept = [str(self.shared), *(str(place) for place in (PREFIX, PACKAGE) if place.is_relative_to("/tmp"))]
        settled = (hidden, str(PREFIX), elsewhere, str(len(kept)), *kept)
        settle = ("unshare", "--mount", "sh", "-c", _SETTLE, "machine", *settled)
        return Machine(name, address, ("ip", "netns", "exec", name, *settle), name, python_elsewhere, has_package)


@contextmanager
def network(shared: Path) -> Iterator[Network]:
    """A network of machines that share one folder, under `/tmp`."""
    made = Network(shared, 0, may_have_namespaces())
    if not made.apart:
        yield made
        return
    assert shared.is_relative_to("/tmp")
    while not run("ip", "link", "add", made.bridge, "type", "bridge"):  # another test has it
        made.number += 1
        assert made.number < 256
    for command in (f"ip addr add {made.address}/24 dev {made.bridge}", f"ip link set {made.bridge} up"):
        subprocess.run(command.split(), check=True, capture_output=True)
    try:
        yield made
    finally:
        for number in range(made.machines):
            run("ip", "netns", "del", f"{made.bridge}m{number + 1}")
        run("ip", "link", "del", made.bridge)
