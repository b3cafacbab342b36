"""A Spark session fit for Muntin: our own, or the user's with what can be set while it runs."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.model import MuntinError, Stream, UsageError
from muntin.spark.session.class_archive import JAVA_OPTIONS
from muntin.spark.session.file_systems import refuse_unknown_file_system
from muntin.spark.session.gateway import AFTER_ERROR_S, java_failure, quieten_end, start_java
from muntin.spark.session.java import ensure_java
from muntin.spark.session.local_files import without_processes
from muntin.spark.session.pythons import executors_python
from muntin.spark.session.user_settings import default_settings
from muntin.spark.store import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM_CONFS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.pollingDelay": "50ms",  # after a look that found nothing; a job that is behind does not wait
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # or there are two kinds of workers
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
}
"""What a streaming query of ours needs; all of it can be set on a running session."""

BATCH_BYTES, WEIGHED, UNWEIGHED = "spark.sql.execution.arrow.maxBytesPerBatch", "64MB", "2147483647"
LONG_TYPES = ("string", "binary")

ESSENTIAL = (
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.session.timeZone",
)

_OWN_CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "muntin.spark.worker.daemon",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.master.rest.enabled": "false",
    "spark.shuffle.compress": "false",  # what is exchanged are frames of numbers, with checksums of their own
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.cleaner.periodicGC.interval": "2min",  # files of past exchanges stay until Java has noticed their end
}

_ALONE_CONFS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.authenticate": "true",  # also other users of this machine reach loopback; Spark makes the secret itself
}
"""Where driver and executor are one process."""

_LOG4J = """rootLogger.level = {level}
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

_LONGEST_SOCKET_DIR = 61
COME_S, SETTLED_S = 120.0, 4.0
"""How long the first executor of a cluster may take to come, and each further one after it."""
_BEGINNING = threading.RLock()
_FAILED: list[Exception] = []
"""Why Java did not start that was begun ahead: for `open_session` to say."""
_BRIEF = "-XX:TieredStopAtLevel=1"
_LASTING = " ".join(
    f"-XX:Tier4{name}={ten_times_javas_own}"
    for name, ten_times_javas_own in (
        ("InvocationThreshold", 50_000),
        ("MinInvocationThreshold", 6_000),
        ("CompileThreshold", 150_000),
        ("BackEdgeThreshold", 400_000),
    )
)
"""Java's second compiler would be busy for the first hundred micro-batches with what is called some thousand times. So
it begins later; the loops over rows are there within seconds all the same."""
_COLLECTOR = "-XX:+UseParallelGC"
"""Frames are megabytes in one piece: G1, Java's default, marks the whole heap for such pieces again and again."""


def open_session(
    master: str | None = None,
    shards: int | None = None,
    app: str = "muntin",
    log_level: str = "off",
    confs: Mapping[str, str] | None = None,
    brief: bool = False,
) -> SparkSession:
    """Start Spark (or take the session that this process already has) with everything Muntin wants.

    `log_level`: what of Spark's own log reaches stderr; failures of a job are reported by Muntin itself. `confs` are
    Spark's settings, as far as they differ. `brief`: for a minute or two, in which Java had better compile little than
    well; it saves a quarter of the work up to the first result.
    """
    settings = dict(confs or {})
    try:
        master, settings = _begin(master, shards, log_level, settings, brief)
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(app)
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        if log_level == "off":
            _silence_workers(spark)
            quieten_end(spark)
        prepare_session(spark)
        return spark
    except MuntinError:
        raise
    except Exception as error:
        raise java_failure(AFTER_ERROR_S) or _unstarted(error, settings) from error


def begin_java(master: str | None, log_level: str, confs: Mapping[str, str]) -> None:
    """Let Java start while this process has other things to do, such as its imports. `open_session` with the same
    arguments goes on with it, and tells of what went wrong. Without that, Java ends with this process."""
    threading.Thread(target=_begin_quietly, args=(master, log_level, confs), name="muntin-java").start()


def _begin_quietly(master: str | None, log_level: str, confs: Mapping[str, str]) -> None:
    with _BEGINNING:  # whoever waits for Java finds the failure when it is their turn
        try:
            _begin(master, None, log_level, confs, brief=False)
        except Exception as error:
            _FAILED.append(error)


def _begin(
    master: str | None, shards: int | None, log_level: str, confs: Mapping[str, str], brief: bool
) -> tuple[str, dict[str, str]]:
    """Start Java, unless it runs; the master and the settings for a session. One at a time."""
    with _BEGINNING:
        if _FAILED:
            raise _FAILED.pop()
        ensure_java()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        master = master or f"local[{cores},4]"
        alone, folder = is_one_process(master), _private_folder()
        own = {**_OWN_CONFS, **STREAM_CONFS, **_java_confs(folder, log_level, brief)}
        own["spark.sql.shuffle.partitions"] = str(shards or cores)
        own["spark.driver.memory"] = f"{_driver_memory_mb()}m"
        if alone:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            own |= {**_ALONE_CONFS, **_socket_confs(folder)}
        defaults = default_settings()
        settings = {**{name: value for name, value in own.items() if name not in defaults}, **confs}
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["PYSPARK_PYTHON"] = sys.executable if alone else executors_python({**defaults, **settings}, folder)
        if alone:
            settings = without_processes(settings)
        start_java(settings)
        return master, settings


