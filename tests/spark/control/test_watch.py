"""What the driver notices: streams that fall silent, that are far ahead, and loads that ask for another ordering."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from muntin.core.arrivals.frontiers import FOREVER
from muntin.core.batch import Counters
from muntin.plan import share
from muntin.spark.brokers import PACE, SLOW_ROWS
from muntin.spark.brokers.pace import pace_of
from muntin.spark.checkpoint.manifests import Manifest
from muntin.spark.checkpoint.reports import ShardReport
from muntin.spark.control.admission import Admission
from muntin.spark.control.watch import Orderings, Silence
from muntin.sql import parse_job

JOB = parse_job("""
CREATE STREAM A (ts TIMESTAMP, k INT) TIMESTAMP BY ts WITH (format = 'json', path = 'a', MaxFilesPerTrigger = '20');
CREATE STREAM B (ts TIMESTAMP, k INT) TIMESTAMP BY ts IDLE AFTER 30 seconds WITH (format = 'rate');
CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 min;
""")
MINUTE = 60_000_000


def reported(**more: Any) -> Manifest:
    return Manifest(0, reports={"0/0": ShardReport(join=0, shard=0, epoch=0, **{"max_ts": [0, 0], **more})})


def test_a_stream_that_is_ten_windows_ahead_is_read_a_file_at_a_time_until_the_other_has_caught_up():
    admission, plan, (a, b) = Admission(JOB.streams.values()), share(JOB), JOB.streams.values()
    assert not admission.look(plan, reported(max_ts=[FOREVER // 2, -FOREVER])), "B has not begun"
    assert not admission.look(plan, reported(max_ts=[10 * MINUTE, 0]))
    assert admission.source(a) is a
    assert admission.look(plan, reported(max_ts=[11 * MINUTE, 0])) and admission.slowed == {"A": 660}
    assert admission.source(a).options == {"path": "a", "maxFilesPerTrigger": "1"} and admission.source(b) is b
    assert not admission.look(plan, reported(max_ts=[11 * MINUTE, 8 * MINUTE])), "not yet"
    assert admission.look(plan, reported(max_ts=[11 * MINUTE, 9 * MINUTE])) and not admission.slowed
    assert not admission.look(plan, reported(max_ts=[99 * MINUTE, 0], idle=[False, True])), "nobody waits for B"
    assert not admission.look(plan, reported(max_ts=[0, 99 * MINUTE])), "its source takes no such option"
    slowest = replace(a, options={"path": "a", "maxFilesPerTrigger": "1"})
    assert not Admission([slowest]).look(plan, reported(max_ts=[99 * MINUTE, 0])), "it cannot be slower"


def test_a_source_that_looks_at_its_pace_is_slowed_without_a_start():
    admission, plan, (_, b) = Admission(JOB.streams.values(), paced=["B"]), share(JOB), JOB.streams.values()
    file = admission.source(b).options[PACE]
    assert pace_of(file) is None
    assert not admission.look(plan, reported(max_ts=[0, 11 * MINUTE])), "nothing starts again"
    assert admission.slowed == {"B": 660} and pace_of(file) == SLOW_ROWS
    assert not admission.look(plan, reported(max_ts=[10 * MINUTE, 11 * MINUTE]))
    assert admission.slowed == {} and pace_of(file) is None
    assert admission.look(plan, reported(max_ts=[11 * MINUTE, 0])), "files are read otherwise after a start only"
    admission.close()
    assert not Path(file).parent.exists()


def test_a_stream_is_silent_when_it_brought_nothing_for_long_enough_while_there_was_time():
    now = [0.0]
    silence = Silence(JOB.streams, lambda: now[0])
    now[0] = 29
    assert silence.newly_silent() == []
    silence.exclude(10)
    now[0] = 39
    assert silence.newly_silent() == [], "ten seconds of it were spent on a micro-batch"
    now[0] = 41
    assert silence.newly_silent() == ["B"] and silence.newly_silent() == [], "said once"
    silence.report_again()
    assert silence.newly_silent() == ["B"]
    silence.note_rows({"A": 5, "B": 1})
    assert silence.newly_silent() == []
    now[0] = 72
    assert silence.newly_silent() == ["B"]


def test_the_busiest_shard_decides_on_the_ordering_of_its_join():
    orderings, plan, found = Orderings(0.3), share(JOB), []
    for second in range(5):
        busy = Counters(arrived=[second, 10 * second], probes=11 * second)
        manifest = reported(counters=busy, seconds=0.7)
        idle = Counters(arrived=[0, second], probes=second)
        manifest.reports["0/1"] = replace(manifest.reports["0/0"], shard=1, counters=idle, seconds=0.001)
        found += orderings.look(plan, manifest, second)
    assert [(join, ordering.name) for join, ordering in found] == [(0, "filter-order")], "told once"
    assert "is not below alpha 0.3" in orderings.switches[0].reason
    assert 0.3 <= orderings.decisions[0].load <= 0.4 and orderings.decisions[0].rates == (1, 10)


def follow(loads: list[float], apart_s: int = 0) -> list[tuple[int, str]]:
    """The switches of a join that is so busy in each of these seconds, with the second of each."""
    orderings, plan, ahead, found, spent = Orderings(0.3), share(JOB), False, [], 0.0
    for second, load in enumerate(loads):
        spent = 2 * load  # half of it is that of the fast stream
        made = Counters(arrived=[second, 10 * second], probes=11 * second)
        max_ts = [apart_s * 1_000_000, 0]
        manifest = reported(counters=made, seconds=spent, filter_order=ahead, max_ts=max_ts)
        for _, ordering in orderings.look(plan, manifest, second):
            found.append((second, ordering.name))
            ahead = ordering.joins_ahead()
    assert [switch.ordering for switch in orderings.switches] == [name for _, name in found]
    return found


def test_adaptive_goes_over_and_back_with_the_load():
    names = [name for _, name in follow([0.1] * 90 + [0.6] * 200 + [0.05] * 200)]
    assert names == ["filter-order", "sync-filter"]


def test_a_load_near_the_threshold_does_not_make_adaptive_flap():
    noisy = [0.3 + (0.02 if second % 7 < 4 else -0.02) for second in range(400)]
    assert len(follow(noisy)) <= 1


def test_adaptive_switches_at_most_once_while_a_stream_catches_up():
    waves = ([0.9] * 70 + [0.01] * 70) * 6
    assert len(follow(waves)) > 6
    moments = [second for second, _ in follow(waves, apart_s=200)]
    assert moments and all(later - earlier >= 200 for earlier, later in pairwise(moments))
