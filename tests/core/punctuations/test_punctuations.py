"""Promises free the state and never change an answer (semantics, section 6).

The streams of these worlds lie now and then: a row that breaks a promise is a dead letter, and nobody's answer has it.
"""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.model import Axis, JobSpec
from muntin.plan import share
from muntin.plan.strategies import STRATEGIES
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, ROW, order_of, queries, rows, summed

MARKED = ROW.append(pa.field("closed", pa.bool_()))
FOREVER = 1 << 60
MARKS = {
    "marks": " PUNCTUATION WHEN closed",
    "both": " PUNCTUATION WHEN closed",
    "list": " PUNCTUATION WHEN closed FOR k IN (v, k)",
    "range": " PUNCTUATION WHEN closed FOR k BETWEEN v AND v + 1",
    "every": " PUNCTUATION WHEN closed FOR *",
    "none": " PUNCTUATION WHEN closed FOR k IN ()",
    "void": " PUNCTUATION WHEN closed FOR k BETWEEN v AND v - 1",
}
"""Punctuations are about the join's key, whatever it is, about `k`, about every key or about none."""


@st.composite
def worlds(draw: st.DrawFn, time: bool = False) -> dict:
    """A job over two streams that promise in some way, and micro-batches of rows, some of which are punctuations.

    With `time` there are time windows and equalities only.
    """
    steps = draw(st.integers(1, 4))
    many = [draw(queries(f"q{n}", alike=True)) for n in range(draw(st.integers(1, 3)))]
    if time:
        many = [q for q in many if q["key"] and Axis.ROWS not in q["window"].axes] or [draw(_plain())]
    kinds = ["", "marks", "unique", "both", "list", "none", "void", *([] if time else ["range", "every", "every"])]
    promises = [draw(st.sampled_from(kinds)) for _ in "AB"]
    batches = [tuple([{**r, "closed": draw(st.sampled_from([None, False, False, True]))} for r in draw(rows(2 * n))]
                     for _ in "AB") for n in range(steps)]  # fmt: skip
    return {
        "lateness": draw(st.sampled_from([0, 2, 20])),
        "binding": 30 if "every" in promises else draw(st.sampled_from([None, 30])),
        "promises": promises,
        "queries": many,
        "batches": batches,
        "shards": draw(st.sampled_from([1, 2])),
        "restarts": [draw(st.booleans()) for _ in batches],
        "strategy": draw(st.sampled_from(STRATEGIES.names)),
    }


@st.composite
def _plain(draw: st.DrawFn) -> dict:
    return draw(queries("q9", alike=True).filter(lambda q: q["key"] and Axis.ROWS not in q["window"].axes))


def job(world: dict, how: str = "pwjoin") -> JobSpec:
    text = f"SET punctuations = '{how}';"
    for name, kind in zip("AB", world["promises"], strict=True):
        unique = ", UNIQUE (k)" if kind in ("unique", "both") else ""
        marks = MARKS.get(kind, "")
        bound = f" BINDING {world['binding']} microseconds" if kind and world["binding"] else ""
        text += (
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, g STRING, v BIGINT, closed BOOLEAN{unique}) "
            f"TIMESTAMP BY ts LATENESS {world['lateness']} microseconds{marks}{bound} "
            f"WITH (format = 'parquet', path = '{name}');"
        )
    return parse_job(text + "\n".join(q["sql"] for q in world["queries"]))


def play(
    world: dict, spec: JobSpec, shards: int, restarts: list[bool], watch=lambda local: None
) -> tuple[dict, LocalJob]:
    """Each query's rows as tuples in output order."""
    local = LocalJob(spec, shards, None if spec.settings.punctuations == "pjoin" else share(spec, world["strategy"]))
    got: dict[str, list] = {name: [] for name in spec.queries}
    for batch, restart in zip([*world["batches"], None], [*restarts, False], strict=True):
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, MARKED) for s, r in zip("AB", batch, strict=True)}
        for name, table in local.push(tables, ended=batch is None).items():
            times = table["_ts"].cast(pa.int64()).to_pylist()
            got[name] += zip(table["a"].to_pylist(), table["b"].to_pylist(), table["s"].to_pylist(), times, strict=True)
        if restart:
            local.restart()
        watch(local)
    return got, local


