"""Event times of the years 1 to 9999 count, the others are dead letters, in every kind of query (semantics, section 1).

Times at both ends of the calendar meet the longest windows there are, so that whatever adds a window to a time would
leave its range here if it ever did.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.core.arrivals.frontiers import FOREVER
from muntin.core.policy import LimitError
from muntin.formats import json_lines
from muntin.model import Axis, Window
from muntin.model.event_time import EARLIEST_US, LATEST_US, time_text
from muntin.spark.ingest import event_time
from muntin.sql import parse_job
from muntin.sql.duration import LIMIT_US
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, ROW, STREAMS, order_of

DAYS = LIMIT_US // 86_400_000_000
IN_2106 = 1 << 52
INSIDE = [EARLIEST_US, EARLIEST_US + 1, -1, 0, IN_2106, LATEST_US - LIMIT_US, LATEST_US - LIMIT_US + 1, LATEST_US]
OUTSIDE = [EARLIEST_US - 1, LATEST_US + 1, FOREVER - 1, FOREVER, -FOREVER, (1 << 63) - 1, -(1 << 63)]
WINDOWS = {"1 microsecond": 1, "3 microseconds": 3, f"{DAYS} days": LIMIT_US}
KINDS = {
    "pairs": "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW {window}",
    "last rows": "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 2 ROWS",
    "changes": "SELECT COUNT(*) AS n, SUM(A.id) AS s, MAX(B.id) AS m FROM A, B WHERE A.k = B.k WINDOW {window}",
    "every": "SELECT COUNT(*) AS n, SUM(A.id) AS s, MAX(B.id) AS m FROM A, B WHERE A.k = B.k WINDOW {window} "
    f"EVERY {DAYS} days",
    "final": "SELECT A.k, COUNT(*) AS n, SUM(A.id) AS s FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW {window} "
    "EMIT FINAL",
}


def rows_of(times: list[int], keys: list[int]) -> list[dict[str, Any]]:
    return [
        {"ts": ts, "id": n + 1, "k": k, "g": "x", "v": 0} for n, (ts, k) in enumerate(zip(times, keys, strict=True))
    ]


def expected(kind: str, window: int, left: list, right: list) -> list[tuple]:
    """The oracle's rows of a query, over the rows that it admits."""
    sides = [oracle.admit([rows])[0] for rows in (left, right)]
    key, both = oracle.columns("k"), Window(window, window)
    if kind == "last rows":
        both = Window(2, 2, (Axis.ROWS, Axis.ROWS))
    pairs = oracle.answer(both, *sides, (key, key))
    if kind in ("pairs", "last rows"):
        return [(p.left["id"], p.right["id"], p.ts) for p in pairs]

    def values(live: list) -> tuple:
        ids = [p.left["id"] for p in live]
        return (len(live), sum(ids) if ids else None, max((p.right["id"] for p in live), default=None))

    if kind == "final":
        end = max(row["ts"] for rows in sides for row in rows) if any(sides) else 0
        told = oracle.final(pairs, lambda p: p.left["k"], lambda live: values(live)[:2], lambda p: (), end)
        return [(k, *found, t) for t, k, found in told]
    told = oracle.aggregate(both, pairs, lambda p: (), values, every=LIMIT_US if kind == "every" else None)
    return [(*found, t) for t, _, found in told]


