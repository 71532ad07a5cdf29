"""The platform of the crash ring: its truth is kept outside every process that may be killed.

A real HTTP server in a thread of the test process. It answers by a script, one behaviour a
request (the last one for ever): ``ok``; ``late`` (takes the message, then answers 500);
``500`` (takes nothing); ``reset`` (takes the message, then cuts the connection);
``429:SECONDS``; ``410``; ``503:SECONDS``. With ``keyed`` a repeated key is the same message.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True)
class Message:
    """One message that a person can see."""

    key: str
    delivery: str
    part: int
    parts: int
    chat: str
    text: str


@dataclass
class Platform:
    """``seen`` is what people saw, in order; ``calls`` counts requests."""

    script: Sequence[str] = ("ok",)
    keyed: bool = False
    seen: list[Message] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Platform:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_post("/", self._take)
        runner = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = request.headers["Idempotency-Key"]
        behaviour = self.script[min(len(self.calls), len(self.script) - 1)]
        self.calls.append(behaviour)
        if self.keyed and any(message.key == key for message in self.seen):
            return web.json_response({"id": key})
        if behaviour in ("ok", "late", "reset"):
            self.seen.append(
                Message(key, body["delivery"], body["part"], body["parts"], body["chat"], body["text"])
            )
        if behaviour == "ok":
            return web.json_response({"id": f"r{len(self.seen)}"})
        if behaviour == "reset":
            assert request.transport is not None
            request.transport.abort()
        status, _, wait = behaviour.partition(":")
        headers = {"Retry-After": wait} if wait else {}
        return web.Response(status=int(status) if status.isdigit() else 500, headers=headers)
