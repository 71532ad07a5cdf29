"""What the exams of the platform ``web`` share: a served adapter, and clients in place of pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from angelia.model.ids import AdapterId, idempotency_key
from angelia.model.messages import Outgoing
from angelia.model.outcomes import Outcome
from angelia.platforms.web import WebAdapter, WebSettings
from angelia.seams.clock import SystemClock
from angelia.seams.rng import SystemRng
from angelia.testing.fake_host import FakeHost, Served

PATIENCE_S = 10.0


def build(
    password: str | None = None, listen_host: str = "127.0.0.1", profile: str = "default"
) -> WebAdapter:
    settings = WebSettings(password=None if password is None else SecretStr(password))
    return WebAdapter(
        AdapterId(profile, "web"), settings, SystemClock(), SystemRng(), listen_host=listen_host
    )


def outgoing(
    delivery: str = "d1", part: int = 1, revision: int = 1, text: str = "hello", **more: Any
) -> Outgoing:
    fields: dict[str, Any] = {"parts": 1, "chat": "main", **more}
    key = idempotency_key(delivery, part, revision)
    return Outgoing(delivery=delivery, part=part, key=key, text=text, **fields)


class Client:
    """What a page does, one step at a time."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def say(self, type_: str, **fields: object) -> None:
        await self.socket.send_str(json.dumps({"type": type_, **fields}))

    async def hear(self, type_: str) -> dict[str, Any]:
        """The next frame of a type; others are passed over."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await self.socket.receive()
                assert message.type is aiohttp.WSMsgType.TEXT, f"waited for {type_}, got {message!r}"
                frame: dict[str, Any] = json.loads(message.data)
                if frame["type"] == type_:
                    return frame

    async def open(self, chat: str = "main") -> dict[str, Any]:
        await self.say("open", chat=chat)
        return await self.hear("history")

    async def settled(self) -> None:
        """Wait until everything said before was worked off."""
        await self.say("chats")
        await self.hear("chats")

    async def close_code(self) -> int | None:
        async with asyncio.timeout(PATIENCE_S):
            while (await self.socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
        return self.socket.close_code


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
async def served(host: FakeHost) -> AsyncIterator[Served]:
    async with Served(build(), host) as served:
        yield served


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


@pytest.fixture
async def page(served: Served) -> AsyncIterator[Callable[[], Any]]:
    """Opens pages of the served adapter, as many as a test wants."""
    async with aiohttp.ClientSession() as session:
        yield lambda: connect(session, served)


async def connect(session: aiohttp.ClientSession, served: Served, profile: str = "default") -> Client:
    url = f"{served.url}p/{profile}/socket"
    return Client(await session.ws_connect(url, origin=f"http://{served.address}"))


@asynccontextmanager
async def sending(served: Served, message: Outgoing) -> AsyncIterator[asyncio.Task[Outcome]]:
    task = asyncio.create_task(served.adapter.send(message))
    try:
        yield task
    finally:
        task.cancel()
