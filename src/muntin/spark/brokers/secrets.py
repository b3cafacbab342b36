"""Secrets: a job file says where they are, never what they are.

`'kafka.sasl.password' = 'env:KAFKA_PASSWORD'` takes it from the environment, `'file:/run/secrets/kafka'` from a file,
without the line end. They are looked up in the process that connects, and stay there: options, checkpoints, plans and
messages have the reference alone. On a cluster each machine needs the variable or the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from muntin.model import UsageError

ENV, FILE = "env:", "file:"
SECRET = re.compile(r"(password|secret|token|jaas\.config|\.pem|credentials|nkey)$", re.IGNORECASE)
"""How the names of options end whose values nobody should read."""


def is_reference(value: str) -> bool:
    return value.startswith((ENV, FILE))


def refuse_plain_secrets(stream: str, options: Mapping[str, str]) -> None:
    """Refuse a secret that stands in the job file; the message does not repeat it."""
    for name, value in options.items():
        if SECRET.search(name) and not is_reference(value):
            raise UsageError(
                f"stream {stream}: the value of {name} stands in the job file, where others can read it",
                hint=f"write '{name}' = 'env:VARIABLE' or '{name}' = 'file:/path/of/a/file'",
            )


def resolved(options: Mapping[str, str]) -> dict[str, str]:
    """Options with the secrets that they refer to, for the process that connects."""
    return {name: _value(name, value) for name, value in options.items()}


def _value(name: str, value: str) -> str:
    if value.startswith(ENV):
        variable = value.removeprefix(ENV)
        if variable not in os.environ:
            raise UsageError(f"{name}: the environment has no {variable}", hint=f"export {variable}=... and run again")
        return os.environ[variable]
    if value.startswith(FILE) and SECRET.search(name):
        path = Path(value.removeprefix(FILE).removeprefix("//"))
        try:
            return path.read_text().rstrip("\r\n")
        except OSError as error:
            raise UsageError(f"{name}: cannot read {path}: {error.strerror}") from None
    return value


def scrubbed(text: str, options: Mapping[str, str]) -> str:
    """A message without the secrets that options refer to."""
    for name, value in _found(options):
        text = text.replace(value, f"<{name}>")
    return text


def _found(options: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in options.items():
        if is_reference(value):
            try:
                found = _value(name, value)
            except UsageError:
                continue
            if found:
                yield name, found
