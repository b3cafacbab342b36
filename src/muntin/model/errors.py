"""Errors that a user can act on: what is wrong, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_LINE = 240
"""How much of a line an error shows."""


@dataclass(frozen=True)
class Place:
    """A position in a text, 1-based, with the length of what is meant there."""

    line: int
    column: int
    length: int = 1


class MuntinError(Exception):
    """A fault that is reported as one message; `exit_code` 1 is a failed run, 2 a wrong request."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint

    def render(self) -> str:
        return self.message + (f"\n  hint: {self.hint}" if self.hint else "")

    def __str__(self) -> str:
        return self.render()


class UsageError(MuntinError):
    """The request itself is wrong: nothing has been started."""

    exit_code = 2


class SqlError(UsageError):
    """A fault in a SQL text, shown with file, line, column and a caret."""

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        place: Place | None = None,
        source: str | None = None,
        hint: str | None = None,
    ):
        super().__init__(message, hint=hint)
        self.text = text
        self.place = place
        self.source = source

    def render(self) -> str:
        if self.place is None:
            return super().render()
        lines = self.text.splitlines() or [""]
        line = lines[min(self.place.line, len(lines)) - 1]
        where = f"{self.source or 'SQL'}:{self.place.line}:{self.place.column}"
        margin = len(str(self.place.line))
        column = self.place.column
        if len(line) > LONGEST_LINE:
            first = max(0, min(column - 1 - LONGEST_LINE // 4, len(line) - LONGEST_LINE))
            line, column = line[first : first + LONGEST_LINE], column - first
        pad = "".join("\t" if c == "\t" else " " for c in line[: column - 1])
        caret = pad + "^" * max(1, min(self.place.length, len(line) - column + 1))
        parts = [
            f"{where}: {self.message}",
            f"  {self.place.line} | {line}",
            f"  {' ' * margin} | {caret}",
        ]
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)
