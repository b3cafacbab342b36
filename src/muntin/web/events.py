"""Server-sent events: everybody who listens gets the newest status, never a queue of old ones.

One task looks at the checkpoint for all listeners and encodes what it finds once. A listener that is slow gets the
newest event when it is ready for one; a listener that takes nothing for a while is dropped. Nobody waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from muntin.model import MuntinError
from muntin.web.live import LiveJob

LOOK_S = 1.0
"""How often the checkpoint is looked at while somebody listens."""
ALIVE_S = 10.0
"""How often a listener hears something, at least."""
PATIENCE_S = 20.0
"""How long a listener may take to receive an event."""
LISTENERS = 32


class StatusEvents:
    """The newest event, and those who listen."""

    def __init__(self, job: LiveJob, look_s: float = LOOK_S, patience_s: float = PATIENCE_S):
        self._job = job
        self._look_s = look_s
        self._patience_s = patience_s
        self._changed = asyncio.Condition()
        self._number = 0
        self._newest = b""
        self._looking: asyncio.Task[None] | None = None
        self.listeners = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.listeners >= LISTENERS:
            said = {"error": f"{LISTENERS} pages listen already", "hint": "close one of them"}
            await JSONResponse(said, 503)(scope, receive, send)
            return
        self.listeners += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        gone = asyncio.create_task(_disconnected(receive))
        try:
            with contextlib.suppress(TimeoutError, OSError):
                await self._serve(send, gone)
        finally:
            gone.cancel()
            self.listeners -= 1

    async def _serve(self, send: Send, gone: asyncio.Task[None]) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        seen = 0
        while not gone.done():
            body = b": still here\n\n"
            if await self._next(seen, gone):
                seen, body = self._number, self._newest
            async with asyncio.timeout(self._patience_s):
                await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _next(self, seen: int, gone: asyncio.Task[None]) -> bool:
        """Whether there is an event that this listener has not had, soon enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALIVE_S), self._changed:
                await self._changed.wait_for(lambda: self._number > seen or gone.done())
                return not gone.done()
        return False

    async def _look(self) -> None:
        """Look at the checkpoint for as long as somebody listens."""
        before: object = None
        while self.listeners:
            seen, found = await run_in_threadpool(self._event, before)
            if found:
                before = seen
                async with self._changed:
                    self._number += 1
                    self._newest = found
                    self._changed.notify_all()
            await asyncio.sleep(self._look_s)

    def _event(self, before: object = None) -> tuple[object, bytes]:
        """What the checkpoint says now, and a mark of it; nothing where the mark is that of before. What is wrong with
        the checkpoint is an event, too."""
        try:
            seen: object = self._job.view().number
            name, said = "status", self._job.event() if seen != before else {}
        except (MuntinError, OSError) as error:
            seen = str(error)
            name, said = "trouble", {"error": seen}
        return seen, b"" if seen == before else f"event: {name}\ndata: {json.dumps(said)}\n\n".encode()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
