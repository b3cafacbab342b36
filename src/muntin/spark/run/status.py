"""`CHECKPOINT/muntin/status.json`: what a job has done and where it stands, written after every micro-batch.

mode, state        "endless" | "available-now" | "bounded";  "running" | "stopped" | "failed" | "ended"
batch, batches     the last committed micro-batch (of the first pipeline), and how many this run has done
sources            per stream: rows of the last micro-batch and in all, as counted in the first pipeline that reads it;
                   `seconds_ahead` where it is read slowly because it is that much of event time ahead of another
queries            per query: rows in all and in the last micro-batch; response time in this run, from ingest to
                   hand-over (mean, median, 99%, maximum)
dropped            queries that have gone, and the rows that they had in all
strategy, chain    how the queries share
never              queries that can have no rows, planned away
joins              per shared join: streams, queries, frontiers, rows kept per slice (measured and predicted), held
                   rows, comparisons per second of stream time (in the last micro-batch, and predicted), counters
                   `ordering`: which rule is in force (or "handing over"), what Adaptive decided and from what;
                   `waits_for`: the stream that holds results back, since when, and how much is held for it
switches           the last changes of ordering, with the load that made them
migrations         the last changes of chains while the job ran: predicted gain, or measured where one was undone
dead_letters       rows per class of reason, in all
seconds            of the last micro-batch: whole, and Spark's phases
pipelines               the streaming queries of the job, more than one where queries came over streams not read before
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from muntin.core.arrivals import FOREVER, is_event_time
from muntin.model import Settings, Side, UsageError
from muntin.plan import SharedJoin
from muntin.plan.adapt import Move
from muntin.plan.cost import DEFAULT
from muntin.plan.ordering import FILTER_ORDER, SYNC_FILTER, must_wait
from muntin.spark.checkpoint import FOLDER, DamageError, FileKind, Manifest, MissingError, TopKey, read_json, write_json
from muntin.spark.control import Orderings, known
from muntin.spark.exchange import Topology
from muntin.spark.ingest import event_time, iso
from muntin.spark.sink import Latency

FILE = "status.json"
MIGRATIONS = 20
"""How many are remembered."""


def read_status(checkpoint: str | os.PathLike[str]) -> dict[str, Any]:
    """The status of a job, running or not, from its checkpoint."""
    file = Path(checkpoint) / FOLDER / FILE
    try:
        found: dict[str, Any] = read_json(file, FileKind.STATUS)
    except MissingError:
        raise UsageError(f"{checkpoint} is not the checkpoint of a job that has run") from None
    if found["state"] == "running" and not _is_alive(found["pid"]):
        found["state"] = "failed"
        found["error"] = "its process is gone; run it again to go on"
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _before(file: Path) -> dict[str, Any]:
    """The status of the run before. It is a report: where it is damaged, nothing is known of that run."""
    try:
        return dict(read_json(file, FileKind.STATUS))
    except DamageError:
        return {}


class StatusBoard:
    """The status of a running job, made of that of its pipelines; every change reaches the file."""

    def __init__(self, checkpoint: Path, settings: Settings, mode: str):
        self.file = checkpoint / FOLDER / FILE
        self.invalidation, self.ordering = settings.invalidation, settings.ordering
        self.constants = known.load_constants(checkpoint) or DEFAULT
        self.lock = threading.Lock()
        self.before = _before(self.file)
        """The status of the run before."""
        self._pipelines: list[PipelineStatus] = []
        self._over: list[Manifest] = []
        self._batches_over = 0
        self._head: dict[str, Any] = {
            "mode": mode,
            "state": "running",
            "pid": os.getpid(),
            "started": time.time(),
        }

    def add(self, number: int, topology: Topology, names: list[str], last: Manifest) -> PipelineStatus:
        """Show one more pipeline; `names` are its sources as Spark numbers them."""
        with self.lock:
            pipeline = PipelineStatus(self, number, topology, names, last)
            self._pipelines = sorted([*self._pipelines, pipeline], key=lambda pipeline: pipeline.number)
            self._write()
            return pipeline

    def close(self, last: Manifest, pipeline: PipelineStatus | None = None) -> None:
        """Show a pipeline that has ended no more; what it has delivered still counts."""
        with self.lock:
            self._over.append(last)
            if pipeline is not None:
                self._batches_over += pipeline.status["batches"]
                self._pipelines.remove(pipeline)
                self._write()

    def finished(self, state: str, error: str | None = None) -> None:
        with self.lock:
            self._head["state"] = state
            if error:
                self._head["error"] = error
            self._write()

    def snapshot(self) -> dict[str, Any]:
        with self.lock:
            return dict(json.loads(json.dumps(self._merged())))

    def changed(self) -> None:
        """Write what a pipeline has noted; with the lock held."""
        self._write()

    def _write(self) -> None:
        write_json(self.file, FileKind.STATUS, self._merged())

    def _merged(self) -> dict[str, Any]:
        pipelines = [pipeline.status for pipeline in self._pipelines]
        first = pipelines[0] if pipelines else {}
        queries = {name: query for pipeline in pipelines for name, query in pipeline["queries"].items()}
        dead_letters = [
            *(pipeline["dead_letters"] for pipeline in pipelines),
            *(last.total_dead_letters for last in self._over),
        ]
        dropped = [pipeline.dropped for pipeline in self._pipelines] + [last.total_rows for last in self._over]
        return self._head | {
            "updated": time.time(),
            "batch": first.get("batch"),
            "batches": sum(pipeline["batches"] for pipeline in pipelines) + self._batches_over,
            "epoch": first.get("epoch"),
            "strategy": first.get("strategy"),
            "chain": first.get("chain"),
            "sources": {n: s for pipeline in reversed(pipelines) for n, s in pipeline["sources"].items()},
            "queries": queries,
            "dropped": {"queries": sum(map(len, dropped)), "total_rows": sum(sum(d.values()) for d in dropped)},
            "never": [name for pipeline in pipelines for name in pipeline["never"]],
            "joins": [join for pipeline in pipelines for join in pipeline["joins"]],
            "migrations": [move for pipeline in pipelines for move in pipeline["migrations"]],
            "switches": [switch for pipeline in pipelines for switch in pipeline["switches"]],
            "dead_letters": dict(sum((Counter(found) for found in dead_letters), Counter())),
            "seconds": max(pipelines, key=lambda pipeline: pipeline["progressed"], default={"seconds": {}})["seconds"],
            "pipelines": [
                {
                    "pipeline": pipeline["pipeline"],
                    "queries": list(pipeline["queries"]),
                    **{name: pipeline[name] for name in ("batch", "batches", "epoch", "chain", "sources")},
                }
                for pipeline in pipelines
            ],
        }


class PipelineStatus:
    """What the board says of one pipeline."""

    def __init__(self, board: StatusBoard, number: int, topology: Topology, names: list[str], last: Manifest):
        self._board, self.number, self._topology, self._names = board, number, topology, names
        self._done: dict[int, tuple[int, int]] = {}
        self._decisions: dict[int, dict[str, Any]] = {}
        self._moved: dict[str, tuple[Any, float]] = {}
        self._seen_progress: set[tuple[str, int]] = set()
        self.dropped: dict[str, int] = {}
        """Rows of queries that have gone."""
        self.status: dict[str, Any] = {
            "pipeline": number,
            "batch": None,
            "batches": 0,
            "sources": {name: {"rows": 0, "total_rows": 0} for name in names},
            "queries": {},
            "migrations": [],
            "switches": [],
            "joins": [],
            "dead_letters": {},
            "seconds": {},
            "progressed": 0.0,
        }
        self._follow(0)
        self._carry_on()
        self._take(last)

    def _carry_on(self) -> None:
        """Sources are counted by Spark per run: go on from the sums of the run before."""
        pipelines = {pipeline["pipeline"]: pipeline for pipeline in self._board.before.get("pipelines", ())}
        before: dict[str, Any] = pipelines.get(self.status["pipeline"], {})
        for name, source in self.status["sources"].items():
            source["total_rows"] = before.get("sources", {}).get(name, {}).get("total_rows", 0)
        told, mine = self._board.before.get("queries", {}), before.get("queries", ())
        self.status["queries"] |= {name: told[name] for name in mine if name in told}

    def _follow(self, epoch: int) -> None:
        """Show the queries of an epoch that is in force; those that have gone are shown no more."""
        plan, shown = self._topology.epoch(epoch).plan, self.status["queries"]
        nothing = {"rows": 0, "total_rows": 0}
        self.status["queries"] = {n: {**shown.get(n, nothing), "text": q.text} for n, q in plan.queries.items()}
        self.status |= {"epoch": epoch, "strategy": plan.strategy, "chain": plan.chain}
        self.status["never"] = [query.name for query in plan.never]

    def _note_changes(self, manifest: Manifest) -> None:
        """From when on new queries have rows, and all of them."""
        for change in (c for changes in manifest.changes.values() for c in changes):
            for name, complete in change.complete_from.items():
                if name in self.status["queries"]:
                    self.status["queries"][name] |= {
                        "applied_from": event_time(change.applied_from),
                        "complete_from": event_time(complete),
                    }

    def committed(self, manifest: Manifest, latency: Mapping[str, Latency]) -> None:
        with self._board.lock:
            self.status["batches"] += 1
            self._take(manifest)
            for name, query in self.status["queries"].items():
                query["response"] = latency[name].summary if name in latency else {"rows": 0}
            self._board.changed()

    def migrated(self, batch: int, move: Move) -> None:
        """Note that the states are cut elsewhere from now on, or again as before."""
        with self._board.lock:
            slices = {j.index: [len(cuts) for cuts in j.cuts] for j in move.plan.joins}
            entry = {"batch": batch, "kind": move.kind, "chain": move.plan.chain, "gain": move.gain, "slices": slices}
            entry["pipeline"] = self.status["pipeline"]
            self.status["migrations"] = [*self.status["migrations"], entry][-MIGRATIONS:]
            self._board.changed()

    def ordered(self, orderings: Orderings) -> None:
        """Note what Adaptive decides."""
        with self._board.lock:
            self._decisions = {join: decision.described() for join, decision in orderings.decisions.items()}
            self.status["switches"] = orderings.switches
            for join in self.status["joins"]:
                join["ordering"]["decision"] = self._decisions.get(join["join"] - 1)
            self._board.changed()

    def slowed(self, streams: Mapping[str, float]) -> None:
        """Note which streams are read slowly, and by how many seconds of event time they are ahead."""
        with self._board.lock:
            for name, source in self.status["sources"].items():
                source.pop("seconds_ahead", None)
                if name in streams:
                    source["seconds_ahead"] = round(streams[name], 3)

    def rows_read(self) -> dict[str, int]:
        with self._board.lock:
            return {name: source["total_rows"] for name, source in self.status["sources"].items()}

    def progressed(self, progress: dict[str, Any]) -> bool:
        """Take in one of Spark's progress reports; each counts once. True where it was new and ran a micro-batch."""
        with self._board.lock:
            key = (progress["runId"], progress["batchId"])
            if key in self._seen_progress or "addBatch" not in progress.get("durationMs", {}):
                return False
            self._seen_progress.add(key)
            for name, source in zip(self._names, progress["sources"], strict=False):
                self.status["sources"][name]["rows"] = source["numInputRows"]
                self.status["sources"][name]["total_rows"] += source["numInputRows"]
            self.status["seconds"] = {k: v / 1000 for k, v in progress["durationMs"].items()}
            self.status["progressed"] = time.time()
            self._board.changed()
            return True

    def _take(self, manifest: Manifest) -> None:
        if manifest.batch < 0:
            return
        self.status["batch"] = manifest.batch
        self._follow(manifest.epoch)
        self._note_changes(manifest)
        for name, query in self.status["queries"].items():
            query["rows"] = manifest.rows.get(name, 0)
            query["total_rows"] = manifest.total_rows.get(name, 0)
        self.dropped = {n: rows for n, rows in manifest.total_rows.items() if n not in self.status["queries"]}
        self.status["dead_letters"] = dict(manifest.total_dead_letters)
        self.status["joins"] = [self._join(join, manifest) for join in self._topology.epoch(manifest.epoch).plan.joins]

    def _join(self, join: SharedJoin, manifest: Manifest) -> dict[str, Any]:
        reports = known.reports_of(join, manifest)
        described = {"pipeline": self.status["pipeline"], **describe(join, reports)}
        described["ordering"] |= {"setting": self._board.ordering, "decision": self._decisions.get(join.index)}
        described["waits_for"] = self._waits_for(join, reports)
        expected = known.expected(join, reports, self._board.constants, self._board.invalidation)
        described["predicted_bytes"] = expected and round(expected.bytes)
        described["comparisons_per_second"] = {
            "measured": self._rate(join, reports),
            "predicted": expected and round(expected.comparisons, 1),
        }
        for side in Side:
            loads = expected.states[side].rows if expected else [None] * len(described["slices"][side])
            for piece, rows in zip(described["slices"][side], loads, strict=True):
                piece["predicted_rows"] = None if rows is None else round(float(rows))
        return described

    def _waits_for(self, join: SharedJoin, reports: known.Reports) -> dict[str, Any] | None:
        """The stream for which results of a join wait, since when it has not moved, and what is held for it."""
        now = time.time()
        for side, stream in enumerate(join.streams):
            frontier = _frontier(reports, Side(side))
            if self._moved.get(stream.name, (None, 0))[0] != frontier or stream.name not in self._moved:
                self._moved[stream.name] = frontier, now
        held = [r for r in reports if r.counters.held_bytes]
        if not held:
            return None
        stream = join.streams[held[0].behind]
        return {"stream": stream.name, "since": self._moved[stream.name][1], **_held(reports)}

    def _rate(self, join: SharedJoin, reports: known.Reports) -> float | None:
        """Comparisons since the micro-batch before, per second of event time; None where time has not passed."""
        now = sum(r.counters.comparisons for r in reports), min((r.release for r in reports), default=0)
        before, self._done[join.index] = self._done.get(join.index), now
        seconds = (now[1] - before[1]) / known.SECOND_US if before else 0
        real = before is not None and is_event_time(before[1]) and is_event_time(now[1])
        return round((now[0] - before[0]) / seconds, 1) if before and real and seconds > 0 else None


