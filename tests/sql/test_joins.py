"""Outer, semi, anti and as-of joins: which kind they are, and which condition goes where."""

from __future__ import annotations

import pytest

from muntin.model import JobSpec, JoinKind, Query, Side, SqlError, Window
from muntin.sql import parse_query

from .conftest import check, marked

S = 1_000_000
MIN = 60 * S
LEFT, RIGHT = Side
ON = "A.LocationId = B.LocationId"


def bound(spec: JobSpec, text: str) -> Query:
    return parse_query(text, spec, name="q")


def placed(query: Query) -> dict[str, str]:
    """The text of each condition by its place."""
    exprs = {"left": query.where[0], "right": query.where[1], "residual": query.residual, "after": query.after}
    return {name: expr.text for name, expr in exprs.items() if expr is not None}


def form(query: Query) -> tuple[JoinKind, Side | None, tuple[Side, ...]]:
    return query.kind, query.subject, query.preserved


PAIRS, SEMI, ANTI, ASOF = JoinKind
FORMS = [
    (f"SELECT A.t FROM Temperature A JOIN Humidity B ON {ON}", PAIRS, None, ()),
    (f"SELECT A.t FROM Temperature A INNER JOIN Humidity B ON {ON}", PAIRS, None, ()),
    (f"SELECT A.t, B.d FROM Temperature A LEFT JOIN Humidity B ON {ON}", PAIRS, None, (LEFT,)),
    (f"SELECT A.t, B.d FROM Temperature A LEFT OUTER JOIN Humidity B ON {ON}", PAIRS, None, (LEFT,)),
    (f"SELECT A.t, B.d FROM Humidity B LEFT JOIN Temperature A ON {ON}", PAIRS, None, (RIGHT,)),
    (f"SELECT A.t, B.d FROM Temperature A RIGHT JOIN Humidity B ON {ON}", PAIRS, None, (RIGHT,)),
    (f"SELECT A.t, B.d FROM Humidity B RIGHT OUTER JOIN Temperature A ON {ON}", PAIRS, None, (LEFT,)),
    (f"SELECT A.t, B.d FROM Temperature A FULL JOIN Humidity B ON {ON}", PAIRS, None, (LEFT, RIGHT)),
    (f"SELECT A.t, B.d FROM Humidity B FULL OUTER JOIN Temperature A ON {ON}", PAIRS, None, (LEFT, RIGHT)),
    (f"SELECT A.t FROM Temperature A LEFT SEMI JOIN Humidity B ON {ON}", SEMI, LEFT, ()),
    (f"SELECT A.t FROM Temperature A SEMI JOIN Humidity B ON {ON}", SEMI, LEFT, ()),
    (f"SELECT B.d FROM Humidity B LEFT SEMI JOIN Temperature A ON {ON}", SEMI, RIGHT, ()),
    (f"SELECT A.t FROM Temperature A LEFT ANTI JOIN Humidity B ON {ON}", ANTI, LEFT, (LEFT,)),
    (f"SELECT B.d FROM Humidity B ANTI JOIN Temperature A ON {ON}", ANTI, RIGHT, (RIGHT,)),
    (f"SELECT A.t FROM Temperature A WHERE EXISTS (SELECT 1 FROM Humidity B WHERE {ON})", SEMI, LEFT, ()),
    (f"SELECT A.t FROM Temperature A WHERE NOT EXISTS (SELECT * FROM Humidity B WHERE {ON})", ANTI, LEFT, (LEFT,)),
    (f"SELECT B.d FROM Humidity B WHERE (NOT (EXISTS (FROM Temperature A WHERE {ON})))", ANTI, RIGHT, (RIGHT,)),
    (f"SELECT A.t FROM Temperature A LEFT JOIN Humidity B ON {ON} WHERE B.LocationId IS NULL", ANTI, LEFT, (LEFT,)),
    (f"SELECT A.t FROM Temperature A LEFT JOIN Humidity B ON {ON} WHERE (B.ts IS NULL)", ANTI, LEFT, (LEFT,)),
    (f"SELECT B.d FROM Temperature A RIGHT JOIN Humidity B ON {ON} WHERE A.LocationId IS NULL", ANTI, RIGHT, (RIGHT,)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "subject", "preserved"), FORMS)
