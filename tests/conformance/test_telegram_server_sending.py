"""What a stranger, python-telegram-bot, can send through our Telegram server: texts with markup, answers,
files, albums, edits; and what is refused for what it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest
from telegram import Bot, BotCommand, InputMediaDocument, InputMediaPhoto, MessageEntity, ReplyParameters
from telegram.error import NetworkError
from tests.conformance.telegram_stranger import refused, stranger

from angelia.testing.telegram_server import TelegramServer
from angelia.testing.telegram_server.acts import dot_png


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Bot]:
    async with stranger(server) as bot:
        yield bot


# -- sending ---------------------------------------------------------------------------------


async def test_text_with_markup_or_entities(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    sent = await bot.send_message(ada, "😀 <b>bold</b> &amp; <code>code</code>", parse_mode="HTML")
    assert sent.text == "😀 bold & code"
    assert [(entity.type, entity.offset, entity.length) for entity in sent.entities] == [
        ("bold", 3, 4),
        ("code", 10, 4),
    ]
    given = [MessageEntity("italic", 3, 4)]
    again = await bot.send_message(ada, "😀 text", entities=given)
    assert again.parse_entities() == {again.entities[0]: "text"}
    assert server.accepted[1].entities == ({"type": "italic", "offset": 3, "length": 4},)
    assert [message.message_id for message in server.accepted] == [sent.message_id, again.message_id]


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("<b>open", "HTML", "can't parse entities: can't find end tag corresponding to start tag \"b\""),
        ("a <value>", "HTML", 'unsupported start tag "value" at byte offset 2'),
        ("what.", "MarkdownV2", "character '.' is reserved and must be escaped"),
        ("é *open", "MarkdownV2", "can't find end of bold entity at byte offset 3"),
        ("snake_case", "Markdown", "can't find end of the entity starting at byte offset 5"),
        ("", None, "message text is empty"),
        (" \u200b\n", None, "text must be non-empty"),
        ("x" * 4097, None, "message is too long"),
        ("😀" * 2049, None, "message is too long"),
        ("x" * 32769, None, "text is too long"),
    ],
)
async def test_text_that_is_refused(
    server: TelegramServer, bot: Bot, text: str, mode: str | None, words: str
) -> None:
    ada = server.world.private("Ada")
    with refused(words):
        await bot.send_message(ada, text, parse_mode=mode)
    assert server.accepted == []
    await bot.send_message(ada, f"<b>{'x' * 4096}</b>", parse_mode="HTML")


async def test_answers_and_what_they_answer(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    question = server.world.say(ada, "why?")
    sent = await bot.send_message(ada, "because", reply_parameters=ReplyParameters(question))
    assert sent.reply_to_message is not None
    assert sent.reply_to_message.message_id == question
    server.world.delete_message(ada, question)
    with refused("message to be replied not found"):
        await bot.send_message(ada, "because", reply_parameters=ReplyParameters(question))
    lenient = ReplyParameters(question, allow_sending_without_reply=True)
    assert (await bot.send_message(ada, "because", reply_parameters=lenient)).reply_to_message is None
    assert [message.reply_to for message in server.accepted] == [question, None]


@pytest.mark.parametrize("kind", ["photo", "document", "voice", "audio", "video"])
async def test_files_are_uploaded(server: TelegramServer, bot: Bot, kind: str) -> None:
    ada = server.world.private("Ada")
    data = dot_png + kind.encode()
    send = getattr(bot, f"send_{kind}")
    sent = await send(ada, data, caption="<i>look</i>", parse_mode="HTML", filename="dot.png")
    assert sent.caption == "look"
    (accepted,) = server.accepted
    assert (accepted.sha256, accepted.text) == (hashlib.sha256(data).hexdigest(), "look")
    medium = getattr(sent, kind)
    again = await send(ada, medium[-1] if kind == "photo" else medium)
    assert server.accepted[1].sha256 == accepted.sha256
    assert again.caption is None
    with refused("message caption is too long"):
        await send(ada, data, caption="x" * 1025)
    assert len(server.accepted) == 2


async def test_a_file_that_is_no_picture(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    with refused("image_process_failed"):
        await bot.send_photo(ada, b"not a picture")
    assert (server.media.photo_bytes_max, server.media.upload_bytes_max) == (10 << 20, 50 << 20)
    server.media.photo_bytes_max, server.media.upload_bytes_max = 1000, 2000
    with refused("too big for a photo; the maximum size is 1000 bytes"):
        await bot.send_photo(ada, dot_png + bytes(1000))
    with pytest.raises(NetworkError, match="Request Entity Too Large"):
        await bot.send_document(ada, bytes(2001))
    with refused("file must be non-empty"):
        await bot.send_document(ada, b"", filename="empty.txt")
    assert server.accepted == []


async def test_albums(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    media = [InputMediaPhoto(dot_png, caption="both"), InputMediaPhoto(dot_png + b"2")]
    sent = await bot.send_media_group(ada, media)
    assert [message.message_id for message in server.accepted] == [message.message_id for message in sent]
    assert {message.album for message in server.accepted} == {sent[0].media_group_id}
    with refused("album"):
        await bot.send_media_group(ada, [InputMediaPhoto(dot_png), InputMediaDocument(b"x")])
    assert len(server.accepted) == 2


async def test_edits_and_chat_actions(server: TelegramServer, bot: Bot) -> None:
    ada = server.world.private("Ada")
    sent = await bot.send_message(ada, "one")
    await bot.edit_message_text("two", ada, sent.message_id)
    with refused("message is not modified"):
        await bot.edit_message_text("two", ada, sent.message_id)
    with refused("message to edit not found"):
        await bot.edit_message_text("two", ada, 999)
    with refused("message can't be edited"):
        await bot.edit_message_text("two", ada, server.world.say(ada, "hers"))
    assert await bot.send_chat_action(ada, "typing")
    assert [(message.method, message.text) for message in server.accepted] == [
        ("sendmessage", "one"),
        ("editmessagetext", "two"),
    ]


async def test_the_menu_and_the_chat(server: TelegramServer, bot: Bot) -> None:
    await bot.set_my_commands([BotCommand("why", "say why")])
    assert [command.command for command in await bot.get_my_commands()] == ["why"]
    await bot.delete_my_commands()
    assert await bot.get_my_commands() == ()
    with refused("bot_command_invalid"):
        await bot.set_my_commands([BotCommand("Not a command", "x")])
    forum = server.world.supergroup("Forum", forum=True)
    chat = await bot.get_chat(forum)
    assert (chat.title, chat.is_forum, chat.type) == ("Forum", True, "supergroup")
