"""What the clauses of an aggregate query come to."""

from __future__ import annotations

import pytest

from muntin.model import JobSpec, Query, SqlError
from muntin.sql import parse_change, parse_job, parse_query

AB = "FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId"


def query(spec: JobSpec, text: str) -> Query:
    found = parse_query(text, spec, name="q")
    assert found.aggregation is not None
    return found


def test_the_papers_first_query_counts_locations(spec: JobSpec) -> None:
    found = query(spec, f"SELECT COUNT(DISTINCT A.LocationId) {AB} AND A.Value > 30 AND B.Value > 80 WINDOW 1 min")
    (call,) = found.aggregation.calls
    assert call.function == "count distinct" and call.arg.sql == '"l.LocationId"'
    assert [(o.name, o.expr.sql, o.expr.type) for o in found.select] == [
        ("count(DISTINCT LocationId)", '"a.0"', "bigint")
    ]
    assert found.aggregation.groups == () and found.aggregation.every_us is None and not found.grouped_by_key


def test_expressions_over_groups_and_aggregates(spec: JobSpec) -> None:
    found = query(
        spec,
        f"SELECT B.LocationId AS place, MAX(A.Value) - MIN(A.Value) AS spread, COUNT(*) {AB} "
        "GROUP BY B.LocationId HAVING COUNT(*) > 3 AND MAX(A.Value) > B.LocationId WINDOW 1 hour EMIT EVERY 10 seconds",
    )
    assert [o.expr.sql for o in found.select] == ['"g.0"', '"a.0" - "a.1"', '"a.2"']
    assert [o.name for o in found.select] == ["place", "spread", "count(1)"]
    assert [c.text for c in found.aggregation.calls] == ["MAX(A.Value)", "MIN(A.Value)", "COUNT(*)"]
    assert found.aggregation.having.sql == '("a.2" > 3) AND ("a.0" > CAST("g.0" AS DOUBLE))'
    assert found.aggregation.every_us == 10_000_000 and found.grouped_by_key


@pytest.mark.parametrize("by", ["A.t + 1", "1", "g", "G"])
def test_groups_by_expression_number_and_alias(spec: JobSpec, by: str) -> None:
    found = query(spec, f"SELECT A.t + 1 AS g, (A.t + 1) * COUNT(*) AS x {AB} GROUP BY {by} WINDOW 1 s")
    assert [g.text for g in found.aggregation.groups] == ["A.t + 1"]
    assert found.select[1].expr.sql.count('"g.0"') == 1


def test_distinct_groups_by_the_whole_list(spec: JobSpec) -> None:
    found = query(spec, f"SELECT DISTINCT A.tag, B.wet AS w {AB} WINDOW 1 s")
    assert [g.text for g in found.aggregation.groups] == ["A.tag", "B.wet"] and found.aggregation.calls == ()


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("COUNT(A.tag)", "bigint"),
        ("SUM(A.t)", "bigint"),
        ("SUM(A.Value)", "double"),
        ("SUM(B.d)", "decimal(20,2)"),
        ("AVG(A.t)", "double"),
        ("AVG(B.d)", "decimal(14,6)"),
        ("MIN(A.ts)", "timestamp"),
        ("MAX(B.d)", "decimal(10,2)"),
        ("MAX(A.day)", "date"),
        ("MIN(A.ok)", "boolean"),
        ("MAX(A.tag)", "string"),
        ("VAR_POP(A.t)", "double"),
        ("STDDEV_SAMP(B.d)", "double"),
    ],
)
def test_types_are_sparks(spec: JobSpec, call: str, kind: str) -> None:
    assert query(spec, f"SELECT {call} AS x {AB} WINDOW 1 s").select[0].expr.type == kind


def test_a_function_may_have_several_names(spec: JobSpec) -> None:
    found = query(
        spec, f"SELECT VAR_SAMP(A.t), Variance(A.t), STDDEV(A.t), STDDEV_SAMP(A.t) + VAR_POP(A.t) {AB} WINDOW 1 s"
    )
    assert [call.function for call in found.aggregation.calls] == ["var_samp", "stddev_samp", "var_pop"]
    assert [o.name for o in found.select] == [
        "var_samp(t)",
        "variance(t)",
        "stddev(t)",
        "(stddev_samp(t) + var_pop(t))",
    ]


def test_groups_over_several_keys_need_the_exchange_that_key_order_does_without(spec: JobSpec) -> None:
    streams = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'x');"
    text = "SET output_order = 'key';" + streams.format("A") + streams.format("B")
    by_key = "CREATE QUERY q AS SELECT A.k, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 1 s;"
    kept = parse_job(text + by_key)
    over_keys = by_key.replace("GROUP BY A.k", "GROUP BY A.v").replace("SELECT A.k", "SELECT A.v").replace(" q ", " r ")
    with pytest.raises(SqlError, match="r has groups over several keys, which do not go with output_order = 'key'"):
        parse_job(text + over_keys)
    with pytest.raises(SqlError, match="groups over several keys"):
        parse_change(over_keys, kept)


@pytest.mark.parametrize("by", ["A.t + 1 DESC", "2 DESC", "x DESC NULLS LAST"])
def test_the_first_of_groups_by_expression_number_and_alias(spec: JobSpec, by: str) -> None:
    found = query(spec, f"SELECT B.LocationId, A.t + 1 AS x {AB} GROUP BY 1 ORDER BY {by}, A.tag LIMIT 3 WINDOW 1 s")
    top = found.aggregation.top
    assert (top.limit, [order.text for order in top.order]) == (3, ["A.t + 1 DESC", "A.tag"])
    assert [order.nulls_first for order in top.order] == [False, True]
    assert [column.text for column in top.columns] == ["B.LocationId", "A.t + 1"] and found.grouped_by_key
    assert [(o.name, o.expr.sql, o.expr.type) for o in found.select] == [
        ("LocationId", '"t.0"', "bigint"),
        ("x", '"t.1"', top.columns[1].type),
        ("_rank", '"_rank"', "int"),
    ]
