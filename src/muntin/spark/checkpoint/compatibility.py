"""What a job may have otherwise than at its last start on a checkpoint, and what not, since rows would change.

What may change takes effect at one point of the input, with the next plan (`plans.py`). Nothing that is in the output
changes, nor what follows from it. So what is refused is what kept rows, offsets of sources or the output itself bear
out no more; the line says which rows these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from muntin.model.duration import format_us

if TYPE_CHECKING:
    from muntin.spark.checkpoint.identity import JobIdentity, StreamIdentity

WHAT_IS_READ = ("path", "subscribe", "subscribepattern", "assign", "dbtable", "table", "topic", "stream", "subject")
"""Options that say what a source reads: Spark's offsets are about that."""
VALUES = "VALUE FORMAT"
"""How columns come out of values, among the options."""


def refusals(stored: JobIdentity, wanted: JobIdentity) -> list[str]:
    """Why a job cannot go on with what another has left, one line each; none where it can."""
    return list(_refusals(stored, wanted))


def _refusals(stored: JobIdentity, wanted: JobIdentity) -> Iterator[str]:
    for name in dict.fromkeys([*stored.streams, *wanted.streams]):
        old, new = stored.streams.get(name), wanted.streams.get(name)
        if old is None or new is None:
            yield f"stream {name}: {'new' if old is None else 'gone'}"
        else:
            yield from _refused_of_stream(f"stream {name}", old, new)
    old_order, new_order = stored.settings.output_order, wanted.settings.output_order
    yield from _line("output_order", old_order, new_order, "the rows that are in the output stand in the other order")
    why = "rows that promises have turned away or freed are gone, and those that they spared are there"
    yield from _line("punctuations", stored.settings.punctuations, wanted.settings.punctuations, why)
    why = "all rows that are kept lie in other shards: muntin rescale moves them"
    yield from _line("shards", stored.settings.shards, wanted.settings.shards, why)
    yield from _line("output", stored.output, wanted.output, "the rows so far are in the other place")


def _refused_of_stream(stream: str, old: StreamIdentity, new: StreamIdentity) -> Iterator[str]:
    for name, was in old.columns.items():
        if name not in new.columns:
            yield f"{stream}, column {name}: gone; rows that are kept have it, so leave it declared"
        else:
            yield from _line(f"{stream}, column {name}", was, new.columns[name], "rows that are kept have that type")
    yield from _line(f"{stream}, event time", old.time, new.time, "rows that are kept have their times by it")
    why = "nobody knows which rows of the other source have been read"
    yield from _line(f"{stream}, format", old.format, new.format, why)
    why = "rows that promises have turned away or freed are gone"
    yield from _line(f"{stream}, promises", old.promises or "none", new.promises or "none", why)
    why = "a micro-batch that is brought to its end would have other rows"
    was, now = (identity.options.get(VALUES, "none") for identity in (old, new))
    yield from _line(f"{stream}, {VALUES}", was, now, why)
    theirs, ours = _what_is_read(old), _what_is_read(new)
    for name in dict.fromkeys([*theirs, *ours]):
        why = "rows that were read there could come a second time, or never"
        yield from _line(f"{stream}, {name}", theirs.get(name, "not set"), ours.get(name, "not set"), why)


def _what_is_read(stream: StreamIdentity) -> dict[str, str]:
    return {name: value for name, value in stream.options.items() if name.lower() in WHAT_IS_READ}


def differences(stored: JobIdentity, wanted: JobIdentity) -> list[str]:
    """What a job has otherwise than at its last start and may have so, one line each."""
    found = list(_line("strategy", stored.settings.strategy, wanted.settings.strategy))
    for name, new in wanted.streams.items():
        old = stored.streams.get(name)
        if old is None:
            continue
        found += [f"stream {name}, column {column}: new" for column in new.columns if column not in old.columns]
        found += _line(f"stream {name}, lateness", old.lateness_us, new.lateness_us, show=format_us)
        found += _line(f"stream {name}, binding", old.binding_us, new.binding_us, show=_duration)
        fixed = _what_is_read(new)
        for option in dict.fromkeys([*old.options, *new.options]):
            if option not in fixed and option != VALUES:
                was, now = old.options.get(option, "not set"), new.options.get(option, "not set")
                found += _line(f"stream {name}, {option}", was, now)
    return found


def changed_rules(stored: JobIdentity, wanted: JobIdentity) -> list[str]:
    """Settings that decide which rows of a micro-batch go where, and are others now, one line each."""
    old, new = stored.settings, wanted.settings
    found = list(_line("max_ahead", old.max_ahead_us, new.max_ahead_us, show=_duration))
    found += _line("held_limit", old.held_limit_bytes, new.held_limit_bytes, show=_bytes)
    return found + list(_line("on_held_limit", old.on_held_limit, new.on_held_limit))


def _line(what: str, old: Any, new: Any, why: str = "", show: Callable[[Any], str] = str) -> Iterator[str]:
    if old != new:
        yield f"{what}: was {show(old)}, is {show(new)}" + (f"; {why}" if why else "")


def _duration(us: int | None) -> str:
    return "not set" if us is None else format_us(us)


def _bytes(size: int | None) -> str:
    return "not set" if size is None else f"{size} bytes"
