"""The exam of the platform ``web``, second part: what a page says, from good messages to rubbish."""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.conformance.web_pages import (  # noqa: F401 - the fixtures are asked for by name
    PATIENCE_S,
    host,
    page,
    served,
)

from angelia.model.ids import Lane
from angelia.model.limits import text_characters_max
from angelia.seams import crash
from angelia.testing.fake_host import FakeHost, Served


async def test_a_message_is_acknowledged_after_the_commit(page: Any, host: FakeHost) -> None:
    client = await page()
    host.open.clear()
    await client.say("message", chat="main", id="m1", text="a \ud800 b\x00")
    await host.until(lambda: host.calls == 1)
    assert host.received == []
    host.open.set()
    frame = await client.hear("accepted")
    assert (frame["chat"], frame["id"]) == ("main", "m1")
    (inbound,) = host.received
    assert (inbound.lane, inbound.message_id, inbound.user) == (Lane("default", "web", "main"), "m1", "web")
    assert inbound.text == "a \ufffd b\ufffd"


async def test_a_repeated_id_is_acknowledged_again_and_committed_once(page: Any, host: FakeHost) -> None:
    first, second = await page(), await page()
    for client in (first, second, first):
        await client.say("message", chat="main", id="m1", text="once")
        await client.hear("accepted")
    assert len(host.received) == 1
    assert host.calls == 3


async def test_a_death_between_commit_and_acknowledgement_loses_and_doubles_nothing(
    page: Any, served: Served, host: FakeHost
) -> None:
    client = await page()
    crash.install(lambda name: served.cut() if name == "ack.before" else None)
    try:
        await client.say("message", chat="main", id="m1", text="once")
        assert await client.close_code() in (1006, None)
    finally:
        crash.install(None)
    again = await page()
    await again.say("message", chat="main", id="m1", text="once")
    await again.hear("accepted")
    assert len(host.received) == 1


async def test_the_acknowledgement_stands_between_its_crash_points(page: Any) -> None:
    passed: list[str] = []
    after = asyncio.Event()

    def hook(name: str) -> None:
        passed.append(name)
        if name == "ack.after":
            after.set()

    crash.install(hook)
    try:
        client = await page()
        await client.say("message", chat="main", id="m1", text="x")
        await client.hear("accepted")
        async with asyncio.timeout(PATIENCE_S):
            await after.wait()
    finally:
        crash.install(None)
    assert passed == ["ack.before", "ack.after"]


async def test_a_message_read_before_its_page_closed_is_committed(page: Any, host: FakeHost) -> None:
    client = await page()
    host.open.clear()
    for number in range(3):
        await client.say("message", chat="main", id=f"m{number}", text="last words")
    await client.socket.close()
    host.open.set()
    await host.until(lambda: len(host.received) == 3)


async def test_a_store_that_cannot_be_written_is_answered_by_try_again(page: Any, host: FakeHost) -> None:
    client = await page()
    host.unavailable = True
    await client.say("message", chat="main", id="m1", text="x")
    frame = await client.hear("retry")
    assert frame["id"] == "m1"
    assert frame["after_s"] > 0
    await client.say("open", chat="main")
    assert (await client.hear("error"))["to"] == "open"
    host.unavailable = False
    await client.say("message", chat="main", id="m1", text="x")
    await client.hear("accepted")


async def test_who_is_not_allowed_is_told_so(page: Any, host: FakeHost) -> None:
    client = await page()
    host.refuse = True
    await client.say("message", chat="main", id="m1", text="x")
    assert "not allowed" in (await client.hear("refused"))["reason"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": ""}, "empty"),
        ({"text": " \n\t"}, "empty"),
        ({"text": "a" * (text_characters_max + 1)}, "longer than"),
        ({"text": 7}, "text must be"),
        ({"text": None}, "text must be"),
        ({"text": "x", "chat": "no spaces"}, "chat must be"),
        ({"text": "x", "chat": "a" * 65}, "chat must be"),
        ({"text": "x", "chat": ["main"]}, "chat must be"),
    ],
)
async def test_a_bad_message_is_refused_by_name(
    page: Any, host: FakeHost, fields: dict[str, object], reason: str
) -> None:
    client = await page()
    await client.say("message", **{"chat": "main", "id": "m1", **fields})
    frame = await client.hear("refused")
    assert frame["id"] == "m1"
    assert reason in frame["reason"]
    assert host.calls == 0
    await client.settled()


async def test_the_longest_message_passes(page: Any, host: FakeHost) -> None:
    client = await page()
    await client.say("message", chat="main", id="m1", text="\n" * 10 + "a" * (text_characters_max - 10))
    await client.hear("accepted")
    assert len(host.received[0].text) == text_characters_max


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"dance"}',
        '{"type":"open"}',
        '{"type":"open","chat":"main","limit":0}',
        '{"type":"open","chat":"main","limit":true}',
        '{"type":"message","chat":"main","text":"no id"}',
        '{"type":"message","chat":"main","text":"x","id":"' + "a" * 10_000 + '"}',
        '{"type":"watch","chats":"main"}',
        '{"type":"watch","chats":["a b"]}',
        '{"type":"ack"}',
        '{"type":"ack","key":{}}',
    ],
)
async def test_a_frame_that_cannot_be_used_gets_an_error_and_the_socket_lives(page: Any, frame: str) -> None:
    client = await page()
    await client.socket.send_str(frame)
    assert (await client.hear("error"))["reason"]
    await client.settled()


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("no json", 1007),
        ("[1]", 1007),
        ("{}", 1007),
        ('{"type":7}', 1007),
        ("[" * 100_000, 1007),
        (b"\x00\x01", 1003),
    ],
)
async def test_what_no_page_sends_closes_the_socket_and_nothing_else(
    page: Any, served: Served, raw: str | bytes, code: int
) -> None:
    bystander = await page()
    client = await page()
    await (client.socket.send_str(raw) if isinstance(raw, str) else client.socket.send_bytes(raw))
    assert await client.close_code() == code
    await bystander.settled()


async def test_a_frame_over_4_mib_ends_the_socket_and_nothing_else(
    page: Any, served: Served, host: FakeHost
) -> None:
    bystander = await page()
    client = await page()
    with contextlib.suppress(ConnectionError):  # the rest of the frame may meet a closed door
        await client.say("message", chat="main", id="m1", text="a" * (4 * 1024 * 1024))
    with contextlib.suppress(ConnectionError):
        assert await client.close_code() in (1009, 1006)
    await bystander.settled()
    assert host.calls == 0
