"""Fuzzing what people write: statements, whole job files, values of messages."""

from __future__ import annotations

import ast
import contextlib
import io
import random
import re
from functools import cache
from pathlib import Path

import pyarrow as pa

from fuzz.mutations import spoilt_bytes, spoilt_text, varied_text
from muntin.cli.main import main
from muntin.core.batch import stream_schema
from muntin.core.policy import LimitError
from muntin.formats import FORMATS
from muntin.model import JobSpec, MuntinError
from muntin.spark.run.job import check_job
from muntin.sql import FUNCTIONS, parse_change, parse_job
from muntin.testing import LocalJob
from whole_way.random_jobs import random_text

ROOT = Path(__file__).parents[2]
SQL = re.compile(r"```sql\n(.*?)```", re.DOTALL)
KEYWORDS = """
    SELECT FROM WHERE AND OR NOT NULL IS IN BETWEEN LIKE CASE WHEN THEN ELSE END AS JOIN LEFT RIGHT FULL OUTER
    SEMI ANTI ASOF ON USING WINDOW ROWS GROUP BY HAVING ORDER LIMIT DESC EMIT FINAL CHANGES EVERY WITH UNION ALL
    DISTINCT CREATE REPLACE QUERY STREAM SET DROP INTO DELTA INTERVAL TIMESTAMP DATE LATENESS RATE UNIQUE PUNCTUATION
    BINDING IDLE AFTER VALUE FORMAT METADATA BEGINNING CAST STRUCT ARRAY MAP DECIMAL BIGINT STRING BOOLEAN 1 0
    2.5 'x' '%a_' '(a+)+$' '[' '\\\\' A.k B.k A.v A.s A.ts seconds min hours"""
STREAM = """CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT, s STRING, d DECIMAL(10, 2), b BOOLEAN, day DATE,
  Value DOUBLE, LocationId BIGINT, id BIGINT, g STRING, tags ARRAY<STRING>) TIMESTAMP BY ts LATENESS 2 seconds
  WITH (format = 'parquet', path = '/none/{name}');
"""
NAMES = ("A", "B", "Temperature", "Humidity")
EXPRESSIONS = (
    "regexp_replace(A.s, '(a|b)*c{2,3}', '$1')", "regexp_extract(A.s, '^(a+)+$', 1)", "A.s RLIKE '[^a-z]+'",
    "repeat(A.s, 3) || lpad(B.s, 10, 'x') || space(4)", "CAST(A.v AS DECIMAL(10, 2)) * B.d", "A.day + INTERVAL 3 DAYS",
    "date_format(A.ts, 'yyyy-MM-dd HH:mm')", "to_timestamp(A.s, 'yyyy-MM-dd')", "get_json_object(A.s, '$.a.b[0]')",
    "CASE WHEN A.v > 1 THEN A.s ELSE B.s END", "A.k % 3 + abs(B.k) - round(A.v, 2)", "coalesce(A.s, B.s, 'x')",
    "split_part(A.s, ',', 2)", "A.s LIKE '%a\\_%'", "A.tags[0]", "date_trunc('hour', A.ts)", "sha2(A.s, 256)",
    "substring(A.s, 2, 3)", "A.k IN (1, 2, NULL)", "try_cast(A.s AS BIGINT)", "A.ts - B.ts", "pow(A.v, 2) / B.v",
)  # fmt: skip
MOST_CELLS = 20
"""Rows of each stream that an accepted query is run over."""


@cache
def words() -> list[str]:
    return [*KEYWORDS.split(), *(f"{name}(" for name in FUNCTIONS)]


