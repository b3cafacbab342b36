"""Contenders in processes of their own: what they say is heard, however they end."""

from __future__ import annotations

import json
import re
import sys

import pytest

from muntin.bench.peers import DONE, OUT_OF_TIME, Heard, Ledger, Round, Terms, listen

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


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ({}, (None, False)),
        ({0: 5.0}, (None, False)),
        ({0: 1.0, 1: 2.0}, (2.0, False)),
        ({0: 9.0, 1: 2.0, 2: 3.0, 3: 4.0}, (3.5, True)),
    ],
)
def test_before_the_steady_state_the_last_micro_batch_is_a_lower_bound(batches, found):
    assert Heard([Round(batches)]).steady_s(warm=2) == found


def test_of_several_rounds_all_steady_micro_batches_count():
    heard = Heard()
    for seconds, used in ((3.0, 10.0), (1.0, 100.0)):
        for batch in range(4):
            heard.take({"batch": batch, "seconds": 9.0 if batch < 2 else seconds}, used + batch * seconds)
    assert len(heard.rounds) == 2
    assert heard.seconds == {0: 9.0, 1: 9.0, 2: 1.0, 3: 1.0}
    assert heard.steady_s(warm=2) == (2.0, True)
    assert heard.busy_s(warm=2) == 2.0


def test_of_what_a_failure_leaves_on_stderr_the_error_counts():
    heard = run("import atexit, sys; atexit.register(print, 'some library leaked', file=sys.stderr); 1 / 0")
    assert heard.ended == "ZeroDivisionError: division by zero"


def test_core_seconds_count_children_that_have_ended():
    burn = "import time; t = time.process_time()\nwhile time.process_time() < t + 0.3: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    again = HELLO.replace("'batch': 0", "'batch': 1")
    heard = run(f"{HELLO}\n{child}\n{again}\nimport time; time.sleep(0.5)")
    assert 0.3 <= heard.busy_s(warm=1) == heard.busy_s(warm=5) < 3.0


def test_core_seconds_count_a_session_that_was_begun_from_this_one():
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); time.sleep(60)"
    apart = "start_new_session=True, stdout=subprocess.PIPE"
    child = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', {burn!r}], {apart})"
    again = HELLO.replace("'batch': 0", "'batch': 1")
    heard = run(f"{HELLO}\n{child}\np.stdout.readline()\n{again}\ntime.sleep(1); p.kill()")
    assert 0.3 <= heard.busy_s(warm=1) < 3.0


def terms(file, resume=True, **more):
    return Terms(**{"share": 1.0, "limit_s": 60.0, "ledger": Ledger(file, resume), "tell": print, **more})


def test_a_stopped_bench_goes_on_with_what_it_has(tmp_path):
    file, found = tmp_path / "new" / "spark.json", {"seconds": 2.0, "ended": DONE}
    first = terms(file, resume=False).take("a", {"rows": 1}, lambda: found)
    assert json.loads(file.read_text())["a"] == first == {"of": {"rows": 1}, **found}
    assert terms(file).take("a", {"rows": 1}, pytest.fail) == first
    assert terms(file).take("a", {"rows": 2}, lambda: {"seconds": 3.0})["seconds"] == 3.0
    assert terms(file, resume=False).take("a", {"rows": 2}, lambda: {"seconds": 4.0})["seconds"] == 4.0


@pytest.mark.parametrize(
    ("ended", "limit_s", "again"),
    [(OUT_OF_TIME, 60.0, False), (OUT_OF_TIME, 61.0, True), ("no memory left", 60.0, True), (DONE, 61.0, False)],
)
def test_what_failed_or_may_now_take_longer_is_measured_again(tmp_path, ended, limit_s, again):
    file = tmp_path / "spark.json"
    terms(file, resume=False).take("a", {}, lambda: {"ended": ended, "limit_s": 60.0, "run": 1})
    found = terms(file, limit_s=limit_s).take("a", {}, lambda: {"ended": DONE, "limit_s": limit_s, "run": 2})
    assert found["run"] == 1 + again


def test_what_is_not_wanted_is_not_measured_but_shown_if_it_is_there(tmp_path):
    file = tmp_path / "spark.json"
    chosen = terms(file, only=(re.compile("one join"), re.compile("dense/")))
    assert chosen.take("selective/spark, a join each", {}, pytest.fail) is None
    assert chosen.take("selective/spark, one join", {}, lambda: {"run": 1})["run"] == 1
    assert terms(file, only=(re.compile("dense/"),)).take("selective/spark, one join", {}, pytest.fail)["run"] == 1
