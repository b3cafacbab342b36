"""Every policy is one object in one registry, and a new one is found by all who list them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from muntin.bench.sharing import ways
from muntin.model import SqlError
from muntin.plan import evolve, make_plan
from muntin.plan.chains import CHAINS
from muntin.plan.choose import choose
from muntin.plan.explain import explain, explain_json
from muntin.plan.invalidations import INVALIDATIONS
from muntin.plan.orderings import ORDERINGS
from muntin.plan.punctuation_modes import PUNCTUATION_MODES
from muntin.plan.registry import Registry
from muntin.plan.schedulers import SCHEDULERS
from muntin.plan.strategies import STRATEGIES, JoinPart, QueryGroups, Strategy
from muntin.sql import parse_job
from muntin.sql.settings import settings_help
from muntin.testing import LocalJob

REGISTRIES = {
    "strategy": STRATEGIES,
    "chain": CHAINS,
    "scheduler": SCHEDULERS,
    "ordering": ORDERINGS,
    "invalidation": INVALIDATIONS,
    "punctuations": PUNCTUATION_MODES,
}
SQL = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT, v DOUBLE) TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT, v DOUBLE) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
CREATE QUERY q1 AS SELECT A.v FROM A, B WHERE A.k = B.k WINDOW 1 s;
CREATE QUERY q2 AS SELECT A.v FROM A, B WHERE A.k = B.k AND B.v > 3 WINDOW 2 s;
CREATE QUERY q3 AS SELECT A.v FROM A, B WHERE A.k = B.k WINDOW 3 s;
"""


class InPairs(Strategy):
    """A strategy that nobody needs: each two queries of a group share a join."""

    name = "in-pairs"
    paper = "none"
    summary = "a join for each two queries"
    explanation = ("each two queries have a join",)

    def parts(self, groups: QueryGroups) -> Iterable[JoinPart]:
        for group in groups.groups:
            for n in range(0, len(group), 2):
                yield group[n : n + 2], (None, None)

    def identity(self, join):
        return (tuple(q.name for q in join.queries), *super().identity(join))


@pytest.fixture
def in_pairs(monkeypatch):
    monkeypatch.setattr(STRATEGIES, "policies", (*STRATEGIES.policies, InPairs()))
    return parse_job("SET strategy = 'in-pairs';" + SQL)


def test_a_fifth_strategy_is_one_class_and_one_entry(in_pairs):
    assert in_pairs.settings.strategy == "in-pairs"
    assert "'in-pairs'" in settings_help()
    plan = make_plan(in_pairs)
    assert [[q.name for q in join.queries] for join in plan.joins] == [["q1", "q2"], ["q3"]]
    assert choose(in_pairs).alternatives[-1].strategy == "in-pairs"
    assert ("in-pairs",) in ways()
    text, found = explain(in_pairs), json.loads(explain_json(in_pairs))
    assert text.startswith("3 queries in 2 shared joins, one Spark job") and "each two queries have a join" in text
    assert [way["strategy"] for way in found["alternatives"] if way["chosen"]] == ["in-pairs"]
    more = parse_job("SET strategy = 'in-pairs';" + SQL + SQL.splitlines()[-1].replace("q3", "q4"))
    assert [join.index for join in evolve(plan, more).joins] == [0, 2]
    assert len(LocalJob(in_pairs).shards) == 2
    with pytest.raises(SqlError, match="chain = 'cpu-opt' does not go with strategy = 'in-pairs'"):
        parse_job("SET strategy = 'in-pairs'; SET chain = 'cpu-opt';" + SQL)


def test_without_its_entry_a_strategy_is_not_known():
    with pytest.raises(SqlError, match="strategy cannot be 'in-pairs'") as error:
        parse_job("SET strategy = 'in-pairs'")
    assert "'state-slice', 'pull-up', 'push-down', 'isolated'" in (error.value.hint or "")


@pytest.mark.parametrize("setting", REGISTRIES)
def test_a_policy_says_what_it_is_and_sql_takes_its_name(setting):
    registry: Registry = REGISTRIES[setting]
    assert len(set(registry.names)) == len(registry.names) > 1
    for policy in registry:
        assert policy.paper and policy.summary and registry[policy.name] is policy
        assert getattr(parse_job(f"SET {setting} = '{policy.name}'").settings, setting) == policy.name
    with pytest.raises(KeyError):
        registry["no such policy"]
