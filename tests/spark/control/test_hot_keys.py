"""Which keys the driver calls hot by what shards report, and of which ingest sends copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muntin.core.arrivals import HeavyKey, HotKey
from muntin.core.batch import Counters
from muntin.model import UsageError
from muntin.plan import share
from muntin.spark.checkpoint.manifests import Manifest
from muntin.spark.checkpoint.reports import ShardReport
from muntin.spark.control import HotKeyWatch, control_stream
from muntin.sql import parse_job

STREAMS = """
CREATE STREAM A (ts TIMESTAMP, k INT) TIMESTAMP BY ts WITH (format = 'json', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k INT) TIMESTAMP BY ts WITH (format = 'json', path = 'b');
"""
QUERY = "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 min;"
JOB = parse_job(f"SET hot_keys = 'auto';{STREAMS}{QUERY}")
OFF = parse_job(STREAMS + QUERY)
GROUPS = parse_job(
    f"SET hot_keys = 'auto';{STREAMS}"
    "CREATE QUERY q AS SELECT A.k, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 1 min;"
)
SEVEN = HeavyKey(7, 70, "k = 7", 600)


def manifest(*shards: dict[str, Any]) -> Manifest:
    """What two shards with 1,000 rows each report."""
    counters = Counters(state_rows=[500, 500])
    reports = [ShardReport(join=0, shard=n, epoch=0, counters=counters, **more) for n, more in enumerate(shards)]
    return Manifest(0, reports={report.name: report for report in reports})


def sent(folder: Path) -> list[tuple[list[str], list[str]]]:
    found = [m for m in control_stream.messages(folder) if isinstance(m, control_stream.HotKeysMessage)]
    return [([key.name for key in m.hot], [key.name for key in m.cool]) for m in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    control_stream.make_folder(tmp_path)
    return tmp_path


def test_a_key_with_many_rows_becomes_hot_once_and_cold_when_they_have_gone(folder):
    watch, plan = HotKeyWatch(folder, JOB.settings, True, Manifest(-1)), share(JOB)
    watch.committed(plan, manifest({"heavy_keys": [HeavyKey(8, 80, "k = 8", 90)]}, {}))
    assert sent(folder) == [] and watch.keys(manifest({}, {})) == ()
    watch.committed(plan, manifest({"heavy_keys": [SEVEN]}, {}))
    watch.committed(plan, manifest({"heavy_keys": [SEVEN]}, {}))
    assert sent(folder) == [(["k = 7"], [])], "told once, also where no shard has heard it yet"
    assert watch.keys(manifest({}, {})) == ((0, (7, 70)),), "ingest is told before the shards are"
    hot = {"hot_keys": [HotKey(7, 70, "k = 7", since=5)]}
    watch.committed(plan, manifest({**hot, "heavy_keys": [HeavyKey(7, 70, "k = 7", 300)]}, hot))
    assert len(sent(folder)) == 1
    watch.committed(plan, manifest(hot, hot))
    assert sent(folder)[1:] == [([], ["k = 7"])]
    cooled = {"hot_keys": [HotKey(7, 70, "k = 7", since=5, until=9)]}
    watch.committed(plan, manifest(cooled, cooled))
    assert watch.keys(manifest(cooled, cooled)) == ((0, (7, 70)),), "its rows are still elsewhere"
    watch.committed(plan, manifest({}, {}))
    assert watch.keys(manifest({}, {})) == () and len(sent(folder)) == 2


def test_another_run_knows_what_was_told_and_what_shards_remember(folder):
    HotKeyWatch(folder, JOB.settings, True, Manifest(-1)).committed(share(JOB), manifest({"heavy_keys": [SEVEN]}, {}))
    last = manifest({"hot_keys": [HotKey(9, 90, "k = 9", 3)]}, {})
    for endless in (True, False):
        assert HotKeyWatch(folder, OFF.settings, endless, last).keys(last) == ((0, (7, 70)), (0, (9, 90)))


def test_what_was_hot_is_cold_where_the_setting_is_off_and_one_shard_has_no_hot_keys(folder):
    hot = {"hot_keys": [HotKey(7, 70, "k = 7", since=5)]}
    HotKeyWatch(folder, OFF.settings, True, manifest(hot, hot)).committed(share(OFF), manifest(hot, hot))
    assert sent(folder) == [([], ["k = 7"])]
    HotKeyWatch(folder, JOB.settings, True, Manifest(-1)).committed(share(JOB), manifest({"heavy_keys": [SEVEN]}))
    HotKeyWatch(folder, JOB.settings, False, Manifest(-1)).committed(share(JOB), manifest({"heavy_keys": [SEVEN]}, {}))
    assert len(sent(folder)) == 1


def test_a_query_that_needs_a_key_in_one_shard_is_refused_while_its_rows_are_in_all(folder):
    hot = {"hot_keys": [HotKey(7, 70, "k = 7", since=5)]}
    watch = HotKeyWatch(folder, JOB.settings, True, manifest(hot, hot))
    watch.fits(share(JOB))
    with pytest.raises(UsageError, match=r"k = 7 is a hot key of join 1.*groups"):
        watch.fits(share(GROUPS))
    watch = HotKeyWatch(folder, JOB.settings, True, Manifest(-1))
    watch.fits(share(GROUPS))
    watch.committed(share(JOB), manifest({"heavy_keys": [SEVEN]}, {}))
    assert sent(folder) == [], "the plan that is to come has groups"
