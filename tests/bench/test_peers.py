"""Contenders in processes of their own: what they say is heard, however they end."""

from __future__ import annotations

import json
import sys

import pytest

from muntin.bench.peers import Heard, Ledger, listen

HELLO = "import json; print(json.dumps({'batch': 0, 'seconds': 1.5, 'rows': {'q': 3}, 'cores': 2}), flush=True)"


def run(program: str, limit_s: float = 20.0) -> Heard:
    return listen([sys.executable, "-c", program], limit_s)


def test_a_contender_is_heard():
    heard = run(f"print('a warning'); {HELLO}")
    assert (heard.seconds, heard.rows, heard.facts["cores"], heard.ended) == ({0: 1.5}, {"q": 3}, 2, "done")


def test_what_was_said_counts_when_time_is_up():
    heard = run(f"{HELLO}; import time; time.sleep(60)", limit_s=1.0)
    assert (heard.seconds, heard.ended) == ({0: 1.5}, "out of time")
    assert heard.facts["wall_s"] < 30


def test_what_was_said_counts_when_it_fails():
    heard = run(f"{HELLO}; raise SystemExit('no memory left')")
    assert (heard.seconds, heard.ended) == ({0: 1.5}, "no memory left")


@pytest.mark.parametrize(("batches", "found"), [({}, (None, False)), ({0: 1.0, 1: 2.0}, (2.0, False)),
                                                ({0: 9.0, 1: 2.0, 2: 3.0, 3: 4.0}, (3.5, True))])  # fmt: skip
def test_before_the_steady_state_the_last_micro_batch_is_a_lower_bound(batches, found):
    assert Heard(seconds=batches).steady_s(warm=2) == found


def test_a_stopped_bench_goes_on_with_what_it_has(tmp_path):
    file = tmp_path / "new" / "spark.json"
    first = Ledger(file, resume=False).get("a", {"rows": 1}, lambda: {"seconds": 2.0})
    assert json.loads(file.read_text())["a"] == first == {"of": {"rows": 1}, "seconds": 2.0}
    assert Ledger(file, resume=True).get("a", {"rows": 1}, lambda: {"seconds": 3.0}) == first
    assert Ledger(file, resume=True).get("a", {"rows": 2}, lambda: {"seconds": 3.0})["seconds"] == 3.0
    assert Ledger(file, resume=False).get("a", {"rows": 2}, lambda: {"seconds": 4.0})["seconds"] == 4.0
