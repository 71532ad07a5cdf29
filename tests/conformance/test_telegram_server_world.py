"""What no client library shows of the Telegram server: time, flood control, the script itself,
the ways of passing parameters, and the server as a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from angelia.testing.clock import TestClock
from angelia.testing.telegram_server import (
    Call,
    ControlledTelegram,
    Limits,
    TelegramServer,
    read_truth,
    steps,
)
from angelia.testing.telegram_server.markup import parse

Answered = tuple[int, dict[str, Any]]
day_s = 24 * 3600


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


# -- time ------------------------------------------------------------------------------------


async def test_an_update_is_kept_for_a_day(http: aiohttp.ClientSession) -> None:
    clock = TestClock()
    async with TelegramServer(clock=clock) as server:
        ada = server.world.private("Ada")
        server.world.say(ada, "older than a day when it arrives", age_s=day_s)
        server.world.say(ada, "one")
        clock.advance(day_s - 60)
        server.world.say(ada, "two")
        assert len(await polled(http, server)) == 2
        clock.advance(120)
        (update,) = await polled(http, server)
        assert update["message"]["text"] == "two"


async def test_ids_jump_after_an_idle_week(http: aiohttp.ClientSession) -> None:
    clock = TestClock()
    async with TelegramServer(clock=clock) as server:
        ada = server.world.private("Ada")
        for text in ("one", "two"):
            server.world.say(ada, text)
        one, two = (update["update_id"] for update in await polled(http, server))
        assert two == one + 1
        clock.advance(7 * day_s)
        server.world.say(ada, "three")
        (update,) = await polled(http, server, offset=0)
        assert update["update_id"] not in (one, two, two + 1)
        assert server.updates.next_id == update["update_id"] + 1


async def test_flood_control_by_the_servers_clock(http: aiohttp.ClientSession) -> None:
    clock = TestClock()
    async with TelegramServer(clock=clock, limits=Limits()) as server:

        async def send(chat: int) -> int:
            _, body = await call(http, server, "sendMessage", chat_id=chat, text="hello")
            return int(body.get("parameters", {}).get("retry_after", 0))

        ada, bob, group = server.world.private("Ada"), server.world.private("Bob"), server.world.group()
        assert [await send(ada), await send(ada), await send(bob)] == [0, 1, 0]
        clock.advance(1)
        assert await send(ada) == 0
        for _ in range(20):
            clock.advance(1)
            assert await send(group) == 0
        clock.advance(1)
        assert await send(group) == 40
        clock.advance(10)
        assert await send(group) == 30
        assert await send(bob) == 0
        clock.advance(30)
        assert await send(group) == 0
        people = [server.world.private(f"Person {number}") for number in range(31)]
        clock.advance(1)
        assert [await send(person) for person in people] == [*[0] * 30, 1]
        assert [server.calls[number - 1].chat for number in server.floods.trespasses] == [group]


# -- the script ------------------------------------------------------------------------------


async def test_steps_go_to_the_first_rule_that_fits(http: aiohttp.ClientSession) -> None:
    async with TelegramServer() as server:
        ada, bob = server.world.private("Ada"), server.world.private("Bob")

        def loud(made: Call) -> bool:
            return made.text("text").isupper()

        server.script(steps.fail("unavailable"), when=loud, for_ever=True)
        server.script(steps.accept(), steps.refuse("blocked"), chat=ada)
        server.script(steps.refuse("kicked"), method="getMe")

        async def send(chat: int, text: str) -> int:
            status, _ = await call(http, server, "sendMessage", chat_id=chat, text=text)
            return status

        assert [await send(ada, "one"), await send(bob, "one"), await send(ada, "TWO")] == [200, 200, 503]
        assert [await send(ada, "two"), await send(ada, "three"), await send(bob, "FOUR")] == [403, 200, 503]
        assert [(await call(http, server, "getMe"))[0] for _ in range(2)] == [403, 200]
        assert [made.outcome == "ok" for made in server.calls_of("sendMessage")] == [
            made.accepted for made in server.calls_of("sendMessage")
        ]
        assert server.rules.steps_left == 1


async def test_a_script_that_cannot_be_is_refused() -> None:
    server = TelegramServer()
    with pytest.raises(ValueError, match="no refusal is called"):
        steps.refuse("nobody said this")
    with pytest.raises(ValueError, match="by method only"):
        server.script(steps.reset_before_reading(), chat=1)
    with pytest.raises(ValueError, match="needs a step"):
        server.script()


async def test_what_the_world_refuses_no_script_accepts(http: aiohttp.ClientSession) -> None:
    async with TelegramServer() as server:
        ada = server.world.private("Ada")
        server.world.block(ada)
        server.script(steps.accept_and_reset())
        status, body = await call(http, server, "sendMessage", chat_id=ada, text="hello")
        assert (status, body["description"]) == (403, "Forbidden: bot was blocked by the user")
        assert server.accepted == []


# -- the wire --------------------------------------------------------------------------------


async def test_parameters_come_in_four_ways(http: aiohttp.ClientSession) -> None:
    async with TelegramServer() as server:
        ada = server.world.private("Ada")
        address = f"{server.url}/bot{server.token}/SENDmessage"
        values = {"chat_id": str(ada), "text": "hello"}
        form = aiohttp.FormData(values)
        form.add_field("unused", b"\x00\xff", filename="unused.bin")
        bodies: list[dict[str, Any]] = [
            {"params": values},
            {"data": values},
            {"json": {**values, "chat_id": ada}},
            {"data": form},
        ]
        for body in bodies:
            async with http.post(address, **body) as answer:
                assert (await answer.json())["ok"] is True
        assert [message.text for message in server.accepted] == ["hello"] * 4
        assert server.calls[3].files["unused"].data == b"\x00\xff"


async def test_a_refusal_on_the_wire(http: aiohttp.ClientSession) -> None:
    async with TelegramServer() as server:
        ada = server.world.private("Ada")
        server.script(steps.flood(5))
        values = {"chat_id": ada, "text": "hello"}
        async with http.post(f"{server.url}/bot{server.token}/sendMessage", json=values) as answer:
            assert answer.status == 429
            assert answer.headers["Retry-After"] == "5"
            assert await answer.text() == (
                '{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5",'
                '"parameters":{"retry_after":5}}'
            )
        for method, words in (("getNothing", "Not Found: method not found"), ("getMe/x", "Not Found")):
            status, body = await call(http, server, method)
            assert (status, body) == (404, {"ok": False, "error_code": 404, "description": words})
        status, body = await call(http, server, "sendMessage", chat_id=ada, text="half \ud83d")
        assert (status, body["description"]) == (400, "Bad Request: strings must be encoded in UTF-8")
        entities = [{"type": "bold", "offset": 1, "length": 1}]
        status, body = await call(http, server, "sendMessage", chat_id=ada, text="😀", entities=entities)
        assert body["description"].startswith("Bad Request: entity begins in a middle of a UTF-16 symbol")
        assert server.accepted == []


@pytest.mark.parametrize(
    ("mode", "text", "plain", "entities"),
    [
        ("MarkdownV2", r"*bold _both_* 1\.5", "bold both 1.5", ["bold 0 9", "italic 5 4"]),
        ("MarkdownV2", "__under__ ~no~", "under no", ["underline 0 5", "strikethrough 6 2"]),
        ("MarkdownV2", "||s|| `c_*`", "s c_*", ["spoiler 0 1", "code 2 3"]),
        ("MarkdownV2", "```python\nx_y = 1```", "x_y = 1", ["pre 0 7"]),
        ("MarkdownV2", "[a](http://b/c_d)", "a", ["text_link 0 1"]),
        ("MarkdownV2", ">one\n>two\nthree", "one\ntwo\nthree", ["blockquote 0 7"]),
        ("HTML", '<pre><code class="language-c">x</code></pre>&lt;', "x<", ["pre 0 1"]),
        ("HTML", '<a href="http://b">a</a><s>😀</s>', "a😀", ["text_link 0 1", "strikethrough 1 2"]),
        ("Markdown", "*b* _i_ \\_", "b i _", ["bold 0 1", "italic 2 1"]),
        ("Markdown", "`c` [a](u)", "c a", ["code 0 1", "text_link 2 1"]),
    ],
)
def test_markup(mode: str, text: str, plain: str, entities: list[str]) -> None:
    parsed, found = parse(text, mode)
    assert parsed == plain
    assert [f"{entity['type']} {entity['offset']} {entity['length']}" for entity in found] == entities


async def test_privacy_mode_hides_what_is_not_meant_for_the_bot(http: aiohttp.ClientSession) -> None:
    async with TelegramServer() as server:
        world = server.world
        world.privacy = True
        ada, group = world.private("Ada"), world.supergroup()
        _, body = await call(http, server, "sendMessage", chat_id=group, text="I am here")
        for text in ("between us", "/why", "/why@other_bot", "@angelia_test_bot, why?"):
            world.say(group, text, ada)
        world.say(group, "to you", ada, reply_to=body["result"]["message_id"])
        world.say(ada, "alone with you")
        texts = [update["message"]["text"] for update in await polled(http, server)]
        assert texts == ["/why", "@angelia_test_bot, why?", "to you", "alone with you"]


# -- a process of its own --------------------------------------------------------------------


async def started(state: Path) -> tuple[asyncio.subprocess.Process, dict[str, str]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "angelia.testing.telegram_server", "--state", str(state), "--with-parent"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 60)
    said: dict[str, str] = json.loads(line)
    return process, said


async def test_its_truth_outlives_a_kill(http: aiohttp.ClientSession, tmp_path: Path) -> None:
    state = tmp_path / "truth.jsonl"
    process, said = await started(state)
    try:
        async with ControlledTelegram(said["url"]) as telegram:
            ada = await telegram.do("private", first_name="Ada")
            asked = await telegram.do("picture", chat=ada, caption="hello", data=b"\xff\xd8\xff picture")
            await telegram.script(steps.refuse("blocked"), steps.accept_and_reset(), chat=ada)
            address = f"{said['url']}/bot{said['token']}"
            async with http.post(f"{address}/getUpdates") as answer:
                assert (await answer.json())["result"][0]["message"]["message_id"] == asked
            async with http.post(f"{address}/sendMessage", json={"chat_id": ada, "text": "one"}) as answer:
                assert answer.status == 403
            with pytest.raises(aiohttp.ClientError):
                await http.post(f"{address}/sendMessage", json={"chat_id": ada, "text": "two"})
            seen = await telegram.until_accepted(len)
            assert [made["accepted"] for made in await telegram.calls("sendMessage")] == [False, True]
            assert (await telegram.do("info"))["steps_left"] == 0
            with pytest.raises(ValueError, match="there is no such verb"):
                await telegram.do("explode")
        assert process.returncode is None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        await _ended(process)
    assert read_truth(state) == seen
    assert [(message.chat, message.text) for message in seen] == [(ada, "two")]

    process, said = await started(state)
    try:
        async with ControlledTelegram(said["url"]) as telegram:
            assert await telegram.accepted() == seen
            again = await telegram.do("private", first_name="Ada")
            assert await telegram.do("say", chat=again, text="hello") > seen[0].message_id
        assert process.stdin is not None
        process.stdin.close()  # its parent is gone
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await asyncio.wait_for(process.wait(), 30)
