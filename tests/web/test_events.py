"""Server-sent events: the newest status for everybody, and nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import json

import pytest

from muntin.web import events
from muntin.web.events import StatusEvents
from muntin.web.live import LiveJob


class Listener:
    """A connection; `slow` takes the first event and then nothing more."""

    def __init__(self, slow: bool = False):
        self.slow = slow
        self.bodies: list[bytes] = []
        self.status = 0
        self._gone = asyncio.Event()

    async def receive(self) -> dict:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if self.slow and self.bodies:
            await asyncio.Event().wait()
        self.bodies.append(message["body"])

    def leave(self) -> None:
        self._gone.set()

    def events(self) -> list[dict]:
        told = [body for body in self.bodies if body.startswith(b"event: status")]
        return [json.loads(body.split(b"data: ")[1]) for body in told]


SCOPE = {"type": "http", "method": "GET", "path": "/api/events", "headers": []}


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.slow
def test_everybody_hears_of_each_micro_batch_and_a_slow_one_is_dropped(job):
    async def play() -> None:
        told = StatusEvents(LiveJob(job.checkpoint), look_s=0.02, patience_s=0.3)
        quick, slow = Listener(), Listener(slow=True)
        tasks = [asyncio.create_task(told(SCOPE, one.receive, one.send)) for one in (quick, slow)]
        await until(lambda: quick.events() and slow.events())
        before = quick.events()[-1]["status"]["batches"]
        for _ in range(3):
            await asyncio.to_thread(job.tick)
        await until(lambda: quick.events()[-1]["status"]["batches"] == before + 3)
        await asyncio.wait_for(tasks[1], 20)
        assert told.listeners == 1 and len(slow.bodies) == 1
        assert "text" not in quick.events()[-1]["status"]["queries"]["hot"]
        assert quick.events()[-1]["sample"]["rows_in"] > 0
        tasks[0].cancel()

    asyncio.run(play())


def test_a_listener_gets_the_newest_status_and_not_all_that_it_missed(job):
    async def play() -> None:
        told = StatusEvents(LiveJob(job.checkpoint), look_s=0.02)
        first = Listener()
        task = asyncio.create_task(told(SCOPE, first.receive, first.send))
        await until(first.events)
        for _ in range(3):
            await asyncio.to_thread(job.tick)
        await asyncio.sleep(0.2)
        late = Listener()
        other = asyncio.create_task(told(SCOPE, late.receive, late.send))
        await until(late.events)
        assert late.events()[0]["status"]["batches"] == first.events()[-1]["status"]["batches"]
        assert len(late.bodies) == 1
        task.cancel()
        other.cancel()

    asyncio.run(play())


def test_nobody_looks_at_the_checkpoint_when_nobody_listens(job, monkeypatch):
    monkeypatch.setattr(events, "ALIVE_S", 0.05)

    async def play() -> None:
        told = StatusEvents(LiveJob(job.checkpoint), look_s=0.02)
        one = Listener()
        task = asyncio.create_task(told(SCOPE, one.receive, one.send))
        await until(one.events)
        one.leave()
        await asyncio.wait_for(task, 20)
        await until(lambda: told._looking.done())
        assert told.listeners == 0

    asyncio.run(play())


def test_too_many_pages_are_refused(job, monkeypatch):
    monkeypatch.setattr(events, "LISTENERS", 0)

    async def play() -> None:
        one = Listener()
        await StatusEvents(LiveJob(job.checkpoint))(SCOPE, one.receive, one.send)
        assert one.status == 503

    asyncio.run(play())


def test_what_is_wrong_with_a_checkpoint_is_an_event(tmp_path):
    _, found = StatusEvents(LiveJob(tmp_path))._event()
    assert found.startswith(b"event: trouble\n") and b"is not the checkpoint" in found


def test_an_event_is_one_line_of_json_and_the_same_one_is_made_once(job):
    told = StatusEvents(LiveJob(job.checkpoint))
    seen, found = told._event()
    head, data, *rest = found.decode().split("\n")
    assert head == "event: status" and json.loads(data.removeprefix("data: ")) and rest == ["", ""]
    assert told._event(seen) == (seen, b"")
