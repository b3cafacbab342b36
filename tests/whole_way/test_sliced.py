"""Outputs that keep slices, on a stand-in for Spark: views, readers, changes, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.cli.main import main
from muntin.model import MuntinError, UsageError
from muntin.spark.run import Job, Run
from muntin.spark.sink import SlicedRows
from muntin.spark.sink.slice_folders import SLICES, layouts_of
from muntin.sql import parse_job
from muntin.web.rows import last_rows
from whole_way.drive import kept_apart, tuples
from whole_way.stand_in import Session

STREAMS = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
SLICED = "SET output_layout = 'sliced';" + STREAMS
WIDE = "CREATE QUERY wide AS SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k WINDOW 9 microseconds;"
NEAR = 'CREATE QUERY near AS SELECT B.v AS a, A.v AS "b\'s" FROM A, B WHERE A.k = B.k WINDOW 3 microseconds;'
PICKY = "CREATE QUERY picky AS SELECT A.v FROM A, B WHERE A.k = B.k AND A.v > 1 WINDOW 5 microseconds;"
COUNTS = (
    "CREATE QUERY counts AS SELECT A.k, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 5 microseconds;"
)
LEFT = "CREATE QUERY outer AS SELECT A.v, B.v AS b FROM A LEFT JOIN B ON A.k = B.k WINDOW 5 microseconds;"
NEVER = "CREATE QUERY never AS SELECT A.v FROM A, B WHERE A.k = B.k AND A.v > 1 AND A.v < 0 WINDOW 5 microseconds;"


class Place:
    """One job in two layouts, each with a checkpoint and an output of its own."""

    def __init__(self, root: Path):
        self.session, self.root, self.came = Session(), root, 0
        self.plain, self.sliced = root / "plain", root / "it's [sliced] {1}"

    def come(self, *times: int) -> None:
        """Rows of both streams at these times, with few keys."""
        for name in "AB":
            n = self.came + len(self.session.files[name])
            rows = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array([t % 2 for t in times], pa.int64())}
            self.session.files[name].append(pa.table(rows | {"v": pa.array([(t + n) % 5 for t in times], pa.int64())}))

    def start(self, queries: str, mode: str = "available-now", layout: str = "sliced", **options: Any) -> Run:
        text, out = (SLICED, self.sliced) if layout == "sliced" else (STREAMS, self.plain)
        job = Job(self.session, parse_job(text + queries))  # type: ignore[arg-type]
        options = {"output": out, "checkpoint": self.root / f"ckpt {layout}", **options}
        return job.start(mode=mode, **options)

    def run(self, queries: str, mode: str = "available-now", **options: Any) -> None:
        for layout in ("sliced", "queries"):
            run = self.start(queries, mode, layout, **options)
            run.await_termination()
        self.status = run.status()

    def rows(self, query: str) -> list[Any]:
        """The rows of a query, found to be the same in both layouts and by every way to read them."""
        want = tuples(muntin.read(self.plain, query).to_table())
        found = muntin.read(self.sliced, query)
        assert isinstance(found, SlicedRows) and found.count_rows() == len(want)
        got = tuples(found.to_table())
        assert Counter(got) == Counter(want)
        assert [row[-1] for row in got] == [row[-1] for row in want], "in output order"
        view = self.database.sql(f'FROM "{query}"').to_arrow_table()
        assert view.column_names == found.schema.names
        assert Counter(tuples(view.cast(found.schema))) == Counter(want)
        return want

    @property
    def database(self) -> duckdb.DuckDBPyConnection:
        made = duckdb.connect()
        made.execute("SET TimeZone = 'UTC'")
        muntin.create_views(self.sliced, made)
        return made


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with kept_apart(tmp_path):
        yield Place(tmp_path)


def test_queries_of_slices_have_the_rows_that_they_have_in_files_of_their_own(place: Place):
    place.come(0, 1, 2, 3, 4, 5)
    place.come(4, 6, 7, 8, 8, 9)
    place.run(WIDE + NEAR + PICKY + COUNTS + LEFT + NEVER, "bounded")
    names = ["counts", "near", "never", "outer", "picky", "wide"]
    assert muntin.create_views(place.sliced, duckdb.connect()) == names
    assert [name for name in names if not place.rows(name)] == ["never"]
    seen = last_rows(place.root / "ckpt sliced", "wide", names)["rows"]
    assert [row["_ts"] for row in seen] == sorted((row["_ts"] for row in seen), reverse=True) and len(seen) == 20
    layout = layouts_of(place.sliced)[0]
    assert {name for found in layouts_of(place.sliced) for name in found.queries} == {"near", "picky", "wide"}
    stored = [pq.read_metadata(f).num_rows for f in (place.sliced / SLICES / layout.name).glob("*/b*.parquet")]
    assert sum(stored) == len(place.rows("wide")), "each pair is written once"
    assert not (place.sliced / "wide").exists()


def test_queries_that_come_and_go_read_the_slices_of_their_time(place: Place):
    place.come(0, 1, 2)
    place.run(WIDE)
    place.come(3, 4, 5)
    place.run(WIDE + NEAR)
    place.come(6, 7, 8)
    near = place.rows("near")
    place.run(WIDE + PICKY)
    assert place.rows("near") == near and len(near) > 0, "one that is gone keeps its view"
    place.run(WIDE, "bounded")
    assert len(layouts_of(place.sliced)) == 3, "the same queries have the same slices again"
    for name in ("wide", "near", "picky"):
        place.rows(name)


def test_a_query_may_be_replaced_by_one_of_another_kind(place: Place):
    pairs = "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 4 microseconds;"
    groups = "CREATE QUERY q AS SELECT A.k, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 4 microseconds;"
    for text in (pairs, groups, pairs.replace("A.k FROM", "A.k, B.v FROM"), groups):
        place.come(*(t + place.came for t in range(4)))
        place.came += 4
        place.run(WIDE + text)
        assert place.rows("q")
    with pytest.raises(UsageError, match=r"column k is string, but int64 in the files that .*q has already"):
        place.start(WIDE + pairs.replace("A.k FROM", "CAST(A.k AS STRING) AS k FROM"))


def test_readers_skip_what_lies_outside_of_the_time_they_ask_for(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.come(0, 1, 2, 3, 4)
    place.come(5, 6, 7, 8, 9)
    place.run(WIDE + NEAR, "bounded")
    begin, end = (datetime.fromtimestamp(0, UTC).replace(microsecond=us) for us in (3, 7))
    for output in (place.plain, place.sliced):
        found = muntin.read(output, "near", since=begin, until=end).to_table()
        times = [row[-1] for row in tuples(muntin.read(output, "near").to_table())]
        assert [row[-1] for row in tuples(found)] == [t for t in times if 3 <= t < 7] != []
    rows = muntin.read(place.sliced, "near")
    assert len(rows.files) < len(muntin.read(place.sliced, "wide").files), "nor slices of ages that they do not read"
    assert rows.to_table(columns=["a"], filter=ds.field("a") > 2).column_names == ["a"]
    assert duckdb.sql("SELECT count(*) FROM rows").fetchall() == [(rows.count_rows(),)]
    assert sum(batch.num_rows for batch in rows.to_batches()) == rows.count_rows()


@pytest.mark.parametrize(("text", "options", "message"), [
    ("SET delivery = 'eager';", {}, "does not go with delivery = 'eager'"),
    ("SET min_file_size = '1 MB';", {}, "files of slices are not merged"),
    ("", {"output": "s3://bucket/out"}, "Parquet files in an object store cannot keep slices"),
    ("", {"output": "csv:out"}, "CSV files cannot keep slices"),
    ("", {"output": "delta:out"}, "cannot keep slices, as output_layout = 'sliced' asks"),
])  # fmt: skip
def test_what_does_not_go_with_slices_is_refused_by_name(place: Place, text: str, options: Any, message: str):
    with pytest.raises(UsageError, match=message):
        place.start(text + WIDE, **options)


def test_a_checkpoint_keeps_its_layout_and_slices_are_not_merged(place: Place, capsys: pytest.CaptureFixture[str]):
    place.come(0, 1, 2)
    place.run(WIDE)
    with pytest.raises(UsageError, match=r"output: was sliced:.*, is /"):
        place.start(WIDE, layout="queries", output=place.sliced, checkpoint=place.root / "ckpt sliced")
    assert main(["compact", str(place.sliced), "--checkpoint", str(place.root / "ckpt sliced")]) == 2
    assert "keeps slices, whose files are not merged" in capsys.readouterr().err


def test_a_damaged_layout_is_named(place: Place):
    place.come(0, 1, 2)
    place.run(WIDE)
    (file,) = (place.sliced / SLICES).glob("*.json")
    file.write_text(file.read_text().replace("wide", "wild"))
    for read in (lambda: muntin.read(place.sliced, "wide"), lambda: place.start(WIDE)):
        with pytest.raises(MuntinError, match=f"{file.name} is damaged"):
            read()
