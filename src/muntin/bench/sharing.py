"""What sharing costs and saves, side by side: five hundred queries against one, each strategy and chain against the
others, and the chains of wang2006's table 4 with the constants of this machine."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.bench.calibrate import calibrate
from muntin.core.batch import Arrivals, stream_schema
from muntin.core.results import ResultBatch, count
from muntin.core.step import Step
from muntin.model import JobSpec
from muntin.plan import Plan
from muntin.plan.chains import CHAINS, CPU_OPT, Edges
from muntin.plan.choose import choose
from muntin.plan.cost import Constants
from muntin.plan.strategies import STRATEGIES
from muntin.plan.traffic import Knowledge, Survivors
from muntin.sql import parse_job
from muntin.testing import LocalJob

RATE, BATCH_S, KEYS = 1_000, 50, 600_000
"""Rows a second of event time and stream; seconds of event time in a micro-batch; keys: about one partner a row."""
LARGEST_S = 600
SECOND_US = 1_000_000
STREAMS = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT, v DOUBLE) TIMESTAMP BY ts RATE 1000 PER SECOND
  WITH (format = 'parquet', path = '{folder}/A', maxFilesPerTrigger = '1');
CREATE STREAM B (ts TIMESTAMP, k BIGINT, v DOUBLE) TIMESTAMP BY ts RATE 1000 PER SECOND
  WITH (format = 'parquet', path = '{folder}/B', maxFilesPerTrigger = '1');
"""
TABLE_4 = {
    "Uniform": [2.5 * n for n in range(1, 13)],
    "Mostly-Small": [*range(1, 11), 20, 30],
    "Small-Large": [*range(1, 7), *range(25, 31)],
}
FIGURE_19 = {"Uniform": TABLE_4["Uniform"], "Mostly-Small": [10, 20, 30], "Small-Large": [6, 30]}
"""Ends of the slices of the CPU-Opt chains, as the paper describes them."""
JOIN_SELECTIVITY = 0.025
PAPERS_RATES = (20, 80)


def queries(windows: int, thresholds: int) -> str:
    """Every window with every threshold on A: ten per cent steps where there are ten of them."""
    steps = [(LARGEST_S * (w + 1) / windows, 100 * t / thresholds) for w in range(windows) for t in range(thresholds)]
    return "".join(
        f"CREATE QUERY q{n} AS SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k AND A.v >= {least:g} "
        f"WINDOW {round(window * 1000)} milliseconds;\n"
        for n, (window, least) in enumerate(steps)
    )


def selective(windows: int, thresholds: int) -> tuple[str, dict[str, tuple[float | None, float | None]]]:
    """The longer the window, the fewer rows of A; each window with several thresholds on B. And the fractions."""
    text, fractions = "", dict[str, tuple[float | None, float | None]]()
    for w in range(windows):
        for t in range(thresholds):
            name, left, right = f"q{w}_{t}", 100 * w / (windows + 1), 100 * t / (thresholds + 1)
            text += (
                f"CREATE QUERY {name} AS SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k AND A.v >= {left:g} "
                f"AND B.v >= {right:g} WINDOW {LARGEST_S * (w + 1) // windows} seconds;\n"
            )
            fractions[name] = 1 - left / 100, 1 - right / 100
    return text, fractions


FIVE_HUNDRED = queries(50, 10)
ONE = f"CREATE QUERY q AS SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k AND A.v >= 0 WINDOW {LARGEST_S} s;"


def job(text: str, folder: str = "none") -> JobSpec:
    return parse_job(STREAMS.format(folder=folder) + text)


def rows(batch: int, stream: str, keys: int) -> pa.Table:
    """What a stream brings in one micro-batch; the same at every call."""
    rng = np.random.default_rng([batch, ord(stream)])
    count = RATE * BATCH_S
    ts = np.sort(rng.integers(0, BATCH_S * SECOND_US, count)) + batch * BATCH_S * SECOND_US
    values = pa.table({"ts": ts, "k": rng.integers(0, keys, count), "v": 100 * rng.random(count)})
    return values.cast(stream_schema(job(ONE).streams[stream]))


def steps(spec: JobSpec, batches: int, keys: int, plan: Plan | None = None) -> Iterator[tuple[LocalJob, float, float]]:
    """One shard in this process: after each micro-batch, seconds of join and hand-over, and of routing to the
    queries."""
    local, spent = LocalJob(spec, plan=plan), [0.0, 0.0]
    shards = [shards[0] for shards in local.shards]
    for shard in shards:
        shard.advance = _timed(shard.advance, spent)  # type: ignore[method-assign, assignment]
    for batch in range(batches):
        spent[:] = [0.0, 0.0]
        local.push({s: rows(batch, s, keys) for s in "AB"})
        yield local, spent[0], spent[1]


