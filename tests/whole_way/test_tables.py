"""Dimension tables on a stand-in for Spark: each row finds what its micro-batch went by, whatever dies or changes.

The judge is DuckDB. It joins each row with the version of the table that the checkpoint names for its micro-batch.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.core.storage import read_table
from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint import DamageError
from muntin.spark.doctor import examine
from muntin.spark.run import Job, Run, check_change
from muntin.spark.sink import read
from muntin.spark.tables import VersionLog, keeper
from muntin.sql import parse_job
from whole_way.drive import kept_apart
from whole_way.stand_in import Session
from whole_way.tasks import DEATHS
from worlds import seeds

ROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("p", pa.int64())])
PLACE = pa.schema([("id", pa.int64()), ("g", pa.string()), ("n", pa.int32())])
ON = "A.k = B.k"
QUERIES = {
    "plain": f"SELECT A.id AS a, B.id AS b FROM A JOIN B ON {ON}",
    "inner_": f"SELECT A.id AS a, B.id AS b, P.g FROM A JOIN B ON {ON} JOIN P ON A.p = P.id",
    "chosen": f"SELECT A.id AS a, B.id AS b, P.n FROM A, B, P WHERE {ON} AND A.p = P.id AND P.n > 1",
    "perhaps": f"SELECT A.id AS a, B.id AS b, P.g, P.n FROM A JOIN B ON {ON} LEFT JOIN P ON A.p = P.id",
    "other": f"SELECT A.id AS a, B.id AS b, P.g FROM A JOIN B ON {ON} JOIN P ON B.p = P.id",
    "keyed": "SELECT A.id AS a, B.id AS b FROM A JOIN P ON A.p = P.id JOIN B ON P.g = CAST(B.p AS STRING)",
    "outer_": f"SELECT A.id AS a, B.id AS b, P.g FROM A LEFT JOIN B ON {ON} JOIN P ON A.p = P.id",
    "both": f"SELECT A.id AS a, P.g, Q.g AS h FROM A LEFT JOIN B ON {ON} LEFT JOIN P ON A.p = P.id "
    "LEFT JOIN P Q ON B.p = Q.id",
}
WINDOW = 6
POINTS = [*DEATHS, "before version of a table", "after version of a table"]
PLACES = [1, 2, 3, None]


class World:
    """A job, its streams and its table."""

    def __init__(self, root: Path, queries: list[str], settings: str = "SET shards = 2;"):
        self.root, self.session, self.numbers = root, Session(), itertools.count()
        self.now = 0
        self.head = settings + "".join(
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, p BIGINT) TIMESTAMP BY ts "
            f"WITH (format = 'x', name = '{name}', maxFilesPerTrigger = '1');"
            for name in "AB"
        )
        self.head += f"CREATE TABLE P (id BIGINT, g STRING, n INT) WITH (format = 'parquet', path = '{root / 'p'}');"
        self.queries = queries

    @property
    def text(self) -> str:
        return self.head + "".join(map(statement, self.queries))

    def put(self, rows: list[dict[str, Any]]) -> None:
        """Let the table be another one."""
        (self.root / "p").mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, PLACE), self.root / "p" / f"{next(self.numbers)}.tmp")
        for old in (self.root / "p").glob("*.parquet"):
            old.unlink()
        for new in (self.root / "p").glob("*.tmp"):
            new.rename(new.with_suffix(".parquet"))

    def come(self, dice: random.Random, count: int = 4) -> None:
        """A file of each stream, in order of time."""
        for name in "AB":
            rows = [
                {"ts": self.now + n, "id": next(self.numbers), "k": dice.choice([1, 2, None]), "p": dice.choice(PLACES)}
                for n in range(count)
            ]
            self.session.files[name].append(pa.Table.from_pylist(rows, ROW))
        self.now += count

    def start(self, mode: str = "available-now") -> Run:
        job = Job(self.session, parse_job(self.text))  # type: ignore[arg-type]
        return job.start(output=self.root / "out", checkpoint=self.root / "ckpt", mode=mode)

    def run(self, mode: str = "available-now") -> Run:
        run = self.start(mode)
        assert run.await_termination(60)
        return run

    def step(self) -> None:
        query = self.session.queries[-1]
        while query.isActive and query.step():
            pass
        assert query.isActive

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        files = sorted((self.root / "out" / query).glob("b*.parquet"))
        tables = [pq.read_table(file).drop_columns(["_ts"]).to_pydict() for file in files]
        return [row for table in tables for row in zip(*table.values(), strict=True)]

    # -- the judge ----------------------------------------------------------------------------------------------------

    def versions(self) -> list[dict[str, Any]]:
        """The rows of the table by version."""
        log = VersionLog(self.root / "ckpt")
        return [
            row | {"version": version.number, "since": version.first_batch}
            for version in log.of("P")
            for row in read_table(log.content("P", version.number)).to_pylist()
        ]

    def wanted(self, query: str, since: int = 0) -> list[tuple[Any, ...]]:
        """The rows of a query whose A has looked into the table from a micro-batch on."""
        base = duckdb.connect()
        log, offsets = VersionLog(self.root / "ckpt"), self.session.checkpoints[str(self.root / "ckpt")].offsets
        for name in "AB":
            rows = [
                {**row, "v": (v := log.at("P", batch.number)) and v.number, "batch": batch.number}
                for batch in offsets
                for n in batch.files.get(name, ())
                for row in in_microseconds(self.session.files[name][n]).to_pylist()
            ]
            base.register(f"{name}_", pa.Table.from_pylist(rows))
            base.execute(f"CREATE TABLE {name} AS FROM {name}_ WHERE batch >= {since if name == 'A' else 0}")
        base.register("versions", pa.Table.from_pylist(self.versions()))
        base.execute("CREATE TABLE P AS FROM versions")
        return sorted(base.execute(oracle(QUERIES[query])).fetchall(), key=repr)


def in_microseconds(rows: pa.Table) -> pa.Table:
    return rows.set_column(0, "us", rows["ts"].cast(pa.int64()))


def oracle(text: str) -> str:
    """The query with its window, and rows of a table only in the version of the row that looks into it."""
    near = f"abs(A.us - B.us) < {WINDOW}"
    text = text.replace("A.k = B.k", f"A.k = B.k AND {near}")
    text = text.replace("CAST(B.p AS STRING)", f"CAST(B.p AS VARCHAR) AND {near}")
    for name, side in (("P", "A"), ("P", "B"), ("Q", "B")):
        text = text.replace(f"{side}.p = {name}.id", f"{side}.p = {name}.id AND {side}.v = {name}.version")
    return text


def statement(name: str) -> str:
    return f"CREATE QUERY {name} AS {QUERIES[name]} WINDOW {WINDOW} microseconds;"


def places(dice: random.Random) -> list[dict[str, Any]]:
    """A table of some of three places, one with a NULL for a key."""
    there = [n for n in (1, 2, 3) if dice.random() < 0.7]
    found = [{"id": n, "g": str(dice.randrange(1, 4)), "n": dice.randrange(4)} for n in there]
    return [*found, {"id": None, "g": "never", "n": 9}]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with kept_apart(tmp_path):
        yield tmp_path


SETTINGS = [f"SET shards = {n}; SET strategy = '{s}';" for n, s in ((2, "auto"), (3, "push-down"), (1, "isolated"))]


@pytest.mark.parametrize("seed", seeds(12, 1))
def test_each_row_finds_what_its_micro_batch_went_by(root: Path, seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(VersionLog, "forget", lambda *_: None)  # the judge needs them all
    dice = random.Random(seed)
    names = dice.sample(list(QUERIES), 5)
    world = World(root, names, SETTINGS[seed % len(SETTINGS)])
    world.put(places(dice))
    world.session.faults.rate = 0.1
    for _ in range(dice.randrange(2, 5)):
        for _ in range(dice.randrange(1, 4)):
            world.come(dice)
        world.session.faults.kill = dice.choice([None, None, *POINTS])
        try:
            world.run()
        except MuntinError:
            if dice.random() < 0.7:
                world.put(places(dice))  # what was begun is brought to its end with the table of before
            world.session.faults.kill = None
            world.run()
        if dice.random() < 0.7:
            world.put(places(dice))
    world.run("bounded")
    for name in names:
        assert sorted(world.rows(name), key=repr) == world.wanted(name), name
    assert len({v["version"] for v in world.versions()}) >= 1


def test_a_table_that_changes_while_the_job_runs_is_taken_at_one_micro_batch(root: Path):
    dice, world = random.Random(5), World(root, ["plain", "perhaps"])
    world.put([{"id": n, "g": "old", "n": 1} for n in (1, 2, 3)])
    run = world.start("endless")
    for n in range(4):
        world.come(dice)
        if n == 2:
            world.put([{"id": n, "g": "new", "n": 1} for n in (1, 2, 3)])
        world.step()
    status = run.status()
    run.stop()
    assert status["versions"] == {"P": {"version": 2, "since_batch": 2, "rows": 3}}
    assert sorted(world.rows("perhaps"), key=repr) == world.wanted("perhaps")
    assert {row[2] for row in world.rows("perhaps")} == {"old", "new"}


def test_what_cannot_be_taken_is_told_and_the_last_version_stays(root: Path, monkeypatch: pytest.MonkeyPatch):
    dice, world = random.Random(5), World(root, ["perhaps"])
    monkeypatch.setattr(keeper, "RETRY_S", 0.0)
    good = [{"id": n, "g": "good", "n": 1} for n in (1, 2)]
    world.put(good)
    run = world.start("endless")
    world.come(dice)
    world.step()
    faults = []
    for spoil in ("twice", "columns", "gone", "torn"):
        if spoil == "twice":
            world.put([*good, *good])
        elif spoil == "columns":
            world.put(good)
            (file,) = (root / "p").glob("*.parquet")
            pq.write_table(pq.read_table(file).drop_columns(["g"]), file)
        elif spoil == "gone":
            (root / "p").rename(root / "away")
        else:
            (root / "away").rename(root / "p")
            (file,) = (root / "p").glob("*.parquet")
            file.write_bytes(b"PAR1 no more")
        world.come(dice)
        world.step()
        faults.append(run.status()["versions"]["P"]["warning"])
    assert "table P has 2 keys more than once, such as id = 1" in faults[0]
    assert "none is g" in faults[1] and "there is no" in faults[2] and "cannot be read" in faults[3]
    assert run.status()["versions"]["P"]["version"] == 1
    world.put([*good, {"id": 3, "g": "better", "n": 1}])
    world.come(dice)
    world.step()
    assert run.status()["versions"] == {"P": {"version": 2, "since_batch": 5, "rows": 3}}
    run.stop()
    assert sorted(world.rows("perhaps"), key=repr) == world.wanted("perhaps")


def test_a_table_that_has_no_answer_is_refused_before_the_start(root: Path):
    world = World(root, ["inner_"])
    with pytest.raises(UsageError, match="table P: there is no"):
        world.start()
    world.put([{"id": 1, "g": "a", "n": 1}, {"id": 1, "g": "b", "n": 1}])
    with pytest.raises(UsageError, match="1 key more than once, such as id = 1"):
        world.start()
    pq.write_table(pa.table({"id": ["1"], "g": ["a"], "n": [1]}), root / "p" / "0.parquet")
    for other in (root / "p").glob("[1-9]*.parquet"):
        other.unlink()
    with pytest.raises(UsageError, match="table P: id of the source parquet is string, not bigint"):
        world.start()
    world.put([{"id": 1, "g": "a", "n": 1}])
    world.come(random.Random(0))
    world.run()  # on the same checkpoint


def test_a_query_that_comes_later_has_the_pairs_of_rows_that_came_with_it(root: Path):
    dice, world = random.Random(7), World(root, ["plain"])
    world.put([{"id": n, "g": "x", "n": 2} for n in (1, 2)])
    run = world.start("endless")
    world.come(dice, 6)
    world.step()
    check_change(root / "ckpt", statement("perhaps"))
    run._router.submit(statement("perhaps"))
    run._router.submit(statement("inner_"))
    run._prepare_output()
    for _ in range(4):
        world.come(dice, 6)
        world.step()
    since = min(v["since"] for v in world.versions())
    assert since == 1, "nothing was read before somebody looked"
    assert run.status()["queries"]["perhaps"]["complete_from"] is not None
    run.stop()
    for name in ("perhaps", "inner_"):
        assert sorted(world.rows(name), key=repr) == world.wanted(name, since), name
    assert sorted(world.rows("plain"), key=repr) == world.wanted("plain")
    world.queries = ["plain", "perhaps", "other"]
    world.come(dice, 6)
    world.run("bounded")
    assert sorted(world.rows("plain"), key=repr) == world.wanted("plain")


def test_a_query_whose_key_is_twice_in_the_table_is_refused_while_the_job_runs(root: Path):
    dice, world = random.Random(7), World(root, ["inner_"])
    world.put([{"id": n, "g": "x", "n": 2} for n in (1, 2)])
    run = world.start("endless")
    world.come(dice)
    world.step()
    with pytest.raises(UsageError, match="1 key more than once, such as n = 2"):
        run._router.submit(f"CREATE QUERY more AS SELECT P.g FROM A JOIN B ON {ON} JOIN P ON A.p = P.n WINDOW 1 min")
    world.come(dice)
    world.step()
    run.stop()
    assert sorted(world.rows("inner_"), key=repr) == world.wanted("inner_")


def test_versions_that_no_replay_can_need_are_removed(root: Path):
    dice, world = random.Random(1), World(root, ["inner_"])
    for n in range(4):
        world.put([{"id": 1, "g": str(n), "n": 1}])
        world.come(dice, 1)
        world.run()
    kept = sorted(file.stem for file in (root / "ckpt/muntin/tables/P").iterdir())
    assert kept == ["0000000003", "0000000004"], "that of the last commit when this run began, and its own"


def test_a_damaged_version_is_told_by_its_file(root: Path):
    dice, world = random.Random(1), World(root, ["inner_"])
    world.put([{"id": 1, "g": "x", "n": 1}])
    world.come(dice)
    world.run()
    (file,) = (root / "ckpt/muntin/tables/P").iterdir()
    file.write_bytes(file.read_bytes().replace(b"arrow", b"sorry"))
    world.come(dice)
    with pytest.raises(DamageError, match="0000000001"):
        world.run()
    told = [finding for pipeline in examine(root / "ckpt").pipelines for finding in pipeline.findings]
    assert str(file) in [str(finding.file) for finding in told], "doctor reads it, too"


def test_slices_at_rest_have_what_rows_looked_up(root: Path):
    dice, names = random.Random(3), ["plain", "inner_", "perhaps"]
    world = World(root, names, "SET shards = 2; SET output_layout = 'sliced';")
    world.put([{"id": n, "g": "x", "n": 2} for n in (1, 2)])
    for _ in range(3):
        world.come(dice)
    world.run("bounded")
    for name in names:
        rows = read(root / "out", name).to_table().drop_columns(["_ts"]).to_pydict()
        assert sorted(zip(*rows.values(), strict=True), key=repr) == world.wanted(name), name


def test_rows_that_are_turned_away_are_as_they_came(root: Path):
    dice, world = random.Random(1), World(root, ["inner_"])
    world.put([{"id": 1, "g": "x", "n": 1}])
    world.come(dice)
    world.run()
    world.now = 0
    world.come(dice)
    world.run()
    letters = [row for f in (root / "out/_dead_letters").glob("*.parquet") for row in pq.read_table(f).to_pylist()]
    assert letters and {tuple(json.loads(letter["row"])) for letter in letters} == {("ts", "id", "k", "p")}


def test_a_table_is_declared_from_python_as_in_a_job_file(root: Path):
    world = World(root, [])
    world.put([{"id": 1, "g": "x", "n": 5}])
    job = Job(world.session, parse_job(world.head.partition("CREATE TABLE")[0]))  # type: ignore[arg-type]
    job.table("P", "id BIGINT, g STRING, n INT", format="parquet", path=str(root / "p"))
    assert job.spec == parse_job(world.head)
    job.query("inner_", QUERIES["inner_"] + " WINDOW 6 seconds")
    world.come(random.Random(1))
    run = job.start(output=root / "out", checkpoint=root / "ckpt", mode="bounded")
    assert run.await_termination(60) and {row[2] for row in world.rows("inner_")} == {"x"}
    for name, columns, more, said in [
        ("P", "id BIGINT", {"format": "x"}, "table P is there already"),
        ("A", "id BIGINT", {"format": "x"}, "stream A is there already"),
        ("R", "id BIGINT, id INT", {"format": "x"}, "id"),
        ("R", "id BIGINT", {"format": "parquet"}, "needs a path"),
        ("R", "id BIGINT", {"format": "kafka"}, "has no end"),
        ("R", "id BIGINT", {"format": "csv", "path": "nowhere.csv"}, "there is no nowhere.csv"),
        ("R", "id BIGINT", {"format": "csv", "path": 7}, "path"),
    ]:
        with pytest.raises(UsageError, match=said):
            job.table(name, columns, **more)  # type: ignore[arg-type]
