"""What a kind of broker is, for a source of Spark and for checks before anything runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from muntin.model import MuntinError, Stream, UsageError
from muntin.spark.brokers.offsets import Extent, MessageLog, Offsets
from muntin.spark.brokers.pace import PACE
from muntin.spark.brokers.secrets import refuse_plain_secrets

COLUMNS = "muntin.columns"
"""The option that names the columns a source is to bring; all of them without it."""
INSTALL = "pip install 'muntin[{}]'"
Rows = dict[str, list[Any]]
"""Columns of messages."""


class BrokerError(MuntinError):
    """A broker that does not answer, or refuses, or has lost what was to be read."""


class Broker:
    """One kind of broker, opened with the options of a stream. It connects when it is first asked for something."""

    name: ClassVar[str]
    """The format of a stream, and the extra that installs it."""
    package: ClassVar[str]
    jar: ClassVar[str] = ""
    """The class of Spark's own connector, where there is one; it comes first if it is there."""
    columns: ClassVar[Mapping[str, str]]
    """What messages have, with Spark's types."""
    options: ClassVar[Mapping[str, str]]
    """Options, in lower case, and how they are spelled."""
    prefix: ClassVar[str] = ""
    """Options that begin so go to the client."""
    required: ClassVar[tuple[tuple[str, ...], ...]]
    """Of each of these groups of options one must be there."""
    example: ClassVar[str]

    def __init__(self, options: Mapping[str, str]):
        self.given = {name.lower(): value for name, value in options.items()}

    def option(self, name: str, otherwise: str = "") -> str:
        return self.given.get(name.lower(), otherwise)

    @property
    def timeout_s(self) -> float:
        """How long a broker may be away before a job gives up."""
        return float(self.option("brokerTimeout", "120"))

    @property
    def fails_on_loss(self) -> bool:
        return self.option("failOnDataLoss", "true").lower() != "false"

    @property
    def limit(self) -> int | None:
        """Messages of a micro-batch."""
        text = self.option("maxOffsetsPerTrigger")
        return int(text) if text else None

    @classmethod
    def check(cls, stream: Stream) -> None:
        """Refuse what can be refused without a connection."""
        cls.refuse_missing(f"stream {stream.name}: format {cls.name}")
        refuse_plain_secrets(stream.name, stream.options)
        given = {name.lower() for name in stream.options}
        for group in cls.required:
            if not given & {name.lower() for name in group}:
                raise UsageError(
                    f"stream {stream.name}: format {cls.name} needs {' or '.join(group)}", hint=f"WITH ({cls.example})"
                )
        for name in stream.options:
            known = name.lower() in cls.options or (cls.prefix and name.lower().startswith(cls.prefix))
            if not known and name not in (PACE, COLUMNS):
                raise UsageError(
                    f"stream {stream.name}: format {cls.name} has no option {name}",
                    hint=f"options are {', '.join(cls.options.values())}"
                    + (f", and those of the client after {cls.prefix}" if cls.prefix else ""),
                )
        _check_numbers(stream, "maxOffsetsPerTrigger", "brokerTimeout", "startingTimestamp")

    @classmethod
    def refuse_missing(cls, who: str) -> None:
        """Refuse where the client is not installed."""
        if importlib.util.find_spec(cls.package) is None:
            needed = cls.package.replace("_", "-")
            raise UsageError(f"{who} needs the package {needed}", hint=INSTALL.format(cls.name))

    def bounds(self) -> dict[MessageLog, Extent]:
        """Where messages lie now; raises `BrokerError` where nobody answers in some seconds."""
        raise NotImplementedError

    def beginning(self, bounds: Mapping[MessageLog, Extent]) -> Offsets:
        """Where a new job begins, as its options say."""
        raise NotImplementedError

    def read(self, place: MessageLog, start: int, end: int, columns: Sequence[str]) -> Iterator[Rows]:
        """The messages from `start` to before `end`, in order; deterministic as long as they are there."""
        raise NotImplementedError

    def say(self) -> str:
        """What is read, in a few words."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing more is asked."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_numbers(stream: Stream, *names: str) -> None:
    for name, value in stream.options.items():
        if name.lower() in map(str.lower, names) and not (value.isdigit() and int(value) > 0):
            raise UsageError(f"stream {stream.name}: {name} is {value}", hint="write a whole number above 0 in quotes")
