"""`muntin bench latency` with contenders that hand over what DuckDB finds, as late as they are told, without Spark."""

from __future__ import annotations

import json

import duckdb
import pytest

from muntin.bench import feed, latency, peer_latency_flink
from muntin.bench.feed import Feed
from muntin.bench.peer_latency import HANDED
from muntin.bench.peers import Heard
from muntin.cli import main

TINY = Feed((100, 400), start_s=0.2, settle_s=0.1, counted_s=0.5, windows_ms=(200, 400))


def late(ms, least=0):
    """A contender that hands over each pair so late, but for those of short windows."""

    def run(folder, limit_s):
        feed.take_all(folder)
        lines = []
        for query, window in TINY.queries.items():
            if window < least:
                continue
            files = [f"read_csv('{folder / s}/*.csv', columns = {{'ts': 'TIMESTAMP', 'k': 'BIGINT', 'came': 'BIGINT'}})"
                     for s in feed.STREAMS]  # fmt: skip
            near = f"abs(epoch_ms(A.ts) - epoch_ms(B.ts)) < {window}"
            sql = f"SELECT greatest(A.came, B.came) FROM {files[0]} A JOIN {files[1]} B ON A.k = B.k AND {near}"
            lines += [f"{query},{came},{came + ms},1\n" for (came,) in duckdb.sql(sql).fetchall()]
        (folder / HANDED).write_text("".join(lines))
        return Heard()

    return run


@pytest.fixture
def given(monkeypatch):
    def give(**contenders):
        monkeypatch.setattr(latency, "QUICK", TINY)
        monkeypatch.setattr(latency, "contenders", lambda tell: (contenders, "Flink is skipped: no network"))

    return give


@pytest.mark.slow
def test_contenders_stand_beside_each_other_for_each_rate_and_query(given, capsys):
    given(ours=late(700), other=late(150))
    assert main.main(["bench", "latency", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for name, seconds in (("ours", 0.7), ("other", 0.15)):
        assert found["contenders"][name]["rows_agree"] is True
        rates = found["contenders"][name]["rates"]
        assert list(rates) == ["100", "400"] and list(rates["400"]) == ["q0", "q1"]
        assert {query["p50_s"] for query in rates["400"].values()} == {seconds}
        assert {query["p99_s"] for query in rates["400"].values()} == {seconds}
    said = latency.render(found)
    assert "0.700 0.700" in said and "0.150 0.150" in said
    assert "Flink is skipped: no network" in said


@pytest.mark.slow
def test_a_contender_with_other_rows_fails_the_bench(given, capsys):
    given(ours=late(100, least=300))
    assert main.main(["bench", "latency", "--quick"]) == 1
    said = capsys.readouterr()
    assert "ours: rows differ from those that DuckDB finds" in said.err
    assert "ours: ROWS DIFFER" in said.out


def test_a_percentile_is_over_the_rows_that_came_while_it_counted(tmp_path):
    lines = ["q0,900,9000,5", "q0,1000,1010,98", "q0,1500,1600,1", "q0,1999,3999,1", "q0,2000,9000,5"]
    (tmp_path / HANDED).write_text("\n".join(lines) + "\n")
    rows, rates = latency.summary(tmp_path / HANDED, [{"rate": 7, "from_ms": 1000, "to_ms": 2000}])
    assert rows == {"q0": 110}
    assert rates == {"7": {"q0": {"rows": 100, "p50_s": 0.01, "p99_s": 0.1, "max_s": 2.0}}}


def test_what_flink_prints_is_understood(tmp_path):
    line = "q1:2> +I[1794994117762, 1794994118251, 2026-11-18T09:28:38.403]\n"
    (tmp_path / "printed.txt").write_text(f"a warning\n{line}{line}")
    assert peer_latency_flink.counted(tmp_path / "printed.txt") == {("q1", 1794994118251, 1794994118403): 2}


@pytest.mark.parametrize("more", [["--rows", "5000"], ["--workload", "dense"]])
def test_rates_and_queries_are_its_own(more, capsys):
    assert main.main(["bench", "latency", *more]) == 2
    assert "leave out --rows and --workload" in capsys.readouterr().err
