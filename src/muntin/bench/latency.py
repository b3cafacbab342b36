"""`muntin bench latency`: how long rows take from their arrival to their hand-over, at steady rates.

The same streams are fed to each contender in real time (`feed`), each in a process of its own with the machine to
itself. A row has arrived when its file appears, a pair with the later of its two rows. Ours hands over the rows of each
query in order of event time, with their micro-batch and eagerly; Spark's join and Flink's hand over pairs as they find
them. Rows of each query are compared with those that DuckDB finds in the files.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from muntin.bench import feed, peer_latency_flink
from muntin.bench.feed import Feed
from muntin.bench.flink import ensure_flink, environment
from muntin.bench.peer_latency import HANDED
from muntin.bench.peers import DONE, OUT_OF_TIME, Heard, Terms, listen
from muntin.model import MuntinError

FULL = Feed((1_000, 20_000), start_s=45, settle_s=15, counted_s=45, windows_ms=(1_000, 5_000, 10_000))
QUICK = Feed((1_000, 20_000), start_s=22, settle_s=5, counted_s=12, windows_ms=(1_000, 5_000, 10_000))
NAMES = {"batch": "muntin, batch", "eager": "muntin, eager", "spark": "spark, one join, memory"}
FLINK = "flink, a join each"
Run = Callable[[Path, float], Heard]


def contenders(tell: Callable[[str], None]) -> tuple[dict[str, Run], str | None]:
    """Their names and how they run, and why Flink is not among them."""
    command = (sys.executable, "-m", "muntin.bench.peer_latency")
    found: dict[str, Run] = {name: partial(_listen, command, kind) for kind, name in NAMES.items()}
    try:
        python = ensure_flink(tell)
    except MuntinError as error:
        return found, f"Flink is skipped: {error.message}"
    return found | {FLINK: partial(_flink, python)}, None


def _listen(command: tuple[str, ...], kind: str, folder: Path, limit_s: float) -> Heard:
    return listen([*command, str(folder), kind], limit_s)


def _flink(python: Path, folder: Path, limit_s: float) -> Heard:
    return listen([str(python), str(peer_latency_flink.__file__), str(folder)], limit_s, environment())


def measure(quick: bool, terms: Terms) -> dict[str, Any]:
    """All contenders, one after the other."""
    plan = QUICK if quick else FULL
    running, skipped = contenders(terms.tell)
    figures: dict[str, Any] = {"feed": asdict(plan), "contenders": {}, "faults": []}
    if skipped:
        terms.tell(skipped)
        figures["skipped"] = skipped
    for name, run in running.items():
        taken = terms.take(f"latency/{name}", asdict(plan), partial(result, plan, run, terms.limit_s))
        if taken is not None:
            figures["contenders"][name] = taken
            terms.tell(f"{name}: {in_words(taken)}")
            figures["faults"] += faults(name, taken)
    return figures


def result(plan: Feed, run: Run, limit_s: float) -> dict[str, Any]:
    """One contender's run: for each rate and query the rows and the milliseconds of half and of 99% of them."""
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        plan.write(folder)
        with feed.feeding(folder):
            heard = run(folder, limit_s)
        ended, complete = heard.ended, (folder / HANDED).exists() and (folder / feed.FED).exists()
        known: dict[str, Any] = {"ended": ended, "limit_s": limit_s, "rows_agree": None, "rates": {}, "late_ms": None}
        if not complete:
            return known
        fed = json.loads((folder / feed.FED).read_text())
        if "failed" in fed:
            raise MuntinError(f"the streams could not be fed: {fed['failed']}")
        rows, rates = summary(folder / HANDED, fed["counted"])
        agree = rows == {query: count for query, count in feed.pairs(plan, folder).items() if count}
        return known | {"rows_agree": agree, "rates": rates, "late_ms": fed["late_ms"]}