class Judge:
    """What the oracle says of a world: by join, the rows that count, those that broke a promise, and the promises."""

    def __init__(self, world: dict):
        self.world = world
        self.groups = defaultdict(list)
        alone = world["strategy"] == "isolated"
        for q in world["queries"]:
            self.groups[(q["name"] if alone else "", q["key"], q["window"].axes)].append(q)
        self.kept, self.broken, self.eras = {}, {}, {}
        for group, many in self.groups.items():
            self.kept[group], self.broken[group], self.eras[group] = [], [], []
            for side, admitted in enumerate(self._admitted(group[1])):
                kept, broken, eras = self._stream(admitted, side, many)
                self.kept[group].append(kept)
                self.broken[group].append(broken)
                self.eras[group].append(eras)

    def _admitted(self, key: tuple | None) -> tuple[list, list]:
        """The rows that are not late, in a join on this key."""
        ends = [(lambda r: r["closed"]) if kind == "every" and key else None for kind in self.world["promises"]]
        return oracle.admit_both(self.world["batches"], self.world["lateness"], tuple(ends))

    def _stream(self, admitted: list, side: int, many: list[dict]) -> tuple:
        kind, key = self.world["promises"][side], many[0]["key"]
        is_mark = [kind in MARKS and r["closed"] is True for r in admitted]
        data = [r for r, mark in zip(admitted, is_mark, strict=True) if not mark]
        marks = [m for r, mark in zip(admitted, is_mark, strict=True) if mark for m in self._meant(kind, key, r)]
        if key is None:
            return data, [], []
        longest = [q["window"].side(s) for q in many for s in (0, 1) if q["window"].axes[s] is Axis.TIME]
        binding = max(self.world["binding"] or 0, max(longest, default=86_400_000_000))
        unique = kind in ("unique", "both") and "k" in key
        return oracle.promised(data, marks, oracle.columns(*key), binding, unique, every=kind == "every")

    @staticmethod
    def _meant(kind: str, key: tuple | None, row: dict) -> list[dict]:
        """Punctuations of single keys that stand for one of a list or a range; none for a join on another key."""
        if kind in ("marks", "both", "every"):
            return [row]
        if key != ("k",) or kind in ("none", "void"):
            return []
        if kind == "list":
            return [{**row, "k": value} for value in (row["v"], row["k"])]
        return [] if row["v"] is None else [{**row, "k": value} for value in (row["v"], row["v"] + 1)]

    def faulty(self, side: int) -> list[int]:
        """The ids of punctuations that lack the value that they are about, where all queries have one key.

        Those about a list or a range without a value in it say nothing, and are no fault.
        """
        (key,) = {group[1] for group in self.groups}
        kind = self.world["promises"][side]
        about = {"marks": key, "both": key, "range": ("v",), "void": ("v",)}.get(kind)
        if key is None or about is None or (kind in ("range", "void") and key != ("k",)):
            return []  # those that are about no join's key have another fault
        marks = [r for r in self._admitted(key)[side] if r["closed"] is True]
        return [r["id"] for r in marks if None in [r[c] for c in about]]

    def answers(self) -> dict[str, list]:
        want = {}
        for group, many in self.groups.items():
            for q in many:
                keys = (oracle.columns(*q["key"]), oracle.columns(*q["key"])) if q["key"] else None
                pairs = oracle.answer(q["window"], *self.kept[group], keys, tuple(q["keeps"]), holds=q["pairs"],
                                      promises=tuple(self.eras[group]), untils=q["untils"])  # fmt: skip
                want[q["name"]] = [
                    (p.left["id"], p.right["id"], summed(p.left["v"], p.right["v"]), p.ts) for p in pairs
                ]
        return want

    def told(self) -> dict[str, list]:
        """For each query, (key, time, rule) of its output's punctuations, straight from the theorems."""
        found = {}
        for group, many in self.groups.items():
            for q in many:
                found[q["name"]] = sorted(self._told(group, many, q))
        return found

    def _told(self, group: tuple, many: list[dict], q: dict) -> list:
        out = []
        keys = {tuple(era.key) for eras in self.eras[group] for era in eras}
        for key in keys:
            eras = [next((e for e in self.eras[group][side] if tuple(e.key) == key), None) for side in (0, 1)]
            ends = []
            for side, era in enumerate(eras):
                if era is not None:
                    mine = [r for r in self.kept[group][side] if tuple(r[c] for c in group[1]) == key]
                    stays = [max((p["window"].side(side) for p in many if p["keeps"][side](r) is True), default=0)
                             for r in mine]  # fmt: skip
                    last = max((r["ts"] for r, stay in zip(mine, stays, strict=True)
                                if r["ts"] <= era.ts < r["ts"] + stay), default=-FOREVER)  # fmt: skip
                    ends.append((max(era.ts, last + q["window"].side(side) - 1), "early"))
            if all(eras):
                ends.append((max(era.ts for era in eras), "both"))
            at = min(end for end, _ in ends)
            out.append((key, at, "both" if (at, "both") in ends else "early"))
        return out


