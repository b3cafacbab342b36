"""Bad input gets one message with place and hint; `«` and `»` mark in each case where the error must point."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.model import JobSpec, SqlError
from muntin.sql import parse_job, parse_query

from .conftest import STREAMS, check, marked

AB = "FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId"
END = "WINDOW 1 min"
T = "CREATE STREAM S (ts TIMESTAMP, v INT)"
W = "WITH (format = 'x')"


QUERIES = [
    # names
    (f"SELECT A.ts FROM «Temprature» A, Humidity B WHERE A.LocationId = B.LocationId {END}", "no stream Temprature"),
    (
        f"SELECT A.ts FROM «db».Temperature A, Humidity B {END}".replace("«db».Temperature", "db.«Temperature»"),
        "no stream db.T",
    ),
    (f"SELECT A.«Valu» {AB} {END}", "Temperature has no column Valu"),
    (f"SELECT A.ts\n{AB}\n  AND A.«Valu» > 3 {END}", "Temperature has no column Valu"),
    (f"SELECT «nope» {AB} {END}", "Temperature or Humidity has no column nope"),
    (f"SELECT «C».ts {AB} {END}", "FROM has no C"),
    (f"SELECT «Value» {AB} {END}", "Value is in both streams"),
    (f"SELECT A.ts FROM Temperature, «Temperature» {END}", "both streams are called Temperature"),
    (f"SELECT «Temperature».ts {AB} {END}", "FROM has no Temperature"),
    (f"SELECT «A.tag[1]» AS x {AB} {END}", "only arrays and maps have elements"),
    (f"SELECT «A.ts.x» {AB} {END}", "only a struct has fields, this is timestamp"),
    # windows
    (f"SELECT A.ts {AB} «WINDOW 0 min»", "longer than zero"),
    (f"SELECT A.ts {AB} «WINDOW -5 s»", "longer than zero"),
    (f"SELECT A.ts {AB} WINDOW «99999999999999 days»", "too long"),
    (f"SELECT A.ts {AB} WINDOW «5 parsecs»", "parsecs is not a unit"),
    (f"SELECT A.ts {AB} WINDOW «5»", "no unit"),
    ("SELECT A.ts FROM «Temperature A», Humidity B WHERE A.t = B.d", "no window for A"),
    ("SELECT A.ts FROM Temperature [RANGE 1 s] A, «Humidity B» WHERE A.t = B.d", "no window for B"),
    (f"SELECT A.ts FROM Temperature «[RANGE 1 s]» A, Humidity B WHERE A.t = B.d {END}", "window of its own"),
    ("SELECT A.ts FROM Temperature «[RANGE 0 s]» A, Humidity [NOW] B WHERE A.t = B.d", "longer than zero"),
    ("SELECT A.ts FROM Temperature [«FOO»] A, Humidity B", "expected RANGE, ROWS or NOW"),
    ("SELECT A.ts FROM Temperature [«5» ROWS] A, Humidity B", "expected RANGE, ROWS or NOW"),
    (f"SELECT A.ts {AB} WINDOW «0 ROWS»", "at least one row"),
    (f"SELECT A.ts {AB} WINDOW «-5 ROWS»", "at least one row"),
    (f"SELECT A.ts {AB} WINDOW «2.5 ROWS»", "2.5 ROWS is not a whole number of rows"),
    (f"SELECT A.ts {AB} WINDOW «1e3 rows»", "1e3 rows is not a whole number of rows"),
    (f"SELECT A.ts {AB} WINDOW «9999999999999999999 ROWS»", "too long"),
    (f"SELECT A.ts {AB} WINDOW «ROWS» 5", "expected a window, found ROWS"),
    ("SELECT A.ts FROM Temperature [ROWS «0»] A, Humidity [NOW] B WHERE A.t = B.d", "at least one row"),
    ("SELECT A.ts FROM Temperature [ROWS «-1»] A, Humidity [NOW] B WHERE A.t = B.d", "at least one row"),
    ("SELECT A.ts FROM Temperature [ROWS «1.5»] A, Humidity [NOW] B WHERE A.t = B.d", "not a whole number of rows"),
    ("SELECT A.ts FROM Temperature [ROWS «1000000000001»] A, Humidity [NOW] B", "too long"),
    ("SELECT A.ts FROM Temperature [ROWS «]» A, Humidity [NOW] B", "expected a number of rows"),
    ("SELECT A.ts FROM Temperature [RANGE «5 ROWS»] A, Humidity [NOW] B", "rows are no duration"),
    ("SELECT A.ts FROM Temperature [ROWS 5] A, «Humidity B» WHERE A.t = B.d", "no window for B"),
    ("SELECT A.ts FROM Temperature «[ROWS 5]» A, Humidity B WHERE A.t = B.d WINDOW 5 ROWS", "window of its own"),
    # joins without a condition over both streams
    (f"«SELECT» A.ts FROM Temperature A, Humidity B {END}", "a cross join is refused"),
    (f"«SELECT» A.ts FROM Temperature A, Humidity B WHERE A.ok AND B.wet AND 1 = 1 {END}", "speaks of both A and B"),
    (f"«SELECT» A.ts FROM Temperature A JOIN Humidity B ON TRUE {END}", "a cross join is refused"),
    # types
    (f"SELECT A.ts {AB} AND «A.Value > 'hot'» {END}", "cannot compare double and string"),
    (f"SELECT A.ts {AB} AND «A.tag > 5» {END}", "cannot compare string and int"),
    (f"SELECT «A.tag + 1» AS x {AB} {END}", "cannot add string and int"),
    (f"SELECT A.ts {AB} AND (A.ok OR «A.ok + 1» > 2) {END}", "cannot add boolean and int"),
    (f"SELECT A.ts {AB} AND «A.Value» {END}", "a condition needs boolean, this is double"),
    (f"SELECT A.ts {AB} AND NOT «A.t» {END}", "NOT needs boolean, this is tinyint"),
    (f"SELECT A.ts {AB} AND (A.ok OR «A.tag») {END}", "OR needs boolean, this is string"),
    (f"SELECT «CASE WHEN A.ok THEN 1 ELSE 'x' END» AS x {AB} {END}", "cannot choose between int and string"),
    (f"SELECT UPPER(«A.t») AS x {AB} {END}", "UPPER needs string, this is tinyint"),
    (f"SELECT A.ts {AB} AND «A.tag IN ('a', 1)» {END}", "cannot compare string and int"),
    (f"SELECT A.ts {AB} AND A.ts > «'2024-13-01'» {END}", "'2024-13-01' is not a timestamp"),
    (f"SELECT DATE «'2024-02-30'» AS x {AB} {END}", "'2024-02-30' is not a date"),
    (
        f"SELECT A.ts FROM Temperature A, Humidity B WHERE «A.LocationId = B.tag» {END}",
        "types bigint and string do not compare",
    ),
    (f"SELECT «NULL» AS x {AB} {END}", "a column cannot be of type null"),
    (f"SELECT «A.ts * B.ts» AS x {AB} {END}", "cannot multiply timestamp and timestamp"),
    # aggregates
    (f"SELECT «A.tag», COUNT(*) {AB} {END}", "A.tag is neither grouped nor aggregated"),
    (f"SELECT A.tag, «A.t» + COUNT(*) AS x {AB} GROUP BY A.tag {END}", "A.t is neither grouped nor aggregated"),
    (f"SELECT COUNT(*) {AB} GROUP BY A.tag HAVING «A.t» > 1 {END}", "A.t is neither grouped nor aggregated"),
    (f"SELECT MAX(«COUNT(*)») {AB} {END}", "an aggregate of an aggregate"),
    (f"SELECT «SUM(A.tag)» {AB} {END}", "SUM needs a number, this is string"),
    (f"SELECT COUNT(*) {AB} AND «SUM(A.t)» > 1 {END}", "the aggregate SUM cannot stand here"),
    (f"SELECT COUNT(*) {AB} GROUP BY «COUNT(*)» {END}", "GROUP BY cannot have the aggregate COUNT"),
    (f"SELECT COUNT(*) {AB} GROUP BY «2» {END}", "GROUP BY 2 is no column of the SELECT list"),
    (f"SELECT COUNT(*) {AB} HAVING «COUNT(*)» {END}", "a condition needs boolean, this is bigint"),
    (f"SELECT A.ts {AB} {END} «EMIT CHANGES»", "EMIT and EVERY go with aggregates"),
    (f"SELECT A.ts {AB} {END} «EVERY 5 s»", "EMIT and EVERY go with aggregates"),
    (f"SELECT COUNT(*) {AB} {END} «EVERY 0 s»", "EVERY must be longer than zero"),
    (f"SELECT COUNT(*) {AB} {END} EMIT «SOMETIMES»", "expected CHANGES, FINAL or EVERY after EMIT"),
    # the first of groups
    (f"SELECT A.ts {AB} {END} «ORDER BY A.ts»", "ORDER BY without LIMIT"),
    (f"SELECT A.ts {AB} {END} «LIMIT 5»", "LIMIT without ORDER BY"),
    (f"SELECT A.ts {AB} {END} ORDER BY A.ts «LIMIT 0»", "LIMIT 0 is not between 1 and 1000"),
    (f"SELECT A.ts {AB} {END} ORDER BY A.ts «LIMIT 1001»", "LIMIT 1001 is not between 1 and 1000"),
    (f"SELECT A.ts {AB} {END} ORDER BY A.ts «LIMIT 2 + 3»", "LIMIT needs a plain number"),
    (f"SELECT A.ts {AB} {END} ORDER BY A.ts «FETCH FIRST 5 ROWS ONLY»", "LIMIT needs a plain number"),
    (f"SELECT A.ts {AB} {END} ORDER BY «2» LIMIT 5", "ORDER BY 2 is no column of the SELECT list"),
    (f"SELECT A.ts {AB} {END} ORDER BY «A.nope» LIMIT 5".replace("«A.nope»", "A.«nope»"), "has no column nope"),
    (f"SELECT «A.ts AS _rank» {AB} {END} ORDER BY A.ts LIMIT 5", "_rank is reserved"),
    # outputs
    (f"SELECT A.Value, «B.value» {AB} {END}", "two columns are called Value"),
    (f"SELECT A.ts, «B.Value AS TS» {AB} {END}", "two columns are called TS"),
    (f"SELECT «*» {AB} {END}", "two columns are called ts"),
    (f"SELECT «A.ts AS _TS» {AB} {END}", "_ts is reserved"),
    (f"SELECT «A.ts AS _came» {AB} {END}", "_came is reserved"),
    (f"SELECT «A.ts AS _query» {AB} {END}", "_query is reserved"),
    (f"SELECT «A.ts AS 5.» {AB} {END}", "not a name"),
    # form
    (f"SELECT A.ts, «FROM» {AB[5:]} {END}", "missing beside the comma"),
    (f"SELECT A.ts x «y» {AB} {END}", "unexpected y"),
    (f"SELECT «CASE WHEN A.ok 1 END FROM» {AB[5:]} {END}", "WHEN without THEN"),
    ("SELECT A.ts FROM «Temperature A» WINDOW 1 s", "joins two streams, this has one"),
    ("«SELECT» 1", "no FROM"),
    (f"SELECT A.ts {AB} AND A.tag = «'abc {END}»", "string does not end"),
    (f"SELECT A.ts {AB} «/* {END}»", "comment does not end"),
    (f"SELECT A.tag LIKE «'a\\\\b'» AS x {AB} {END}", "the pattern has \\ before"),
]

NOT_YET = [
    ("SELECT A.ts FROM Temperature [«PARTITION BY» t ROWS 5] A, Humidity B", "a window of PARTITION BY"),
    (f"SELECT COUNT(*) {AB} «GROUP BY ALL» {END}", "GROUP BY with ALL"),
    (f"SELECT «MEDIAN(A.t)» {AB} {END}", "the aggregate MEDIAN"),
    (f"SELECT «var_samp(DISTINCT A.t)» {AB} {END}", "VAR_SAMP(DISTINCT ...)"),
    (f"SELECT «COUNT(A.t, A.tag)» {AB} {END}", "COUNT of several values"),
    (f"SELECT «COUNT(DISTINCT A.t, A.tag)» {AB} {END}", "DISTINCT of several values"),
    (f"SELECT «SUM(DISTINCT A.t)» {AB} {END}", "SUM(DISTINCT ...)"),
    (f"SELECT «MAX(CAST(B.d AS DECIMAL(30,2)))» {AB} {END}", "MAX of decimal(30,2)"),
    (f"SELECT «COUNT(*) OVER (ORDER BY A.ts)» AS x {AB} {END}", "a window function"),
    (f"SELECT «COUNT(*) FILTER (WHERE A.ok)» AS x {AB} {END}", "FILTER"),
    (f"SELECT «DISTINCT» COUNT(*) {AB} {END}", "DISTINCT beside GROUP BY or aggregates"),
    (f"SELECT COUNT(*) {AB} «WINDOW 5 ROWS»", "an aggregate over a window of rows"),
    (f"«SELECT» COUNT(*) FROM Temperature A, Humidity B WHERE A.t < B.d {END}", "a join without an equality"),
    (f"SELECT «COUNT(*)» {AB} {END} ORDER BY 1 LIMIT 5", "ORDER BY ... LIMIT beside the aggregate COUNT"),
    (f"SELECT A.t {AB} {END} ORDER BY «MAX(A.t)» LIMIT 5", "ORDER BY ... LIMIT beside the aggregate MAX"),
    (f"SELECT A.t {AB} GROUP BY A.t «HAVING A.t > 1» {END} ORDER BY A.t LIMIT 5", "HAVING beside ORDER BY ... LIMIT"),
    (f"SELECT «DISTINCT» A.t {AB} {END} ORDER BY A.t LIMIT 5", "DISTINCT beside ORDER BY ... LIMIT"),
    (f"SELECT A.t {AB} {END} «ORDER BY ALL» LIMIT 5", "ORDER BY ALL"),
    (f"SELECT A.t {AB} {END} ORDER BY A.t LIMIT 5 «EMIT FINAL»", "EMIT FINAL beside ORDER BY ... LIMIT"),
    (f"SELECT «MAX(A.tag)» {AB} GROUP BY A.LocationId {END} EMIT FINAL", "MAX of string with EMIT FINAL"),
    (f"SELECT A.t {AB} {END} ORDER BY A.t LIMIT 5 «OFFSET 2»", "OFFSET"),
    (f"«SELECT» /*+ BROADCAST(A) */ A.ts {AB} {END}", "a hint"),
    (f"SELECT A.ts FROM Temperature A «CROSS JOIN Humidity B» {END}", "CROSS JOIN"),
    (f"SELECT A.ts FROM Temperature A «NATURAL JOIN Humidity B» {END}", "NATURAL JOIN"),
    (f"SELECT A.ts {AB} AND A.t IN («SELECT 1») {END}", "a subquery"),
    (f"SELECT «row_number() OVER (ORDER BY A.ts)» AS x {AB} {END}", "a window function"),
    (f"SELECT A.ts FROM Temperature A, «range(5) B» {END}", "a table function"),
    (f"SELECT «?» AS x {AB} {END}", "a parameter"),
    (f"SELECT «:p» AS x {AB} {END}", "a parameter"),
    (f"SELECT «foo(A.ts)» AS x {AB} {END}", "the function FOO"),
    (f"SELECT A.tag RLIKE «'(?=x)'» AS x {AB} {END}", "(?=...) in a pattern"),
    (f"SELECT «CAST(A.Value AS ARRAY<INT>)» AS x {AB} {END}", "CAST from double to array<int>"),
    (f"SELECT «rand()» AS x {AB} {END}", "RAND"),
    (f"SELECT «CAST(A.Value AS STRING)» AS x {AB} {END}", "CAST from double to string"),
    (f"SELECT «A.* REPLACE (1 AS ts)» {AB} {END}", "* with REPLACE"),
    (f"WITH RECURSIVE h AS («SELECT * FROM Temperature») SELECT h.t FROM h, Humidity B {END}", "WITH RECURSIVE"),
    (f"SELECT A.ts {AB} «WINDOW w AS (ORDER BY A.ts)»", "a named window"),
    (f"«SELECT A.ts {AB} {END} UNION SELECT 1»", "UNION"),
    (f"SELECT A.ts FROM Temperature A «TABLESAMPLE (5 PERCENT)», Humidity B {END}", "TABLESAMPLE"),
]

JOBS = [
    (
        f"{T} TIMESTAMP BY ts {W};\nCREATE STREAM «s» (ts TIMESTAMP) TIMESTAMP BY ts {W}",
        "stream s is already there in line 1",
    ),
    (f"CREATE STREAM «S» (ts TIMESTAMP) {W}", "no TIMESTAMP BY"),
    (f"{T} TIMESTAMP BY «x» {W}", "S has no column x"),
    (f"{T} TIMESTAMP BY «v» {W}", "v is int, not a timestamp"),
    ("CREATE STREAM «S» (ts TIMESTAMP) TIMESTAMP BY ts", "S has no format"),
    ("CREATE STREAM «S» (ts TIMESTAMP) TIMESTAMP BY ts WITH (path = 'x')", "S has no format"),
    (f"{T} TIMESTAMP BY ts LATENESS «-5 s» {W}", "cannot be negative"),
    (f"{T} TIMESTAMP BY ts LATENESS «5 ROWS» {W}", "rows are no duration"),
    (f"{T} TIMESTAMP BY ts «LATENESS 5 s» {W}".replace("«", "LATENESS 5 s «"), "LATENESS is given twice"),
    (f"{T} TIMESTAMP BY ts RATE «0» PER SECOND {W}", "a rate must be more than zero"),
    (f"{T} TIMESTAMP BY ts RATE «-5» PER SECOND {W}", "a rate must be more than zero"),
    (f"{T} TIMESTAMP BY ts RATE «0.{'0' * 400}1» PER SECOND {W}", "a rate must be more than zero"),
    (f"{T} TIMESTAMP BY ts RATE «{'9' * 400}» PER SECOND {W}", "is too large"),
    (f"{T} TIMESTAMP BY ts RATE «1e3» PER SECOND {W}", "1e3 is not a plain number"),
    (f"{T} TIMESTAMP BY ts RATE «PER» SECOND {W}", "expected a number of rows after RATE"),
    (f"{T} TIMESTAMP BY ts RATE «'5'» PER SECOND {W}", "expected a number of rows after RATE"),
    (f"{T} TIMESTAMP BY ts {W} «RATE»", "expected a number of rows after RATE"),
    (f"{T} TIMESTAMP BY ts RATE 5 «SECONDS» {W}", "expected PER after the number of rows"),
    (f"{T} TIMESTAMP BY ts {W} RATE «5»", "expected PER after the number of rows"),
    (f"{T} TIMESTAMP BY ts RATE 5 PER «FORTNIGHT» {W}", "FORTNIGHT is not a unit of a rate"),
    (f"{T} TIMESTAMP BY ts {W} RATE 5 «PER»", "the rate has no unit"),
    (f"{T} TIMESTAMP BY ts RATE 5 PER SECOND «RATE 5 PER HOUR» {W}", "RATE is given twice"),
    (f"{T} TIMESTAMP BY ts IDLE «5» s {W}", "expected AFTER and a duration after IDLE"),
    (f"{T} TIMESTAMP BY ts IDLE AFTER «0 s» {W}", "IDLE AFTER must be more than zero"),
    (f"{T} TIMESTAMP BY ts IDLE AFTER 5 s «IDLE AFTER 5 s» {W}", "IDLE is given twice"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION «v» {W}", "expected WHEN after PUNCTUATION"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN «nope» {W}", "S has no column nope"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN «A.v» IS NULL {W}", "without a prefix"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN «ts» {W}", "a condition"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN ts IS NULL FOR «nope» {W}", "S has no column nope"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN ts IS NULL FOR (ts, «ts») {W}", "ts is named twice"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN ts IS NULL FOR ts IN («1») {W}", "ts is timestamp, this is int"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN ts IS NULL FOR * «IN» (ts) {W}", "unexpected IN"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN ts IS NULL FOR ts BETWEEN ts «WITH» (format = 'x')", "no two ends"),
    (f"{T} TIMESTAMP BY ts BINDING «5 s» {W}", "S promises nothing that could bind"),
    (f"{T} TIMESTAMP BY ts PUNCTUATION WHEN ts IS NULL BINDING «0 s» {W}", "BINDING must be longer than zero"),
    (f"CREATE STREAM S (ts TIMESTAMP, UNIQUE («x»)) TIMESTAMP BY ts {W}", "S has no column x"),
    (f"CREATE STREAM S (ts TIMESTAMP, UNIQUE (ts), «UNIQUE» (ts)) TIMESTAMP BY ts {W}", "UNIQUE is given twice"),
    (f"CREATE STREAM S (ts TIMESTAMP, «_x» INT) TIMESTAMP BY ts {W}", "_x is reserved"),
    (f"CREATE STREAM S (ts TIMESTAMP, «TS» INT) TIMESTAMP BY ts {W}", "column TS is already there"),
    (f"CREATE STREAM S (ts TIMESTAMP, x «FOO») TIMESTAMP BY ts {W}", "type FOO is not known"),
    (f"CREATE STREAM S (ts TIMESTAMP, x ARRAY<«JSON»>) TIMESTAMP BY ts {W}", "type JSON is not known"),
    (f"CREATE STREAM S (ts TIMESTAMP, x «DECIMAL(50, 2)») TIMESTAMP BY ts {W}", "no such decimal"),
    (f"CREATE STREAM S (ts TIMESTAMP «NOT» NULL) TIMESTAMP BY ts {W}", "expected , or )"),
    (f"{T} TIMESTAMP BY ts WITH (format = 'x', «FORMAT» = 'y')", "given twice"),
    (f"CREATE STREAM «`a b`» (ts TIMESTAMP) TIMESTAMP BY ts {W}", "cannot name a stream"),
    ("CREATE QUERY «`../x`» AS SELECT 1", "cannot name a query"),
    ("CREATE QUERY «_q» AS SELECT 1", "cannot name a query"),
    (f"CREATE QUERY «{'q' * 101}» AS SELECT 1", "101 characters"),
    ("CREATE OR REPLACE «STREAM» S (ts TIMESTAMP)", "only queries can be replaced"),
    ("CREATE OR «REPLACE»", "only queries can be replaced"),
    ("CREATE «OR» QUERY q AS SELECT 1", "CREATE OR is not a statement here"),
    ("CREATE OR REPLACE QUERY «_q» AS SELECT 1", "cannot name a query"),
    ("CREATE OR REPLACE QUERY «IF» NOT EXISTS q AS SELECT 1", "IF NOT EXISTS is not supported yet"),
    ("CREATE OR REPLACE QUERY q «SELECT» 1", "expected AS after the query's name"),
    ("«CREATE»", "CREATE is not a statement here"),
    ("CREATE «VIEW» t AS SELECT 1", "CREATE VIEW is not a statement"),
    ("«SELECT 1»", "needs a name"),
    ("«INSERT INTO x VALUES (1)»", "INSERT does not begin"),
    ("«ELSE» x; SELECT 1", "Unexpected token"),
    ("DROP QUERY «nope»", "no query nope"),
    ("DROP «TABLE» t", "only queries"),
    ("SET «shard» = 1", "no setting shard"),
    ("SET scheduler = «'rr'»", "scheduler cannot be 'rr'"),
    ("SET delivery = 'eager'; «SET ordering = 'filter-order'»", "ordering = 'filter-order' does not go with delivery"),
    ("SET strategy = «'pullup'»", "strategy cannot be 'pullup'"),
    ("SET chain = «'none'»", "chain cannot be 'none'"),
    (
        "SET strategy = 'pull-up';\n«SET chain = 'cpu-opt'»",
        "chain = 'cpu-opt' does not go with strategy = 'pull-up', which has no chain",
    ),
    ("«SET chain = 'cpu-opt'»;\nSET strategy = 'push-down'", "does not go with strategy = 'push-down'"),
    ("«SET CHAIN = 'mem-opt'»; SET strategy = 'isolated'", "chain = 'mem-opt' does not go with strategy = 'isolated'"),
    ("SET output_order = «'best'»", "output_order cannot be 'best'"),
    ("SET order = «'best'»", "order cannot be 'best'"),
    ("SET ordering = «'none'»", "ordering cannot be 'none'"),
    ("SET alpha = «1»", "alpha cannot be 1"),
    ("SET alpha = «-0.1»", "alpha cannot be -0.1"),
    ("SET alpha = «'much'»", "alpha cannot be much"),
    ("«SET alpha = 0.2»; SET ordering = 'filter-order'", "alpha does not go with ordering = 'filter-order'"),
    ("SET max_ahead = «'soon'»", "max_ahead: 'soon' is not a duration"),
    ("SET max_ahead = «'0 s'»", "max_ahead must be more than zero"),
    ("SET held_limit = «8»", "held_limit: the size 8 has no unit"),
    ("SET held_limit = '1 GB'; SET on_held_limit = «'drop'»", "on_held_limit cannot be 'drop'"),
    ("«SET on_held_limit = 'release'»", "on_held_limit without a limit"),
    ("SET shards = «0»", "shards cannot be 0"),
    ("SET shards = «-1»", "shards cannot be -1"),
    ("SET shards = «1025»", "shards cannot be 1025"),
    ("SET invalidation = «'lazy'»", "invalidation cannot be 'lazy'"),
    ("SET fan_out_limit = «0»", "fan_out_limit cannot be 0"),
    ("SET fan_out_limit = «1.5»", "fan_out_limit cannot be 1.5"),
    ("SET fan_out_limit = «9999999999999999999»", "fan_out_limit cannot be 9999999999999999999"),
    ("SET state_limit = «'0 GB'»", "state_limit: a size must be more than zero"),
    ("SET state_limit = «'-8 GB'»", "state_limit: a size must be more than zero"),
    ("SET state_limit = «8»", "state_limit: the size 8 has no unit"),
    ("SET state_limit = «'8 parsecs'»", "state_limit: parsecs is not a unit of size"),
    ("SET state_limit = «'much'»", "state_limit: 'much' is not a size"),
    ("SET state_limit = «'0.5 B'»", "not a whole number of bytes"),
    ("SET state_limit = «'9999999999 TB'»", "state_limit: 9999999999 TB is too large"),
    ("SET state_limit = '1 GB';\nSET «State_Limit» = '1 GB'", "setting State_Limit is already there in line 1"),
    ("SET output_order = 'key';\nSET «Output_Order» = 'key'", "setting Output_Order is already there in line 1"),
    ("SET output_order = 'key';\nSET «ORDER» = 'key'", "setting ORDER is already there in line 1"),
]


@pytest.mark.parametrize(("case", "message"), QUERIES)
def test_a_wrong_query_is_told_where_and_what_to_do(spec: JobSpec, case: str, message: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as error:
        parse_query(text, spec, name="q", source="job.sql")
    check(error.value, text, place, message)
    assert error.value.render().startswith(f"job.sql:{place.line}:{place.column}: ")


@pytest.mark.parametrize(("case", "message"), NOT_YET)
def test_what_is_not_supported_is_refused_by_name(spec: JobSpec, case: str, message: str) -> None:
    text, place = marked("CREATE QUERY q AS\n" + case)
    with pytest.raises(SqlError, match="is not supported yet") as error:
        parse_query(text, spec)
    check(error.value, text, place, message)


@pytest.mark.parametrize(("case", "message"), JOBS)
def test_a_wrong_statement_is_told_where_and_what_to_do(case: str, message: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as error:
        parse_job(text)
    check(error.value, text, place, message)


def test_a_second_query_of_a_name_says_where_the_first_is() -> None:
    query = f"SELECT A.ts {AB} {END}"
    with pytest.raises(SqlError, match="query Q is already there in line 6"):
        parse_job(f"{STREAMS}CREATE QUERY q AS {query};\nCREATE QUERY Q AS {query};")


HOSTILE = {
    "parens": "(" * 400 + "1" + ")" * 400,
    "not": "NOT " * 400 + "TRUE",
    "minus": "- " * 400 + "1",
    "calls": "UPPER(" * 400 + "'x'" + ")" * 400,
    "chain": " + ".join(["1"] * 5000),
    "case": "CASE WHEN TRUE THEN " * 100 + "1" + " END" * 100,
    "doubling": "ROUND(" * 20 + "A.Value" + ", 1)" * 20,
    "digits": "9" * 6000,
    "list": "1 IN (" + ", ".join(["1"] * 20_000) + ")",
}


@pytest.mark.parametrize("inside", HOSTILE.values(), ids=HOSTILE)
def test_hostile_expressions_get_a_message(spec: JobSpec, inside: str) -> None:
    with pytest.raises(SqlError, match=r"nested|too large|too long") as error:
        parse_query(f"SELECT {inside} AS x {AB} {END}", spec, name="q")
    assert error.value.hint and error.value.place


WORDS = (
    f"SELECT A.ts, B.tag AS x {AB} AND A.Value > 30 {END} ( ) , ; ' ` /* [ ] NOT IN CASE THEN END CAST AS GROUP BY "
    "JOIN ON LEFT UNION :: || ? 1.5 -5 CREATE QUERY STREAM q DROP SET \\ \0 . * ROWS EMIT LATERAL"
).split(" ")


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join), st.integers(0, 200))
def test_any_soup_of_words_is_parsed_or_refused_with_a_hint(soup: str, cut: int) -> None:
    job = parse_job(STREAMS)
    base = f"SELECT A.ts, B.tag AS x {AB} AND A.Value > 30 {END}"
    for text in (soup, base[:cut] + soup + base[cut:]):
        try:
            parse_query(text, job, name="q")
        except SqlError as error:
            assert error.hint and error.place and error.render()
