"""The webhook of the Telegram server: what it pushes, in which order, and when it tries again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from telegram import Update

from angelia.testing.clock import TestClock
from angelia.testing.telegram_server import (
    TelegramServer,
)

Answered = tuple[int, dict[str, Any]]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def call(http: aiohttp.ClientSession, server: TelegramServer, method: str, **values: Any) -> Answered:
    async with http.post(f"{server.url}/bot{server.token}/{method}", json=values) as answer:
        return answer.status, await answer.json()


async def polled(http: aiohttp.ClientSession, server: TelegramServer, **values: Any) -> list[dict[str, Any]]:
    status, body = await call(http, server, "getUpdates", **values)
    assert status == 200
    found: list[dict[str, Any]] = body["result"]
    return found


# -- the webhook -----------------------------------------------------------------------------


class Receiver:
    """A webhook that answers as it is told: a status for each request in turn, then 200; 0 cuts."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.updates: list[dict[str, Any]] = []
        self.secrets: set[str | None] = set()
        self.say: dict[str, Any] | None = None
        self.arrived = asyncio.Event()

    async def receive(self, request: web.Request) -> web.Response:
        self.updates.append(await request.json())
        self.arrived.set()
        self.secrets.add(request.headers.get("X-Telegram-Bot-Api-Secret-Token"))
        status = self.statuses.pop(0) if self.statuses else 200
        if not status and request.transport is not None:
            request.transport.abort()
        return (
            web.json_response(self.say, status=status or 200)
            if self.say
            else web.Response(status=status or 200)
        )

    @property
    def texts(self) -> list[str]:
        return [update["message"]["text"] for update in self.updates]


async def receiving(receiver: Receiver) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_post("/hook", receiver.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/hook"


async def test_updates_are_pushed_in_order_until_they_are_taken(http: aiohttp.ClientSession) -> None:
    receiver = Receiver(500, 0, 403)
    runner, url = await receiving(receiver)
    async with TelegramServer(clock=TestClock()) as server:
        ada = server.world.private("Ada")
        server.world.say(ada, "one")
        server.world.say(ada, "two")
        await call(http, server, "setWebhook", url=url, secret_token="a-secret_1")
        await server.until(lambda: not server.updates.pending)
        assert receiver.texts == ["one", "one", "one", "one", "two"]
        assert [push.status for push in server.webhook.pushes] == [500, 0, 403, 200, 200]
        assert receiver.secrets == {"a-secret_1"}
        assert Update.de_json(receiver.updates[-1], None).effective_message is not None
        _, body = await call(http, server, "getWebhookInfo")
        assert body["result"]["last_error_message"] == "Wrong response from the webhook: 403 Forbidden"
        server.world.say(ada, "three")
        await server.until(lambda: not server.updates.pending)
        await call(http, server, "deleteWebhook")
        server.world.say(ada, "four")
        assert [update["message"]["text"] for update in await polled(http, server)] == ["four"]
        assert receiver.texts[-1] == "three"
    await runner.cleanup()


async def test_one_chat_does_not_hold_up_another(http: aiohttp.ClientSession) -> None:
    held = asyncio.Event()

    class Slow(Receiver):
        async def receive(self, request: web.Request) -> web.Response:
            answer = await super().receive(request)
            if self.updates[-1]["message"]["text"] == "slow":
                await held.wait()
            return answer

    receiver = Slow()
    runner, url = await receiving(receiver)
    async with TelegramServer() as server:
        ada, bob = server.world.private("Ada"), server.world.private("Bob")
        await call(http, server, "setWebhook", url=url)
        server.world.say(ada, "slow")
        await asyncio.wait_for(receiver.arrived.wait(), 20)
        server.world.say(ada, "after it")
        server.world.say(bob, "hello")
        await server.until(lambda: server.webhook.pushes)
        assert "after it" not in receiver.texts
        held.set()
        await server.until(lambda: not server.updates.pending)
        assert receiver.texts[-1] == "after it"
    await runner.cleanup()


async def test_a_call_in_the_webhooks_answer_is_carried_out(http: aiohttp.ClientSession) -> None:
    receiver = Receiver()
    runner, url = await receiving(receiver)
    async with TelegramServer() as server:
        ada = server.world.private("Ada")
        receiver.say = {"method": "sendMessage", "chat_id": ada, "text": "at once"}
        await call(http, server, "setWebhook", url=url)
        server.world.say(ada, "hello")
        await server.until(lambda: server.accepted)
        assert server.accepted[0].text == "at once"
    await runner.cleanup()
