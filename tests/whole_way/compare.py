"""Holds what jobs left behind against the oracle and against DuckDB, which judge independently of each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from core.aggregates.calls import CALLS, GROUPS, HAVING, Answer
from core.aggregates.test_top import VALUES
from muntin import oracle
from muntin.model import Side, Window
from muntin.plan import share
from muntin.sql import parse_job
from whole_way.drive import BEGINNING, END, Outcome, Stay
from whole_way.judge import Judge
from whole_way.many import Many
from whole_way.oracle_of_many import UNTIL, ends_of, pairs_of, shown, window_of
from whole_way.queries import EITHER, FINAL, INNER, ON, PLAIN, TOP, WHERE, RandomQuery
from whole_way.random_jobs import BINDING_US, Life, Text
from worlds import KEYS, RESIDUALS, UNTILS, summed

Rows = list[tuple[Any, ...]]


class JobFault(AssertionError):
    """A job of a text failed, or it and a judge disagree."""

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.number = number


def check_all(judge: Judge, lives: list[Life], outcomes: list[Outcome]) -> int:
    """Compare all jobs of one text; the number of rows that the judges want, over all queries."""
    text = lives[0].text
    idle = [
        {"job": n, "stream": stream, "batch": batch}
        for n, outcome in enumerate(outcomes)
        for batch, streams in enumerate(outcome.idle)
        for stream in streams
    ]
    judge.load([row for n, outcome in enumerate(outcomes) for row in raw_rows(n, outcome)], idle)
    judge.bound(text, [outcome.lateness for outcome in outcomes])
    queries = {name: q for outcome in outcomes for name, q in outcome.queries.items()}
    answers = {name: judge.answer(text, q) for name, q in queries.items()}
    letters, wanted = judge.letters(), 0
    for n, (life, outcome) in enumerate(zip(lives, outcomes, strict=True)):
        try:
            told = Oracle(text, outcome)
            _same_letters(text, outcome, told, letters[n])
            for name, q in outcome.queries.items():
                want = told.answer(q)
                _same_bags(f"{name}: the oracle and DuckDB", want, answers[name][n])
                wanted += len(want)
                _check_query(life, outcome, q, want)
                _check_over(life, outcome, q, told)
            _check_end(life, outcome)
        except AssertionError as error:
            raise JobFault(life.number, f"job {life.number} of text {text.seed}: {error}") from error
    return wanted


def raw_rows(job: int, outcome: Outcome) -> list[dict[str, Any]]:
    """What came, for the judge."""
    return [
        {"job": job, "stream": stream, "batch": b, "n": n, **row}
        for b, batch in enumerate(outcome.batches)
        for stream, rows in batch.items()
        for n, row in enumerate(rows)
    ]


# -- the oracle's view ------------------------------------------------------------------------------------------------


class Oracle:
    """The rows that count, by the oracle, and its answers to queries in pieces of SQL."""

    def __init__(self, text: Text, outcome: Outcome):
        self.text = text
        if any(outcome.idle) or len(set(outcome.lateness)) > 1:
            admitted = _admit(outcome)
        else:
            lateness = next(iter(outcome.lateness), 0)
            admitted = [oracle.admit([batch[s] for batch in outcome.batches], lateness) for s in text.streams]
        self.letters = [[(s, letter.reason, letter.row["id"]) for letter in found]
                        for s, (_, found) in zip(text.streams, admitted, strict=True)]  # fmt: skip
        self.rows = [rows for rows, _ in admitted]
        times = [r["ts"] for batch in outcome.batches for s in "AB" for r in batch[s] if r["ts"] is not None]
        self.end = max(times, default=0)
        self.latest = {
            s: max((r["ts"] for batch in outcome.batches for r in batch[s] if r["ts"] is not None), default=BEGINNING)
            for s in text.streams
        }

    def heard(self, key: tuple[str, ...] | None) -> tuple[list[Any], list[Any], list[Any]]:
        """Section 6: of the streams, the rows that count for a join, those that broke a promise, and the promises."""
        found = []
        for rows, promise in zip(self.rows, self.text.promises, strict=True):
            marked = promise in ("marks", "both")
            marks, data = (
                [r for r in rows if marked and r["closed"]],
                [r for r in rows if not marked or not r["closed"]],
            )
            if key is None:
                found.append((data, [], []))
            else:
                unique = promise in ("unique", "both")
                found.append(oracle.promised(data, marks, oracle.columns(*key), BINDING_US, unique))
        kept, broken, promises = (list(part) for part in zip(*found, strict=True))
        return kept, broken, promises

    def answer(self, q: RandomQuery) -> Rows:
        names = KEYS[q.key]
        keys = (oracle.columns(*names), oracle.columns(*names)) if names else None
        keeps = (ON[q.wheres[0]], ON[q.wheres[1]])
        kept, _, promises = self.heard(names)
        eras = (promises[0], promises[1])
        if isinstance(q, Many):
            pairs = pairs_of(q, dict(zip(self.text.streams, self.heard(("k",))[0], strict=True)))
        elif q.join == INNER:
            terms = {"holds": RESIDUALS[q.residual], "promises": eras, "untils": untils_of(q)}
            pairs = oracle.answer(q.window, kept[0], kept[1], keys, keeps, **terms)
        else:
            pairs = _joined(q, (kept[0], kept[1]), keys, eras)
        if q.kind == PLAIN and isinstance(q, Many):
            return [shown(q, pair) for pair in pairs]
        if q.kind == PLAIN and q.shows_one:
            return [(p.side(q.about)["id"], p.ts) for p in pairs]
        if q.kind == PLAIN:
            return [(p.left["id"], p.right["id"], summed(p.left["v"], p.right["v"]), p.ts) for p in pairs]
        if q.kind == TOP:
            return _first(q, pairs)

        def values(live: list[Any]) -> Answer:
            found = Answer(CALLS[call](live) for call in q.calls)
            found.shown = HAVING[q.having](len(live))
            return found

        if q.kind != FINAL:
            shows, until = lambda found: found.shown, {"untils": untils_of(q)}
            told = oracle.aggregate(window(q), pairs, GROUPS[q.group], values, shows, q.every, **until)
            return [(*group, *found, t) for t, group, found in told]

        def ends(pair: oracle.Pair) -> list[int]:
            if isinstance(q, Many):
                heard, _, told = self.heard(("k",))
                of = [dict(zip(self.text.streams, each, strict=True)) for each in (heard, told)]
                return ends_of(q, pair, *of)
            assert keys is not None
            key = (KEY_OF[EITHER](pair),)
            wanted = tuple(lambda row, texts=texts: all(SELECTED[text](row) is True for text in texts)
                           for texts in q.selections)  # fmt: skip
            rows = kept[0], kept[1]
            terms = {"kind": q.join_kind, "preserved": q.preserved, "untils": untils_of(q)}
            return oracle.ends(q.window, key, rows, keys, eras, wanted, **terms)

        def group(pair: oracle.Pair) -> tuple[Any, ...]:
            return tuple(KEY_OF[name](pair) for name in q.groups)

        end = max((self.latest[s] for s in q.base), default=0) if isinstance(q, Many) else self.end
        final = oracle.final(pairs, group, values, ends, end, lambda found: found.shown)
        return [(*group, *found, t) for t, group, found in final]


def untils_of(q: RandomQuery) -> oracle.Untils:
    """Until when rows of each stream wait."""
    if isinstance(q, Many):
        return UNTIL
    left, right = (UNTILS.get(time) for time in q.untils)
    return left, right


KEY_OF: dict[str, Callable[[oracle.Pair], Any]] = {
    "A.k": lambda p: p.left["k"],
    "B.k": lambda p: p.right["k"],
    "A.g": lambda p: p.left["g"],
    "B.g": lambda p: p.right["g"],
    EITHER: lambda p: p.right["k"] if p.left["k"] is None else p.left["k"],
}
"""What EMIT FINAL groups by."""
SELECTED: dict[str, Callable[[Any], bool | None]] = {
    **{text: lambda row, holds=holds: holds(row, row) for text, holds in WHERE.items()},
    **{text.replace("{}", name): holds for text, holds in ON.items() for name in "AB"},
}
"""Conditions as they are written of one stream, asked of its row."""


def window(q: RandomQuery) -> Window:
    return window_of(q) if isinstance(q, Many) else q.window


def _joined(q: RandomQuery, rows: tuple[list[Any], list[Any]], keys: Any, promises: Any) -> list[oracle.Pair]:
    """Section 2: a condition of ON on a preserved stream says what is a match, WHERE comes afterwards."""
    keeps = tuple(None if side in q.preserved else ON[q.wheres[side]] for side in Side)

    def holds(a: Any, b: Any) -> bool:
        selected = all(ON[text](row) is True for text, row in zip(q.wheres, (a, b), strict=True))
        return selected and RESIDUALS[q.residual](a, b) is True

    until = {"untils": untils_of(q)}
    matches = oracle.answer(q.window, *rows, keys, keeps, holds=holds, promises=promises, **until)
    return oracle.delivered(
        q.window, matches, rows, q.join_kind, q.about, q.preserved, keeps, after=WHERE[q.after], **until
    )  # fmt: skip


def _admit(outcome: Outcome) -> list[tuple[list[Any], list[oracle.DeadLetter]]]:
    """Section 1 for streams of which one of two is idle now and then: its frontier is then at least the other's.

    Where their lateness changes, a frontier never goes back.
    """
    streams = list(outcome.batches[0]) if outcome.batches else []
    admitted: dict[str, tuple[list[Any], list[oracle.DeadLetter]]] = {s: ([], []) for s in streams}
    newest, frontier, idle = dict.fromkeys(streams, BEGINNING), dict.fromkeys(streams, BEGINNING), set[str]()
    for batch, told, lateness in zip(outcome.batches, outcome.idle, outcome.lateness, strict=True):
        for s, rows in batch.items():
            frontier[s] = max(frontier[s], newest[s] - lateness)
            for row in rows:
                turned_away = "null_time" if row["ts"] is None else "late" if row["ts"] < frontier[s] else ""
                if turned_away:
                    admitted[s][1].append(oracle.DeadLetter(row, turned_away))
                else:
                    admitted[s][0].append(row)
        for s, rows in batch.items():
            times = [row["ts"] for row in rows if row["ts"] is not None]
            newest[s] = max([newest[s], *times])
            idle = idle - {s} if times else idle | ({s} & told)
        for s in streams:
            reached = max(newest[other] for other in streams if other != s) if s in idle else BEGINNING
            frontier[s] = max(frontier[s], newest[s] - lateness, reached - lateness)
    return [admitted[s] for s in streams]


def _first(q: RandomQuery, pairs: list[Any]) -> Rows:
    order = [oracle.By(VALUES[value], down, nulls == "NULLS FIRST" if nulls else not down)
             for value, down, nulls in q.order]  # fmt: skip
    values = oracle.first(q.limit, order, [VALUES[column] for column in q.columns])
    found: Rows = []
    terms = {"every": q.every, "untils": untils_of(q)}
    for t, group, ranked in oracle.aggregate(window(q), pairs, GROUPS[q.group], values, **terms):
        found += [(*row, n + 1, t) for n, row in enumerate(ranked)]
        if not ranked:
            known = dict(zip(q.groups, group, strict=True))
            found.append((*(known.get(column) for column in q.columns), 0, t))
    return found


# -- what is compared -------------------------------------------------------------------------------------------------


def _same_bags(what: str, one: Rows, other: Rows) -> None:
    left, right = Counter(one), Counter(other)
    assert left == right, f"{what}: only in the first {list((left - right).elements())[:5]}, only in the second " + str(
        list((right - left).elements())[:5]
    )


def _same_letters(text: Text, outcome: Outcome, told: Oracle, by_duck: Rows) -> None:
    """Dead letters by stream, class and row; where they are only counted, by class."""
    want = [letter for letters in told.letters for letter in letters]
    _same_bags("dead letters: the oracle and DuckDB", want, by_duck)
    if any(text.promises):
        _, broken, _ = told.heard(("k",))
        want += [(s, "broken", row["id"]) for s, rows in zip(text.streams, broken, strict=True) for row in rows]
        promised = zip(text.streams, told.rows, text.promises, strict=True)
        want += [(s, "punctuation", row["id"]) for s, rows, promise in promised
                 for row in rows if promise in ("marks", "both") and row["closed"] and row["k"] is None]  # fmt: skip
    classes, counted = dict(Counter(reason for _, reason, _ in want)), outcome.status["dead_letters"]
    if _joins_begin_anew(text, outcome):
        classes["broken"] = min(classes.get("broken", 0), counted.get("broken", 0))
    assert Counter(counted) == Counter(classes), f"dead letters {counted}, not {classes}"
    if text.output != "none" and len(want) == sum(counted.values()):
        got = [(r["stream"], r["reason"].split(":")[0], json.loads(r["row"])["id"]) for r in outcome.letters]
        _same_bags("dead letters: the job and the oracle", got, want)


def _joins_begin_anew(text: Text, outcome: Outcome) -> bool:
    """Whether no query that can have rows was there all the time: then all joins of a job may be others than before,
    and what breaks promises of before is known to none of them."""
    if not any(text.promises) or text.strategy not in ("push-down", "isolated"):
        return False
    stayed = [q for name, q in outcome.queries.items() if outcome.stays[name] == Stay()]
    return not share(parse_job(text.sql(stayed))).joins


def _check_query(life: Life, outcome: Outcome, q: RandomQuery, want: Rows) -> None:
    stay, count = outcome.stays[q.name], outcome.counts.get(q.name, 0)
    shown = outcome.status["queries"].get(q.name)
    assert shown is None or shown["total_rows"] == count, f"{q.name}: status and manifest differ"
    if life.text.output == "none":
        if q.kind == FINAL and stay != Stay():
            return  # adds up from when it came: nobody says when that is complete
        low, high = len(_sure(q, stay, want)), len(_possible(q, stay, want))
        if stay != Stay() and (q.kind != PLAIN or _may_miss_promises(life)):
            high = count  # before it is complete, an aggregate may say what nobody can check
        assert low <= count <= high, f"{q.name}: {count} rows counted, {low} to {high} wanted"
        return
    got = outcome.rows[q.name]
    assert len(got) == count, f"{q.name}: {len(got)} rows in files, {count} in the manifest"
    if life.text.order == "global":
        times = [row[-1] for row in got]
        assert times == sorted(times), f"{q.name}: not in order of time"
    if stay == Stay():
        return _same_bags(f"{q.name}: the job and the oracle", got, want)
    if q.kind == FINAL and stay.since > -END:
        return None  # adds up from when it came: nobody says when that is complete
    have = Counter(got if q.kind == PLAIN else [r for r in got if _begun(stay) < r[-1]])
    extra = have - Counter(_possible(q, stay, want))
    assert not extra or _may_miss_promises(life), (
        f"{q.name}: rows that are none of its own {list(extra.elements())[:5]}"
    )
    missing = Counter(_sure(q, stay, want)) - have
    assert not missing, f"{q.name}: rows are missing {list(missing.elements())[:5]}"
    return None


def _check_over(life: Life, outcome: Outcome, q: RandomQuery, told: Oracle) -> None:
    """Section 6: the keys for which the output of a query that preserves streams is over.

    What other queries want has no say in that, so it is the same whatever comes and goes beside the query.
    """
    if isinstance(q, Many):
        return _check_sound(outcome, q)
    if not q.preserved or outcome.stays[q.name] != Stay() or life.text.output == "none":
        return
    kept, _, promises = told.heard(KEYS[q.key])
    keys, rows, eras = (oracle.columns("k"),) * 2, (kept[0], kept[1]), (promises[0], promises[1])
    want = [
        (*key, at)
        for key in {tuple(p.key) for side in promises for p in side if p.key}
        for at in oracle.ends(q.window, key, rows, keys, eras, kind=q.join_kind, preserved=q.preserved)
    ]
    got = [(key, at) for key, at, _ in outcome.over[q.name]]
    _same_bags(f"{q.name}: punctuations of the job and the oracle", got, want)


def _check_sound(outcome: Outcome, q: Many) -> None:
    """Section 8: an output that was said to be over for a key brings no later row with it; promises bind to the end."""
    over = [(key, at) for key, at, _ in outcome.over.get(q.name, ())] if q.kind == PLAIN and not q.preserved else []
    wrong = [(key, at, row) for key, at in over for row in outcome.rows[q.name] if row[1] == key and row[-1] > at]
    assert not wrong, f"{q.name}: its output was over {wrong[:3]}"


def _may_miss_promises(life: Life) -> bool:
    """Section 6: a query that comes later may begin a join, which knows no promises from before.

    With trees, the joins before may be of other streams, or of these in another order.
    """
    text = life.text
    trees = any(isinstance(q, Many) for q in (*text.queries, *text.spare))
    return any(text.promises) and (text.strategy in ("push-down", "isolated") or trees)


def _begun(stay: Stay) -> int:
    """From when on what an aggregate says is sure: what was before was not known."""
    return END if stay.complete is None else max(stay.since, stay.complete)


def _possible(q: RandomQuery, stay: Stay, want: Rows) -> Rows:
    """Section 4: rows that a query may have had; at the very release point of a change, some are on either side."""
    low = stay.since - 1 if q.kind == PLAIN else _begun(stay) + 1
    return [row for row in want if low <= row[-1] < stay.until[1]]


def _sure(q: RandomQuery, stay: Stay, want: Rows) -> Rows:
    begun = _begun(stay) + (q.kind != PLAIN)
    return [row for row in want if begun <= row[-1] and row[-1] + 1 < stay.until[0]]


def _check_end(life: Life, outcome: Outcome) -> None:
    assert not outcome.staged, f"staged files are left: {outcome.staged[:3]}"
    assert outcome.keeps == 0, f"{outcome.keeps} chunks are kept after the end"
    streams = life.text.streams
    arrived = {s: sum(len(batch[s]) for batch in outcome.batches) for s in streams}
    sources = outcome.status["sources"]
    if not outcome.died:
        assert {s: sources[s]["total_rows"] for s in streams} == arrived, f"{sources} read, {arrived} came"


def covered(lives: list[Life]) -> Counter[str]:
    """What kinds of jobs these were."""
    found: Counter[str] = Counter()
    for life in lives:
        text = life.text
        found.update([text.strategy, text.chain, text.ordering, f"order {text.order}", f"output {text.output}"])
        found.update([f"{text.shards} shards", *{q.kind for q in text.queries}, *{q.join for q in text.queries}])
        found.update({f"final {q.join}" for q in text.queries if q.kind == FINAL})
        found.update({"until" for q in text.queries if any(q.untils)})
        found.update({"band" for q in text.queries if q.window.starts != (0, 0)})
        found.update({"empty band" for q in text.queries if q.bounds[0] > q.bounds[1]})
        many = [q for q in text.queries if isinstance(q, Many)]
        found.update({f"{len(q.items)} streams" for q in many} | {"over a query" for q in many if q.reads})
        found.update({"over two queries" for q in many if q.reads and q.items.count(q.reads.name) > 1})
        found.update({f"many {q.kind}" for q in many} | {f"many {q.join}" for q in many})
        found.update([f"promises {p}" for p in {*text.promises} if p])
        found.update({f"killed {s.kill}" for s in life.steps if s.kill})
        found.update({"added" for s in life.steps if s.adds} | {"dropped" for s in life.steps if s.drops})
        found.update({"changed online" for s in life.steps[:-1] if life.online and (s.adds or s.drops)})
        found.update({"tasks tried again"} if life.fault_rate else ())
        found.update({"hot state lost"} if life.hot_loss else ())
        found.update({"idle"} if any(s.idle for s in life.steps) else ())
        found.update({"ran on"} if life.online else ())
        found.update({f"another {name}" for step in life.steps for name in step.changes})
    return found
