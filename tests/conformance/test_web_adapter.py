"""The exam of the platform ``web``, third part: parts on their way to pages, and what pages are told.

A real server, and real WebSocket clients in place of pages.
"""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from tests.conformance.web_pages import (  # noqa: F401 - the fixtures are asked for by name
    build,
    connect,
    host,
    http,
    outgoing,
    page,
    sending,
    served,
)

from angelia.model.ids import Lane
from angelia.model.messages import ChatSummary, HistoryEntry, HistoryPart
from angelia.model.outcomes import Accepted, NotSent, Unconfirmed
from angelia.platforms.web import adapter as adapter_module
from angelia.testing.fake_host import FakeHost, Served


async def test_with_no_page_of_the_chat_nothing_is_sent(page: Any, served: Served) -> None:
    assert not served.adapter.present("main")
    assert isinstance(await served.adapter.send(outgoing()), NotSent)
    client = await page()
    await client.open("other")
    assert not served.adapter.present("main")
    assert isinstance(await served.adapter.send(outgoing()), NotSent)


async def test_a_part_goes_to_every_page_and_the_first_acknowledgement_is_the_receipt(
    page: Any, served: Served
) -> None:
    clients = [await page(), await page()]
    for client in clients:
        await client.open()
    async with sending(served, outgoing(text="# hi", part=2, parts=3, recovered=True)) as task:
        frames = [await client.hear("part") for client in clients]
        assert frames[0] == frames[1]
        assert frames[0] | {"at": 0} == {
            "type": "part",
            "key": "d1.2.1",
            "delivery": "d1",
            "part": 2,
            "parts": 3,
            "chat": "main",
            "text": "# hi",
            "format": "markdown",
            "recovered": True,
            "at": 0,
        }
        assert not task.done()
        await clients[1].say("ack", key="d1.2.1")
        assert await task == Accepted("d1.2.1")
        await clients[0].say("ack", key="d1.2.1")
        await clients[0].settled()


async def test_only_the_key_itself_acknowledges(page: Any, served: Served) -> None:
    client = await page()
    await client.open()
    async with sending(served, outgoing()) as task:
        await client.hear("part")
        await client.say("ack", key="d1.1.2")
        await client.say("ack", key="never sent")
        await client.settled()
        assert not task.done()
        await client.say("ack", key="d1.1.1")
        assert isinstance(await task, Accepted)


async def test_acknowledgements_are_heard_while_a_commit_waits(
    page: Any, served: Served, host: FakeHost
) -> None:
    client = await page()
    await client.open()
    host.open.clear()
    await client.say("message", chat="main", id="m1", text="slow")
    async with sending(served, outgoing()) as task:
        await client.hear("part")
        await client.say("ack", key="d1.1.1")
        assert isinstance(await task, Accepted)
    assert host.received == []
    host.open.set()
    await client.hear("accepted")


async def test_a_page_that_vanishes_leaves_the_part_in_doubt(page: Any, served: Served) -> None:
    client = await page()
    await client.open()
    async with sending(served, outgoing()) as task:
        await client.hear("part")
        await client.socket.close()
        outcome = await task
    assert isinstance(outcome, Unconfirmed)
    assert outcome.dropped
    assert not served.adapter.present("main")


async def test_while_another_page_lives_the_part_may_still_arrive(page: Any, served: Served) -> None:
    first, second = await page(), await page()
    await first.open()
    async with sending(served, outgoing()) as task:
        await first.hear("part")
        await second.say("open", chat="main")  # e.g. the reload of the first
        await second.hear("part")
        await first.socket.close()
        await second.say("ack", key="d1.1.1")
        assert isinstance(await task, Accepted)


async def test_a_silent_page_is_in_doubt_and_put_away(
    page: Any, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_module, "call_limit_s", 0.05)
    client = await page()
    await client.open()
    outcome = await served.adapter.send(outgoing())
    assert isinstance(outcome, Unconfirmed)
    assert not outcome.dropped
    assert not served.adapter.present("main")
    assert await client.close_code() == 4408


async def test_the_same_key_is_sent_again_by_a_new_instance_and_acknowledged_again(
    host: FakeHost, http: aiohttp.ClientSession
) -> None:
    port = 0
    for _ in range(2):
        async with Served(build(), host, port) as served:
            port = served.port
            client = await connect(http, served)
            await client.open()
            async with sending(served, outgoing()) as task:
                assert (await client.hear("part"))["key"] == "d1.1.1"
                await client.say("ack", key="d1.1.1")
                assert isinstance(await task, Accepted)