times = st.lists(st.sampled_from(INSIDE * 2 + OUTSIDE), min_size=1, max_size=5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(st.sampled_from(list(WINDOWS)), times, times, st.data(), st.integers(1, 3))
def test_every_kind_of_query_answers_from_the_first_to_the_last_time(kind, window, left, right, data, shards):
    sides = [rows_of(ts, data.draw(st.lists(st.integers(1, 2), min_size=len(ts), max_size=len(ts))))
             for ts in (left, right)]  # fmt: skip
    local = LocalJob(
        parse_job(STREAMS.format(late=0) + f"CREATE QUERY q AS {KINDS[kind].format(window=window)};"), shards
    )
    tables = {name: pa.Table.from_pylist(rows, ROW) for name, rows in zip("AB", sides, strict=True)}
    found = [local.push(tables)["q"]]
    local.restart()
    found.append(local.push({}, ended=True)["q"])
    got = [row for table in found for row in plain(table)]
    assert sorted(got, key=order_of) == sorted(expected(kind, WINDOWS[window], *sides), key=order_of)
    turned_away = [row for name in "AB" for table in local.outside[name] for row in table["id"].to_pylist()]
    assert len(turned_away) == sum(ts in OUTSIDE for ts in (*left, *right)), "nothing vanishes"


def plain(table: pa.Table) -> list[tuple]:
    table = table.set_column(table.column_names.index("_ts"), "_ts", table["_ts"].cast(pa.int64()))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("select", ["COUNT(*) AS n", "A.id ORDER BY A.id LIMIT 2"])
def test_instants_without_end_stop_the_job_with_the_query_and_what_to_do(select):
    what, _, order = select.partition(" ORDER")
    query = f"SELECT {what} FROM A, B WHERE A.k = B.k {order and 'ORDER' + order} WINDOW {DAYS} days EVERY 1 second"
    local = LocalJob(parse_job(STREAMS.format(late=0) + f"CREATE QUERY dense AS {query};"))
    table = pa.Table.from_pylist(rows_of([0], [1]), ROW)
    local.push({"A": table, "B": table})
    with pytest.raises(LimitError, match=r"query dense: EVERY 1 s over windows of up to 3.15576e\+09 s") as error:
        local.push({}, ended=True)
    assert "raise SET fan_out_limit" in str(error.value.hint)


@pytest.mark.parametrize("rows", [60, 61])
def test_as_many_instants_as_the_limit_has_are_told(rows):
    query = f"SELECT COUNT(*) AS n FROM A, B WHERE A.k = B.k WINDOW {rows} seconds EVERY 1 second"
    local = LocalJob(parse_job(f"SET fan_out_limit = 60; {STREAMS.format(late=0)} CREATE QUERY q AS {query};"))
    table = pa.Table.from_pylist(rows_of([0], [1]), ROW)
    if rows > 60:
        with pytest.raises(LimitError, match="more than 60 rows"):
            local.push({"A": table, "B": table}, ended=True)
    else:
        assert local.push({"A": table, "B": table}, ended=True)["q"].num_rows == rows


def test_status_knows_all_times_from_the_beginning_and_the_end():
    assert event_time(IN_2106) == "2112-09-17T23:53:47.370496+00:00"
    assert event_time(LATEST_US) == "9999-12-31T23:59:59.999999+00:00"
    assert event_time(LATEST_US + LIMIT_US) == "+10099-12-31T23:59:59.999999+00:00"
    assert event_time(EARLIEST_US) == "0001-01-01T00:00:00+00:00"
    assert [event_time(ts) for ts in (None, -FOREVER, 1 - FOREVER, FOREVER, FOREVER - 1)] == [None] * 5


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00"),
        (EARLIEST_US - 1, "+0000-12-31T23:59:59.999999"),
        (LATEST_US + 1, "+10000-01-01T00:00:00"),
        (FOREVER, "+148108-07-06T14:00:27.387904"),
        ((1 << 63) - 1, "+294247-01-10T04:00:54.775807"),
        (-(1 << 63), "-290308-12-21T19:59:05.224192"),
    ],
)
def test_a_time_of_any_year_is_written_by_the_calendar(us, text):
    assert time_text(us) == text


def test_lines_of_json_have_times_of_any_year():
    zoned, plain_, day = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()
    columns = {
        "z": ([0, FOREVER, None], zoned),
        "p": ([LATEST_US + 1, None, 0], plain_),
        "d": ([None, 0, 2932897], day),
    }
    table = pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()})
    assert json_lines(table).decode().splitlines() == [
        '{"z": "1970-01-01T00:00:00.000000Z", "p": "+10000-01-01 00:00:00", "d": null}',
        '{"z": "+148108-07-06T14:00:27.387904Z", "p": null, "d": "1970-01-01"}',
        '{"z": null, "p": "1970-01-01 00:00:00", "d": "+10000-01-01"}',
    ]
