"""Lives one job from its first file to its end, with the code that ships, on a stand-in for Spark.

Runs begin, stop, die and go on from what is durable; queries come and go by the job file or while the job runs.
"""

from __future__ import annotations

import atexit
import contextlib
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.core.arrivals import HeavyKey, key_columns
from muntin.kernels.hashing import hash_keys
from muntin.model import JobSpec, MuntinError, Side, UsageError
from muntin.plan.hot_keys import why_together
from muntin.plan.orderings import ordering_in_force
from muntin.spark.checkpoint import FileKind, from_line, pipeline_folder, pipeline_numbers
from muntin.spark.checkpoint.commit_log import last_manifest, read_manifests
from muntin.spark.checkpoint.plans import PlanLog
from muntin.spark.checkpoint.publisher import STAGING
from muntin.spark.checkpoint.reports import ShardChange
from muntin.spark.control import control_stream
from muntin.spark.control.watch import send_idle, send_ordering
from muntin.spark.ingest.dead_letters import NAME as LETTERS
from muntin.spark.run import Job, Run, pipeline
from muntin.spark.run import run as running
from muntin.spark.sink import read
from muntin.sql import parse_job
from whole_way.queries import INNER, PLAIN, RandomQuery
from whole_way.random_jobs import Life, Row, Step
from whole_way.stand_in import Session
from whole_way.standing_still import rescaled
from whole_way.tasks import Faults, Killed

ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("g", pa.string()), ("v", pa.int64()),
     ("closed", pa.bool_()), ("x", pa.int64())]
)  # fmt: skip
BEGINNING, END = -(10**9), 10**9
FAR = 10**12
"""No event time of these jobs is so far from 0: the engine means the beginning or the end."""


@dataclass
class Stay:
    """How long a query was there: results from `since` on, all from `complete` on, none from `until` on."""

    since: int = BEGINNING
    complete: int | None = BEGINNING
    until: tuple[int, int] = (END, END)
    """At the earliest and at the latest."""


@dataclass
class Outcome:
    """What a job has left behind when it has ended."""

    batches: list[dict[str, list[Row]]]
    """The rows of each micro-batch, by stream."""
    idle: list[set[str]] = field(default_factory=list)
    """Of each micro-batch, the streams that it says are idle."""
    lateness: list[int] = field(default_factory=list)
    """The lateness of the streams in each micro-batch."""
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    """Of each query in the order of its files; empty where rows were only counted."""
    letters: list[dict[str, Any]] = field(default_factory=list)
    over: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    """Of each query, the keys for which its output was over, and when."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows of each query as its last manifest has them."""
    status: dict[str, Any] = field(default_factory=dict)
    stays: dict[str, Stay] = field(default_factory=dict)
    queries: dict[str, RandomQuery] = field(default_factory=dict)
    staged: list[str] = field(default_factory=list)
    """What still lies where tasks put their files."""
    died: bool = False
    keeps: int = 0
    """Rows that the state still has."""


@cache
def _reader() -> duckdb.DuckDBPyConnection:
    """Who reads the views of queries: one for all of them, since another takes as long as a small job."""
    made = duckdb.connect()
    made.execute("SET TimeZone = 'UTC'")
    atexit.register(_reader.cache_clear)  # one that outlives the interpreter is complained about at length
    return made


_SPECS: dict[str, JobSpec] = {}


def spec_of(text: str) -> JobSpec:
    """A job file, parsed once for all the lives that run it."""
    if text not in _SPECS:
        if len(_SPECS) > 200:
            _SPECS.clear()
        _SPECS[text] = parse_job(text)
    return _SPECS[text]


def live(life: Life, root: Path) -> Outcome:
    """Live one job in a folder of its own."""
    with kept_apart(root):
        driver = Driver(life, root)
        if life.online:
            driver.run_on()
        else:
            for step in life.steps[:-1]:
                driver.run_once(step, "available-now")
        return driver.end()


