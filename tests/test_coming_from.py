"""The page for people who come from other systems: its SQL is read, and gives the rows that it gives there."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from muntin.model import SqlError
from muntin.sql import parse_job
from muntin.testing import LocalJob

PAGE = (Path(__file__).parents[1] / "docs" / "coming-from.md").read_text()
ROWS, BATCHES, STEP_US = 300, 5, 30_000_000
"""Times are multiples of half a minute, so that many rows are exactly an hour apart."""
SPARK_SPELLINGS = {"LEFT SEMI": "SEMI", "LEFT ANTI": "ANTI"}
"""What DuckDB spells otherwise than Spark."""


class Block(NamedTuple):
    line: int
    words: tuple[str, ...]
    """Whose SQL it is, and whether it runs unchanged; nothing for ours."""
    text: str


def blocks() -> list[Block]:
    found = re.finditer(r"^```sql(.*)\n((?s:.*?))^```", PAGE, re.MULTILINE)
    return [Block(PAGE.count("\n", 0, m.start()) + 1, tuple(m[1].split()), m[2]) for m in found]


STREAMS, *BLOCKS = blocks()
OURS = [block for block in BLOCKS if not block.words]
THEIRS = [block for block in BLOCKS if block.words]
PAIRS = [
    (block, block if "unchanged" in block.words else following)
    for block, following in pairwise([*BLOCKS, STREAMS])
    if block.words
]
"""What is written there and what is written here; the same where it runs unchanged."""
ANSWERED = [(theirs, ours) for theirs, ours in PAIRS if theirs.words[0] == "duckdb" or theirs is ours]
"""Those that DuckDB can run as they are written there."""


def named(block: Block | tuple[Block, Block]) -> str:
    first = block if isinstance(block, Block) else block[0]
    return "-".join([*first.words, f"line{first.line}"])


def job(text: str) -> str:
    """A block as a job: with the streams of the page, unless it declares some itself."""
    return text if text.startswith("CREATE STREAM") else f"{STREAMS.text}CREATE QUERY q AS {text}"


def test_the_page_shows_every_system_and_the_two_streams():
    assert set(parse_job(STREAMS.text).streams) == {"Orders", "Shipments"}
    assert {block.words[0] for block in THEIRS} == {"spark", "flink", "ksqldb", "duckdb"}
    assert len(ANSWERED) > 12 and all(not ours.words or theirs is ours for theirs, ours in PAIRS)


@pytest.mark.parametrize("block", OURS, ids=named)
def test_what_is_written_here_is_read(block):
    spec = parse_job(job(block.text))
    assert spec.queries or block.text.startswith("CREATE STREAM")


@pytest.mark.parametrize("block", THEIRS, ids=named)
def test_what_runs_unchanged_is_read_and_the_rest_is_refused(block):
    """Else the page would ask for changes that nobody needs."""
    if "unchanged" in block.words:
        assert set(parse_job(job(block.text)).queries) == {"q"}
    else:
        with pytest.raises(SqlError):
            parse_job(job(block.text))


# -- answers ----------------------------------------------------------------------------------------------------------


def table(seed: int, **columns: list[str | None] | range) -> pa.Table:
    draw = np.random.default_rng(seed)
    times = np.sort(draw.choice(3 * ROWS, ROWS, replace=False))  # no ties: DuckDB does not know who came first
    made = {
        "ts": pa.array(times * STEP_US, pa.timestamp("us", "UTC")),
        "id": pa.array(draw.integers(0, 25, ROWS), mask=draw.random(ROWS) < 0.05),
    }
    for name, values in columns.items():
        made[name] = pa.array([values[n] for n in draw.integers(0, len(values), ROWS)])
    return pa.table(made)


def world() -> dict[str, pa.Table]:
    notes = ['{"gift": "yes"}', '{"gift": "no", "n": 1}', "{}", None]
    orders = table(1, price=range(100), note=notes)
    return {
        "Orders": orders.set_column(2, "price", orders["price"].cast(pa.float64())),
        "Shipments": table(2, carrier=["sea", "air", None]),
    }


def found(text: str) -> pa.Table:
    """The rows of a query in order, after a few micro-batches."""
    local, size, parts = LocalJob(parse_job(job(text))), ROWS // BATCHES, []
    for n in range(BATCHES + 1):
        batch = {name: rows.slice(n * size, size) for name, rows in world().items()}
        parts.append(local.push(batch, ended=n == BATCHES)["q"])
    return pa.concat_tables(parts)


def check(ours: str, theirs: str) -> pa.Table:
    """Both give the same rows, and some; those of ours."""
    base, rows = duckdb.connect(), found(ours)
    base.execute("CREATE MACRO get_json_object(t, path) AS json_extract_string(t, path)")
    for name, stream in world().items():
        base.register(name, stream)
    base.register("found", rows)
    for spark, duck in SPARK_SPELLINGS.items():
        theirs = theirs.replace(spark, duck)
    wanted, got = f"SELECT * FROM ({theirs})", "SELECT * EXCLUDE (_ts) FROM found"
    for one, other in ((wanted, got), (got, wanted)):
        assert base.execute(f"SELECT * FROM ({one} EXCEPT ALL {other})").fetchall() == []
    assert rows.num_rows
    return rows


@pytest.mark.parametrize("pair", ANSWERED, ids=named)
def test_the_rows_are_those_of_duckdb(pair):
    theirs, ours = pair
    rows = check(ours.text, theirs.text)
    assert rows["_ts"].to_pylist() == sorted(rows["_ts"].to_pylist())


def in_the_section(system: str, title: str) -> list[str]:
    """What is written here under a title of a system."""
    section = PAGE.partition(f"\n## {system}\n")[2].partition(f"\n### {title}\n")[2].partition("\n#")[0]
    return re.findall(r"^```sql\n((?s:.*?))^```", section, re.MULTILINE)


SIDE_BY_SIDE = "SELECT O.id, O.price, S.carrier FROM Orders O {} Shipments S ON O.id = S.id AND {}"


def test_within_of_ksqldb_has_both_ends_and_window_has_neither():
    within, before_and_after = in_the_section("ksqlDB", "WITHIN")
    apart = "abs(epoch_us(O.ts) - epoch_us(S.ts))"
    whole = check(within, SIDE_BY_SIDE.format("JOIN", f"{apart} <= 3600e6"))
    strict = SIDE_BY_SIDE.format("JOIN", "TRUE")
    less = check(f"{strict} WINDOW 1 hour", strict.replace("TRUE", f"{apart} < 3600e6"))
    assert less.num_rows < whole.num_rows
    later = "epoch_us(S.ts) - epoch_us(O.ts)"
    check(before_and_after, SIDE_BY_SIDE.format("LEFT JOIN", f"{later} >= -600e6 AND {later} <= 3600e6"))


def test_rows_of_one_calendar_hour_are_a_window_join():
    (ours,) = in_the_section("Flink", "Window join")
    hours = "epoch_us(O.ts) // 3600000000 = epoch_us(S.ts) // 3600000000"
    check(ours, SIDE_BY_SIDE.format("JOIN", hours))


def test_in_of_flink_is_exists():
    (ours,) = in_the_section("Flink", "EXISTS and IN")
    (theirs,) = (block.text for block in THEIRS if block.words == ("flink",) and " IN (" in block.text)
    check(ours, theirs)


def test_expressions_of_a_subquery_may_be_computed_outside_of_it():
    (theirs,) = (block.text for block in THEIRS if block.words == ("spark",) and "gross" in block.text)
    (ours,) = in_the_section("Spark", "USING and WITH")
    check(ours, theirs)


def test_the_second_row_of_a_unique_key_becomes_a_dead_letter():
    (unique,) = in_the_section("Spark", "Deduplication")
    shipments = STREAMS.text.partition("\n\n")[2]
    local = LocalJob(
        parse_job(f"{unique}{shipments}CREATE QUERY q AS {SIDE_BY_SIDE.format('JOIN', 'TRUE')} WINDOW 1 min")
    )
    orders = world()["Orders"].slice(0, 2).set_column(1, "id", pa.array([7, 7]))
    local.push({"Orders": orders}, ended=True)
    assert sum(rows.num_rows for rows in local.refused["Orders"]) == 1
