"""An independent judge: each query as plain SQL in DuckDB, straight from the raw rows.

It knows neither the oracle nor a plan nor the engine. Its tables have the rows of many jobs that run the same text,
told apart by `job`: one statement judges all of them. Sections are those of docs/semantics.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import duckdb
import pyarrow as pa

from muntin.model import Axis, JoinKind
from whole_way import judge_many
from whole_way.many import Many
from whole_way.queries import CHANGES, EITHER, EVERY, FINAL, INNER, PLAIN, TOP, RandomQuery
from whole_way.random_jobs import Text

RAW = pa.schema(
    [("job", pa.int64()), ("stream", pa.string()), ("batch", pa.int64()), ("n", pa.int64()), ("ts", pa.int64()),
     ("id", pa.int64()), ("k", pa.int64()), ("g", pa.string()), ("v", pa.int64()), ("closed", pa.bool_())]
)  # fmt: skip
BOUNDS = pa.schema([("job", pa.int64()), ("batch", pa.int64()), ("us", pa.int64())])
IDLE = pa.schema([("job", pa.int64()), ("stream", pa.string()), ("batch", pa.int64())])
COLUMNS = ("ts", "id", "k", "g", "v")
LAST = 10**9
"""After every micro-batch."""
CALLS = {
    "COUNT(*)": "count(lo)",
    "COUNT(B.v)": "count(bv)",
    "SUM(A.v)": "sum(av)::BIGINT",
    "SUM(A.v + B.v)": "sum(av + bv)::BIGINT",
    "SUM(B.v / 8)": "sum(bv / 8.0)::DOUBLE",
    "AVG(B.v)": "avg(bv)",
    "MIN(A.v)": "min(av)",
    "MAX(B.v)": "max(bv)",
    "MIN(-B.id / 2)": "min(-bid / 2.0)::DOUBLE",
    "COUNT(DISTINCT B.g)": "count(DISTINCT bg)",
    "COUNT(DISTINCT A.k)": "count(DISTINCT ak)",
    "MAX(A.v) - MIN(B.v)": "max(av) - min(bv)",
}
HAVING = {"": "true", "HAVING COUNT(*) > 1": "count(lo) > 1", "HAVING COUNT(*) < 2": "count(lo) < 2"}
VALUES = {
    "A.v": "av", "B.v": "bv", "A.g": "ag", "B.g": "bg", "A.v + B.v": "av + bv", "B.v / 4": "(bv / 4.0)::DOUBLE",
    "A.ts": "ats", "A.k": "ak",
}  # fmt: skip
Answers = dict[int, list[tuple[Any, ...]]]
"""Rows by job."""


class Judge:
    def __init__(self) -> None:
        self._base = duckdb.connect()
        self._base.execute("SET threads = 1")

    def load(self, rows: list[dict[str, Any]], idle: list[dict[str, Any]]) -> None:
        """Take the raw rows of all jobs of a text, and which micro-batches said that a stream is idle.

        Section 1: a row is late if it is before what its stream had come to, or, while that was idle, the other.
        """
        self._base.register("given", pa.Table.from_pylist(rows, RAW))
        self._base.register("told", pa.Table.from_pylist(idle, IDLE))
        self._base.execute("CREATE OR REPLACE TEMP TABLE raw AS FROM given")
        self._base.execute("CREATE OR REPLACE TEMP TABLE idle AS FROM told")
        self._base.unregister("given")
        self._base.unregister("told")
        self._base.execute(f"""
            CREATE OR REPLACE TEMP TABLE waits AS
            SELECT i.job, i.stream, i.batch AS since, coalesce(min(r.batch), {LAST}) AS until
            FROM idle i LEFT JOIN raw r ON r.job = i.job AND r.stream = i.stream AND r.batch >= i.batch
                AND r.ts IS NOT NULL
            GROUP BY ALL""")

    def bound(self, text: Text, lateness: list[list[int]]) -> None:
        """Take the lateness of each micro-batch of each job. A row is late if it is before any frontier so far."""
        bounds = [{"job": n, "batch": b, "us": us} for n, found in enumerate(lateness) for b, us in enumerate(found)]
        self._base.register("given", pa.Table.from_pylist(bounds, BOUNDS))
        self._base.execute("CREATE OR REPLACE TEMP TABLE bounds AS FROM given")
        self._base.unregister("given")
        self._base.execute("""
            CREATE OR REPLACE TEMP TABLE seen AS
            SELECT r.*, CASE
                WHEN ts IS NULL THEN 'null_time'
                WHEN ts < greatest(
                    (SELECT max(e.ts - b.us) FROM raw e JOIN bounds b ON b.job = e.job AND b.batch >= e.batch
                     WHERE e.job = r.job AND e.stream = r.stream AND b.batch < r.batch),
                    (SELECT max(e.ts - b.us) FROM raw e JOIN bounds b ON b.job = e.job AND b.batch = r.batch
                     WHERE e.job = r.job AND e.stream = r.stream AND e.batch < r.batch),
                    (SELECT max(e.ts - b.us) FROM raw e JOIN waits w ON e.job = w.job AND e.stream != w.stream
                        AND e.batch < w.until AND w.since < w.until
                        JOIN bounds b ON b.job = e.job AND b.batch = r.batch
                     WHERE e.job = r.job AND w.stream = r.stream AND e.batch < r.batch AND w.since < r.batch)
                ) THEN 'late'
                END AS turned_away
            FROM raw r""")
        for name, promise in zip(text.streams, text.promises, strict=True):
            self._base.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {_counted(name, promise)}")

    def letters(self) -> Answers:
        """Late rows and those without a time."""
        return self._by_job("SELECT job, stream, turned_away, id FROM seen WHERE turned_away IS NOT NULL")

    def answer(self, text: Text, query: RandomQuery) -> Answers:
        if query.kind == PLAIN:
            shown = f"{query.first}id" if query.shows_one else "aid, bid, av + bv"
            if isinstance(query, Many):
                shown = "aid, ak, ag, av" + (", bid, av + bv" if not query.shows_one else "")
                shown += "".join(f", {name.lower()}id" for name in query.names[1:-1])
            return self._by_job(f"WITH {_found(query)} SELECT job, {shown}, lo FROM pairs")
        if query.kind == TOP:
            return self._by_job(_top(query))
        if query.kind == FINAL:
            return self._by_job(_final(text, query))
        assert query.kind in (CHANGES, EVERY)
        return self._by_job(_aggregate(query))

    def _by_job(self, sql: str) -> Answers:
        found: Answers = defaultdict(list)
        for job, *row in self._base.execute(sql).fetchall():
            found[job].append(tuple(row))
        return found


def _counted(name: str, promise: str) -> str:
    """Section 6, with promises that bind to the end: the rows of a stream that count, in order of time and arrival.

    A row breaks a promise if a punctuation of its key is earlier, or if its key has come before and is unique.
    """
    punctuated = "true" if promise in ("marks", "both") else "false"
    unique = "true" if promise in ("unique", "both") else "false"
    data = f"stream = '{name}' AND turned_away IS NULL AND NOT ({punctuated} AND closed)"
    return f"""
        WITH here AS (SELECT * FROM seen WHERE {data}),
        marks AS (
            SELECT job, k, ts FROM seen WHERE stream = '{name}' AND turned_away IS NULL AND {punctuated} AND closed
        )
        SELECT h.*, row_number() OVER (PARTITION BY job ORDER BY ts, batch, n) AS place,
            EXISTS (FROM marks m WHERE m.job = h.job AND m.k = h.k AND m.ts < h.ts)
            OR ({unique} AND EXISTS (
                FROM here e WHERE e.job = h.job AND e.k = h.k AND (e.ts, e.batch, e.n) < (h.ts, h.batch, h.n)
            )) AS broken
        FROM here h"""


def _found(query: RandomQuery) -> str:
    """What a query makes rows of, as `pairs` with the output timestamp `lo`."""
    return _pairs(query) if query.join == INNER else _joined(query)


def _columns(name: str, there: bool = True) -> str:
    """The columns of a stream in `pairs`; NULL where no row of it is there."""
    return ", ".join(f"{f'{name}.{column}' if there else 'NULL'} AS {name}{column}" for column in COLUMNS)


def _pairs(query: RandomQuery) -> str:
    """Section 2: the pairs of a query, live from `lo` until before `hi`."""
    if isinstance(query, Many):
        return judge_many.pairs(query)
    window = query.window
    first = "(A.ts <= B.ts)"  # at equal times the left row comes first
    ages = {
        Axis.TIME: ("B.ts - A.ts", "A.ts - B.ts"),
        Axis.ROWS: (
            "(SELECT count(*) FROM A x WHERE x.job = A.job AND x.place > A.place AND x.ts <= B.ts)",
            "(SELECT count(*) FROM B x WHERE x.job = B.job AND x.place > B.place AND x.ts < A.ts)",
        ),
    }
    left = f"{ages[window.axes[0]][0]} < {window.left}"
    right = f"{ages[window.axes[1]][1]} < {window.right}"
    meets = f"CASE WHEN {first} THEN {left} ELSE {right} END"
    if window.axes == (Axis.TIME, Axis.TIME):
        meets = _in_bounds(query)
    ends = f"A.ts + {window.left}, B.ts + {window.right}, {_until(query, 'A')}, {_until(query, 'B')}"
    return f"""pairs AS (
        SELECT A.job, {_columns("A")}, {_columns("B")}, greatest(A.ts, B.ts) AS lo, least({ends}) AS hi
        FROM A JOIN B ON A.job = B.job
        WHERE NOT A.broken AND NOT B.broken AND ({query.condition}) AND {meets} AND {_open(query)})"""


UNTIL = {"{}.ts + INTERVAL 1 MICROSECOND * ({}.v - 1)": "{}.ts + {}.v - 1", "timestamp_micros({}.v * 4)": "{}.v * 4"}


def _until(query: RandomQuery, name: str) -> str:
    """Section 2: until when a row of a stream waits, where it says so itself; else for ever."""
    if isinstance(query, Many):
        return "A.until" if name == "A" else str(1 << 60)
    own = UNTIL.get(query.untils["AB".index(name)], "NULL")
    return f"coalesce({own.replace('{}', name)}, {1 << 60})"


def _open(query: RandomQuery) -> str:
    """Section 2: the earlier of two rows still waits; at equal times either of them."""
    left, right = (f"({one}.ts <= {two}.ts AND {two}.ts < {_until(query, one)})" for one, two in ("AB", "BA"))
    return f"({left} OR {right})"


def _in_bounds(query: RandomQuery) -> str:
    return f"(B.ts - A.ts BETWEEN ({query.bounds[0]}) AND ({query.bounds[1]}))"


def _joined(query: RandomQuery) -> str:
    """Section 2: a join that is not an inner one, as DuckDB itself has it."""
    told = _told(query)
    one, other = query.first, query.second
    many = isinstance(query, Many)
    condition = judge_many.condition(query) if many else query.condition
    match = f"A.job = B.job AND ({condition}) AND {_in_bounds(query)} AND {_open(query)}"
    streams = judge_many.streams(query) if many else "a_ AS (FROM A WHERE NOT broken), b_ AS (FROM B WHERE NOT broken)"
    own, its = (f"{name.lower()}_ {name}" for name in (one, other))
    more = judge_many.others(query) if isinstance(query, Many) else ""
    alone, both = f"{_columns(one)}, {_columns(other, False)}{more}", f"{_columns('A')}, {_columns('B')}{more}"
    if query.join_kind is JoinKind.ANTI:
        return f"""{streams}, pairs AS (SELECT {one}.job, {alone}, {one}.ts + {told[one]} AS lo FROM {own}
            WHERE NOT EXISTS (FROM {its} WHERE {match}) AND ({query.after}))"""
    if query.join_kind is JoinKind.SEMI:
        return f"""{streams}, pairs AS (
            SELECT {one}.job, {alone}, min(greatest(A.ts, B.ts)) AS lo FROM {own} JOIN {its} ON {match}
            WHERE {query.after} GROUP BY ALL)"""
    if query.join_kind is JoinKind.ASOF:
        row = f"{one}.{'tree' if many else 'id'}"
        latest = f"PARTITION BY {one}.job, {row} ORDER BY {other}.ts DESC NULLS LAST, {other}.place DESC"
        return f"""{streams}, pairs AS (SELECT {one}.job, {both}, {one}.ts AS lo FROM (
                SELECT A, B FROM {own} {query.join.removeprefix("ASOF ")} {its} ON {match}
                QUALIFY row_number() OVER ({latest}) = 1
            ) WHERE {query.after})"""
    return f"""{streams}, pairs AS (
        SELECT coalesce(A.job, B.job) AS job, {both}, CASE WHEN B.id IS NULL THEN A.ts + {told["A"]}
            WHEN A.id IS NULL THEN B.ts + {told["B"]} ELSE greatest(A.ts, B.ts) END AS lo
        FROM {own} {query.join} {its} ON {match} WHERE {query.after})"""


def _told(query: RandomQuery) -> dict[str, str]:
    """Section 2: how long after its own time a row of each stream goes out that has no match."""
    if query.join_kind is JoinKind.ASOF:
        return {"A": "0", "B": "0"}
    return {name: _own(query, name, size) for name, size in _sizes(query).items()}


def _sizes(query: RandomQuery) -> dict[str, int]:
    low, high = query.bounds
    return {"A": max(0, high + 1), "B": max(0, 1 - low)}


def _own(query: RandomQuery, name: str, size: int) -> str:
    """Section 2: the window of a row, at most of a size."""
    return f"least({size}, greatest(1, {_until(query, name)} - {name}.ts))"


GROUP = {"A.k": "ak", "B.k": "bk", "A.g": "ag", "B.g": "bg", "A.v + B.v": "av + bv", EITHER: "coalesce(ak, bk)"}


def _groups(query: RandomQuery) -> tuple[str, str, str]:
    """Groups as named columns, their names, and that a pair is of a group."""
    named = "".join(f", {GROUP[g]} AS g{n}" for n, g in enumerate(query.groups))
    names = "".join(f", g{n}" for n in range(len(query.groups)))
    same = "".join(f" AND p.g{n} IS NOT DISTINCT FROM s.g{n}" for n in range(len(query.groups)))
    return named, names, same


def _moments(query: RandomQuery) -> str:
    """Section 7: of each group, the instants at which it may be told, and one before all of them."""
    named, names, _ = _groups(query)
    ends = "SELECT job, lo AS t FROM pairs UNION SELECT job, hi FROM pairs UNION SELECT job, min(lo) - 1 FROM pairs "
    ends += "GROUP BY job"
    if query.every:
        d = query.every
        spans = "SELECT job, min(lo) AS lo, max(hi) AS hi FROM pairs GROUP BY job"
        ends = f"SELECT job, unnest(range((lo + {d} - 1) // {d} * {d}, hi, {d})) AS t FROM ({spans})"
    return f"""grouped AS (SELECT *{named} FROM pairs),
        slots AS (SELECT * FROM (SELECT DISTINCT job{names} FROM grouped) JOIN ({ends}) USING (job))"""


def _aggregate(query: RandomQuery) -> str:
    """Section 7: what each group shows at each instant, and which of it is told."""
    _, names, same = _groups(query)
    calls = ", ".join(f"{CALLS[call]} AS c{n}" for n, call in enumerate(query.calls))
    shown = ", ".join(f"c{n}" for n in range(len(query.calls)))
    of = "PARTITION BY job" + names
    slot = "".join(f", s.g{n}" for n in range(len(query.groups)))
    live = "p.job = s.job AND p.lo <= s.t AND s.t < p.hi"
    told = "pairs_ > 0" if query.every else "(pairs_ > 0 AND (had = 0 OR NOT showed)) OR now IS DISTINCT FROM before"
    return f"""
        WITH {_pairs(query)}, {_moments(query)},
        states AS (
            SELECT s.job{slot}, s.t, count(lo) AS pairs_, {HAVING[query.having]} AS shows, {calls}
            FROM slots s LEFT JOIN grouped p ON {live}{same} GROUP BY s.job, s.t{slot}
        ),
        changes AS (
            SELECT *, row({shown}) AS now, lag(row({shown})) OVER ({of} ORDER BY t) AS before,
                lag(pairs_) OVER ({of} ORDER BY t) AS had, lag(shows) OVER ({of} ORDER BY t) AS showed,
                row_number() OVER ({of} ORDER BY t) AS nth
            FROM states
        )
        SELECT job{names}, {shown}, t FROM changes
        WHERE shows AND {"true" if query.every else "nth > 1"} AND ({told})"""


def _top(query: RandomQuery) -> str:
    """Section 7: the first pairs of each group at each instant, as a list, told where it is another than before."""
    _, names, same = _groups(query)
    ways = []
    for value, descends, nulls in query.order:
        ways.append(f"{VALUES[value]} {'DESC' if descends else 'ASC'} {nulls or ('NULLS ' + _usual(descends))}")
    ways += [f"{VALUES[column]} ASC NULLS FIRST" for column in query.columns]
    slot = "".join(f", s.g{n}" for n in range(len(query.groups)))
    of = "PARTITION BY job" + names
    live = "p.job = s.job AND p.lo <= s.t AND s.t < p.hi"
    columns = ", ".join(f"({VALUES[column]}) AS c{n}" for n, column in enumerate(query.columns))
    row = ", ".join(f"c{n} := c{n}" for n in range(len(query.columns)))
    groups = {g: f"g{n}" for n, g in enumerate(query.groups)}
    ended = ", ".join(groups.get(column, "NULL") for column in query.columns)
    fields = ", ".join(f"list_[i].c{n}" for n in range(len(query.columns)))
    told = "len(list_) > 0" if query.every else "nth > 1 AND list_ IS DISTINCT FROM before"
    return f"""
        WITH {_pairs(query)}, {_moments(query)},
        ranked AS (
            SELECT s.job{slot}, s.t, lo, {columns},
                row_number() OVER (PARTITION BY s.job, s.t{slot} ORDER BY {", ".join(ways)}) AS place
            FROM slots s LEFT JOIN grouped p ON {live}{same}
        ),
        lists AS (
            SELECT job{names}, t, coalesce(list(struct_pack({row}) ORDER BY place)
                FILTER (WHERE lo IS NOT NULL AND place <= {query.limit}), []) AS list_
            FROM ranked GROUP BY job, t{names}
        ),
        changes AS (
            SELECT *, lag(list_) OVER ({of} ORDER BY t) AS before, row_number() OVER ({of} ORDER BY t) AS nth FROM lists
        ),
        told AS (SELECT * FROM changes WHERE {told})
        SELECT job, {fields}, i, t FROM (SELECT *, unnest(range(1, len(list_) + 1)) AS i FROM told)
        UNION ALL SELECT job, {ended}, 0, t FROM told WHERE len(list_) = 0"""


def _usual(descends: bool) -> str:
    return "LAST" if descends else "FIRST"


def _final(text: Text, query: RandomQuery) -> str:
    """Sections 6 and 7: each group once, over all that went out, when its key is over or the streams are."""
    named, names, _ = _groups(query)
    ends = []
    sizes = (query.window.left, query.window.right)
    tables = judge_many.promising(text, query) if isinstance(query, Many) else zip("AB", text.promises[:2], strict=True)
    for name, (table, promise), size, wanted in zip("AB", tables, sizes, query.selections, strict=True):
        by_mark = f"""SELECT job, k, ts FROM seen WHERE stream = '{table}' AND turned_away IS NULL AND closed"""
        by_row = f"SELECT job, k, ts FROM {table} WHERE NOT broken"
        promises = [by_mark] * (promise in ("marks", "both")) + [by_row] * (promise in ("unique", "both"))
        made = " UNION ALL ".join(promises) or f"SELECT job, k, ts FROM {table} WHERE false"
        selected = " AND ".join(f"({condition})" for condition in wanted)
        own = str(size) if isinstance(query, Many) else _own(query, name, size)
        ends.append(f"""tp_{name} AS (SELECT job, k, min(ts) AS tp FROM ({made}) WHERE k IS NOT NULL GROUP BY job, k),
            over_{name} AS (
                SELECT p.job, p.k, tp, greatest(tp, max({name}.ts + {own}) - 1) AS early
                FROM tp_{name} p LEFT JOIN {table} {name} ON {name}.job = p.job AND {name}.k = p.k AND NOT broken
                    AND {name}.ts <= tp AND ({selected})
                GROUP BY p.job, p.k, tp
            )""")
    calls = ", ".join(f"{CALLS[call]} AS c{n}" for n, call in enumerate(query.calls))
    shown = ", ".join(f"c{n}" for n in range(len(query.calls)))
    return f"""
        WITH {_found(query)}, {", ".join(ends)},
        last AS (SELECT job, max(ts) AS ts FROM raw WHERE stream IN ({_streams(query)}) GROUP BY job),
        timed AS (
            SELECT p.*{named}, least({_over(query)}, last.ts) AS done
            FROM pairs p JOIN last ON last.job = p.job
                LEFT JOIN over_A a ON a.job = p.job AND a.k = {GROUP[EITHER]}
                LEFT JOIN over_B b ON b.job = p.job AND b.k = {GROUP[EITHER]}
        )
        SELECT job{names}, {shown}, done FROM (
            SELECT job{names}, done, {HAVING[query.having]} AS shows, {calls} FROM timed GROUP BY job, done{names}
        ) WHERE shows"""


def _streams(query: RandomQuery) -> str:
    """The streams whose last row ends a query."""
    return ", ".join(f"'{name}'" for name in sorted(query.base if isinstance(query, Many) else "AB"))


def _over(query: RandomQuery) -> str:
    """Section 6: when the output of a query is over for a key; NULL where nobody promises that."""
    told = {"A": 0, "B": 0} if query.join_kind is JoinKind.ASOF else _sizes(query)
    preserved = [f"{name.lower()}.tp + {told[name]}" for name in ("AB"[side] for side in query.preserved)]
    both = preserved if len(preserved) == 2 else ["a.tp", "b.tp"]
    later = f"CASE WHEN a.tp IS NOT NULL AND b.tp IS NOT NULL THEN greatest({', '.join(both)}) END"
    if preserved:
        return preserved[0] if len(preserved) == 1 else later
    return f"a.early, b.early, {later}"