def of_outputs(local: LocalJob, world: dict) -> dict[str, list]:
    found: dict[str, list] = {q["name"]: [] for q in world["queries"]}
    for name, tables in local.punctuations.items():
        for table in tables:
            times = table["_ts"].cast(pa.int64()).to_pylist()
            columns = next(q["key"] for q in world["queries"] if q["name"] == name)
            keys = zip(*(table[c].to_pylist() for c in columns), strict=True)
            found[name] += zip(keys, times, table["rule"].to_pylist(), strict=True)
    return {name: sorted(rows_) for name, rows_ in found.items()}


def has_time_axes(world: dict) -> bool:
    return all(Axis.ROWS not in q["window"].axes for q in world["queries"])


@pytest.mark.slow
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(worlds())
def test_promises_never_change_an_answer_and_broken_ones_are_reported(world):
    if not has_time_axes(world) or world["strategy"] in ("isolated", "push-down"):
        world["binding"] = (
            30  # longer than the streams: what is to be met after a promise has lapsed is not in question
        )
    got, local = play(world, job(world), world["shards"], world["restarts"])
    judge = Judge(world)
    for name, want in judge.answers().items():
        assert sorted(got[name], key=order_of) == sorted(want, key=order_of), name
        assert [row[-1] for row in got[name]] == sorted(row[-1] for row in got[name])
    if len({q["key"] for q in world["queries"]}) == 1:
        for side, name in enumerate("AB"):
            reasons = [r for t in local.refused[name] for r in t["_reason"].to_pylist()]
            found = [r for t in local.refused[name] for r in t["id"].to_pylist()]
            broken = [i for i, reason in zip(found, reasons, strict=True) if reason.startswith("broken")]
            assert sorted(broken) == sorted(r["id"] for r in judge.broken[next(iter(judge.groups))][side])
            silent = [i for i, reason in zip(found, reasons, strict=True) if reason.startswith("punctuation")]
            assert sorted(silent) == sorted(judge.faulty(side)), "each is told once, whatever the shards"
    for n in range(len(local.plan.joins)):
        for shard, counters in zip(local.shards[n], local.counters(n), strict=True):
            assert counters.state_rows == counters.held_rows == [0, 0] and not shard.log, "an ended job keeps nothing"


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds(time=True))
def test_outputs_are_punctuated_exactly_when_the_theorems_say_whatever_the_cuts(world):
    world |= {"binding": 30, "strategy": "state-slice"}
    got, local = play(world, job(world), world["shards"], world["restarts"])
    told = of_outputs(local, world)
    assert told == Judge(world).told()
    for q in world["queries"]:
        over = {key: at for key, at, _ in told[q["name"]]}
        for a, _, _, ts in got[q["name"]]:
            keys = {tuple(r[c] for c in q["key"]) for b in world["batches"] for r in b[0] if r["id"] == a}
            if len(keys) == 1:
                assert ts <= over.get(keys.pop(), FOREVER), "a row after the output was punctuated"
    whole = {**world, "batches": [tuple([r for b in world["batches"] for r in b[side]] for side in (0, 1))]}
    if world["lateness"] == 20:  # nothing is late, however it is cut
        _, uncut = play(whole, job(world), 1, [False])
        assert of_outputs(uncut, world) == told


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_the_state_is_never_larger_than_without_promises_and_a_restart_changes_nothing(world):
    sizes: dict[str, list] = {"pwjoin": [], "off": [], "again": []}

    def watch(name):
        return lambda local: sizes[name].append(
            [
                (shard.operator.release, [*c.state_rows], [*c.held_rows])
                for n, shards in enumerate(local.shards)
                for shard, c in zip(shards, local.counters(n), strict=True)
            ]
        )

    calm, stormy = ([flag] * len(world["batches"]) for flag in (False, True))
    one, with_ = play(world, job(world), 2, calm, watch("pwjoin"))
    play(world, job(world, "off"), 2, calm, watch("off"))
    two, again = play(world, job(world), 2, stormy, watch("again"))
    assert one == two and of_outputs(with_, world) == of_outputs(again, world)
    assert sizes["pwjoin"] == sizes["again"]
    for mine, plain in zip(sizes["pwjoin"], sizes["off"], strict=True):
        for (release, kept, _), (others_release, others, _) in zip(mine, plain, strict=True):
            assert release == others_release or "every" in world["promises"], "nobody waits for a stream that has ended"
            assert release != others_release or all(a <= b for a, b in zip(kept, others, strict=True))
    for n in range(len(with_.plan.joins)):
        for mine, others in zip(with_.counters(n), again.counters(n), strict=True):
            others.promises = mine.promises  # those that have lapsed may be there for some time
            assert mine == others
