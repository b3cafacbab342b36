"""A job that is only played: a thread that answers from the mailbox of its checkpoint."""

from __future__ import annotations

import os
import threading
import time

import pytest

from muntin.cli.main import main
from muntin.spark.checkpoint import requests
from muntin.spark.checkpoint.durable import FileKind, write_record
from muntin.spark.run.status import JobStatus, QueryStatus


class Job:
    """A checkpoint, and the process that seems to run on it."""

    def __init__(self, folder):
        self.checkpoint, self.taken = folder, []
        self._over = threading.Event()
        (folder / "muntin").mkdir(parents=True)
        self.status("running")

    def status(self, state, **queries):
        shown = {name: QueryStatus(**query) for name, query in queries.items()}
        status = JobStatus("endless", state, os.getpid(), time.time(), queries=shown)
        write_record(self.checkpoint / "muntin" / "status.json", FileKind.STATUS, status)

    def answers(self, *answers, then=lambda: None):
        """Take every request from now on, give these answers one after the other, and do what comes then."""

        def serve():
            while not self._over.wait(0.01):
                for request in requests.pending(self.checkpoint):
                    self.taken.append(request.sql)
                    for answer in answers:
                        requests.answer(self.checkpoint, request.id, answer)
                        requests.finish(self.checkpoint, request.id)
                        self._over.wait(0.05)
                    then()

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()

    def close(self):
        self._over.set()
        if hasattr(self, "_thread"):
            self._thread.join()

    def files(self):
        return [p for name in ("requests", "answers") for p in (self.checkpoint / "muntin").glob(f"{name}/*")]


@pytest.fixture
def job(tmp_path):
    made = Job(tmp_path / "ckpt")
    yield made
    made.close()


@pytest.fixture
def ask(job, capsys):
    """Exit code, stdout and stderr of `muntin query ACTION` on the checkpoint of the job."""

    def call(action, *arguments, checkpoint=job.checkpoint):
        code = main(["query", action, "--checkpoint", str(checkpoint), *arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call
