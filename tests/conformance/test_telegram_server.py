"""The Telegram server of ``angelia.testing``, judged by a stranger: python-telegram-bot.

The library knows the real Bot API and nothing of us. It polls, sends, uploads, is flooded, refused,
moved and cut off here, and must understand each time what happened. What it was told is compared
with the server's truth, so an answer that is right for the wrong reason is found as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from telegram import (
    Bot,
    MessageEntity,
    Update,
)
from telegram.error import (
    ChatMigrated,
    Conflict,
    Forbidden,
)
from telegram.ext import Application, ContextTypes, MessageHandler, filters
from tests.conformance.telegram_stranger import patience_s, refused, stranger

from angelia.testing.telegram_server import TelegramServer


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Bot]:
    async with stranger(server) as bot:
        yield bot


# -- updates ---------------------------------------------------------------------------------


async def test_it_is_a_bot(server: TelegramServer, bot: Bot) -> None:
    me = await bot.get_me()
    assert (me.id, me.is_bot, me.username) == (server.bot.id, True, "angelia_test_bot")


async def test_its_application_polls_and_answers(server: TelegramServer) -> None:
    async def echo(update: Update, _: ContextTypes.DEFAULT_TYPE) -> None:
        assert update.effective_message is not None
        await update.effective_message.reply_text(f"you said {update.effective_message.text}", do_quote=True)

    application = Application.builder().bot(stranger(server)).build()
    application.add_handler(MessageHandler(filters.TEXT, echo))
    ada = server.world.private("Ada")
    async with application:
        await application.start()
        assert application.updater is not None
        await application.updater.start_polling(poll_interval=0.0, timeout=10)
        asked = [server.world.say(ada, "one"), server.world.say(ada, "two")]
        await server.until(lambda: len(server.accepted) == 2, patience_s)
        await application.updater.stop()
        await application.stop()
    assert [(message.text, message.reply_to) for message in server.accepted] == [
        ("you said one", asked[0]),
        ("you said two", asked[1]),
    ]
    assert server.updates.pending == []


async def test_an_update_comes_until_a_later_offset_confirms_it(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    for text in ("one", "two", "three"):
        server.world.say(ada, text)
    first = await bot.get_updates()
    again = await bot.get_updates()
    assert [update.update_id for update in first] == [update.update_id for update in again]
    assert [update.update_id for update in await bot.get_updates(limit=2)] == [
        update.update_id for update in first[:2]
    ]
    rest = await bot.get_updates(offset=first[1].update_id)
    assert [update.message.text for update in rest if update.message] == ["two", "three"]
    assert await bot.get_updates(offset=first[2].update_id + 1) == ()
    assert await bot.get_updates() == ()


async def test_a_negative_offset_forgets_what_is_older(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    for text in ("one", "two", "three"):
        server.world.say(ada, text)
    last = await bot.get_updates(offset=-1)
    assert [update.message.text for update in last if update.message] == ["three"]
    assert len(await bot.get_updates()) == 1


async def test_an_offset_from_another_life_confirms_nothing(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    server.updates.renumber(50)
    server.world.say(ada, "after the idle week")
    assert [update.update_id for update in await bot.get_updates(offset=900_000_001)] == [50]


async def test_what_was_confirmed_may_come_again(server: TelegramServer, bot: Bot) -> None:
    server.world.say(server.world.private("Ada"), "hello")
    (first,) = await bot.get_updates()
    (content,) = server.updates.pending
    poll = asyncio.create_task(bot.get_updates(offset=first.update_id + 1, timeout=30))
    await server.until(lambda: server.updates.parked)
    server.updates.repeat(content)
    (again,) = await poll
    assert again == first
    assert server.updates.handed_out == [[first.update_id]] * 2


async def test_a_long_poll_ends_when_something_comes(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await server.until(lambda: server.updates.parked)
    server.world.say(ada, "hello")
    (update,) = await poll
    assert update.message is not None
    assert update.message.text == "hello"


async def test_a_poll_that_left_takes_nothing_along(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await server.until(lambda: server.updates.parked)
    poll.cancel()
    server.world.say(ada, "hello")
    assert len(await bot.get_updates()) == 1


async def test_only_wanted_kinds_come(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    await bot.get_updates(allowed_updates=["edited_message"])
    message = server.world.say(ada, "hello")
    server.world.edit(ada, message, "hello there")
    (update,) = await bot.get_updates()
    assert update.edited_message is not None
    assert (update.edited_message.message_id, update.edited_message.text) == (message, "hello there")
    assert update.edited_message.edit_date is not None


async def test_the_older_of_two_pollers_is_sent_away(server: TelegramServer, bot: Bot) -> None:
    older = asyncio.create_task(bot.get_updates(timeout=30))
    await server.until(lambda: server.updates.parked)
    async with stranger(server) as second:
        newer = asyncio.create_task(second.get_updates(timeout=30))
        with pytest.raises(Conflict, match="terminated by other getUpdates request"):
            await older
        server.world.say(server.world.private("Ada"), "hello")
        assert len(await newer) == 1


async def test_polling_beside_a_webhook_is_a_conflict(server: TelegramServer, bot: Bot) -> None:
    await bot.set_webhook("http://127.0.0.1:9/hook", secret_token="s-1")
    with pytest.raises(Conflict, match="can't use getUpdates method while webhook is active"):
        await bot.get_updates()
    assert (await bot.get_webhook_info()).url == "http://127.0.0.1:9/hook"
    await bot.delete_webhook()
    assert await bot.get_updates() == ()
    assert (await bot.get_webhook_info()).url == ""


# -- what people do --------------------------------------------------------------------------


async def told(bot: Bot) -> list[Any]:
    """Every message of the updates that wait."""
    return [update.effective_message for update in await bot.get_updates()]


async def test_people_write_as_people_do(server: TelegramServer, bot: Bot) -> None:
    world = server.world
    ada, bob = world.private("Ada", "ada"), world.person("Bob")
    group = world.group("Friends")
    question = world.say(group, "/ask@angelia_test_bot what? @angelia_test_bot", bob)
    world.say(group, "this", ada, reply_to=question, quote="what?")
    pieces = world.paste(ada, "😀" * 2048 + "rest of the paste")
    album = world.album(ada, caption="two dots")
    world.voice(ada)
    asked, answer, *others = await told(bot)
    assert asked.entities[0].type == MessageEntity.BOT_COMMAND
    assert asked.parse_entity(asked.entities[1]) == "@angelia_test_bot"
    assert asked.from_user.first_name == "Bob"
    assert asked.chat.type == "group"
    assert (answer.reply_to_message.message_id, answer.quote.text) == (question, "what?")
    assert [message.text for message in others[:2]] == ["😀" * 2048, "rest of the paste"]
    assert [message.message_id for message in others[:4]] == pieces + album
    assert others[2].media_group_id == others[3].media_group_id is not None
    assert [message.caption for message in others[2:4]] == ["two dots", None]
    assert others[4].voice.mime_type == "audio/ogg"


async def test_a_file_that_somebody_sent_is_fetched(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    server.world.document(ada, "notes.txt", b"some notes", "read this")
    (message,) = await told(bot)
    assert (message.document.file_name, message.caption) == ("notes.txt", "read this")
    file = await message.document.get_file()
    assert bytes(await file.download_as_bytearray()) == b"some notes"
    server.media.download_bytes_max = 5
    with refused("file is too big"):
        await bot.get_file(message.document.file_id)
    with refused("invalid file_id"):
        await bot.get_file("nothing")


async def test_membership_and_service_messages_are_seen(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    server.world.block(ada)
    (update,) = await bot.get_updates()
    assert update.my_chat_member is not None
    assert update.my_chat_member.new_chat_member.status == "kicked"
    with pytest.raises(Forbidden, match="bot was blocked by the user"):
        await bot.send_message(ada, "hello?")
    server.world.unblock(ada)
    assert (await bot.send_message(ada, "hello!")).text == "hello!"


async def test_a_group_becomes_a_supergroup(server: TelegramServer, bot: Bot) -> None:
    old = server.world.group("Friends")
    new = server.world.migrate(old)
    with pytest.raises(ChatMigrated) as error:
        await bot.send_message(old, "hello")
    assert error.value.new_chat_id == new
    await bot.send_message(new, "hello")
    assert [message.chat for message in server.accepted] == [new]
    before, after = await told(bot)
    assert (before.chat.id, before.migrate_to_chat_id) == (old, new)
    assert (after.chat.id, after.migrate_from_chat_id) == (new, old)


async def test_topics(server: TelegramServer, bot: Bot) -> None:
    world = server.world
    ada = world.person("Ada")
    forum = world.supergroup("Forum", forum=True)
    topic = world.topic(forum, "Plans")
    world.say(forum, "in the topic", ada, thread=topic)
    world.say(forum, "in General", ada)
    inside, general = await told(bot)
    assert (inside.message_thread_id, inside.is_topic_message) == (topic, True)
    assert inside.reply_to_message.forum_topic_created.name == "Plans"
    assert (general.message_thread_id, general.is_topic_message) == (None, None)
    await bot.send_message(forum, "here", message_thread_id=topic)
    await bot.send_message(forum, "there")
    assert [message.thread for message in server.accepted] == [topic, None]
    with refused("message thread not found"):
        await bot.send_message(forum, "General by its number", message_thread_id=1)
    world.close_topic(forum, topic)
    with refused("topic_closed"):
        await bot.send_message(forum, "late", message_thread_id=topic)
    world.delete_topic(forum, topic)
    with refused("message thread not found"):
        await bot.send_chat_action(forum, "typing", message_thread_id=topic)
    assert len(server.accepted) == 2


async def test_channel_posts_and_their_echoes(server: TelegramServer, bot: Bot) -> None:
    world = server.world
    group = world.supergroup("Discussion")
    channel = world.channel("News", linked_group=group)
    world.own_posts_come_back = True
    mine = await bot.send_message(channel, "from the bot")
    assert mine.sender_chat is not None
    echo, forward = await bot.get_updates()
    assert echo.channel_post is not None
    assert forward.message is not None
    assert (echo.channel_post.message_id, echo.channel_post.from_user) == (mine.message_id, None)
    assert (forward.message.chat.id, forward.message.is_automatic_forward) == (group, True)