def test_each_spelling_is_its_kind_of_join(
    spec: JobSpec, text: str, kind: JoinKind, subject: Side | None, preserved: tuple[Side, ...]
) -> None:
    query = bound(spec, f"{text} WINDOW 1 min")
    assert form(query) == (kind, subject, preserved)
    assert query.window == Window(MIN, MIN) and len(query.keys) == 1 and placed(query) == {}
    assert query.is_inner == (kind is PAIRS and not preserved)


CONDITIONS = "A.t > 1 AND B.d > 2 AND A.Value < B.Value AND TRUE"
PLACES = [
    # ON says what is a match; a row of a preserved stream that fails it goes out without one
    ("LEFT JOIN", "ON", {"right": "B.d > 2", "residual": "A.t > 1 AND A.Value < B.Value AND TRUE"}),
    ("RIGHT JOIN", "ON", {"left": "A.t > 1", "residual": "B.d > 2 AND A.Value < B.Value AND TRUE"}),
    ("FULL JOIN", "ON", {"residual": CONDITIONS}),
    ("LEFT SEMI JOIN", "ON", {"left": "A.t > 1 AND TRUE", "right": "B.d > 2", "residual": "A.Value < B.Value"}),
    ("LEFT ANTI JOIN", "ON", {"right": "B.d > 2", "residual": "A.t > 1 AND A.Value < B.Value AND TRUE"}),
    ("JOIN", "ON", {"left": "A.t > 1 AND TRUE", "right": "B.d > 2", "residual": "A.Value < B.Value"}),
    # WHERE filters afterwards, which for the stream that the join is about is the same as before
    ("LEFT JOIN", "WHERE", {"left": "A.t > 1 AND TRUE", "after": "B.d > 2 AND A.Value < B.Value"}),
    ("RIGHT JOIN", "WHERE", {"right": "B.d > 2 AND TRUE", "after": "A.t > 1 AND A.Value < B.Value"}),
    ("FULL JOIN", "WHERE", {"after": CONDITIONS}),
    ("JOIN", "WHERE", {"left": "A.t > 1 AND TRUE", "right": "B.d > 2", "residual": "A.Value < B.Value"}),
]


@pytest.mark.parametrize(("join", "clause", "places"), PLACES)
def test_each_condition_is_in_its_place(spec: JobSpec, join: str, clause: str, places: dict[str, str]) -> None:
    word = "AND" if clause == "ON" else "WHERE"
    text = f"SELECT A.t FROM Temperature A {join} Humidity B ON {ON} {word} {CONDITIONS} WINDOW 1 min"
    assert placed(bound(spec, text)) == places


AS_OF = [
    ("ASOF JOIN", "ON", {"left": "A.t > 1 AND TRUE", "right": "B.d > 2", "residual": "A.Value < B.Value"}),
    ("ASOF LEFT JOIN", "ON", {"right": "B.d > 2", "residual": "A.t > 1 AND A.Value < B.Value AND TRUE"}),
    ("ASOF JOIN", "WHERE", {"left": "A.t > 1 AND TRUE", "after": "B.d > 2 AND A.Value < B.Value"}),
    ("ASOF LEFT JOIN", "WHERE", {"left": "A.t > 1 AND TRUE", "after": "B.d > 2 AND A.Value < B.Value"}),
]


@pytest.mark.parametrize(("join", "clause", "places"), AS_OF)
def test_an_as_of_join_chooses_before_where_is_asked(
    spec: JobSpec, join: str, clause: str, places: dict[str, str]
) -> None:
    word = "AND" if clause == "ON" else "WHERE"
    start = f"SELECT A.t, B.d FROM Temperature A {join} Humidity B ON {ON} AND A.ts >= B.ts"
    query = bound(spec, f"{start} {word} {CONDITIONS} WINDOW 1 min")
    assert placed(query) == places
    assert form(query) == (ASOF, LEFT, (LEFT,) if "LEFT" in join else ())


