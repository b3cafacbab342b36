"""What the sinks of all brokers have in common: a target with options, a format, keys, and messages that tasks make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from muntin.core.results import output_schema
from muntin.model import Query, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.brokers import missing_package
from muntin.spark.sink.messages_out import StageMessages, Target, check_columns
from muntin.spark.sink.record_keys import key_columns
from muntin.spark.sink.sink import OutputRequest, Sink, Stager

ANSWER_S = 30.0
"""How long a broker may take to answer."""


class MessageSink(Sink):
    """Rows to a broker. A kind of it says how messages are sent."""

    broker: ClassVar[str]
    """Its name among people."""
    options: ClassVar[Mapping[str, str]]
    """What its address may say, and what each means."""
    takes_eager = False

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        self._keys: dict[str, tuple[str, ...]] = {}
        """The columns of each query's rows that are its key."""
        self.target = Target.of(request, self.scheme, self.spelling, self.options)
        missing_package(self.name, f"a run whose rows go to {self.broker}")
        self.target.check_format()
        self._refuse_other("punctuations", ("off", "on"))

    def _refuse_other(self, name: str, known: tuple[str, ...]) -> None:
        if (said := self.target.options.get(name, known[0])) not in known:
            raise UsageError(f"{name} is {said}", hint=f"write {name}={f' or {name}='.join(known)}")

    @property
    def _format(self) -> str:
        return self.target.options.get("format", "json")

    def default_checkpoint(self) -> Path | None:
        raise UsageError(f"a run whose rows go to {self.broker} needs a checkpoint", hint="name one with `checkpoint=`")

    def check(self, query: Query) -> None:
        check_columns(query, output_schema(query), self._format)

    def prepare(self, plan: Plan, settings: Settings) -> None:
        self._keys = self._keys | {query.name: key_columns(query) for query in self._mine(plan)}

    def _mine(self, plan: Plan) -> list[Query]:
        """The queries whose rows go here."""
        return [query for query in plan.queries.values() if query.into == self.request.into]

    def stager(self, batch: int) -> Stager:
        return StageMessages(self._format, self._keys, self.target.options.get("punctuations") == "on")
