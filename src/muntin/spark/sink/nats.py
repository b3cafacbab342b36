"""Rows to NATS JetStream, at least once: `--output nats:HOST:PORT/PREFIX`, the subject is PREFIX and the query's name.

A message bears an id that follows from checkpoint, micro-batch, query and row. A message that is sent again bears the
same, and JetStream drops it within the duplicate window of its stream (two minutes, unless the stream says otherwise).
"""

from __future__ import annotations

import asyncio
from typing import Any

from muntin.model import UsageError
from muntin.spark.brokers import nats_connection, nats_refusal, refuse_secret_in_address
from muntin.spark.checkpoint import BatchOutcome
from muntin.spark.sink.message_sink import ANSWER_S, MessageSink
from muntin.spark.sink.messages_out import KIND, PUNCTUATION, Outgoing, outgoing
from muntin.spark.sink.sink import OutputRequest

IN_FLIGHT = 1000
"""Messages that are sent before the first of them is acknowledged."""
OPTIONS = {
    "format": "json or avro",
    "stream": "the stream that takes the subjects; made if it is not there, MUNTIN if not given",
    "punctuations": "on or off",
    "user": "who connects",
    "password": "env:VARIABLE or file:PATH",
    "token": "env:VARIABLE or file:PATH",
}


class NatsSubjects(MessageSink):
    name = "nats"
    spelling = "nats:HOST:PORT/PREFIX"
    scheme = "nats:"
    into_word = "NATS"
    noun = "subjects of NATS"
    summary = "messages of JetStream with the subject PREFIX<query>, each with an id that drops what comes twice"
    exactly_once = False
    broker = "NATS"
    options = OPTIONS

    _loop: asyncio.AbstractEventLoop | None = None
    _connection: Any = None

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        refuse_secret_in_address("output", self.target.servers)
        for name in ("password", "token"):
            if not self.target.options.get(name, "env:").startswith(("env:", "file:")):
                raise UsageError(
                    f"the {name} of the output stands where others can read it", hint=f"write {name}=env:VARIABLE"
                )
        if not self.target.is_one and self.target.prefix and not self.target.prefix.endswith("."):
            raise UsageError(f"the prefix {self.target.prefix} does not end with a dot", hint="write alerts.")

    @property
    def _options(self) -> dict[str, str]:
        servers = ",".join(f"nats://{server}" for server in self.target.servers.split(","))
        who = {f"nats.{n}": v for n, v in self.target.options.items() if n in ("user", "password", "token")}
        return {"nats.servers": servers} | who

    @property
    def _stream(self) -> str:
        return self.target.options.get("stream", "MUNTIN")

    # -- a connection -------------------------------------------------------------------------------------------------

    def _run(self, what: Any) -> Any:
        from nats.errors import Error

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            return self._loop.run_until_complete(what)
        except (Error, OSError, TimeoutError) as error:
            self._connection = None
            raise nats_refusal(self._options, error) from None

    async def _jetstream(self) -> Any:
        if self._connection is None or self._connection.is_closed:
            self._connection = await nats_connection(self._options)
        return self._connection.jetstream(timeout=ANSWER_S, publish_async_max_pending=IN_FLIGHT)

    def begin(self) -> None:
        self._run(self._make_stream())

    async def _make_stream(self) -> None:
        from nats.js.errors import NotFoundError

        js = await self._jetstream()
        try:
            await js.stream_info(self._stream)
        except NotFoundError:
            subjects = [self.target.prefix if self.target.is_one else f"{self.target.prefix}>"]
            await js.add_stream(name=self._stream, subjects=subjects)

    # -- micro-batches ------------------------------------------------------------------------------------------------

    def hand_over(self, done: BatchOutcome) -> None:
        self._run(self._send(done))

    async def _send(self, done: BatchOutcome) -> None:
        js, pending = await self._jetstream(), []
        for message in outgoing(done):
            pending.append(await self._publish(js, message, done.batch))
        for answer in pending:
            await asyncio.wait_for(answer, ANSWER_S)

    async def _publish(self, js: Any, message: Outgoing, batch: int) -> Any:
        writer = f"{self.publisher.job or self.publisher.log.folder}-{self.pipeline}"
        headers = {"Nats-Msg-Id": f"{writer}-{batch}-{message.query}-{message.number}"}
        if message.key is not None:
            headers["key"] = message.key.decode()
        if message.ts_ms is not None:
            headers["ts"] = str(message.ts_ms)
        if message.is_punctuation:
            headers[KIND] = PUNCTUATION
        subject = self.target.name(message.query)
        return await js.publish_async(subject, message.value, wait_stall=ANSWER_S, stream=self._stream, headers=headers)

    def close(self) -> None:
        if self._loop is not None:
            if self._connection is not None and not self._connection.is_closed:
                self._loop.run_until_complete(self._connection.close())
            self._loop.close()
        self._loop = self._connection = None
