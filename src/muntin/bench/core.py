"""`muntin bench core`: the join alone, side by side with DuckDB, and what windows, skew and strategies cost.

All figures are ratios of runs in one process, taken in turns and by their best time: the machine may be busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from muntin.core.batch import Counters
from muntin.core.join import JoinState
from muntin.core.policy import Policy
from muntin.core.selections import Selections
from muntin.core.storage import Heap
from muntin.kernels.arrays import Int64s
from muntin.kernels.join import Rows
from muntin.model import Query, Schema, Side, Stream, Window
from muntin.plan import SharedJoin
from muntin.plan.invalidations import INVALIDATIONS

RATE, KEYS, WINDOW_US = 1_000, 50_000, 600_000_000
"""Rows a second of event time and stream, distinct keys, largest window: 16.8 pairs for every row of a stream."""
BATCH = 50_000
"""Rows of both streams that arrive together."""
WHOLE, QUICK = (1_000_000, 3), (200_000, 2)
"""Rows of each stream, and rounds."""
ZIPF = 1.1


class Streams:
    """Two streams of the same rate, cut into micro-batches in event-time order."""

    def __init__(self, rows: int, keys: Callable[[np.random.Generator, int], Int64s], seed: int = 1):
        rng = np.random.default_rng(seed)
        self.ts = [np.cumsum(rng.exponential(1e6 / RATE, rows)).astype(np.int64) for _ in Side]
        self.keys = [keys(rng, rows) for _ in Side]
        side = np.repeat(np.array([0, 1], np.uint8), rows)
        ts = np.concatenate(self.ts)
        order = np.argsort(ts, kind="stable")
        numbers = np.concatenate([np.arange(rows)] * 2)[order]
        ts, zero = ts[order], np.zeros(2 * rows, np.int64)
        key, cls = np.concatenate(self.keys)[order], np.zeros(2 * rows, np.int32)
        self.rows = Rows(side[order], ts, ts, ts, key, zero, cls, numbers, np.ones(2 * rows, bool))

    def batches(self) -> Iterator[Rows]:
        for start in range(0, len(self.rows.ts), BATCH):
            yield Rows._make(a[start : start + BATCH] for a in self.rows)

    def tables(self) -> dict[str, pa.Table]:
        numbers = np.arange(len(self.ts[0]))
        return {"ab"[s]: pa.table({"ts": self.ts[s], "k": self.keys[s], "id": numbers}) for s in Side}


def even_keys(rng: np.random.Generator, rows: int) -> Int64s:
    return rng.integers(0, KEYS, rows)


def zipf_keys(rng: np.random.Generator, rows: int) -> Int64s:
    """Key n with a probability in proportion to n ** -1.1."""
    weights = np.arange(1, KEYS + 1) ** -ZIPF
    return np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(rows)).astype(np.int64)


def zipf_window_us() -> int:
    """The window in which skewed keys give as many pairs as even ones do in the full window."""
    weights = np.arange(1, KEYS + 1) ** -ZIPF
    return round(WINDOW_US / KEYS / ((weights / weights.sum()) ** 2).sum())


def query_join(windows_us: list[int]) -> SharedJoin:
    """One shared join of queries that differ in their windows only."""
    streams = (Stream("A", Schema(()), "ts"), Stream("B", Schema(()), "ts"))
    queries = tuple(Query(f"w{n}", "A", "B", (), Window(w, w), ()) for n, w in enumerate(windows_us))
    cuts = tuple(sorted(set(windows_us)))
    return SharedJoin(0, streams, (), queries, (True, True), (cuts, cuts))


def join_in_batches(streams: Streams, windows_us: list[int]) -> dict[str, Any]:
    """Seconds and work of the join over all micro-batches, its results materialised and then thrown away."""
    join = query_join(windows_us)
    selections = (Selections(join, Side.LEFT), Selections(join, Side.RIGHT))
    state, counters, pairs = JoinState(join, selections, Policy(), Heap()), Counters(), 0
    start = time.process_time()
    for rows in streams.batches():
        pairs += len(state.insert(rows, counters).ts)
        for side in Side:
            state.forget(side, int(rows.ts[-1]), counters)
    seconds = time.process_time() - start
    live = state.rows(Side.LEFT) + state.rows(Side.RIGHT)
    return {"seconds": seconds, "pairs": pairs, "comparisons": counters.comparisons, "index_bytes": state.nbytes,
            "live_rows": live}  # fmt: skip


def join_in_duckdb(streams: Streams, window_us: int) -> dict[str, Any]:
    """The same pairs by DuckDB as a batch join on one thread, into a table in memory.

    Times are cut into bands of a window so that it joins on (key, band) instead of trying all rows of a key; without
    this it does not end on skewed keys. On even keys the plain join is faster and is used.
    """
    con = duckdb.connect(":memory:", config={"threads": 1})
    for name, table in streams.tables().items():
        con.register(name, table)
    near = f"abs(a.ts - b.ts) < {window_us}"
    banded = int(streams.ts[0][-1]) > 10 * window_us
    source = "a JOIN b ON a.k = b.k"
    if banded:
        bands = f"(SELECT *, ts // {window_us} + d AS band FROM b, (VALUES (-1), (0), (1)) AS t(d))"
        source = f"(SELECT *, ts // {window_us} AS band FROM a) a JOIN {bands} b ON a.k = b.k AND a.band = b.band"
    start = time.process_time()
    con.execute(
        f"CREATE TABLE pairs AS SELECT a.id AS l, b.id AS r, greatest(a.ts, b.ts) AS ts FROM {source} WHERE {near}"
    )
    seconds = time.process_time() - start
    ((pairs,),) = con.sql("SELECT count(*) FROM pairs").fetchall()
    con.close()
    return {"seconds": seconds, "pairs": pairs}


def in_turns(rounds: int, **contestants: Callable[[], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The best of several rounds of each, one after the other in every round; a round before them warms up."""
    best: dict[str, dict[str, Any]] = {}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            result = run()
            if number and (name not in best or result["seconds"] < best[name]["seconds"]):
                best[name] = result
    return best


