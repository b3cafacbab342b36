"""PJoin (ding2004 6): promises alone free rows, however old these are; the pairs are the same."""

from __future__ import annotations

from dataclasses import replace

from muntin.model import Side, UsageError
from muntin.plan.joins import Plan
from muntin.plan.punctuation import FOR_GOOD, promising
from muntin.plan.punctuation_modes.mode import PunctuationMode


class PJoin(PunctuationMode):
    name = "pjoin"
    title = "PJoin"
    paper = "ding2004, section 6"
    summary = "rows stay until a promise frees them; both streams of a join must make promises"
    binds_for_good = True

    def apply(self, plan: Plan) -> Plan:
        """The same joins with rows that stay until a promise frees them; refused where one side promises nothing."""
        for join in plan.joins:
            for side in Side:
                if promising(join, side) is None:
                    stream, query = join.streams[side].name, join.queries[0].name
                    raise UsageError(
                        f"punctuations = 'pjoin' keeps rows until a promise frees them, and {stream} promises nothing "
                        f"about the key of query {query}",
                        hint=f"declare PUNCTUATION WHEN or UNIQUE for {stream}, or use 'pwjoin', which has windows "
                        "as well",
                    )
        return replace(plan, joins=tuple(replace(j, cuts=((FOR_GOOD,), (FOR_GOOD,))) for j in plan.joins))