@cache
def corpus() -> tuple[list[str], list[str]]:
    """Queries alone, and whole job files: of examples, documentation and tests."""
    texts = [path.read_text() for path in ROOT.glob("examples/**/*.sql")]
    for page in [*ROOT.glob("docs/*.md"), ROOT / "README.md"]:
        texts += SQL.findall(page.read_text())
    for path in sorted(ROOT.glob("tests/sql/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 5000:
                texts.append(node.value)
    jobs = [text for text in texts if "CREATE STREAM" in text]
    statements = [part.strip() for text in texts for part in text.split(";")]
    queries = [part for part in statements if part.startswith(("CREATE QUERY", "CREATE OR REPLACE QUERY", "DROP"))]
    queries += [f"CREATE QUERY q AS {part}" for part in statements if part.startswith(("SELECT", "WITH"))]
    queries += [query.sql for seed in range(60) for query in random_text(seed).queries]
    queries += [f"CREATE QUERY f AS SELECT {e} AS x FROM A, B WHERE A.k = B.k WINDOW 9 s" for e in EXPRESSIONS]
    assert len(jobs) > 10 and len(queries) > 100
    return sorted(set(queries)), sorted(set(jobs))


class Statements:
    """A change of a running job; one that is accepted is planned and run over a few rows."""

    name = "statements"

    def __init__(self) -> None:
        self.spec = parse_job("".join(STREAM.format(name=name) for name in NAMES))
        self.rows = {name: _some_rows(self.spec, name) for name in NAMES}
        self.queries = [text for text in corpus()[0] if self._is_accepted(text)]
        assert len(self.queries) > 60
        self.accepted = 0

    def close(self) -> None:
        pass

    def _is_accepted(self, text: str) -> bool:
        try:
            parse_change(text, self.spec)
        except MuntinError:
            return False
        return True

    def run(self, dice: random.Random) -> object:
        if dice.random() < 0.5:
            text = varied_text(dice, self.queries, EXPRESSIONS)
        else:
            text = spoilt_text(dice, self.queries if dice.random() < 0.8 else corpus()[0], words())
        yield_text(text)
        change = parse_change(text, self.spec)
        if change.query is None or change.query.into is not None:
            return None
        spec = JobSpec(self.spec.streams, {change.query.name: change.query}, self.spec.settings)
        check_job(spec, frames=spec.streams)
        self.accepted += 1
        with contextlib.suppress(LimitError):
            job = LocalJob(spec)
            read = {stream.name: self.rows[stream.name] for stream in job.plan.streams}
            job.push(read)
            job.push({}, ended=True)
        return None


class JobFiles:
    """`muntin check` of a file of any bytes."""

    name = "job files"

    def __init__(self, folder: Path) -> None:
        self.file = folder / "job.sql"

    def close(self) -> None:
        self.file.unlink(missing_ok=True)

    def run(self, dice: random.Random) -> object:
        text = spoilt_text(dice, corpus()[1], words()).encode(errors="surrogatepass")
        data = spoilt_bytes(dice, text) if dice.random() < 0.2 else text
        yield_text(data)
        self.file.write_bytes(data)
        return said_well(["check", str(self.file)])


class Values:
    """Messages of brokers: each value becomes a row or a dead letter."""

    name = "values"

    def __init__(self) -> None:
        self.schema = pa.schema(
            [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(10, 2)),
             ("parts", pa.list_(pa.int64())), ("inner", pa.struct([("x", pa.int32())])), ("raw", pa.binary())]
        )  # fmt: skip
        row = {"ts": 5, "k": 7, "s": "é\n", "d": None, "parts": [1, None], "inner": {"x": 5}, "raw": b"\0\xff"}
        table = pa.Table.from_pylist([row], self.schema)
        self.formats = [kind({}) for kind in FORMATS.values() if kind.writes]
        self.corpus = {kind.name: kind.encode(table)[0] for kind in self.formats}

    def close(self) -> None:
        pass

    def run(self, dice: random.Random) -> object:
        kind = dice.choice(self.formats)
        value = self.corpus[kind.name]
        data = spoilt_bytes(dice, value)
        if kind.name == "json" and dice.random() < 0.5:
            data = spoilt_text(dice, [value.decode()], words()).encode(errors="surrogatepass")
        yield_text(data)
        found = kind.decode(self.schema, [value, data, value])
        assert 0 in found.places and 2 in found.places, "a neighbour of a bad value was refused"
        assert (1 in found.places) != (1 in found.faults)
        return None


def said_well(arguments: list[str]) -> object:
    """A command that ends with a code and a message of ours, never with an error that nobody foresaw."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*arguments, "--verbose"])
    assert code in (0, 1, 2), code
    assert "unexpected " not in err.getvalue() or "muntin: unexpected" not in err.getvalue(), err.getvalue()
    return None


LAST: list[object] = []


def yield_text(case: object) -> None:
    """Remember the case at hand, to be shown where it finds a fault."""
    LAST[:] = [case]


def _some_rows(spec: JobSpec, name: str) -> pa.Table:
    dice = random.Random(name)
    rows = [
        {
            "ts": 1_000_000 * n, "k": dice.randrange(3), "v": dice.choice([None, 0, -1, 10**15]), "b": n % 2 == 0,
            "s": dice.choice([None, "", "a", "aaaa" * 20, "2024-01-01"]), "d": None, "day": n * 1000, "Value": 20.0 + n,
            "LocationId": 1, "id": n, "g": "x", "tags": ["a", None],
        }
        for n in range(MOST_CELLS)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, stream_schema(spec.streams[name]))
