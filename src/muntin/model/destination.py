"""Where a query's rows go that has a place of its own: `INTO DELTA 'file:///data/lake'`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Destination:
    """What INTO says. Which kinds there are, and what their options mean, the sinks know."""

    kind: str
    """A word in capital letters."""
    place: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def settings(self) -> Mapping[str, str]:
        """The options by name, in small letters: case does not matter."""
        return {name.lower(): value for name, value in self.options}

    @property
    def text(self) -> str:
        """As a statement spells it."""
        options = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in self.options)
        return f"INTO {self.kind} {_quoted(self.place)}" + (f" WITH ({options})" if options else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
