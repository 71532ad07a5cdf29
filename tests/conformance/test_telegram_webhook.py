"""Telegram in webhook mode: the secret first, the commit before the 2xx."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.conformance.telegram_bot import adapter, bot, until_idle

from angelia.platforms.telegram.webhook_mode import SECRET_HEADER
from angelia.testing.fake_host import FakeHost, Served
from angelia.testing.telegram_server import TelegramServer

SECRET = "the-secret-of-the-webhook"


@asynccontextmanager
async def called(server: TelegramServer, host: FakeHost) -> AsyncIterator[Served]:
    """An adapter that Telegram calls, behind a server of its own on a port known before."""
    with_port = aiohttp.web.AppRunner(aiohttp.web.Application())
    await with_port.setup()
    site = aiohttp.web.TCPSite(with_port, "127.0.0.1", 0)
    await site.start()
    port = int(with_port.addresses[0][1])
    await with_port.cleanup()
    one = adapter(
        server.url,
        server.token,
        mode="webhook",
        webhook_url=f"http://127.0.0.1:{port}/telegram/default",
        webhook_secret=SECRET,
    )
    server.webhook.pause_first_s = 0.05
    async with Served(one, host, port) as served:
        yield served


async def test_webhook_mode_takes_messages_and_sends() -> None:
    host = FakeHost()
    async with TelegramServer() as server, called(server, host):
        ada = server.world.private()
        server.world.say(ada, "hello")
        await host.until(lambda: host.received)
        await server.until(lambda: server.webhook.pushes and not server.updates.pending)
        assert [push.status for push in server.webhook.pushes] == [200]
        assert server.calls_of("getUpdates") == []
    assert [one.text for one in host.received] == ["hello"]


async def test_e8_the_2xx_comes_only_after_the_commit_and_503_while_there_is_none() -> None:
    host = FakeHost()
    host.unavailable = True
    async with TelegramServer() as server, called(server, host):
        ada = server.world.private()
        server.world.say(ada, "hello")
        await server.until(lambda: server.webhook.pushes)
        assert server.webhook.pushes[0].status == 503
        assert server.updates.pending
        host.unavailable = False
        await server.until(lambda: not server.updates.pending)
    assert [one.text for one in host.received] == ["hello"]


@pytest.mark.parametrize("secret", [None, "", "wrong", SECRET + "x", SECRET.upper(), "grün"])
async def test_a_call_without_the_secret_is_refused(secret: str | None) -> None:
    host = FakeHost()
    update = {"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": {"id": 5, "type": "private"},
              "from": {"id": 5, "is_bot": False, "first_name": "Eve"}, "text": "x"}}  # fmt: skip
    async with TelegramServer() as server, called(server, host) as served, aiohttp.ClientSession() as session:
        url = f"{served.url}telegram/default"
        headers = {} if secret is None else {SECRET_HEADER: secret}
        async with session.post(url, json=update, headers=headers) as refused:
            assert refused.status == 401
        assert host.received == []
        async with session.post(url, json=update, headers={SECRET_HEADER: SECRET}) as taken:
            assert taken.status == 200
            assert await taken.read() == b""
        assert len(host.received) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_json_is_400(body: bytes) -> None:
    host = FakeHost()
    async with TelegramServer() as server, called(server, host) as served, aiohttp.ClientSession() as session:
        url, headers = f"{served.url}telegram/default", {SECRET_HEADER: SECRET}
        async with session.post(url, data=body, headers=headers) as refused:
            assert refused.status == 400
    assert host.calls == 0


async def test_a_stopped_adapter_answers_503() -> None:
    host = FakeHost()
    async with TelegramServer() as server, called(server, host) as served:
        await served.adapter.stop()
        async with aiohttp.ClientSession() as session:
            headers = {SECRET_HEADER: SECRET}
            async with session.post(f"{served.url}telegram/default", json={}, headers=headers) as later:
                assert (later.status, later.headers["Retry-After"]) == (503, "2")


async def test_going_back_to_polling_keeps_what_waits() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        host.unavailable = True
        async with called(server, host):
            server.world.say(server.world.private(), "hello")
            await server.until(lambda: server.webhook.pushes)
        host.unavailable = False
        async with asyncio.timeout(20):
            async with bot(server, host):
                await until_idle(server)
    assert [one.text for one in host.received] == ["hello"]
