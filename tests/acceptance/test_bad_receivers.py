"""Receivers that are not there, talk nonsense, send us elsewhere or revoke the credential.

The clock of these gateways runs six times faster, so that the 30 seconds before a redelivery are
five: no faster, or a busy machine could let a lease lapse.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.acceptance.daemon import Home, Received, accepted, eventually, receiver, running
from tests.acceptance.record import all_delivered, counted, deliveries, endings, until, why

DROPPED = (
    "♻️ Recovered reply — the connection dropped before the platform confirmed it, so it may be a duplicate:"
)
UNCONFIRMED = "♻️ Recovered reply — the platform did not confirm it, so it may be a duplicate:"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", faster(6))


def faster(speed: float) -> dict[str, str]:
    return {"ANGELIA_TEST_CLOCK_SPEED": str(speed), "ANGELIA_TEST_CLOCK_ORIGIN": str(time.time())}


@asynccontextmanager
async def talking(reply: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers every connection with ``reply``; its URL and what it was sent."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", heard


async def test_a_receiver_that_comes_late_gets_it_once_and_plain(home: Home) -> None:
    async with receiver() as early:
        port = int(early.url.rstrip("/").rpartition(":")[2])
    async with running(home.configure(early.url)) as gateway:
        assert await gateway.say("hello", "m1") == 202
        await until(lambda: [one.state for one in deliveries(home)] == ["pending"], "the answer is owed")
        assert (await gateway.health())[0] == 200
        async with receiver(port) as late:
            await all_delivered(home)
            assert late.texts == ["hello"]
    story, verdict = why(home)
    assert endings(story) == ["answered"]
    assert verdict.startswith("One model run")
    assert len(story.deliveries[0].attempts) == 1  # a refused connection is a call, no attempt


@pytest.mark.parametrize(
    "reply",
    [b"SSH-2.0-dropbear\r\n", b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"],
    ids=["no HTTP", "an error"],
)
async def test_after_nonsense_the_second_copy_carries_its_doubt(home: Home, reply: bytes) -> None:
    async with talking(reply) as (url, heard):
        async with running(home.configure(url)) as gateway:
            assert await gateway.say("hello", "m1") == 202
            await until(lambda: [one.state for one in deliveries(home)] == ["failed"], "it is doubtful")
            await gateway.kill()
        assert len(heard) == 1
    async with receiver() as service, running(home.configure(service.url)):
        await service.wait(1)
        await all_delivered(home)
    (text,) = service.texts
    assert text in (f"{DROPPED}\n\nhello", f"{UNCONFIRMED}\n\nhello")
    assert why(home)[1].startswith("One model run, ")


async def test_a_redirect_is_not_followed(home: Home) -> None:
    async with receiver() as elsewhere, receiver() as service:

        async def moved(_: Received) -> web.StreamResponse:
            service.answer = accepted
            return web.Response(status=307, headers={"Location": elsewhere.url})

        service.answer = moved
        async with running(home.configure(service.url)) as gateway:
            assert await gateway.say("hello", "m1") == 202
            await service.wait(2)
            await all_delivered(home)
        assert elsewhere.texts == []
        assert service.texts == ["hello", "hello"]  # a definite refusal: the second is no copy


async def test_a_revoked_credential_stops_one_adapter_and_its_rows_wait(home: Home) -> None:
    async def revoked(_: Received) -> web.StreamResponse:
        return web.Response(status=401)

    async with receiver() as service:
        service.answer = revoked
        async with running(home.configure(service.url, web_page=True)) as gateway:
            assert await gateway.say("hello", "m1") == 202

            async def said() -> bool:
                return "default/webhook is bad credential" in (await gateway.health())[1]["reasons"]

            await eventually(said, "the health names the adapter")
            assert (await gateway.health())[0] == 200  # the page still works
            assert await gateway.say("more", "m2") == 503
            listed = await home.run("doctor")
            assert listed.code == 1
            assert "default/webhook is bad credential" in listed.out
            assert await gateway.stop() == 0
        assert counted(home).deliveries["delivered"] == 0
        assert service.texts == ["hello"]
        service.answer = accepted
        async with running(home) as gateway:
            await all_delivered(home)
            assert service.texts == ["hello", "hello"]  # it was refused: the second is no copy
            assert await gateway.say("more", "m2") == 202  # it was refused, so it is no duplicate
            await all_delivered(home, 2)
