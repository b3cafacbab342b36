"""SUM and AVG are exact: whatever comes and goes, the answer is what Python's whole numbers and fractions say.

Three ways lead to a sum, and each is taken here: groups within one shard, groups that several shards share, and totals
over whole lives (`EMIT FINAL`). Values of every precision, sign and size come and go in any order.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.kernels.evaluate import arrow_type
from muntin.model import Window
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES

pytestmark = pytest.mark.slow

FAULT = "does not fit"
DIGITS = 38
LARGEST = 1.7976931348623157e308
SHARDS = 3
WINDOW = Window(6, 4)
WAYS = {
    "within one shard": ("A.k", "", lambda p: (p.left["k"],)),
    "over several shards": ("", "", lambda p: ()),
    "every other instant": ("", "EVERY 2 microseconds", lambda p: ()),
    "once, at the end": ("A.k", "EMIT FINAL", lambda p: (p.left["k"],)),
}


# -- what a sum is ---------------------------------------------------------------------------------------------------


def decimal_value(call: str, precision: int, scale: int, values: list[Decimal]) -> Any:
    """SUM has ten digits more than its argument, AVG four more behind the point, both 38 at most."""
    if not values:
        return None
    finer = scale if call == "SUM" else min(scale + 4, DIGITS)
    most = min(precision + (10 if call == "SUM" else 4), DIGITS)
    with localcontext() as context:
        context.prec = 200
        total = sum(int(v.scaleb(scale)) for v in values) * 10 ** (finer - scale)
        size, count = abs(total), 1 if call == "SUM" else len(values)
        rounded = (2 * size + count) // (2 * count) * (1 if total >= 0 else -1)
        return FAULT if abs(rounded) >= 10**most else Decimal(rounded).scaleb(-finer)


def double_value(call: str, values: list[float]) -> Any:
    if not values:
        return None
    odd = [v for v in values if not math.isfinite(v)]
    total = sum(odd) if odd else nearest(sum((Fraction(v) for v in values), Fraction()))
    return str(total + 0.0 if call == "SUM" else total / len(values) + 0.0)


def nearest(number: Fraction) -> float:
    """The double next to a number; an infinity where it is past the range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# -- jobs ------------------------------------------------------------------------------------------------------------


def answers(kind: str, call: str, way: str, batches: list, shards: int, restarts: bool) -> tuple[list, set]:
    """The rows of a query, and the groups and instants at which its value did not fit."""
    group, when, _ = WAYS[way]
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, x {kind}) TIMESTAMP BY ts WITH (format = 'json', path = 'x');"
        for s in "AB"
    )
    selected, grouped = (f"{group}, ", f"GROUP BY {group}") if group else ("", "")
    query = (
        f"CREATE QUERY q AS SELECT {selected}{call}(A.x) AS value "
        f"FROM A [RANGE {WINDOW.left} microseconds] A, B [RANGE {WINDOW.right} microseconds] B "
        f"WHERE A.k = B.k {grouped} {when};"
    )
    local, found = LocalJob(parse_job(streams + query), shards), []
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("x", arrow_type(kind.lower()))])
    for batch in [*batches, None]:
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, schema) for s, r in zip("AB", batch, strict=True)}
        found += told(local.push(tables, ended=batch is None)["q"])
        if restarts:
            local.restart()
    faults = [row for table in local.faults["q"] if table.num_rows for row in told(table.drop_columns(["_fault"]))]
    return found, set(faults)


def told(table: pa.Table) -> list[tuple]:
    table = table.set_column(table.column_names.index("_ts"), "_ts", table["_ts"].cast(pa.int64()))
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [tuple(str(v) if isinstance(v, float) else v for v in row) for row in rows]


def wanted(way: str, value: Any, batches: list) -> tuple[list, set]:
    """The same by the oracle; `value` makes of the values of live pairs what the query selects."""
    _, when, group = WAYS[way]
    left, right = ([row for batch in batches for row in batch[side]] for side in (0, 1))
    key = oracle.columns("k")
    pairs = oracle.answer(WINDOW, left, right, (key, key))

    def of(live: list) -> Any:
        return value([p.left["x"] for p in live if p.left["x"] is not None])

    if "FINAL" in when:
        end = max((row["ts"] for row in (*left, *right)), default=0)
        rows = oracle.final(pairs, group, of, lambda pair: (), end)
    else:
        every = 2 if when else None
        rows = oracle.aggregate(WINDOW, pairs, group, of, lambda found: found != FAULT, every)
        spans = [(p, p.ts, min(p.left["ts"] + WINDOW.left, p.right["ts"] + WINDOW.right)) for p in pairs]
        instants = {(group(p), t) for p, *ends in spans for t in ends}
        if every:
            instants = {(g, t) for g in map(group, pairs) for t in range(0, 60, every)}
        live = {(g, t): [p for p, lo, hi in spans if group(p) == g and lo <= t < hi] for g, t in instants}
        rows += [(t, g, FAULT) for (g, t), there in live.items() if of(there) == FAULT]
    return (
        sorted(((*g, v, t) for t, g, v in rows if v != FAULT), key=str),
        {(*g, t) for t, g, v in rows if v == FAULT},
    )


