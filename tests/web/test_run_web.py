"""`muntin run --web` on Spark: the page of a job that runs, a query added through it, and metrics."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEW = """CREATE QUERY extra AS SELECT A.LocationId FROM Temperature A, Humidity B
  WHERE A.LocationId = B.LocationId WINDOW 40 s"""


class Visitor:
    """Somebody who has the address that was printed."""

    def __init__(self, url: str):
        self.base, _, self.token = url.partition("/#token=")

    def ask(self, path: str, method: str = "GET", body: object = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Muntin-Token": self.token, "Content-Type": "application/json"} if method != "GET" else {}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def until(self, path: str, method: str, wanted) -> dict:
        for _ in range(240):
            found = json.loads(self.ask(path, method))
            if wanted(found):
                return found
            time.sleep(0.5)
        raise AssertionError(found)


@pytest.mark.spark
def test_a_run_serves_its_page_and_takes_up_a_query_from_it(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    muntin = [sys.executable, "-m", "muntin.cli.main"]
    made = ["generate", "sensors", "data", "--duration", "60", "--files", "3", "--locations", "50"]
    subprocess.run([*muntin, *made], cwd=tmp_path, env=environment, check=True, capture_output=True)
    arguments = [*muntin, "run", "data/job.sql", "--output", "out", "--checkpoint", "ckpt", "--web", "0"]
    run = subprocess.Popen(arguments, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert run.stderr is not None
        lines = iter(run.stderr.readline, "")
        url = next(found[1] for line in lines if (found := re.match(r"page: (\S+)", line)))
        visitor = Visitor(url)
        visitor.until("/api/status", "GET", lambda status: status["batches"] >= 3)
        sent = json.loads(visitor.ask("/api/queries", "POST", {"sql": NEW}))
        answer = visitor.until(f"/api/requests/{sent['id']}", "POST", lambda a: a["state"] in ("in force", "refused"))
        assert answer["told"].startswith("added extra: applies to results from"), answer
        slices = json.loads(visitor.ask("/api/plan"))["plans"][0]["joins"][0]["state"][0]["slices"]
        assert 40_000_000 in [piece["to"] for piece in slices]
        assert 'muntin_output_rows_total{query="extra"}' in visitor.ask("/metrics")
    finally:
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    history = json.loads((tmp_path / "ckpt" / "muntin" / "history.json").read_text())["file"]["content"]
    assert "added extra" in [text for _, _, text in history["marks"]]