def describe(join: SharedJoin, reports: known.Reports) -> dict[str, Any]:
    """One shared join: the reports of its shards, added up."""
    slices = [join.slices(side) for side in Side]
    return {
        "join": join.index + 1,
        "streams": [stream.name for stream in join.streams],
        "queries": [query.name for query in join.queries],
        "frontiers": [_frontier(reports, side) for side in Side],
        "slices": [
            [
                {"lo": s.lo, "hi": s.hi, "rows": sum(r.slices[side][n] for r in reports)}
                for n, s in enumerate(slices[side])
            ]
            for side in Side
        ],
        "axes": [str(axis) for axis in join.axes],
        "bytes": sum(r.bytes for r in reports),
        "fullest_keys": [_fullest_key(reports, side) for side in Side],
        "held_rows": [sum(r.counters.held_rows[side] for r in reports) for side in Side],
        "held_pairs": sum(r.counters.held_pairs for r in reports),
        "idle": [any(r.idle[side] for r in reports) for side in Side],
        "ordering": {"in_force": _in_force(join, reports), "out_of_order": _out_of_order(reports)},
        "counters": _added([asdict(r.counters) for r in reports]),
        "rebuilt": sum(r.rebuilt for r in reports),
    }


def _in_force(join: SharedJoin, reports: known.Reports) -> str:
    """The rule that says what is joined when; after a switch back, rows joined ahead are caught up with first."""
    if must_wait(join) or not any(r.filter_order or r.ahead for r in reports):
        return SYNC_FILTER
    return FILTER_ORDER if any(r.filter_order for r in reports) else "handing over to sync-filter"


