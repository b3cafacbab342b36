"""Aggregates over live pairs are those of the oracle (semantics, section 7), whatever the cuts, shards, restarts and
neighbours; and the work for them is shared.

Tiny domains on purpose: ties, NULLs, and pairs that come and go at the same instant.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.core.local import LocalJob
from muntin.model import JobSpec, Window
from muntin.plan import share
from muntin.plan.share import STRATEGIES as SHARING
from muntin.sql import parse_job
from worlds import EXAMPLES, RESIDUALS, ROW, SELECTIONS, STREAMS, order_of, rows, summed

GROUPS = {
    "": lambda p: (),
    "A.k": lambda p: (p.left["k"],),
    "B.g": lambda p: (p.right["g"],),
    "A.k, B.g": lambda p: (p.left["k"], p.right["g"]),
    "A.v + B.v": lambda p: (both(p),),
}


def known(pairs: list, value: Any) -> list:
    return [v for p in pairs if (v := value(p)) is not None]


def both(pair: oracle.Pair) -> int | None:
    return summed(pair.left["v"], pair.right["v"])


class Answer(tuple):
    """What a query selects of a group; whether HAVING lets it be seen is no part of it."""

    shown = True


CALLS = {
    "COUNT(*)": len,
    "COUNT(B.v)": lambda pairs: len(known(pairs, lambda p: p.right["v"])),
    "SUM(A.v)": lambda pairs: sum(v) if (v := known(pairs, lambda p: p.left["v"])) else None,
    "SUM(A.v + B.v)": lambda pairs: (
        sum(v) if (v := known(pairs, lambda p: summed(p.left["v"], p.right["v"]))) else None
    ),
    "SUM(B.v / 8)": lambda pairs: sum(v) / 8 if (v := known(pairs, lambda p: p.right["v"])) else None,
    "AVG(B.v)": lambda pairs: sum(v) / len(v) if (v := known(pairs, lambda p: p.right["v"])) else None,
    "MIN(A.v)": lambda pairs: min(known(pairs, lambda p: p.left["v"]), default=None),
    "MAX(B.v)": lambda pairs: max(known(pairs, lambda p: p.right["v"]), default=None),
    "MIN(-B.id / 2)": lambda pairs: min(known(pairs, lambda p: -p.right["id"] / 2), default=None),
    "COUNT(DISTINCT B.g)": lambda pairs: len(set(known(pairs, lambda p: p.right["g"]))),
    "COUNT(DISTINCT A.k)": lambda pairs: len(set(known(pairs, lambda p: p.left["k"]))),
    "MAX(A.v) - MIN(B.v)": lambda pairs: summed(
        max(known(pairs, lambda p: p.left["v"]), default=None),
        None if (low := min(known(pairs, lambda p: p.right["v"]), default=None)) is None else -low,
    ),
}
HAVING = {"": lambda n: True, "HAVING COUNT(*) > 1": lambda n: n > 1, "HAVING COUNT(*) < 2": lambda n: n < 2}


@st.composite
def queries(draw: st.DrawFn, name: str) -> dict:
    """An aggregate query as SQL and in the oracle's terms; `answer` makes it of the pairs."""
    size = draw(st.integers(1, 8))
    window = Window(size, draw(st.sampled_from([size, size, size, 1, 3, 6])))
    wheres = [draw(st.sampled_from(["TRUE", "TRUE", *SELECTIONS])) for _ in "AB"]
    residual = draw(st.sampled_from(["TRUE", "TRUE", *RESIDUALS]))
    group, having = draw(st.sampled_from(list(GROUPS))), draw(st.sampled_from(["", "", *HAVING]))
    calls = draw(st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=3, unique=True))
    every = draw(st.sampled_from([None, None, None, 1, 2, 5]))
    selection = " AND ".join("(" + w.replace("{}", alias) + ")" for w, alias in zip(wheres, "AB", strict=True))
    columns = [f"{call} AS c{n}" for n, call in enumerate(calls)]
    columns = [f"{g.strip()} AS g{n}" for n, g in enumerate(group.split(",")) if g] + columns
    sql = (
        f"CREATE QUERY {name} AS SELECT {', '.join(columns)} "
        f"FROM A [RANGE {window.left} microseconds] A, B [RANGE {window.right} microseconds] B "
        f"WHERE A.k = B.k AND {selection} AND {residual} {f'GROUP BY {group}' if group else ''} {having} "
        f"{'EMIT CHANGES' if every is None else f'EVERY {every} microseconds'};"
    )

    def answer(pairs: list) -> list:
        def values(live: list) -> Answer:
            found = Answer(CALLS[call](live) for call in calls)
            found.shown = HAVING[having](len(live))
            return found

        rows_ = oracle.aggregate(window, pairs, GROUPS[group], values, lambda found: found.shown, every)
        return [(*group, *found, t) for t, group, found in rows_]

    keeps = [SELECTIONS[w] for w in wheres]
    return {"name": name, "sql": sql, "window": window, "keeps": keeps, "holds": RESIDUALS[residual], "answer": answer}


