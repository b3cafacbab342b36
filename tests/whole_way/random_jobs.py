"""Random tiny jobs: settings, queries (`queries.py`), and what comes in and goes wrong.

Tiny domains on purpose (3 keys, times 0 to 12, ties, NULLs, late rows): they meet the corners more often than large
ones. A `Text` is a job file. A `Life` is one job that runs it: its input, its restarts, its changes and its faults.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from muntin.plan.strategies import STRATEGIES
from whole_way.many import random_many
from whole_way.queries import FINAL, RandomQuery, random_query, with_other_window
from whole_way.tasks import DEATHS, STARTS
from worlds import ORDERINGS

Row = dict[str, Any]
PROMISES = ("", "marks", "unique", "both")
MANY = 5
"""Every so many texts one is over more than two streams."""
ALIKE = ("state-slice", "pull-up")
"""Strategies that have the same joins."""
BINDING_US = 1000
"""Longer than any job: a promise binds to the end."""


@dataclass(frozen=True)
class Text:
    """A job file. The first query stays as long as the job; `spare` are queries that may come later."""

    seed: int
    strategy: str
    chain: str
    ordering: str
    order: str
    lateness: int
    shards: int
    per_trigger: int
    promises: tuple[str, ...]
    queries: tuple[RandomQuery, ...]
    spare: tuple[RandomQuery, ...]
    output: str
    """"files", "sliced", "none" or "callable"."""
    column: str = ""
    """A column that the streams have and did not declare at first."""
    streams: str = "AB"

    def sql(self, queries: list[RandomQuery]) -> str:
        head = (
            f"SET strategy = '{self.strategy}'; SET chain = '{self.chain}'; SET ordering = '{self.ordering}'; "
            f"SET order = '{self.order}'; SET shards = {self.shards};"
        )
        head += "SET output_layout = 'sliced';" if self.output == "sliced" else ""
        return head + "".join(map(self._stream, self.streams, self.promises)) + "\n".join(q.sql for q in queries)

    def _stream(self, name: str, promise: str) -> str:
        unique = ", UNIQUE (k)" if promise in ("unique", "both") else ""
        marks = " PUNCTUATION WHEN closed" if promise in ("marks", "both") else ""
        binding = f" BINDING {BINDING_US} microseconds" if promise else ""
        columns = f"ts TIMESTAMP, id BIGINT, {self.column}k BIGINT, g STRING, v BIGINT, closed BOOLEAN{unique}"
        return (
            f"CREATE STREAM {name} ({columns}) "
            f"TIMESTAMP BY ts LATENESS {self.lateness} microseconds{marks}{binding} "
            f"WITH (format = 'memory', name = '{name}', maxFilesPerTrigger = '{self.per_trigger}');\n"
        )


@dataclass
class Step:
    """A moment of a life: files come, queries come and go, and what is there is processed, by one run or within one."""

    files: dict[str, list[list[Row]]] = field(default_factory=dict)
    adds: list[RandomQuery] = field(default_factory=list)
    drops: list[str] = field(default_factory=list)
    rule: bool | None = None
    """Whether all joins are told to let results wait (filter-order) from here on."""
    idle: str = ""
    """A stream that is found idle after all this."""
    kill: str | None = None
    keeps_hot: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    """Fields of the text that are others from this start on."""


@dataclass
class Life:
    text: Text
    number: int
    steps: list[Step]
    online: bool
    """Whether one run without end sees all steps but the last, so that queries come and go while it runs."""
    fault_rate: float
    hot_loss: float = 0.0
    """How often a task finds no hot state where the one before has left it."""


def random_text(seed: int) -> Text:
    text = _text_over_two(seed)
    return text if seed % MANY else _over_many(text)


def _over_many(text: Text) -> Text:
    """The same text over more streams: the first query joins all of them, and others do so, or read that one."""
    dice = random.Random(f"streams {text.seed}")
    streams = dice.choice(["ABC", "ABC", "ABC", "ABCD"])
    promises = tuple(dice.choices(PROMISES, k=len(streams))) if any(text.promises) else ("",) * len(streams)
    terms = any(promises), text.order
    first = random_many(dice, "q0", streams, None, *terms)

    def many(query: RandomQuery) -> RandomQuery:
        return random_many(dice, query.name, streams, first, *terms) if dice.random() < 0.7 else query

    queries, spare = (first, *map(many, text.queries[1:])), tuple(map(many, text.spare))
    return replace(text, streams=streams, promises=promises, queries=queries, spare=spare)


def _text_over_two(seed: int) -> Text:
    dice = random.Random(f"text {seed}")
    promises = tuple(dice.choices(PROMISES, k=2)) if dice.random() < 0.25 else ("", "")
    order = "key" if dice.random() < 0.15 else "global"
    alike = any(promises) or order == "key" or dice.random() < 0.7
    queries = [
        random_query(dice, f"q{n}", alike, bool(any(promises)), order) for n in range(dice.choice([1, 1, 2, 2, 3]) + 2)
    ]
    family = dice.randrange(3)
    if family == 0 and queries[0].kind != FINAL:  # queries that differ in their windows alone
        queries = [with_other_window(dice, queries[0], q) for q in queries]
    if queries[0].bounds[0] > queries[0].bounds[1]:
        promises = ("", "")  # nobody hears them while no query is there that can have rows, and only the first stays
    strategy = dice.choice(["state-slice", *STRATEGIES.names])
    return Text(
        seed,
        strategy,
        dice.choice(["mem-opt", "cpu-opt"]) if strategy == "state-slice" else "auto",
        dice.choice(ORDERINGS),
        order,
        dice.choice([0, 2, 20]),
        dice.choice([1, 2, 2, 2, 2, 2, 3, 4]),
        dice.choice([1, 1, 1, 2]),
        (promises[0], promises[1]),
        tuple(queries[:-2]),
        tuple(queries[-2:]),
        dice.choice(["files"] * 4 + ["sliced"] * 2 + ["none", "none", "callable"]),
    )


# -- what comes and what goes wrong -----------------------------------------------------------------------------------


def _only_counts(text: Text) -> bool:
    """Whether a run counts rows where they are found: then no query with aggregates can come while it runs."""
    return text.output == "none" and all(query.kind == "plain" for query in text.queries)


def random_life(text: Text, number: int) -> Life:
    dice = random.Random(f"life {text.seed} {number}")
    count, online = dice.choice([1, 1, 1, 1, 1, 2, 2, 3]), False
    if count > 1 or dice.random() < 0.1:
        online, count = dice.random() < 0.5, max(2, count)
    sparse, lead = dice.random() < (0.6 if len(text.streams) == 2 else 0.2), dice.choice([0, 0, 3, 4, 9])
    wild, silent = dice.random() < 0.3, dice.choice(["", "A", "B"])
    silent = silent if len(text.streams) == 2 else ""
    steps: list[Step] = []
    present, spare, ids, low = [q.name for q in text.queries], list(text.spare), iter(range(1000)), 0
    for n in range(count):
        step, files = Step(), dice.choice([2, 3, 3]) if count == 1 else dice.choice([1, 1, 2])
        for name in text.streams:
            first = low + lead * (name == "B")
            shown = 0 if name == silent and online and dice.random() < 0.4 else files
            step.files[name] = [_file(dice, ids, text, first + 3 * f, sparse) for f in range(shown)]
        low += 3 * files
        if text.ordering == "adaptive" and dice.random() < 0.4:
            step.rule = dice.random() < 0.5
        if n and dice.random() < 0.6:
            if spare and dice.random() < 0.6 and not (online and _only_counts(text) and spare[-1].kind != "plain"):
                step.adds = [spare.pop()]
                present.append(step.adds[0].name)
            elif len(present) > 1:
                step.drops = [present.pop(dice.randrange(1, len(present)))]
        if online and silent and dice.random() < 0.6:
            step.idle = silent
        if n and not online and dice.random() < 0.5:
            step.changes = _other_job(dice, text)
        if wild and dice.random() < 0.6:
            deaths = STARTS if n and not online and (step.adds or step.drops) and dice.random() < 0.4 else DEATHS
            step.kill, step.keeps_hot = dice.choice(deaths), dice.random() < 0.5
        steps.append(step)
    return Life(text, number, steps, online, 0.15 if wild else 0.0, dice.choice((0.0, 0.0, 0.3)))


def _other_job(dice: random.Random, text: Text) -> dict[str, Any]:
    """What a job file may have otherwise at its next start."""
    found: dict[str, Any] = {}
    if dice.random() < 0.6:
        found["lateness"] = dice.choice([0, 2, 6, 20])
    if text.strategy in ALIKE and dice.random() < 0.5:
        found |= {"strategy": dice.choice(ALIKE), "chain": "auto"}
    if text.output != "callable" and dice.random() < 0.5:
        found["shards"] = dice.randint(1, 5)
    if dice.random() < 0.4:
        found["column"] = "x BIGINT, "
    return found


def _file(dice: random.Random, ids: Any, text: Text, low: int, sparse: bool) -> list[Row]:
    """The rows of one file with times from `low` on; in sparse traffic one or two, or none."""
    return [_row(dice, ids, text, low) for _ in range(dice.choice([0, 1, 1, 2, 3] if sparse else [2, 4, 6, 8]))]


def _row(dice: random.Random, ids: Any, text: Text, low: int) -> Row:
    return {
        "ts": None if dice.random() < 0.03 else low + dice.randint(0, 4),
        "id": next(ids),
        "k": dice.choice([1, 1, 1, 2, 2, 2, 3, 3, None]),
        "g": dice.choice(["x", "y", None]),
        "v": dice.choice([0, 1, 2, 3, None]),
        "closed": any(text.promises) and dice.random() < 0.2,
        "x": low,
    }