EARLIER, EARLIER_LEFT = Window(0, MIN, starts=(0, 1)), Window(MIN, 0, starts=(1, 0))


@pytest.mark.parametrize(
    ("text", "subject", "window"),
    [
        (f"Temperature A ASOF JOIN Humidity B ON {ON} AND A.ts >= B.ts WINDOW 1 min", LEFT, Window(1, MIN)),
        (f"Temperature A ASOF JOIN Humidity B ON {ON} AND B.ts <= A.ts WINDOW 1 min", LEFT, Window(1, MIN)),
        (f"Temperature A ASOF JOIN Humidity B ON {ON} AND A.ts > B.ts WINDOW 1 min", LEFT, EARLIER),
        (f"Humidity B ASOF JOIN Temperature A ON {ON} AND B.ts >= A.ts WINDOW 1 min", RIGHT, Window(MIN, 1)),
        (f"Humidity B ASOF JOIN Temperature A ON {ON} AND B.ts > A.ts WINDOW 1 min", RIGHT, EARLIER_LEFT),
        (
            f"Temperature A ASOF JOIN Humidity B ON {ON} AND A.ts BETWEEN B.ts AND B.ts + INTERVAL 5 SECONDS",
            LEFT,
            Window(1, 5 * S + 1),
        ),
        (f"Temperature A ASOF JOIN Humidity [RANGE 1 min] B ON {ON} AND A.ts >= B.ts", LEFT, Window(1, MIN)),
    ],
)  # fmt: skip
def test_an_as_of_join_looks_back_as_far_as_its_window(spec: JobSpec, text: str, subject: Side, window: Window) -> None:
    query = bound(spec, f"SELECT A.t, B.d FROM {text}")
    assert (query.kind, query.subject, query.window) == (ASOF, subject, window)


def test_intervals_in_on_are_windows_of_outer_joins_and_in_where_they_are_asked_afterwards(spec: JobSpec) -> None:
    start = f"SELECT A.t FROM Temperature A LEFT JOIN Humidity B ON {ON}"
    query = bound(spec, f"{start} AND B.ts BETWEEN A.ts - INTERVAL 5 SECONDS AND A.ts")
    assert query.window == Window(1, 5 * S + 1) and placed(query) == {}
    query = bound(spec, f"{start} WHERE B.ts <= A.ts WINDOW 1 min")
    assert query.window == Window(MIN, MIN) and placed(query) == {"after": "B.ts <= A.ts"}


def test_an_equality_in_where_of_an_outer_join_is_no_key(spec: JobSpec) -> None:
    start = f"SELECT A.t FROM Temperature A LEFT JOIN Humidity B ON {ON}"
    query = bound(spec, f"{start} WHERE A.tag = B.tag WINDOW 1 min")
    assert len(query.keys) == 1 and placed(query) == {"after": "A.tag = B.tag"}


@pytest.mark.parametrize(
    ("where", "after"),
    [("B.Value IS NULL", "B.Value IS NULL"), ("B.LocationId IS NOT NULL", "B.LocationId IS NOT NULL"),
     ("NOT B.LocationId IS NULL", "NOT B.LocationId IS NULL"), ("B.tag IS NULL OR A.ok", "B.tag IS NULL OR A.ok")],
)  # fmt: skip
def test_only_a_column_that_no_match_has_as_null_makes_an_anti_join(spec: JobSpec, where: str, after: str) -> None:
    start = f"SELECT A.t FROM Temperature A LEFT JOIN Humidity B ON {ON}"
    query = bound(spec, f"{start} WHERE {where} WINDOW 1 min")
    assert form(query) == (PAIRS, None, (LEFT,)) and placed(query) == {"after": after}


