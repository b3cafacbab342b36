"""Slices hold each pair once, and the slices that a query reads have exactly its rows."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.arrivals import shard_rows
from muntin.core.batch import TS, Arrivals
from muntin.core.operator import Operator
from muntin.core.results import PairSlices, ResultBatch, SliceLayout, output_schema, route, routed
from muntin.model import Side
from muntin.model.records import from_json, to_json
from muntin.plan import make_plan
from muntin.sql import parse_job
from worlds import EXAMPLES, ROW, STREAMS, queries, rows


def table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=ROW)


def results(join, batch: dict[str, pa.Table], shards: int) -> ResultBatch:
    """The pairs of one micro-batch, of all shards of a join."""
    tables = [batch[stream.name] for stream in join.streams]
    tables = [t.add_column(0, pa.field(TS, pa.int64(), nullable=False), t["ts"].cast(pa.int64())) for t in tables]
    parts = [shard_rows(join, side, tables[side], shards) for side in Side]
    ends = [(pc.min(t[TS]).as_py(), pc.max(t[TS]).as_py()) for t in tables]
    lows, highs = zip(*ends, strict=True)
    clocks = tuple(t[TS].to_numpy() for t in tables)
    found = []
    for n in range(shards):
        operator = Operator(join)
        found.append(
            operator.advance(Arrivals((parts[0][n], parts[1][n]), lows, highs, (True, True), clocks)).found.whole()
        )
    return ResultBatch.merge(found)


def rows_of(layout: SliceLayout, tables: dict[int, pa.Table], query: str) -> pa.Table:
    """What a reader makes of slices."""
    reads, found = layout.queries[query], []
    for number, stored in enumerate(layout.slices):
        if query in stored.readers and number in tables:
            word = tables[number][reads.bits]
            mine = tables[number].filter(pc.not_equal(pc.bit_wise_and(word, pa.scalar(reads.bit, pa.int64())), 0))
            columns = [*reads.columns.values(), "_ts"]
            found.append(mine.select(columns).rename_columns([*reads.columns, "_ts"]))
    return pa.concat_tables(found) if found else pa.table({})


def compare(join, batch: ResultBatch) -> None:
    slices = PairSlices(join)
    layout = from_json(SliceLayout, json.loads(json.dumps(to_json(slices.layout))))
    assert layout == slices.layout and layout.name == slices.layout.name
    divided = slices.divide(batch)
    tables = dict(divided.tables())
    wanted = {query.name: found for query, found in route(join, batch)}
    arrived = {name: sum(times.values()) for name, times in divided.arrivals().items()}
    assert arrived == {name: found.num_rows for name, found in wanted.items()}
    for query in join.queries:
        want, got = wanted.get(query.name, output_schema(query).empty_table()), rows_of(layout, tables, query.name)
        assert Counter(map(str, got.to_pylist())) == Counter(map(str, want.to_pylist())), query.text
    some = len({n for places in _places(join, batch) for n in places})
    assert sum(found.num_rows for found in tables.values()) == some, "each pair that somebody wants is there once"
    for number, found in tables.items():
        assert found.schema == layout.schema(number)
        assert found["_ts"].to_pylist() == sorted(found["_ts"].to_pylist())


def _places(join, batch: ResultBatch) -> list[list[int]]:
    return [places.tolist() for _, places in routed(join, batch)]


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data(), st.sampled_from([1, 2]))
def test_what_a_query_reads_from_slices_is_what_is_routed_to_it(data, shards):
    asked = [data.draw(queries(f"q{n}", alike=True)) for n in range(4)]
    spec = parse_job(STREAMS.format(late=0) + "".join(q["sql"] for q in asked))
    batch = {name: table(data.draw(rows(0))) for name in "AB"}
    if not all(rows.num_rows for rows in batch.values()):
        return
    for join in make_plan(spec).joins:
        compare(join, results(join, batch, shards))


def many(count: int, more: str = "") -> list:
    """Queries with windows of their own, every third with a selection."""
    select = "SELECT A.id AS a, B.id AS b{} FROM A, B WHERE A.k = B.k{} WINDOW {} microseconds"
    texts = (select.format(more * (n % 2), " AND A.v > 1" * (n % 3 == 0), n + 1) for n in range(count))
    return make_plan(
        parse_job(STREAMS.format(late=0) + "".join(f"CREATE QUERY q{n} AS {t};" for n, t in enumerate(texts)))
    ).joins


def some_rows(count: int, seed: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    values = dice.integers(0, (150, 3, 4), (count, 3)).tolist()
    found = [{"ts": ts, "id": n, "k": k, "g": "x", "v": v} for n, (ts, k, v) in enumerate(values)]
    return table(sorted(found, key=lambda row: row["ts"]))


@pytest.mark.slow
def test_more_queries_than_a_word_has_bits_are_told_apart():
    (join,) = many(140)
    layout = PairSlices(join).layout
    assert [layout.words(n) for n in (0, 100, 139)] == [[0, 1, 2], [1, 2], [2]]
    assert layout.queries["q63"].bit == -(2**63)
    compare(join, results(join, {"A": some_rows(60, 1), "B": some_rows(60, 2)}, 2))


def test_a_slice_has_the_columns_of_its_readers_and_equal_expressions_once():
    lists = ("A.v AS v, A.id", "B.v AS V, A.id AS i", "A.v AS w, B.v + 1 AS n")
    texts = (f"SELECT {lists[n]} FROM A, B WHERE A.k = B.k WINDOW {n + 1} microseconds" for n in range(3))
    asked = "".join(f"CREATE QUERY q{n} AS {text};" for n, text in enumerate(texts))
    (join,) = make_plan(parse_job(STREAMS.format(late=0) + asked)).joins
    layout = PairSlices(join).layout
    assert [stored.columns for stored in layout.slices] == [
        ["v", "id", "V_2", "n"], ["v", "id", "V_2", "n"], ["v", "n"]
    ]  # fmt: skip
    assert layout.queries["q2"].columns == {"w": "v", "n": "n"}
    compare(join, results(join, {"A": some_rows(40, 1), "B": some_rows(40, 2)}, 1))
    (join,) = many(3, ", A.v AS v")
    assert [stored.columns for stored in PairSlices(join).layout.slices] == [
        ["a", "b", "v"],
        ["a", "b", "v"],
        ["a", "b"],
    ]


def test_ages_of_both_sides_with_the_same_readers_are_one_slice():
    (join,) = many(3)
    slices = PairSlices(join).layout.slices
    assert [stored.readers for stored in slices] == [["q0", "q1", "q2"], ["q1", "q2"], ["q2"]]
    assert [stored.ages for stored in slices] == [{"A": [(n, n + 1)], "B": [(n, n + 1)]} for n in range(3)]


@pytest.mark.parametrize("others", ["LEFT JOIN B ON A.k = B.k", "LEFT SEMI JOIN B ON A.k = B.k"])
def test_queries_that_are_not_made_of_pairs_as_they_are_have_no_slices(others):
    text = (
        STREAMS.format(late=0) + "CREATE QUERY p AS SELECT A.id AS a FROM A, B WHERE A.k = B.k WINDOW 9 microseconds;"
    )
    (join,) = make_plan(
        parse_job(text + f"CREATE QUERY o AS SELECT A.id AS a FROM A {others} WINDOW 5 microseconds;")
    ).joins
    slices = PairSlices(join)
    assert list(slices.layout.queries) == ["p"] and slices.has_others
    batch = results(join, {"A": some_rows(40, 1), "B": some_rows(20, 2)}, 1)
    wanted = {query.name: found for query, found in route(join, batch)}
    left = {query.name: found for query, found in route(join, slices.others(batch))}
    assert left.keys() == {"o"} and left["o"].equals(wanted["o"])
    got = rows_of(slices.layout, dict(slices.divide(batch).tables()), "p")
    assert Counter(map(str, got.to_pylist())) == Counter(map(str, wanted["p"].to_pylist()))