def summary(handed: Path, counted: list[dict[str, int]]) -> tuple[dict[str, int], dict[str, Any]]:
    """Rows of each query over all, and their times for each rate."""
    base = duckdb.connect(":memory:")
    columns = "{'query': 'VARCHAR', 'came': 'BIGINT', 'handed': 'BIGINT', 'n': 'BIGINT'}"
    base.execute(
        f"CREATE TABLE handed AS FROM read_csv('{handed}', columns = {columns}, auto_detect = false, delim = ',')"
    )
    rows = dict(base.execute("SELECT query, sum(n)::BIGINT FROM handed GROUP BY query ORDER BY query").fetchall())
    spread = "SELECT query, handed - came AS ms, sum(n) AS n FROM handed WHERE came >= ? AND came < ? GROUP BY ALL"
    share = "sum(n) OVER (PARTITION BY query ORDER BY ms) / sum(n) OVER (PARTITION BY query) AS share"
    times = "min(ms) FILTER (share >= 0.5), min(ms) FILTER (share >= 0.99), max(ms)"
    asked = (
        f"SELECT query, sum(n)::BIGINT, {times} FROM (SELECT *, {share} FROM ({spread})) GROUP BY query ORDER BY query"
    )
    rates: dict[str, Any] = {}
    for part in counted:
        found = base.execute(asked, [part["from_ms"], part["to_ms"]]).fetchall()
        rates[str(part["rate"])] = {
            query: {"rows": n, "p50_s": p50 / 1000, "p99_s": p99 / 1000, "max_s": most / 1000}
            for query, n, p50, p99, most in found
        }
    base.close()
    return rows, rates


def faults(name: str, found: Mapping[str, Any]) -> list[str]:
    """What makes the bench fail; that a contender cannot keep up with a rate does not."""
    differ = [f"{name}: rows differ from those that DuckDB finds"] if found["rows_agree"] is False else []
    return differ + ([] if found["ended"] in (DONE, OUT_OF_TIME) else [f"{name}: {found['ended']}"])


def in_words(found: Mapping[str, Any]) -> str:
    if not found["rates"]:
        return f"no rows ({found['ended']})"
    said = [
        f"{int(rate):,} rows/s {max(q['p50_s'] for q in queries.values()):.2f} s (99%: "
        f"{max(q['p99_s'] for q in queries.values()):.2f} s)"
        for rate, queries in found["rates"].items()
        if queries
    ]
    return ", ".join([*said, "rows agree" if found["rows_agree"] else "ROWS DIFFER"])


def render(figures: dict[str, Any]) -> str:
    """A table for each rate: contenders beside each other, a line for each query."""
    plan, found = figures["feed"], figures["contenders"]
    lines = [
        "seconds from arrival to hand-over: half of the rows, 99% of them; rows as DuckDB has them unless it is said",
        *(f"{name}: {'ROWS DIFFER' if f['rates'] else f['ended']}" for name, f in found.items() if not f["rows_agree"]),
    ]
    for rate in map(str, plan["rates"]):
        lines += ["", f"{int(rate):,} rows/s, counted for {plan['counted_s']:g} s"]
        lines.append(f"{'window':>8}" + "".join(f"{name:>26}" for name in found) + f"{'rows':>12}")
        for number, window in enumerate(plan["windows_ms"]):
            times = [f["rates"].get(rate, {}).get(f"q{number}") for f in found.values()]
            cells = "".join(f"{_cell(time):>26}" for time in times)
            rows = max((time["rows"] for time in times if time), default=0)
            lines.append(f"{f'{window / 1000:g} s':>8}{cells}{rows:>12,}")
    late = max((f["late_ms"] or 0 for f in found.values()), default=0)
    lines += ["", f"the feeder was late by {late} ms at most"]
    return "\n".join([*lines, *([figures["skipped"]] if "skipped" in figures else [])])


def _cell(time: Mapping[str, float] | None) -> str:
    return "none" if time is None else f"{time['p50_s']:.3f} {time['p99_s']:.3f}"
