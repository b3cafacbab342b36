"""Fuzzing what comes over wires and lies in files: frames, durable files, requests, the hub, the page."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import socket
import struct
import threading
import zlib
from pathlib import Path

import pyarrow as pa
from starlette.testclient import TestClient

from fuzz.mutations import NASTY, spoilt_bytes, spoilt_json, spoilt_text
from fuzz.text_targets import corpus, said_well, words, yield_text
from muntin.core.storage import table_bytes
from muntin.plan import share
from muntin.spark.checkpoint import requests
from muntin.spark.checkpoint.durable import FileKind, to_line
from muntin.spark.exchange import FrameKind, decode, encode
from muntin.spark.exchange.frames import MAGIC, VERSION
from muntin.spark.run import read_status
from muntin.spark.shard.eager_sender import Attempt, EagerSender
from muntin.spark.sink.eager_hub import EagerHub
from muntin.spark.sink.held_results import HeldResults
from muntin.spark.sink.hub_place import HubPlace
from muntin.sql import parse_job
from muntin.web.app import make_app
from muntin.web.guard import TOKEN, Access
from muntin.web.live import LiveJob
from web.played import PlayedJob

LENGTH, FIXED, CHECKED = struct.Struct("<Q"), struct.Struct("<4sBBIQI"), struct.Struct("<BIQ")
TABLE = pa.table({"k": [1, 2, None], "s": ["a", None, "ß"]})
JOB = """CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'b');
CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;"""


class Frames:
    """Frames with flipped bits; and such with a right checksum, but another kind, header or payload."""

    name = "frames"

    def __init__(self) -> None:
        self.payload = table_bytes(TABLE)

    def close(self) -> None:
        pass

    def run(self, dice: random.Random) -> object:
        header = json.dumps(spoilt_json(dice, {"id": "x", "rows": [1, 2], "part": 3})).encode()
        data = encode(FrameKind.CHUNK, {"id": "x", "rows": [1, 2]}, self.payload)
        if dice.random() < 0.5:
            data = spoilt_bytes(dice, data)
        else:
            kind = dice.choice((0, 1, 6, 13, 14, 255))
            text = spoilt_bytes(dice, header) if dice.random() < 0.5 else header
            body = self.payload[: dice.randrange(len(self.payload) + 1)] if dice.random() < 0.3 else self.payload
            crc = zlib.crc32(body, zlib.crc32(text, zlib.crc32(CHECKED.pack(kind, len(text), len(body)))))
            data = FIXED.pack(MAGIC, VERSION, kind, len(text), len(body), crc) + text + body
        yield_text(data)
        frame = decode(data, "a frame")
        assert isinstance(frame.header, dict)
        frame.table()
        return None


class Files:
    """The durable files of a checkpoint, damaged, or whole with other contents: every command says what is wrong."""

    name = "files"
    COMMANDS = (("status",), ("status", "--json"), ("query", "list"))

    def __init__(self, folder: Path) -> None:
        played = PlayedJob(folder / "files")
        played.tick(3)
        played.close()
        self.checkpoint = played.checkpoint
        self.files = sorted(file for file in (self.checkpoint / "muntin").rglob("*.json"))
        assert {"job.json", "status.json"} <= {file.name for file in self.files}

    def close(self) -> None:
        shutil.rmtree(self.checkpoint.parent, ignore_errors=True)

    def run(self, dice: random.Random) -> object:
        file = dice.choice(self.files)
        before = file.read_bytes()
        found = json.loads(before)["file"]
        if dice.random() < 0.3:
            after = spoilt_bytes(dice, before)
        else:
            content = spoilt_json(dice, found["content"])
            after = to_line(FileKind(found["kind"]), found["name"], content, found["job"]).encode()
        yield_text((file.name, after))
        file.write_bytes(after)
        command = dice.choice(self.COMMANDS)
        try:
            said_well([*command, "--checkpoint", str(self.checkpoint)])
            if dice.random() < 0.1:
                LiveJob(self.checkpoint).plan()
        finally:
            file.write_bytes(before)
        return None


class Requests:
    """What others leave in the mailbox of a job that runs: each is answered, and the job goes on."""

    name = "requests"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "requests"
        self.job = PlayedJob(self.folder)
        self.job.tick(2)

    def close(self) -> None:
        self.job.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, dice: random.Random) -> object:
        sql = spoilt_text(dice, [*corpus()[0][:200], self.job_query(dice)], words())
        yield_text(sql)
        id = f"{dice.randrange(10**20):020d}-{dice.choice(('x', 'ab', '..'))}"
        content = {"id": id, "sql": sql, "sent": 1.0}
        if dice.random() < 0.5:
            content = spoilt_json(dice, content)
        data = to_line(FileKind.REQUEST, id, content).encode()
        if dice.random() < 0.3:
            data = spoilt_bytes(dice, data)
        file = self.job.checkpoint / "muntin" / "requests" / f"{id}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        self.job.run._listen_once()
        found = requests.read_answer(self.job.checkpoint, id)
        assert found is not None and not file.exists(), "a request without an answer"
        if found.state != "refused":
            self.job.step()
            for name in set(read_status(self.job.checkpoint)["queries"]) - {"together", "hot", "longer"}:
                requests.submit(self.job.checkpoint, f"DROP QUERY {name};")
            self.job.step()
            self.job.step()
        requests.forget(self.job.checkpoint, id)
        return None

    @staticmethod
    def job_query(dice: random.Random) -> str:
        return (
            f"CREATE QUERY x{dice.randrange(9)} AS SELECT A.place FROM Heat A, Damp B "
            "WHERE A.place = B.place AND A.v > 3 WINDOW 9 s"
        )


class HubMessages:
    """Bytes to the socket on which a run takes results: strangers get nowhere, and shards are heard after them."""

    name = "hub"

    def __init__(self) -> None:
        plan = share(parse_job(JOB))
        self.hub = EagerHub(HubPlace(), True, 1, lambda *_: None, lambda epoch: plan, HeldResults(Path("/nowhere")))
        self.cases = 0
        self.uncaught: list[BaseException] = []
        threading.excepthook = lambda about: self.uncaught.append(about.exc_value or AssertionError())

    def close(self) -> None:
        threading.excepthook = threading.__excepthook__
        self._shard()
        self.hub.close()

    def run(self, dice: random.Random) -> object:
        token = self.hub.address.token if dice.random() < 0.5 else "0" * 64
        hello = {"type": "hello", "token": token, "join": 0, "shard": 0, "epochs": [0], "batch": 0, "attempt": 0}
        frames = [encode(FrameKind.DELIVERY, spoilt_json(dice, hello) if dice.random() < 0.7 else hello)]
        rows = {"type": "rows", "tables": ["q"], "passed": {"q": 1}}
        message = spoilt_json(dice, dice.choice((rows, {"type": "done", "left": {}})))
        frames.append(_frame(message, struct.pack("<q", 5) + dice.randbytes(8)))
        data = b"".join(LENGTH.pack(len(frame)) + frame for frame in frames if frame)
        if dice.random() < 0.5:
            data = spoilt_bytes(dice, data)
        yield_text(data)
        stranger = socket.create_connection(("127.0.0.1", self.hub.address.port))
        with stranger, contextlib.suppress(OSError):  # it hangs up on whoever is no shard
            stranger.sendall(data)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1 << 16):
                pass
        if self.uncaught:
            raise self.uncaught.pop()
        self.cases += 1
        if self.cases % 50 == 0:
            self._shard()
        return None

    def _shard(self) -> None:
        """A real one is served as ever."""
        self.hub.begin(7, muted=True)
        with EagerSender(self.hub.address, Attempt(join=0, shard=0, epochs=[0], batch=7, attempt=1)) as sender:
            sender.done()
        self.hub.finish([(0, 0)])
        self.hub.begin(0, muted=True)


def _frame(header: object, payload: bytes) -> bytes:
    try:
        return encode(FrameKind.DELIVERY, header, payload)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return b""


class Page:
    """Requests to the page of a job, with the token and without: each has an answer of ours."""

    name = "page"
    PATHS = ("/", "/metrics", "/api/about", "/api/status", "/api/plan", "/api/sharing", "/api/history", "/api/queries",
             "/api/dead-letters", "/api/queries/hot", "/api/queries/hot/rows", "/api/preview", "/api/requests",
             "/api/requests/1-a", "/static/app.js")  # fmt: skip
    METHODS = ("GET", "GET", "POST", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "X")

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "page"
        self.job = PlayedJob(self.folder)
        self.job.tick(2)
        access = Access()
        self.token = access.token or ""
        self.client = TestClient(make_app(LiveJob(self.job.checkpoint), access), base_url="http://127.0.0.1:8420")

    def close(self) -> None:
        self.job.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, dice: random.Random) -> object:
        path = dice.choice(self.PATHS)
        if dice.random() < 0.5:
            path = spoilt_text(dice, [path], words()).replace("\\", "/")[:2000]
        headers = {TOKEN: self.token} if dice.random() < 0.8 else {}
        for name in ("origin", "host", "content-type", "content-length", "sec-fetch-site", "range"):
            if dice.random() < 0.05:
                headers[name] = "".join(c for c in dice.choice(NASTY) if " " <= c <= "~")
        body = json.dumps({"sql": spoilt_text(dice, corpus()[0], words())}).encode()
        if dice.random() < 0.3:
            body = spoilt_bytes(dice, body)
        method = dice.choice(self.METHODS)
        yield_text((method, path, headers, body))
        try:
            sent = self.client.build_request(method, "/" + path.lstrip("/"), headers=headers, content=body)
        except Exception:
            return None  # what no client can send
        answer = self.client.send(sent)
        assert answer.status_code < 500 or answer.status_code == 503, answer.status_code
        for request in requests.waiting(self.job.checkpoint):
            requests.forget(self.job.checkpoint, request.id)
        return None
