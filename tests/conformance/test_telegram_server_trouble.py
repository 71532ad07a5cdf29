"""A stranger, python-telegram-bot, in trouble on our Telegram server: flooded, refused, cut off, shut out.

It must understand each time what happened, and the server's truth must say what really did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from telegram import (
    Bot,
)
from telegram.error import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from tests.conformance.telegram_stranger import impatience_s, patience_s, refused, stranger

from angelia.testing.telegram_server import REFUSALS, Step, TelegramServer, steps


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Bot]:
    async with stranger(server) as bot:
        yield bot


# -- trouble ---------------------------------------------------------------------------------


async def test_it_is_flooded(server: TelegramServer, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # how the library gives its waits
    ada, bob = server.world.private("Ada"), server.world.private("Bob")
    server.script(steps.flood(5), chat=ada)
    with pytest.raises(RetryAfter) as error:
        await bot.send_message(ada, "one")
    assert error.value.retry_after == timedelta(seconds=5)
    await bot.send_message(ada, "two")
    server.script(steps.flood(3600, "chat"), chat=ada)
    for send in (bot.send_message(ada, "three"), bot.send_chat_action(ada, "typing")):
        with pytest.raises(RetryAfter):
            await send
    await bot.send_message(bob, "he is free")
    server.script(steps.flood(3600, "bot"))
    for chat in (ada, bob):
        with pytest.raises(RetryAfter):
            await bot.send_message(chat, "four")
    server.floods.lift()
    public = server.world.supergroup("Public", username="public_group")
    server.script(steps.flood(3600, "chat"), chat=public)
    with pytest.raises(RetryAfter):
        await bot.send_message("@public_group", "five")
    assert (server.floods.left_s(public), server.floods.left_s(ada)) == (3600, 0)
    assert [message.text for message in server.accepted] == ["two", "he is free"]
    trespassers = [server.calls[number - 1].method for number in server.floods.trespasses]
    assert trespassers == ["sendchataction", "sendmessage"]


#: What the library must make of each refusal.
_CLASSES: dict[int, type[TelegramError]] = {
    400: BadRequest,
    401: InvalidToken,
    403: Forbidden,
    404: InvalidToken,
    409: Conflict,
}


async def test_it_is_refused_in_every_way_there_is(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    for name, (code, words) in REFUSALS.items():
        server.script(steps.refuse(name))
        with pytest.raises(TelegramError) as error:
            await bot.send_message(ada, f"this will be refused: {name}")
        assert type(error.value) is _CLASSES.get(code, NetworkError), name
        understood = error.value.message.lower()
        assert understood in words.format(kind="private").lower(), name
        assert understood, name
    assert server.accepted == []


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        ("kicked", "Forbidden: bot was kicked from the supergroup chat"),
        ("left", "Forbidden: bot is not a member of the supergroup chat"),
        ("deleted", "Forbidden: the group chat was deleted"),
    ],
)
async def test_a_group_that_the_bot_is_out_of(
    server: TelegramServer, bot: Bot, standing: Any, words: str
) -> None:
    group = server.world.supergroup("Friends")
    server.world.stand(group, standing)
    with pytest.raises(Forbidden) as error:
        await bot.send_message(group, "hello")
    assert error.value.message == words


async def test_chats_that_cannot_be_written_to(server: TelegramServer, bot: Bot) -> None:
    world = server.world
    with refused("chat not found"):
        await bot.send_message(987654, "hello")
    with pytest.raises(Forbidden, match="bot can't initiate conversation with a user"):
        await bot.send_message(world.person("Bob"), "hello")
    group = world.supergroup("Quiet")
    world.forbid_writing(group)
    with refused("not enough rights to send text messages"):
        await bot.send_message(group, "hello")
    world.stand(ada := world.private("Ada"), "deactivated")
    with pytest.raises(Forbidden, match="user is deactivated"):
        await bot.send_message(ada, "hello")


@pytest.mark.parametrize(
    ("step", "accepted", "error"),
    [
        (steps.accept_and_hang(), 1, TimedOut),
        (steps.accept_and_reset(), 1, NetworkError),
        (steps.accept_and_close(), 1, NetworkError),
        (steps.accept_and_cut(), 1, NetworkError),
        (steps.accept_and_fail("internal"), 1, NetworkError),
        (steps.accept_and_fail("bad_gateway"), 1, NetworkError),
        (steps.deleted_immediately(), 1, NetworkError),
        (steps.accept_and_say(200, "<html>welcome</html>", "text/html"), 1, TelegramError),
        (steps.hang(), 0, TimedOut),
        (steps.reset(), 0, NetworkError),
        (steps.reset_before_reading(), 0, NetworkError),
        (steps.fail("unavailable"), 0, NetworkError),
        (steps.say(502, "<html>Bad Gateway</html>", "text/html"), 0, NetworkError),
    ],
    ids=lambda value: f"{value.ending}-{value.refusal or value.status}" if isinstance(value, Step) else None,
)
async def test_a_call_that_breaks(
    server: TelegramServer, step: Step, accepted: int, error: type[TelegramError]
) -> None:
    ada = server.world.private("Ada")
    server.script(step)
    async with stranger(server, impatience_s if step.ending == "hang" else patience_s) as bot:
        with pytest.raises(error):
            await bot.send_message(ada, "hello")
    await server.until(lambda: len(server.accepted) == accepted)
    assert server.rules.steps_left == 0


async def test_a_call_whose_client_leaves_is_carried_out_all_the_same(
    server: TelegramServer, bot: Bot
) -> None:
    ada = server.world.private("Ada")
    server.script(steps.hold("later"))
    send = asyncio.create_task(bot.send_message(ada, "hello"))
    await server.until(lambda: server.calls_of("sendMessage"))
    send.cancel()
    await asyncio.wait({send})
    assert server.accepted == []
    server.release("later")
    await server.until(lambda: len(server.accepted) == 1)


async def test_a_network_that_breaks_breaks_every_call(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    server.script(steps.hold("never"))
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    send = asyncio.create_task(bot.send_message(ada, "hello"))
    await server.until(lambda: server.updates.parked and server.calls_of("sendMessage"))
    server.cut_all()
    for call in (poll, send):
        with pytest.raises(NetworkError):
            await call
    assert (await bot.send_message(ada, "again")).text == "again"


async def test_a_token_that_is_dead_or_none(server: TelegramServer, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await server.until(lambda: server.updates.parked)
    fresh = server.revoke_token()
    with pytest.raises(InvalidToken, match="Unauthorized"):
        await poll
    with pytest.raises(InvalidToken, match="Unauthorized"):
        await bot.get_me()
    malformed = stranger(server, token="12:short")
    async with malformed.request:
        with pytest.raises(InvalidToken, match="Not Found"):
            await malformed.get_me()
    assert server.strangers == ["getme", "getme"]
    async with stranger(server, token=fresh) as renewed:
        assert (await renewed.get_me()).id == server.bot.id