def test_a_key_that_is_not_the_column_itself_makes_no_anti_join(spec: JobSpec) -> None:
    on = "A.LocationId = COALESCE(B.LocationId, 0)"
    query = bound(
        spec, f"SELECT A.t FROM Temperature A LEFT JOIN Humidity B ON {on} WHERE B.LocationId IS NULL WINDOW 1 s"
    )
    assert form(query) == (PAIRS, None, (LEFT,)) and placed(query) == {"after": "B.LocationId IS NULL"}


def test_beside_the_missing_row_other_conditions_stay(spec: JobSpec) -> None:
    start = f"SELECT A.t FROM Temperature A LEFT JOIN Humidity B ON {ON} AND B.d > 5"
    query = bound(spec, f"{start} WHERE B.LocationId IS NULL AND A.t > 1 AND B.Value IS NULL WINDOW 1 min")
    assert form(query) == (ANTI, LEFT, (LEFT,))
    assert placed(query) == {"left": "A.t > 1", "right": "B.d > 5", "after": "B.Value IS NULL"}


def test_of_a_full_join_a_missing_row_is_asked_afterwards(spec: JobSpec) -> None:
    start = f"SELECT A.t FROM Temperature A FULL JOIN Humidity B ON {ON}"
    query = bound(spec, f"{start} WHERE B.LocationId IS NULL WINDOW 1 min")
    assert form(query) == (PAIRS, None, (LEFT, RIGHT)) and placed(query) == {"after": "B.LocationId IS NULL"}


def test_names_inside_exists_are_those_of_its_stream_first(spec: JobSpec) -> None:
    inside = f"{ON} AND Value > 5 AND ok AND B.Value < A.Value AND A.t > 1"
    outside = "tag = 'x' AND Value < 9"
    query = bound(
        spec,
        f"SELECT Value FROM Temperature A WHERE {outside} AND EXISTS (SELECT Value FROM Humidity B WHERE {inside}) "
        "WINDOW 1 s",
    )
    assert placed(query) == {
        "left": "ok AND A.t > 1 AND tag = 'x' AND Value < 9",
        "right": "Value > 5",
        "residual": "B.Value < A.Value",
    }
    assert query.where[1] is not None and query.where[1].sql.startswith('"r.Value"')
    assert query.where[0] is not None and query.where[0].left == ("ok", "t", "tag", "Value")
    assert [o.expr.sql for o in query.select] == ['"l.Value"']


def test_exists_may_have_the_window_inside(spec: JobSpec) -> None:
    for text in (
        f"SELECT A.t FROM Temperature A WHERE EXISTS (SELECT 1 FROM Humidity B WHERE {ON} WINDOW 1 min)",
        f"SELECT A.t FROM Temperature [RANGE 1 min] A WHERE EXISTS (SELECT 1 FROM Humidity [RANGE 1 min] B WHERE {ON})",
        f"SELECT A.t FROM Temperature A WHERE EXISTS (SELECT 1 FROM Humidity B WHERE {ON} AND "
        "B.ts - A.ts < INTERVAL 1 MINUTE AND A.ts - B.ts < INTERVAL 1 MINUTE)",
    ):
        assert bound(spec, text).window == Window(MIN, MIN)


