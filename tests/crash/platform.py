"""The platform of the crash ring: its truth is kept outside every process that may be killed.

A real HTTP server in a thread of the test process. It answers by a script, one behaviour a
request (the last one for ever): ``ok``; ``late`` (takes the message, then answers 500);
``500`` (takes nothing); ``reset`` (takes the message, then cuts the connection); ``slow`` (takes
it, and answers a good while later); ``429:SECONDS``; ``503:SECONDS``; ``410``; ``413``. With
``keyed`` a repeated key is the same message.

It also plays the model server of an agent that is paid: the model ``dear`` is always refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

#: Longer than a drain waits for a call and than a lease lasts; real seconds.
_SLOW_S = 0.4

_TAKEN = ("ok", "late", "reset", "slow")


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
    """``seen`` is what people saw, in order; ``calls`` are the requests; ``asked`` the
    calls of the model server, each of which was paid for."""

    script: Sequence[str] = ("ok",)
    keyed: bool = False
    seen: list[Message] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
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
        app.router.add_post("/v1/chat/completions", self._answer)
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
        if behaviour in _TAKEN:
            self.seen.append(
                Message(key, body["delivery"], body["part"], body["parts"], body["chat"], body["text"])
            )
        if behaviour == "slow":
            await asyncio.sleep(_SLOW_S)  # the server's pace
        if behaviour in ("ok", "slow"):
            return web.json_response({"id": f"r{len(self.seen)}"})
        if behaviour == "reset":
            assert request.transport is not None
            request.transport.abort()
        status, _, wait = behaviour.partition(":")
        headers = {"Retry-After": wait} if wait else {}
        return web.Response(status=int(status) if status.isdigit() else 500, headers=headers)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body["model"])
        if body["model"] == "dear":
            return web.json_response({"error": {"message": "overloaded"}}, status=503)
        text = body["messages"][-1]["content"]
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        return web.json_response({"id": "x", "object": "chat.completion", "created": 1, "choices": [choice]})