@contextlib.contextmanager
def kept_apart(root: Path) -> Iterator[None]:
    """Hot state lies in the job's folder, and nobody looks for requests by himself."""
    with mock.patch.object(tempfile, "tempdir", str(root)), mock.patch.object(running, "LISTEN_S", 3600):
        yield


class Driver:
    def __init__(self, life: Life, root: Path):
        self.life, self.text = life, life.text
        self.checkpoint, self.output = root / "checkpoint", root / "output"
        self.session = Session(life.text.seed * 1000 + life.number)
        self.session.faults.rate, self.session.faults.hot_loss = life.fault_rate, life.hot_loss
        self.present = list(life.text.queries)
        self.queries = {q.name: q for q in self.present}
        self.handed: dict[tuple[str, int], list[pa.Table]] = defaultdict(list)
        self.died = False
        self.dice = random.Random(f"heat {life.text.seed} {life.number}")
        self.folder = self.checkpoint
        """That of the pipeline that runs: a rescale begins another one."""
        self.past = Outcome([])
        """What the pipelines before have left behind."""

    @property
    def faults(self) -> Faults:
        return self.session.faults

    # -- what happens -------------------------------------------------------------------------------------------------

    def run_once(self, step: Step, mode: str) -> dict[str, Any]:
        """A run over what has come by then; where it dies, another goes on."""
        shards = self._rescale(step.changes.get("shards", self.text.shards))
        self.text = replace(self.text, **{**step.changes, "shards": shards})
        self._feed(step)
        self._change(step)
        try:
            with self._hot_kept(step):
                return self._run(mode)
        except MuntinError as error:
            self._forgive(error)
            return self._run(mode)
        finally:
            self.faults.kill = None

    def run_on(self) -> None:
        """A run without end, in which queries come and go; where it dies, another goes on."""
        run = self._start("endless")
        for step in self.life.steps[:-1]:
            try:
                with self._hot_kept(step):
                    self._feed(step)
                    self._ask(run, step)
                    if not self._ticks():
                        run.await_termination()
            except MuntinError as error:
                self._forgive(error)
                run = self._start("endless")
                assert self._ticks()
            self.faults.kill = None
            if step.idle:
                send_idle(self.checkpoint, [step.idle])
                assert self._ticks()
        run.stop()

    def _rescale(self, shards: int) -> int:
        """What `muntin rescale` does; a micro-batch that is not over is brought to its end before. The shards then."""
        if shards == self.text.shards or last_manifest(self.folder).batch < 0:
            return shards
        log = self.session.checkpoints[str(self.folder)]
        if last_manifest(self.folder).batch > log.committed:
            self._run("available-now")
        past = self._left_behind()
        try:
            rescaled(self.session, self.checkpoint, shards)
        except UsageError as error:
            assert "by another key has found, and such a job keeps its shards" in error.message
            return self.text.shards
        self.past, self.folder = past, pipeline_folder(self.checkpoint, pipeline_numbers(self.checkpoint)[-1])
        return shards

    def _feed(self, step: Step) -> None:
        for name, files in step.files.items():
            self.session.files[name] += [pa.Table.from_pylist(rows, ROW) for rows in files]
        if step.rule is not None and self.folder.exists():
            for join in _latest(self.folder, self._spec()).joins:
                send_ordering(self.folder, join.index, ordering_in_force(bool(step.rule)))
        if self.folder.exists() and not self.life.online and self._heats:
            self._heat()
        self.faults.kill = step.kill  # from here on: what was sent by hand above is no work of the job

    @property
    def _heats(self) -> bool:
        """Whether keys may become hot: no query comes that must have all rows of a key in one shard, and the shards
        stay."""
        queries = [*self.life.text.queries, *(q for step in self.life.steps for q in step.adds)]
        stays = not any("shards" in step.changes for step in self.life.steps)
        return stays and self.text.order == "global" and all(q.kind == PLAIN and q.join == INNER for q in queries)

    def _heat(self) -> None:
        """Let keys be hot, or be so no more."""
        known = [row for one in self.life.steps for files in one.files.values() for rows in files for row in rows]
        rows = pa.Table.from_pylist(known, ROW)
        for join in _latest(self.folder, self._spec()).joins:
            if not rows.num_rows or why_together(join, self._spec().settings) is not None or not join.keys:
                continue
            h1, h2, _ = hash_keys(key_columns(join, Side.LEFT, rows.select([f.name for f in join.streams[0].schema])))
            keys = [HeavyKey(int(a), int(b), "") for a, b in sorted(set(zip(h1, h2, strict=True)))]
            hot, cool = ([key for key in keys if self.dice.random() < part] for part in (0.7, 0.2))
            control_stream.send(self.folder, control_stream.HotKeysMessage(join.index, hot, cool))

    def _hot_kept(self, step: Step) -> contextlib.AbstractContextManager[Any]:
        """A process that is killed leaves its hot state behind."""
        return (
            mock.patch.object(pipeline, "forget_everywhere", lambda *_: None)
            if step.keeps_hot
            else contextlib.nullcontext()
        )

    def _forgive(self, error: MuntinError) -> None:
        """Only a death that was planned is none of the engine's faults."""
        if not isinstance(error.__cause__, Killed):
            raise error
        self.died = True

    def _change(self, step: Step) -> None:
        self.present = [q for q in self.present if q.name not in step.drops] + step.adds
        self.queries |= {q.name: q for q in step.adds}

    def _ask(self, run: Run, step: Step) -> None:
        """What `Run.add` and `Run.drop` do before they wait."""
        for statement in [*(q.sql for q in step.adds), *(f"DROP QUERY {name};" for name in step.drops)]:
            run._router.submit(statement)
        self._change(step)
        run._prepare_output()

    def _ticks(self) -> bool:
        """Let the query without end do all that there is to do; whether it is well."""
        query = self.session.queries[-1]
        while query.isActive and query.step():
            pass
        return query.isActive

    def _run(self, mode: str) -> dict[str, Any]:
        run = self._start(mode)
        run.await_termination()
        return run.status()

    def _start(self, mode: str) -> Run:
        committed = last_manifest(self.folder).batch
        for key in [key for key in self.handed if key[1] > committed]:
            del self.handed[key]
        output = self.output if self.text.output in ("files", "sliced") else None
        sink = self._take if self.text.output == "callable" else None
        job = Job(self.session, self._spec())  # type: ignore[arg-type]
        return job.start(output=output, checkpoint=self.checkpoint, sink=sink, mode=mode)

    def _take(self, name: str, table: pa.Table, batch: int) -> None:
        self.handed[name, batch].append(table)

    def _spec(self) -> JobSpec:
        return spec_of(self.text.sql(self.present))

    # -- what is left -------------------------------------------------------------------------------------------------

    def end(self) -> Outcome:
        status = self.run_once(self.life.steps[-1], "bounded")
        assert status["state"] == "ended", status
        found = self._left_behind()
        found.counts, found.status = last_manifest(self.folder).total_rows, status
        found.queries, found.died = self.queries, self.died
        names = [*self.queries, LETTERS]
        tables = {name: self._tables(name) for name in names}
        found.rows = {name: [row for table in tables[name] for row in tuples(table)] for name in self.queries}
        for name in self.queries:
            found.over[name] = [row for table in self._tables(f"{name}/_punctuations") for row in tuples(table)]
        found.letters = [row for table in tables[LETTERS] for row in table.to_pylist()]
        staging = self.output / STAGING
        found.staged = [str(p) for p in staging.rglob("*")] if staging.exists() else []
        found.keeps = sum(len(entries) for entries, _ in self.session.checkpoints[str(self.folder)].state.values())
        return found

    def _left_behind(self) -> Outcome:
        """The micro-batches of all pipelines so far, and how long each query was there."""
        past, moved = self.past, self.folder != self.checkpoint  # the first micro-batch after a rescale brings state
        done = slice(int(moved), self.session.checkpoints[str(self.folder)].committed + 1)
        found = Outcome(past.batches + self._batches()[done])
        found.idle, found.lateness = past.idle + self._idle()[done], past.lateness + self._lateness()[done]
        found.stays = self._stays()
        return found

    def _batches(self) -> list[dict[str, list[Row]]]:
        """What Spark put into micro-batches."""
        log, files = self.session.checkpoints[str(self.folder)], self.session.files
        return [{s: [row for n in batch.files.get(s, ()) for row in _rows(files[s][n])]
                 for s in self.text.streams}
                for batch in log.offsets]  # fmt: skip

    def _idle(self) -> list[set[str]]:
        return [{s for m in sent if m["type"] == "idle" for s in m["streams"]} for sent in self._messages()]

    def _lateness(self) -> list[int]:
        """As the plans that were in force have it, all of which are kept in so short a life."""
        log, epoch, found = PlanLog(self.folder, self._spec()), 0, list[int]()
        for sent in self._messages():
            epoch = max([epoch, *(m["epoch"] for m in sent if m["type"] == "plan")])
            found.append(log.read(epoch).plan.streams[0].lateness_us)
        return found

    def _messages(self) -> list[list[dict[str, Any]]]:
        """The messages that Spark put into each micro-batch."""
        folder = str(control_stream.folder(self.folder))
        texts, log = self.session.texts[folder], self.session.checkpoints[str(self.folder)]
        sent = [from_line(t.strip().encode(), FileKind.CONTROL, None, None, "a message") for t in texts.values()]
        return [[sent[n] for n in batch.files.get(f"lines of {folder}", ())] for batch in log.offsets]

    def _tables(self, name: str) -> list[pa.Table]:
        if self.text.output == "callable":
            return [t for key in sorted(self.handed, key=lambda k: k[1]) if key[0] == name for t in self.handed[key]]
        if self.text.output == "sliced" and name in self.queries:
            return [self._sliced(name)]
        folder = self.output / name
        files = sorted(f for f in folder.glob("*.parquet")) if folder.exists() else []
        return [pq.read_table(file, partitioning=None) for file in files]

    def _sliced(self, name: str) -> pa.Table:
        """The rows of a query that is the union of slices, in order; its view must have the same."""
        found = read(self.output, name).to_table()
        view = _reader()
        view.execute((self.output / f"{name}.sql").read_text())
        seen = view.sql(f'FROM "{name}"').to_arrow_table()
        view.execute(f'DROP VIEW "{name}"')
        assert Counter(tuples(seen.cast(found.schema))) == Counter(tuples(found)), f"the view of {name}"
        return found

    def _stays(self) -> dict[str, Stay]:
        """From the epochs and what the shards reported of them."""
        log = PlanLog(self.folder, self._spec())
        stays = {name: replace(stay) for name, stay in self.past.stays.items()}
        stays |= {name: Stay() for name in log.read(0).plan.queries if name not in stays}
        made: dict[int, list[ShardChange]] = defaultdict(list)
        for manifest in read_manifests(self.folder):
            for epoch, changes in manifest.changes.items():
                made[int(epoch)] += changes
        for number in log.numbers()[1:]:
            before, now = log.read(number - 1).plan.queries, log.read(number).plan.queries
            applied = [_near(change.applied_from) for change in made[number]]
            for name in now.keys() - before.keys():
                mine = [c for c in made[number] if name in c.complete_from]
                complete = [c.complete_from[name] for c in mine]
                known = None if None in complete else max(map(_near, complete), default=BEGINNING)
                since = min((_near(c.applied_from) for c in mine), default=BEGINNING)
                stays[name] = Stay(since, known)
            for name in before.keys() - now.keys():
                stays[name].until = min(applied, default=BEGINNING), max(applied, default=END)
        return stays


def _near(time: int) -> int:
    return BEGINNING if time < -FAR else END if time > FAR else time


def _latest(checkpoint: Path, spec: JobSpec) -> Any:
    log = PlanLog(checkpoint, spec)
    return log.read(log.latest() or 0).plan


def _rows(table: pa.Table) -> list[Row]:
    at = table.column_names.index("ts")
    return table.set_column(at, "ts", table["ts"].cast(pa.int64())).to_pylist()


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows with times in microseconds."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return list(zip(*(c.to_pylist() for c in columns), strict=True))
