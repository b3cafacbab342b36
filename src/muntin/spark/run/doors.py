"""What Python hands over, checked where it comes in: a wrong type is refused by name, not somewhere inside."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from muntin.model import Settings, UsageError
from muntin.sql import parse_duration_us
from muntin.sql.names import MAX_NAME
from muntin.sql.places import did_you_mean, listing
from muntin.sql.settings import SETTINGS, Setting, conflicts

MICROSECOND = timedelta(microseconds=1)


def expect(what: str, value: object, fits: bool, wanted: str) -> None:
    """Refuse a value that is not what is wanted; `wanted` is a phrase such as "a text"."""
    if not fits:
        raise UsageError(f"{what} is {_shown(value)}", hint=f"give {wanted}")


def expect_text(what: str, value: object) -> None:
    expect(what, value, isinstance(value, str), "a text")


def expect_name(what: str, value: object) -> None:
    """The name of a stream is one that SQL can say."""
    expect_text(f"the name of a {what}", value)
    if not isinstance(value, str) or len(value) > MAX_NAME or re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", value) is None:
        raise UsageError(f"{value!r} cannot name a {what}", hint="a name is a letter, then letters, digits and _")


def expect_callable(what: str, value: Callable[..., Any] | None, wanted: str) -> None:
    expect(what, value, value is None or callable(value), wanted)


def duration_us(what: str, value: str | timedelta) -> int:
    """Microseconds of a duration, a text such as "5 seconds" or a timedelta."""
    if isinstance(value, timedelta):
        return value // MICROSECOND
    expect(what, value, isinstance(value, str), 'a text such as "5 seconds", or a timedelta')
    return parse_duration_us(value)


def setting(settings: Settings, name: str, value: object) -> tuple[Setting, object]:
    """A setting by its name, and its value as a job would have it."""
    expect_text("the name of a setting", name)
    found = next((s for s in SETTINGS if name.lower() in (s.name, *s.former)), None)
    if found is None:
        names = [s.name for s in SETTINGS]
        raise UsageError(f"there is no setting {name}", hint=did_you_mean(name, names, f"they are {listing(names)}"))
    return found, found.kind.parse(found.name, _setting_text(found, value))


def refuse_conflicts(settings: Settings, given: set[str]) -> None:
    """Refuse settings that do not go with each other; `given` are the names that were set."""
    for conflict in conflicts(settings, given):
        raise UsageError(conflict.message, hint=conflict.hint)


def _setting_text(found: Setting, value: object) -> str:
    """A value as `SET name = value` spells it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, timedelta):
        return f"{value // MICROSECOND} us"
    expect(f"the value of {found.name}", value, isinstance(value, str | int | float), found.kind.form)
    return str(value)


def _shown(value: object) -> str:
    """A value for a message: short, with its type."""
    if value is None:
        return "None"
    text = repr(value)
    kind = type(value).__name__
    return f"{text} ({kind})" if len(text) <= 60 else f"of type {kind}"