def against_duckdb(rows: int, rounds: int, skewed: bool) -> dict[str, Any]:
    streams = Streams(rows, zipf_keys if skewed else even_keys)
    window = zipf_window_us() if skewed else WINDOW_US
    best = in_turns(
        rounds, muntin=lambda: join_in_batches(streams, [window]), duckdb=lambda: join_in_duckdb(streams, window)
    )
    if best["muntin"]["pairs"] != best["duckdb"]["pairs"]:
        raise AssertionError(f"the pairs differ: {best}")
    return {**best, "window_us": window, "ratio": best["muntin"]["seconds"] / best["duckdb"]["seconds"]}


def many_windows(rows: int, rounds: int) -> dict[str, Any]:
    """A hundred windows against one of the largest size."""
    streams = Streams(rows, even_keys)
    hundred = [WINDOW_US * n // 100 for n in range(1, 101)]
    best = in_turns(
        rounds, one=lambda: join_in_batches(streams, [WINDOW_US]), hundred=lambda: join_in_batches(streams, hundred)
    )
    if best["one"]["comparisons"] != best["hundred"]["comparisons"]:
        raise AssertionError(f"a hundred windows compare more rows than one: {best}")
    return {**best, "ratio": best["hundred"]["seconds"] / best["one"]["seconds"]}


def memory(result: dict[str, Any]) -> dict[str, Any]:
    """What the index takes for each live row, beside the row itself."""
    return {"index_bytes_per_row": result["index_bytes"] / max(1, result["live_rows"]), **result}


def measure(quick: bool, tell: Callable[[str], None], spark: Any = None) -> dict[str, Any]:
    """All figures of the join alone, and what state costs on Spark."""
    from muntin.bench.ranges import measure_ranges
    from muntin.testing.stale_rows import invalidation

    rows, rounds = QUICK if quick else WHOLE
    figures: dict[str, Any] = {"rows_per_stream": rows, "batch_rows": BATCH, "keys": KEYS, "rate": RATE}
    tell("the join against DuckDB, even keys")
    figures["even"] = against_duckdb(rows, rounds, skewed=False)
    tell(f"the join against DuckDB, keys by Zipf {ZIPF}")
    figures["skewed"] = against_duckdb(rows, rounds, skewed=True)
    tell("a hundred windows against one")
    figures["windows"] = many_windows(rows, rounds)
    figures["memory"] = memory(figures["even"]["muntin"])
    tell("a join without an equality: rows in order, every pair, and DuckDB")
    figures["ranges"] = measure_ranges(quick)
    tell("the invalidations")
    figures["invalidation"] = {name: invalidation(name, rounds) for name in INVALIDATIONS.names}
    if spark is not None:
        from muntin.bench.growth import state_growth

        tell("micro-batches on Spark with one and ten times the state")
        figures["growth"] = state_growth(spark, quick)
    return figures


def render(figures: dict[str, Any]) -> str:
    """The figures for people: each ratio with what it is made of."""
    from muntin.bench.ranges import render_ranges

    rows, keys, batch = (figures[name] for name in ("rows_per_stream", "keys", "batch_rows"))
    lines = [f"2 x {rows:,} rows, {keys:,} keys, micro-batches of {batch:,}; seconds of one core"]
    for name, title in (("even", "even keys, 600 s"), ("skewed", "Zipf 1.1 keys")):
        f = figures[name]
        lines.append(
            f"{title:<22} muntin {f['muntin']['seconds']:.2f} s, DuckDB (1 thread) {f['duckdb']['seconds']:.2f} s, "
            f"{f['muntin']['pairs']:,} pairs: ratio {f['ratio']:.2f}"
        )
    f = figures["windows"]
    seconds = f"{f['hundred']['seconds']:.2f} s, one window {f['one']['seconds']:.2f} s"
    lines.append(f"{'100 windows':<22} {seconds}: ratio {f['ratio']:.2f}")
    lines.append(f"{'index':<22} {figures['memory']['index_bytes_per_row']:.0f} bytes for each live row")
    lines.append(render_ranges(figures["ranges"]))
    lines.append("invalidation           seconds   checks        rows kept (in window)")
    for name, f in figures["invalidation"].items():
        kept = f"{f['rows_kept']:,.0f} ({f['rows_in_window']:,.0f})"
        lines.append(f"  {name:<20} {f['seconds']:<9.4f} {f['stale_checks']:<13,} {kept}")
    if "growth" in figures:
        f = figures["growth"]
        (large, rows), (small, fewer) = ((f[size]["median_s"], f[size]["state_rows"]) for size in ("large", "small"))
        seconds = f"{large:.2f} s a micro-batch with {rows:,} rows, {small:.2f} s with {fewer:,}"
        lines.append(f"{'state on Spark':<22} {seconds}: ratio {f['ratio']:.2f}")
    return "\n".join(lines)
