"""Values of messages: what a source brings as bytes, and how columns come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ValueFormat:
    """`VALUE FORMAT name (option = 'value', ...)`; names of formats and options are in lower case."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As a job file says it."""
        given = ", ".join(f"{name} = '{value}'" for name, value in sorted(self.options.items()))
        return f"{self.name.upper()}{f' ({given})' if given else ''}"
