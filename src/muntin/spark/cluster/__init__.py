"""Spark on several machines.

`package` makes an archive of Muntin for executors that do not have it. `standalone` starts a master and workers out of
Spark's pip package, for benches and tests.
"""

from muntin.spark.cluster.package import NAME, PYTHONPATH, make_package, shipping_confs
from muntin.spark.cluster.standalone import EXECUTOR, ServerProcess, StandaloneCluster, command_of, descendants

__all__ = [
    "EXECUTOR",
    "NAME",
    "PYTHONPATH",
    "ServerProcess",
    "StandaloneCluster",
    "command_of",
    "descendants",
    "make_package",
    "shipping_confs",
]