def worlds(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list]:
    """Micro-batches of both streams, in order of time from one to the next; the values are those of A."""

    def rows(low: int, x: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[list]:
        row = st.fixed_dictionaries({"ts": st.integers(low, low + 7), "k": st.sampled_from([1, 2, 3]), "x": x})
        return st.lists(row, min_size=1, max_size=most)

    return st.tuples(*(st.tuples(rows(8 * n, values, 5), rows(8 * n, st.none(), 3)) for n in range(2)))


@st.composite
def decimals(draw: st.DrawFn) -> tuple:
    precision = draw(st.sampled_from([1, 2, 9, 10, 18, 19, 28, 29, 37, 38]))
    scale = draw(st.sampled_from([0, min(2, precision), precision // 2, precision]))
    most = 10**precision - 1
    sizes = st.one_of(st.sampled_from([0, 1, most, most - 1, most // 2, most // 3 + 1]), st.integers(0, most))
    numbers = st.builds(lambda size, sign: Decimal((sign, digits(size), -scale)), sizes, st.integers(0, 1))
    return precision, scale, draw(worlds(st.one_of(numbers, numbers, numbers, st.none())))


def digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(number)))


ORDINARY = st.integers(-(2**40), 2**40).map(lambda n: n / 1024)
LARGE = st.sampled_from([LARGEST, -LARGEST, LARGEST / 2, -1e307, 1.5 * 2.0**1023, 2.0**1000 + 2.0**950, -(2.0**972)])
ODD = st.sampled_from([math.inf, -math.inf, math.nan, 0.0, -0.0, 0.1, -0.3])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", ["SUM", "AVG"])
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(decimals(), st.booleans())
def test_sums_of_decimals_are_exact_for_every_precision_and_sign(way, call, world, restarts):
    precision, scale, batches = world
    found = answers(f"DECIMAL({precision},{scale})", call, way, batches, SHARDS, restarts)
    rows, faults = wanted(way, lambda values: decimal_value(call, precision, scale, values), batches)
    assert sorted(found[0], key=str) == rows
    assert found[1] == faults


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", ["SUM", "AVG"])
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(worlds(st.one_of(ORDINARY, ORDINARY, LARGE, LARGE, ODD, st.none())), st.booleans())
def test_sums_of_doubles_are_exact_also_past_the_range(way, call, batches, restarts):
    found = answers("DOUBLE", call, way, batches, SHARDS, restarts)
    rows, _ = wanted(way, lambda values: double_value(call, values), batches)
    assert sorted(found[0], key=str) == rows
    assert not found[1], "doubles have infinities, they do not fail"


# -- variances ----------------------------------------------------------------------------------------------------


SPREADS = ["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"]


def spread_value(call: str, values: list[Any]) -> Any:
    """By the definition: the mean square of the distances from the mean, in fractions, rounded to twelve digits."""
    count = len(values) - call.endswith("SAMP")
    if not values or not count:
        return None
    if not all(math.isfinite(v) for v in values):
        return "nan"
    mean = sum(map(Fraction, values), Fraction()) / len(values)
    variance = nearest(sum((Fraction(v) - mean) ** 2 for v in values) / count)
    return rounded(math.sqrt(variance) if "STDDEV" in call else variance)


def rounded(value: float | str | None) -> str | None:
    return None if value is None else f"{float(value):.12g}"


def steps(rows: list[tuple]) -> list[tuple]:
    """Rows whose values are rounded, without those that then say nothing new of their group."""
    found: list[tuple] = []
    for row in sorted(rows, key=lambda row: (str(row[:-2]), row[-1])):
        *group, value, t = row
        if not found or [*found[-1][:-1]] != [*group, rounded(value)]:
            found.append((*group, rounded(value), t))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", SPREADS)
@settings(max_examples=EXAMPLES // 5, deadline=None)
@given(decimals(), st.booleans())
def test_variances_of_decimals_are_those_of_fractions(way, call, world, restarts):
    precision, scale, batches = world
    found, faults = answers(f"DECIMAL({precision},{scale})", call, way, batches, SHARDS, restarts)
    rows, _ = wanted(way, lambda values: spread_value(call, values), batches)
    assert steps(found) == steps(rows) and not faults


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", SPREADS)
@settings(max_examples=EXAMPLES // 5, deadline=None)
@given(worlds(st.one_of(ORDINARY, ORDINARY, LARGE, ODD, st.none())), st.booleans())
def test_variances_of_doubles_are_those_of_fractions_also_past_the_range(way, call, batches, restarts):
    found, faults = answers("DOUBLE", call, way, batches, SHARDS, restarts)
    rows, _ = wanted(way, lambda values: spread_value(call, values), batches)
    assert steps(found) == steps(rows) and not faults


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=EXAMPLES // 5, deadline=None)
@given(worlds(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(2**63 - 9, 2**63 - 1), st.none())))
def test_variances_of_whole_numbers_are_those_of_fractions(way, batches):
    found, _ = answers("BIGINT", "VAR_SAMP", way, batches, SHARDS, False)
    rows, _ = wanted(way, lambda values: spread_value("VAR_SAMP", values), batches)
    assert steps(found) == steps(rows)


# -- the corners by name ---------------------------------------------------------------------------------------------


def at_once(kind: str, call: str, values: list) -> tuple[list, set]:
    """The first row of a query over these values, and its faults."""
    left = [{"ts": 0, "k": 1, "x": v} for v in values]
    return answers(kind, call, "over several shards", [(left, [{"ts": 0, "k": 1, "x": None}])], 1, False)


def test_a_negative_sum_of_a_narrow_decimal_fits():
    found, faults = at_once("DECIMAL(9,2)", "SUM", [Decimal("-0.01"), Decimal("-9999999.99")])
    assert found == [(Decimal("-10000000.00"), 0), (None, 4)] and not faults


@pytest.mark.parametrize("sign", [1, -1])
def test_the_widest_decimal_fits_and_one_more_does_not(sign):
    widest = Decimal(sign * (10**38 - 1))
    assert at_once("DECIMAL(38,0)", "SUM", [widest]) == ([(widest, 0), (None, 4)], set())
    assert at_once("DECIMAL(38,0)", "SUM", [widest, Decimal(sign)]) == ([(None, 4)], {(0,)})


def test_an_average_that_does_not_fit_is_a_fault_and_the_job_goes_on():
    """Of DECIMAL(38,0) the average has four digits behind the point, so 34 before it."""
    assert at_once("DECIMAL(38,0)", "AVG", [Decimal(10**38 - 1)]) == ([(None, 4)], {(0,)})
    found, faults = at_once("DECIMAL(38,0)", "AVG", [Decimal(10**33), Decimal(10**33 + 1), Decimal(10**33 + 1)])
    assert found[0] == (Decimal("1000000000000000000000000000000000.6667"), 0) and not faults


@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(9,2)", "DOUBLE", "FLOAT"])
def test_one_value_varies_by_nothing_and_is_no_sample(kind):
    value = Decimal("7.25") if "DECIMAL" in kind else 7
    assert at_once(kind, "VAR_POP", [value, None]) == ([("0.0", 0), (None, 4)], set())
    assert at_once(kind, "STDDEV_SAMP", [value, None]) == ([(None, 0)], set()), "the row that says the same is none"


def test_values_that_lie_close_together_far_from_zero_keep_all_digits():
    """A variance of 1e-9 around a mean of 1e9: squares in doubles would have lost it altogether."""
    values = [1e9 + n / 2**15 for n in range(5)]
    found, _ = at_once("DOUBLE", "VAR_POP", values)
    assert float(found[0][0]) == pytest.approx(2 / 2**30, rel=1e-15)
    assert at_once("DOUBLE", "STDDEV_SAMP", [0.1] * 5)[0][0] == ("0.0", 0), "equal values"


def test_large_doubles_that_have_gone_leave_the_others_as_they_were():
    """Two of them are past the range together: the sum is infinite while both are there, and then a number again."""
    left = [{"ts": t, "k": 1, "x": v} for t, v in ((0, LARGEST), (1, LARGEST), (2, 0.1), (9, 0.2), (9, 5e-324))]
    right = [{"ts": t, "k": 1, "x": None} for t in (0, 9)]
    found, _ = answers("DOUBLE", "SUM", "over several shards", [(left, right)], 1, False)
    values = [value for value, _ in found]
    assert values == [str(LARGEST), "inf", None, str(0.2), None]