def _out_of_order(reports: known.Reports) -> int:
    return sum(r.counters.out_of_order for r in reports)


def _held(reports: known.Reports) -> dict[str, int]:
    counters = [r.counters for r in reports]
    rows, pairs = sum(sum(c.held_rows) for c in counters), sum(c.held_pairs for c in counters)
    return {"held_rows": rows, "held_pairs": pairs, "held_bytes": sum(c.held_bytes for c in counters)}


def _fullest_key(reports: known.Reports, side: Side) -> dict[str, Any] | None:
    """The key with the most rows of a side, and its share of them: near 1 is skew that no number of shards divides."""
    top = max((r.top_keys[side] for r in reports), key=lambda top: top.rows, default=TopKey())
    total = sum(r.counters.state_rows[side] for r in reports)
    return {**asdict(top), "share": top.rows / max(1, total)} if top.rows else None


def _frontier(reports: known.Reports, side: Side) -> str | None:
    """The same in all shards, once each has had a row of the stream."""
    known = [frontier for r in reports if (frontier := r.frontiers[side]) is not None]
    return None if not known else "ended" if known[0] == FOREVER else iso(min(known))


def _added(counters: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for one in counters:
        for name, value in one.items():
            if isinstance(value, list):
                total[name] = [a + b for a, b in zip(total.get(name, [0] * len(value)), value, strict=True)]
            else:
                total[name] = total.get(name, 0) + value
    return total