def is_one_process(master: str) -> bool:
    """Whether driver and executor are one process; `local-cluster` has executors of their own."""
    return re.fullmatch(r"local(\[[^]]*\])?", master) is not None


def _unstarted(error: Exception, settings: Mapping[str, str]) -> MuntinError:
    """Why Spark does not start, in Java's words where it has said something: Py4J only says what it called."""
    java = getattr(error, "java_exception", None)
    lines = str(java.getMessage() if java is not None else error).strip().splitlines()
    said, packages = lines[0] if lines else type(error).__name__, settings.get("spark.jars.packages")
    if "JAVA_GATEWAY_EXITED" in said and packages:
        hint = f"Spark could not fetch {packages}: look at the names, and at what Java says above"
        return MuntinError("Spark does not start: Java ended while it fetched packages", hint=hint)
    if "JAVA_GATEWAY_EXITED" in said:
        hint = (
            "look for who ended it, such as the kernel for want of memory, and at what it says with --log-level error"
        )
        return MuntinError("Spark does not start: Java ended before it was ready", hint=hint)
    return MuntinError(f"Spark does not start: {said}", hint="look at --master and --conf, or those of the session")


def _silence_workers(spark: SparkSession) -> None:
    """Keep what Spark's Python processes print (greetings, and complaints when they are stopped) off our stderr."""
    java = spark.sparkContext._jvm.java
    java.lang.System.setErr(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))


def prepare_session(spark: SparkSession, checkpoint: Location | None = None) -> None:
    """Set on a running session what Muntin needs and the user has not set; what answers depend on is set in any case.
    A session on which that is impossible is refused, and one that cannot write its half of the checkpoint."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "Muntin needs a classic Spark session, this one is a Spark Connect session",
            hint="start the job where the driver runs, with SparkSession.builder.master(...)",
        )
    if checkpoint is not None:
        refuse_unknown_file_system(spark, checkpoint)
    given = spark.conf.getAll
    for name, value in STREAM_CONFS.items():
        if name in given and name not in ESSENTIAL:
            continue
        try:
            spark.conf.set(name, value)
        except Exception as error:
            if name in ESSENTIAL:
                raise UsageError(f"this session does not let {name} be set to {value}") from error


def weigh_rows(spark: SparkSession, streams: Iterable[Stream]) -> None:
    """Let Spark weigh every row on its way to Python only where rows can be long: it takes half a microsecond each."""
    if spark.conf.get(BATCH_BYTES, UNWEIGHED) not in (WEIGHED, UNWEIGHED):
        return  # the user's own
    long = any(stream.value or field.type in LONG_TYPES for stream in streams for field in stream.schema)
    spark.conf.set(BATCH_BYTES, WEIGHED if long else UNWEIGHED)


def weigh_frames(spark: SparkSession) -> None:
    """Let Spark weigh rows that are frames: ten thousand of them do not go into one message."""
    spark.conf.set(BATCH_BYTES, WEIGHED)


def is_alone(spark: SparkSession) -> bool:
    """Whether a session has no executors elsewhere."""
    return is_one_process(spark.sparkContext.getConf().get("spark.master", "local"))


def default_shards(spark: SparkSession) -> int:
    """As many shards as the cluster has cores, once its executors have come: a checkpoint keeps the number."""
    if not is_alone(spark):
        _await_executors(spark)
    return max(1, spark.sparkContext.defaultParallelism)


def _await_executors(spark: SparkSession) -> None:
    """Wait until no more of them come."""
    known: Any = spark.sparkContext._jsc.sc()
    began = changed = time.monotonic()
    before = 0
    while not before or time.monotonic() - changed < SETTLED_S:
        executors = known.getExecutorMemoryStatus().size() - 1  # the driver is among them
        if executors != before:
            before, changed = executors, time.monotonic()
        if not executors and time.monotonic() - began > COME_S:
            raise MuntinError(
                f"no executor has come within {COME_S:.0f} s, so the number of shards cannot be settled",
                hint="look at the cores and memory that the cluster has free (spark.executor.memory), "
                "or say it: SET shards = 8",
            )
        time.sleep(0.1)


def _private_folder() -> Path:
    """A folder of this process alone, removed when it ends. Nothing in it is there for executors elsewhere."""
    folder = Path(tempfile.mkdtemp(prefix="muntin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _java_confs(folder: Path, log_level: str, brief: bool) -> dict[str, str]:
    """Of the driver's Java."""
    log = folder / "log4j2.properties"
    log.write_text(_LOG4J.format(level=log_level))
    java = f"-Dlog4j2.configurationFile={log.as_uri()} {_COLLECTOR} {_BRIEF if brief else _LASTING}"
    return {JAVA_OPTIONS: java}


def _socket_confs(folder: Path) -> dict[str, str]:
    """Unix sockets in a folder of this user alone, where it is the same for driver and executor: on one machine. On
    others Spark talks to its Python processes over loopback, with a secret."""
    if len(str(folder)) > _LONGEST_SOCKET_DIR or sys.platform == "win32":
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _driver_memory_mb() -> int:
    """A sixth of the machine between 1 and 4 GB: in local mode the driver is the executor, Python has the rest."""
    try:
        total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    except (ValueError, OSError):
        return 2048
    return max(1024, min(4096, total_mb // 6))