def _timed(
    advance: Callable[[Arrivals], tuple[Step, ResultBatch]], spent: list[float]
) -> Callable[[Arrivals], tuple[Step, ResultBatch]]:
    """The step of a shard with its results packed for the sink; the routing is timed apart and done to count only."""

    def timed(arrivals: Arrivals) -> tuple[Step, ResultBatch]:
        start = time.process_time()
        step, run = advance(arrivals)
        run.to_bytes()
        joined = time.process_time()
        count(run)
        spent[0] += joined - start
        spent[1] += time.process_time() - joined
        return step, run

    return timed


# -- many queries --------------------------------------------------------------------------------------------------


def many_queries(quick: bool) -> dict[str, Any]:
    """Seconds per micro-batch of 500 queries (50 windows, 10 thresholds) and of one, in this process."""
    warm, steady = LARGEST_S // BATCH_S + 1, 3 if quick else 6
    figures: dict[str, Any] = {"batch_rows": 2 * RATE * BATCH_S}
    for name, text in (("one", ONE), ("five_hundred", FIVE_HUNDRED)):
        taken = list(steps(job(text), warm + steady, KEYS))[warm:]
        counters = taken[-1][0].counters()[0]
        figures[name] = {
            "join_s": statistics.median(t[1] for t in taken),
            "route_s": statistics.median(t[2] for t in taken),
            "pairs": counters.pairs,
            "comparisons": counters.comparisons,
            "state_rows": sum(counters.state_rows),
        }
    figures["ratio"] = figures["five_hundred"]["join_s"] / figures["one"]["join_s"]
    return figures


def on_spark(spark: Any, quick: bool) -> dict[str, Any]:
    """The same as streaming jobs whose results are routed, counted per query and discarded."""
    from muntin.spark.run import Job

    warm, steady = LARGEST_S // BATCH_S + 1, 4 if quick else 8
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="muntin-bench-") as folder:
        for stream in "AB":
            (Path(folder) / stream).mkdir()
            for batch in range(warm + steady):
                pq.write_table(rows(batch, stream, KEYS), Path(folder) / stream / f"{batch:04d}.parquet")
        for name, text in (("warm_up", ONE), ("one", ONE), ("five_hundred", FIVE_HUNDRED)):
            seconds: list[float] = []
            run = Job(spark, job(text, folder)).start(
                mode="available-now",
                checkpoint=Path(folder) / name,
                progress=lambda status, seconds=seconds: seconds.append(  # type: ignore[misc]
                    status["seconds"].get("triggerExecution", 0.0)
                ),
            )
            run.await_termination()
            delivered = sum(query["total_rows"] for query in run.status()["queries"].values())
            figures[name] = {"median_s": statistics.median(seconds[-steady:]), "rows_out": delivered}
    figures["ratio"] = figures["five_hundred"]["median_s"] / figures["one"]["median_s"]
    return figures


# -- strategies ----------------------------------------------------------------------------------------------------


def strategies(quick: bool, constants: Constants) -> dict[str, Any]:
    """24 queries (6 windows, 4 thresholds on B) by each strategy and chain: measured, beside what is predicted."""
    return {", ".join(way): _strategy(way, 2 if quick else 4, constants) for way in ways()}


def ways() -> Iterator[tuple[str, ...]]:
    """The names of every strategy, with each of its chains where it has some."""
    for strategy in STRATEGIES:
        yield from ((strategy.name, chain.name) for chain in CHAINS) if strategy.has_chains else [(strategy.name,)]


def _strategy(way: tuple[str, ...], steady: int, constants: Constants) -> dict[str, Any]:
    warm, keys = LARGEST_S // BATCH_S + 1, KEYS // 20
    text, fractions = selective(6, 4)
    settings = "".join(f"SET {name} = '{value}';" for name, value in zip(("strategy", "chain"), way, strict=False))
    spec = job(settings + text)
    choice = choose(spec, Knowledge(keys=keys, selectivities=fractions, constants=constants))
    expected = choice.prediction
    comparisons, seconds, state_rows = [], [], 0
    for local, join_s, route_s in steps(spec, warm + steady, keys, choice.plan):
        counters = [c for join in local.plan.joins for c in local.counters(join.index)]
        comparisons.append(sum(c.comparisons for c in counters))
        seconds.append(join_s + route_s)
        state_rows = sum(sum(c.state_rows) for c in counters)
    return {
        "joins": len(expected.joins),
        "seconds": statistics.median(seconds[warm:]),
        "state_rows": state_rows,
        "predicted_rows": round(expected.rows),
        "comparisons_per_s": (comparisons[-1] - comparisons[warm - 1]) / (steady * BATCH_S),
        "predicted_comparisons_per_s": round(expected.comparisons),
        "predicted_cpu_s": expected.cpu_ns / 1e9 * BATCH_S,
    }


