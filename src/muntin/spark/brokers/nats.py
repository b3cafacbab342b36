"""NATS JetStream, by nats-py. A stream of NATS is one place whose offsets are its sequence numbers.

`nats.` stands before options of the connection. Messages are read without being acknowledged: what a stream keeps and
for how long is its own affair, and several jobs may read it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, TypeVar

from muntin.model import Stream, UsageError
from muntin.spark.brokers.broker import Broker, BrokerError, Rows
from muntin.spark.brokers.offsets import Extent, MessageLog, Offsets
from muntin.spark.brokers.secrets import resolved, scrubbed

PREFIX = "nats."
ANSWER_S = 5.0
FETCH, FETCH_S = 1_000, 0.5
"""Messages that are asked for at once, and how long to wait for them."""
CONNECTION = {"nats.user": "user", "nats.password": "password", "nats.token": "token"}
"""Options, and what the client calls them."""
FILES = {"nats.credentials": "user_credentials", "nats.nkey": "nkeys_seed"}
"""The same for options that name files which the client itself reads."""
T = TypeVar("T")


async def connect(options: Mapping[str, str]) -> Any:
    """A connection; secrets are looked up here. It does not come back by itself: who asks again connects again."""
    import nats

    async def passed_over(_: Exception) -> None:
        """The call that meets a fault raises it, too."""

    more = resolved({name: value for name, value in options.items() if name in CONNECTION})
    servers = resolved({"nats.servers": options["nats.servers"]})["nats.servers"]
    files = {FILES[name]: value.removeprefix("file:") for name, value in options.items() if name in FILES}
    return await nats.connect(
        servers=[server.strip() for server in servers.split(",")],
        connect_timeout=ANSWER_S,
        allow_reconnect=False,
        max_reconnect_attempts=0,
        error_cb=passed_over,
        **{CONNECTION[name]: value for name, value in more.items()},
        **files,
    )


def refusal(options: Mapping[str, str], error: BaseException) -> BrokerError:
    """What is wrong with a server, without secrets."""
    said = scrubbed(str(error) or type(error).__name__, options)
    where = f"NATS at {options.get('nats.servers', '')}"
    if "uthoriz" in said or "uthentic" in said:
        hint = "look at the user and at where its secret is: 'nats.password' = 'env:VARIABLE' or 'file:PATH'"
        return BrokerError(f"{where} refuses: {said}", hint=hint)
    hint = "is it running with JetStream (nats-server -js), and is this its address? brokerTimeout says for how long"
    return BrokerError(f"{where} does not answer: {said}", hint=f"{hint} it may be away")


def refuse_secret_in_address(who: str, servers: str) -> None:
    """An address is shown in messages, and kept with the checkpoint."""
    if "@" in servers:
        raise UsageError(
            f"{who}: the address of NATS has a user or a secret in it, where others can read it",
            hint="write nats.user = '...' and nats.password = 'env:VARIABLE' beside it",
        )


class NatsBroker(Broker):
    name = "nats"
    package = "nats"
    columns: ClassVar[dict[str, str]] = {
        "value": "binary",
        "subject": "string",
        "sequence": "bigint",
        "timestamp": "timestamp",
        "headers": "array<struct<key:string,value:binary>>",
    }
    options: ClassVar[dict[str, str]] = {
        name.lower(): name
        for name in (
            "nats.servers",
            *CONNECTION,
            *FILES,
            "stream",
            "subject",
            "startingOffsets",
            "startingTimestamp",
            "maxOffsetsPerTrigger",
            "failOnDataLoss",
            "brokerTimeout",
        )
    }
    required = (("nats.servers",), ("stream",))
    example = "format = 'nats', 'nats.servers' = 'nats://localhost:4222', stream = 'BIDS'"

    def __init__(self, options: Mapping[str, str]):
        super().__init__(options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None

    @classmethod
    def check(cls, stream: Stream) -> None:
        super().check(stream)
        refuse_secret_in_address(f"stream {stream.name}", cls(stream.options).option("nats.servers"))

    def say(self) -> str:
        only = f", subject {self.option('subject')}" if self.option("subject") else ""
        return f"stream {self.option('stream')}{only} at {self.option('nats.servers')}"

    # -- a connection -------------------------------------------------------------------------------------------------

    def _ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """An answer of JetStream; a connection that fails is given up."""
        from nats.errors import Error
        from nats.js.errors import NotFoundError

        async def asked() -> T:
            if self._connection is None:
                self._connection = await asyncio.wait_for(connect(self.given), ANSWER_S)
            return await question(self._connection.jetstream(timeout=ANSWER_S))

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            return self._loop.run_until_complete(asked())
        except NotFoundError as error:
            raise BrokerError(
                f"NATS at {self.option('nats.servers')} has no stream {self.option('stream')}: {error.description}",
                hint="make it first, as `nats stream add` does",
            ) from None
        except (Error, OSError, TimeoutError) as error:
            self._connection = None
            raise refusal(self.given, error) from None

    def close(self) -> None:
        if self._loop is not None:
            if self._connection is not None and not self._connection.is_closed:
                self._loop.run_until_complete(self._connection.close())
            self._loop.close()
        self._loop = self._connection = None

    # -- where messages lie -------------------------------------------------------------------------------------------

    def bounds(self) -> dict[MessageLog, Extent]:
        state = self._ask(lambda js: js.stream_info(self.option("stream"))).state
        return {MessageLog(self.option("stream"), 0): Extent(max(1, state.first_seq), state.last_seq + 1)}

    def beginning(self, bounds: Mapping[MessageLog, Extent]) -> Offsets:
        ((place, found),) = bounds.items()
        asked = self.option("startingOffsets", "latest").strip()
        if since := self.option("startingTimestamp"):
            return {place: self._first_since(int(since)) or found.high}
        if asked.isdigit():
            return {place: int(asked)}
        if asked.lower() not in ("earliest", "latest"):
            raise UsageError(f"startingOffsets is {asked}", hint="write 'earliest', 'latest' or a sequence number")
        return {place: found.low if asked.lower() == "earliest" else found.high}

    def _first_since(self, milliseconds: int) -> int | None:
        from nats.js.api import DeliverPolicy

        moment = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat().replace("+00:00", "Z")

        async def look(js: Any) -> int | None:
            consumer = await self._consumer(js, deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=moment)
            found = await _fetched(consumer, 1)
            await consumer.unsubscribe()
            return int(found[0].metadata.sequence.stream) if found else None

        return self._ask(look)

    async def _consumer(self, js: Any, **policy: Any) -> Any:
        from nats.js.api import AckPolicy, ConsumerConfig

        config = ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=60, mem_storage=True, **policy)
        subject = self.option("subject")
        return await js.pull_subscribe(subject, durable=None, stream=self.option("stream"), config=config)

    # -- messages -----------------------------------------------------------------------------------------------------

    def read(self, place: MessageLog, start: int, end: int, columns: Sequence[str]) -> Iterator[Rows]:
        from nats.js.api import DeliverPolicy

        policy = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": start}
        consumer = self._ask(lambda js: self._consumer(js, **policy))
        at, heard = start, time.monotonic()
        try:
            while at < end:
                found = self._ask(partial(_fetched_by, consumer, min(FETCH, end - at)))
                rows = [m for m in found if m.metadata.sequence.stream < end]
                if rows:
                    heard = time.monotonic()
                    yield {name: [_OF_MESSAGE[name](message) for message in rows] for name in columns}
                if found:
                    at = int(found[-1].metadata.sequence.stream) + 1
                if not found or found[-1].metadata.num_pending == 0:
                    left = self._ask(lambda _: consumer.consumer_info()).num_pending
                    if left == 0:  # the last ones were deleted, or have other subjects
                        break
                if time.monotonic() - heard > self.timeout_s:
                    raise BrokerError(f"NATS brings no message {at} of {place.topic} in {self.timeout_s:g} s")
        finally:
            self.close()


async def _fetched_by(consumer: Any, most: int, _: Any) -> list[Any]:
    return await _fetched(consumer, most)


async def _fetched(consumer: Any, most: int) -> list[Any]:
    """Messages that are there; none after a while is no fault."""
    from nats.errors import TimeoutError as NothingCame

    try:
        return list(await consumer.fetch(most, timeout=FETCH_S))
    except NothingCame:
        return []


_OF_MESSAGE: dict[str, Callable[[Any], Any]] = {
    "value": lambda m: m.data,
    "subject": lambda m: m.subject,
    "sequence": lambda m: m.metadata.sequence.stream,
    "timestamp": lambda m: m.metadata.timestamp,
    "headers": lambda m: [{"key": name, "value": value.encode()} for name, value in (m.headers or {}).items()],
}
