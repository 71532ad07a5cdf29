"""A bot on a Telegram server, for the conformance tests of the platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from angelia.model.ids import AdapterId
from angelia.model.messages import Outgoing
from angelia.platforms.telegram.adapter import TelegramAdapter
from angelia.platforms.telegram.settings import TelegramSettings
from angelia.seams.clock import SystemClock
from angelia.testing.fake_host import FakeHost
from angelia.testing.telegram_server import TelegramServer

TOKEN = "123456789:" + "AAthe-secret-of-the-exam-0123456789"  # in two: it must not look like one
ID = AdapterId("default", "telegram")


def adapter(url: str, token: str = TOKEN, timeout_s: float = 5.0, **more: object) -> TelegramAdapter:
    """An adapter for the server at ``url``; ``more`` are settings."""
    values = {"token": token, "base_url": url, "timeout_s": timeout_s, **more}
    return TelegramAdapter(ID, TelegramSettings.model_validate(values), SystemClock(), connect_limit_s=0.4)


@asynccontextmanager
async def bot(
    server: TelegramServer, host: FakeHost | None = None, timeout_s: float = 5.0, **more: object
) -> AsyncIterator[TelegramAdapter]:
    """An adapter on ``server``, started; stopped at the end."""
    one = adapter(server.url, server.token, timeout_s, **more)
    await one.start(host or FakeHost())
    try:
        yield one
    finally:
        await one.stop()


async def eventually(holds: Callable[[], bool]) -> None:
    """For what tells nobody that it changed."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


async def until_idle(server: TelegramServer) -> None:
    """Until everything so far is confirmed and the poller waits for more."""
    await server.until(lambda: server.updates.parked and not server.updates.pending)


def to(chat: int, text: str = "hi", **more: object) -> Outgoing:
    """A message to ``chat``."""
    return replace(Outgoing("d1", 1, 1, "d1.1.1", str(chat), text), **more)  # type: ignore[arg-type]
