"""Makes a job that fails smaller, piece by piece, as long as it fails in the same way.

What is left out is a list of short texts ("step 1", "query q2", "file A 3", "kill of step 0", "row 17"), so that one
line brings the small job back: the numbers of text and job, and what to leave out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace

from whole_way.queries import RandomQuery
from whole_way.random_jobs import Life, Step

SEPARATOR = "; "
Fails = Callable[[Life], bool]
OPTIONS = {
    f.name: f.default if f.default is not MISSING else f.default_factory()
    for f in fields(Step)
    if f.name != "files" and (f.default is not MISSING or f.default_factory is not MISSING)
}
"""What a step has beside its files, and what it is where there is none."""


def without(life: Life, pieces: list[str]) -> Life:
    """The job without some pieces of it."""
    cut = set(pieces)
    text = replace(life.text, queries=_kept(life.text.queries, cut), spare=_kept(life.text.spare, cut))
    steps, counts = [], dict.fromkeys(text.streams, 0)
    for n, step in enumerate(life.steps):
        files = {}
        for name, batches in step.files.items():
            first, counts[name] = counts[name], counts[name] + len(batches)
            files[name] = [
                [row for row in rows if f"row {row['id']}" not in cut]
                for place, rows in enumerate(batches, first)
                if f"file {name} {place}" not in cut
            ]
        options = {name: none for name, none in OPTIONS.items() if f"{name} of step {n}" in cut}
        left = replace(step, files=files, **options)
        if f"step {n}" not in cut:
            steps.append(replace(left, adds=list(_kept(tuple(left.adds), cut))))
    known = {q.name for q in (*text.queries, *(q for step in steps for q in step.adds))}
    for step in steps:
        step.drops = [name for name in step.drops if name in known]
    rate = 0.0 if "failing tasks" in cut else life.fault_rate
    hot_loss = 0.0 if "lost hot states" in cut else life.hot_loss
    return replace(life, text=text, steps=steps, fault_rate=rate, hot_loss=hot_loss)


def _kept(queries: tuple[RandomQuery, ...], cut: set[str]) -> tuple[RandomQuery, ...]:
    return tuple(q for q in queries if f"query {q.name}" not in cut)


def pieces_of(life: Life) -> Iterator[list[str]]:
    """What may be left out, large pieces first; rows by halves, quarters and so on."""
    yield from ([f"step {n}"] for n in range(len(life.steps) - 1))
    yield from ([f"query {q.name}"] for q in (*life.text.spare, *life.text.queries[1:]))
    yield from (["failing tasks"], ["lost hot states"])
    for n, step in enumerate(life.steps):
        yield from ([f"{name} of step {n}"] for name, none in OPTIONS.items() if getattr(step, name) != none)
    for name in life.text.streams:
        yield from ([f"file {name} {n}"] for n in range(sum(len(step.files.get(name, ())) for step in life.steps)))
    rows = [f"row {row['id']}" for step in life.steps for found in step.files.values() for f in found for row in f]
    size = len(rows)
    while size:
        size //= 2
        yield from (rows[n : n + size] for n in range(0, len(rows), size or 1) if size)


def shrunk(life: Life, fails: Fails, most: int = 300) -> list[str]:
    """Pieces without which the job still fails; after so many tries it is small enough."""
    cut: list[str] = []
    found, tries = True, 0
    while found:
        found = False
        for pieces in pieces_of(life):
            if set(pieces) <= set(cut) or tries >= most:
                continue
            smaller, tries = without(life, [*cut, *pieces]), tries + 1
            if not any(smaller.text.queries) or smaller == without(life, cut):
                continue
            if fails(smaller):
                cut, found = [*cut, *(piece for piece in pieces if piece not in cut)], True
    return _lasting(life, cut)


def _lasting(life: Life, cut: list[str]) -> list[str]:
    """The cuts that still say something: a row of a file that is gone needs no word."""
    whole = without(life, cut)
    for piece in reversed(cut):
        rest = [other for other in cut if other != piece]
        if without(life, rest) == whole:
            cut = rest
    return cut