async def test_an_opened_chat_is_a_hint_after_its_history(page: Any, host: FakeHost) -> None:
    parts = (HistoryPart(1, "one", True), HistoryPart(2, "two", False))
    host.histories["main"] = [
        HistoryEntry("user", "q", 5, "i1", "answered", client_id="c1"),
        HistoryEntry("assistant", "one two", 6, "d1", "failed", True, parts),
    ]
    client = await page()
    history = await client.open()
    assert [entry["client_id"] for entry in history["entries"]] == ["c1", ""]
    assert history["entries"][1]["parts"] == [
        {"part": 1, "text": "one", "received": True},
        {"part": 2, "text": "two", "received": False},
    ]
    assert history["entries"][1]["recovered"] is True
    await host.until(lambda: host.hints == ["main"])
    await client.say("history", chat="main", limit=1)
    assert [entry["id"] for entry in (await client.hear("history"))["entries"]] == ["d1"]


async def test_a_part_acknowledged_a_moment_ago_is_in_the_history(
    page: Any, served: Served, host: FakeHost
) -> None:
    host.histories["main"] = [
        HistoryEntry("assistant", "hello", 6, "d1", "attempting", parts=(HistoryPart(1, "hello", False),))
    ]
    client = await page()
    assert not (await client.open())["entries"][0]["parts"][0]["received"]
    async with sending(served, outgoing()) as task:
        await client.hear("part")
        await client.say("ack", key="d1.1.1")
        await task
    assert (await client.open())["entries"][0]["parts"][0]["received"]


async def test_watching_brings_parts_and_hints_without_history(
    page: Any, served: Served, host: FakeHost
) -> None:
    client = await page()
    await client.say("watch", chats=["one", "two"])
    await client.settled()
    assert host.hints == ["one", "two"]
    async with sending(served, outgoing(chat="two")) as task:
        await client.hear("part")
        await client.say("ack", key="d1.1.1")
        assert isinstance(await task, Accepted)


async def test_hello_lists_the_chats_and_opens_one(page: Any, host: FakeHost) -> None:
    host.summaries = [ChatSummary("main", "First words", 7), ChatSummary("not a:name", "", 6)]
    client = await page()
    await client.say("hello", chat="main")
    assert (await client.hear("chats"))["chats"] == [{"chat": "main", "title": "First words", "at": 7}]
    assert (await client.hear("history"))["chat"] == "main"


async def test_other_pages_of_the_chat_hear_what_a_page_said_once(page: Any) -> None:
    speaker, listener, elsewhere = await page(), await page(), await page()
    await speaker.open()
    await listener.open()
    await elsewhere.open("other")
    for _ in range(2):  # the repetition is no news
        await speaker.say("message", chat="main", id="m1", text="hi")
        await speaker.hear("accepted")
    await speaker.say("message", chat="main", id="m2", text="end")
    await speaker.hear("accepted")
    assert [(await listener.hear("echo"))["id"] for _ in range(2)] == ["m1", "m2"]
    await elsewhere.say("chats")
    message = await elsewhere.socket.receive()
    assert json.loads(message.data)["type"] == "chats"  # no echo came before


async def test_typing_is_shown_to_the_pages_of_the_chat(page: Any, served: Served) -> None:
    client = await page()
    await client.open()
    await served.adapter.typing(Lane("default", "web", "main"), True)
    assert (await client.hear("typing")) == {"type": "typing", "chat": "main", "active": True}


async def test_stop_sends_pages_away_so_that_they_come_back(
    host: FakeHost, http: aiohttp.ClientSession
) -> None:
    served = Served(build(), host)
    async with served:
        client = await connect(http, served)
        await client.open()
        async with sending(served, outgoing()) as task:
            await client.hear("part")
            stopping = asyncio.create_task(served.adapter.stop())
            assert await client.close_code() == 1012
            await stopping
            outcome = await task
        assert isinstance(outcome, Unconfirmed)
        assert isinstance(await served.adapter.send(outgoing()), NotSent)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await connect(http, served)
        assert refusal.value.status == 503