@st.composite
def scenarios(draw: st.DrawFn) -> dict:
    steps = draw(st.integers(1, 4))
    batches = [(draw(rows(2 * n)), draw(rows(2 * n))) for n in range(steps)]
    return {
        "lateness": draw(st.sampled_from([0, 2, 20])),
        "batches": batches,
        "queries": [draw(queries(f"q{n}")) for n in range(draw(st.integers(1, 4)))],
        "shards": draw(st.sampled_from([1, 2, 3])),
        "strategy": draw(st.sampled_from(SHARING)),
        "restarts": [draw(st.booleans()) for _ in batches],
        "beside": draw(st.booleans()),
    }


PLAIN = "CREATE QUERY plain AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v > 1 WINDOW 4 microseconds;"


def job(scenario: dict, chosen: list[dict] | None = None) -> JobSpec:
    beside = PLAIN if scenario["beside"] else ""
    text = STREAMS.format(late=scenario["lateness"]) + beside
    return parse_job(text + "\n".join(q["sql"] for q in (chosen or scenario["queries"])))


def simulate(scenario: dict, spec: JobSpec, shards: int, restarts: list[bool]) -> tuple[dict[str, list], LocalJob]:
    """Each query's rows as tuples in output order."""
    local = LocalJob(spec, shards, share(spec, scenario["strategy"]))
    got: dict[str, list] = {name: [] for name in spec.queries}
    for batch, restart in zip([*scenario["batches"], None], [*restarts, False], strict=True):
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, ROW) for s, r in zip("AB", batch, strict=True)}
        for name, table in local.push(tables, ended=batch is None).items():
            got[name] += tuples(table)
        if restart:
            local.restart()
    return got, local


def tuples(table: pa.Table) -> list[tuple]:
    at = table.column_names.index("_ts")
    columns = table.set_column(at, "_ts", table["_ts"].cast(pa.int64())).columns
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


def pairs_of(scenario: dict, query: dict) -> list:
    sides = [[batch[side] for batch in scenario["batches"]] for side in (0, 1)]
    admitted = [oracle.admit(side, scenario["lateness"])[0] for side in sides]
    key = oracle.columns("k")
    return oracle.answer(query["window"], *admitted, (key, key), tuple(query["keeps"]), holds=query["holds"])


@settings(max_examples=EXAMPLES, deadline=None)
@given(scenarios())
def test_every_aggregate_is_the_oracles_whatever_the_cuts_shards_and_restarts(scenario):
    got, local = simulate(scenario, job(scenario), scenario["shards"], scenario["restarts"])
    for query in scenario["queries"]:
        found = got[query["name"]]
        assert sorted(found, key=order_of) == sorted(query["answer"](pairs_of(scenario, query)), key=order_of)
        assert [row[-1] for row in found] == sorted(row[-1] for row in found)
    for n in range(len(local.plan.joins)):
        for shard in local.shards[n]:
            assert shard.operator.counters.groups == 0 and not shard.log, "an ended job keeps nothing"
            for state in shard.operator.aggregates.states:
                layers = [state.main, *state._within]
                assert all(layer.cells == layer.live == 0 for layer in layers)
                assert all(not layer.sums.ints.any() and not layer.sums.doubles.any() for layer in layers)