@pytest.mark.parametrize("join", ["LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_a_star_of_a_semi_join_is_the_columns_of_its_subject(spec: JobSpec, join: str) -> None:
    query = bound(spec, f"SELECT * FROM Humidity B {join} Temperature A ON {ON} WINDOW 1 min")
    assert [o.name for o in query.select] == [*spec.streams["Humidity"].schema.names]


def test_a_stream_may_be_joined_with_itself(spec: JobSpec) -> None:
    query = bound(spec, f"SELECT A.t FROM Temperature A LEFT JOIN Temperature B ON {ON} AND A.t < B.t WINDOW 1 min")
    assert (query.left, query.right, query.preserved) == ("Temperature", "Temperature", (LEFT,))
    query = bound(spec, f"SELECT B.t FROM Temperature A RIGHT JOIN Temperature B ON {ON} AND A.t < B.t WINDOW 1 min")
    assert query.preserved == (RIGHT,)


T, H = "Temperature A", "Humidity B"
FAULTS = [
    (f"SELECT A.t FROM {T} «LEFT JOIN {H} ON A.Value < B.Value» WINDOW 1 s", "LEFT JOIN without an equality"),
    (f"SELECT A.t FROM {T} «LEFT JOIN {H}» WHERE {ON} WINDOW 1 s", "LEFT JOIN without an equality"),
    (f"SELECT A.t FROM {T} «FULL OUTER JOIN {H} ON TRUE» WINDOW 1 s", "FULL OUTER JOIN without an equality"),
    (f"SELECT A.t FROM {T} «LEFT SEMI JOIN {H} ON A.t < B.d» WINDOW 1 s", "LEFT SEMI JOIN without an equality"),
    (f"SELECT A.t FROM {T} WHERE «NOT EXISTS (SELECT 1 FROM {H})» WINDOW 1 s", "NOT EXISTS without an equality"),
    (f"SELECT A.t FROM {T} «ASOF JOIN {H} ON A.ts >= B.ts» WINDOW 1 s", "ASOF JOIN without an equality"),
    (f"SELECT A.t FROM {T} «LEFT JOIN {H} ON {ON}» WINDOW 5 ROWS", "LEFT JOIN with a window of rows"),
    (f"SELECT COUNT(*) FROM {T} «LEFT JOIN {H} ON {ON}» WINDOW 1 s", "LEFT JOIN with aggregates or DISTINCT"),
    (f"SELECT DISTINCT A.t FROM {T} «LEFT SEMI JOIN {H} ON {ON}» WINDOW 1 s", "LEFT SEMI JOIN with aggregates"),
    (f"SELECT A.t FROM {T} «ASOF JOIN {H} ON {ON}» WINDOW 1 s ORDER BY A.t LIMIT 3", "ASOF JOIN with aggregates"),
    (f"SELECT A.t FROM «{T}» LEFT JOIN {H} ON {ON}", "no window for A"),
    (f"SELECT A.t FROM «{T}» LEFT JOIN {H} ON {ON} AND B.ts >= A.ts", "no window for A: B.ts may be"),
    (f"SELECT A.t FROM {T} LEFT JOIN «{H}» ON {ON} AND B.ts <= A.ts", "no window for B: A.ts may be"),
    (f"SELECT A.t FROM {T} ASOF JOIN «{H}» ON {ON} AND B.ts <= A.ts", "no window for B: A.ts may be"),
    (
        f"SELECT A.t FROM {T} «LEFT JOIN {H} ON {ON} AND B.ts > A.ts + INTERVAL 1 HOUR» WINDOW 1 s",
        "no two event times are as far apart",
    ),
    (f"SELECT A.t FROM {T} «RIGHT SEMI JOIN {H} ON {ON}» WINDOW 1 s", "RIGHT SEMI JOIN is not supported yet"),
    (f"SELECT A.t FROM {T} «RIGHT ANTI JOIN {H} ON {ON}» WINDOW 1 s", "RIGHT ANTI JOIN is not supported yet"),
    (f"SELECT A.t FROM {T} «NATURAL LEFT JOIN {H}» WINDOW 1 s", "NATURAL LEFT JOIN is not supported yet"),
    (f"SELECT A.t FROM {T} «ASOF RIGHT JOIN {H} ON {ON}» WINDOW 1 s", "ASOF RIGHT JOIN is not supported yet"),
    (f"SELECT A.t FROM {T} «ASOF JOIN {H} ON {ON}» WINDOW 1 s", "ON does not say that B.ts is not later"),
    (f"SELECT A.t FROM {T} «ASOF JOIN {H} ON {ON} AND A.ts <= B.ts» WINDOW 1 s", "ASOF JOIN looks back from A.ts"),
    (f"SELECT A.t FROM {T} «ASOF JOIN {H} ON {ON}» WHERE A.ts >= B.ts WINDOW 1 s", "ON does not say that B.ts"),
    (
        f"SELECT A.t FROM {T} «ASOF JOIN {H} ON {ON} AND A.ts >= B.ts - INTERVAL 5 SECONDS» WINDOW 1 min",
        "ON does not say that B.ts is not later",
    ),
    (f"SELECT «B.d» FROM {T} LEFT SEMI JOIN {H} ON {ON} WINDOW 1 s", "B cannot be seen outside of LEFT SEMI JOIN"),
    (f"SELECT A.t FROM {T} LEFT ANTI JOIN {H} ON {ON} WHERE «B.d» > 1 WINDOW 1 s", "outside of LEFT ANTI JOIN"),
    (f"SELECT «B».* FROM {T} WHERE EXISTS (SELECT 1 FROM {H} WHERE {ON}) WINDOW 1 s", "FROM has no B"),
    (f"SELECT A.t FROM {T} WHERE EXISTS (SELECT B.«nope» FROM {H} WHERE {ON}) WINDOW 1 s", "has no column nope"),
    (
        f"SELECT A.t FROM {T} WHERE EXISTS (SELECT 1 FROM {H}) AND «NOT EXISTS (SELECT 1 FROM {H})» WINDOW 1 s",
        "a second EXISTS",
    ),
    (f"SELECT A.t FROM {T} WHERE EXISTS (SELECT «MAX(B.d)» FROM {H} WHERE {ON}) WINDOW 1 s", "anything but"),
    (f"SELECT A.t FROM {T} WHERE EXISTS (SELECT 1 FROM {H} WHERE {ON} «LIMIT 1») WINDOW 1 s", "LIMIT inside EXISTS"),
    (f"SELECT A.t FROM {T} WHERE EXISTS (SELECT 1 FROM {H} WHERE {ON} «WINDOW 1 s») WINDOW 1 s", "given twice"),
    (f"SELECT A.t FROM {T} WHERE A.LocationId IN («SELECT LocationId FROM {H}») WINDOW 1 s", "IN with a subquery"),
    (f"SELECT A.t FROM {T} WHERE A.LocationId NOT IN («SELECT LocationId FROM {H}») WINDOW 1 s", "IN with a subquery"),
    (
        f"SELECT A.t FROM {T}, {H} WHERE {ON} AND (A.ok OR EXISTS («SELECT 1 FROM Humidity C»)) WINDOW 1 s",
        "a subquery is not supported yet",
    ),
    (f"SELECT A.t FROM «{T}» WHERE A.ok WINDOW 1 s", "a query joins two streams"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "message"), FAULTS)
def test_what_cannot_be_joined_is_refused_by_name(spec: JobSpec, case: str, message: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as error:
        bound(spec, text)
    check(error.value, text, place, message)


@pytest.mark.parametrize(("word", "spelling"), [("IN", "write EXISTS ("), ("NOT IN", "write NOT EXISTS (")])
def test_in_with_a_subquery_is_told_the_spelling_with_exists(spec: JobSpec, word: str, spelling: str) -> None:
    with pytest.raises(SqlError) as error:
        bound(spec, f"SELECT A.t FROM {T} WHERE A.LocationId {word} (SELECT LocationId FROM {H}) WINDOW 1 s")
    assert spelling in str(error.value.hint)


@pytest.mark.parametrize(
    ("join", "emit", "hint"),
    [
        ("LEFT JOIN", "", "never live. Write one row for each key when it is over"),
        ("FULL JOIN", "EVERY 10 seconds", "or aggregate the inner join, and write the rows without a match"),
        ("RIGHT JOIN", "EMIT FINAL", "GROUP BY B.LocationId"),
        ("LEFT SEMI JOIN", "", "aggregate them where you read them"),
    ],
)
def test_aggregates_over_joins_that_are_not_inner_say_what_to_write_instead(
    spec: JobSpec, join: str, emit: str, hint: str
) -> None:
    with pytest.raises(SqlError) as error:
        bound(spec, f"SELECT COUNT(*) AS n FROM {T} {join} {H} ON {ON} WINDOW 1 s {emit}")
    assert hint in str(error.value.hint)