# -- chains --------------------------------------------------------------------------------------------------------


def chains(constants: Constants, rate: float) -> dict[str, list[float]]:
    """Ends of the slices of the CPU-Opt chains of table 4, in seconds."""
    return {name: _chain(windows, rate, constants) for name, windows in TABLE_4.items()}


def _chain(windows_s: list[float], rate: float, constants: Constants) -> list[float]:
    windows, ones = tuple(round(w * SECOND_US) for w in windows_s), np.ones(len(windows_s))
    state = Survivors(windows, np.array(windows_s), ones, ones, ones, rate, rate, JOIN_SELECTIVITY)
    return [cut / SECOND_US for cut in CPU_OPT.cuts(Edges(state, constants))]


def table_4(constants: Constants) -> dict[str, Any]:
    """The rates at which the chains are those of figure 19, and the chains at the paper's rates."""
    rates = [float(rate) for rate in np.geomspace(0.1, 1e6, 700)]
    alike = [rate for rate in rates if chains(constants, rate) == FIGURE_19]
    return {
        "as_in_figure_19": [min(alike), max(alike)] if alike else None,
        "chains_there": chains(constants, float(np.sqrt(alike[0] * alike[-1]))) if alike else None,
        "chains_at_the_papers_rates": {rate: chains(constants, rate) for rate in PAPERS_RATES},
    }


def measure(quick: bool, tell: Callable[[str], None], spark: Any = None) -> dict[str, Any]:
    """All figures; those on Spark where there is a session."""
    tell("what one piece of the join's work costs here")
    constants = calibrate()
    figures: dict[str, Any] = {"constants": asdict(constants), "table_4": table_4(constants)}
    tell("five hundred queries against one")
    figures["queries"] = many_queries(quick)
    tell("each strategy and chain")
    figures["strategies"] = strategies(quick, constants)
    if spark is not None:
        tell("five hundred queries against one on Spark")
        figures["on_spark"] = on_spark(spark, quick)
    return figures


def render(figures: Mapping[str, Any]) -> str:
    """The figures for people: each ratio with what it is made of."""
    f = figures["queries"]
    one, many = f["one"], f["five_hundred"]
    lines = [
        f"500 queries (50 windows, 10 thresholds) against one (the largest, the weakest), {f['batch_rows']:,} rows a "
        "micro-batch, seconds of one core",
        f"  join and hand-over   {many['join_s']:.3f} s against {one['join_s']:.3f} s: ratio {f['ratio']:.2f}",
        f"  routing, counted     {many['route_s']:.3f} s against {one['route_s']:.3f} s, for what only the 500 deliver",
        f"  rows compared        {many['comparisons']:,} against {one['comparisons']:,}",
    ]
    if "on_spark" in figures:
        f = figures["on_spark"]
        one, many = f["one"], f["five_hundred"]
        lines.append(
            f"  on Spark             {many['median_s']:.2f} s a micro-batch against {one['median_s']:.2f} s: ratio "
            f"{f['ratio']:.2f}, with {many['rows_out']:,} rows counted against {one['rows_out']:,}"
        )
    heads = f"{'joins':>6}{'s a batch':>10}{'state rows':>12}{'predicted':>11}{'compared/s':>12}{'predicted':>11}"
    title = "24 queries: 6 windows, each for fewer rows of A than the one before, and 4 thresholds on B"
    lines += ["", title, f"  {'':<21}{heads}"]
    for name, f in figures["strategies"].items():
        lines.append(
            f"  {name:<21}{f['joins']:>6}{f['seconds']:>10.3f}{f['state_rows']:>12,}{f['predicted_rows']:>11,}"
            f"{f['comparisons_per_s']:>12,.0f}{f['predicted_comparisons_per_s']:>11,}"
        )
    costs = ", ".join(f"{name.removesuffix('_ns')} {ns:.1f}" for name, ns in figures["constants"].items())
    found = figures["table_4"]["as_in_figure_19"]
    where = f"between {found[0]:,.0f} and {found[1]:,.0f} rows/s" if found else "at no rate"
    lines += ["", f"constants in ns: {costs}", f"table 4: the CPU-Opt chains are those of figure 19 {where}"]
    return "\n".join(lines)
